"""Compiled twins of k-means: its draws of first centers, its steps on an embedding, and the scale
behind memberships there.

Needs Numba. Import at call time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["cauchy_scale", "few_steps", "lloyd", "orthogonal_rows", "plus_plus"]


@njit(cache=True, nogil=True)
def plus_plus(X, weights, first, draws, cap):
    """Objects (k,) drawn as centers out of the columns of ``X`` (d, n).

    ``first`` and ``draws`` (k - 1, trials) are uniform numbers: where in the cumulative mass the
    candidates for each center lie.
    """
    n, (m, n_trials) = X.shape[1], draws.shape
    chosen = np.empty(m + 1, dtype=np.int64)
    closest, trial, best = np.full(n, cap), np.empty(n), np.empty(n)
    chosen[0] = _place(np.cumsum(weights), first)
    _closer(X, chosen[0], closest, closest)
    for c in range(m):
        cumulative = np.cumsum(weights * closest)
        if not cumulative[-1] > 0:
            cumulative = np.cumsum(weights)
        least = np.inf
        for t in range(n_trials):
            candidate = _place(cumulative, draws[c, t])
            _closer(X, candidate, closest, trial)
            total = 0.0
            for i in range(n):
                total += weights[i] * trial[i]
            if total < least or t == 0:
                least, chosen[c + 1] = total, candidate
                best, trial = trial, best
        closest, best = best, closest
    return chosen


@njit(cache=True, nogil=True)
def _place(cumulative, uniform):
    """The object that a uniform number falls on."""
    last = len(cumulative) - 1
    return min(np.searchsorted(cumulative, uniform * cumulative[last], side="right"), last)


@njit(cache=True, nogil=True)
def _closer(X, center, closest, out):
    """Squared distances to a column of ``X`` where they are less than ``closest``."""
    distance = _squares(X, X[:, center])
    for i in range(len(out)):
        out[i] = min(closest[i], distance[i])


@njit(cache=True, nogil=True)
def _squares(X, center):
    """Squared distances (n,) of the columns of ``X`` (d, n) to a center (d,)."""
    d, n = X.shape
    distance = np.zeros(n)
    for c in range(d):
        x = center[c]
        for i in range(n):
            distance[i] += (X[c, i] - x) ** 2
    return distance


@njit(cache=True, nogil=True)
def few_steps(X, weights, centers, n_steps):
    """Nearest centers (n,) of the columns of ``X`` (d, n) after some steps of Lloyd's algorithm.

    ``centers`` (k, d) are moved in place, but for those that nothing is near to.
    """
    labels = _nearest(X, centers)
    for _ in range(n_steps):
        if not _move(X, weights, labels, centers):
            break
        labels = _nearest(X, centers)
    return labels


@njit(cache=True, nogil=True)
def _nearest(X, centers):
    n = X.shape[1]
    labels, least = np.zeros(n, dtype=np.int64), np.full(n, np.inf)
    for r in range(len(centers)):
        distance = _squares(X, centers[r])
        for i in range(n):
            labels[i] = r if distance[i] < least[i] else labels[i]
            least[i] = min(distance[i], least[i])
    return labels


@njit(cache=True, nogil=True)
def _move(X, weights, labels, centers):
    """Put centers into the means of what is nearest to them; whether any was elsewhere."""
    d, n = X.shape
    sums, mass, any_moved = np.zeros(centers.shape), np.zeros(len(centers)), False
    for i in range(n):
        mass[labels[i]] += weights[i]
    for c in range(d):
        for i in range(n):
            sums[labels[i], c] += weights[i] * X[c, i]
    for r in range(len(centers)):
        if mass[r] > 0:
            for c in range(d):
                mean = sums[r, c] / mass[r]
                any_moved |= mean != centers[r, c]
                centers[r, c] = mean
    return any_moved


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
