"""Criteria put to an estimator: functions ``criterion(trial, n_clusters)`` whose answer is better the higher it is.

The formulas are in ``criteria``; here models are fitted and evidence is split.

A criterion may answer with several values (splits of the evidence); their mean is the score.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from ..core.memory import reserve
from ..numerics.eigen import degrees, leading_eigenvectors, normalized_operator
from ..similarity import coassociation, knn
from . import criteria
from ._evidence import (
    Evidence,
    Features,
    Labelings,
    Similarity,
    labels_of,
    memberships_of,
    with_clusters,
)

__all__ = [
    "CRITERIA",
    "Trial",
    "aic",
    "ambiguity",
    "bic",
    "eigengap",
    "held_out",
    "icl",
    "lifetime",
    "silhouette",
]


class Trial(NamedTuple):
    """What a criterion may use: the estimator, the evidence, how often to split it, and a seed shared by all candidates."""

    estimator: Any
    evidence: Evidence
    n_splits: int
    seed: int

    def model(self, n_clusters: int, rng: np.random.Generator) -> Any:
        """An unfitted copy of the estimator."""
        return with_clusters(self.estimator, n_clusters, rng)

    def fit(self, n_clusters: int) -> Any:
        """The estimator fitted on all the evidence."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.evidence.fit(self.model(n_clusters, np.random.default_rng(self.seed)))

    def features(self, criterion: str) -> Features:
        """The features with their weights, for criteria that need them."""
        if not isinstance(self.evidence, Features):
            raise TypeError(
                f"criterion={criterion!r} needs features, not {type(self.evidence).__name__.lower()}: use 'held-out'"
            )
        return self.evidence


def held_out(trial: Trial, n_clusters: int) -> np.ndarray:
    """Agreement (adjusted Rand) of fits on disjoint halves of the evidence about objects that both of them label.

    Features: halves of the objects, each labelled by its own fit and predicted by the other one. Similarities: the same, where
    prediction sees only similarities between the halves, so the two labelings share no pair. Labelings: halves of the partitions.
    """
    rng = np.random.default_rng(trial.seed)
    values: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(trial.n_splits):
            values += trial.evidence.compare(
                trial.model(n_clusters, rng), trial.model(n_clusters, rng), rng
            )
    return np.array(values)


def _information(name: str) -> Callable[[Trial, int], float]:
    def criterion(trial: Trial, n_clusters: int) -> float:
        if not hasattr(trial.estimator, name):
            raise TypeError(
                f"criterion={name!r} needs an estimator with a method {name}, such as GaussianMixture: use 'held-out'"
            )
        X, weights = trial.features(name)
        measure = getattr(trial.fit(n_clusters), name)
        return -float(measure(X) if weights is None else measure(X, sample_weight=weights))

    criterion.__name__, criterion.__doc__ = name, f"Minus the {name.upper()} of a mixture."
    return criterion


bic, aic, icl = _information("bic"), _information("aic"), _information("icl")


def silhouette(trial: Trial, n_clusters: int) -> float:
    """Fuzzy silhouette of the fit; nothing for a single cluster."""
    X, weights = trial.features("silhouette")
    if n_clusters < 2:
        return np.nan
    model = trial.fit(n_clusters)
    clustering = (
        memberships_of(model, X) if hasattr(model, "predict_proba") else labels_of(model, X)
    )
    return float(criteria.fuzzy_silhouette(X, clustering, sample_weight=weights))


def eigengap(trial: Trial, n_clusters: int) -> float:
    """Relative gap below the k-th eigenvalue of the normalised similarity (features: of their graph of nearest neighbours)."""
    evidence = trial.evidence
    if isinstance(evidence, Labelings):
        W = coassociation(evidence.data)
    else:
        W = evidence.data if isinstance(evidence, Similarity) else knn(evidence.data)
    if n_clusters < 2 or n_clusters >= evidence.n_objects:
        return np.nan
    degree = degrees(W)
    spectrum = leading_eigenvectors(
        normalized_operator(W, np.maximum(degree, 1e-300)), n_clusters + 1
    )
    return float(criteria.eigengap(spectrum.values)[-1])


def lifetime(trial: Trial, n_clusters: int) -> float:
    """Length of the threshold interval over which average linkage has k clusters (Fred and Jain 2005)."""
    return float(criteria.lifetime(_tree(trial.evidence)[:, 2], n_clusters))


def _tree(evidence: Evidence) -> np.ndarray:
    n = evidence.n_objects
    reserve((n, n), np.float64, "the distances for the linkage", "use criterion='held-out'")
    if isinstance(evidence, Features):
        return linkage(
            evidence.data.toarray() if sp.issparse(evidence.data) else evidence.data, "average"
        )
    W: Any = coassociation(evidence.data) if isinstance(evidence, Labelings) else evidence.data
    W = np.nan_to_num(W if isinstance(W, np.ndarray) else W.toarray())
    distances = 1 - (W + W.T) / max(2 * float(W.max()), 1e-300)
    np.fill_diagonal(distances, 0)
    return linkage(squareform(np.clip(distances, 0, None), checks=False), "average")


def ambiguity(trial: Trial, n_clusters: int) -> float:
    """Minus the proportion of ambiguous clustering (PAC): pairs together in 10 to 90 % of the fits on 80 % subsamples.

    Known to drift to the largest k, because most pairs are then always apart (Senbabaoglu et al. 2014): here for comparison.
    """
    if n_clusters < 2:
        return np.nan
    evidence, rng = trial.evidence, np.random.default_rng(trial.seed)
    n = evidence.n_objects
    pairs = rng.integers(n, size=(20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    together, seen = np.zeros(len(pairs)), np.zeros(len(pairs))
    for _ in range(5 * trial.n_splits):
        labels = _subsample_labels(trial, n_clusters, rng)
        both = (labels[pairs] >= 0).all(axis=1)
        seen += both
        together += both & (labels[pairs[:, 0]] == labels[pairs[:, 1]])
    share = together[seen > 0] / seen[seen > 0]
    return -criteria.pac(share)


def _subsample_labels(trial: Trial, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Labels of a fit on 80 % of the objects (-1 for the others), or of the partitions."""
    evidence = trial.evidence
    total = evidence.data.shape[1] if isinstance(evidence, Labelings) else evidence.n_objects
    chosen = rng.permutation(total)[: int(np.ceil(0.8 * total))]
    part = evidence.part(chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = labels_of(part.fit(trial.model(n_clusters, rng)), part.data)
    if isinstance(evidence, Labelings):
        return labels
    everyone = np.full(evidence.n_objects, -1)
    everyone[chosen] = labels
    return everyone


CRITERIA: dict[str, Callable[[Trial, int], Any]] = {
    "held-out": held_out,
    "bic": bic,
    "aic": aic,
    "icl": icl,
    "silhouette": silhouette,
    "eigengap": eigengap,
    "lifetime": lifetime,
    "pac": ambiguity,
}
