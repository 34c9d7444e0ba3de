"""A consensus that honours what the user knows of some objects.

The co-association of the chosen evidence gets links as edges, its cluster kernel is cut anew, and
the pairwise model on that kernel takes must-links, cannot-links and labels as its own. All pairs of
objects are formed.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...array.types import Weights
from ...data.constraints import Known
from ...engine import loop
from ...engine.objects import object_weights
from ...numerics.label_table import pair_counts
from ...similarity.cluster_kernel import ClusterKernel, cluster_kernel
from ...similarity.operators import Factored
from ..pairwise.estimator import PairwiseProbabilisticClustering
from .reading import Settings
from .tuning import TUNING

__all__ = ["Constraints", "LinkedConsensus", "fit_linked"]

MOST_OBJECTS = 5000  # of which all pairs are formed
PLACED = 1024  # new objects placed at a time


class Constraints(NamedTuple):
    """Labels of some objects and pairs of rows, as the user gave them."""

    y: Any = None
    must_link: Any = None
    cannot_link: Any = None

    def known(self, X: Any, n_clusters: Any) -> Known:
        """What they say, checked against each other."""
        if not isinstance(n_clusters, Integral):
            if self.must_link is not None or self.cannot_link is not None:
                raise ValueError(
                    "n_clusters='auto' takes no must_link or cannot_link: give the number of "
                    "clusters"
                )
            return Known()
        return Known.of(self.must_link, self.cannot_link, self.y, X, int(n_clusters))


class SoftSimilarities(NamedTuple):
    """Similarities to fitted objects from columns of soft evidence: products over n."""

    factor: Any
    own: np.ndarray

    def __call__(self, new: Any) -> np.ndarray:
        """(b, n) of a block of features or membership rows."""
        return self.factor.columns(new) @ self.own.T / len(self.own)


class TableSimilarities(NamedTuple):
    """Similarities to fitted objects from labels: shares of the partitions that saw both."""

    table: Any

    def __call__(self, new: Any) -> np.ndarray:
        """(b, n) of a table of labels; the mean of the others where no partition saw both."""
        together, seen = pair_counts(new, self.table)
        known = seen > 0
        ratios = together / np.where(known, seen, 1.0)
        return np.where(known, ratios, ratios[known].mean() if known.any() else 0.0)


class LinkedConsensus(NamedTuple):
    """The pairwise model on a cluster kernel with links, and similarities of new objects."""

    model: PairwiseProbabilisticClustering
    kernel: ClusterKernel
    factor: np.ndarray
    similarities: Any
    extra: float

    def __call__(self, new: Any) -> np.ndarray:
        """Memberships (n, k) of new objects, features or a table of labels."""
        table = hasattr(new, "codes")
        n = len(new.codes) if table else new.shape[0]
        parts = []
        for start in range(0, n, PLACED):
            part = slice(start, min(start + PLACED, n))
            W = self.similarities(new.objects(part) if table else new[part]) + self.extra
            parts.append(self.model.predict_proba(Factored(self.kernel.extend(W), self.factor)))
        return np.concatenate(parts)

    def fitted(self) -> tuple[np.ndarray, loop.Run]:
        """Memberships of the fitted objects, and the run that led there."""
        found = self.model
        run = loop.Run(None, found.objective_, found.history_, found.n_iter_, found.converged_)
        return found.memberships_, run


def fit_linked(
    estimator: Any, X: Any, constraints: Constraints, settings: Settings, sample_weight: Any
) -> LinkedConsensus | None:
    """The consensus of a fitted ``estimator`` with links and labels; None where there are none."""
    n, k = estimator.memberships_.shape
    known = constraints.known(estimator.memberships_, estimator.n_clusters)
    if known.links is None:
        return None
    named = isinstance(estimator.consensus, str) and estimator.consensus == "cluster-kernel"
    if n > MOST_OBJECTS or not named:
        raise ValueError(
            "must_link, cannot_link and labels need consensus='cluster-kernel' and at most "
            f"{MOST_OBJECTS} objects, got {n} and {estimator.consensus!r}: fit a sample, then "
            "predict_proba of the others"
        )
    if estimator._soft is None:
        table = estimator.coassociation_.table
        similarities: Any = TableSimilarities(table)
        W = similarities(table)
        np.fill_diagonal(W, 0.0)
    else:
        factor, rows = estimator._soft.chosen.factor, estimator._new_rows(X)
        similarities = SoftSimilarities(factor, rows.map(factor.columns))
        W = similarities.own @ similarities.own.T / n
    mass = object_weights(sample_weight, W)
    return _linked(W, similarities, known, constraints, settings, k, mass)


def _linked(
    W: np.ndarray,
    similarities: Any,
    known: Known,
    constraints: Constraints,
    settings: Settings,
    k: int,
    mass: Weights,
) -> LinkedConsensus:
    n = len(W)
    v = np.ones(n) if mass is None else mass
    degree = float(v @ W @ v) / float(v.sum())
    extra = TUNING.soft_regularization * degree / float(v.sum())
    edges = known.edges(None, n, degree)
    graph = W + extra if edges is None else W + extra + edges.toarray()
    kernel = cluster_kernel(graph, k, weights=mass)
    Z = np.array(kernel.factor)
    if (v == 0).any():
        Z[v == 0] = kernel.extend(W[v == 0] + extra)
    model = PairwiseProbabilisticClustering(k, similarity="precomputed", **settings._asdict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Factored(Z), sample_weight=mass, **constraints._asdict())
    return LinkedConsensus(model, kernel, Z, similarities, extra)
