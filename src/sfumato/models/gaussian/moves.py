"""Ways out of a poor optimum of a mixture.

Take a component away and cut another in two (after Ueda et al. 2000).

What the lost component r_j held goes to the others by their posterior; component l is cut through
its mean, across its longest axis or the one along which it looks most like two (least kurtosis):

    r_l' = r_l [v (x - mu_l) > 0],   r_j' = r_l [v (x - mu_l) <= 0],    then one M step

Components that share their covariance may also go to where the density is least. The two halves of
a move by themselves lead from a mixture to one of another size: ``fewer`` and ``more``.

Where clusters are clear no move can gain, which their partition alone shows: ``best_move``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...numerics import distances, families
from . import direct
from .kernel import State, Stats, update

__all__ = ["Trial", "best_move", "fewer", "more", "swaps"]

LOST = 4  # components that may go, those least missed
CUT = 5  # components that may be cut, the widest
# A partition is clear where every cut loses what one through a Gaussian does, every merge loses,
# and the best of both together loses more than EM could make up for. Numbers are log-likelihood for
# each object of a group, ERROR for the root of their number, MARGIN for each parameter of a group,
# on top of the one for each parameter that any cut gains. A cut through the middle of a Gaussian
# loses 0.5 log(1 - 2 / pi) + log 2 = 0.19, with a standard deviation of 0.45 over the root; one
# through a uniform cloud loses nothing. A merge of two Gaussians at 6 standard deviations loses
# 0.46, of two halves of a cloud nothing. Set on Gaussian clusters in 2 to 16 dimensions; clouds of
# other kinds are in ``tests/models/gaussian/test_moves.py``.
WHOLE, ERROR, APART, MARGIN = 0.19, 1.35, 0.2, 0.75


def swaps(X: np.ndarray, weights: np.ndarray, state: State) -> Iterator[State]:
    """States in which one component left its place to half of another.

    ``X`` (n, d) are inner objects, ``weights`` (n,) theirs.
    """
    k = len(state.means)
    L = direct.logits(X, state)
    Z = distances.features(X.T, families.kind_of(state.family))
    for j in _least_missed(L, weights, k)[:LOST]:
        others = L.copy()
        others[j] = -np.inf
        R, level = distances.softmax_columns(others)
        R *= weights
        if families.has_one_covariance(state.family):
            yield update(Stats(_outlying(X, R, level, weights, j) @ Z.T, 0.0), state)
        sides, spread = _sides(X, R[:k])
        spread[j] = -np.inf
        for cut in np.argsort(-spread, kind="stable")[: min(CUT, k - 1)]:
            for side in sides[cut]:
                halves = R.copy()
                halves[j] = np.where(side, 0.0, R[cut])
                halves[cut] = np.where(side, R[cut], 0.0)
                yield update(Stats(halves @ Z.T, 0.0), state)


class Trial(NamedTuple):
    """The best move of a partition: what it gains, the groups (n,) that it would leave, and
    whether the groups are so clear that no other partition need be tried.

    A move merges two groups and cuts a third, along its longest axis, along the one with the least
    kurtosis, or into a core and a shell. The ``gain`` is one of the log-likelihood where objects
    are in their groups for certain, covariances being free; infinite where groups are too small.
    """

    gain: float
    labels: np.ndarray
    clear: bool


def best_move(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, k: int) -> Trial:
    """The best move of a partition (n,) into ``k`` groups; ``weights`` count objects."""
    d = X.shape[1]
    share = (labels == np.arange(k)[:, None]) * weights
    mass = share.sum(axis=1)
    if mass.min() < 2 * (d + 1):
        return Trial(np.inf, labels, False)
    Z = distances.features(X.T, "full")
    sums = share @ Z.T
    sides = _cuts(X, weights, labels, sums)
    halves = (share * sides[:, None, :]).reshape(len(sides) * k, -1) @ Z.T
    i, j = np.triu_indices(k, 1)
    every = [sums, halves, np.tile(sums, (len(sides), 1)) - halves, sums[i] + sums[j]]
    heights = _heights(np.concatenate(every), d)
    if not np.isfinite(heights).all():
        return Trial(np.inf, labels, False)
    own, one, other, both = np.split(heights, np.cumsum([len(part) for part in every[:-1]]))
    gains = (one + other).reshape(-1, k) - own
    losses = own[i] + own[j] - both
    kind, cut = np.unravel_index(np.argmax(gains), gains.shape)
    least = int(np.argmin(np.where((i == cut) | (j == cut), np.inf, losses)))
    moved = np.where(labels == j[least], i[least], labels)
    moved[(labels == cut) & sides[kind]] = j[least]
    gain = max(float(gains.max()), 0.0) - float(losses.min())
    free = (d + 1) * (d + 2) / 2  # parameters of a group
    whole = (gains < free - WHOLE * mass + ERROR * np.sqrt(mass)).all()
    apart = (losses > free + APART * np.minimum(mass[i], mass[j])).all()
    return Trial(gain, moved, bool(whole and apart and gain < -MARGIN * free))


def _cuts(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """On which side (3, n) of its group every object lies: of two axes, and of the middle shell."""
    mass, first, second = distances.moments(sums, X.shape[1], "full")
    means = first / mass[:, None]
    scatter = second / mass[:, None, None] - means[:, :, None] * means[:, None, :]
    sides = np.empty((3, len(X)), dtype=bool)
    for j, (values, axes) in enumerate(zip(*np.linalg.eigh(scatter), strict=True)):
        rows = np.flatnonzero(labels == j)
        projected = (X[rows] - means[j]) @ axes
        squares = projected * projected
        along = np.maximum(weights[rows] @ squares, 1e-100)
        flattest = np.argmin((weights[rows] @ (squares * squares)) / along**2)
        radius = squares @ (1.0 / np.maximum(values, 1e-100))
        sides[0, rows] = projected[:, -1] > 0.0
        sides[1, rows] = projected[:, flattest] > 0.0
        sides[2, rows] = radius > np.median(radius)
    return sides


def _heights(sums: np.ndarray, d: int) -> np.ndarray:
    """What groups add to the log-likelihood of a partition, from their sums of z(x), up to a
    constant for each object; infinite for those without width.
    """
    mass, first, second = distances.moments(sums, d, "full")
    mass = np.maximum(mass, np.finfo(float).tiny)
    means = first / mass[:, None]
    scatter = second / mass[:, None, None] - means[:, :, None] * means[:, None, :]
    sign, log_det = np.linalg.slogdet(scatter)
    narrow = (sign <= 0.0) | (mass <= d)
    return mass * np.log(mass) - 0.5 * mass * np.where(narrow, -np.inf, log_det)


def fewer(X: np.ndarray, weights: np.ndarray, state: State) -> Iterator[np.ndarray]:
    """Weighted memberships (k - 1, n) of mixtures that lost a component, those least missed."""
    L = direct.logits(X, state)[: len(state.means)]
    for j in _least_missed(L, weights, len(L))[:CUT]:
        yield distances.softmax_columns(np.delete(L, j, axis=0))[0] * weights


def more(X: np.ndarray, weights: np.ndarray, state: State) -> Iterator[np.ndarray]:
    """Weighted memberships (k + 1, n) of mixtures one component of which is cut in two."""
    R = distances.softmax_columns(direct.logits(X, state)[: len(state.means)])[0] * weights
    sides, spread = _sides(X, R)
    for cut in np.argsort(-spread, kind="stable")[:CUT]:
        for side in sides[cut]:
            halves = np.concatenate([R, np.where(side, 0.0, R[cut])[None]])
            halves[cut] *= side
            yield halves


def _least_missed(L: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """The ``k`` components in the order of the log-likelihood without them, highest first."""
    best, columns = np.argmax(L, axis=0), np.arange(L.shape[1])
    peak, others = L[best, columns], L.copy()
    others[best, columns] = -np.inf
    E = np.exp(others - peak)  # so that what is left without a component never cancels
    without = peak + np.log(1.0 + E.sum(axis=0) - E)
    without[best, columns] = distances.softmax_columns(others)[1]
    return np.argsort(without[:k] @ weights, kind="stable")[::-1]


def _outlying(
    X: np.ndarray, R: np.ndarray, level: np.ndarray, weights: np.ndarray, j: int
) -> np.ndarray:
    """Component j on the least likely object and its neighbours.

    Few will do where all components share their covariance.
    """
    near = np.argsort(np.sum((X - X[np.argmin(level)]) ** 2, axis=1), kind="stable")[
        : X.shape[1] + 1
    ]
    R = R.copy()
    R[:, near] = 0.0
    R[j, near] = weights[near]
    return R


def _sides(X: np.ndarray, R: np.ndarray) -> tuple[list[list[np.ndarray]], np.ndarray]:
    """On which side (n,) of the middle objects lie, for the axes across which a component is cut,
    and the scatter of every component along its longest axis (k,).
    """
    mass = np.maximum(R.sum(axis=1), np.finfo(float).tiny)
    means = (R @ X) / mass[:, None]
    sides, spread = [], np.empty(len(R))
    for j, r in enumerate(R):
        Y = X - means[j]
        values, axes = np.linalg.eigh((Y.T * r) @ Y)
        projected = Y @ axes
        squares = projected * projected
        second = np.maximum(r @ squares, 1e-100)
        kurtosis = mass[j] * (r @ (squares * squares)) / second**2
        chosen = {len(values) - 1, int(np.argmin(kurtosis))}
        sides.append([projected[:, axis] > 0.0 for axis in sorted(chosen)])
        spread[j] = values[-1]
    return sides, spread
