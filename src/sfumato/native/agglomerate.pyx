"""Merging of groups by the criterion of ``numerics.seeding``."""

import numpy as np
from libc.math cimport INFINITY, fmax, log, sqrt

from .signals cimport check_signals

cdef double TINY = 2.2250738585072014e-308


def merges(double[::1] mass, double[:, ::1] mean, double[:, :, ::1] scatter, double a, fewest):
    """Pairs (i, j) in the order in which group j is merged into group i, until ``fewest`` are left.

    ``mass`` (m,), ``mean`` (m, d) and ``scatter`` (m, d, d) are overwritten. A scatter (m, 1, 1) of
    several features holds traces, which then decide alone.
    """
    cdef Py_ssize_t m = mean.shape[0], d = mean.shape[1], i, t, n_merges = max(0, m - fewest)
    cdef Py_ssize_t w = scatter.shape[1]
    if mass.shape[0] != m or scatter.shape[0] != m or w not in (d, 1):
        raise ValueError(f"mass and scatter must be those of {m} groups with {d} features")
    if scatter.shape[2] != w or not 1 <= fewest:
        raise ValueError(f"scatter must be ({m}, {w}, {w}), and fewest at least 1")
    pairs, room = np.empty((n_merges, 2), dtype=np.intp), np.empty(2 * d * d + m + 1)
    matrix, places = np.full((m, m), np.inf), np.empty(m, dtype=np.intp)
    cdef Py_ssize_t[:, ::1] found = pairs
    cdef Py_ssize_t[::1] nearest = places
    cdef double[:, ::1] rise = matrix
    cdef double[::1] work = room
    cdef Groups groups
    if not n_merges:
        return pairs
    groups.m, groups.d, groups.w, groups.a = m, d, w, a
    groups.mass, groups.mean, groups.scatter = &mass[0], &mean[0, 0], &scatter[0, 0, 0]
    groups.rise, groups.nearest = &rise[0, 0], &nearest[0]
    groups.own, groups.W = &work[0], &work[m]
    with nogil:
        for i in range(m):
            groups.own[i] = _cost(&groups, groups.mass[i], groups.scatter + i * w * w)
        for i in range(m):
            _measure(&groups, i)
            if i % 64 == 0:
                check_signals()
        for t in range(n_merges):
            _merge(&groups, &found[t, 0])
            if t % 64 == 0:
                check_signals()
    return pairs


cdef struct Groups:
    Py_ssize_t m, d, w  # w rows of every scatter
    double a
    double* mass
    double* mean
    double* scatter
    double* rise  # (m, m), rise of the cost by a union; infinite if not allowed
    Py_ssize_t* nearest  # smallest entry of every row; -1 for merged groups
    double* own  # cost of every group
    double* W  # scratch for the scatter of a union and its factor


cdef void _measure(Groups* groups, Py_ssize_t i) noexcept nogil:
    """Compute the row of a group: the costs of its unions with later groups."""
    cdef Py_ssize_t j, m = groups.m
    for j in range(i + 1, m):
        groups.rise[i * m + j] = _union(groups, i, j) - groups.own[i] - groups.own[j]
    _look(groups, i)


cdef void _look(Groups* groups, Py_ssize_t i) noexcept nogil:
    """Find the smallest entry of a row again."""
    cdef Py_ssize_t j, best = 0
    cdef double least = INFINITY
    cdef const double* row = groups.rise + i * groups.m
    for j in range(i + 1, groups.m):
        if row[j] < least:
            best, least = j, row[j]
    groups.nearest[i] = best


cdef void _merge(Groups* groups, Py_ssize_t* pair) noexcept nogil:
    """Merge the two groups with the cheapest union, the later one into the earlier one."""
    cdef Py_ssize_t m = groups.m, d = groups.d, w = groups.w, i = 0, j = 0, p, q
    cdef double least = INFINITY, share, value
    cdef double* W = groups.W
    for p in range(m):
        if groups.nearest[p] > 0 and groups.rise[p * m + groups.nearest[p]] < least:
            i, j = p, groups.nearest[p]
            least = groups.rise[i * m + j]
    if j == 0:  # all costs are NaN, so any two will do
        while groups.nearest[i] < 0:
            i += 1
        j = i + 1
        while groups.nearest[j] < 0:
            j += 1
    pair[0], pair[1] = i, j
    groups.own[i] = _union(groups, i, j)
    share = groups.mass[j] / (groups.mass[i] + groups.mass[j])
    for p in range(d):
        groups.mean[i * d + p] += share * (groups.mean[j * d + p] - groups.mean[i * d + p])
    for p in range(w):
        for q in range(w):
            groups.scatter[(i * w + p) * w + q] = W[p * w + q] if p <= q else W[q * w + p]
    groups.mass[i] += groups.mass[j]
    groups.nearest[j] = -1
    for p in range(m):
        groups.rise[min(p, j) * m + max(p, j)] = INFINITY
    for p in range(m):
        if groups.nearest[p] < 0:
            continue
        if p != i:
            value = _union(groups, min(p, i), max(p, i)) - groups.own[i] - groups.own[p]
            groups.rise[min(p, i) * m + max(p, i)] = value
        if p < j:
            _keep(groups, p, i, j)
    _look(groups, i)


cdef void _keep(Groups* groups, Py_ssize_t p, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Update the smallest entry of a row after a union of i and j."""
    cdef Py_ssize_t best = groups.nearest[p]
    cdef const double* row = groups.rise + p * groups.m
    if best == 0 or best == i or best == j:
        _look(groups, p)
    elif i > p and (row[i] < row[best] or (row[i] == row[best] and i < best)):
        groups.nearest[p] = i


cdef double _union(Groups* groups, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    """Cost of the union of two groups; its scatter is left in the upper triangle of ``W``."""
    cdef Py_ssize_t d = groups.d, w = groups.w, p, q
    cdef double N = groups.mass[i] + groups.mass[j], gap
    cdef double share = groups.mass[i] * groups.mass[j] / N
    cdef const double* one = groups.mean + i * d
    cdef const double* other = groups.mean + j * d
    cdef const double* first = groups.scatter + i * w * w
    cdef const double* second = groups.scatter + j * w * w
    if w < d:
        groups.W[0] = first[0] + second[0]
        for p in range(d):
            groups.W[0] += share * (other[p] - one[p]) ** 2
        return _cost(groups, N, groups.W)
    for p in range(d):
        gap = share * (other[p] - one[p])
        for q in range(p, d):
            groups.W[p * d + q] = (
                first[p * d + q] + second[p * d + q] + gap * (other[q] - one[q])
            )
    return _cost(groups, N, groups.W)


cdef double _cost(Groups* groups, double N, const double* W) noexcept nogil:
    """N log((tr W + a) / N + det(W / N)) for the upper triangle of ``W``."""
    cdef Py_ssize_t d = groups.w, p, q, r
    cdef double trace = groups.a, det = 1.0, value
    cdef double* factor = groups.W + d * d
    for p in range(d):
        trace += W[p * d + p]
    if d < groups.d:
        return N * log(fmax(trace / N, TINY))
    for p in range(d):
        for q in range(p, d):
            value = W[p * d + q]
            for r in range(p):
                value -= factor[r * d + p] * factor[r * d + q]
            if p == q:
                det *= fmax(value, 0.0) / N
                if value <= 0.0:
                    return N * log(fmax(trace / N, TINY))
                factor[p * d + p] = sqrt(value)
            else:
                factor[p * d + q] = value / factor[p * d + p]
    return N * log(fmax(trace / N + det, TINY))
