"""Elliptical distributions of rows some of whose values are missing (NaN).

With o the observed features of a row and P the inverse of Sigma_oo, padded with zeros:

    log N(x_o | mu_o, Sigma_oo),     E[x | x_o] = mu + Sigma P (x - mu),
    Cov[x | x_o] = Sigma - Sigma P Sigma

Rows with the same pattern of missing values share P.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .distances import roots

LOG_2PI = float(np.log(2.0 * np.pi))
PIECE = 512  # rows for which a matrix each is held at one time


class Patterns(NamedTuple):
    """The different patterns of observed features (p, d), and the pattern of every row (b,)."""

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
    """One distribution beside rows with missing values: P (p, d, d), its log-determinants (p,),
    P (x - mu) (b, d) and squared distances (b,) of what was observed.
    """

    mean: np.ndarray
    covariance: np.ndarray
    patterns: Patterns
    P: np.ndarray
    log_det: np.ndarray
    V: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(
        cls, X: np.ndarray, patterns: Patterns, mean: np.ndarray, covariance: np.ndarray
    ) -> Marginal:
        """The distribution with this mean (d,) and covariance (d, d) beside rows (b, d)."""
        P, log_det = patterns.inverses(covariance)
        Y = np.nan_to_num(X - mean)
        pieces = [slice(at, at + PIECE) for at in range(0, len(X), PIECE)] if len(P) > 1 else []
        each = [np.einsum("bij,bj->bi", P[patterns.of_row[at]], Y[at]) for at in pieces]
        V = np.concatenate(each) if pieces else Y @ P[0]
        return cls(mean, covariance, patterns, P, log_det, V, np.sum(Y * V, axis=1))

    @property
    def n_seen(self) -> np.ndarray:
        """Number of observed features of every row (b,)."""
        return self.patterns.n_seen

    @property
    def level(self) -> np.ndarray:
        """log det P (b,) of every row."""
        return self.log_det[self.patterns.of_row]

    def log_density(self) -> np.ndarray:
        """log N (b,) of what was observed of every row."""
        return 0.5 * (self.level - self.n_seen * LOG_2PI - self.distance)

    def expected(self) -> np.ndarray:
        """Expected rows (b, d) given what was seen of them."""
        return self.mean + self.V @ self.covariance

    def moments(
        self, X: np.ndarray, weights: np.ndarray, spread: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected weighted sums of the rows (d,) and of their products (d, d).

        ``spread`` (b,) are the weights of what is not known of a row, if they are others.
        """
        filled = np.where(np.isnan(X), self.expected(), X)
        spread = weights if spread is None else spread
        by_pattern = np.bincount(self.patterns.of_row, weights=spread, minlength=len(self.P))
        known = self.covariance @ np.tensordot(by_pattern, self.P, 1) @ self.covariance
        second = (filled.T * weights) @ filled + by_pattern.sum() * self.covariance - known
        return weights @ filled, (second + second.T) / 2.0


class Independent(NamedTuple):
    """As ``Marginal``, with independent features of these variances (d,).

    A product with the indicator of what was observed does for all patterns of missing values.
    """

    mean: np.ndarray
    variances: np.ndarray
    seen: np.ndarray
    distance: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, mean: np.ndarray, variances: np.ndarray) -> Independent:
        """The distribution beside rows (b, d)."""
        Y = np.nan_to_num(X - mean)
        return cls(mean, variances, ~np.isnan(X), (Y * Y) @ (1.0 / variances))

    @property
    def n_seen(self) -> np.ndarray:
        """Number of observed features of every row (b,)."""
        return self.seen.sum(axis=1)

    @property
    def level(self) -> np.ndarray:
        """Logarithms (b,) of the product of the observed precisions of every row."""
        return -(self.seen @ np.log(self.variances))

    def log_density(self) -> np.ndarray:
        """log N (b,) of what was observed of every row."""
        return 0.5 * (self.level - self.n_seen * LOG_2PI - self.distance)

    def moments(
        self, X: np.ndarray, weights: np.ndarray, spread: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected weighted sums of the rows (d,) and of their squares (d,)."""
        filled = np.where(self.seen, X, self.mean)
        unknown = (weights if spread is None else spread) @ ~self.seen
        return weights @ filled, weights @ (filled * filled) + unknown * self.variances
