"""What a fitted consensus can do: memberships and a score of new objects, and intervals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names

from ...array.arrays import as_dense, asarray_like, namespace
from ...array.rows import Rows
from ...array.types import ArrayLike, Weights
from ...array.validation import check_weights
from ...data.features import check_features, check_observed, warn_of_empty
from ...engine.clusterer import CooccurrenceIntervals
from ...engine.levels import sizes
from . import given, hard
from .constrained import LinkedConsensus

__all__ = ["KEPT", "FittedConsensus"]

KEPT = 2**27  # bytes of features up to which a fitted model keeps them, for resampling


class FittedConsensus(CooccurrenceIntervals):
    """Methods of a consensus that was fitted to labels or to soft evidence."""

    _any_library = True  # arrays of every library that follows the array API standard

    _soft: Any
    _hard: Any
    _linked: LinkedConsensus | None
    _order: np.ndarray

    @abstractmethod
    def _precomputed(self) -> bool:
        """Whether the evidence is given, and not made from features."""

    def predict_proba(self, X: ArrayLike, *, n_clusters: int | None = None) -> np.ndarray:
        """Memberships of new objects, labelled by the partitions and placed beside the fitted ones.

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

    def _in_order(self, memberships: Any, weights: Weights) -> Any:
        """Memberships with their columns in the order of their soft size, the largest first."""
        largest = np.round(sizes(memberships, weights) / memberships.shape[0], 9)
        self._order = np.argsort(-largest, kind="stable")
        xp = namespace(memberships)
        return xp.take(memberships, asarray_like(self._order, memberships, xp.int64), axis=1)

    def _shares(self, X: ArrayLike) -> np.ndarray:
        """Columns (n, K) of soft evidence whose products are the chances that members put two
        objects together.
        """
        kind = self._soft.chosen.factor.kind
        return as_dense(kind(self._new_rows(X).X), np.float64) / np.sqrt(kind.n_members)

    def _new_rows(self, X: ArrayLike) -> Rows:
        if self._precomputed():
            return Rows(given.check_given(X, None, self._soft.chosen.factor.kind.offsets)[0])
        X = check_observed(self, X, reset=False)
        warn_of_empty(X)
        return Rows(X)

    def _new_table(self, X: Any) -> Any:
        if self._precomputed():
            _check_feature_names(self, X, reset=False)
            return self.coassociation_.recode(X)
        ensemble: Any = self.ensemble_
        labels = ensemble.transform(check_features(self, X, reset=False))
        return self.coassociation_.recode(labels)

    def score(
        self, X: ArrayLike, y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """How well u_i'u_j agrees with the evidence about the objects X: higher is better.

        Labelings: minus the Brier score for what the partitions say, pair by pair. Soft evidence:
        minus the misfit of the cluster kernel.
        """
        if self._soft is not None:
            rows = self._new_rows(X)
            weights = check_weights(sample_weight, rows.X)
            return -self._soft.misfit(rows if weights is None else Rows(rows.X, weights))
        table = self._new_table(X)
        table = table._replace(mass=check_weights(sample_weight, table.codes))
        return -hard.brier_score(table, self.predict_proba(X).astype(np.float64))

    def _membership_draws(self, n_draws: int) -> Iterable[np.ndarray]:
        if self._soft is None:
            table = self.coassociation_.table
            return hard.draws(self._hard, table, self.memberships_, n_draws)
        if self._features is None:
            raise ValueError(
                "cooccurrence_interval reads the features again, which are kept up to "
                f"{KEPT >> 20} MB only: fit a sample, or ask for n_bootstrap"
            )
        return self._soft.draws(Rows(self._features), self.memberships_, n_draws)
