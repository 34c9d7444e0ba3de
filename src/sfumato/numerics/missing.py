"""Elliptical distributions of rows with missing values (NaN).

With o the observed features of a row and P the inverse of Sigma_oo, padded with zeros (the same for
rows with the same pattern of missing values):

    log N(x_o | mu_o, Sigma_oo),     E[x | x_o] = mu + Sigma P (x - mu),
    Cov[x | x_o] = Sigma - Sigma P Sigma

Under one Gaussian of all rows, with precision L = S^(-1) and missing features h,

    E[x_h | x_o] = m_h - L_hh^(-1) L_ho (x_o - m_o) ,     Cov[x_h | x_o] = L_hh^(-1)

so a row costs the cube of its number of missing values, not of the number of features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..array.types import Weights
from .distances import roots

# Variance in whitened coordinates below which an unknown direction counts as known.
SMALLEST_VARIANCE = 0.01
PIECE = 512  # rows whose matrices are held at a time


class Patterns(NamedTuple):
    """The distinct patterns of observed features (p, d), and the pattern of every row (b,)."""

    seen: np.ndarray
    of_row: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> Patterns:
        """Patterns of rows (b, d)."""
        seen, of_row = np.unique(~np.isnan(X), axis=0, return_inverse=True)
        return cls(seen, of_row.ravel())

    @property
    def n_seen(self) -> np.ndarray:
        """Number of observed features of every row (b,)."""
        return self.seen.sum(axis=1)[self.of_row]

    def inverses(self, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P (p, d, d) of every pattern, and its log-determinant (p,) on the observed part."""
        both = self.seen[:, :, None] & self.seen[:, None, :]
        padded = np.where(both, covariance, np.eye(len(covariance)))
        factor = np.linalg.inv(roots(padded))
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        return (np.swapaxes(factor, 1, 2) @ factor) * both, log_det


class Marginal(NamedTuple):
    """A normal distribution evaluated at rows (b, d) with missing values.

    ``P`` (p, d, d) are the precisions of the patterns, ``V`` (b, d) is P (x - mu), ``level`` log
    det P and ``distance`` the squared distance of the observed values to the mean.
    """

    mean: np.ndarray
    covariance: np.ndarray
    patterns: Patterns
    P: np.ndarray
    V: np.ndarray
    n_seen: np.ndarray
    level: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(
        cls, X: np.ndarray, patterns: Patterns, mean: np.ndarray, covariance: np.ndarray
    ) -> Marginal:
        """The distribution with this mean (d,) and covariance (d, d), evaluated at rows (b, d)."""
        P, log_det = patterns.inverses(covariance)
        Y = np.nan_to_num(X - mean)
        pieces = [slice(at, at + PIECE) for at in range(0, len(X), PIECE)] if len(P) > 1 else []
        each = [np.einsum("bij,bj->bi", P[patterns.of_row[at]], Y[at]) for at in pieces]
        V = np.concatenate(each) if pieces else Y @ P[0]
        known = patterns.n_seen, log_det[patterns.of_row], np.sum(Y * V, axis=1)
        return cls(mean, covariance, patterns, P, V, *known)

    def log_density(self) -> np.ndarray:
        """Log density (b,) of the observed values of every row."""
        return 0.5 * (self.level - self.n_seen * np.log(2.0 * np.pi) - self.distance)

    def expected(self) -> np.ndarray:
        """Expected rows (b, d), given their observed values."""
        return self.mean + self.V @ self.covariance

    def moments(
        self, X: np.ndarray, weights: np.ndarray, spread: Weights = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected sums of rows (d,) and products (d, d); ``spread`` weights the missing part."""
        filled = np.where(np.isnan(X), self.expected(), X)
        spread = weights if spread is None else spread
        by_pattern = np.bincount(self.patterns.of_row, weights=spread, minlength=len(self.P))
        known = self.covariance @ np.tensordot(by_pattern, self.P, 1) @ self.covariance
        second = (filled.T * weights) @ filled + by_pattern.sum() * self.covariance - known
        return weights @ filled, (second + second.T) / 2.0


class Independent(NamedTuple):
    """The same as ``Marginal``, for independent features with these variances (d,)."""

    mean: np.ndarray
    variances: np.ndarray
    seen: np.ndarray
    n_seen: np.ndarray
    level: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, mean: np.ndarray, variances: np.ndarray) -> Independent:
        """The distribution, evaluated at rows (b, d)."""
        Y, seen = np.nan_to_num(X - mean), ~np.isnan(X)
        known = seen.sum(axis=1), -(seen @ np.log(variances)), (Y * Y) @ (1.0 / variances)
        return cls(mean, variances, seen, *known)

    def log_density(self) -> np.ndarray:
        """Log density (b,) of the observed values of every row."""
        return 0.5 * (self.level - self.n_seen * np.log(2.0 * np.pi) - self.distance)

    def moments(
        self, X: np.ndarray, weights: np.ndarray, spread: Weights = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected weighted sums of the rows (d,) and of their squares (d,)."""
        filled = np.where(self.seen, X, self.mean)
        unknown = (weights if spread is None else spread) @ ~self.seen
        return weights @ filled, weights @ (filled * filled) + unknown * self.variances


class Missing(NamedTuple):
    """The unknown part of coordinates, y = E[y] + F't with a standard normal t: the ``pattern``
    (n,) of objects, -1 for complete ones, and F (P, r, q) of each pattern.
    """

    pattern: np.ndarray
    spreads: np.ndarray

    def take(self, rows: np.ndarray) -> Missing | None:
        """The selected objects; None if nothing is missing from them."""
        pattern = self.pattern[rows]
        return Missing(pattern, self.spreads) if (pattern >= 0).any() else None


class Background(NamedTuple):
    """The Gaussian of all objects: ``unit`` (p,) of features, and covariance (p, p) in units."""

    unit: np.ndarray
    covariance: np.ndarray

    def complete(self, centred: np.ndarray, projection: np.ndarray) -> tuple[np.ndarray, Missing]:
        """Centred objects (n, p) with expectations for missing values (NaN), and the unknown part
        of their coordinates under ``projection`` (p, q).
        """
        missing = np.isnan(centred)
        inverse, P = _precision(self.covariance), self.unit[:, None] * projection
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
        most = min(int(patterns.sum(axis=1).max()), P.shape[1])
        spreads = np.zeros((len(patterns), most, P.shape[1]))
        scaled = np.where(missing, 0.0, centred / self.unit)
        filled = scaled.copy()
        for rows, hidden in _by_number(missing):
            filled[rows[:, None], hidden] = _expected(scaled[rows], hidden, inverse)[0]
        for rows, hidden in _by_number(patterns):
            covariances = np.linalg.inv(inverse[hidden[:, :, None], hidden[:, None, :]])
            F = np.swapaxes(np.linalg.cholesky(covariances), 1, 2) @ P[hidden]
            _, values, directions = np.linalg.svd(F, full_matrices=False)
            # In whitened coordinates nothing is wider than one, up to rounding.
            values = np.where(values**2 > SMALLEST_VARIANCE, np.minimum(values, 1.0), 0.0)
            spreads[rows, : values.shape[1]] = values[:, :, None] * directions
        pattern = np.where(missing.any(axis=1), which.ravel(), -1)
        return filled * self.unit, Missing(pattern, spreads)


def _precision(covariance: np.ndarray) -> np.ndarray:
    """Inverse (p, p) of a covariance of features whose variances are one or zero."""
    values, vectors = np.linalg.eigh(covariance)
    # A ridge, since features that are combinations of others have no inverse.
    return (vectors / (np.maximum(values, 0.0) + 1e-8)) @ vectors.T


def _by_number(missing: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For every number h of missing features, the rows (b,) with so many, and which (b, h)."""
    counts = missing.sum(axis=1)
    for number in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == number)
        yield rows, np.nonzero(missing[rows])[1].reshape(len(rows), int(number))


def _expected(
    centred: np.ndarray, hidden: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Expected values (b, h) and covariances (b, h, h) of ``hidden`` (b, h), zero here."""
    covariances = np.linalg.inv(inverse[hidden[:, :, None], hidden[:, None, :]])
    pulls = np.take_along_axis(centred @ inverse, hidden, axis=1)
    return -(covariances @ pulls[:, :, None])[:, :, 0], covariances


def one_gaussian(X: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (p,), units (p,) and covariance (p, p) in these units of the maximum-likelihood Gaussian
    for objects (n, p) with missing values, by EM.
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
    for _ in range(50):
        before = mean, covariance
        mean, covariance = _step(centred, own, groups, mean, _precision(covariance))
        moved = max(np.abs(mean - before[0]).max(), np.abs(covariance - before[1]).max())
        if moved < 1e-7:
            break
    return origin + unit * mean, unit, covariance


def _step(
    centred: np.ndarray,
    own: np.ndarray,
    groups: list[tuple[np.ndarray, np.ndarray]],
    mean: np.ndarray,
    inverse: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the objects, with missing values as expected by the last Gaussian."""
    filled, extra = centred.copy(), np.zeros(inverse.shape)
    for rows, hidden in groups:
        block = centred[rows] - mean
        np.put_along_axis(block, hidden, 0.0, axis=1)
        expected, covariances = _expected(block, hidden, inverse)
        filled[rows[:, None], hidden] = mean[hidden] + expected
        where = hidden[:, :, None], hidden[:, None, :]
        np.add.at(extra, where, own[rows, None, None] * covariances)
    mean = own @ filled / own.sum()
    filled -= mean
    return mean, ((filled.T * own) @ filled + extra) / own.sum()
