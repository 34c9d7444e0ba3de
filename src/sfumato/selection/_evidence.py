"""Features, similarities and labelings as the criteria of selection see them.

Of an estimator only public names are used: ``n_clusters`` (or ``n_components``), ``fit``,
``labels_`` or ``predict``, ``memberships_`` or ``predict_proba``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..array.arrays import reader
from ..array.labels import check_labelings
from ..array.types import ArrayLike, Estimator, Weights
from ..array.validation import check_weights
from ..memberships import one_hot


class Tuning(NamedTuple):
    """Numbers that steer the choice of a number of clusters."""

    max_clusters: int = 20  # numbers tried at first if none are given
    near: float = 0.9  # share of the largest number tried; above it the search goes on
    step: int = 5  # smallest number of further candidates at a time; else a quarter of the largest
    perfect: float = 0.97  # agreement above this is perfect except for objects on borders
    strong: float = 0.8  # level that Tibshirani and Walther (2005) require
    weak: float = 0.5  # agreement below this is more than a shift of borders


TUNING = Tuning()


def with_clusters(estimator: Estimator, n_clusters: int, rng: np.random.Generator | None) -> Any:
    """An unfitted copy with ``n_clusters`` clusters, and a seed drawn from ``rng`` if given."""
    name = "n_clusters" if "n_clusters" in estimator.get_params(deep=False) else "n_components"
    return seeded(clone(estimator).set_params(**{name: n_clusters}), rng)


def seeded(model: Estimator, rng: np.random.Generator | None) -> Any:
    """The model with a seed drawn from ``rng``, if it takes a seed."""
    if rng is not None and "random_state" in model.get_params(deep=False):
        model.set_params(random_state=int(rng.integers(2**31)))
    return model


def memberships_of(model: Estimator, evidence: ArrayLike) -> np.ndarray:
    """Memberships of new objects; one-hot where the model has only labels."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(evidence))
    return one_hot(np.asarray(model.predict(evidence)), getattr(model, "n_clusters", None))


def labels_of(model: Estimator, evidence: ArrayLike) -> np.ndarray:
    """Labels of the fitted objects."""
    return np.asarray(model.labels_ if hasattr(model, "labels_") else model.predict(evidence))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Data from which a number of clusters is chosen; ``n_parts`` units can be drawn from it."""

    data: Any
    weights: Weights = None

    @property
    def n_objects(self) -> int:
        """Number of rows."""
        return self.data.shape[0]

    @property
    def n_parts(self) -> int:
        """Number of objects or partitions that can be drawn."""
        return self.n_objects

    def fit(self, model: Estimator) -> Any:
        """The model, fitted to all the data."""
        given = {} if self.weights is None else {"sample_weight": self.weights}
        return model.fit(self.data, **given)

    def part(self, chosen: np.ndarray) -> Evidence:
        """The data restricted to the chosen objects, or for labelings to the chosen partitions."""
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, data=self.data[chosen], weights=weights)

    def seen_from(self, chosen: np.ndarray, new: Any = slice(None)) -> Any:
        """The objects ``new``, in the form in which a model fitted to ``chosen`` predicts them."""
        return self.data[new]

    def resample(self, rng: np.random.Generator) -> np.ndarray:
        """Indices of a bootstrap draw."""
        return np.sort(rng.integers(self.n_parts, size=self.n_parts))

    def halves(self, models: tuple[Any, Any], rng: np.random.Generator) -> Any:
        """Two disjoint halves, and a model fitted to each."""
        order = rng.permutation(self.n_parts)
        parts = order[: len(order) // 2], order[len(order) // 2 :]
        return parts, [self.part(own).fit(model) for own, model in zip(parts, models, strict=True)]

    def both_labels(
        self, models: tuple[Any, Any], rng: np.random.Generator
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels of each half of the objects, by the model fitted to it and by the other."""
        parts, models = self.halves(models, rng)
        pairs = []
        for own, other in ((0, 1), (1, 0)):
            predicted = np.asarray(models[other].predict(self.seen_from(parts[other], parts[own])))
            pairs.append((labels_of(models[own], self.part(parts[own]).data), predicted))
        return pairs


class Features(Evidence):
    """Features (n, p), with optional weights."""


class Similarity(Evidence):
    """A similarity (n, n) that can be indexed; a half holds only the pairs within it."""

    def part(self, rows: np.ndarray) -> Similarity:
        return Similarity(self.data[rows][:, rows])

    def seen_from(self, rows: np.ndarray, new: Any = slice(None)) -> Any:
        return self.data[new][:, rows]

    def resample(self, rng: np.random.Generator) -> np.ndarray:
        # Copies in a bootstrap draw would be maximally similar; halves of the objects vary as much.
        return np.sort(rng.permutation(self.n_objects)[: (self.n_objects + 1) // 2])


class Labelings(Evidence):
    """Labelings (n, m), -1 where a clustering did not see an object."""

    @property
    def n_parts(self) -> int:
        return self.data.shape[1]

    def part(self, columns: np.ndarray) -> Labelings:
        return Labelings(self.data[:, columns])

    def seen_from(self, columns: np.ndarray, new: Any = slice(None)) -> Any:
        return self.data[new][:, columns]

    def both_labels(
        self, models: tuple[Any, Any], rng: np.random.Generator
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels of all objects, from each of the two models."""
        parts, (one, two) = self.halves(models, rng)
        return [(labels_of(one, self.data[:, parts[0]]), labels_of(two, self.data[:, parts[1]]))]


def check_estimator(estimator: object) -> None:
    """Raise TypeError unless ``estimator`` has scikit-learn's methods."""
    if isinstance(estimator, type) or not (
        hasattr(estimator, "get_params") and hasattr(estimator, "fit")
    ):
        name = estimator.__name__ if isinstance(estimator, type) else repr(estimator)
        raise TypeError(f"estimator must be an estimator such as GaussianMixture(3), got {name}")


def as_evidence(
    estimator: Estimator, data: Any, sample_weight: ArrayLike | None = None
) -> Evidence:
    """The data in the form that the estimator expects: features, unless set to "precomputed"."""
    check_estimator(estimator)
    parameters = estimator.get_params(deep=False)
    if not {"n_clusters", "n_components"} & set(parameters):
        raise TypeError(f"{type(estimator).__name__} has no parameter n_clusters: give a clusterer")
    words = {name: value for name, value in parameters.items() if isinstance(value, str)}
    given = {name for name, value in words.items() if value == "precomputed"}
    if reader(data) is not None:
        raise TypeError(
            "the evidence is a dask array, of which no resamples can be drawn: give a part of it, "
            "e.g. X[:5000].compute()"
        )
    if "ensemble" in given:
        labels = check_labelings(data)
        return Labelings(labels[_copies(sample_weight, labels)])
    if given & {"similarity", "affinity", "metric"}:
        if not (sp.issparse(data) or isinstance(data, np.ndarray)):
            raise TypeError(
                "the similarity must be an array or a sparse array, whose rows can be taken; got "
                f"{type(data).__name__}"
            )
        W = sp.csr_array(data) if sp.issparse(data) else data
        rows = _copies(sample_weight, W)
        return Similarity(W if sample_weight is None else W[rows][:, rows])
    X = sp.csr_array(data) if sp.issparse(data) else getattr(data, "to_numpy", lambda: data)()
    X = X if sp.issparse(X) else np.asarray(X)
    return Features(X, check_weights(sample_weight, X))


def _copies(sample_weight: ArrayLike | None, data: Any) -> Any:
    """Row indices, each repeated as often as its weight says."""
    weights = check_weights(sample_weight, data)
    if weights is None:
        return slice(None)
    if not (weights == np.rint(weights)).all():
        raise ValueError(
            "sample_weight must hold whole numbers where the number of clusters of similarities or "
            f"labelings is chosen, got {weights[weights != np.rint(weights)][0]:g}: objects are "
            "counted as copies there"
        )
    return np.repeat(np.arange(len(weights)), weights.astype(np.int64))
