# Sums of mixtures over blocks of objects for other native modules.

from .blas cimport real

cdef double gaussian_walk(
    const real* stack, Py_ssize_t n_blocks, Py_ssize_t height, Py_ssize_t b, const real* weights,
    const real* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t tile, double* sums, real* work,
    double* spare,
) noexcept nogil

cdef Py_ssize_t gaussian_work(Py_ssize_t k, Py_ssize_t q, Py_ssize_t tile) noexcept nogil
