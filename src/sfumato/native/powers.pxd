# Exponentials, logarithms and powers of rows of numbers for other native modules.

from .blas cimport real

cdef void add_exponentials(
    const real* x, double shift, Py_ssize_t n, double* out, double* turns, double* total,
) noexcept nogil

cdef void log2(
    const double* x, Py_ssize_t n, double* out, double* inverse, double* counts, double* mantissas,
) noexcept nogil

cdef void exp2(const double* x, Py_ssize_t n, double* out, double* turns) noexcept nogil

cdef void single_powers(
    const float* x, float power, Py_ssize_t n, float* out, float* counts, float* mantissas,
) noexcept nogil
