"""Compiled twins of k-means on an embedding, and of the scale behind its memberships.

Needs Numba. Import at call time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["cauchy_scale", "lloyd", "orthogonal_rows"]


@njit(cache=True, nogil=True)
def orthogonal_rows(Z, k, firsts):
    """Rows (starts, k) of ``Z``: each of ``firsts`` (starts,), then one after another the row most
    orthogonal to those chosen.
    """
    n, d = Z.shape
    U, worst, chosen = np.empty((n, d)), np.empty(n), np.empty((len(firsts), k), dtype=np.int64)
    for i in range(n):
        length = 0.0
        for c in range(d):
            length += Z[i, c] * Z[i, c]
        length = np.sqrt(length)
        for c in range(d):
            U[i, c] = Z[i, c] / length if length > 0 else 2.0  # farther than any angle
    for start in range(len(firsts)):
        last = firsts[start]
        worst[:] = 0.0
        for r in range(k):
            chosen[start, r] = last
            following = 0
            for i in range(n):
                cosine = 0.0
                for c in range(d):
                    cosine += U[i, c] * U[last, c]
                worst[i] = max(worst[i], abs(cosine) if U[i, 0] < 2.0 else 2.0)
                if worst[i] < worst[following]:
                    following = i
            last = following
    return chosen


@njit(cache=True, nogil=True)
def lloyd(Z, weights, centers, max_iter, tol):
    """Distortions before each move, and whether the last move changed them by ``tol`` of their
    size at most; ``centers`` (k, d) are moved in place.
    """
    n, d = Z.shape
    k = len(centers)
    errors, sums, mass = np.empty(n), np.empty((k, d)), np.empty(k)
    history, done, steps = np.empty(16), False, 0
    while steps < max_iter and not done:
        if steps == len(history):
            history = np.concatenate((history, np.empty(steps)))
        history[steps] = _assign(Z, weights, centers, errors, sums, mass)
        for r in range(k):
            if mass[r] > 0:
                for c in range(d):
                    centers[r, c] = sums[r, c] / mass[r]
            else:  # a center without rows goes to the worst row
                worst = np.argmax(errors)
                centers[r] = Z[worst]
                errors[worst] = 0.0
        steps += 1
        if steps > 1:
            change = abs(history[steps - 1] - history[steps - 2])
            done = change <= tol * abs(history[steps - 1])
    return history[:steps].copy(), done


@njit(cache=True, nogil=True)
def _assign(Z, weights, centers, errors, sums, mass):
    """The distortion, with the sums and masses of the rows nearest to each center."""
    n, d = Z.shape
    distortion = 0.0
    sums[:], mass[:] = 0.0, 0.0
    for i in range(n):
        best, least = 0, np.inf
        for r in range(len(centers)):
            distance = 0.0
            for c in range(d):
                distance += (Z[i, c] - centers[r, c]) ** 2
            if distance < least:
                best, least = r, distance
        errors[i] = weights[i] * least
        distortion += errors[i]
        mass[best] += weights[i]
        for c in range(d):
            sums[best, c] += weights[i] * Z[i, c]
    return distortion


@njit(cache=True, nogil=True)
def cauchy_scale(distances, weights, q, t, smallest, max_iter):
    """The t of largest likelihood, from the first guess ``t``; as ``kmeans.temperature``."""
    way = 0.0
    for step in range(max_iter):
        before, last = t, way
        t = max(smallest, _step(distances, weights, q, t))
        way = np.log(t / before)
        if abs(way) <= 1e-6:
            break
        if step % 2 == 1 and last != 0.0 and 0.0 < way / last < 1.0:
            ratio = way / last
            t = max(smallest, t * np.exp(min(3.0, max(-3.0, way * ratio / (1 - ratio)))))
    return t


@njit(cache=True, nogil=True)
def _step(distances, weights, q, t):
    """One step of expectation-maximisation."""
    n, k = distances.shape
    spread, mass = 0.0, 0.0
    for i in range(n):
        least = np.inf
        for r in range(k):
            least = min(least, distances[i, r])
        total, own, far = 0.0, 0.0, 0.0
        for r in range(k):
            # (1 + d / t)^(-(1 + q) / 2), relative to that of the nearest center
            height = np.sqrt((t + least) / (t + distances[i, r])) ** (1 + q)
            share = height / (1.0 + distances[i, r] / t)
            total += height
            own += share
            far += share * distances[i, r]
        mass += weights[i] * own / total
        spread += weights[i] * far / total
    return spread / (q * mass)
