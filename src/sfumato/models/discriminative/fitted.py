"""Methods of fitted discriminative clusters: memberships, class probabilities and a score of new
objects.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import is_numpy, namespace
from ...array.docs import documented
from ...array.rows import Rows
from ...array.types import Array, ArrayLike
from ...data.features import check_features
from ...engine.base import Clusterer
from ...numerics import contingency
from . import kernel
from .classes import class_rows, prior_counts, weighted, weights_as_counts
from .problem import Frame, Problem

__all__ = ["FittedDiscriminative"]


class FittedDiscriminative(Clusterer):
    """Methods of clusters that have prototypes, a bandwidth and a frame of coordinates."""

    _frame: Frame
    _state: tuple[np.ndarray, float]

    @documented
    def predict_proba(self, X: ArrayLike, *, n_clusters: int | None = None) -> Any:
        """Memberships of new objects.

        %(new_objects)s
        """
        self._check_fitted()
        rows = Rows(self._features(X, reset=False), n_jobs=self.n_jobs)
        self._frame.refuse_remote(rows)
        return self._new_at(rows.map(self._assign), n_clusters, X)

    def predict_class_proba(self, X: ArrayLike) -> Any:
        """Class probabilities (n_new, n_classes) of new objects: memberships times the class
        distributions of the clusters.
        """
        memberships = self.predict_proba(X)
        xp = namespace(memberships)
        psi = self.class_distributions_
        return memberships @ (
            psi.astype(memberships.dtype)
            if xp is np
            else xp.asarray(psi, dtype=memberships.dtype, device=memberships.device)
        )

    def score(
        self, X: Array, y: Array | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Log probability per object of new classes, given their Voronoi cells and the classes of
        the fitted objects in them.

        Parameters
        ----------
        X : array or sparse array of shape (n_new, p)
        y : array of shape (n_new,) or (n_new, n_classes)
            Classes, or their distributions, as in ``fit``.
        sample_weight : array of shape (n_new,), optional

        Returns
        -------
        score : float
            The log posterior of fitted and new objects together less that of the fitted ones,
            divided by the weight of the new ones. New objects inform each other's predictions: the
            score of a batch is not the mean of the scores of single objects.
        """
        self._check_fitted()
        X = self._features(X, reset=False)
        weights = weights_as_counts(sample_weight, X)
        problem = self._problem(
            X, class_rows(y, X.shape[0], self.classes_)[0], weights, self._frame
        )
        both = contingency.log_posterior(
            self.voronoi_table_ + problem.voronoi_table(self._state[0]), problem.prior
        )
        return (both - self.voronoi_log_posterior_) / problem.total

    def _assign(self, X: Array) -> Any:
        Y = kernel.memberships(self._frame(X), *self._state)
        return namespace(Y).astype(Y, X.dtype, copy=False)

    def _problem(self, X: Any, P: Array, weights: Any, frame: Frame | None = None) -> Problem:
        n_classes = len(self.classes_)
        prior = prior_counts(self.prior, n_classes)
        Q = weighted(P, weights)
        if not (is_numpy(X) or sp.issparse(X)):
            Q = namespace(X).asarray(
                Q.toarray() if sp.issparse(Q) else Q, dtype=X.dtype, device=X.device
            )
        rows = Rows(X, Q, n_jobs=self.n_jobs)
        total = float(Q.sum())
        if not total > 0:
            raise ValueError("y is -1, unlabelled, wherever sample_weight is positive")
        self._frame = Frame.of(rows) if frame is None else frame
        self._frame.refuse_remote(rows)
        return Problem(
            rows,
            self._frame,
            prior,
            float(self.spread) ** -2.0,
            float(self.size_penalty),
            total,
            explicit=self.algorithm == "distortion",
        )

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Features as every estimator takes them.

        Sparse ones as arrays with the short indices that k-means asks for.
        """
        X = check_features(self, X, reset=reset, missing=True)
        if not sp.issparse(X):
            return X
        X = sp.csr_array(X)
        if X.indices.dtype == np.int64 and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
            return sp.csr_array(
                (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape
            )
        return X

    def _structure_evidence(self, evidence: ArrayLike) -> tuple[Any, str]:
        """Clusters follow the classes, not the density of the features."""
        return None, ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags
