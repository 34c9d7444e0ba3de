"""Compiled twins of ``em.maximize`` and of the softmax over the components of many mixtures.

Need Numba (``pip install 'sfumato[fast]'``). A mixture of a few dozen small components takes longer
in calls of NumPy than in arithmetic, and threads then wait for the interpreter. Import at call
time.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ...numerics.compiled_sums import gaussian_walk

__all__ = ["climb", "invert", "least_at_own_center", "maximize", "normalize_members"]


@njit(cache=True, nogil=True)
def climb(stack, weights, sums, d, prior, shrinkage, max_steps, tol):
    """Coefficients (k, q), sums (k, q) and the mean log-density after expectation and maximisation
    from ``sums``; NaN where all densities of an object vanish.

    ``stack`` (1, q, n) holds z(y), and ``weights`` (n,) may be empty.
    """
    (k, q), n = sums.shape, stack.shape[2]
    D, E, spare, part = np.empty((k, n)), np.empty((k, n)), np.empty((2, n)), np.empty((k, q))
    nothing, none = np.empty((0, n)), np.empty((0, k))  # z(y) is made already
    total = weights.sum() if len(weights) else float(n)
    rows, before, now = sums, -np.inf, np.nan
    for _ in range(max_steps):
        rows = maximize(sums, d, prior, shrinkage)
        sums = np.zeros((k, q))
        now = gaussian_walk(stack, weights, rows, sums, D, nothing, none, part, E, spare) / total
        if not now - before >= tol:
            break
        before = now
    return rows, sums, now


@njit(cache=True, nogil=True, error_model="numpy")
def least_at_own_center(rows, sums, d):
    """The least of the posteriors of the components, each at its own center."""
    k = len(rows)
    logits, least = np.empty(k), np.inf
    for j in range(k):
        mass = max(sums[j, 0], 1e-10)
        for i in range(k):
            at, logit = d + 1, rows[i, 0]
            for a in range(d):
                x = sums[j, 1 + a] / mass
                logit += rows[i, 1 + a] * x
                for b in range(a, d):
                    logit += rows[i, at] * x * (sums[j, 1 + b] / mass)
                    at += 1
            logits[i] = logit
        top, total = logits.max(), 0.0
        for i in range(k):
            total += math.exp(logits[i] - top)
        least = min(least, math.exp(logits[j] - top) / total)
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def maximize(sums, d, prior, shrinkage):
    """Coefficients (k, q) of z(y) from weighted sums (k, q) of z(y).

    NaN where a covariance is not positive definite.
    """
    k, q = sums.shape
    rows = np.empty((k, q))
    total, common = 0.0, np.zeros(q)
    for j in range(k):
        mass = max(sums[j, 0], 1e-10)
        total += mass
        at = d + 1
        for a in range(d):
            for b in range(a, d):
                common[at] += sums[j, at] - sums[j, 1 + a] * sums[j, 1 + b] / mass
                at += 1
    common *= shrinkage / total
    mean, linear = np.empty(d), np.empty(d)
    L, inverse = np.zeros((d, d)), np.zeros((d, d))
    for j in range(k):
        mass = max(sums[j, 0], 1e-10)
        for a in range(d):
            mean[a] = sums[j, 1 + a] / mass
        at = d + 1
        for a in range(d):
            for b in range(a, d):
                own = sums[j, at] - mass * mean[a] * mean[b]
                L[b, a] = (own + common[at]) / (mass + shrinkage)
                at += 1
            L[a, a] += prior / (mass + 1e-3)
        log_root = invert(L, inverse, d)
        at, level = d + 1, 0.0
        linear[:] = 0.0
        for a in range(d):
            for b in range(a, d):
                entry = 0.0
                for c in range(b, d):
                    entry += inverse[c, a] * inverse[c, b]
                rows[j, at] = -entry if b > a else -0.5 * entry
                at += 1
                linear[a] += entry * mean[b]
                if b > a:
                    linear[b] += entry * mean[a]
        for a in range(d):
            level += linear[a] * mean[a]
            rows[j, 1 + a] = linear[a]
        rows[j, 0] = math.log(mass / total) - 0.5 * (d * math.log(2.0 * math.pi) + level) + log_root
    return rows


@njit(cache=True, nogil=True, error_model="numpy")
def invert(L, inverse, d):
    """Cholesky factor in place of the lower triangle of ``L``, its inverse, and the logarithm of
    the determinant of the inverse.
    """
    log_root = 0.0
    for a in range(d):
        for b in range(a + 1):
            entry = L[a, b]
            for c in range(b):
                entry -= L[a, c] * L[b, c]
            L[a, b] = math.sqrt(entry) if a == b else entry / L[b, b]
        inverse[a, a] = 1.0 / L[a, a]
        log_root += math.log(inverse[a, a])
        for b in range(a):
            entry = 0.0
            for c in range(b, a):
                entry -= L[a, c] * inverse[c, b]
            inverse[a, b] = entry * inverse[a, a]
    return log_root


@njit(cache=True, nogil=True, error_model="numpy")
def normalize_members(logits, offsets):
    """Softmax of every column of ``logits`` (K, n) over the rows of each member, in place."""
    n = logits.shape[1]
    top, total = np.empty(n), np.empty(n)
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1]
        top[:] = logits[first]
        for j in range(first + 1, last):
            row = logits[j]
            for i in range(n):
                top[i] = max(top[i], row[i])
        total[:] = 0.0
        for j in range(first, last):
            row = logits[j]
            for i in range(n):
                # exp of anything below is zero beside the largest, and takes ten times as long
                gap = row[i] - top[i]
                row[i] = math.exp(gap) if gap > -740.0 else 0.0
            for i in range(n):
                total[i] += row[i]
        for j in range(first, last):
            row = logits[j]
            for i in range(n):
                row[i] /= total[i]
