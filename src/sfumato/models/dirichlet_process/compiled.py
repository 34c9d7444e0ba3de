"""Compiled twin of ``gibbs.visit``.

``pip install 'sfumato[fast]'`` brings Numba, which this module needs. Import it at call time.
"""

from __future__ import annotations

from math import exp, inf, isnan, lgamma, log, log1p
from typing import Any

import numpy as np
from numba import njit

from ...core.types import Array, ArrayLike
from .seating import CountSeats, DiagonalSeats, FullSeats

__all__ = ["visit"]


def visit(
    table: float | np.ndarray,
    X: Array,
    labels: ArrayLike,
    choices: Any,
    uniforms: Array,
    log_alpha: float,
    first: int,
) -> tuple[int, float]:
    """The same as ``gibbs.visit``, object by object in machine code."""
    trip = (X, labels, choices, uniforms, float(log_alpha), int(first))
    if isinstance(table, FullSeats):
        return _visit_full(*trip, *table[:7], *table.empty)
    if isinstance(table, DiagonalSeats):
        return _visit_diagonal(*trip, *table[:7], *table.empty)
    assert isinstance(table, CountSeats)
    return _visit_counts(*trip, *table[:4], *table.empty)


@njit(cache=True, nogil=True)
def _free(counts, log_alpha):
    """First empty slot; -1 if no new cluster may be opened, -2 if there is no room for one."""
    if log_alpha == -inf:
        return -1
    for k in range(len(counts)):
        if counts[k] == 0:
            return k
    return -2


@njit(cache=True, nogil=True)
def _choose(scores, choice, uniform):
    """Slot drawn in proportion to exp(scores), or the one prescribed, and its log chance.

    The first if nothing can be told apart.
    """
    top = -inf
    for k in range(len(scores)):
        if isnan(scores[k]):
            scores[k] = -inf
        top = max(top, scores[k])
    if top == -inf or top == inf:
        return max(choice, 0), 0.0
    total = 0.0
    for k in range(len(scores)):
        total += exp(scores[k] - top)
    if choice < 0:
        rest = uniform * total
        mass = 0.0
        for k in range(len(scores)):
            mass += exp(scores[k] - top)
            if scores[k] > -inf:
                choice = k
            if mass > rest:
                break
    return choice, scores[choice] - top - log(total)


@njit(cache=True, nogil=True)
def _shift_full(k, x, sign, counts, means, inverses, log_dets, prior_kappa, gap, direction):
    d = len(x)
    kappa = prior_kappa + counts[k]
    weight = sign * kappa / (kappa + sign)
    for a in range(d):
        gap[a] = x[a] - means[k, a]
    growth = 0.0
    for a in range(d):
        direction[a] = 0.0
        for b in range(d):
            direction[a] += inverses[k, a, b] * gap[b]
        growth += weight * gap[a] * direction[a]
    for a in range(d):
        means[k, a] += sign / (kappa + sign) * gap[a]
        for b in range(d):
            inverses[k, a, b] -= weight / (1 + growth) * direction[a] * direction[b]
    log_dets[k] += log1p(growth)
    counts[k] += sign


@njit(cache=True, nogil=True)
def _visit_full(
    X,
    labels,
    choices,
    uniforms,
    log_alpha,
    first,
    counts,
    means,
    inverses,
    log_dets,
    kappa,
    df,
    table,
    mean,
    inverse,
    log_det,
):
    n, d = X.shape
    scores, gap, direction = np.empty(len(counts)), np.empty(d), np.empty(d)
    log_chance = 0.0
    for i in range(first, n):
        x, old = X[i], labels[i]
        if old >= 0:
            _shift_full(old, x, -1, counts, means, inverses, log_dets, kappa, gap, direction)
            labels[i] = -1
            if counts[old] == 0:
                means[old], inverses[old], log_dets[old] = mean, inverse, log_det
        free = _free(counts, log_alpha)
        if free == -2:
            return i, log_chance
        for k in range(len(counts)):
            if counts[k] == 0 and k != free:
                scores[k] = -inf
                continue
            square = 0.0
            for a in range(d):
                gap[a] = x[a] - means[k, a]
            for a in range(d):
                row = 0.0
                for b in range(d):
                    row += inverses[k, a, b] * gap[b]
                square += row * gap[a]
            own = kappa + counts[k]
            density = (
                table[counts[k]]
                - 0.5 * log_dets[k]
                - 0.5 * (df + counts[k] + 1) * log1p(own / (own + 1) * square)
            )
            scores[k] = density + (log_alpha if k == free else log(counts[k]))
        new, chance = _choose(scores, choices[i], uniforms[i])
        log_chance += chance
        _shift_full(new, x, 1, counts, means, inverses, log_dets, kappa, gap, direction)
        labels[i] = new
    return n, log_chance


@njit(cache=True, nogil=True)
def _shift_diagonal(k, x, sign, counts, seen, means, scales, prior_kappa):
    for a in range(len(x)):
        if not isnan(x[a]):
            kappa = prior_kappa[a] + seen[k, a]
            gap = x[a] - means[k, a]
            scales[k, a] += 0.5 * sign * kappa / (kappa + sign) * gap**2
            means[k, a] += sign / (kappa + sign) * gap
            seen[k, a] += sign
    counts[k] += sign


@njit(cache=True, nogil=True)
def _visit_diagonal(
    X,
    labels,
    choices,
    uniforms,
    log_alpha,
    first,
    counts,
    seen,
    means,
    scales,
    kappa,
    shape,
    table,
    mean,
    scale,
):
    n, d = X.shape
    scores = np.empty(len(counts))
    log_chance = 0.0
    for i in range(first, n):
        x, old = X[i], labels[i]
        if old >= 0:
            _shift_diagonal(old, x, -1, counts, seen, means, scales, kappa)
            labels[i] = -1
            if counts[old] == 0:
                seen[old], means[old], scales[old] = 0, mean, scale
        free = _free(counts, log_alpha)
        if free == -2:
            return i, log_chance
        for k in range(len(counts)):
            if counts[k] == 0 and k != free:
                scores[k] = -inf
                continue
            density = 0.0
            for a in range(d):
                if not isnan(x[a]):
                    own = kappa[a] + seen[k, a]
                    growth = log1p(0.5 * own / (own + 1) * (x[a] - means[k, a]) ** 2 / scales[k, a])
                    density += (
                        table[seen[k, a], a]
                        - 0.5 * log(scales[k, a])
                        - (shape[a] + 0.5 * seen[k, a] + 0.5) * growth
                    )
            scores[k] = density + (log_alpha if k == free else log(counts[k]))
        new, chance = _choose(scores, choices[i], uniforms[i])
        log_chance += chance
        _shift_diagonal(new, x, 1, counts, seen, means, scales, kappa)
        labels[i] = new
    return n, log_chance


@njit(cache=True, nogil=True)
def _rise(a, z):
    """log Gamma(a + z) - log Gamma(a)."""
    if z == 1.0:
        return log(a)
    return lgamma(a + z) - lgamma(a)


@njit(cache=True, nogil=True)
def _shift_counts(k, x, sign, counts, concentrations, totals, n_groups):
    for a in range(len(x)):
        concentrations[k, a] += sign * x[a]
        totals[k, a % n_groups] += sign * x[a]
    counts[k] += sign


@njit(cache=True, nogil=True)
def _visit_counts(
    X,
    labels,
    choices,
    uniforms,
    log_alpha,
    first,
    counts,
    concentrations,
    totals,
    n_groups,
    prior,
    prior_totals,
):
    n, q = X.shape
    scores, drawn = np.empty(len(counts)), np.empty(n_groups)
    log_chance = 0.0
    for i in range(first, n):
        x, old = X[i], labels[i]
        if old >= 0:
            _shift_counts(old, x, -1, counts, concentrations, totals, n_groups)
            labels[i] = -1
            if counts[old] == 0:
                concentrations[old], totals[old] = prior, prior_totals
        free = _free(counts, log_alpha)
        if free == -2:
            return i, log_chance
        drawn[:] = 0.0
        for a in range(q):
            drawn[a % n_groups] += x[a]
        for k in range(len(counts)):
            if counts[k] == 0 and k != free:
                scores[k] = -inf
                continue
            density = 0.0
            for a in range(q):
                if x[a] > 0.0:
                    density += _rise(concentrations[k, a], x[a])
            for g in range(n_groups):
                if drawn[g] > 0.0:
                    density -= _rise(totals[k, g], drawn[g])
            scores[k] = density + (log_alpha if k == free else log(counts[k]))
        new, chance = _choose(scores, choices[i], uniforms[i])
        log_chance += chance
        _shift_counts(new, x, 1, counts, concentrations, totals, n_groups)
        labels[i] = new
    return n, log_chance
