"""Compiled twins of what ``holes`` does for every pattern of holes and every component.

Need Numba (``pip install 'sfumato[fast]'``). Import at call time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .compiled import invert

__all__ = ["add_sums", "correct"]

LEAST = 1e-12  # posterior weights below have no part in the sums
FREE = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FREE)
def correct(Q, linear, Y, starts, spreads, L):
    """Twin of ``holes.Partial.correct``: ``Q`` (k, d, d), ``linear`` (k, d), ``L`` (k, m)."""
    k, d = linear.shape
    r = spreads.shape[1]
    FM, K, inverse = np.empty((r, d)), np.zeros((r, r)), np.zeros((r, r))
    g, own = np.empty(r), np.empty(r)
    for p in range(len(starts) - 1):
        F, h = spreads[p], _n_open(spreads[p])
        for j in range(k):
            log_root = _open(Q[j], linear[j], F, h, FM, own, K, inverse)
            for i in range(starts[p], starts[p + 1]):
                _pull(FM, own, Y[i], h, g)
                total = 0.0
                for a in range(h):
                    entry = 0.0
                    for b in range(a + 1):
                        entry += inverse[a, b] * g[b]
                    total += entry * entry
                L[j, i] += log_root + 0.5 * total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FREE)
def add_sums(Q, linear, Y, starts, spreads, share, total):
    """Twin of ``holes.Partial.sums``: adds to ``total`` (k, d + 1, d + 1), the moments of
    (1, y).
    """
    k, d = linear.shape
    r = spreads.shape[1]
    FM, K, inverse = np.empty((r, d)), np.zeros((r, r)), np.zeros((r, r))
    g, own, solved, root = np.empty(r), np.empty(r), np.empty(r), np.empty((r, d))
    y = np.ones(d + 1)
    for p in range(len(starts) - 1):
        F, h = spreads[p], _n_open(spreads[p])
        for j in range(k):
            mass = 0.0
            for i in range(starts[p], starts[p + 1]):
                mass += share[j, i]
            if mass < LEAST:
                continue
            _open(Q[j], linear[j], F, h, FM, own, K, inverse)
            for a in range(h):
                for c in range(d):
                    root[a, c] = 0.0
                    for b in range(a + 1):
                        root[a, c] += inverse[a, b] * F[b, c]
            for i in range(starts[p], starts[p + 1]):
                weight = share[j, i]
                if weight < LEAST:
                    continue
                _pull(FM, own, Y[i], h, g)
                for a in range(h):
                    solved[a] = 0.0
                    for b in range(a + 1):
                        solved[a] += inverse[a, b] * g[b]
                for c in range(d):
                    y[1 + c] = Y[i, c]
                    for a in range(h):
                        y[1 + c] -= root[a, c] * solved[a]
                for c in range(d + 1):
                    for e in range(c, d + 1):
                        total[j, c, e] += weight * y[c] * y[e]
            for a in range(h):
                for c in range(d):
                    for e in range(c, d):
                        total[j, 1 + c, 1 + e] += mass * root[a, c] * root[a, e]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FREE)
def _n_open(F):
    """Rows of ``F`` before those of zeros at the end."""
    h = len(F)
    while h > 0 and not np.any(F[h - 1]):
        h -= 1
    return h


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FREE)
def _open(Q, linear, F, h, FM, own, K, inverse):
    """Fill F (Q - I), F times ``linear``, and the inverse Cholesky factor of K; half of minus its
    log-determinant.
    """
    d = len(linear)
    for a in range(h):
        own[a] = 0.0
        for c in range(d):
            FM[a, c] = -F[a, c]
            own[a] += F[a, c] * linear[c]
        for e in range(d):
            for c in range(d):
                FM[a, c] += F[a, e] * Q[e, c]
    for a in range(h):
        for b in range(a + 1):
            entry = 1.0 if a == b else 0.0
            for c in range(d):
                entry += FM[a, c] * F[b, c]
            K[a, b] = entry
    return invert(K, inverse, h)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FREE)
def _pull(FM, own, y, h, g):
    """g of one object."""
    for a in range(h):
        g[a] = -own[a]
        for c in range(len(y)):
            g[a] += FM[a, c] * y[c]
