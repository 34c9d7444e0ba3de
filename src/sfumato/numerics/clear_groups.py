"""Partitions so clear that no other need be tried, which the partition alone shows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import distances

# A partition is clear where every cut loses what one through a Gaussian does, every merge loses,
# and the best of both together loses more than EM could make up for. Numbers are log-likelihood for
# each object of a group, ERROR for the root of their number, MARGIN for each parameter of a group,
# on top of the one for each parameter that any cut gains. A cut through the middle of a Gaussian
# loses 0.5 log(1 - 2 / pi) + log 2 = 0.19, with a standard deviation of 0.45 over the root; one
# through a uniform cloud loses nothing. A merge of two Gaussians at 6 standard deviations loses
# 0.46, of two halves of a cloud nothing. Set on Gaussian clusters in 2 to 16 dimensions; clouds of
# other kinds are in ``tests/numerics/test_clear_groups.py``.
WHOLE, ERROR, APART, MARGIN = 0.19, 1.35, 0.2, 0.75


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
        sides[2, rows] = radius > median(radius)
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


def median(values: np.ndarray) -> float:
    """Median of a few numbers, in a fifth of the time that NumPy takes for checks around it."""
    ordered, n = np.sort(values), len(values)
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
