"""Many clusterings of the same objects, the input of evidence accumulation."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from ...array.rows import _controller, in_threads
from ...array.types import Array, ArrayLike
from ...array.validation import InputSize, as_generator, check_number, refuse_subnormal, require
from ...array.warn import warn
from ...data.features import check_features, refuse_tensors
from ...engine import loop
from ...engine.objects import distinct_rows, object_weights
from .members import LINKAGES, Failure, Plan, attempt, label, range_of

ALIASES = {
    "SL": ("single",),
    "CL": ("complete",),
    "AL": ("average",),
    "KM": ("k-means",),
    "All": ("single", "complete", "average", "k-means"),
}
# Number of near objects that are searched for one that a partition has seen, whose label a new
# object takes
NEIGHBORS = 10


class ClusteringEnsemble(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Labelings (n, m) of the objects by many clusterings, each on its own subsample with its own
    number of clusters.

    Parameters
    ----------
    n_members : int
        Partitions by each algorithm.
    algorithms : str, estimator, or list of them
        ``"connected-k-means"``: k-means, its clusters taken apart where the graph of nearest
        neighbours falls apart, so that no cluster bridges a gap (above ``max_objects`` objects,
        where clusters are small anyway, the same as) ``"k-means"``; ``"single"``, ``"complete"``,
        ``"average"``, ``"ward"``: linkages; any scikit-learn clusterer; or a base ensemble of the
        evidence accumulation literature: ``"KM"``, ``"SL"``, ``"CL"``, ``"AL"``, and ``"All"``
        four.
    n_clusters : int, (low, high) or None
        Number of clusters of a partition, drawn anew for each from the range; None means from
        sqrt(n) to 2 sqrt(n): fine partitions, whose evidence is local and does not presume a shape.
        Not set on estimators without such a parameter.
    subsample : float
        Share of the objects that a partition sees; the others get -1.
    feature_fraction : float
        Share of the features that a partition sees.
    n_neighbors : int
        Nearest neighbours in the graph that takes the clusters of ``"connected-k-means"`` apart.
    n_cuts : int
        Partitions cut from each linkage tree, at different numbers of clusters.
    max_objects : int
        Objects that a partition is learnt from at most. Where the subsample is larger, it is learnt
        from so many objects and then labels all of them (linkages: from 5000 at most), so that the
        cost is linear in n.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    labelings_ : array of shape (n, m)
        One partition per column, -1 for objects it did not see.
    members_ : list of length m
        What labels new objects.
    failures_ : list of (algorithm, message)
        Partitions that could not be made.

    References
    ----------
    Fred and Jain (2005). Combining multiple clusterings using evidence accumulation. IEEE TPAMI
    27(6).

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
            A weight of w counts as w copies of the object. Equal rows are one object; an object of
            weight 0 has no part in the partitions and is labelled afterwards.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._check_room(X)
        refuse_tensors(self, X)
        given = check_features(self, X, reset=True)
        refuse_subnormal(given, "X")
        objects = distinct_rows(given, object_weights(sample_weight, given))
        X = given if objects.group is None else given[objects.first()]
        self._frame = _Frame.of(X)
        X = self._frame(X)
        jobs = self._jobs(as_generator(self.random_state))
        # With more objects clusters of k-means are small beside any gap, and the graph would be
        # large.
        connected = X.shape[0] <= self.max_objects and any(
            isinstance(job[0], str) and job[0] == "connected-k-means" for job in jobs
        )
        # Fine partitions: local evidence that presumes no shape of the clusters.
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

    def _streams(self) -> bool:
        return False

    def _check_room(self, X: ArrayLike) -> None:
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
            # Without subsampling every tree of a linkage is the same: one tree gives all cuts.
            if n_cuts == 1 or self.subsample < 1 or self.feature_fraction < 1:
                full, rest = divmod(self.n_members, n_cuts)
                jobs += [(name, n_cuts)] * full + [(name, rest)] * (rest > 0)
            else:
                jobs.append((name, self.n_members))
        seeds = rng.integers(2**63, size=len(jobs))
        return [(*job, int(seed)) for job, seed in zip(jobs, seeds, strict=True)]

    def _run(self, function: Any, arguments: list[tuple[Any, ...]]) -> Any:
        """Results in order, from threads that keep to one core each."""
        tasks = [(function, *each) for each in arguments]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for done, result in enumerate(in_threads(_on_one_core, tasks, None), 1):
                loop.tell(done, len(arguments), math.nan)
                yield result

    def _keep(self, X: Array, results: list[Any]) -> None:
        self.failures_ = [result for result in results if isinstance(result, Failure)]
        if self.failures_:
            name, message = self.failures_[0]
            if len(self.failures_) == len(results):
                raise ValueError(
                    f"none of the partitions could be made; the first, by {name}, failed with: "
                    f"{message}"
                )
            warn(
                f"{len(self.failures_)} partitions could not be made and are left out; the first, "
                f"by {name}, failed with: {message}"
            )
        pairs = [pair for result in results if not isinstance(result, Failure) for pair in result]
        self.members_ = [member for member, _ in pairs]
        self.labelings_ = np.stack([labels for _, labels in pairs], axis=1)
        self._neighbors = None
        if any(member.centers is None and member.estimator is None for member in self.members_):
            self._neighbors = NearestNeighbors(n_neighbors=min(NEIGHBORS, X.shape[0])).fit(X)

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        """Make the partitions and return them, (n, m).

        -1 where a partition did not see an object.
        """
        return self.fit(X, y, sample_weight=sample_weight).labelings_

    def transform(self, X: Array) -> np.ndarray:
        """Labels of new objects by every partition, (n_new, m): nearest center, the member's own
        ``predict``, or nearest object.
        """
        check_is_fitted(self)
        refuse_tensors(self, X)
        X = self._frame(check_features(self, X, reset=False))
        near = self._neighbors
        nearest = None if near is None else near.kneighbors(X, return_distance=False)
        known = zip(self.members_, self._object_labels.T, strict=True)
        labels = np.empty((X.shape[0], len(self.members_)), dtype=np.int32)
        arguments = [(X, member, own, nearest) for member, own in known]
        for column, result in enumerate(self._run(label, arguments)):
            labels[:, column] = result
        return labels

    def _label(self, X: np.ndarray, member: int) -> np.ndarray:
        """Labels of new objects by one partition that has centers."""
        return label(self._frame(X), self.members_[member], self._object_labels[:, member], None)

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


class _Frame(NamedTuple):
    """Origin and unit that keep numbers in a safe range; partitions do not depend on them."""

    origin: Any
    unit: Any

    @classmethod
    def of(cls, X: np.ndarray) -> _Frame:
        largest = abs(X).max() if X.size else 1.0
        if sp.issparse(X):
            return cls(None, X.dtype.type(largest or 1.0))
        origin = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        return cls(origin, X.dtype.type(np.abs(X - origin).max() or 1.0))

    def __call__(self, X: Any) -> Any:
        if self.origin is None:
            return sp.csr_array(X) / self.unit
        return ((X.toarray() if sp.issparse(X) else X) - self.origin) / self.unit


def _near(X: Array, n_neighbors: int) -> np.ndarray:
    """The nearest neighbours (n, m) of every object."""
    if X.shape[0] == 1:
        return np.empty((1, 0), dtype=np.intp)
    nearest = NearestNeighbors(n_neighbors=min(n_neighbors, X.shape[0] - 1)).fit(X)
    return nearest.kneighbors(return_distance=False)


def _check_algorithm(algorithm: Any) -> None:
    known = ("connected-k-means", "k-means", *LINKAGES, *ALIASES)
    if isinstance(algorithm, str) and algorithm not in known[: -len(ALIASES)]:
        raise ValueError(
            f"algorithms must be among {', '.join(map(repr, known))}, or scikit-learn clusterers; "
            f"got {algorithm!r}"
        )
    if isinstance(algorithm, type):
        raise TypeError(
            f"algorithms must hold clusterers, not classes: give {algorithm.__name__}() in place "
            f"of {algorithm.__name__}"
        )
    if not isinstance(algorithm, str) and not hasattr(algorithm, "fit_predict"):
        raise TypeError(
            f"algorithms must be names or clusterers with fit_predict, got {algorithm!r}"
        )


def _on_one_core(function: Any, *arguments: Any) -> Any:
    with _controller().limit(limits=1, user_api="openmp"):
        return function(*arguments)
