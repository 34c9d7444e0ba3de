"""The partitions of an ensemble: how one is made, and how it labels objects it has not seen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import has_fit_parameter

from ...array.types import Array, Estimator, Weights
from ...numerics import seeding

__all__ = ["LINKAGES", "Failure", "Member", "Plan", "attempt", "copies", "label", "split"]

LINKAGES = ("single", "complete", "average", "ward")
LINKAGE_OBJECTS = 5000  # a tree of more objects would need more than 100 MB of distances


class Member(NamedTuple):
    """What labels new objects for one partition.

    Centers, a fitted estimator, or None for the nearest object that was seen.
    """

    algorithm: str
    n_clusters: int
    centers: np.ndarray | None = None
    estimator: Any = None
    features: np.ndarray | None = None


class Plan(NamedTuple):
    """What all partitions share; ``graph`` (n, n) joins near objects, or is None.

    ``weights`` (n,) are those of the objects, None if all are one.
    """

    n_clusters: tuple[int, int]
    subsample: float
    feature_fraction: float
    max_objects: int
    graph: Any = None
    weights: np.ndarray | None = None


class Failure(NamedTuple):
    """A partition that could not be made, and why."""

    algorithm: str
    message: str


def attempt(X: Array, plan: Plan, algorithm: Any, n_cuts: int, seed: int) -> Any:
    """Partitions by one run of an algorithm, or what went wrong.

    One bad member must not cost the ensemble.
    """
    name = algorithm if isinstance(algorithm, str) else type(algorithm).__name__
    try:
        return _partitions(X, plan, algorithm, n_cuts, np.random.default_rng(seed))
    except Exception as error:
        return Failure(name, f"{type(error).__name__}: {error}")


def _partitions(
    X: Array, plan: Plan, algorithm: Any, n_cuts: int, rng: np.random.Generator
) -> list[tuple[Member, np.ndarray]]:
    n, p = X.shape
    wanted = max(1, round(plan.subsample * n))
    limit = (
        min(plan.max_objects, LINKAGE_OBJECTS)
        if isinstance(algorithm, str) and algorithm in LINKAGES
        else plan.max_objects
    )
    sample = np.sort(rng.permutation(n)[: min(wanted, limit)])
    features = None
    if plan.feature_fraction < 1:
        features = np.sort(rng.permutation(p)[: max(1, round(plan.feature_fraction * p))])
    low, high = (min(bound, len(sample)) for bound in plan.n_clusters)
    numbers = rng.integers(low, high + 1, size=n_cuts)
    everything = _take(X, features)
    results = []
    graph = None if plan.graph is None else plan.graph[sample][:, sample]
    own = None if plan.weights is None else plan.weights[sample]
    for member, labels in _cluster(everything[sample], algorithm, numbers, rng, graph, own):
        member = member._replace(features=features)
        if wanted > limit:
            results.append((member, _extend(everything, sample, member, labels)))
        else:
            column = np.full(n, -1, dtype=np.int32)
            column[sample] = labels
            results.append((member, column))
    return results


def _cluster(
    X: Any,
    algorithm: Any,
    numbers: np.ndarray,
    rng: np.random.Generator,
    graph: Any,
    weights: Weights = None,
) -> list[tuple[Member, np.ndarray]]:
    """Cluster the objects of a sample: members and their labels."""
    k, seed = int(numbers[0]), int(rng.integers(2**31))
    if not isinstance(algorithm, str):
        return [_by_estimator(X, algorithm, k, seed, weights)]
    if algorithm in ("k-means", "connected-k-means"):
        labels = _kmeans(X, k, seed, weights)
        if algorithm == "connected-k-means" and graph is not None:
            labels = split(labels, graph)
        centers = _means(X, labels, weights)
        return [(Member(algorithm, int(labels.max()) + 1, centers=centers), labels)]
    if X.shape[0] == 1:
        return [(Member(algorithm, 1), np.zeros(1, dtype=np.int32)) for _ in numbers]
    # Copies do not change single and complete linkage.
    blind = weights is None or algorithm in ("single", "complete")
    rows = np.arange(X.shape[0]) if blind else copies(np.asarray(weights), algorithm)
    first = np.unique(rows, return_index=True)[1]
    tree = linkage((X.toarray() if sp.issparse(X) else X)[rows], algorithm)
    return [
        (Member(algorithm, int(k)), _numbered(seeding.cut(tree, int(k))[first])) for k in numbers
    ]


def _kmeans(X: Any, k: int, seed: int, weights: Weights) -> np.ndarray:
    """Labels (n,) from one start of k-means."""
    if sp.issparse(X):
        model = KMeans(k, n_init=1, random_state=seed).fit(X, sample_weight=weights)
        return _numbered(model.labels_)
    X = np.ascontiguousarray(X, dtype=np.float64)
    own = np.ones(len(X)) if weights is None else weights
    return _numbered(seeding.kmeans(X, own, k, np.random.default_rng(seed)))


def _numbered(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def copies(weights: np.ndarray, name: str) -> np.ndarray:
    """Indices of as many copies of every object as it weighs, for what knows no weights."""
    if not (weights == np.rint(weights)).all():
        raise ValueError(f"{name} counts copies: sample_weight must hold whole numbers")
    return np.repeat(np.arange(len(weights)), weights.astype(np.int64))


def _by_estimator(
    X: Array, estimator: Estimator, k: int, seed: int, weights: Weights
) -> tuple[Member, np.ndarray]:
    model = clone(estimator)
    settings = {"n_clusters": k, "n_components": k, "random_state": seed}
    own = model.get_params()
    model.set_params(**{name: value for name, value in settings.items() if name in own})
    if weights is None:
        labels = np.asarray(model.fit_predict(X))
    elif has_fit_parameter(model, "sample_weight"):
        labels = np.asarray(model.fit(X, sample_weight=weights).labels_)
    else:
        rows = copies(weights, type(model).__name__)
        labels = np.asarray(model.fit_predict(X[rows]))[np.unique(rows, return_index=True)[1]]
    return Member(
        type(model).__name__,
        len(np.unique(labels)),
        estimator=model if hasattr(model, "predict") else None,
    ), labels


def split(labels: np.ndarray, graph: Any) -> np.ndarray:
    """Clusters taken apart where the graph (n, n) falls apart once its links between clusters are
    cut.
    """
    links = sp.coo_array(graph)
    inside = labels[links.row] == labels[links.col]
    kept = sp.coo_array(
        (np.ones(int(inside.sum())), (links.row[inside], links.col[inside])), shape=links.shape
    )
    return connected_components(kept, directed=False)[1].astype(np.int32)


def _means(X: Array, labels: np.ndarray, weights: Weights = None) -> np.ndarray:
    """Mean of every cluster."""
    own = np.ones(len(labels)) if weights is None else weights
    members = sp.csr_array((own.astype(X.dtype), (labels, np.arange(len(labels)))))
    total = members @ X
    total = total.toarray() if sp.issparse(total) else total
    return total / np.bincount(labels, own)[:, None].astype(X.dtype)


def _extend(X: Array, sample: np.ndarray, member: Member, labels: np.ndarray) -> np.ndarray:
    """Labels of all objects from those of a sample."""
    if member.centers is not None:
        return _nearest(X, member.centers)
    if member.estimator is not None:
        return np.asarray(member.estimator.predict(X)).astype(np.int32)
    seen = np.flatnonzero(labels != -1)
    return labels[seen][_nearest(X, X[sample[seen]])].astype(np.int32)


def label(X: Array, member: Member, known: np.ndarray, neighbors: np.ndarray | None) -> np.ndarray:
    """Labels of new objects by one member.

    Without a rule of its own it takes the label of the nearest object it saw.
    """
    X = _take(X, member.features)
    if member.centers is not None:
        return _nearest(X, member.centers)
    if member.estimator is not None:
        return np.asarray(member.estimator.predict(X))
    labels = known[neighbors]
    return np.take_along_axis(labels, np.argmax(labels != -1, axis=1)[:, None], axis=1)[:, 0]


def _nearest(X: Array, centers: Any) -> np.ndarray:
    """Index of the nearest row of ``centers`` for every row of X, one product per block."""
    centers = centers.toarray() if sp.issparse(centers) else centers
    offset = np.einsum("ij,ij->i", centers, centers) / 2
    size = max(64, 2**21 // len(centers))
    nearest = np.empty(X.shape[0], dtype=np.int32)
    for start in range(0, X.shape[0], size):
        nearest[start : start + size] = np.argmin(
            offset - X[start : start + size] @ centers.T, axis=1
        )
    return nearest


def _take(X: Array, features: np.ndarray | None) -> Any:
    return X if features is None else X[:, features]
