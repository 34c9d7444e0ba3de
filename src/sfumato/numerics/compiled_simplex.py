"""Compiled quadratic programs on the simplex by an active set.

Needs Numba (``pip install 'sfumato[fast]'``).

    min over the simplex of  u'Hu / 2 - b'u,    H positive semidefinite

The free coordinates grow one at a time, by the one of most negative slope, from the best vertex or
from the support of a given point (Lawson and Hanson 1974, with one equality). Because u sums to
one, H + c 11' has the same minimiser as H; with c > 0 it is positive definite on every set of free
coordinates where the minimiser is unique, so that one Cholesky factor, grown row by row, solves
each step. Import at call time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["descend_pairs", "minimise", "pair_steps", "quadratic_programs"]

TINY = 1e-15  # as in simplex
EPS = float(np.finfo(np.float64).eps)
FREE = {"reassoc", "contract", "nsz"}


def quadratic_programs(H: np.ndarray, B: np.ndarray) -> np.ndarray:
    """argmin for every row b of ``B`` (n, k); ``H`` is (k, k), shared, or (n, k, k)."""
    U = np.empty(B.shape)
    stack = np.ascontiguousarray(H[None] if H.ndim == 2 else H, dtype=np.float64)
    _rows(stack, np.ascontiguousarray(B, dtype=np.float64), U)
    return U.astype(B.dtype, copy=False)


@njit(cache=True, nogil=True, fastmath=FREE)
def _rows(stack, B, U):
    n, k = B.shape
    factor, free, work = np.empty((k, k)), np.empty(k, np.int64), np.empty((5, k))
    for i in range(n):
        H, b, u = stack[i if len(stack) > 1 else 0], B[i], U[i]
        best = 0
        for r in range(k):
            u[r] = 0.0
            if H[r, r] / 2 - b[r] < H[best, best] / 2 - b[best]:
                best = r
        u[best] = 1.0
        minimise(H, b, u, factor, free, work)


@njit(cache=True, nogil=True, fastmath=FREE)
def minimise(H, b, u, factor, free, work):
    """Move ``u``, a point of the simplex, to the minimum; the number of free coordinates.

    ``factor`` (k, k), ``free`` (k,) and ``work`` (5, k) are scratch; ``free`` then holds the free
    coordinates.
    """
    k = len(u)
    size, steep = 0.0, 0.0
    for r in range(k):
        size = max(size, abs(H[r, r]))
        steep = max(steep, abs(b[r]))
    # Where the slope is much larger than the curvature, a lift of the size of the curvature would
    # be lost in rounding.
    lift = size if size > 1e-12 * steep else steep if steep > 0.0 else 1.0
    p = 0
    for r in range(k):
        if u[r] > 0.0:
            free[p] = r
            p += 1
    _extend(H, b, lift, factor, free, 0, p, work)
    p = _settle(H, b, u, lift, factor, free, p, work)
    for _ in range(
        4 * k + 8
    ):  # about as many as coordinates in the answer; more only where rounding cycles
        entering = _steepest(H, b, u, size, free, p, work[4])
        if entering < 0:
            break
        free[p] = entering
        p += 1
        _extend(H, b, lift, factor, free, p - 1, p, work)
        p = _settle(H, b, u, lift, factor, free, p, work)
    return p


@njit(cache=True, nogil=True, fastmath=FREE)
def _steepest(H, b, u, size, free, p, slope):
    """The coordinate whose slope lies furthest below that of the free ones, -1 if none does by more
    than rounding.
    """
    k = len(u)
    for r in range(k):
        slope[r] = -b[r]
    for c in range(p):
        at, share = free[c], u[free[c]]
        for r in range(k):
            slope[r] += share * H[at, r]
    level, scale, best = 0.0, size, 0
    for c in range(p):
        r = free[c]
        scale = max(scale, abs(b[r]))
        level += u[r] * slope[r]
        slope[r] = np.inf
    for r in range(k):
        if slope[r] < slope[best]:
            best = r
    return best if slope[best] < level - 8 * EPS * scale else -1


@njit(cache=True, nogil=True, fastmath=FREE)
def _extend(H, b, lift, factor, free, start, p, work):
    """Rows ``start``, ..., p - 1 of the Cholesky factor of (H + lift 11') on the free coordinates.

    The diagonal holds reciprocals; the first rows of ``work`` hold the factor's inverse times b and
    times 1.
    """
    for i in range(start, p):
        at, first, second = free[i], b[free[i]], 1.0
        for j in range(i):
            value = H[at, free[j]] + lift
            for c in range(j):
                value -= factor[i, c] * factor[j, c]
            value *= factor[j, j]
            factor[i, j] = value
            first -= value * work[0, j]
            second -= value * work[1, j]
        value = H[at, at] + lift
        for c in range(i):
            value -= factor[i, c] * factor[i, c]
        # A flat direction keeps a tiny curvature: the step along it ends where a coordinate reaches
        # zero.
        root = 1.0 / np.sqrt(max(value, 4 * EPS * lift))
        factor[i, i] = root
        work[0, i], work[1, i] = first * root, second * root


@njit(cache=True, nogil=True, fastmath=FREE)
def _settle(H, b, u, lift, factor, free, p, work):
    """Minimise over the free coordinates; those that reach zero leave. The number that stay."""
    while True:
        target = _equality(factor, p, work)
        step, leaving = 1.0, -1
        for c in range(p):
            r = free[c]
            if target[c] <= 0.0:
                reach = u[r] / (u[r] - target[c]) if u[r] > target[c] else 0.0
                if leaving < 0 or reach < step:
                    step, leaving = reach, c
        if leaving < 0:
            for c in range(p):
                u[free[c]] = target[c]
            return p
        for c in range(p):
            r = free[c]
            u[r] = max(0.0, u[r] + step * (target[c] - u[r]))
        u[free[leaving]] = 0.0
        p -= 1
        for c in range(leaving, p):
            free[c] = free[c + 1]
        _extend(H, b, lift, factor, free, leaving, p, work)


@njit(cache=True, nogil=True, fastmath=FREE)
def _equality(factor, p, work):
    """The minimiser with sum one over the free coordinates, signs free: (H + lift 11') x = b +
    multiplier 1.
    """
    x, y = work[2], work[3]
    for i in range(p):
        x[i], y[i] = work[0, i], work[1, i]
    total, ones = 0.0, 0.0
    for i in range(p - 1, -1, -1):
        first, second = x[i] * factor[i, i], y[i] * factor[i, i]
        x[i], y[i] = first, second
        total += first
        ones += second
        for c in range(i):
            x[c] -= factor[i, c] * first
            y[c] -= factor[i, c] * second
    multiplier, total = (1.0 - total) / ones, 0.0
    for i in range(p):
        x[i] += multiplier * y[i]
        total += x[i]
    # Along a flat direction the target is so far away that its sum is rounding.
    for i in range(p):
        x[i] = x[i] / total if total > 0.5 else x[i] + (1.0 - total) / p
    return x


@njit(cache=True, nogil=True, fastmath=FREE)
def pair_steps(H, b, u, slope, n_steps):
    """``n_steps`` exact line searches between the best and the worst used coordinate.

    ``slope`` (k,) is scratch.

    Cheaper than ``minimise`` by far where many coordinates are free, and enough inside a sweep.
    """
    k = len(u)
    for r in range(k):
        slope[r] = -b[r]
    for c in range(k):
        row, share = H[c], u[c]
        if share > 0.0:
            for r in range(k):
                slope[r] += share * row[r]
    descend_pairs(H, slope, u, n_steps)


@njit(cache=True, nogil=True, fastmath=FREE)
def descend_pairs(H, slope, u, n_steps):
    """As ``pair_steps``, from the gradient ``slope`` = H u - b, which is overwritten."""
    k = len(u)
    for _ in range(n_steps):
        to, out = 0, -1
        for r in range(k):
            if slope[r] < slope[to]:
                to = r
            if u[r] > 0.0 and (out < 0 or slope[r] > slope[out]):
                out = r
        fall = slope[out] - slope[to]
        if fall <= 0.0:
            return
        curvature = H[to, to] + H[out, out] - 2.0 * H[to, out]
        step = u[out]
        if fall < step * curvature:
            step = fall / curvature
            u[out] = u[out] - step if u[out] - step > TINY else 0.0
        else:
            u[out] = 0.0
        u[to] += step
        gain, loss = H[to], H[out]
        for r in range(k):
            slope[r] += step * (gain[r] - loss[r])
