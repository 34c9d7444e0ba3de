# Exponentials, logarithms and powers of rows of numbers for other native modules.

from .blas cimport real
from .vectors cimport cloned

cdef cloned add_exponentials(
    const real* x, double shift, Py_ssize_t n, double* out, double* turns, double* total,
) noexcept nogil

cdef cloned log2(
    const double* x, Py_ssize_t n, double* out, double* counts, double* mantissas,
) noexcept nogil

cdef cloned powers(
    const real* x, real power, Py_ssize_t n, real* out, real* counts, real* mantissas,
) noexcept nogil
