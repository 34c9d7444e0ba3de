"""Compiled twin of ``factorization.walk``.

Needs Numba (``pip install 'sfumato[fast]'``) and is imported at call time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

__all__ = ["walk"]


def walk(problem: Any, exact: bool, G: np.ndarray, S: np.ndarray, M: np.ndarray) -> float:
    """See ``factorization.walk``."""
    F = problem.F
    if sp.issparse(F):
        return _sparse(F.data, F.indices, F.indptr, problem.low, problem.diagonal, exact, G, S, M)
    return _dense(
        np.ascontiguousarray(F), problem.low, problem.diagonal, exact, G, S, np.ascontiguousarray(M)
    )


@njit(cache=True, nogil=True)
def _dense(F, low, diagonal, exact, G, S, M):
    n, k = G.shape
    g, new, b, H, gained = np.empty(k), np.empty(k), np.empty(k), np.empty((k, k)), 0.0
    for i in range(n):
        b[:] = F[i] @ M
        gained += _row(i, diagonal, exact, G, S, g, new, b, H)
        if low:
            for c in range(F.shape[1]):
                for r in range(k):
                    M[c, r] += F[i, c] * (new[r] - g[r])
    return gained


@njit(cache=True, nogil=True)
def _sparse(data, indices, indptr, low, diagonal, exact, G, S, M):
    n, k = G.shape
    g, new, b, H, gained = np.empty(k), np.empty(k), np.empty(k), np.empty((k, k)), 0.0
    for i in range(n):
        b[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            for r in range(k):
                b[r] += data[e] * M[indices[e], r]
        gained += _row(i, diagonal, exact, G, S, g, new, b, H)
        if low:
            for e in range(indptr[i], indptr[i + 1]):
                for r in range(k):
                    M[indices[e], r] += data[e] * (new[r] - g[r])
    return gained


@njit(cache=True, nogil=True)
def _row(i, diagonal, exact, G, S, g, new, b, H):
    """Change row i, carry it into S, and return the gain.

    ``g`` keeps the old row, ``new`` the new one.
    """
    k = len(g)
    for r in range(k):
        g[r] = G[i, r]
        new[r] = g[r]
    for r in range(k):
        b[r] -= diagonal[i] * g[r]
        for s in range(k):
            H[r, s] = S[r, s] - g[r] * g[s]
    for _ in range(2 if exact else 1):
        for r in range(k):
            below = 0.0
            for s in range(k):
                below += H[r, s] * new[s]
            if exact:
                new[r] = max(0.0, new[r] + (b[r] - below) / H[r, r]) if H[r, r] > 0 else 0.0
            else:
                new[r] = new[r] * max(0.0, b[r]) / below if below > 0 else 0.0
    gained = 0.0
    for r in range(k):
        G[i, r] = new[r]
        new[r] = G[i, r]
    for r in range(k):
        curve = -2.0 * b[r]
        for s in range(k):
            curve += H[r, s] * (g[s] + new[s])
            S[r, s] = H[r, s] + new[r] * new[s]
        gained += (g[r] - new[r]) * curve
    return max(0.0, gained)
