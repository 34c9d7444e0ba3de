"""Numbers of clusters that mixtures try for "auto": about as many as there are groups that stand
apart, and more while the best is the largest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ..array.labels import encode
from ..array.warn import warn
from ..memberships import one_hot
from ..numerics import seeding
from .few import distinct_rows
from .structure import FEWEST, LARGEST, assess

__all__ = ["GROWTH", "MOST", "first_sizes", "groups_apart", "more_sizes"]

MOST = 9  # clusters that "auto" of the mixtures tries at first, as R's mclust does
GROWTH = 4  # times as many may be tried, by any search, while the best number is the largest
OBJECTS = 3  # least mean number of objects in a cluster beyond the first numbers


def first_sizes(X: Any, max_clusters: int = MOST, weights: np.ndarray | None = None) -> list[int]:
    """Numbers of clusters to begin with: no more than there are different objects.

    Where more groups than ``max_clusters`` stand apart, their number and its neighbours too: with
    fewer clusters, elongated ones that join groups may look better than any number tried next.
    """
    n_objects = X.shape[0]
    n_distinct = distinct_rows(X, min(max_clusters, n_objects))
    if n_distinct == 1 < n_objects:
        warn(f"all {n_objects} objects are equal: one cluster is the answer")
    sizes, cap = list(range(1, min(max_clusters, n_distinct) + 1)), _cap(n_objects, max_clusters)
    apart = groups_apart(X, weights, cap) if len(sizes) == max_clusters < cap else 1
    return sizes + [k for k in range(apart - 1, apart + 2) if max_clusters < k <= cap]


def groups_apart(X: Any, weights: np.ndarray | None, most: int) -> int:
    """Number of groups that the structure test tells apart in ``most`` clusters by k-means."""
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return 1
    there = np.flatnonzero(np.isfinite(X).all(axis=1) & (True if weights is None else weights > 0))
    if len(there) > LARGEST:
        there = np.random.default_rng(0).choice(there, LARGEST, replace=False)
    Z = np.unique(X[there].astype(np.float64), axis=0)  # copies are no group
    if len(Z) < FEWEST:
        return 1
    Z /= max(float(np.abs(Z).max()), np.finfo(float).tiny)  # so that no square overflows
    one = np.ones(len(Z))
    Z = seeding.standardize(Z, one)
    labels = seeding.kmeans(Z, one, min(most, len(Z) // OBJECTS), np.random.default_rng(0))
    found = assess(Z, one_hot(encode(labels)), kind="features")
    return 1 if found is None else found.n_apart


def _cap(n_objects: int, max_clusters: int) -> int:
    return min(GROWTH * max_clusters, n_objects // OBJECTS)


def more_sizes(
    best: int, tried: Collection[int], n_objects: int, max_clusters: int = MOST
) -> list[int]:
    """Numbers to try next: some below the best where its neighbour was not tried, some above where
    it is the largest; a warning if there are no more.
    """
    below = range(max(min(tried), max_clusters + 1, best - best // 4), best)
    if below and best - 1 not in tried:
        return [k for k in below if k not in tried]
    largest = max(tried)
    fewer = largest < max_clusters  # there are no more different objects
    if best < largest or largest == n_objects or fewer:
        return []
    cap = _cap(n_objects, max_clusters)
    if largest >= cap:
        warn(
            f"the best number of clusters is the largest one tried, {largest}: there may be more; "
            f"raise max_clusters, or give the numbers to try, n_clusters=range(1, {2 * largest})"
        )
        return []
    return list(range(largest + 1, min(2 * largest, cap) + 1))
