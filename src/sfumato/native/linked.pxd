cdef class Units:
    cdef readonly Py_ssize_t size, largest
    cdef Py_ssize_t n_pieces, n_told
    cdef double most
    cdef Py_ssize_t[::1] labels, at, clusters, first, members
    cdef double[::1] told, pulls, work
    cdef double join(self, double* A, Py_ssize_t k, Py_ssize_t width) noexcept nogil
