"""Products of few rows with a tile of columns, which are two to three times as fast as in BLAS."""

from .blas cimport multiply_strided, multiply_transposed
from .vectors cimport CLONES


cdef cloned multiply_tile(
    const real* A, Py_ssize_t to_next, const real* B, real* C, Py_ssize_t m, Py_ssize_t n,
    Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B for A (m, p), and B (p, n) and C, whose rows are TILE apart."""
    cdef real sums[2 * TILE]
    cdef real a0, a1, a2, a3, b0, b1, b2, b3, x0, x1, x2, x3
    cdef Py_ssize_t j, c, i, r
    cdef const real* one
    cdef const real* other
    cdef const real* row0
    cdef const real* row1
    cdef const real* row2
    cdef const real* row3
    if not CLONES:  # BLAS has loops for every processor
        multiply_strided(A, to_next, B, TILE, C, TILE, m, n, p)
        return
    for j in range(0, m, 2):
        one = A + j * to_next
        other = one + (to_next if j + 1 < m else 0)
        for c in range(0, p, 4):  # where rows of B are missing, the last one counts zero
            a0, a1, a2, a3 = one[c], 0.0, 0.0, 0.0
            b0, b1, b2, b3 = other[c], 0.0, 0.0, 0.0
            row0 = row1 = row2 = row3 = B + c * TILE
            if c + 1 < p:
                row1, a1, b1 = row0 + TILE, one[c + 1], other[c + 1]
            if c + 2 < p:
                row2, a2, b2 = row1 + TILE, one[c + 2], other[c + 2]
            if c + 3 < p:
                row3, a3, b3 = row2 + TILE, one[c + 3], other[c + 3]
            if c == 0:
                for i in range(n):
                    x0, x1, x2, x3 = row0[i], row1[i], row2[i], row3[i]
                    sums[i] = a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                    sums[TILE + i] = b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
            else:
                for i in range(n):
                    x0, x1, x2, x3 = row0[i], row1[i], row2[i], row3[i]
                    sums[i] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                    sums[TILE + i] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        for r in range(min(2, m - j)):
            for i in range(n):
                C[(j + r) * TILE + i] = sums[r * TILE + i]


cdef cloned multiply_tile_transposed(
    const real* A, const real* B, real* C, Py_ssize_t m, Py_ssize_t n, Py_ssize_t p,
) noexcept nogil:
    """C (m, n) = A B' for A (m, p) and B (n, p), whose rows are TILE apart."""
    cdef real s00, s01, s02, s03, s10, s11, s12, s13, x, y
    cdef real found[8]
    cdef Py_ssize_t j, c, i, r
    cdef const real* one
    cdef const real* other
    cdef const real* b0
    cdef const real* b1
    cdef const real* b2
    cdef const real* b3
    if not CLONES:
        multiply_transposed(A, TILE, B, TILE, C, m, n, p)
        return
    for j in range(0, m, 2):
        one = A + j * TILE
        other = one + (TILE if j + 1 < m else 0)
        for c in range(0, n, 4):  # where rows are missing, the last one is taken again
            b0, b1 = B + c * TILE, B + min(c + 1, n - 1) * TILE
            b2, b3 = B + min(c + 2, n - 1) * TILE, B + min(c + 3, n - 1) * TILE
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            for i in range(p):
                x, y = one[i], other[i]
                s00 += x * b0[i]
                s01 += x * b1[i]
                s02 += x * b2[i]
                s03 += x * b3[i]
                s10 += y * b0[i]
                s11 += y * b1[i]
                s12 += y * b2[i]
                s13 += y * b3[i]
            found[0], found[1], found[2], found[3] = s00, s01, s02, s03
            found[4], found[5], found[6], found[7] = s10, s11, s12, s13
            for r in range(min(4, n - c)):
                C[j * n + c + r] = found[r]
                if j + 1 < m:
                    C[(j + 1) * n + c + r] = found[4 + r]
