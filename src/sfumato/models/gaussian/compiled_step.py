"""Compiled step of EM, and the extrapolation between steps, for ``compiled``.

Needs Numba. States lie in slots: weights ``W`` (slots, k or k + 1), means ``M`` (slots, k, d) and
shapes ``C`` (slots, k, d, d), or with (1, d) or (1, 1) as their last axes where covariances are
diagonal or multiples of the identity. ``fixed`` holds the floor and the logarithm of the noise
density, ``numbers`` the strength of the prior, the share of its scale and its powers (0: none).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...numerics.compiled_families import E, V, covariances
from ...numerics.compiled_matrices import cholesky, precision, raised
from ...numerics.compiled_sums import gaussian_walk
from .kernel import INNER_STEPS, LEAST_MASS, LOG_2PI

__all__ = ["extrapolate", "levels", "step"]

TINY = float(np.finfo(np.float64).tiny)


@njit(cache=True, nogil=True)
def step(Z, w, count, family, turns, fixed, mean, scale, numbers, W, M, C, slot, out):
    """One step of EM from a slot to another; the objective of the former."""
    k, d = M.shape[1:]
    q, n = Z.shape[1:]
    rows = np.zeros((W.shape[1], q))
    peak, value = _ready(W[slot], M[slot], C[slot], fixed, mean, scale, numbers, rows)
    sums = np.zeros(rows.shape)
    D, E = np.empty((len(rows), n)), np.empty((len(rows), n))
    part, spare, none = np.empty(rows.shape), np.empty((2, n)), np.empty((0, 0))
    # Fast, with one level for all objects; NaN where all densities of an object underflow.
    walked = gaussian_walk(Z, w, rows, sums, D, none, none, part, E, spare)
    if np.isnan(walked):
        walked = _carefully(Z[0], w, rows, sums)
    _update(sums, family, turns, fixed, mean, scale, numbers, W, M, C, slot, out)
    return walked + peak * count + value


@njit(cache=True, nogil=True)
def levels(Z, w, fixed, mean, scale, W, M, C):
    """The log-likelihood of the first slot, and the sum of the logarithms of every object's largest
    membership.
    """
    rows, none = np.zeros((W.shape[1], Z.shape[1])), np.zeros(3)
    peak, _ = _ready(W[0], M[0], C[0], fixed, mean, scale, none, rows)
    L = np.dot(rows, Z[0])
    value, sure = 0.0, 0.0
    for i in range(L.shape[1]):
        top, total = -np.inf, 0.0
        for j in range(len(L)):
            top = max(top, L[j, i])
        for j in range(len(L)):
            total += np.exp(L[j, i] - top)
        weight = w[i] if len(w) else 1.0
        value += weight * (np.log(total) + top + peak)
        sure -= weight * np.log(total)
    return value, sure


@njit(cache=True, nogil=True)
def _carefully(Z, w, rows, sums):
    """Sums where all densities of an object vanish beside the highest one."""
    k, n = len(rows), Z.shape[1]
    L, q, value = np.empty(k), len(Z), 0.0
    for j in range(k):
        for a in range(q):
            sums[j, a] = 0.0
    for i in range(n):
        top, total = -np.inf, 0.0
        for j in range(k):
            L[j] = 0.0
            for a in range(q):
                L[j] += rows[j, a] * Z[a, i]
            top = max(top, L[j])
        for j in range(k):
            L[j] = np.exp(L[j] - top)
            total += L[j]
        weight = w[i] if len(w) else 1.0
        value += weight * (np.log(total) + top)
        for j in range(k):
            for a in range(q):
                sums[j, a] += weight * L[j] / total * Z[a, i]
    return value


@njit(cache=True, nogil=True)
def _ready(weights, means, shapes, fixed, mean, scale, numbers, rows):
    """Coefficients of z(x) relative to the highest peak, the peak, and the log prior density."""
    k, d = means.shape
    value, peak = 0.0, -np.inf
    factor, inverse, P = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for j in range(k):
        if shapes.shape[1] > 1:
            log_det = _inverse(shapes[j], fixed[0], factor, inverse, P)
        else:
            log_det = 0.0
            for a in range(d):
                # Diagonal shapes have d variances, multiples of the identity one.
                P[a, a] = 1.0 / shapes[j, 0, min(a, shapes.shape[2] - 1)]
                log_det += np.log(P[a, a])
        rows[j, 0] = np.log(max(weights[j], TINY)) + 0.5 * (log_det - d * LOG_2PI)
        peak = max(peak, rows[j, 0])
        _coefficients(P, means[j], rows[j])
        if numbers[2] > 0.0:
            value -= 0.5 * numbers[2] * -log_det
            for a in range(d):
                for b in range(d):
                    near = numbers[0] * (means[j, a] - mean[a]) * (means[j, b] - mean[b])
                    value -= 0.5 * P[a, b] * (near + numbers[1] * scale[a, b])
    if len(rows) > k:
        rows[k, 0] = np.log(max(weights[k], TINY)) + fixed[1]
        peak = max(peak, rows[k, 0])
    for j in range(len(rows)):
        rows[j, 0] -= peak
    return peak, value


@njit(cache=True, nogil=True)
def _inverse(matrix, floor, factor, inverse, P):
    """Inverse ``P`` of a covariance, raised where rounding made it indefinite; its log-det."""
    d = len(matrix)
    if not cholesky(matrix, 0.0, factor):
        again, largest = np.empty((1, d, d)), 0.0
        for a in range(d):
            for b in range(d):
                again[0, a, b] = matrix[a, b]
                largest = max(largest, abs(matrix[a, b]))
        raised(again, max(floor, 1e-14 * largest))
        cholesky(again[0], 0.0, factor)
    return precision(factor, inverse, P)


@njit(cache=True, nogil=True)
def _coefficients(P, mean, row):
    """Add -(x - mean)' P (x - mean) / 2 as coefficients of z(x)."""
    d, q = len(P), len(row)
    for a in range(d):
        linear = 0.0
        for b in range(d):
            linear += P[a, b] * mean[b]
        row[0] -= 0.5 * linear * mean[a]
        row[1 + a] = linear
    if q == d + 2:
        row[d + 1] = -0.5 * P[0, 0]
    elif q == 2 * d + 1:
        for a in range(d):
            row[d + 1 + a] = -0.5 * P[a, a]
    else:
        at = d + 1
        for a in range(d):
            for b in range(a, d):
                # z(x) holds x_a x_b once for a < b, so these count twice.
                row[at] = -0.5 * P[a, a] if a == b else -P[a, b]
                at += 1


@njit(cache=True, nogil=True)
def _update(sums, family, turns, fixed, mean, scale, numbers, W, M, C, slot, out):
    """The M step, as ``kernel.update``."""
    k, d = M.shape[1:]
    total = 0.0
    for j in range(len(sums)):
        total += sums[j, 0]
    mass, scatter = np.empty(k), np.empty(C.shape[1:])
    gap, middle = np.empty(d), np.empty(d)
    for j in range(len(sums)):
        W[out, j] = sums[j, 0] / total
    for j in range(k):
        alive = sums[j, 0] > LEAST_MASS * total
        mass[j] = sums[j, 0] if alive else LEAST_MASS * total
        # Posterior mean: the prior counts as numbers[0] objects at its mean.
        part = mass[j] / (mass[j] + numbers[0])
        for a in range(d):
            middle[a] = sums[j, 1 + a] / mass[j] if alive else M[slot, j, a]
            M[out, j, a] = part * middle[a] + (1.0 - part) * mean[a]
            gap[a] = middle[a] - M[out, j, a]
        if alive:
            _scatter(sums[j], mass[j], middle, gap, scatter[j])
        else:
            for a in range(scatter.shape[1]):
                for b in range(scatter.shape[2]):
                    scatter[j, a, b] = C[slot, j, a, b] * mass[j]
        if numbers[2] > 0.0:
            for a in range(d):
                gap[a] = M[out, j, a] - mean[a]
            _add_prior(gap, numbers, scale, scatter[j])
            mass[j] += numbers[2]
    covariances(family, scatter, mass, C[slot], fixed[0], INNER_STEPS, turns, C[out])


@njit(cache=True, nogil=True)
def _scatter(sums, mass, middle, gap, out):
    """Squared deviations from a mean that differs from the ``middle`` by ``gap``, summed."""
    d = len(middle)
    if out.shape[0] > 1:
        at = d + 1
        for a in range(d):
            for b in range(a, d):
                value = sums[at] - mass * (middle[a] * middle[b] - gap[a] * gap[b])
                out[a, b] = value
                out[b, a] = value
                at += 1
    elif out.shape[1] == d:
        for a in range(d):
            out[0, a] = sums[d + 1 + a] - mass * (middle[a] ** 2 - gap[a] ** 2)
    else:
        value = sums[d + 1]
        for a in range(d):
            value -= mass * (middle[a] ** 2 - gap[a] ** 2)
        out[0, 0] = value / d


@njit(cache=True, nogil=True)
def _add_prior(gap, numbers, scale, out):
    """What the prior adds to the scatter of a component."""
    d = len(gap)
    for a in range(d):
        for b in range(d):
            more = numbers[0] * gap[a] * gap[b] + numbers[1] * scale[a, b]
            if out.shape[0] > 1:
                out[a, b] += more
            elif a == b and out.shape[1] == d:
                out[0, a] += more
            elif a == b:
                out[0, 0] += more / d


@njit(cache=True, nogil=True)
def extrapolate(family, turns, fixed, W, M, C, first, second, third, out, stretch):
    """The squared extrapolation of three states; the next stretch, and whether one was made."""
    # Families with one common covariance are packed once.
    m = 1 if family[0] == E and family[1] == E and family[2] != V else M.shape[1]
    x = np.empty((3, W.shape[1] + M.shape[1] * M.shape[2] + m * C.shape[2] * C.shape[3]))
    _pack(m, fixed, W[first], M[first], C[first], x[0])
    _pack(m, fixed, W[second], M[second], C[second], x[1])
    _pack(m, fixed, W[third], M[third], C[third], x[2])
    r = v = 0.0
    for a in range(x.shape[1]):
        r += (x[1, a] - x[0, a]) ** 2
        v += (x[2, a] - 2.0 * x[1, a] + x[0, a]) ** 2
    alpha = -np.sqrt(r) / np.sqrt(v) if v > 0.0 else -1.0
    # As in SQUAREM: -1 is the plain step, and the longest step grows when it is reached.
    alpha = min(-1.0, max(-stretch, alpha))
    longer = stretch * 4.0 if alpha == -stretch else stretch
    if alpha == -1.0:
        return longer, False
    for a in range(x.shape[1]):
        second_difference = x[2, a] - 2.0 * x[1, a] + x[0, a]
        x[0, a] += -2.0 * alpha * (x[1, a] - x[0, a]) + alpha**2 * second_difference
    _unpack(x[0], m, family, turns, fixed, W, M, C, third, out)
    return longer, True


@njit(cache=True, nogil=True)
def _pack(m, fixed, weights, means, shapes, vector):
    """A state as one vector: log weights, means, logarithms or factors of ``m`` covariances."""
    at, (k, d), (p, q) = 0, means.shape, shapes.shape[1:]
    for j in range(len(weights)):
        vector[at] = np.log(max(weights[j], TINY))
        at += 1
    for j in range(k):
        for a in range(d):
            vector[at] = means[j, a]
            at += 1
    lifted, factor, largest = np.empty((m, p, q)), np.zeros((p, q)), 0.0
    for j in range(m):
        for a in range(p):
            for b in range(q):
                lifted[j, a, b] = shapes[j, a, b]
                largest = max(largest, abs(shapes[j, a, b]))
    if p > 1:
        raised(lifted, 0.5 * max(fixed[0], 1e-14 * largest))
    for j in range(m):
        if p > 1:
            cholesky(lifted[j], 0.0, factor)
        for a in range(p):
            for b in range(q):
                if p == 1:
                    value = 0.5 * np.log(lifted[j, a, b])
                else:
                    value = np.log(factor[a, b]) if a == b else factor[a, b] if b < a else 0.0
                vector[at] = value
                at += 1


@njit(cache=True, nogil=True)
def _unpack(vector, m, family, turns, fixed, W, M, C, like, out):
    """The state of a vector, brought back into its family."""
    at, (k, d), (p, q) = W.shape[1], M.shape[1:], C.shape[2:]
    top, total = -np.inf, 0.0
    for j in range(at):
        top = max(top, vector[j])
    for j in range(at):
        W[out, j] = np.exp(vector[j] - top)
        total += W[out, j]
    for j in range(at):
        W[out, j] /= total
    for j in range(k):
        for a in range(d):
            M[out, j, a] = vector[at + j * d + a]
    at += k * d
    scatter, mass, factor = np.empty((k, p, q)), np.empty(k), np.empty((p, q))
    for j in range(k):
        mass[j] = max(W[out, j], LEAST_MASS)
        for a in range(p):
            for b in range(q):
                value = vector[at + min(j, m - 1) * p * q + a * q + b]
                if p == 1 or a == b:
                    # An extrapolation may go far; squares of these bounds are still numbers.
                    value = np.exp(min(max(value, -300.0), 300.0))
                factor[a, b] = value
        for a in range(p):
            for b in range(q):
                value = 0.0
                for c in range(min(a, b) + 1 if p > 1 else 0):
                    value += factor[a, c] * factor[b, c]
                scatter[j, a, b] = mass[j] * (value if p > 1 else factor[a, b] ** 2)
    covariances(family, scatter, mass, C[like], fixed[0], INNER_STEPS, turns, C[out])
