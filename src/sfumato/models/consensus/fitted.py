"""Methods of a fitted consensus: memberships and scores of new objects, intervals, and links.

With links or labels, links become edges of the co-association of the chosen evidence, its cluster
kernel is computed again, and the pairwise model on that kernel takes must-links, cannot-links and
labels. All pairs of objects are formed.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names

from ...array.arrays import as_dense, asarray_like, namespace
from ...array.rows import Rows
from ...array.types import ArrayLike, Estimator
from ...array.validation import check_weights
from ...data.constraints import Known
from ...data.features import check_features, check_observed, warn_of_empty, without_empty
from ...engine.clusterer import CooccurrenceIntervals
from ...engine.objects import object_weights
from ...numerics.label_table import brier_score, pair_shares
from ...numerics.operators import Factored
from ...similarity.cluster_kernel import ClusterKernel, cluster_kernel
from . import hard
from .evidence import check_given
from .soft import common_similarity
from .solutions import Settings, pairwise
from .solvers import filled

KEPT = 2**27  # largest number of bytes of features that a fitted model keeps for resampling
MOST_OBJECTS = 5000  # largest number of objects whose pairs are formed
PLACED = 1024  # new objects placed at a time


class Constraints(NamedTuple):
    """Labels of some objects and pairs of rows, as given by the user."""

    y: Any = None
    must_link: Any = None
    cannot_link: Any = None

    def known(self, X: Any, n_clusters: int) -> Known:
        """The constraints, checked against each other."""
        return Known.of(self.must_link, self.cannot_link, self.y, X, n_clusters)


class LinkedConsensus(NamedTuple):
    """The pairwise model on a cluster kernel Z Z' with links, and the data that new objects are
    compared with: the table of labels, or the factor of soft evidence and its columns.
    """

    model: Estimator
    kernel: ClusterKernel
    Z: np.ndarray
    table: Any
    factor: Any
    own: np.ndarray | None
    extra: float

    def __call__(self, new: Any) -> np.ndarray:
        """Memberships (n, k) of new objects, given as features or as a table of labels."""
        n = new.shape[0] if self.table is None else len(new.codes)
        parts = []
        for start in range(0, n, PLACED):
            part = slice(start, min(start + PLACED, n))
            if self.own is None:
                W = filled(pair_shares(new.objects(part), self.table)[0])
            else:
                W = self.factor.columns(new[part]) @ self.own.T / len(self.own)
            rows = Factored(self.kernel.extend(W + self.extra), self.Z)
            parts.append(self.model.predict_proba(rows))
        return np.concatenate(parts)


def fit_linked(
    estimator: Any, X: Any, constraints: Constraints, settings: Settings, sample_weight: Any
) -> LinkedConsensus | None:
    """The consensus of a fitted ``estimator`` with links and labels; None if there are none."""
    n, k = estimator.memberships_.shape
    fixed = isinstance(estimator.n_clusters, Integral)
    known = constraints.known(estimator.memberships_, k if fixed else n)
    k = max(k, known.fewest_clusters)
    if known.links is None:
        return None
    named = isinstance(estimator.consensus, str) and estimator.consensus == "cluster-kernel"
    if n > MOST_OBJECTS or not named:
        raise ValueError(
            "must_link, cannot_link and labels need consensus='cluster-kernel' and at most "
            f"{MOST_OBJECTS} objects, got {n} and {estimator.consensus!r}: fit a sample, then "
            "predict_proba of the others"
        )
    table = factor = own = None
    if estimator._soft is None:
        table = estimator.coassociation_.table
        W = filled(pair_shares(table, table)[0])
        np.fill_diagonal(W, 0.0)
    else:
        factor = estimator._soft.chosen.factor
        own = estimator._new_rows(X).map(factor.columns)
        W = own @ own.T / n
    mass = object_weights(sample_weight, W)
    degree, extra = common_similarity(W, mass)
    edges = known.edges(None, n, degree)
    graph = W + extra if edges is None else W + extra + edges.toarray()
    kernel = cluster_kernel(graph, k, sample_weight=mass)
    Z = np.array(kernel.factor)
    if mass is not None and (mass == 0).any():
        Z[mass == 0] = kernel.extend(W[mass == 0] + extra)
    model = pairwise(k, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Factored(Z), sample_weight=mass, **constraints._asdict())
    return LinkedConsensus(model, kernel, Z, table, factor, own, extra)


class FittedConsensus(CooccurrenceIntervals):
    """Methods of a consensus fitted to labels or to soft evidence."""

    _any_library = True  # arrays of every library that follows the array API standard

    _soft: Any
    _hard: Any
    _linked: LinkedConsensus | None
    _order: np.ndarray

    @abstractmethod
    def _precomputed(self) -> bool:
        """Whether the evidence is given rather than made from features."""

    def predict_proba(self, X: ArrayLike, *, n_clusters: int | None = None) -> np.ndarray:
        """Memberships of new objects, from their labels by the partitions.

        Parameters
        ----------
        X : array of shape (n_new, p), or the evidence if ``ensemble="precomputed"``
            Labels (n_new, m) by the same partitions, or a list of membership matrices (n_new, k_b).
        n_clusters : int, optional
            Memberships at another level, a number in ``levels_``.

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
        """
        self._check_fitted()
        return self._new_at(self._placed(X), n_clusters, X)

    def _placed(self, X: ArrayLike) -> np.ndarray:
        if self._linked is not None:
            new = self._new_table(X) if self._soft is None else self._new_rows(X).X
            return self._linked(new).astype(self._dtype, copy=False)
        if self._soft is not None:
            place = self._soft
            U = self._new_rows(X).map(lambda block: as_dense(place(block), self._dtype))
        else:
            new = self._new_table(X)
            U = hard.uniform_where_unseen(new, self._hard.solution.place(new))
            U = U.astype(self._dtype, copy=False)
        return namespace(U).take(U, asarray_like(self._order, U, namespace(U).int64), axis=1)

    def _shares(self, X: ArrayLike) -> np.ndarray:
        """Columns (n, K) whose products are the chances that members put two objects together."""
        kind = self._soft.chosen.factor.kind
        columns = as_dense(kind(self._new_rows(X).X), np.float64)
        return columns / np.sqrt(len(kind.offsets) - 1)

    def _new_rows(self, X: ArrayLike) -> Rows:
        if self._precomputed():
            return Rows(check_given(X, None, self._soft.chosen.factor.kind.offsets)[0])
        X = check_observed(self, X, reset=False)
        warn_of_empty(X)
        return Rows(X)

    def _new_table(self, X: Any) -> Any:
        if self._precomputed():
            _check_feature_names(self, X, reset=False)
            return self.coassociation_.recode(X)
        X = check_features(self, X, reset=False)
        return self.coassociation_.recode(self.ensemble_.transform(X))

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Agreement of u_i'u_j with the evidence about the objects X; higher is better.

        For labelings, minus the Brier score against the partitions, over pairs. For soft evidence,
        minus the misfit of the cluster kernel.
        """
        if self._soft is not None:
            rows = self._new_rows(X)
            weights = check_weights(sample_weight, rows.X)
            return -self._soft.misfit(rows if weights is None else Rows(rows.X, weights))
        table = self._new_table(X)
        table = table._replace(mass=check_weights(sample_weight, table.codes))
        return -brier_score(table, self.predict_proba(X).astype(np.float64))

    @available_if(lambda model: model._takes_soft_evidence())
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Update the fit with a batch of new objects.

        The members of the first batch are kept; sums over objects are updated. Not available for
        labelings.

        Parameters
        ----------
        X : array or sparse array of shape (n_batch, p)
        y : ignored
        sample_weight : array of shape (n_batch,), optional

        Returns
        -------
        self
            ``memberships_`` are those of this batch.
        """
        own: Any = self
        if not hasattr(self, "memberships_"):
            return own.fit(X, sample_weight=sample_weight)
        X = check_observed(self, X, reset=False)
        weights = without_empty(X, check_weights(sample_weight, X))
        rows = Rows(X) if weights is None else Rows(X, weights)
        self._linked = None
        fitted, history, n_iter = self._soft.absorb(rows), self.history_, self.n_iter_
        own._publish_soft(Rows(X), fitted, weights)
        self.history_, self.n_iter_ = np.append(history, self.history_), n_iter + self.n_iter_
        return self

    def _membership_draws(self, n_draws: int) -> Iterable[np.ndarray]:
        if self._soft is None:
            table = self.coassociation_.table
            return hard.draws(self._hard, table, self.memberships_, n_draws)
        if self._features is None:
            raise ValueError(
                "cooccurrence_interval reads the features again, which are kept up to "
                f"{KEPT >> 20} MB only: fit a sample, or ask for n_resamples"
            )
        return self._soft.draws(Rows(self._features), self.memberships_, n_draws)
