# Ctrl-C in long loops.

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1


cdef inline int check_signals() except -1 nogil:
    """Raise the exception of a pending signal, such as KeyboardInterrupt; call between blocks.

    In a thread other than the main one it does nothing.
    """
    with gil:
        PyErr_CheckSignals()
    return 0
