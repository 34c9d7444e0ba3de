# Matrix products of few rows in tiles of many columns, for other native modules.

from libc.string cimport memcpy

from .blas cimport real
from .vectors cimport cloned

cdef enum:
    TILE = 192  # columns of a tile: twenty rows of them stay in the first-level cache

cdef cloned multiply_tile(
    const real* A, Py_ssize_t to_next, const real* B, real* C, Py_ssize_t m, Py_ssize_t n,
    Py_ssize_t p,
) noexcept nogil

cdef cloned multiply_tile_transposed(
    const real* A, const real* B, real* C, Py_ssize_t m, Py_ssize_t n, Py_ssize_t p,
) noexcept nogil


cdef inline void copy_tile(
    const real* B, Py_ssize_t to_next, real* T, Py_ssize_t m, Py_ssize_t n,
) noexcept nogil:
    """Copy rows of B (m, n) to the rows of T, TILE apart, where they lie in the cache."""
    cdef Py_ssize_t j
    for j in range(m):
        memcpy(T + j * TILE, B + j * to_next, n * sizeof(real))
