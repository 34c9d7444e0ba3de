# Ctrl-C in long loops.

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1


cdef inline int check_signals() except -1 nogil:
    """Raise what a signal asks for, such as KeyboardInterrupt; to be called between blocks.

    In a thread other than the main one it does nothing.
    """
    with gil:
        PyErr_CheckSignals()
    return 0
