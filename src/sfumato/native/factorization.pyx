"""Sweeps of the completely positive factorization, row by row: ``models.factorization.kernel``."""

import numpy as np
from libc.math cimport cbrt, fmax, sqrt

from .blas cimport real
from .signals cimport check_signals

ctypedef fused index:
    int
    long long

cdef Py_ssize_t BLOCK = 256  # rows between checks for Ctrl-C


cdef class Sweep:
    """The factor ``G`` (n, k), which is overwritten, S = G'G (k, k), which is updated, and for
    every object ``diagonal`` (n,) and ``copies`` (n,). ``exact`` selects the rule.
    """

    cdef Py_ssize_t n, k
    cdef bint exact
    cdef const double[::1] diagonal, copies
    cdef double[:, ::1] S, H, vectors

    def __init__(self, G, S, diagonal, copies, exact):
        self.n, self.k = G.shape
        if not G.size or S.shape != (self.k, self.k) or len(diagonal) != self.n:
            raise ValueError(f"G must not be empty, S ({self.k}, {self.k}), diagonal ({self.n},)")
        if len(copies) != self.n:
            raise ValueError(f"copies must be ({self.n},), got {np.shape(copies)}")
        self.S, self.exact = S, exact
        self.diagonal = np.ascontiguousarray(diagonal, dtype=np.float64)
        self.copies = np.ascontiguousarray(copies, dtype=np.float64)
        self.H, self.vectors = np.empty((self.k, self.k)), np.empty((3, self.k))

    def dense(self, const real[:, ::1] F, real[:, ::1] G, real[:, ::1] M, bint low):
        """Gain of a sweep, for the rows of a matrix, or of its factor if ``low`` (then M = F'G is
        updated, otherwise M is G).
        """
        cdef Py_ssize_t i, c, r, start, stop, m = F.shape[1], k = self.k
        if F.shape[0] != self.n or G.shape[0] != self.n or G.shape[1] != k:
            raise ValueError(f"F and G must have {self.n} rows")
        if M.shape[0] != m or M.shape[1] != k:
            raise ValueError(f"M must be ({m}, {k})")
        cdef double gained = 0.0, share
        cdef double* b = &self.vectors[0, 0]
        cdef double* change = &self.vectors[1, 0]
        for start in range(0, self.n, BLOCK):
            stop = min(start + BLOCK, self.n)
            with nogil:
                for i in range(start, stop):
                    for r in range(k):
                        b[r] = 0.0
                    for c in range(m):
                        share = F[i, c]
                        for r in range(k):
                            b[r] += share * M[c, r]
                    gained += self._row(i, &G[i, 0])
                    if low:
                        for c in range(m):
                            for r in range(k):
                                M[c, r] += <real> (F[i, c] * change[r])
            check_signals()
        return gained

    def sparse(
        self, const real[::1] data, const index[::1] indices, const index[::1] indptr,
        real[:, ::1] G, real[:, ::1] M, bint low,
    ):
        """The same as ``dense``, for the entries of a sparse F."""
        cdef Py_ssize_t i, e, r, start, stop, k = self.k
        if indptr.shape[0] != self.n + 1 or G.shape[0] != self.n or G.shape[1] != k:
            raise ValueError(f"F and G must have {self.n} rows")
        if M.shape[1] != k:
            raise ValueError(f"M must have {k} columns")
        cdef double gained = 0.0
        cdef double* b = &self.vectors[0, 0]
        cdef double* change = &self.vectors[1, 0]
        for start in range(0, self.n, BLOCK):
            stop = min(start + BLOCK, self.n)
            with nogil:
                for i in range(start, stop):
                    for r in range(k):
                        b[r] = 0.0
                    for e in range(indptr[i], indptr[i + 1]):
                        for r in range(k):
                            b[r] += <double> data[e] * M[indices[e], r]
                    gained += self._row(i, &G[i, 0])
                    if low:
                        for e in range(indptr[i], indptr[i + 1]):
                            for r in range(k):
                                M[indices[e], r] += <real> (data[e] * change[r])
            check_signals()
        return gained

    cdef double _row(self, Py_ssize_t i, real* g) noexcept nogil:
        """Update row i and S, and return the gain; ``b`` is overwritten, and the second vector
        becomes the change.
        """
        cdef Py_ssize_t k = self.k, r, s
        cdef double c = self.copies[i], own = self.diagonal[i], before = 0.0, after = 0.0
        cdef double gained = 0.0, curve
        cdef double* b = &self.vectors[0, 0]
        cdef double* past = &self.vectors[1, 0]
        cdef double* new = &self.vectors[2, 0]
        for r in range(k):
            past[r] = new[r] = g[r]
            before += past[r] * past[r]
        for r in range(k):
            b[r] -= own * past[r]
            for s in range(k):
                self.H[r, s] = self.S[r, s] - past[r] * past[s]
        self._entries(b, new, c, own, before)
        for r in range(k):
            g[r] = <real> new[r]
            new[r] = g[r]
            after += new[r] * new[r]
        for r in range(k):
            curve = -2.0 * b[r]
            for s in range(k):
                curve += self.H[r, s] * (past[s] + new[s])
                self.S[r, s] = self.H[r, s] + new[r] * new[s]
            gained += (past[r] - new[r]) * curve
        for r in range(k):
            past[r] = new[r] - past[r]
        # In float32, rounding may turn the gain of a step at the minimum negative.
        return fmax(0.0, gained + 0.5 * c * (after - before) * (2.0 * own - before - after))

    cdef void _entries(
        self, const double* b, double* g, double c, double own, double square,
    ) noexcept nogil:
        """Update each entry in turn: twice to its minimum, or once by the published rule."""
        cdef Py_ssize_t k = self.k, r, s, turn
        cdef double below, past, bend
        cdef const double* H
        for turn in range(2 if self.exact else 1):
            for r in range(k):
                H, below, past = &self.H[r, 0], 0.0, g[r]
                for s in range(k):
                    below += H[s] * g[s]
                if self.exact and c > 0.0:
                    bend = H[r] + c * (square - past * past - own)
                    g[r] = cubic_minimum(c, bend, b[r] - below + H[r] * past)
                elif self.exact:
                    g[r] = fmax(0.0, past + (b[r] - below) / H[r]) if H[r] > 0.0 else 0.0
                else:
                    below += c * square * past
                    bend = fmax(0.0, b[r] + c * own * past) / below if below > 0.0 else 0.0
                    g[r] = past * (bend if c == 0.0 else sqrt(sqrt(bend)))
                square += g[r] * g[r] - past * past


cpdef double cubic_minimum(double a, double h, double b) noexcept nogil:
    """The x >= 0 that minimises  a x^4 / 4 + h x^2 / 2 - b x,  for a > 0.

    Newton's method from above the largest root of the derivative converges monotonically.
    """
    cdef double x = sqrt(fmax(0.0, -h / a)) + cbrt(fmax(0.0, b) / a), curve, lower
    cdef int step
    # Above the largest root, the derivative a x^3 + h x - b is positive and convex.
    for step in range(100):
        curve = 3.0 * a * x * x + h
        if curve <= 0.0:
            return 0.0
        lower = x - (a * x * x * x + h * x - b) / curve
        if not lower < x:
            break
        x = fmax(lower, 0.0)
    # A stationary point is the minimum only if its value is below that at zero.
    return x if ((a * x * x / 4 + h / 2) * x - b) * x < 0.0 else 0.0
