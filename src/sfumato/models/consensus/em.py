"""Small Gaussian mixtures as members of an ensemble.

Expectation and maximisation, and the posteriors of many mixtures at once.

    E:  r_ij ~ pi_j N(y_i | mu_j, Sigma_j)
            M:  Sigma_j = (W_j + s W / n) / (N_j + s) + a K^(-2/d) I / N_j
            W_j = sum_i r_ij (y_i - mu_j)(y_i - mu_j)' ,   W = sum_j W_j

in whitened coordinates y. The last term keeps a component of few objects from collapsing (after
Fraley and Raftery 2007, who add the same matrix with more weight); s objects are shared by all
components, none in fine mixtures. log pi_j N(y | mu_j, Sigma_j) is
linear in z(y) = (1, y, y_a y_b), so that E and M are one product each, and all mixtures of the
ensemble are one product too.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import asarray_like, is_numpy, namespace
from ...core.optional import compiled_module
from ...core.types import Weights
from ...numerics import distances, seeding

__all__ = [
    "Fitted",
    "Mixtures",
    "climb",
    "expect",
    "fit_mixture",
    "join",
    "log_density",
    "maximize",
    "n_axes",
    "starting_sums",
]

MAX_STEPS = 60  # and TOLERANCE (per object): members need to be different, not to be converged
TOLERANCE = 1e-4
# a above: prior matrix in units of the whitened covariance; chosen on iris, wine and circles
PRIOR = 0.1


class Fitted(NamedTuple):
    """Coefficients (k, q) of one mixture, sums (k, q) of z(y) weighted by its posteriors, and the
    mean log-density of the objects that it was fitted to.
    """

    rows: np.ndarray
    sums: np.ndarray
    value: float


class Mixtures(NamedTuple):
    """Coefficients (K, q) of log pi_j N(y) for the components of all mixtures, and where each
    begins, (m + 1,).
    """

    rows: np.ndarray
    offsets: np.ndarray
    n_axes: int

    def posteriors(self, Y: Any) -> Any:
        """Posterior probabilities (K, n) of all components.

        Those of each mixture sum to one for every row of ``Y`` (n, d).
        """
        columns = np.ascontiguousarray(Y.T) if is_numpy(Y) else Y.T
        logits = asarray_like(self.rows, Y) @ distances.features(columns, "full")
        compiled = compiled_module(__package__, "compiled") if is_numpy(Y) else None
        if compiled is not None:
            compiled.normalize_members(logits, self.offsets)
            return logits
        members = pairwise(self.offsets.tolist())
        parts = [distances.softmax_columns(logits[low:high, :])[0] for low, high in members]
        return namespace(logits).concat(parts)


def join(mixtures: list[np.ndarray], n_axes: int) -> Mixtures:
    """Several mixtures, each as its coefficients (K_b, q), as one record."""
    offsets = np.cumsum([0, *(len(rows) for rows in mixtures)])
    return Mixtures(np.concatenate(mixtures), offsets, n_axes)


def fit_mixture(
    Y: np.ndarray, R: np.ndarray, k: int, rng: np.random.Generator, mass: Weights = None
) -> Fitted:
    """A mixture fitted to ``Y`` (s, d), started by k-means in coordinates ``R``.

    ``mass`` (s,) are weights of the objects.
    """
    Z = distances.features(np.ascontiguousarray(Y.T), "full")
    return climb(Z, starting_sums(Z, R, k, rng, mass, n_steps=5), mass)


def starting_sums(
    Z: np.ndarray, R: np.ndarray, k: int, rng: np.random.Generator, mass: Weights, n_steps: int
) -> np.ndarray:
    """Sums (k, q) of z(y) over the clusters of a short k-means run in coordinates ``R``."""
    weights = np.ones(len(R)) if mass is None else mass
    labels = seeding.kmeans(R, weights, k, rng, n_steps=n_steps)
    share = (labels == np.arange(k)[:, None]) * weights
    return share[share.sum(axis=1) > 0] @ Z.T


def climb(
    Z: np.ndarray,
    sums: np.ndarray,
    mass: Weights,
    *,
    shrinkage: float = 0.0,
    max_steps: int = MAX_STEPS,
    tol: float = TOLERANCE,
) -> Fitted:
    """Expectation and maximisation from sums (k, q) of z(y), ``Z`` (q, s) of all objects."""
    d, before = n_axes(len(Z)), -np.inf
    for _ in range(max_steps):
        rows = maximize(sums, d, shrinkage)
        sums, now = expect(Z, rows, mass)
        if not np.isfinite(now):
            raise ArithmeticError("the likelihood is not finite")
        if now - before < tol:
            break
        before = now
    return Fitted(rows, sums, now)


def n_axes(width: int) -> int:
    """d of z(y), which has (d + 1) (d + 2) / 2 entries."""
    return (math.isqrt(8 * width + 1) - 3) // 2


def log_density(rows: np.ndarray, Y: np.ndarray, mass: Weights) -> float:
    """Mean logarithm of the density of objects ``Y`` (s, d), NaN for none."""
    if len(Y) == 0:
        return math.nan
    Z = distances.features(np.ascontiguousarray(Y.T), "full")
    return float(np.average(distances.softmax_columns(rows @ Z)[1], weights=mass))


def expect(Z: np.ndarray, rows: np.ndarray, mass: Weights) -> tuple[np.ndarray, float]:
    """The E step: sums (k, q) of z(y) weighted by the posterior, and the mean log-density."""
    found = distances.fused_sums(Z, mass, rows, 0)
    if found is not None:
        return found[0], found[1] / (Z.shape[1] if mass is None else float(mass.sum()))
    share, log_density = distances.softmax_columns(rows @ Z)
    share = share if mass is None else share * mass
    return share @ Z.T, float(np.average(log_density, weights=mass))


def maximize(sums: np.ndarray, d: int, shrinkage: float = 0.0) -> np.ndarray:
    """The M step, as coefficients of z(y), from weighted sums (k, q) of z(y).

    ``shrinkage`` is s above.
    """
    compiled = compiled_module(__package__, "compiled")
    step = _maximize if compiled is None else compiled.maximize
    return step(sums, d, PRIOR * len(sums) ** (-2.0 / d), shrinkage)


def _maximize(sums: np.ndarray, d: int, prior: float, shrinkage: float) -> np.ndarray:
    mass, first, second = distances.moments(sums, d, "full")
    safe = np.maximum(mass, 1e-10)
    means = first / safe[:, None]
    scatter = second - safe[:, None, None] * means[:, :, None] * means[:, None, :]
    common = shrinkage * scatter.sum(axis=0) / safe.sum()
    covariances = (scatter + common) / (safe + shrinkage)[:, None, None]
    covariances += (prior / (safe + 1e-3))[:, None, None] * np.eye(d)
    factor = np.linalg.inv(np.linalg.cholesky(covariances))
    precisions = np.swapaxes(factor, 1, 2) @ factor
    rows = -0.5 * distances.coefficients(means, precisions, "full")
    rows[:, 0] += np.log(safe / safe.sum()) - 0.5 * d * np.log(2.0 * np.pi)
    rows[:, 0] += np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    return rows
