"""Ways out of a poor optimum of a mixture.

Take a component away and cut another in two (after Ueda et al. 2000).

What the lost component r_j held goes to the others by their posterior; component l is cut through
its mean, across its longest axis or the one along which it looks most like two (least kurtosis):

    r_l' = r_l [v (x - mu_l) > 0],   r_j' = r_l [v (x - mu_l) <= 0],    then one M step

Components that share their covariance may also go to where the density is least. The two halves of
a move by themselves lead from a mixture to one of another size: ``fewer`` and ``more``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...numerics import distances, families
from . import direct
from .kernel import State, Stats, update

__all__ = ["fewer", "more", "swaps"]

LOST = 4  # components that may go, those least missed
CUT = 5  # components that may be cut, the widest


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
    without = [np.delete(L, j, axis=0) for j in range(k)]
    values = [weights @ distances.softmax_columns(rest)[1] for rest in without]
    return np.argsort(values, kind="stable")[::-1]


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
