"""Small Gaussian mixtures as members of an ensemble: the loops of ``models.consensus``.

Coefficients (k, q) of z(y) = (1, y, y_a y_b) describe the components; see ``models.consensus.mixtures``.
"""

import numpy as np
from libc.math cimport INFINITY, NAN, log
from libc.string cimport memset

from .blas cimport real
from .matrices cimport add_square, cholesky, invert_factor, precision
from .powers cimport add_exponentials
from .signals cimport check_signals
from .sums cimport gaussian_walk, gaussian_work

cdef double LOG_2PI = 1.8378770664093453
cdef double LEAST_MASS = 1e-10  # mass of a component below which it is dropped
cdef double LEAST = 1e-12  # smaller posterior weights are ignored if values are missing
cdef double NOTHING = 1e-303  # smaller exponentials count as zero relative to the largest
cdef Py_ssize_t TILE = 512  # objects per tile
cdef double LONG = 1e8  # products between checks for Ctrl-C


def climb(Z, weights, sums, Py_ssize_t d, double prior, Py_ssize_t max_steps, double tol):
    """Coefficients (k, q) and the mean log-density after EM steps from ``sums``; NaN if all
    densities of an object vanish.

    ``Z`` (q, n) holds z(y), and ``weights`` (n,) may be None.
    """
    cdef const double[:, ::1] data = np.ascontiguousarray(Z, dtype=np.float64)
    cdef double[:, ::1] totals = np.array(sums, dtype=np.float64, order="C")
    cdef Py_ssize_t k = totals.shape[0], q = totals.shape[1], n = data.shape[1]
    if data.shape[0] != q or not k or not n:
        raise ValueError(f"Z must be ({q}, n) with at least one object and one component")
    given = np.empty(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    if weights is not None and given.shape != (n,):
        raise ValueError(f"weights must be ({n},), got {given.shape}")
    cdef const double[::1] own = given
    rows, room = np.empty((k, q)), np.empty(gaussian_work(k, q))
    cdef double[:, ::1] out = rows
    cdef double[::1] first = room, second = _scratch(d, q)
    cdef double total = given.sum() if weights is not None else n
    cdef double before = -INFINITY, now = NAN, work = 0.0
    cdef Py_ssize_t step
    with nogil:
        for step in range(max_steps):
            _maximize(totals, d, prior, out, second)
            memset(&totals[0, 0], 0, k * q * sizeof(double))
            now = gaussian_walk(
                &data[0, 0], q, n, &own[0] if own.shape[0] else NULL, &out[0, 0], k, q,
                &totals[0, 0], &first[0],
            ) / total
            if not now - before >= tol:
                break
            before = now
            work += <double> n * k * q
            if work > LONG:
                work = 0.0
                check_signals()
    return rows, now


def maximize(sums, Py_ssize_t d, double prior):
    """Coefficients (k, q) of z(y) from weighted sums (k, q) of z(y).

    NaN if a covariance is not positive definite.
    """
    cdef const double[:, ::1] totals = np.ascontiguousarray(sums, dtype=np.float64)
    rows = np.empty(sums.shape)
    cdef double[:, ::1] out = rows
    cdef double[::1] work = _scratch(d, totals.shape[1])
    with nogil:
        _maximize(totals, d, prior, out, work)
    return rows


def _scratch(d, q):
    if (d + 1) * (d + 2) != 2 * q:
        raise ValueError(f"sums must have {(d + 1) * (d + 2) // 2} columns, got {q}")
    return np.empty(3 * d * d + d)


cdef void _maximize(
    const double[:, ::1] sums, Py_ssize_t d, double prior, double[:, ::1] out, double[::1] work,
) noexcept nogil:
    cdef Py_ssize_t k = sums.shape[0], j
    cdef double total = 0.0
    for j in range(k):
        total += sums[j, 0] if sums[j, 0] > LEAST_MASS else LEAST_MASS
    for j in range(k):
        _component(&sums[j, 0], d, prior, total, &work[0], &out[j, 0])


cdef void _component(
    const double* sums, Py_ssize_t d, double prior, double total, double* work, double* row,
) noexcept nogil:
    """Compute the coefficients of one component."""
    cdef Py_ssize_t a, b, at = d + 1
    cdef double mass = sums[0] if sums[0] > LEAST_MASS else LEAST_MASS
    cdef double* mean = work
    cdef double* C = mean + d
    cdef double* inverse = C + d * d
    cdef double* P = inverse + d * d
    for a in range(d):
        mean[a] = sums[1 + a] / mass
    for a in range(d):
        for b in range(a, d):
            C[b * d + a] = sums[at] / mass - mean[a] * mean[b]
            at += 1
        C[a * d + a] += prior / (mass + 1e-3)
    if not cholesky(C, d, 0.0, C):
        for a in range(at):
            row[a] = NAN
        return
    row[0] = log(mass / total) + 0.5 * (precision(C, d, inverse, P) - d * LOG_2PI)
    add_square(P, mean, d, at, row)


def normalize_members(real[:, ::1] logits, offsets):
    """Softmax of every column of ``logits`` (K, n) over the rows of each member, in place."""
    cdef const Py_ssize_t[::1] ends = np.ascontiguousarray(offsets, dtype=np.intp)
    cdef Py_ssize_t n = logits.shape[1], m, tile, start, width
    rising = len(offsets) and np.min(offsets) >= 0 and np.max(offsets) <= len(logits)
    if not rising or (np.diff(offsets) < 1).any():
        raise ValueError(f"offsets must rise from 0 to {len(logits)}")
    cdef double[:, ::1] work = np.empty((4, TILE))
    for m in range(ends.shape[0] - 1):
        with nogil:
            for tile in range((n + TILE - 1) // TILE):
                start = tile * TILE
                width = min(TILE, n - start)
                _softmax(&logits[ends[m], start], ends[m + 1] - ends[m], n, width, work)
        check_signals()


cdef void _softmax(
    real* logits, Py_ssize_t k, Py_ssize_t stride, Py_ssize_t width, double[:, ::1] work,
) noexcept nogil:
    """Softmax of a few columns, in place."""
    cdef Py_ssize_t i, j
    cdef real* row
    cdef double* top = &work[0, 0]
    cdef double* total = &work[1, 0]
    cdef double* powers = &work[2, 0]
    for i in range(width):
        top[i], total[i] = logits[i], 0.0
    for j in range(1, k):
        row = logits + j * stride
        for i in range(width):
            top[i] = row[i] if row[i] > top[i] else top[i]
    for j in range(k):
        row = logits + j * stride
        for i in range(width):
            powers[i] = row[i] - top[i]
        add_exponentials(powers, 0.0, width, powers, &work[3, 0], total)
        for i in range(width):
            row[i] = <real> powers[i] if powers[i] > NOTHING else 0
    for i in range(width):
        total[i] = 1.0 / total[i]
    for j in range(k):
        row = logits + j * stride
        for i in range(width):
            row[i] = <real> (row[i] * total[i])


cdef class Incomplete:
    """Objects with missing values, by patterns, and components, as in ``em.Partial``.

    ``Q`` (k, d, d) and ``linear`` (k, d) are precisions and precisions times means, ``Y`` (m, d)
    expected coordinates sorted by pattern, ``starts`` (P + 1,) the first objects of the patterns,
    and ``spreads`` (P, r, d) their unknown directions F.
    """

    cdef const double[:, :, ::1] Q, spreads
    cdef const double[:, ::1] linear, Y
    cdef const Py_ssize_t[::1] starts
    cdef Py_ssize_t k, d, r, h
    cdef double[:, ::1] FM, root
    cdef double[::1] K, inverse, g, own, solved, y

    def __init__(self, Q, linear, Y, starts, spreads):
        self.Q, self.linear = np.ascontiguousarray(Q, np.float64), np.ascontiguousarray(linear)
        self.Y = np.ascontiguousarray(Y, dtype=np.float64)
        self.starts = np.ascontiguousarray(starts, dtype=np.intp)
        self.spreads = np.ascontiguousarray(spreads, dtype=np.float64)
        self.k, self.d, self.r = linear.shape[0], linear.shape[1], spreads.shape[1]
        if Q.shape != (self.k, self.d, self.d) or Y.shape[1:] != (self.d,):
            raise ValueError(f"Q and Y must have {self.d} coordinates")
        if spreads.shape[2] != self.d or len(starts) != len(spreads) + 1:
            raise ValueError(f"spreads must be (P, r, {self.d}), and starts must be (P + 1,)")
        if np.min(starts) < 0 or np.max(starts) > len(Y) or (np.diff(starts) < 0).any():
            raise ValueError(f"starts must rise from 0 to {len(Y)}")
        r, d = max(self.r, 1), max(self.d, 1)
        self.FM, self.root = np.empty((r, d)), np.empty((r, d))
        self.K, self.inverse = np.zeros(r * r), np.zeros(r * r)
        self.g, self.own, self.solved, self.y = (np.empty(size) for size in (r, r, r, d + 1))

    def correct(self, double[:, ::1] L):
        """Add  -log|K| / 2 + g'K^(-1)g / 2  to ``L`` (k, m)."""
        cdef Py_ssize_t p, j, i, a
        cdef double log_root, total
        if L.shape[0] != self.k or L.shape[1] != self.Y.shape[0]:
            raise ValueError(f"L must be ({self.k}, {len(self.Y)})")
        for p in range(self.starts.shape[0] - 1):
            with nogil:
                self.h = self._n_unknown(p)
                for j in range(self.k):
                    log_root = self._prepare_unknown(p, j)
                    for i in range(self.starts[p], self.starts[p + 1]):
                        self._solve(i)
                        total = 0.0
                        for a in range(self.h):
                            total += self.solved[a] * self.solved[a]
                        L[j, i] += log_root + 0.5 * total
            if p % 64 == 0:
                check_signals()

    def sums(self, share):
        """Moments (k, d + 1, d + 1) of (1, y), upper triangles, weighted by ``share`` (k, m)."""
        cdef const double[:, ::1] weights = np.ascontiguousarray(share, dtype=np.float64)
        found = np.zeros((self.k, self.d + 1, self.d + 1))
        cdef double[:, :, ::1] total = found
        cdef Py_ssize_t p, j
        if weights.shape[0] != self.k or weights.shape[1] != self.Y.shape[0]:
            raise ValueError(f"share must be ({self.k}, {len(self.Y)})")
        for p in range(self.starts.shape[0] - 1):
            with nogil:
                self.h = self._n_unknown(p)
                for j in range(self.k):
                    self._add(p, j, weights, total)
            if p % 64 == 0:
                check_signals()
        return found

    cdef void _add(
        self, Py_ssize_t p, Py_ssize_t j, const double[:, ::1] share, double[:, :, ::1] total,
    ) noexcept nogil:
        """Add the objects of a pattern to the moments of a component."""
        cdef Py_ssize_t i, a, b, c, e, d = self.d
        cdef double mass = 0.0, weight
        cdef double* y = &self.y[0]
        for i in range(self.starts[p], self.starts[p + 1]):
            mass += share[j, i]
        if not mass >= LEAST:
            return
        self._prepare_unknown(p, j)
        for a in range(self.h):
            for c in range(d):
                self.root[a, c] = 0.0
                for b in range(a + 1):
                    self.root[a, c] += self.inverse[a * self.h + b] * self.spreads[p, b, c]
        y[0] = 1.0
        for i in range(self.starts[p], self.starts[p + 1]):
            weight = share[j, i]
            if not weight >= LEAST:
                continue
            self._solve(i)
            for c in range(d):
                y[1 + c] = self.Y[i, c]
                for a in range(self.h):
                    y[1 + c] -= self.root[a, c] * self.solved[a]
            for c in range(d + 1):
                for e in range(c, d + 1):
                    total[j, c, e] += weight * y[c] * y[e]
        for a in range(self.h):
            for c in range(d):
                for e in range(c, d):
                    total[j, 1 + c, 1 + e] += mass * self.root[a, c] * self.root[a, e]

    cdef Py_ssize_t _n_unknown(self, Py_ssize_t p) noexcept nogil:
        """Number of rows of F before the rows of zeros at the end."""
        cdef Py_ssize_t h = self.r, c
        while h > 0:
            for c in range(self.d):
                if self.spreads[p, h - 1, c] != 0.0:
                    return h
            h -= 1
        return 0

    cdef double _prepare_unknown(self, Py_ssize_t p, Py_ssize_t j) noexcept nogil:
        """Compute F (Q - I), F times ``linear``, and the inverse Cholesky factor of K; returns
        -log|K| / 2.
        """
        cdef Py_ssize_t a, b, c, e
        cdef double entry
        for a in range(self.h):
            self.own[a] = 0.0
            for c in range(self.d):
                self.FM[a, c] = -self.spreads[p, a, c]
                self.own[a] += self.spreads[p, a, c] * self.linear[j, c]
            for e in range(self.d):
                for c in range(self.d):
                    self.FM[a, c] += self.spreads[p, a, e] * self.Q[j, e, c]
        for a in range(self.h):
            for b in range(a + 1):
                entry = 1.0 if a == b else 0.0
                for c in range(self.d):
                    entry += self.FM[a, c] * self.spreads[p, b, c]
                self.K[a * self.h + b] = entry
        if self.h == 0:
            return 0.0
        cholesky(&self.K[0], self.h, 0.0, &self.K[0])
        return invert_factor(&self.K[0], self.h, &self.inverse[0])

    cdef void _solve(self, Py_ssize_t i) noexcept nogil:
        """Compute the inverse factor of K times g, for one object."""
        cdef Py_ssize_t a, b, c
        for a in range(self.h):
            self.g[a] = -self.own[a]
            for c in range(self.d):
                self.g[a] += self.FM[a, c] * self.Y[i, c]
        for a in range(self.h):
            self.solved[a] = 0.0
            for b in range(a + 1):
                self.solved[a] += self.inverse[a * self.h + b] * self.g[b]
