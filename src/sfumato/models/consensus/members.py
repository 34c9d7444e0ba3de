"""Members of an ensemble: partitions and how they label objects they have not seen, and any
estimators, memberships of soft ones and indicators of hard ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import has_fit_parameter

from ...array.arrays import native
from ...array.rows import _controller
from ...array.types import Array, Estimator, Weights
from ...array.validation import check_number
from ...memberships import check_memberships
from ...numerics import seeding

LINKAGES = ("single", "complete", "average", "ward")
LINKAGE_OBJECTS = 5000  # a tree of more objects would need more than 100 MB of distances


class Member(NamedTuple):
    """What labels new objects: centers, an estimator, or neither for the nearest object seen."""

    algorithm: str
    n_clusters: int
    centers: np.ndarray | None = None
    estimator: Any = None
    features: np.ndarray | None = None


class Plan(NamedTuple):
    """What all partitions share: ``near`` (n, m) are the nearest neighbours of every object."""

    n_clusters: tuple[int, int]
    subsample: float
    feature_fraction: float
    max_objects: int
    near: np.ndarray | None = None
    weights: np.ndarray | None = None


class Failure(NamedTuple):
    """A partition that could not be made, and why."""

    algorithm: str
    message: str


def range_of(n_clusters: int | Sequence[int]) -> tuple[int, int]:
    """Smallest and largest number of clusters of a member, from a number or a pair."""
    pair: Any = n_clusters
    low, high = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (pair, pair)
    name = "n_clusters (an integer, a pair (low, high) or None)"
    low = check_number(low, name, low=1, integer=True)
    return low, check_number(high, "n_clusters: its upper end", low=low, integer=True)


def attempt(X: Array, plan: Plan, algorithm: Any, n_cuts: int, seed: int) -> Any:
    """Partitions by one run of an algorithm, or what went wrong: the others go on."""
    ours = isinstance(algorithm, str) and not sp.issparse(X)
    name = algorithm if isinstance(algorithm, str) else type(algorithm).__name__
    try:
        with nullcontext() if ours else _controller().limit(limits=1, user_api="openmp"):
            return _partitions(X, plan, algorithm, n_cuts, np.random.default_rng(seed))
    except Exception as error:
        return Failure(name, f"{type(error).__name__}: {error}")


def _partitions(
    X: Array, plan: Plan, algorithm: Any, n_cuts: int, rng: np.random.Generator
) -> list[tuple[Member, np.ndarray]]:
    n, p = X.shape
    wanted = max(1, round(plan.subsample * n))
    limit = plan.max_objects
    if isinstance(algorithm, str) and algorithm in LINKAGES:
        limit = min(limit, LINKAGE_OBJECTS)
    sample = np.sort(rng.permutation(n)[: min(wanted, limit)])
    features = None
    if plan.feature_fraction < 1:
        features = np.sort(rng.permutation(p)[: max(1, round(plan.feature_fraction * p))])
    low, high = (min(bound, len(sample)) for bound in plan.n_clusters)
    numbers = rng.integers(low, high + 1, size=n_cuts)
    everything, results = _take(X, features), []
    split = partial(_split, sample=sample, near=plan.near)
    own = None if plan.weights is None else plan.weights[sample]
    for member, labels in _cluster(everything[sample], algorithm, numbers, rng, split, own):
        column = np.full(n, -1, dtype=np.int32)
        column[sample] = labels
        if wanted > limit:
            column = _extend(everything, sample, member, labels)
        results.append((member._replace(features=features), column))
    return results


def _cluster(
    X: Any,
    algorithm: Any,
    numbers: np.ndarray,
    rng: np.random.Generator,
    split: Callable[[np.ndarray], np.ndarray],
    weights: Weights = None,
) -> list[tuple[Member, np.ndarray]]:
    """Cluster the objects of a sample: members and their labels."""
    k, seed = int(numbers[0]), int(rng.integers(2**31))
    if not isinstance(algorithm, str):
        return [_by_estimator(X, algorithm, k, seed, weights)]
    if algorithm in ("k-means", "connected-k-means"):
        labels = _kmeans(X, k, seed, weights)
        if algorithm == "connected-k-means":
            labels = split(labels)
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
    """Labels 0, 1, ... in place of nonnegative ones of which some are not used."""
    return (np.cumsum(np.bincount(labels) > 0) - 1)[labels].astype(np.int32)


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
    rows = _fit(model, X, weights)
    labels = np.asarray(model.labels_ if hasattr(model, "labels_") else model.predict(X[rows]))
    labels = labels[np.unique(rows, return_index=True)[1]]
    rule = model if hasattr(model, "predict") else None
    return Member(type(model).__name__, len(np.unique(labels)), estimator=rule), labels


def _fit(model: Estimator, X: Array, weights: Weights) -> np.ndarray:
    """Fit to weighted objects; the rows it was given, copies where it knows no weights."""
    rows = np.arange(X.shape[0])
    if weights is None:
        model.fit(X)
    elif has_fit_parameter(model, "sample_weight"):
        model.fit(X, sample_weight=weights)
    else:
        rows = copies(np.asarray(weights), type(model).__name__)
        model.fit(X[rows])
    return rows


def _split(labels: np.ndarray, sample: np.ndarray, near: np.ndarray | None) -> np.ndarray:
    """Clusters of a sample taken apart where links between near objects do not hold them together.

    ``near`` (n, m) are the nearest neighbours of all objects; None where clusters stay whole.
    """
    if near is None:
        return labels
    everyone = np.arange(-len(near), 0)  # objects outside of the sample join no others
    everyone[sample] = labels
    return _numbered(native("neighbours").connected_pieces(near, everyone)[0][sample])


def _means(X: Array, labels: np.ndarray, weights: Weights = None) -> np.ndarray:
    """Mean of every cluster."""
    own = np.ones(len(labels)) if weights is None else weights
    mass = np.bincount(labels, own)[:, None].astype(X.dtype)
    if sp.issparse(X):
        members = (own.astype(X.dtype), labels, np.arange(len(labels) + 1))
        return (sp.csc_array(members, shape=(len(mass), len(labels))) @ X).toarray() / mass
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(mass)))
    return np.add.reduceat((X * own[:, None].astype(X.dtype))[order], starts, axis=0) / mass


def _extend(X: Array, sample: np.ndarray, member: Member, labels: np.ndarray) -> np.ndarray:
    """Labels of all objects from those of a sample."""
    found = _by_rule(X, member)
    if found is None:
        seen = np.flatnonzero(labels != -1)
        found = labels[seen][_nearest(X, X[sample[seen]])]
    return found.astype(np.int32)


def _by_rule(X: Array, member: Member) -> np.ndarray | None:
    """Labels of objects by the rule of a member, if it has one."""
    if member.centers is not None:
        return _nearest(X, member.centers)
    return None if member.estimator is None else np.asarray(member.estimator.predict(X))


def label(X: Array, member: Member, known: np.ndarray, neighbors: np.ndarray | None) -> np.ndarray:
    """Labels of new objects by one member, without a rule that of the nearest object it saw."""
    found = _by_rule(_take(X, member.features), member)
    if found is not None:
        return found
    labels = known[neighbors]
    return np.take_along_axis(labels, np.argmax(labels != -1, axis=1)[:, None], axis=1)[:, 0]


def _nearest(X: Array, centers: Any) -> np.ndarray:
    """Index of the nearest row of ``centers`` for every row of X, one product per block."""
    centers = centers.toarray() if sp.issparse(centers) else centers
    size = max(64, 2**21 // len(centers))
    nearest = np.empty(X.shape[0], dtype=np.int32)
    for part in (slice(start, start + size) for start in range(0, len(nearest), size)):
        nearest[part] = seeding.nearest(X[part], centers)
    return nearest


def _take(X: Array, features: np.ndarray | None) -> Any:
    return X if features is None else X[:, features]


class Soft(NamedTuple):
    """A fitted estimator with memberships of its own."""

    estimator: Estimator
    width: int

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, k) of a block of objects."""
        U = np.asarray(check_memberships(self.estimator.predict_proba(block)), dtype=np.float64)
        if U.shape[1] != self.width:
            raise ValueError(
                f"{type(self.estimator).__name__}.predict_proba has {U.shape[1]} columns for new "
                f"objects and {self.width} for the fitted ones"
            )
        return U


class Hard(NamedTuple):
    """A fitted estimator with labels: those it predicts, or that of the nearest fitted object.

    A label that is not among ``names``, such as -1 for noise, is a row of zeros: not seen.
    """

    estimator: Estimator
    names: np.ndarray
    nearest: NearestNeighbors | None
    labels: np.ndarray

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    def __call__(self, block: Any) -> np.ndarray:
        """Indicators (b, k) of a block of objects."""
        if self.nearest is None:
            labels = np.asarray(self.estimator.predict(block))
        else:
            labels = self.labels[self.nearest.kneighbors(block, 1, return_distance=False)[:, 0]]
        return (labels[:, None] == self.names).astype(np.float64)


class Members(NamedTuple):
    """Fitted members."""

    members: list[Soft | Hard]

    @property
    def offsets(self) -> np.ndarray:
        """Where the columns of each member begin, (m + 1,)."""
        return np.cumsum([0, *(each.width for each in self.members)])

    def columns(self, block: Any) -> np.ndarray:
        """Columns (b, K) of all members side by side."""
        return np.hstack([each(block) for each in self.members])


def check_members(members: Any) -> None:
    """Refuse what cannot be a list of members."""
    if not isinstance(members, (list, tuple)) or not members:
        raise ValueError(f"members must be a list of at least one estimator, got {members!r}")
    for each in members:
        if isinstance(each, type):
            raise TypeError(
                f"members must hold estimators, not classes: give {each.__name__}() in place of "
                f"{each.__name__}"
            )
        if not hasattr(each, "fit"):
            raise TypeError(f"members must hold estimators with fit, got {each!r}")


def lowered(estimator: Estimator, n_objects: int) -> dict[str, int]:
    """Numbers of clusters beyond that of the objects, lowered to it."""
    own = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        name: n_objects
        for name in ("n_clusters", "n_components")
        if isinstance(own.get(name), Integral) and own[name] > n_objects
    }


def fit_member(X: Array, estimator: Estimator, weights: Weights, seed: int) -> Any:
    """A member fitted to objects (s, p), or why it failed: the others go on.

    What a member warns of, such as a number of clusters of its own, is no answer to the user.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _fitted(X, estimator, weights, seed)
    except Exception as error:
        return Failure(type(estimator).__name__, f"{type(error).__name__}: {error}")


def _fitted(X: Any, estimator: Estimator, weights: Weights, seed: int) -> Soft | Hard:
    model = clone(estimator)
    if model.get_params().get("random_state", 0) is None:
        model.set_params(random_state=seed)
    model.set_params(**lowered(model, X.shape[0]))
    rows = _fit(model, X, weights)
    if hasattr(model, "predict_proba"):
        U = np.asarray(check_memberships(model.predict_proba(X)))
        return Soft(model, U.shape[1])
    by_rule = hasattr(model, "predict")
    labels = np.asarray(model.predict(X) if by_rule else model.labels_)
    n_objects = X.shape[0] if by_rule else len(rows)
    if labels.shape != (n_objects,):
        raise ValueError(f"it has labels of shape {labels.shape} for {n_objects} objects")
    names = np.unique(labels)
    names = names[names != -1] if names.dtype.kind in "if" else names
    if names.size == 0:
        raise ValueError("every object is noise, label -1")
    nearest = None if by_rule else NearestNeighbors(n_neighbors=1).fit(X[rows])
    return Hard(model, names, nearest, labels)
