"""Objects with missing values under one Gaussian: its mean and covariance, and what it expects.

With the precision L = S^(-1), h the features that are missing of an object and o the others,

    E[x_h | x_o] = m_h - L_hh^(-1) L_ho (x_o - m_o) ,     Cov[x_h | x_o] = L_hh^(-1)

so that an object costs the cube of what is missing of it, not of the number of features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..array.types import Weights

RIDGE = 1e-8  # added to unit variances: features that are combinations of others have an inverse
MAX_STEPS = 50  # and TOLERANCE, of unit variances: one Gaussian for starts and coordinates
TOLERANCE = 1e-7
# Variance of an open direction, of the unit variance of whitened coordinates, below which it counts
# as known: only where there are more features than coordinates, and then a third of the directions
OPEN = 0.01


class Gaps(NamedTuple):
    """What is not known of coordinates y (n, q): y = E[y] + F't with t standard normal.

    ``pattern`` (n,) is the pattern of holes of every object, -1 for none; ``spreads`` (P, r, q)
    holds F of every pattern, rows of zeros at the end where fewer than r directions are open.
    """

    pattern: np.ndarray
    spreads: np.ndarray

    def take(self, rows: np.ndarray) -> Gaps | None:
        """Some of the objects; None where nothing is missing of these."""
        pattern = self.pattern[rows]
        return Gaps(pattern, self.spreads) if (pattern >= 0).any() else None


class Background(NamedTuple):
    """The Gaussian of all objects: ``unit`` (p,) of the features, covariance (p, p) in units."""

    unit: np.ndarray
    covariance: np.ndarray

    def complete(self, centred: np.ndarray, projection: np.ndarray) -> tuple[np.ndarray, Gaps]:
        """Objects (n, p), less the mean, with their holes (NaN) as expected, and what is open of
        their coordinates, of which ``projection`` (p, q) makes one from unit directions.
        """
        missing = np.isnan(centred)
        inverse, P = _precision(self.covariance), self.unit[:, None] * projection
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
        spreads = np.zeros(
            (len(patterns), min(int(patterns.sum(axis=1).max()), P.shape[1]), P.shape[1])
        )
        scaled = np.where(missing, 0.0, centred / self.unit)
        filled = scaled.copy()
        for rows, holes in _by_number(missing):
            filled[rows[:, None], holes] = _expected(scaled[rows], holes, inverse)[0]
        for rows, holes in _by_number(patterns):
            covariances = np.linalg.inv(inverse[holes[:, :, None], holes[:, None, :]])
            F = np.swapaxes(np.linalg.cholesky(covariances), 1, 2) @ P[holes]
            _, values, directions = np.linalg.svd(F, full_matrices=False)
            # In whitened coordinates nothing is wider than one, but for rounding.
            values = np.where(values**2 > OPEN, np.minimum(values, 1.0), 0.0)
            spreads[rows, : values.shape[1]] = values[:, :, None] * directions
        pattern = np.where(missing.any(axis=1), which.ravel(), -1)
        return filled * self.unit, Gaps(pattern, spreads)


def _precision(covariance: np.ndarray) -> np.ndarray:
    """Inverse (p, p) of a covariance of features with unit variances or none."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors / (np.maximum(values, 0.0) + RIDGE)) @ vectors.T


def _by_number(missing: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows (b,) with equally many missing features, and these (b, h), for every such number."""
    counts = missing.sum(axis=1)
    for number in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == number)
        yield rows, np.nonzero(missing[rows])[1].reshape(len(rows), int(number))


def _expected(
    centred: np.ndarray, holes: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Expected values (b, h) and covariances (b, h, h) of the ``holes`` (b, h) of objects.

    ``centred`` (b, p) has zeros there; ``inverse`` (p, p) is the precision.
    """
    covariances = np.linalg.inv(inverse[holes[:, :, None], holes[:, None, :]])
    pulls = np.take_along_axis(centred @ inverse, holes, axis=1)
    return -(covariances @ pulls[:, :, None])[:, :, 0], covariances


def one_gaussian(X: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (p,), unit (p,) of the features, and covariance (p, p) in these units, of the likeliest
    Gaussian for objects (n, p) with holes (NaN), by expectation and maximisation.

    ``weights`` (n,) are those of the objects. The unit is the spread of what was observed, one
    where there is none.
    """
    missing = np.isnan(X)
    own = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    seen = np.maximum(own @ ~missing, np.finfo(float).tiny)
    origin = own @ np.where(missing, 0.0, X) / seen
    centred = np.where(missing, 0.0, X - origin)
    spread = np.sqrt(own @ centred**2 / seen)
    unit = np.where(spread > 0, spread, 1.0)
    centred /= unit
    mean, covariance = np.zeros(X.shape[1]), np.diag((spread > 0).astype(np.float64))
    groups = list(_by_number(missing))
    for _ in range(MAX_STEPS):
        before = mean, covariance
        mean, covariance = _step(centred, own, groups, mean, _precision(covariance))
        moved = max(np.abs(mean - before[0]).max(), np.abs(covariance - before[1]).max())
        if moved < TOLERANCE:
            break
    return origin + unit * mean, unit, covariance


def _step(
    centred: np.ndarray,
    own: np.ndarray,
    groups: list[tuple[np.ndarray, np.ndarray]],
    mean: np.ndarray,
    inverse: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the objects with their holes as the last Gaussian expects them."""
    filled, extra = centred.copy(), np.zeros(inverse.shape)
    for rows, holes in groups:
        block = centred[rows] - mean
        np.put_along_axis(block, holes, 0.0, axis=1)
        expected, covariances = _expected(block, holes, inverse)
        filled[rows[:, None], holes] = mean[holes] + expected
        where = holes[:, :, None], holes[:, None, :]
        np.add.at(extra, where, own[rows, None, None] * covariances)
    mean = own @ filled / own.sum()
    filled -= mean
    return mean, ((filled.T * own) @ filled + extra) / own.sum()
