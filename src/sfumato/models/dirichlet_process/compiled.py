"""Compiled twin of ``gibbs.visit``.

``pip install 'sfumato[fast]'`` brings Numba, which this module needs. Import it at call time.
"""

from __future__ import annotations

from math import exp, inf, isnan, lgamma, log, log1p
from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

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
    return _visit(table, X, labels, choices, uniforms, float(log_alpha), int(first))


# What the kinds of clusters do in their own way: Numba picks the form by the class of the table.


def _prepare(table, x, work):
    """What the densities of all clusters share, into ``work`` (2, q)."""


def _log_density(table, k, x, work):
    """Log predictive density of ``x`` in cluster ``k``."""


def _shift(table, k, x, sign, work):
    """``x`` enters (sign 1) or leaves (sign -1) cluster ``k``; the count is still the old one."""


def _clear(table, k):
    """Cluster ``k`` becomes the prior again."""


@njit(cache=True, nogil=True)
def _visit(table, X, labels, choices, uniforms, log_alpha, first):
    counts = table.counts
    scores, work = np.empty(len(counts)), np.empty((2, X.shape[1]))
    log_chance = 0.0
    for i in range(first, len(X)):
        x, old = X[i], labels[i]
        if old >= 0:
            _shift(table, old, x, -1, work)
            counts[old] -= 1
            labels[i] = -1
            if counts[old] == 0:
                _clear(table, old)
        free = _free(counts, log_alpha)
        if free == -2:
            return i, log_chance
        _prepare(table, x, work)
        for k in range(len(counts)):
            if counts[k] == 0 and k != free:
                scores[k] = -inf
                continue
            prior = log_alpha if k == free else log(counts[k])
            scores[k] = _log_density(table, k, x, work) + prior
        new, chance = _choose(scores, choices[i], uniforms[i])
        log_chance += chance
        _shift(table, new, x, 1, work)
        counts[new] += 1
        labels[i] = new
    return len(X), log_chance


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


def _full_shift(table, k, x, sign, work):
    d, gap, direction = len(x), work[0], work[1]
    kappa = table.kappa + table.counts[k]
    weight = sign * kappa / (kappa + sign)
    for a in range(d):
        gap[a] = x[a] - table.means[k, a]
    growth = 0.0
    for a in range(d):
        direction[a] = 0.0
        for b in range(d):
            direction[a] += table.inverses[k, a, b] * gap[b]
        growth += weight * gap[a] * direction[a]
    for a in range(d):
        table.means[k, a] += sign / (kappa + sign) * gap[a]
        for b in range(d):
            table.inverses[k, a, b] -= weight / (1 + growth) * direction[a] * direction[b]
    table.log_dets[k] += log1p(growth)


def _full_log_density(table, k, x, work):
    gap, square = work[0], 0.0
    for a in range(len(x)):
        gap[a] = x[a] - table.means[k, a]
    for a in range(len(x)):
        row = 0.0
        for b in range(len(x)):
            row += table.inverses[k, a, b] * gap[b]
        square += row * gap[a]
    own = table.kappa + table.counts[k]
    return (
        table.table[table.counts[k]]
        - 0.5 * table.log_dets[k]
        - 0.5 * (table.df + table.counts[k] + 1) * log1p(own / (own + 1) * square)
    )


def _full_clear(table, k):
    table.means[k], table.inverses[k], table.log_dets[k] = table.empty


def _diagonal_shift(table, k, x, sign, work):
    for a in range(len(x)):
        if not isnan(x[a]):
            kappa = table.kappa[a] + table.seen[k, a]
            gap = x[a] - table.means[k, a]
            table.scales[k, a] += 0.5 * sign * kappa / (kappa + sign) * gap**2
            table.means[k, a] += sign / (kappa + sign) * gap
            table.seen[k, a] += sign


def _diagonal_log_density(table, k, x, work):
    means, scales, seen, density = table.means, table.scales, table.seen, 0.0
    for a in range(len(x)):
        if not isnan(x[a]):
            own = table.kappa[a] + seen[k, a]
            growth = log1p(0.5 * own / (own + 1) * (x[a] - means[k, a]) ** 2 / scales[k, a])
            density += (
                table.table[seen[k, a], a]
                - 0.5 * log(scales[k, a])
                - (table.shape[a] + 0.5 * seen[k, a] + 0.5) * growth
            )
    return density


def _diagonal_clear(table, k):
    table.seen[k] = 0
    table.means[k], table.scales[k] = table.empty


@njit(cache=True, nogil=True)
def _rise(a, z):
    """log Gamma(a + z) - log Gamma(a)."""
    if z == 1.0:
        return log(a)
    return lgamma(a + z) - lgamma(a)


def _count_shift(table, k, x, sign, work):
    for a in range(len(x)):
        table.concentrations[k, a] += sign * x[a]
        table.totals[k, a % table.n_groups] += sign * x[a]


def _count_totals(table, x, work):
    drawn = work[0]
    drawn[: table.n_groups] = 0.0
    for a in range(len(x)):
        drawn[a % table.n_groups] += x[a]


def _count_log_density(table, k, x, work):
    drawn, density = work[0], 0.0
    for a in range(len(x)):
        if x[a] > 0.0:
            density += _rise(table.concentrations[k, a], x[a])
    for g in range(table.n_groups):
        if drawn[g] > 0.0:
            density -= _rise(table.totals[k, g], drawn[g])
    return density


def _count_clear(table, k):
    table.concentrations[k], table.totals[k] = table.empty


def _nothing(table, x, work):
    pass


KINDS = {
    FullSeats: (_nothing, _full_log_density, _full_shift, _full_clear),
    DiagonalSeats: (_nothing, _diagonal_log_density, _diagonal_shift, _diagonal_clear),
    CountSeats: (_count_totals, _count_log_density, _count_shift, _count_clear),
}


@overload(_prepare, inline="always")
def _prepare_of_kind(table, x, work):
    return KINDS[table.instance_class][0]


# Inlined: the call for every cluster of every object would cost as much as its arithmetic.
@overload(_log_density, inline="always")
def _log_density_of_kind(table, k, x, work):
    return KINDS[table.instance_class][1]


@overload(_shift)
def _shift_of_kind(table, k, x, sign, work):
    return KINDS[table.instance_class][2]


@overload(_clear)
def _clear_of_kind(table, k):
    return KINDS[table.instance_class][3]
