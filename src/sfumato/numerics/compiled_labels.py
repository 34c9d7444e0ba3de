"""Compiled forms of kernels that visit one object after the other.

``pip install 'sfumato[fast]'`` brings Numba, which this module needs.

Import it at call time. Every function here has a NumPy form that does the same; a twin is kept only
where it is at least twice as fast.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from .compiled_simplex import descend_pairs

__all__ = ["equal_labels", "likely_row", "table_sweep"]

NEAR = 1e-12  # as in consensus/explicit


@njit(cache=True, nogil=True, parallel=True)
def equal_labels(codes, out):
    """Number of rows in which every two columns of ``codes`` (m, n) agree, written to ``out`` (n,
    n).
    """
    m, n = codes.shape
    for i in prange(n):
        few = np.zeros(
            n, np.uint8
        )  # counts of up to 255 rows: bytes are what the processor compares fastest
        total = np.zeros(n, np.int32)
        for b in range(m):
            row, own = codes[b], codes[b, i]
            for j in range(n):
                few[j] += np.uint8(row[j] == own)
            if b % 255 == 254 or b == m - 1:
                for j in range(n):
                    total[j] += few[j]
                    few[j] = 0
        for j in range(n):
            out[i, j] = total[j]


@njit(cache=True, nogil=True)
def table_sweep(codes, offsets, weights, coverage, U, M, S, absent):
    """One exact Gauss-Seidel pass over the objects of a table of labels.

    ``U``, ``M``, ``S`` and ``absent`` are overwritten.
    """
    n, m = codes.shape
    k = U.shape[1]
    n_steps = max(1, k // 2)
    gaps = absent.shape[0] > 0
    everyone = np.zeros((k, k))
    for b in range(absent.shape[0]):
        everyone += weights[b] * absent[b]
    H = np.empty((k, k))
    g = np.empty(k)
    new = np.empty(k)
    for i in range(n):
        u = U[i]
        g[:] = coverage[i] * u
        for r in range(k):
            new[r] = u[r]
            for s in range(k):
                H[r, s] = coverage[i] * (S[r, s] - u[r] * u[s]) - (everyone[r, s] if gaps else 0.0)
        for b in range(m):
            c = offsets[b] + codes[i, b]
            if c < offsets[b + 1] - 1:
                for r in range(k):
                    g[r] -= weights[b] * M[c, r]
            elif gaps:
                H += weights[b] * absent[b]
        g += H @ u
        descend_pairs(H, g, new, n_steps)
        _account(i, codes, offsets, weights, u, new, M, S, absent, everyone)
        for r in range(k):
            u[r] = new[r]


@njit(cache=True, nogil=True)
def _account(i, codes, offsets, weights, u, new, M, S, absent, everyone):
    """Carry a changed row into the sums."""
    m, k = codes.shape[1], len(u)
    for r in range(k):
        for s in range(k):
            S[r, s] += new[r] * new[s] - u[r] * u[s]
    for b in range(m):
        c = offsets[b] + codes[i, b]
        for r in range(k):
            M[c, r] += new[r] - u[r]
        if c == offsets[b + 1] - 1 and absent.shape[0] > 0:
            for r in range(k):
                for s in range(k):
                    change = new[r] * new[s] - u[r] * u[s]
                    absent[b, r, s] += change
                    everyone[r, s] += weights[b] * change


@njit(cache=True, nogil=True)
def likely_row(c, weight, U, u):
    """Compiled form of ``likely_row`` in ``consensus/explicit``."""
    n, k = U.shape
    u, p, d = u.copy(), np.empty(n), np.empty(n)
    for _ in range(max(1, k // 2)):
        gradient = np.zeros(k)
        for j in range(n):
            product = 0.0
            for r in range(k):
                product += U[j, r] * u[r]
            p[j] = min(max(product, NEAR), 1 - NEAR)
            force = weight[j] * (p[j] - c[j]) / (p[j] * (1 - p[j]))
            for r in range(k):
                gradient[r] += force * U[j, r]
        to, out = np.argmin(gradient), -1
        for r in range(k):
            if u[r] > 0 and (out < 0 or gradient[r] > gradient[out]):
                out = r
        if gradient[out] <= gradient[to]:
            break
        for j in range(n):
            d[j] = U[j, to] - U[j, out]
        step = _line_search(c, weight, p, d, u[out])
        u[to] += step
        u[out] -= step
    return np.maximum(u, 0.0)


@njit(cache=True, nogil=True)
def _line_search(c, weight, p, d, limit):
    steepest, curvature = _slope(c, weight, p, d, 0.0)
    if _slope(c, weight, p, d, limit)[0] <= 0:
        return limit
    low, high, slope = 0.0, limit, steepest
    for _ in range(40):
        newton = low - slope / curvature if curvature > 0 else high
        t = newton if low < newton < high else (low + high) / 2
        slope_t, curvature_t = _slope(c, weight, p, d, t)
        if slope_t > 0:
            high, curvature = t, 0.0
            continue
        low, slope, curvature = t, slope_t, curvature_t
        if slope >= 1e-3 * steepest:
            break
    return low


@njit(cache=True, nogil=True)
def _slope(c, weight, p, d, t):
    first = second = 0.0
    for j in range(len(p)):
        q = min(max(p[j] + t * d[j], NEAR), 1 - NEAR)
        force = weight[j] * d[j] / (q * (1 - q))
        first += force * (q - c[j])
        second += force * d[j] / (q * (1 - q)) * ((q - c[j]) ** 2 + c[j] * (1 - c[j]))
    return first, second
