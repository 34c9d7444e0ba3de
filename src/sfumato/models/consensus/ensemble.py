"""Many clusterings of the same objects, the input of evidence accumulation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ...array.arrays import native
from ...array.rows import _controller, in_threads
from ...array.types import Array, ArrayLike, Estimator, Weights
from ...array.validation import InputSize, as_generator, check_number, require
from ...array.warn import warn
from ...data.features import check_features, refuse_tensors
from ...engine import loop
from ...engine.objects import distinct_rows, object_weights
from ...numerics import seeding

ALIASES = {
    "SL": ("single",),
    "CL": ("complete",),
    "AL": ("average",),
    "KM": ("k-means",),
    "All": ("single", "complete", "average", "k-means"),
}
# Number of nearest objects among which one seen by a partition is searched; new objects take its
# label
NEIGHBORS = 10
LINKAGES = ("single", "complete", "average", "ward")
LINKAGE_OBJECTS = 5000  # a tree of more objects would need more than 100 MB of distances


class ClusteringEnsemble(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Labelings (n, m) of the objects by many clusterings, each with its own subsample and number
    of clusters.

    Parameters
    ----------
    n_members : int
        Number of partitions per algorithm.
    algorithms : str, estimator, or list of them
        ``"connected-k-means"``: k-means whose clusters are split into the connected parts of the
        nearest-neighbour graph, so that no cluster bridges a gap; ``"k-means"`` (also used instead
        above ``max_objects`` objects, where clusters are small); ``"single"``, ``"complete"``,
        ``"average"``, ``"ward"``: linkages; any scikit-learn clusterer; or a base ensemble of the
        evidence accumulation literature: ``"KM"``, ``"SL"``, ``"CL"``, ``"AL"``, and ``"All"`` (all
        four).
    n_clusters : int, (low, high) or None
        Number of clusters of a partition, or a range to draw it from. None means from sqrt(n) to 2
        sqrt(n): fine partitions, which assume no shape. Estimators without such a parameter keep
        theirs.
    subsample : float
        Share of the objects that a partition sees; the others get -1.
    feature_fraction : float
        Share of the features that a partition sees.
    n_neighbors : int
        Number of neighbours in the graph of ``"connected-k-means"``.
    n_cuts : int
        Partitions cut from each linkage tree, at different numbers of clusters.
    max_objects : int
        Largest number of objects from which a partition is learnt (linkages: 5000). It then labels
        all objects of a larger subsample, so that the cost is linear in n.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    labelings_ : array of shape (n, m)
        One partition per column, -1 for objects it did not see.
    members_ : list of length m
        Rules that label new objects.
    failures_ : list of (algorithm, message)
        Partitions that could not be made.

    References
    ----------
    Fred and Jain (2005). Combining multiple clusterings. IEEE TPAMI 27(6).

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import ClusteringEnsemble
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> ensemble = ClusteringEnsemble(10, random_state=0)
    >>> L = ensemble.fit_transform(X)
    >>> L.shape, int((L == -1).sum(axis=0)[0])
    ((60, 10), 6)
    >>> ensemble.transform(X[:3]).shape
    (3, 10)
    """

    _streams = False
    labelings_: np.ndarray

    def __init__(
        self,
        n_members=100,
        *,
        algorithms="connected-k-means",
        n_clusters=None,
        subsample=0.9,
        feature_fraction=1.0,
        n_neighbors=10,
        n_cuts=1,
        max_objects=20_000,
        random_state=None,
    ):
        self.n_members = n_members
        self.algorithms, self.n_clusters = algorithms, n_clusters
        self.subsample, self.feature_fraction = subsample, feature_fraction
        self.n_neighbors, self.n_cuts = n_neighbors, n_cuts
        self.max_objects = max_objects
        self.random_state = random_state

    def fit(
        self, X: Any, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> ClusteringEnsemble:
        """Make the partitions.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
        y : ignored
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object. Equal rows are one object. Objects of
            weight 0 do not affect the partitions and are labelled afterwards."""
        self._check_parameters()
        self._check_memory(X)
        refuse_tensors(self, X)
        given = check_features(self, X, reset=True)
        objects = distinct_rows(given, object_weights(sample_weight, given))
        # Partitions do not depend on the origin, but rounding errors do.
        self._origin: Any = 0 if sp.issparse(given) else given.mean(axis=0, dtype=np.float64)
        X = self._centred(given if objects.group is None else given[objects.first()])
        jobs = self._jobs(as_generator(self.random_state))
        # With more objects, k-means clusters are smaller than any gap, and the graph would be
        # large.
        connected = X.shape[0] <= self.max_objects and any(
            isinstance(job[0], str) and job[0] == "connected-k-means" for job in jobs
        )
        # Fine partitions give local evidence and assume no shape of the clusters.
        low = max(2, math.isqrt(X.shape[0]))
        plan = Plan(
            (low, 2 * low) if self.n_clusters is None else range_of(self.n_clusters),
            self.subsample,
            self.feature_fraction,
            self.max_objects,
            _near(X, self.n_neighbors) if connected else None,
            objects.weights,
        )
        self._keep(X, list(self._run(attempt, [(X, plan, *job) for job in jobs])))
        self._object_labels: np.ndarray = self.labelings_
        if objects.group is not None:
            self.labelings_ = self._object_labels[np.maximum(objects.group, 0)]
            absent = np.flatnonzero(objects.group < 0)
            if absent.size:
                self.labelings_[absent] = self.transform(given[absent])
        return self

    def _check_parameters(self) -> None:
        for name in ("n_members", "n_neighbors", "n_cuts", "max_objects"):
            check_number(getattr(self, name), name, low=1, integer=True)
        for name in ("subsample", "feature_fraction"):
            if check_number(getattr(self, name), name, low=0, high=1) == 0:
                raise ValueError(f"{name} must be above 0, got 0")
        if isinstance(self.algorithms, (list, tuple)) and not self.algorithms:
            raise ValueError("algorithms must name at least one clusterer, got an empty list")

    def _check_memory(self, X: ArrayLike) -> None:
        size = InputSize.of(X)
        if size is None:
            return
        labels, copy = 8 * size.n * self.n_members, size.stored * size.itemsize
        fewer = ("ask for fewer partitions (n_members=10)", copy + 80 * size.n)
        forms = [fewer, ("fit a sample of the objects, then transform the others in batches", 0)]
        require("ClusteringEnsemble.fit", {"labels": labels, "a copy of X": copy}, forms)

    def _jobs(self, rng: np.random.Generator) -> list[tuple[Any, int, int]]:
        """Algorithm, number of cuts and seed of every run."""
        given = self.algorithms if isinstance(self.algorithms, (list, tuple)) else [self.algorithms]
        names: list[Any] = []
        for each in given:
            names += ALIASES.get(each, (each,)) if isinstance(each, str) else (each,)
        jobs: list[tuple[Any, int]] = []
        for name in names:
            _check_algorithm(name)
            n_cuts = self.n_cuts if isinstance(name, str) and name in LINKAGES else 1
            # Without subsampling all trees of a linkage are equal, so one tree gives all cuts.
            if n_cuts == 1 or self.subsample < 1 or self.feature_fraction < 1:
                full, rest = divmod(self.n_members, n_cuts)
                jobs += [(name, n_cuts)] * full + [(name, rest)] * (rest > 0)
            else:
                jobs.append((name, self.n_members))
        seeds = rng.integers(2**63, size=len(jobs))
        return [(*job, int(seed)) for job, seed in zip(jobs, seeds, strict=True)]

    def _run(self, function: Any, arguments: list[tuple[Any, ...]]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for done, result in enumerate(in_threads(function, arguments, None), 1):
                loop.tell(done, len(arguments), math.nan)
                yield result

    def _keep(self, X: Array, results: list[Any]) -> None:
        parts, self.failures_ = sound(results, "runs")
        pairs = [pair for part in parts for pair in part]
        self.members_ = [member for member, _ in pairs]
        self.labelings_ = np.stack([labels for _, labels in pairs], axis=1)
        self._neighbors = None
        if any(member.centers is None and member.estimator is None for member in self.members_):
            self._neighbors = NearestNeighbors(n_neighbors=min(NEIGHBORS, X.shape[0])).fit(X)

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        """Make the partitions and return them, (n, m). -1 for an object that one did not see."""
        return self.fit(X, y, sample_weight=sample_weight).labelings_

    def transform(self, X: Array) -> np.ndarray:
        """Labels (n_new, m) of new objects by every partition: that of the nearest center, of the
        member's ``predict``, or of the nearest object."""
        check_is_fitted(self)
        refuse_tensors(self, X)
        X = self._centred(check_features(self, X, reset=False))
        near = self._neighbors
        nearest = None if near is None else near.kneighbors(X, return_distance=False)
        known = zip(self.members_, self._object_labels.T, strict=True)
        labels = np.empty((X.shape[0], len(self.members_)), dtype=np.int32)
        arguments = [(X, member, own, nearest) for member, own in known]
        for column, result in enumerate(self._run(label, arguments)):
            labels[:, column] = result
        return labels

    def _centred(self, X: Any) -> Any:
        if np.ndim(self._origin) == 0:
            return X
        return (X.toarray() if sp.issparse(X) else X) - self._origin.astype(X.dtype)

    def _label(self, X: np.ndarray, member: int) -> np.ndarray:
        """Labels of new objects by one partition with centers."""
        return label(self._centred(X), self.members_[member], self._object_labels[:, member], None)

    @property
    def _n_features_out(self) -> int:
        return len(self.members_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labelings_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class Member(NamedTuple):
    """Rule that labels new objects: centers or an estimator, else the nearest object."""

    n_clusters: int = 1
    centers: np.ndarray | None = None
    estimator: Any = None
    features: np.ndarray | None = None


class Plan(NamedTuple):
    """Settings shared by all partitions; ``near`` (n, m) are neighbours of each object."""

    n_clusters: tuple[int, int]
    subsample: float
    feature_fraction: float
    max_objects: int
    near: np.ndarray | None = None
    weights: np.ndarray | None = None


class Failure(NamedTuple):
    """A partition that could not be made, and the reason."""

    algorithm: str
    message: str


def sound(results: list[Any], what: str) -> tuple[list[Any], list[Failure]]:
    """The results that could be fitted, and the failures (with a warning)."""
    failures = [each for each in results if isinstance(each, Failure)]
    if failures:
        name, message = failures[0]
        first = f"the first, {name}, failed with: {message}"
        if len(failures) == len(results):
            raise ValueError(f"none of the {len(results)} {what} could be fitted; {first}")
        warn(
            f"{len(failures)} of {len(results)} {what} could not be fitted and are left out; "
            f"{first}"
        )
    return [each for each in results if not isinstance(each, Failure)], failures


def range_of(n_clusters: int | Sequence[int]) -> tuple[int, int]:
    """Smallest and largest number of clusters of a member, from a number or a pair."""
    pair: Any = n_clusters
    low, high = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (pair, pair)
    name = "n_clusters (an integer, a pair (low, high) or None)"
    low = check_number(low, name, low=1, integer=True)
    return low, check_number(high, "n_clusters: its upper end", low=low, integer=True)


def attempt(X: Array, plan: Plan, algorithm: Any, n_cuts: int, seed: int) -> Any:
    """Partitions from one run of an algorithm, or a ``Failure``, so that the others continue."""
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
        X = X[:, features]
    low, high = (min(bound, len(sample)) for bound in plan.n_clusters)
    numbers = rng.integers(low, high + 1, size=n_cuts)
    own = None if plan.weights is None else plan.weights[sample]
    results = []
    for member, labels in _cluster(X[sample], algorithm, numbers, rng, own):
        if algorithm == "connected-k-means":
            labels = _split(labels, sample, plan.near)
        if isinstance(algorithm, str) and algorithm not in LINKAGES:
            member = Member(centers=_means(X[sample], labels, own))
        column = np.full(n, -1, dtype=np.int32)
        column[sample] = labels
        if wanted > limit:
            column = _extend(X, sample, member, labels)
        number = int(labels.max()) + 1
        results.append((member._replace(n_clusters=number, features=features), column))
    return results


def _cluster(
    X: Any, algorithm: Any, numbers: np.ndarray, rng: np.random.Generator, weights: Weights = None
) -> list[tuple[Member, np.ndarray]]:
    """Members and their labels from clustering the objects of a sample."""
    k, seed = int(numbers[0]), int(rng.integers(2**31))
    if not isinstance(algorithm, str):
        return [_by_estimator(X, algorithm, k, seed, weights)]
    if algorithm not in LINKAGES:
        return [(Member(), _kmeans(X, k, seed, weights))]
    if X.shape[0] == 1:
        return [(Member(), np.zeros(1, dtype=np.int32)) for _ in numbers]
    # Single and complete linkage do not depend on copies.
    blind = weights is None or algorithm in ("single", "complete")
    rows = np.arange(X.shape[0]) if blind else copies(np.asarray(weights), algorithm)
    first = np.unique(rows, return_index=True)[1]
    tree = linkage((X.toarray() if sp.issparse(X) else X)[rows], algorithm)
    return [(Member(), _numbered(seeding.cut(tree, int(k))[first])) for k in numbers]


def _kmeans(X: Any, k: int, seed: int, weights: Weights) -> np.ndarray:
    """Labels (n,) from one start of k-means."""
    if sp.issparse(X):
        model = KMeans(k, n_init=1, random_state=seed).fit(X, sample_weight=weights)
        return _numbered(model.labels_)
    X = np.ascontiguousarray(X, dtype=np.float64)
    own = np.ones(len(X)) if weights is None else weights
    return _numbered(seeding.kmeans(X, own, k, np.random.default_rng(seed)))


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Labels renumbered 0, 1, ..., for nonnegative labels of which some are unused."""
    return (np.cumsum(np.bincount(labels) > 0) - 1)[labels].astype(np.int32)


def copies(weights: np.ndarray, name: str) -> np.ndarray:
    """Indices that repeat each object as often as its weight, for algorithms without weights."""
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
    rows = fit_weighted(model, X, weights)
    labels = np.asarray(model.labels_ if hasattr(model, "labels_") else model.predict(X[rows]))
    labels = labels[np.unique(rows, return_index=True)[1]]
    return Member(estimator=model if hasattr(model, "predict") else None), labels


def fit_weighted(model: Estimator, X: Array, weights: Weights) -> np.ndarray:
    """Fit to weighted objects; returns the rows used (copies if the model takes no weights)."""
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
    """Labels of a sample with clusters split where links between near objects do not connect them.
    ``near`` (n, m) are the nearest neighbours of all objects; None keeps clusters whole."""
    if near is None:
        return labels
    everyone = np.arange(-len(near), 0)  # objects outside the sample connect nothing
    everyone[sample] = labels
    return _numbered(native("neighbours").connected_pieces(near, everyone)[0][sample])


def _means(X: Any, labels: np.ndarray, weights: Weights = None) -> np.ndarray:
    own = (np.ones(len(labels)) if weights is None else weights).astype(X.dtype)
    members = sp.csc_array((own, labels, np.arange(len(labels) + 1)))
    sums = members @ X
    mass = np.asarray(members.sum(axis=1))[:, None]
    return (sums.toarray() if sp.issparse(sums) else sums) / mass  # type: ignore[no-any-return]


def _extend(X: Array, sample: np.ndarray, member: Member, labels: np.ndarray) -> np.ndarray:
    """Labels of all objects, from those of a sample."""
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
    """Labels of new objects by one member; without a rule, those of the nearest objects it saw."""
    found = _by_rule(X if member.features is None else X[:, member.features], member)
    if found is not None:
        return found
    labels = known[neighbors]
    return np.take_along_axis(labels, np.argmax(labels != -1, axis=1)[:, None], axis=1)[:, 0]


def _nearest(X: Array, centers: Any) -> np.ndarray:
    """Index of the nearest row of ``centers`` for every row of X, computed in blocks."""
    centers = centers.toarray() if sp.issparse(centers) else centers
    size = max(64, 2**21 // len(centers))
    nearest = np.empty(X.shape[0], dtype=np.int32)
    for part in (slice(start, start + size) for start in range(0, len(nearest), size)):
        nearest[part] = seeding.nearest(X[part], centers)
    return nearest


def _near(X: Array, n_neighbors: int) -> np.ndarray:
    if X.shape[0] == 1:
        return np.empty((1, 0), dtype=np.intp)
    nearest = NearestNeighbors(n_neighbors=min(n_neighbors, X.shape[0] - 1)).fit(X)
    return nearest.kneighbors(return_distance=False)


def _check_algorithm(algorithm: Any) -> None:
    known = ("connected-k-means", "k-means", *LINKAGES)
    if isinstance(algorithm, str):
        if algorithm not in known:
            raise ValueError(
                f"algorithms must be among {', '.join(map(repr, (*known, *ALIASES)))}, or "
                f"scikit-learn clusterers; got {algorithm!r}"
            )
    elif isinstance(algorithm, type):
        raise TypeError(
            f"algorithms must hold clusterers, not classes: give {algorithm.__name__}() in place "
            f"of {algorithm.__name__}"
        )
    elif not hasattr(algorithm, "fit_predict"):
        raise TypeError(
            f"algorithms must be names or clusterers with fit_predict, got {algorithm!r}"
        )
