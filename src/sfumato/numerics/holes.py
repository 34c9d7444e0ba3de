"""Normal distributions of rows some of whose values are missing (NaN).

With o the observed features of a row and P the inverse of Sigma_oo, padded with zeros:

    log N(x_o | mu_o, Sigma_oo),     E[x | x_o] = mu + Sigma P (x - mu),
    Cov[x | x_o] = Sigma - Sigma P Sigma

Rows with the same pattern of holes share P.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .distances import roots

__all__ = ["Marginal", "Patterns"]

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
    """One normal distribution beside rows with holes: P (p, d, d), its log-determinants (p,),
    P (x - mu) (b, d) and squared distances (b,) of what was seen.
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
        V = np.concatenate(
            [
                np.einsum("bij,bj->bi", P[patterns.of_row[at : at + PIECE]], Y[at : at + PIECE])
                for at in range(0, len(X), PIECE)
            ]
        )
        return cls(mean, covariance, patterns, P, log_det, V, np.sum(Y * V, axis=1))

    def log_density(self) -> np.ndarray:
        """log N (b,) of what was seen of every row."""
        level = self.log_det[self.patterns.of_row] - self.patterns.n_seen * LOG_2PI
        return 0.5 * (level - self.distance)

    def expected(self) -> np.ndarray:
        """Expected rows (b, d) given what was seen of them."""
        return self.mean + self.V @ self.covariance

    def moments(self, X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expected weighted sums of the rows (d,) and of their products (d, d)."""
        filled = np.where(np.isnan(X), self.expected(), X)
        by_pattern = np.bincount(self.patterns.of_row, weights=weights, minlength=len(self.P))
        known = self.covariance @ np.tensordot(by_pattern, self.P, 1) @ self.covariance
        second = (filled.T * weights) @ filled + by_pattern.sum() * self.covariance - known
        return weights @ filled, (second + second.T) / 2.0
