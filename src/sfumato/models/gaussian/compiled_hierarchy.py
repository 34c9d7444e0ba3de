"""Compiled twin of the merging in ``hierarchy``. Needs Numba. Import at call time."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["merges"]

TINY = float(np.finfo(np.float64).tiny)


@njit(cache=True, nogil=True)
def merges(mass, mean, scatter, a, fewest):
    """Pairs (i, j) in the order in which group j joins group i, until ``fewest`` are left.

    ``mass`` (m,), ``mean`` (m, d) and ``scatter`` (m, d, d) are overwritten.
    """
    m, d = mean.shape
    W, gone, own = np.empty((d, d)), np.zeros(m, dtype=np.bool_), np.empty(m)
    rise, pairs = np.full((m, m), np.inf), np.empty((m - fewest, 2), dtype=np.int64)
    for i in range(m):
        for p in range(d):
            for q in range(d):
                W[p, q] = scatter[i, p, q]
        own[i] = _cost(mass[i], W, a)
    for i in range(m):
        for j in range(i + 1, m):
            rise[i, j] = _union(mass, mean, scatter, i, j, W, a) - own[i] - own[j]
    for t in range(m - fewest):
        i, j, least = 0, 0, np.inf
        for p in range(m):
            if not gone[p]:
                for q in range(p + 1, m):
                    if rise[p, q] < least:
                        i, j, least = p, q, rise[p, q]
        if j == 0:  # no cost is a number: any two will do
            i = np.flatnonzero(~gone)[0]
            j = np.flatnonzero(~gone)[1]
        pairs[t] = i, j
        own[i] = _union(mass, mean, scatter, i, j, W, a)
        for p in range(d):
            mean[i, p] = (mass[i] * mean[i, p] + mass[j] * mean[j, p]) / (mass[i] + mass[j])
            for q in range(d):
                scatter[i, p, q] = W[p, q] if p <= q else W[q, p]
        mass[i] += mass[j]
        gone[j] = True
        for p in range(m):
            rise[min(p, j), max(p, j)] = np.inf
            if p != i and not gone[p]:
                value = _union(mass, mean, scatter, i, p, W, a) - own[i] - own[p]
                rise[min(p, i), max(p, i)] = value
    return pairs


@njit(cache=True, nogil=True)
def _union(mass, mean, scatter, i, j, W, a):
    """Cost of two groups as one, whose scatter is left in the upper triangle of ``W``."""
    d, N = len(W), mass[i] + mass[j]
    share = mass[i] * mass[j] / N
    for p in range(d):
        gap = share * (mean[j, p] - mean[i, p])
        for q in range(p, d):
            W[p, q] = scatter[i, p, q] + scatter[j, p, q] + gap * (mean[j, q] - mean[i, q])
    return _cost(N, W, a)


@njit(cache=True, nogil=True)
def _cost(N, W, a):
    """N log((tr W + a) / N + det(W / N)) of the upper triangle of ``W``, which is kept."""
    d, trace, det = len(W), a, 1.0
    for p in range(d):
        trace += W[p, p]
    factor = np.empty((d, d))
    for p in range(d):
        for q in range(p, d):
            value = W[p, q]
            for r in range(p):
                value -= factor[r, p] * factor[r, q]
            if p == q:
                det *= max(value, 0.0) / N
                if value <= 0.0:
                    return N * np.log(max(trace / N, TINY))
                factor[p, p] = np.sqrt(value)
            else:
                factor[p, q] = value / factor[p, p]
    return N * np.log(max(trace / N + det, TINY))
