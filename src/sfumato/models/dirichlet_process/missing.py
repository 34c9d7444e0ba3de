"""Normal clusters with full covariance where values are missing (NaN in the features z(x)).

Missing values are latent variables, and q(missing | cluster) is normal: an expected log density  C
. z(x) = c - (x - m)' W (x - m) / 2  is integrated over them, which gives the density of what was
seen under N(m, W^-1), and the sums of features are expected ones. Nothing else of the bound
changes. The marginal of a t distribution, the predictive density, is one again.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from ...numerics import distances
from ...numerics.holes import LOG_2PI, Marginal, Patterns

__all__ = ["log_predictive", "logits", "sums"]


def _rows(Z: np.ndarray, d: int) -> np.ndarray:
    """The rows (b, d) whose features these are."""
    return np.ascontiguousarray(Z[1 : d + 1].T)


def _normals(C: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Constants (k,), means (k, d) and precisions (k, d, d) of quadratic forms
    c - (x - m)' W (x - m) / 2, written as coefficients (k, q) of z(x).
    """
    _, linear, W = distances.moments(-C, d, "full")
    W[:, np.arange(d), np.arange(d)] *= 2.0
    means = np.linalg.solve(W, -linear[:, :, None])[:, :, 0]
    return C[:, 0] + 0.5 * np.einsum("kd,kde,ke->k", means, W, means), means, W


def logits(C: np.ndarray, Z: np.ndarray, d: int) -> np.ndarray:
    """C . z(x) (k, b), integrated over what is missing."""
    X = _rows(Z, d)
    patterns, out = Patterns.of(X), np.empty((len(C), len(X)))
    constants, means, W = _normals(C, d)
    constants = constants + 0.5 * (d * LOG_2PI - np.linalg.slogdet(W)[1])
    for j, covariance in enumerate(np.linalg.inv(W)):
        out[j] = constants[j] + Marginal.of(X, patterns, means[j], covariance).log_density()
    return out


def sums(R: np.ndarray, C: np.ndarray, Z: np.ndarray, d: int) -> np.ndarray:
    """Expected sums (k, q) of z(x), weighted by ``R`` (k, b)."""
    X = _rows(Z, d)
    patterns, out = Patterns.of(X), np.empty((len(C), len(Z)))
    _, means, W = _normals(C, d)
    out[:, 0] = R.sum(axis=1)
    for j, covariance in enumerate(np.linalg.inv(W)):
        first, second = Marginal.of(X, patterns, means[j], covariance).moments(X, R[j])
        out[j, 1:] = np.concatenate([first, distances.pack(second[None])[0]])
    return out


def log_predictive(exponent: np.ndarray, C: np.ndarray, Z: np.ndarray, d: int) -> np.ndarray:
    """Log density (k, b) of what was seen, under  (1 + C . z(x))^-exponent  made a density."""
    X = _rows(Z, d)
    patterns, out = Patterns.of(X), np.empty((len(C), len(X)))
    o = patterns.n_seen
    _, means, W = _normals(-0.5 * C, d)
    for j, spread in enumerate(np.linalg.inv(W)):
        part, nu = Marginal.of(X, patterns, means[j], spread), 2.0 * exponent[j] - d
        level = gammaln((nu + o) / 2) - gammaln(nu / 2) - 0.5 * o * np.log(np.pi)
        level += 0.5 * part.log_det[patterns.of_row]
        out[j] = level - 0.5 * (nu + o) * np.log1p(part.distance)
    return out
