"""First states of Gaussian mixtures, and how to tell a sound state from a collapsed one.

A partition of a sample (k-means or agglomeration, see ``seeding``) becomes a state by one M step whose covariances lean on the pooled
covariance as if by d + 1 more objects, so that no component starts as a spike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...numerics import distances, seeding
from . import missing
from .kernel import KINDS, State, Stats, full_covariances, raise_to, update

__all__ = ["collapsed", "complete", "from_labels", "match", "partition", "widened"]


def partition(X: np.ndarray, weights: np.ndarray, k: int, how: str, rng: Any) -> np.ndarray:
    """Labels (n,) of ``k`` groups of sorted objects: agglomeration, nearest of ``k`` objects, or k-means in coordinates ``how``."""
    X, weights, index = seeding.distinct(X, weights)
    k = min(k, len(X))
    if k == 1:
        return np.zeros(len(index), dtype=np.int64)
    if how in ("units", "features"):
        return seeding.kmeans(X, weights, k, rng)[index]
    if how == "objects":
        return seeding.nearest(
            X, X[rng.choice(len(X), size=k, replace=False, p=weights / weights.sum())]
        )[index]
    if how == "whitened":
        return seeding.kmeans(seeding.whiten(X, weights), weights, k, rng)[index]
    X = seeding.standardize(X, weights)
    if how == "standardized":
        return seeding.kmeans(X, weights, k, rng)[index]
    return seeding.agglomerate(seeding.whiten(X, weights, 0.5), weights, k, rng)[index]


def from_labels(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, blank: State) -> State:
    """The state whose components are the groups of a partition."""
    k, d = blank.means.shape
    share = (labels == np.arange(k)[:, None]) * weights
    kind = KINDS[blank.covariance_type]
    sums = share @ distances.features(X.T, kind).T
    if blank.noise is not None:
        sums = np.vstack([sums * (1.0 - blank.weights[k]), np.zeros((1, sums.shape[1]))])
        sums[k, 0] = blank.weights[k] * weights.sum()
    state = update(Stats(sums, 0.0), blank)
    return (
        state
        if blank.covariance_type == "tied"
        else state._replace(covariances=_lean(state, sums[:k, 0], seeding.unit(weights)))
    )


def _lean(state: State, mass: np.ndarray, unit: float) -> np.ndarray:
    """Covariances shrunk towards their average, by the weight of d + 1 objects (2 where they are numbers)."""
    covariances = state.covariances
    pooled = np.tensordot(mass, covariances, 1) / mass.sum()
    more = unit * (state.means.shape[1] + 1 if state.covariance_type == "full" else 2)
    part = (mass / (mass + more)).reshape(-1, *[1] * (covariances.ndim - 1))
    return part * covariances + (1.0 - part) * pooled


def match(groups: np.ndarray, labels: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Groups renumbered to agree best with the known labels (-1: unknown), and known labels put in their place."""
    known = labels >= 0
    table = np.zeros((k, k))
    np.add.at(table, (groups[known], labels[known]), weights[known])
    order = np.empty(k, dtype=np.int64)
    rows, columns = linear_sum_assignment(-table)
    order[rows] = columns
    return np.where(known, labels, order[groups])


def complete(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects with holes filled by their expected values under one Gaussian."""
    d = X.shape[1]
    state = State(np.ones(1), np.zeros((1, d)), np.eye(d)[None], "full", 1e-6)
    for _ in range(10):
        state = update(missing.summarize(X, weights, state), state, kind="full")
    return missing.impute(X, state)


def collapsed(state: State, count: float, thinnest: float) -> np.ndarray:
    """Which components (k,) are spikes: fewer objects than their shape needs, or no width where the data have some.

    ``count`` is the number of objects, ``thinnest`` the least variance of the data in any direction. Shapes that some objects fix
    already want more of them where there are more: d + 1 (spherical: 3), but never more than half of an equal part.
    """
    k, d = state.means.shape
    need = {"full": d + 1.0, "tied": 0.0, "diag": 2.0, "spherical": 1.0 + 1.0 / d}[
        state.covariance_type
    ]
    wanted = min(3.0 if state.covariance_type == "spherical" else d + 1.0, 0.5 * count / k)
    few = state.weights[:k] * count < max(need, wanted) * (1.0 - 1e-6)
    if state.covariance_type == "tied":
        return few
    if thinnest <= 100.0 * state.floor:
        return few
    return few | (np.linalg.eigvalsh(full_covariances(state))[:, 0] <= 1.5 * state.floor)


def widened(covariances: np.ndarray, covariance_type: str, floor: float) -> np.ndarray:
    """Given covariances, raised to the floor."""
    if KINDS[covariance_type] == "full":
        return raise_to(floor, covariances.reshape(-1, *covariances.shape[-2:])).reshape(
            covariances.shape
        )
    return np.maximum(covariances, floor)
