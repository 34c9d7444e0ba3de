"""Compiled twin of ``families.covariances`` for one mixture, with a previous solution.

Needs Numba (``pip install 'sfumato[fast]'``). Import at call time.

Shapes have one form for all kinds: (k, d, d), and (k, 1, d) or (k, 1, 1)
where matrices are diagonal or multiples of the identity. A family is three numbers, ``letters``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from .compiled_matrices import (
    ascending,
    cholesky,
    compose,
    copy,
    precision,
    raised,
    rotate,
    scale,
    total,
    turn,
    turn_rows,
)
from .families import INNER_TOL, RIDGE, SMALLEST, SMALLEST_ANGLE, rounds

__all__ = ["E", "V", "covariances", "letters", "pairs"]

E, V, I = 0, 1, 2
DECADES = 310  # by which the diagonal of an indefinite matrix may be raised: all there are


@lru_cache(maxsize=14)
def letters(family: str) -> tuple[int, int, int]:
    """Numbers of the letters; a multiple of the identity is a diagonal matrix of one number."""
    family = family if family[1] != "I" else 2 * family[0] + "I"
    volume, shape, orientation = ("EVI".index(letter) for letter in family)
    return volume, shape, orientation


@lru_cache(maxsize=64)
def pairs(d: int) -> np.ndarray:
    """All pairs of ``d`` axes in the order in which they are turned."""
    found = [np.stack(both, axis=1) for both in rounds(d)]
    return np.concatenate(found) if found else np.empty((0, 2), dtype=np.int64)


@njit(cache=True, nogil=True)
def _volume(variances):
    """Geometric mean."""
    value = 0.0
    for a in range(len(variances)):
        value += np.log(variances[a])
    return np.exp(value / len(variances))


@njit(cache=True, nogil=True)
def _variances(volume, shape, spread, mass, previous, floor, n_steps, out):
    """Variances (k, d) along known axes from the sums of squares ``spread`` along them."""
    k, d = spread.shape
    least, whole = max(floor, SMALLEST), total(mass)
    if volume == E and shape == E:
        for a in range(d):
            value = 0.0
            for j in range(k):
                value += spread[j, a]
            for j in range(k):
                out[j, a] = max(value / whole, floor)
        return
    for j in range(k):
        for a in range(d):
            out[j, a] = max(spread[j, a] / mass[j], least)
    if volume == V and shape == V:
        return
    if volume == E:
        common = 0.0
        for j in range(k):
            common += mass[j] * _volume(out[j])
        for j in range(k):
            factor = common / whole / _volume(out[j])
            for a in range(d):
                out[j, a] = max(out[j, a] * factor, floor)
        return
    _common_shape(mass, previous, floor, n_steps, out)


@njit(cache=True, nogil=True)
def _common_shape(mass, previous, floor, n_steps, out):
    """Mean squares ``out`` (k, d) along the axes become volumes times one shape."""
    k, d = out.shape
    least = max(floor, SMALLEST)
    volumes, form = np.empty(k), np.empty(d)
    for j in range(k):
        for a in range(d):
            form[a] = max(previous[j, a], least)
        volumes[j] = _volume(form)
    for _ in range(n_steps):
        for a in range(d):
            form[a] = 0.0
            for j in range(k):
                form[a] += mass[j] / volumes[j] * out[j, a]
        size = _volume(form)
        for a in range(d):
            form[a] /= size
        settled = True
        for j in range(k):
            value = 0.0
            for a in range(d):
                value += out[j, a] / form[a]
            value /= d
            settled = settled and abs(value - volumes[j]) <= INNER_TOL * volumes[j]
            volumes[j] = value
        if settled:
            break
    for j in range(k):
        for a in range(d):
            out[j, a] = max(volumes[j] * form[a], floor)


@njit(cache=True, nogil=True)
def _own_axes(volume, shape, scatter, mass, previous, floor, n_steps, out):
    """EEV, VEV and EVV: every component has the principal axes of its own scatter."""
    k, d = scatter.shape[:2]
    axes, spread, before = np.empty((k, d, d)), np.empty((k, d)), np.empty((k, d))
    rest, aside, variances = np.zeros((d, d)), np.empty((d, d)), np.empty((k, d))
    for j in range(k):
        if volume == V and shape == E:  # only the volumes count, and a factor has them too
            if cholesky(previous[j], 0.0, rest):
                for a in range(d):
                    before[j, a] = rest[a, a] ** 2
            else:
                ascending(previous[j], rest, aside, before[j])
        ascending(scatter[j], rest, axes[j], spread[j])
        for a in range(d):
            spread[j, a] = max(spread[j, a], 0.0)
    _variances(volume, shape, spread, mass, before, floor, n_steps, variances)
    for j in range(k):
        compose(axes[j], variances[j], out[j])


@njit(cache=True, nogil=True)
def _proportional(scatter, mass, previous, floor, n_steps, out):
    """VEE: multiples of one matrix, which is updated in turn with the multiples."""
    k, d = scatter.shape[:2]
    least, whole = max(floor, SMALLEST), total(mass)
    volumes, matrix = np.empty(k), np.empty((d, d))
    factor, inverse, P = np.zeros((d, d)), np.zeros((d, d)), np.empty((d, d))
    copy(previous, out)
    raised(out, least)
    for j in range(k):
        cholesky(out[j], 0.0, factor)
        volumes[j] = max(np.exp(-precision(factor, inverse, P) / d), least)
    for _ in range(n_steps):
        trace = 0.0
        for a in range(d):
            for b in range(d):
                value = 0.0
                for j in range(k):
                    value += scatter[j, a, b] / (volumes[j] * whole)
                matrix[a, b] = value
            trace += matrix[a, a]
        for a in range(d):
            matrix[a, a] += RIDGE * (1.0 + abs(trace) / d)
        scale(matrix, 1.0 / _size(matrix, factor, inverse, P))
        settled = _multiples(scatter, mass, factor, inverse, P, matrix, least, volumes)
        if settled:
            break
    for j in range(k):
        for a in range(d):
            for b in range(d):
                out[j, a, b] = volumes[j] * matrix[a, b]
    raised(out, floor)


@njit(cache=True, nogil=True)
def _multiples(scatter, mass, factor, inverse, P, matrix, least, volumes):
    """The best multiples of a matrix, in place of ``volumes``; whether they hardly changed."""
    k, d = scatter.shape[:2]
    cholesky(matrix, 0.0, factor)
    precision(factor, inverse, P)
    settled = True
    for j in range(k):
        value = 0.0
        for a in range(d):
            for b in range(d):
                value += scatter[j, a, b] * P[a, b]
        value = max(value / (mass[j] * d), least)
        settled = settled and abs(value - volumes[j]) <= INNER_TOL * volumes[j]
        volumes[j] = value
    return settled


@njit(cache=True, nogil=True)
def _size(matrix, factor, inverse, P):
    """|matrix|^(1/d); rounding may have made it indefinite, then its diagonal is raised."""
    d, trace = len(matrix), 0.0
    for a in range(d):
        trace += abs(matrix[a, a])
    more = max(1e-14 * trace, SMALLEST)
    for _ in range(DECADES):
        if cholesky(matrix, 0.0, factor):
            return np.exp(-precision(factor, inverse, P) / d)
        for a in range(d):
            matrix[a, a] += more
        more *= 10.0
    return np.nan


@njit(cache=True, nogil=True)
def _common_axes(volume, shape, scatter, mass, previous, floor, n_steps, turns, out):
    """EVE and VVE: one set of axes, turned in pairs, in turn with the variances along them."""
    k, d = scatter.shape[:2]
    together, rest, axes = np.zeros((d, d)), np.empty((d, d)), np.empty((d, d))
    for j in range(k):
        trace = 0.0
        for a in range(d):
            trace += previous[j, a, a]
        weight = (1.0 + j / k) / max(trace, SMALLEST)
        for a in range(d):
            for b in range(d):
                together[a, b] += weight * previous[j, a, b]
    spread, variances = np.empty((k, d)), np.empty((k, d))
    ascending(together, rest, axes, spread[0])
    rotated = np.empty((k, d, d))
    for j in range(k):
        rotate(axes, scatter[j], rest, rotated[j])
    _diagonals(rotated, spread)
    _variances(volume, shape, spread, mass, spread, floor, n_steps, variances)
    for _ in range(n_steps):
        angle = _sweep(axes, rotated, variances, turns)
        _diagonals(rotated, spread)
        _variances(volume, shape, spread, mass, spread, floor, n_steps, variances)
        if angle <= SMALLEST_ANGLE:
            break
    for j in range(k):
        compose(axes, variances[j], out[j])


@njit(cache=True, nogil=True)
def _diagonals(matrices, out):
    for j in range(len(matrices)):
        for a in range(matrices.shape[1]):
            out[j, a] = matrices[j, a, a]


@njit(cache=True, nogil=True)
def _sweep(axes, rotated, variances, turns):
    """Turn every pair of axes to its best angle, in place; the largest angle."""
    k, d = variances.shape
    largest = 0.0
    for t in range(len(turns)):
        p, q = turns[t]
        a = b = 0.0
        for j in range(k):
            gap = 1.0 / variances[j, p] - 1.0 / variances[j, q]
            a += 0.5 * gap * (rotated[j, p, p] - rotated[j, q, q])
            b += gap * rotated[j, p, q]
        if a == 0.0 and b == 0.0:
            continue
        angle = 0.5 * np.arctan2(-b, -a)
        largest = max(largest, abs(angle))
        c, s = np.cos(angle), np.sin(angle)
        turn(axes, p, q, c, s)
        for j in range(k):
            turn(rotated[j], p, q, c, s)
            turn_rows(rotated[j], p, q, c, s)
    return largest


@njit(cache=True, nogil=True)
def covariances(family, scatter, mass, previous, floor, n_steps, turns, out):
    """Covariances ``out`` of the family (its ``letters``) out of scatter, as in ``families``."""
    volume, shape, orientation = family
    if orientation == I:
        _variances(volume, shape, scatter[:, 0], mass, previous[:, 0], floor, n_steps, out[:, 0])
    elif orientation == V and not (volume == V and shape == V):
        _own_axes(volume, shape, scatter, mass, previous, floor, n_steps, out)
    elif orientation == E and shape == V:
        _common_axes(volume, shape, scatter, mass, previous, floor, n_steps, turns, out)
    elif orientation == E and volume == V:
        _proportional(scatter, mass, previous, floor, n_steps, out)
    else:
        _plain(orientation == E, scatter, mass, floor, out)


@njit(cache=True, nogil=True)
def _plain(one, scatter, mass, floor, out):
    """VVV, or EEE where there is only one matrix for all."""
    k, d = scatter.shape[:2]
    whole = total(mass)
    for a in range(d):
        for b in range(d):
            value = 0.0
            for j in range(k):
                value += scatter[j, a, b]
            for j in range(k):
                out[j, a, b] = value / whole if one else scatter[j, a, b] / mass[j]
    raised(out, floor)
