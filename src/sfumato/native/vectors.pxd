# Functions compiled for several kinds of processor; the one for this machine is taken when a module
# is loaded. Loops must stand in them, not in functions that they call.

cdef enum:
    LINE = 64  # bytes of a cache line

cdef extern from *:
    """
    #ifdef SFUMATO_CLONES
    #define CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
    #define NARROW __attribute__((target_clones("arch=x86-64-v3", "default")))
    #else
    #define SFUMATO_CLONES 0
    #define CLONED
    #define NARROW
    #endif
    #ifdef __GNUC__
    #define INLINED inline __attribute__((always_inline))
    #else
    #define INLINED inline
    #endif
    """
    ctypedef void cloned "CLONED void"  # the type of what they return
    ctypedef void narrow "NARROW void"  # the same without vectors as long as a cache line
    ctypedef void inlined "INLINED void"  # that of functions that become a part of them
    bint CLONES "SFUMATO_CLONES"  # whether there is more than one


cdef inline double* aligned(double* memory) noexcept nogil:
    """The first cache line in ``memory`` (a line more than is needed), so that no vector spans two.
    """
    return <double*> ((<size_t> memory + LINE - 1) // LINE * LINE)
