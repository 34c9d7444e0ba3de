"""Compiled twin of a whole run of fuzzy c-means, for objects so few that the calls between its
steps would take longer than the steps.

Needs Numba (``pip install 'sfumato[fast]'``). Import at call time. The same as
``acceleration.Squarem`` around ``kernel.update`` of ``kernel.summarize``, until a step changes the
objective by ``tol`` of it at most.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .compiled_powers import fuzzy_powers
from .compiled_sums import _fuzzy

__all__ = ["fuzzy_run"]


@njit(cache=True, nogil=True)
def fuzzy_run(Z, weights, centers, fuzzifier, noise, rounding, max_iter, tol):
    """Centers, objectives of the steps, and whether ``tol`` was reached.

    ``Z`` (q, n) is z(x); ``noise`` is the squared distance of the noise cluster or NaN, and
    ``rounding`` times one and the largest squared norm of a center is added to all distances.
    """
    (k, d), n = centers.shape, Z.shape[1]
    rows = np.zeros((k if np.isnan(noise) else k + 1, d + 2))
    sums, D, total = np.empty(rows.shape), np.empty((len(rows), n)), np.empty(n)
    part, spare = np.empty((len(rows), d)), np.empty((len(rows) + 7, n))
    work, stack = (rows, sums, D, total, part, spare), Z.reshape((1, Z.shape[0], n))
    current, following = centers.copy(), np.empty((k, d))
    first, fallback = np.empty((k, d)), np.empty((k, d))
    in_trail, extrapolated, objective, stretch = False, False, np.nan, 1.0
    history, steps, done = np.empty(16), 0, False
    while steps < max_iter and not done:
        value = _step(stack, weights, current, fuzzifier, noise, rounding, work, following)
        if extrapolated and (value > objective or not np.isfinite(value)):
            value = _step(stack, weights, fallback, fuzzifier, noise, rounding, work, following)
            stretch = max(1.0, stretch / 4)
            in_trail, extrapolated = False, False
            current[:] = following
        elif not in_trail:
            first[:] = current
            in_trail, extrapolated = True, False
            current[:] = following
        else:
            fallback[:] = following
            extrapolated, stretch = _extrapolate(first, current, following, stretch)
            in_trail = False
        objective = value
        if steps == len(history):
            history = np.concatenate((history, np.empty(steps)))
        history[steps] = value
        steps += 1
        done = steps > 1 and abs(value - history[steps - 2]) <= tol * abs(value)
    return fallback if extrapolated else current, history[:steps].copy(), done


@njit(cache=True, nogil=True)
def _extrapolate(first, current, following, stretch):
    """Put into ``current`` where three states in a row lead; whether that is beyond the last, and
    the longest way of the next time.
    """
    r = s = 0.0
    for j in range(first.shape[0]):
        for c in range(first.shape[1]):
            r += (current[j, c] - first[j, c]) ** 2
            s += (following[j, c] - 2 * current[j, c] + first[j, c]) ** 2
    alpha = -np.sqrt(r) / np.sqrt(s) if s > 0 else -1.0
    alpha = min(-1.0, max(-stretch, alpha))
    longest = stretch * 4 if alpha == -stretch else stretch
    if alpha == -1.0:
        current[:] = following
        return False, longest
    for j in range(first.shape[0]):
        for c in range(first.shape[1]):
            step = current[j, c] - first[j, c]
            bend = following[j, c] - 2 * current[j, c] + first[j, c]
            current[j, c] = first[j, c] - 2 * alpha * step + alpha**2 * bend
    return True, longest


@njit(cache=True, nogil=True)
def _step(stack, weights, centers, fuzzifier, noise, rounding, work, following):
    """The next centers in ``following``, and the objective of these; ``work`` are arrays to work
    in. A center without any weight stays.
    """
    rows, sums, D, total, part, spare = work
    (k, d), most = centers.shape, 0.0
    for j in range(k):
        norm = 0.0
        for c in range(d):
            norm += centers[j, c] ** 2
            rows[j, 1 + c] = -2.0 * centers[j, c]
        rows[j, 0], rows[j, -1] = norm, 1.0
        most = max(most, norm)
    if len(rows) > k:
        rows[k, 0] = noise
    rows[:, 0] += rounding * (1.0 + most)
    sums[:] = 0.0
    if fuzzifier == 2.0:
        cost = _fuzzy(stack, weights, rows, sums, D, total, part)
    else:
        cost = fuzzy_powers(stack, weights, rows, sums, D, part, spare, fuzzifier)
    for j in range(k):
        for c in range(d):
            following[j, c] = sums[j, 1 + c] / sums[j, 0] if sums[j, 0] > 0 else centers[j, c]
    return cost
