cdef class Units:
    cdef readonly Py_ssize_t size, largest
    cdef Py_ssize_t n_pieces, n_fixed
    cdef Py_ssize_t[::1] labels, at, clusters, first, members
    cdef double[::1] fixed, pulls, work
    cdef double join(self, double* A, Py_ssize_t k) noexcept nogil
