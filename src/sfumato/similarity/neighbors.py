"""Nearest neighbours with weights: an object of weight w counts as w neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from ..array.types import Array

__all__ = ["finder_of", "known_weights", "links", "neighbor_distances", "reach", "shares"]

FEW = 2000  # objects below which starting threads costs more than the search
# Features up to which a tree of SciPy finds ten neighbours first: it takes a sixth of the time of
# scikit-learn's search at 150 x 4, half at 1000 x 8, three quarters at 20 000 x 2 and as long at
# 3000 x 14 (normal clusters).
FEW_FEATURES = 12
LEAF = 48  # objects of a leaf
Finder = Any  # has kneighbors(rows, q), as scikit-learn's searches


class Tree:
    """Euclidean neighbours among dense objects with few features."""

    def __init__(self, known: np.ndarray, workers: int) -> None:
        self._fit_X, self._workers = known, workers
        self._tree = cKDTree(known, leafsize=LEAF, balanced_tree=False)

    def kneighbors(self, rows: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices (n, q) of the nearest objects, ascending."""
        distance, index = self._tree.query(rows, range(1, q + 1), workers=self._workers)
        return distance, index


def neighbor_distances(
    known: Any, n_neighbors: int, queries: Any = None, *, weights: Any = None
) -> np.ndarray:
    """Distance to the n-th neighbour (n,).

    An object is not its own neighbour, but its copies are.
    """
    n = known.shape[0]
    weights = None if weights is None else known_weights(weights, n)
    if n == 1 and queries is None:
        return np.ones(1)
    finder = _finder(known, n)
    if weights is None:
        if queries is None:
            return finder.kneighbors(known, min(n_neighbors, n - 1) + 1)[0][:, -1]
        return finder.kneighbors(queries, min(n_neighbors, n))[0][:, -1]
    mass = n_neighbors + (queries is None)
    distance, index = reach(finder, queries, mass, weights)
    return _distance_at(distance, index, mass, weights)


def known_weights(weights: Any, n: int, *, zeros: bool = False) -> np.ndarray:
    """Weights of the known objects, ones by default; some may be zero if ``zeros``."""
    if weights is None:
        return np.ones(n)
    weights = np.asarray(weights, dtype=np.float64)
    enough = weights > 0 if not zeros else (weights >= 0) & (weights.max(initial=0.0) > 0)
    if weights.shape != (n,) or not enough.all() or not np.isfinite(weights).all():
        raise ValueError(
            f"weights must hold a positive number for each of the {n} known objects, got shape "
            f"{weights.shape}"
        )
    if weights.max() > 1e300 / n:
        raise ValueError(
            f"weights are as large as {weights.max():.0e} and cannot be summed: divide them by it"
        )
    return weights


def _finder(known: Any, n_queries: int) -> Finder:
    """A search for Euclidean neighbours."""
    jobs = -1 if n_queries > FEW else 1
    if isinstance(known, np.ndarray) and known.shape[1] <= FEW_FEATURES:
        return Tree(known, jobs)
    return NearestNeighbors(n_jobs=jobs).fit(known)


def finder_of(known: Any, queries: Any, metric: str) -> Finder:
    """A search among the known objects, which leaves missing values out."""
    missing = any(not sp.issparse(part) and np.isnan(part).any() for part in (known, queries))
    if missing and metric != "euclidean":
        raise ValueError(f"metric={metric!r} takes no missing values: use 'euclidean', or impute")
    for part in (known, queries) if missing else ():
        empty = np.flatnonzero(np.isnan(part).all(axis=1))
        if empty.size:
            raise ValueError(
                f"X has no measured value in {empty.size} row{'s' * (empty.size > 1)} (first: row "
                f"{empty[0]}): drop {'them' if empty.size > 1 else 'it'}"
            )
    if metric == "euclidean" and not missing:
        return _finder(known, queries.shape[0])
    jobs = -1 if queries.shape[0] > FEW else 1
    try:
        return NearestNeighbors(metric="nan_euclidean" if missing else metric, n_jobs=jobs).fit(
            known
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"metric={metric!r} does not work on these features: {error}") from error


def reach(
    finder: Finder, queries: Any, n_neighbors: float, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices (n, q) of so many neighbours that their weights add up to
    ``n_neighbors``, where they can.

    Without queries these are the known objects, each of which finds itself first.
    """
    n = weights.size
    q = min(int(n_neighbors), n)
    rows = finder._fit_X if queries is None else queries
    while True:
        distance, index = finder.kneighbors(rows, q)
        if q == n or (weights[index].sum(axis=1) >= n_neighbors).all():
            return distance, index
        q = min(2 * q, n)


def shares(
    distance: np.ndarray, index: np.ndarray, n_neighbors: int, weights: np.ndarray, known: Any
) -> sp.csr_array:
    """Share of each neighbour's copies that are among the nearest, (n, m)."""
    if index.shape[1] == n_neighbors and (weights == 1).all() and not np.isnan(distance).any():
        small = max(index.size, weights.size) < 2**31
        index = index.astype(np.int32 if small else np.int64, copy=False)
        starts = np.arange(0, index.size + 1, n_neighbors, dtype=index.dtype)
        ones = np.ones(index.size, dtype=known.dtype)
        # In order, which makes sums of sparse arrays twice as fast.
        return sp.csr_array(
            (ones, np.sort(index, axis=1).ravel(), starts), shape=(len(index), weights.size)
        )
    weight = weights[index]
    before = np.cumsum(weight, axis=1) - weight
    share = np.clip((n_neighbors - before) / weight, 0.0, 1.0)
    share[np.isnan(distance)] = 0.0
    starts = np.arange(0, share.size + 1, share.shape[1])
    graph = sp.csr_array(
        (share.ravel().astype(known.dtype), index.ravel(), starts),
        shape=(len(index), weights.size),
    )
    graph.eliminate_zeros()
    return graph


def links(
    finder: Finder, X: Array, known: Array, n_neighbors: int, weights: np.ndarray
) -> sp.csr_array:
    """Half a link to each neighbour, half from each known object that would count x among its own.

    The latter are sought among five times as many neighbours (and at least 64).
    """
    n_neighbors = min(n_neighbors, int(np.ceil(weights.sum())))
    farthest = _distance_at(*reach(finder, None, n_neighbors, weights), n_neighbors, weights)
    distance, index = reach(finder, X, max(5 * n_neighbors, 64), weights)
    own = _distance_at(distance, index, n_neighbors, weights)
    weight = 0.5 * (distance <= own[:, None]) + 0.5 * (distance <= farthest[index])
    starts = np.arange(0, weight.size + 1, weight.shape[1])
    rows = sp.csr_array(
        (weight.ravel().astype(X.dtype), index.ravel(), starts), shape=(X.shape[0], known.shape[0])
    )
    rows.eliminate_zeros()
    return rows


def _distance_at(
    distance: np.ndarray, index: np.ndarray, mass: float, weights: np.ndarray
) -> np.ndarray:
    """Distance (n,) at which the weights of the neighbours add up to ``mass``.

    The largest where they do not.
    """
    enough = np.cumsum(weights[index], axis=1) >= mass * (1 - 1e-12)
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), index.shape[1] - 1)
    found = np.take_along_axis(distance, last[:, None], axis=1)[:, 0]
    return np.where(np.isnan(found), np.fmax.reduce(distance, axis=1), found)
