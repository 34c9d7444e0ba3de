"""Visits of a Dirichlet process: objects leave their clusters one by one and choose again.

See ``models.dirichlet_process``: a table (``Component.seats``) holds the posteriors of all
clusters, which are updated one object at a time.
"""

import numpy as np
from libc.math cimport INFINITY, exp, isnan, lgamma, log, log1p

from .signals cimport check_signals

cdef double LONG = 2e6  # densities of a feature between checks for Ctrl-C


def visit(Seats seats, double[:, ::1] X, labels, choices, uniforms, double log_alpha, first):
    """Visit the objects from ``first`` on, and overwrite their ``labels`` (n,). Returns where the
    visits ended (before n if there is no room for another cluster), and the log probability of the
    choices.

    ``choices`` (n,) prescribes clusters; -1 means a draw by ``uniforms`` (n,).
    """
    cdef long long[::1] names = labels
    cdef const long long[::1] given = np.ascontiguousarray(choices, dtype=np.int64)
    cdef const double[::1] chances = np.ascontiguousarray(uniforms, dtype=np.float64)
    cdef Py_ssize_t n = X.shape[0], i = first
    if X.shape[1] != seats.d or names.shape[0] != n or given.shape[0] != n or chances.shape[0] != n:
        raise ValueError(f"X must have {seats.d} columns; labels, choices and uniforms {n} entries")
    if first < 0 or n and max(np.max(labels), np.max(choices)) >= seats.slots:
        raise ValueError(f"labels and choices must be below {seats.slots}")
    cdef double log_chance = 0.0, chance = 0.0, work = 0.0
    cdef bint room = True
    with nogil:
        while i < n:
            room = seats.seat(&X[i, 0], &names[i], given[i], chances[i], log_alpha, &chance)
            if not room:
                break
            log_chance += chance
            i += 1
            work += seats.slots * seats.d
            if work > LONG:
                work = 0.0
                check_signals()
    return i, log_chance


cdef class Seats:
    """Clusters that an object may join."""

    cdef Py_ssize_t slots, d
    cdef long long[::1] counts
    cdef double[::1] scores, work

    def __init__(self, table, d):
        self.counts, self.slots, self.d = table.counts, len(table.counts), d
        if not self.slots:
            raise ValueError("a table must have seats")
        self.scores, self.work = np.empty(self.slots), np.empty(2 * max(d, 1))

    cdef void prepare(self, const double* x) noexcept nogil:
        """Compute what the densities of all clusters share."""

    cdef double log_density(self, Py_ssize_t k, const double* x) noexcept nogil:
        """Log predictive density of ``x`` in cluster ``k``."""

    cdef void shift(self, Py_ssize_t k, const double* x, int sign) noexcept nogil:
        """Add ``x`` to cluster ``k`` (sign 1) or remove it (sign -1); the count has not changed
        yet.
        """

    cdef void clear(self, Py_ssize_t k) noexcept nogil:
        """Reset cluster ``k`` to the prior."""

    cdef bint seat(
        self, const double* x, long long* label, long long choice, double uniform,
        double log_alpha, double* chance,
    ) noexcept nogil:
        """Take an object out of its cluster and let it choose again; False if there is no room."""
        cdef Py_ssize_t k, free = -1
        if label[0] >= 0:
            self.shift(label[0], x, -1)
            self.counts[label[0]] -= 1
            if self.counts[label[0]] == 0:
                self.clear(label[0])
            label[0] = -1
        if log_alpha > -INFINITY:
            for k in range(self.slots):
                if self.counts[k] == 0:
                    free = k
                    break
            else:
                return False
        self.prepare(x)
        for k in range(self.slots):
            if k == free:
                self.scores[k] = self.log_density(k, x) + log_alpha
            elif self.counts[k] == 0:
                self.scores[k] = -INFINITY
            else:
                self.scores[k] = self.log_density(k, x) + log(<double> self.counts[k])
        k = _choose(&self.scores[0], self.slots, choice, uniform, chance)
        self.shift(k, x, 1)
        self.counts[k] += 1
        label[0] = k
        return True


cdef Py_ssize_t _choose(
    double* scores, Py_ssize_t n, Py_ssize_t choice, double uniform, double* chance,
) noexcept nogil:
    """Slot drawn in proportion to exp(scores), or the prescribed one, and its log ``chance``.

    The first slot if all scores are NaN or -inf.
    """
    cdef Py_ssize_t k
    cdef double top = -INFINITY, total = 0.0, mass = 0.0
    for k in range(n):
        if isnan(scores[k]):
            scores[k] = -INFINITY
        top = scores[k] if scores[k] > top else top
    chance[0] = 0.0
    if top == -INFINITY or top == INFINITY:
        return choice if choice > 0 else 0
    for k in range(n):
        total += exp(scores[k] - top)
    if choice < 0:
        for k in range(n):
            mass += exp(scores[k] - top)
            if scores[k] > -INFINITY:
                choice = k
            if mass > uniform * total:
                break
    chance[0] = scores[choice] - top - log(total)
    return choice


cdef class FullSeats(Seats):
    """Normal clusters."""

    cdef double[:, ::1] means
    cdef double[:, :, ::1] inverses
    cdef double[::1] log_dets
    cdef const double[::1] table, empty_mean
    cdef const double[:, ::1] empty_inverse
    cdef double kappa, df, empty_log_det

    def __init__(self, table):
        super().__init__(table, table.means.shape[1])
        self.means, self.log_dets = np.ascontiguousarray(table.means), table.log_dets
        self.inverses = np.ascontiguousarray(table.inverses)
        self.table, self.kappa, self.df = table.table, table.kappa, table.df
        mean, inverse, self.empty_log_det = table.empty
        self.empty_mean, self.empty_inverse = map(np.ascontiguousarray, (mean, inverse))

    cdef double log_density(self, Py_ssize_t k, const double* x) noexcept nogil:
        cdef Py_ssize_t a, b
        cdef double square = 0.0, row, own = self.kappa + self.counts[k]
        cdef double* gap = &self.work[0]
        cdef const double* inverse
        for a in range(self.d):
            gap[a] = x[a] - self.means[k, a]
        for a in range(self.d):
            row, inverse = 0.0, &self.inverses[k, a, 0]
            for b in range(self.d):
                row += inverse[b] * gap[b]
            square += row * gap[a]
        return (
            self.table[self.counts[k]] - 0.5 * self.log_dets[k]
            - 0.5 * (self.df + self.counts[k] + 1) * log1p(own / (own + 1) * square)
        )

    cdef void shift(self, Py_ssize_t k, const double* x, int sign) noexcept nogil:
        cdef Py_ssize_t a, b, d = self.d
        cdef double kappa = self.kappa + self.counts[k], growth = 0.0
        cdef double weight = sign * kappa / (kappa + sign)
        cdef double* gap = &self.work[0]
        cdef double* direction = gap + d
        for a in range(d):
            gap[a] = x[a] - self.means[k, a]
        for a in range(d):
            direction[a] = 0.0
            for b in range(d):
                direction[a] += self.inverses[k, a, b] * gap[b]
            growth += weight * gap[a] * direction[a]
        for a in range(d):
            self.means[k, a] += sign / (kappa + sign) * gap[a]
            for b in range(d):
                self.inverses[k, a, b] -= weight / (1 + growth) * direction[a] * direction[b]
        self.log_dets[k] += log1p(growth)

    cdef void clear(self, Py_ssize_t k) noexcept nogil:
        self.means[k, :] = self.empty_mean
        self.inverses[k, :, :] = self.empty_inverse
        self.log_dets[k] = self.empty_log_det


cdef class DiagonalSeats(Seats):
    """Normal clusters with independent features, which may have missing values."""

    cdef double[:, ::1] means, scales
    cdef long long[:, ::1] seen
    cdef const double[:, ::1] table
    cdef const double[::1] kappa, shape, empty_mean, empty_scale

    def __init__(self, table):
        super().__init__(table, table.means.shape[1])
        self.means, self.scales, self.seen, self.table, self.kappa, self.shape = map(
            np.ascontiguousarray,
            (table.means, table.scales, table.seen, table.table, table.kappa, table.shape),
        )
        self.empty_mean, self.empty_scale = map(np.ascontiguousarray, table.empty)

    cdef double log_density(self, Py_ssize_t k, const double* x) noexcept nogil:
        cdef Py_ssize_t a
        cdef double density = 0.0, own, gap, growth
        for a in range(self.d):
            if not isnan(x[a]):
                own, gap = self.kappa[a] + self.seen[k, a], x[a] - self.means[k, a]
                growth = log1p(0.5 * own / (own + 1) * gap * gap / self.scales[k, a])
                density += self.table[self.seen[k, a], a] - 0.5 * log(self.scales[k, a])
                density -= (self.shape[a] + 0.5 * self.seen[k, a] + 0.5) * growth
        return density

    cdef void shift(self, Py_ssize_t k, const double* x, int sign) noexcept nogil:
        cdef Py_ssize_t a
        cdef double kappa, gap
        for a in range(self.d):
            if not isnan(x[a]):
                kappa, gap = self.kappa[a] + self.seen[k, a], x[a] - self.means[k, a]
                self.scales[k, a] += 0.5 * sign * kappa / (kappa + sign) * gap * gap
                self.means[k, a] += sign / (kappa + sign) * gap
                self.seen[k, a] += sign

    cdef void clear(self, Py_ssize_t k) noexcept nogil:
        self.seen[k, :] = 0
        self.means[k, :] = self.empty_mean
        self.scales[k, :] = self.empty_scale


cdef class CountSeats(Seats):
    """Clusters of counts of categories."""

    cdef double[:, ::1] concentrations, totals
    cdef Py_ssize_t n_groups
    cdef const double[::1] empty_concentration, empty_total

    def __init__(self, table):
        super().__init__(table, table.concentrations.shape[1])
        self.n_groups = table.n_groups
        if not 0 < self.n_groups <= self.d:
            raise ValueError(f"groups must be between 1 and {self.d}, got {self.n_groups}")
        self.concentrations = np.ascontiguousarray(table.concentrations)
        self.totals = np.ascontiguousarray(table.totals)
        self.empty_concentration, self.empty_total = map(np.ascontiguousarray, table.empty)

    cdef void prepare(self, const double* x) noexcept nogil:
        cdef Py_ssize_t a
        for a in range(self.n_groups):
            self.work[a] = 0.0
        for a in range(self.d):
            self.work[a % self.n_groups] += x[a]

    cdef double log_density(self, Py_ssize_t k, const double* x) noexcept nogil:
        cdef Py_ssize_t a
        cdef double density = 0.0
        for a in range(self.d):
            if x[a] > 0.0:
                density += _rise(self.concentrations[k, a], x[a])
        for a in range(self.n_groups):
            if self.work[a] > 0.0:
                density -= _rise(self.totals[k, a], self.work[a])
        return density

    cdef void shift(self, Py_ssize_t k, const double* x, int sign) noexcept nogil:
        cdef Py_ssize_t a
        for a in range(self.d):
            self.concentrations[k, a] += sign * x[a]
            self.totals[k, a % self.n_groups] += sign * x[a]

    cdef void clear(self, Py_ssize_t k) noexcept nogil:
        self.concentrations[k, :] = self.empty_concentration
        self.totals[k, :] = self.empty_total


cdef double _rise(double a, double z) noexcept nogil:
    """log Gamma(a + z) - log Gamma(a)."""
    return log(a) if z == 1.0 else lgamma(a + z) - lgamma(a)
