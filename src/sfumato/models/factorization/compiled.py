"""Compiled twin of ``factorization.walk``.

Needs Numba (``pip install 'sfumato[fast]'``) and is imported at call time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from .kernel import cubic_minimum

__all__ = ["walk"]

_cubic_minimum = njit(cache=True, nogil=True)(cubic_minimum)


def walk(problem: Any, exact: bool, G: np.ndarray, S: np.ndarray, M: np.ndarray) -> float:
    """See ``factorization.walk``."""
    F, own = problem.F, problem.diagonal
    copies = np.zeros(len(G)) if problem.copies is None else problem.copies
    if sp.issparse(F):
        return _sparse(F.data, F.indices, F.indptr, problem.low, own, copies, exact, G, S, M)
    F, M = np.ascontiguousarray(F, dtype=M.dtype), np.ascontiguousarray(M)
    return _dense(F, problem.low, own, copies, exact, G, S, M)


@njit(cache=True, nogil=True)
def _dense(F, low, diagonal, copies, exact, G, S, M):
    n, k = G.shape
    g, new, b, H, gained = np.empty(k), np.empty(k), np.empty(k), np.empty((k, k)), 0.0
    for i in range(n):
        b[:] = F[i] @ M
        gained += _row(i, diagonal, copies, exact, G, S, g, new, b, H)
        if low:
            for c in range(F.shape[1]):
                for r in range(k):
                    M[c, r] += F[i, c] * (new[r] - g[r])
    return gained


@njit(cache=True, nogil=True)
def _sparse(data, indices, indptr, low, diagonal, copies, exact, G, S, M):
    n, k = G.shape
    g, new, b, H, gained = np.empty(k), np.empty(k), np.empty(k), np.empty((k, k)), 0.0
    for i in range(n):
        b[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            for r in range(k):
                b[r] += data[e] * M[indices[e], r]
        gained += _row(i, diagonal, copies, exact, G, S, g, new, b, H)
        if low:
            for e in range(indptr[i], indptr[i + 1]):
                for r in range(k):
                    M[indices[e], r] += data[e] * (new[r] - g[r])
    return gained


@njit(cache=True, nogil=True)
def _row(i, diagonal, copies, exact, G, S, g, new, b, H):
    """Change row i, carry it into S, and return the gain.

    ``g`` keeps the old row, ``new`` the new one.
    """
    k, c, own, square = len(g), copies[i], diagonal[i], 0.0
    for r in range(k):
        g[r] = G[i, r]
        new[r] = g[r]
        square += g[r] * g[r]
    for r in range(k):
        b[r] -= own * g[r]
        for s in range(k):
            H[r, s] = S[r, s] - g[r] * g[s]
    before = square
    for _ in range(2 if exact else 1):
        for r in range(k):
            below, past = 0.0, new[r]
            for s in range(k):
                below += H[r, s] * new[s]
            if exact and c > 0:
                bend = H[r, r] + c * (square - past * past - own)
                new[r] = _cubic_minimum(c, bend, b[r] - below + H[r, r] * past)
            elif exact:
                new[r] = max(0.0, past + (b[r] - below) / H[r, r]) if H[r, r] > 0 else 0.0
            else:
                below += c * square * past
                ratio = max(0.0, b[r] + c * own * past) / below if below > 0 else 0.0
                new[r] = past * (ratio if c == 0 else ratio**0.25)
            square += new[r] * new[r] - past * past
    gained, after = 0.0, 0.0
    for r in range(k):
        G[i, r] = new[r]
        new[r] = G[i, r]
        after += new[r] * new[r]
    for r in range(k):
        curve = -2.0 * b[r]
        for s in range(k):
            curve += H[r, s] * (g[s] + new[s])
            S[r, s] = H[r, s] + new[r] * new[s]
        gained += (g[r] - new[r]) * curve
    gained += 0.5 * c * (after - before) * (2.0 * own - before - after)
    return max(0.0, gained)
