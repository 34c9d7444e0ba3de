"""Criteria for a number of clusters: formulas on arrays, and functions that fit an estimator.

A criterion of ``choose_n_clusters`` is a function ``criterion(trial, n_clusters)``; higher is
better. It may return several values (one per split of the data), whose mean is the score. Models
may call the formulas. Scores of eigenvalues are in ``engine.numbers``. The lifetime of k clusters
is the length of the interval of thresholds at which a linkage tree has k clusters.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from ..array.types import Array, ArrayLike
from ..array.validation import reserve
from ..engine.numbers import (
    eigengap,
    few_scores,
    misfit,
    misfit_of_sums,
    number_scores,
    penalized_eigengap,
)
from ..engine.similarity_base import NAMED
from ..engine.structure import LEVEL, SEARCH_TESTS, Structure, assess
from ..memberships import one_hot
from ..metrics import adjusted_rand_index, fuzzy_silhouette
from ..similarity import coassociation, knn
from ._evidence import (
    Evidence,
    Features,
    Labelings,
    Similarity,
    labels_of,
    memberships_of,
    with_clusters,
)

__all__ = ["eigengap", "misfit", "misfit_of_sums", "penalized_eigengap"]  # defined elsewhere


def supported_numbers(scores: dict[int, float]) -> list[int]:
    """Numbers of clusters that the structure test supports, the largest, most informative first. To
    keep false positives of a search at 5 %, p must be at most 0.05 / 3 (``engine.structure``).
    """
    least = -np.log10(LEVEL / SEARCH_TESTS)
    return sorted((k for k, score in scores.items() if score >= least), reverse=True)


def criterion_weights(information: ArrayLike) -> np.ndarray:
    """Posterior over candidates from BIC or ICL: exp(-value / 2), normalised; 0 for NaN."""
    values = np.asarray(information, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(values), np.nan)
    weights = np.exp(-0.5 * (np.where(known, values, np.inf) - values[known].min()))
    return weights / weights.sum()


def mean_agreement(
    partitions: np.ndarray, labels: np.ndarray, weights: np.ndarray, mass: np.ndarray
) -> float:
    """Mean adjusted Rand index, not below 0, between labels (n,) and partitions (n, m) with
    ``weights`` (m,), each on the objects that it saw. A ``mass`` (n,) of v counts as v copies;
    pairs of an object with itself are included.
    """
    seen, indices = partitions >= 0, []
    for b, own in enumerate(seen.T):
        table = np.zeros((partitions[:, b].max() + 1, labels.max() + 1))
        np.add.at(table, (partitions[own, b], labels[own]), mass[own])
        both, *sides = (np.square(sums).sum() for sums in (table, table.sum(0), table.sum(1)))
        chance = sides[0] * sides[1] / max(table.sum() ** 2, np.finfo(float).tiny)
        spread = sum(sides) / 2 - chance
        indices.append((both - chance) / spread if spread > 0 else float(own.any()))
    return max(0.0, float(np.average(indices, weights=weights * seen.any(axis=0))))


def lifetime(heights: Array, n_clusters: object) -> np.ndarray:
    """Length of the interval of thresholds at which a tree with these merge heights has k clusters,
    for each k asked for; NaN for one cluster, and for more than objects.
    """
    steps = np.concatenate([[0.0], np.sort(np.asarray(heights, dtype=np.float64))])
    sizes = np.asarray(n_clusters, dtype=int)
    inside = (sizes >= 2) & (sizes <= len(steps))
    k = np.where(inside, sizes, 1)
    upper, lower = steps[np.minimum(len(steps) - k + 1, len(steps) - 1)], steps[len(steps) - k]
    return np.where(inside, upper - lower, np.nan)


class Trial(NamedTuple):
    """Estimator, data and settings for a criterion; ``cache`` holds what candidates share."""

    estimator: Any
    evidence: Evidence
    n_splits: int
    seed: int
    cache: dict[Any, Any]

    def model(self, n_clusters: int, rng: np.random.Generator) -> Any:
        """An unfitted copy of the estimator with a seed of its own."""
        return with_clusters(self.estimator, n_clusters, rng)

    def fit(self, n_clusters: int) -> Any:
        """The estimator with its own seed, fitted to all the data; cached by number of clusters."""
        # Several criteria use the same fit, and so does the final answer.
        if n_clusters not in self.cache:
            with warnings.catch_warnings(action="ignore"):
                model = with_clusters(self.estimator, n_clusters, None)
                self.cache[n_clusters] = self.evidence.fit(model)
        return self.cache[n_clusters]

    def structure(self, n_clusters: int) -> Structure | None:
        """Result of the structure test for the fit with this number of clusters."""
        model = self.fit(n_clusters)
        if hasattr(model, "structure_"):
            return model.structure_
        if isinstance(self.evidence, Labelings):
            return None
        U = getattr(model, "memberships_", None)
        U = one_hot(labels_of(model, self.evidence.data), n_clusters) if U is None else U
        kind = "features" if isinstance(self.evidence, Features) else "similarity"
        return assess(self.evidence.data, U, kind=kind)

    def similarity(self) -> Any:
        """The similarity of the estimator; nearest neighbours of features if it has none."""
        if isinstance(self.evidence, Labelings):
            return coassociation(self.evidence.data)
        if isinstance(self.evidence, Similarity):
            return self.evidence.data
        given = self.estimator.get_params(deep=False).get("similarity")
        function = given if callable(given) else NAMED.get(str(given), knn)
        return function(self.evidence.data)

    def features(self, criterion: str) -> Features:
        """The features with their weights; an error if the criterion is given other data."""
        if not isinstance(self.evidence, Features):
            kind = type(self.evidence).__name__.lower()
            raise TypeError(f"criterion={criterion!r} needs features, not {kind}: use 'held-out'")
        return self.evidence


def _structure(trial: Trial, n_clusters: int) -> float:
    """-log10 of the p value of the structure test; 0 if some clusters are not supported."""
    if n_clusters < 2:
        return np.nan
    found = trial.structure(n_clusters)
    if found is None:
        raise ValueError("the structure test does not apply here: use criterion='held-out'")
    return -float(np.log10(max(found.p_value, 1e-12))) if found.supported else 0.0


def _few_objects(trial: Trial, n_clusters: int) -> float:
    """Scatter within clusters of Ward's tree, compared with uniform clouds of a few objects."""
    if "few objects" not in trial.cache:
        X = trial.features("few-objects")
        trial.cache["few objects"] = few_scores(X.data, X.weights)
    scores = trial.cache["few objects"]
    return float(scores[n_clusters - 1]) if n_clusters <= len(scores) else np.nan


def _held_out(trial: Trial, n_clusters: int) -> np.ndarray:
    """Agreement (adjusted Rand index) of two fits to disjoint halves of the data. Each half of the
    objects is labelled by its own fit and predicted by the other one (by similarities between the
    halves); halves of labelings are halves of the partitions.
    """
    rng = np.random.default_rng(trial.seed)
    values: list[Any] = []
    for _ in range(trial.n_splits):
        models = trial.model(n_clusters, rng), trial.model(n_clusters, rng)
        pairs = trial.evidence.both_labels(models, rng)
        values += [adjusted_rand_index(own, other) for own, other in pairs]
    return np.array(values)


def _information(name: str) -> Callable[[Trial, int], float]:
    def criterion(trial: Trial, n_clusters: int) -> float:
        if not hasattr(trial.estimator, name):
            raise TypeError(
                f"criterion={name!r} needs an estimator with a method {name}, such as "
                "GaussianMixture: use 'held-out'"
            )
        X = trial.features(name)
        measure = getattr(trial.fit(n_clusters), name)
        given = {} if X.weights is None else {"sample_weight": X.weights}
        return -float(measure(X.data, **given))

    criterion.__name__, criterion.__doc__ = name, f"Minus the {name.upper()} of a mixture."
    return criterion


def _silhouette(trial: Trial, n_clusters: int) -> float:
    """Fuzzy silhouette of the fit; NaN for a single cluster."""
    X = trial.features("silhouette")
    if n_clusters < 2:
        return np.nan
    read = memberships_of if hasattr(trial.estimator, "predict_proba") else labels_of
    clustering = read(trial.fit(n_clusters), X.data)
    return float(fuzzy_silhouette(X.data, clustering, sample_weight=X.weights))


def _penalized_eigengap(trial: Trial, n_clusters: int) -> float:
    """Relative eigengap reduced by the misfit; one spectrum serves all candidates."""
    n = trial.evidence.n_objects
    if n_clusters < 2 or n_clusters >= n:
        return np.nan
    if n_clusters not in trial.cache.get("scores", {}):
        largest = max(n_clusters, min(20, n - 1))
        trial.cache["scores"] = number_scores(trial.similarity(), None, largest)
    return trial.cache["scores"].get(n_clusters, np.nan)


def _lifetime(trial: Trial, n_clusters: int) -> float:
    """Length of the interval of thresholds at which average linkage has k clusters."""
    return float(lifetime(_tree(trial.evidence)[:, 2], n_clusters))


def _tree(evidence: Evidence) -> np.ndarray:
    n, data = evidence.n_objects, evidence.data
    reserve((n, n), np.float64, "the distances for the linkage", "use criterion='held-out'")
    if isinstance(evidence, Features):
        return linkage(data.toarray() if sp.issparse(data) else data, "average")
    W: Any = coassociation(data) if isinstance(evidence, Labelings) else data
    W = np.nan_to_num(W if isinstance(W, np.ndarray) else W.toarray())
    # Similarities relative to the largest one; 1e-300 only avoids 0 / 0.
    distances = 1 - (W + W.T) / max(2 * float(W.max()), 1e-300)
    np.fill_diagonal(distances, 0)
    return linkage(squareform(np.clip(distances, 0, None), checks=False), "average")


CRITERIA: dict[str, Callable[[Trial, int], Any]] = {
    "structure": _structure,
    "few-objects": _few_objects,
    "held-out": _held_out,
    "penalized-eigengap": _penalized_eigengap,
    "bic": _information("bic"),
    "aic": _information("aic"),
    "icl": _information("icl"),
    "silhouette": _silhouette,
    "lifetime": _lifetime,
}
