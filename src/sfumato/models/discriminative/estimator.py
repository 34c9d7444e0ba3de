"""Discriminative clustering: clusters of features that are informative about a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import Array, ArrayLike, RandomState
from ...array.validation import as_generator, check_choice, check_n_clusters, check_number
from ...array.warn import warn
from ...data.features import check_features
from ...engine import loop
from ...engine.base import Clusterer
from ...numerics import contingency
from ...numerics.distances import largest_first
from .classes import class_rows, known_classes, prior_counts, weighted, weights_as_counts
from .problem import TUNING, Frame, Online, Problem, ascend, learn, memberships, online_pass
from .starts import choose_number, starts

__all__ = ["DiscriminativeClustering"]


class DiscriminativeClustering(Clusterer):
    """Clusters of objects that are most informative about a class.

    Not a classifier: there may be more clusters than classes, or fewer. Each cluster is a Voronoi
    cell around a prototype. Prototypes are placed so that the class distributions of the cells
    differ most, by maximum a posteriori with the class distributions integrated out.

    Parameters
    ----------
    n_clusters : int, sequence of int or "auto", default 8
        Largest number of clusters; those that add no information about the classes become empty. Of
        several numbers (1 to ``max_clusters`` with "auto"), the one for which each half of the
        objects best predicts the classes of the other half.
    max_clusters : int, default 40
        Largest number that "auto" tries.
    prior : float or array of shape (n_classes,), default 1.0
        Prior counts of the Dirichlet distribution over the classes of a cluster.
    bandwidth : "auto" or float, default "auto"
        s in exp(-|x - m_j|^2 / s^2), in the units of X. "auto" takes the one of three with the best
        predictions in the same sense; in the widest, s^2 is twice the mean square distance, per
        feature, to the nearest k-means center.
    spread : float, default 1.0
        Standard deviation of the Gaussian prior of the prototypes, as a multiple of that of the
        data. With ``np.inf``, the flat prior of the source, memberships become hard.
    size_penalty : float, default 0.0
        Weight of a penalty on unequal cluster sizes: log k minus the entropy of the sizes, in nats
        per object.
    algorithm : "map", "distortion" or "online", default "map"
        "map": L-BFGS on all data, with the class distributions of the clusters integrated out [2]_.
        "distortion": with class distributions that minimise the expected Kullback-Leibler
        distortion [1]_. "online": steps on random batches of objects.
    learning_rate : float, default 0.1
        First step of the online algorithm, in bandwidths (or standard deviations of the data, if
        smaller); after b batches, a hundredth of the data each, times (1 + b / 200)**-0.6.
    n_init : int, default 4
        Number of starts; with more than 40 000 objects they compete on 20 000.
    max_iter : int, default 500
        Largest number of L-BFGS iterations at each bandwidth, or of improving online passes.
    tol : float, default 1e-8
        Stop at this change of the objective per object (at least 1e-4 for online passes).
    random_state : int, Generator or None
        Random seed.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, p)
        The prototypes m_j, which are not the means of their clusters.
    class_distributions_ : array of shape (n_clusters, n_classes)
        Posterior means of the class distributions of the clusters.
    classes_ : array of shape (n_classes,)
    bandwidth_ : float
    log_posterior_, voronoi_log_posterior_ : float
        Log probability of the classes given the clusters, soft and as Voronoi cells, normalised.
    log_marginal_likelihood_ : float
        ``voronoi_log_posterior_`` minus half a log n for each coordinate of a prototype.
    mutual_information_, voronoi_mutual_information_ : float
        Mutual information between clusters and classes, in nats.
    distortion_, voronoi_distortion_ : float
        Expected Kullback-Leibler divergence between the class distribution of an object and the
        posterior mean of its cluster, in nats per object, soft and in Voronoi cells.
    held_out_information_ : dict
        With "auto": for every number, the gain in predicting classes, in nats per object.
    table_ : array of shape (n_clusters, n_classes)
        Soft counts of the classes in the clusters.
    memberships_, labels_, n_clusters_, objective_, history_, n_iter_, converged_
        As in every estimator; the objective is maximised.

    References
    ----------
    .. [1] Sinkkonen and Kaski, Clustering in an auxiliary space, Neural Computation 14, 2002.
    .. [2] Sinkkonen, Kaski and Nikkila, Discriminative clustering, ECML, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import DiscriminativeClustering
    >>> rng = np.random.default_rng(0)
    >>> c = rng.integers(2, size=300)
    >>> X = rng.normal(size=(300, 2)) * [10, 0.3] + np.outer(2 * c - 1, [0, 1])
    >>> model = DiscriminativeClustering(2, random_state=0).fit(X, np.array(["down", "up"])[c])
    >>> bool(model.voronoi_mutual_information_ > 0.95 * np.log(2))
    True
    >>> model.predict_class_proba([[0.0, 1.0]]).argmax(axis=1)
    array([1])
    """

    _online_: Online
    _frame: Frame
    _state: tuple[np.ndarray, float]

    _sparse = _missing = _streams = True
    needs_classes = True
    may_empty_clusters = True
    chooses_n_clusters = "auto"

    def __init__(
        self,
        n_clusters: int | Sequence[int] | str = 8,
        *,
        max_clusters: int = 40,
        prior: ArrayLike = 1.0,
        bandwidth: ArrayLike = "auto",
        spread: float = 1.0,
        size_penalty: float = 0.0,
        algorithm: str = "map",
        learning_rate: float = 0.1,
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-8,
        random_state: RandomState = None,
    ) -> None:
        self.prior, self.max_clusters = prior, max_clusters
        self.bandwidth, self.spread = bandwidth, spread
        self.size_penalty = size_penalty
        self.algorithm, self.learning_rate = algorithm, learning_rate
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def fit(
        self, X: Any, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> DiscriminativeClustering:
        """Learn clusters of ``X`` that separate the classes ``y``.

        Parameters
        ----------
        X : array or sparse array of shape (n, p)
            Features.
        y : array of shape (n,) or (n, n_classes)
            The class of every object (integers or strings), or its distribution over the classes.
            Unlabelled objects (-1) get memberships but do not affect the prototypes.
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object."""
        self._check_parameters()
        self._check_memory(X)
        X = self._features(X, reset=True)
        weights = weights_as_counts(sample_weight, X)
        P, self.classes_ = class_rows(y, X.shape[0])
        rng = as_generator(self.random_state)
        problem = self._problem(X, P, weights)
        self._k = self._number(problem, rng)
        run, bandwidth = self._best(problem, rng, self.n_init, self.bandwidth)
        sizes = problem.table(run.state, bandwidth).sum(axis=1)
        order = largest_first(sizes, run.state)
        self._finish(problem, run._replace(state=run.state[order]), bandwidth)
        self._warn_if_chance(problem, P, weights, rng)
        return self

    def partial_fit(
        self,
        X: Array,
        y: Array | None = None,
        *,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> DiscriminativeClustering:
        """One online pass over a batch; ``memberships_`` and ``labels_`` are those of the batch.

        The first batch (also after ``fit``) determines the start, the bandwidth and the units.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``
        classes : array of shape (n_classes,), optional
            All classes that will ever occur, given with the first batch; by default those of the
            first batch. Other classes are refused later."""
        first = not hasattr(self, "_online_") or not hasattr(self, "memberships_")
        self._check_parameters()
        X = self._features(X, reset=first)
        weights = weights_as_counts(sample_weight, X)
        known = (None if classes is None else known_classes(classes)) if first else self.classes_
        P, self.classes_ = class_rows(y, X.shape[0], known)
        problem = self._problem(X, P, weights, None if first else self._frame)
        if first:
            rng = as_generator(self.random_state)
            self._k = self._number(problem, rng)
            (start,), bandwidth = starts(problem, self._k, self.bandwidth, rng, 1)
            online = Online.start(problem, start, bandwidth)
        else:
            bandwidth, seen = self._state[1], self._online_.seen + problem.total
            online = self._online_._replace(seen=seen)
        order = np.arange(X.shape[0])
        online = online_pass(problem, online, bandwidth, self.learning_rate, order)
        objective = problem.objective(problem.table(online.average, bandwidth), online.average)
        run = loop.Run(online.average, objective, np.array([objective]), 1, True)
        self._online_ = online
        self._finish(problem, run, bandwidth)
        self.class_distributions_ = _posterior_means(online.table, problem.prior)
        return self

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_choice(self.algorithm, "algorithm", ("map", "distortion", "online"))
        if not isinstance(self.bandwidth, str) or self.bandwidth != "auto":
            check_number(self.bandwidth, "bandwidth", low=0, strict=True)
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)
        check_number(self.spread, "spread", low=1e-10)
        check_number(self.size_penalty, "size_penalty", low=0, high=1e12)
        check_number(self.learning_rate, "learning_rate", low=0, high=1e6, strict=True)

    def _number(self, problem: Problem, rng: np.random.Generator) -> int:
        """The number of clusters, given or chosen by held-out information."""
        n, given = problem.rows.shape[0], self.n_clusters
        if isinstance(given, str):
            check_choice(given, "n_clusters (numbers or 'auto')", ("auto",))
            # All small numbers, then steps of about a quarter.
            steps = np.arange(np.log(self.max_clusters / 2) / np.log(1.25) + 1e-9)
            given = np.unique(np.round(2 * 1.25**steps)).astype(int).tolist()
        elif not np.ndim(given):
            return check_n_clusters(given, n)
        numbers = [check_n_clusters(k, max(n, self.max_clusters)) for k in given]
        k, self.held_out_information_ = choose_number(problem, self.bandwidth, rng, numbers)
        return k

    def _best(
        self, problem: Problem, rng: np.random.Generator, n_init: int, bandwidth: ArrayLike
    ) -> tuple[loop.Run, float]:
        """The best run of several starts, and the bandwidth in scaled coordinates."""
        centers, bandwidth = starts(problem, self._k, bandwidth, rng, n_init)
        if self.algorithm != "online":
            return ascend(problem, centers, bandwidth, self.max_iter, self.tol), bandwidth
        settings = self.learning_rate, rng, self.max_iter, self.tol
        runs = [learn(problem, start, bandwidth, *settings) for start in centers]
        return loop.best(runs, larger=True), bandwidth

    def _finish(self, problem: Problem, run: loop.Run, bandwidth: float) -> None:
        self._state = run.state, bandwidth
        self.bandwidth_ = bandwidth * self._frame.unit
        self.cluster_centers_ = self._frame.coordinates.outer(run.state)
        self.table_ = r = problem.table(run.state, bandwidth)
        self.voronoi_table_ = hard = problem.table(run.state)
        self.class_distributions_ = _posterior_means(r, problem.prior)
        self.log_posterior_ = contingency.log_posterior(r, problem.prior)
        self.voronoi_log_posterior_ = contingency.log_posterior(hard, problem.prior)
        coordinates = 0.5 * run.state.size * np.log(problem.total)
        self.log_marginal_likelihood_ = float(self.voronoi_log_posterior_ - coordinates)
        self.mutual_information_ = contingency.mutual_information(r)
        self.voronoi_mutual_information_ = contingency.mutual_information(hard)
        own = problem.entropy()
        self.distortion_ = contingency.distortion(r, self.class_distributions_, own)
        means = _posterior_means(hard, problem.prior)
        self.voronoi_distortion_ = contingency.distortion(hard, means, own)
        self._publish(problem.rows.map(lambda X, Q: self._assign(X)), run)

    def _warn_if_chance(
        self, problem: Problem, P: Array, weights: Array, rng: np.random.Generator
    ) -> None:
        gain = self.voronoi_log_posterior_ - _one_cluster(problem)
        chance = -np.inf
        evident = gain >= TUNING.evident * self.cluster_centers_.size
        for _ in range(0 if evident else TUNING.shuffles):
            order = rng.permutation(P.shape[0])
            shuffled = self._problem(problem.rows.X, P[order], weights, self._frame)
            hard = shuffled.table(self._best(shuffled, rng, 1, self.bandwidth_)[0].state)
            log_posterior = contingency.log_posterior(hard, problem.prior)
            chance = max(chance, log_posterior - _one_cluster(shuffled))
            if gain <= max(0.0, TUNING.above_chance * chance):
                warn(
                    f"the clusters tell the classes apart no better (log Bayes factor {gain:.1f}) "
                    f"than clusters fitted to shuffled classes ({chance:.1f}): X says little "
                    f"about y, or n_clusters={self._k} is too many for {problem.total:g} objects"
                )
                return

    def _placed(self, X: Any) -> Any:
        return Rows(self._features(X, reset=False)).map(self._assign)

    def predict_class_proba(self, X: ArrayLike) -> Any:
        """Class probabilities (n_new, n_classes) of new objects, from their memberships."""
        U = self.predict_proba(X)
        return U @ asarray_like(self.class_distributions_, U)

    def score(
        self, X: Array, y: Array | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Log probability per object of new classes, given their Voronoi cells and the classes of
        the fitted objects in them; ``X``, ``y`` and ``sample_weight`` are as in ``fit``.

        This is the log posterior of fitted and new objects together minus that of the fitted ones,
        divided by the weight of the new ones. New objects inform each other's predictions, so the
        score of a batch is not the mean of the scores of its objects."""
        self._check_fitted()
        X = self._features(X, reset=False)
        weights = weights_as_counts(sample_weight, X)
        P, _ = class_rows(y, X.shape[0], self.classes_)
        problem = self._problem(X, P, weights, self._frame)
        table = self.voronoi_table_ + problem.table(self._state[0])
        both = contingency.log_posterior(table, problem.prior)
        return (both - self.voronoi_log_posterior_) / problem.total

    def _assign(self, X: Array) -> Any:
        Y = memberships(self._frame(X), *self._state)
        return namespace(Y).astype(Y, X.dtype, copy=False)

    def _problem(self, X: Any, P: Array, weights: Any, frame: Frame | None = None) -> Problem:
        prior = prior_counts(self.prior, len(self.classes_))
        Q = weighted(P, weights)
        if not (is_numpy(X) or sp.issparse(X)):
            Q = asarray_like(Q.toarray() if sp.issparse(Q) else Q, X)
        rows = Rows(X, Q)
        total = float(Q.sum())
        if not total > 0:
            raise ValueError("y is -1, unlabelled, wherever sample_weight is positive")
        self._frame = Frame.of(rows) if frame is None else frame
        precision, penalty = float(self.spread) ** -2.0, float(self.size_penalty)
        explicit = self.algorithm == "distortion"
        return Problem(rows, self._frame, prior, precision, penalty, total, explicit)

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Checked features; sparse ones have the 32-bit indices that k-means needs."""
        X = check_features(self, X, reset=reset, missing=True)
        X = sp.csr_array(X) if sp.issparse(X) else X
        if sp.issparse(X) and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
            indices, indptr = (part.astype(np.int32) for part in (X.indices, X.indptr))
            return sp.csr_array((X.data, indices, indptr), shape=X.shape)
        return X

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """No evidence for the structure test: clusters follow the classes, not the density."""
        return None, ""


def _posterior_means(r: np.ndarray, prior: np.ndarray) -> np.ndarray:
    return (prior + r) / (prior + r).sum(axis=1, keepdims=True)


def _one_cluster(problem: Problem) -> float:
    (Q,) = problem.rows.columns
    return contingency.log_posterior(np.atleast_2d(to_numpy(Q.sum(axis=0))), problem.prior)
