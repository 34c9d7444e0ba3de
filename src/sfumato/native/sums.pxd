# Sums of mixtures over blocks of objects for other native modules.

from .blas cimport real

cdef double gaussian_walk(
    const real* Z, Py_ssize_t height, Py_ssize_t b, const real* weights, const real* rows,
    Py_ssize_t k, Py_ssize_t q, double* sums, double* work,
) noexcept nogil

cdef Py_ssize_t gaussian_work(Py_ssize_t k, Py_ssize_t q) noexcept nogil
