"""The sample of features from which Gaussian and Student mixtures start."""

from __future__ import annotations

import numpy as np

from ..array.rows import Rows
from ..engine.search import SCREEN, Objects
from ..engine.starts import Sample
from ..numerics import seeding
from ..numerics.background import Background, one_gaussian
from ..numerics.coordinates import Coordinates

__all__ = ["complete", "feature_sample"]

MOST_COMPLETED = 48  # features up to which missing values are filled by one Gaussian
# Median absolute deviations (scaled as for a normal) beyond which a start leaves objects out.
FAR = 5.0
MOST_FAR = 0.2  # share of the objects that may be far; with more, there is no bulk to be far from


def feature_sample(
    data: Objects, coordinates: Coordinates, *, missing: bool, trimmed: bool = False
) -> Sample:
    """Standardised objects, complete, with k-means in three sorts of coordinates.

    ``trimmed``: every second start leaves out objects far from the bulk, so that outliers do not
    begin as clusters of their own.
    """
    feature = coordinates.unmixed()
    rows = Rows(data.X, data.weights, view=feature.inner)
    X, weights, _ = seeding.sorted_sample(rows, SCREEN, np.random.default_rng(0))
    if missing:
        X = complete(X, weights) if X.shape[1] <= MOST_COMPLETED else np.nan_to_num(X)
    units = X * (coordinates.isotropic().scale / feature.scale)
    bulk = _bulk(X, weights) if trimmed else None
    return Sample(X, weights, (X, seeding.whiten(X, weights), units), nested=X, bulk=bulk)


def _bulk(X: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Which objects are not far from the others in any feature; None where many are far."""
    middle = _medians(X, weights)
    spread = 1.4826 * _medians(np.abs(X - middle), weights)
    near = (np.abs(X - middle) <= FAR * np.where(spread > 0, spread, np.inf)).all(axis=1)
    enough = weights @ near >= (1.0 - MOST_FAR) * weights.sum()
    return near if enough and not near.all() else None


def _medians(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Lower weighted medians (d,): weight w counts as w copies."""
    order = np.argsort(X, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    place = np.argmax(cumulative >= 0.5 * cumulative[-1], axis=0)
    columns = np.arange(X.shape[1])
    return X[order[place, columns], columns]


def complete(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects with missing values filled by their expected values under one Gaussian."""
    mean, unit, covariance = one_gaussian(X, weights)
    return mean + Background(unit, covariance).complete(X - mean, np.eye(X.shape[1]))[0]
