"""Criteria of fits by an estimator: ``criterion(trial, n_clusters)``, higher is better.

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

from ..array.memory import reserve
from ..engine.few import few_scores
from ..engine.numbers import number_scores
from ..engine.similarity_base import NAMED
from ..engine.structure import Structure, assess
from ..memberships import one_hot
from ..metrics import fuzzy_silhouette
from ..numerics.eigen import Spectrum, leading_eigenvectors
from ..numerics.operators import degrees, normalized_operator
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

__all__ = ["CRITERIA", "Trial", "held_out", "structure"]


class Trial(NamedTuple):
    """What a criterion may use: estimator, evidence, number of splits, a seed for all candidates.

    ``cache`` keeps what candidates share: fits and the spectrum of the similarity.
    """

    estimator: Any
    evidence: Evidence
    n_splits: int
    seed: int
    cache: dict[Any, Any]

    def model(self, n_clusters: int, rng: np.random.Generator) -> Any:
        """An unfitted copy of the estimator with a seed of its own."""
        return with_clusters(self.estimator, n_clusters, rng)

    def fit(self, n_clusters: int) -> Any:
        """The estimator with its own seed, fitted on all the evidence; every number once."""
        # Several criteria use the same fit, and the chosen one is reported without fitting again.
        if n_clusters not in self.cache:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = with_clusters(self.estimator, n_clusters, None)
                self.cache[n_clusters] = self.evidence.fit(model)
        return self.cache[n_clusters]

    def structure(self, n_clusters: int) -> Structure | None:
        """What the structure test says of the fit."""
        model = self.fit(n_clusters)
        if hasattr(model, "structure_"):
            return model.structure_
        if isinstance(self.evidence, Labelings):
            return None
        U = getattr(model, "memberships_", None)
        U = one_hot(labels_of(model, self.evidence.data), n_clusters) if U is None else U
        kind = "features" if isinstance(self.evidence, Features) else "similarity"
        return assess(self.evidence.data, U, kind=kind)

    def spectrum(self, n_values: int) -> Spectrum:
        """Leading eigenvectors of the normalised similarity, at least ``n_values`` of them."""
        known = self.cache.get("spectrum")
        if known is None or len(known.values) < n_values:
            W = self.similarity()
            # Objects without any similarity keep rows of zeros instead of NaN.
            degree = np.maximum(degrees(W), np.finfo(float).tiny)
            known = leading_eigenvectors(normalized_operator(W, degree), n_values)
            self.cache["spectrum"] = known
        return known

    def similarity(self) -> Any:
        """The similarity that the estimator would use; features without one: nearest neighbours."""
        if isinstance(self.evidence, Labelings):
            return coassociation(self.evidence.data)
        if isinstance(self.evidence, Similarity):
            return self.evidence.data
        given = self.estimator.get_params(deep=False).get("similarity")
        function = given if callable(given) else NAMED.get(str(given), knn)
        return function(self.evidence.data)

    def features(self, criterion: str) -> Features:
        """The features with their weights, for criteria that need them."""
        if not isinstance(self.evidence, Features):
            kind = type(self.evidence).__name__.lower()
            raise TypeError(f"criterion={criterion!r} needs features, not {kind}: use 'held-out'")
        return self.evidence


def structure(trial: Trial, n_clusters: int) -> float:
    """-log10 of the p value of the structure test, 0 where it does not support all clusters.

    Above 1.3 the test supports the clusters (p = 0.05).
    """
    if n_clusters < 2:
        return np.nan
    found = trial.structure(n_clusters)
    if found is None:
        raise ValueError("the structure test does not apply here: use criterion='held-out'")
    return criteria.structure_score(found)


def few_objects(trial: Trial, n_clusters: int) -> float:
    """Scatter within clusters of Ward's tree against uniform clouds, for a few objects."""
    if "few objects" not in trial.cache:
        trial.cache["few objects"] = few_scores(*trial.features("few-objects").weighted)
    scores = trial.cache["few objects"]
    return float(scores[n_clusters - 1]) if n_clusters <= len(scores) else np.nan


def held_out(trial: Trial, n_clusters: int) -> np.ndarray:
    """Agreement (adjusted Rand) of fits on disjoint halves of the evidence on objects of both.

    Features: halves of the objects, each labelled by its own fit and predicted by the other one.
    Similarities: the same, where prediction sees only similarities between the halves, so the two
    labelings share no pair. Labelings: halves of the partitions.
    """
    return _over_splits(trial, n_clusters, criteria.held_out_agreement)


def _over_splits(
    trial: Trial, n_clusters: int, measure: Callable[[np.ndarray, np.ndarray], float]
) -> np.ndarray:
    """A measure of two labelings of the same objects, by fits on disjoint parts of the evidence."""
    rng = np.random.default_rng(trial.seed)
    values: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(trial.n_splits):
            models = trial.model(n_clusters, rng), trial.model(n_clusters, rng)
            pairs = trial.evidence.both_labels(*models, rng)
            values += [measure(own, other) for own, other in pairs]
    return np.array(values)


def _information(name: str) -> Callable[[Trial, int], float]:
    def criterion(trial: Trial, n_clusters: int) -> float:
        if not hasattr(trial.estimator, name):
            raise TypeError(
                f"criterion={name!r} needs an estimator with a method {name}, such as "
                "GaussianMixture: use 'held-out'"
            )
        X, weights = trial.features(name).weighted
        measure = getattr(trial.fit(n_clusters), name)
        return -float(measure(X) if weights is None else measure(X, sample_weight=weights))

    criterion.__name__, criterion.__doc__ = name, f"Minus the {name.upper()} of a mixture."
    return criterion


bic, aic, icl = _information("bic"), _information("aic"), _information("icl")


def silhouette(trial: Trial, n_clusters: int) -> float:
    """Fuzzy silhouette of the fit; nothing for a single cluster."""
    X, weights = trial.features("silhouette").weighted
    if n_clusters < 2:
        return np.nan
    model = trial.fit(n_clusters)
    clustering = (
        memberships_of(model, X) if hasattr(model, "predict_proba") else labels_of(model, X)
    )
    return float(fuzzy_silhouette(X, clustering, sample_weight=weights))


def eigengap(trial: Trial, n_clusters: int) -> float:
    """Relative gap below the k-th eigenvalue of the normalised similarity."""
    if n_clusters < 2 or n_clusters >= trial.evidence.n_objects:
        return np.nan
    values = trial.spectrum(max(n_clusters + 1, min(21, trial.evidence.n_objects))).values
    return float(criteria.eigengap(values)[n_clusters - 1])


def penalized_eigengap(trial: Trial, n_clusters: int) -> float:
    """Relative eigengap less what the misfit takes from it, by one spectrum for all candidates."""
    n = trial.evidence.n_objects
    if n_clusters < 2 or n_clusters >= n:
        return np.nan
    if n_clusters not in trial.cache.get("scores", {}):
        largest = max(n_clusters, min(20, n - 1))
        trial.cache["scores"] = number_scores(trial.similarity(), None, largest)
    return trial.cache["scores"].get(n_clusters, np.nan)


def prediction_strength(trial: Trial, n_clusters: int) -> np.ndarray:
    """Least share of pairs in a cluster that fits on other objects keep together."""
    return _over_splits(trial, n_clusters, criteria.prediction_strength)


def gap(trial: Trial, n_clusters: int) -> float:
    """Gap statistic against uniform draws in the box around the principal axes, less its error."""
    X = trial.features("gap")
    rng = np.random.default_rng(trial.seed)
    own = criteria.dispersion(X.data, labels_of(trial.fit(n_clusters), X.data))
    drawn = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(trial.n_splits):
            null = X.structureless(rng)
            model = null.fit(trial.model(n_clusters, rng))
            drawn.append([criteria.dispersion(null.data, labels_of(model, null.data))])
    statistic = criteria.gap_statistic([own], drawn)
    return float(statistic.gap[0] - statistic.standard_error[0])


def lifetime(trial: Trial, n_clusters: int) -> float:
    """Length of the interval of thresholds over which average linkage has k clusters."""
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
    # Similarities relative to the largest one; 1e-300 only avoids 0 / 0.
    distances = 1 - (W + W.T) / max(2 * float(W.max()), 1e-300)
    np.fill_diagonal(distances, 0)
    return linkage(squareform(np.clip(distances, 0, None), checks=False), "average")


def ambiguity(trial: Trial, n_clusters: int) -> float:
    """Minus the proportion of ambiguous clustering (PAC) over fits to 80 % of the evidence."""
    if n_clusters < 2:
        return np.nan
    evidence, rng = trial.evidence, np.random.default_rng(trial.seed)
    n = evidence.n_objects
    # A sample of pairs: PAC is a share, whose standard error is then below 0.004.
    pairs = rng.integers(n, size=(20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    together, seen = np.zeros(len(pairs)), np.zeros(len(pairs))
    for _ in range(5 * trial.n_splits):
        labels = _subsample_labels(trial, n_clusters, rng)
        both = (labels[pairs] >= 0).all(axis=1)
        seen += both
        together += both & (labels[pairs[:, 0]] == labels[pairs[:, 1]])
    # Pairs that no subsample held together say nothing.
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
    "structure": structure,
    "few-objects": few_objects,
    "held-out": held_out,
    "prediction-strength": prediction_strength,
    "penalized-eigengap": penalized_eigengap,
    "gap": gap,
    "bic": bic,
    "aic": aic,
    "icl": icl,
    "silhouette": silhouette,
    "eigengap": eigengap,
    "lifetime": lifetime,
    "pac": ambiguity,
}
