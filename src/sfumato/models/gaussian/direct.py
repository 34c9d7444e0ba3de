"""E and M steps without quadratic features, for many dimensions.

In many dimensions the d (d + 1) / 2 quadratic features of an object cost more than they save.

    log N(x | mu, Sigma) = -|L^-1 (x - mu)|^2 / 2 - log det L - d log(2 pi) / 2,      Sigma = L L'

One product per component for E and one for M, both on deviations from the component's mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import namespace, to_numpy
from ...core.types import Array
from ...numerics import distances
from .kernel import LOG_2PI, State, Stats, cholesky, matrices, restrict

__all__ = ["logits", "memberships", "summarize"]


def logits(X: Any, state: State) -> Any:
    """log pi_j N(x) (k, b) of the rows of ``X`` (b, d), one more row for noise."""
    xp = namespace(X)
    k, d = state.means.shape
    factor = np.linalg.inv(cholesky(matrices(state), state.floor))
    log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    constants = np.log(np.maximum(state.weights, np.finfo(float).tiny))
    L = xp.empty((len(constants), X.shape[0]), dtype=X.dtype, device=X.device)
    for j in range(k):
        Y = (X - _like(state.means[j], X)) @ _like(factor[j].T, X)
        L[j, :] = -0.5 * xp.vecdot(Y, Y, axis=1) + float(
            constants[j] + log_det[j] - 0.5 * d * LOG_2PI
        )
    if state.noise is not None:
        L[k, :] = float(constants[k] + state.noise.sum())
    return L


def _like(array: np.ndarray, X: Any) -> Any:
    return namespace(X).asarray(array, dtype=X.dtype, device=X.device)


def summarize(X: Any, weights: Any, state: State, labels: Array | None = None) -> Stats:
    """Statistics of a block of rows (b, d), the same sums as those of quadratic features."""
    xp = namespace(X)
    R, level = distances.softmax_columns(restrict(logits(X, state), labels))
    if weights is not None:
        R *= _like(weights, X)
        level = level * _like(weights, X)
    k, d = state.means.shape
    sums = np.zeros((len(R), distances.width(d, "full")))
    sums[:, 0] = to_numpy(xp.sum(R, axis=1, dtype=xp.float64))
    for j in range(k):
        Y = X - _like(state.means[j], X)
        weighted = Y * R[j, :][:, None]
        first, second = (
            to_numpy(xp.sum(weighted, axis=0, dtype=xp.float64)),
            to_numpy(weighted.T @ Y).astype(np.float64),
        )
        sums[j, 1:] = _about_zero(sums[j, 0], first, second, state.means[j])
    return Stats(sums, float(xp.sum(level, dtype=xp.float64)))


def _about_zero(mass: float, first: np.ndarray, second: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """First and second moments of x out of those of x - mean, as z(x) lists them."""
    cross = np.outer(first, mean)
    return np.concatenate(
        [
            first + mass * mean,
            distances.pack((second + cross + cross.T + mass * np.outer(mean, mean))[None])[0],
        ]
    )


def memberships(X: Any, state: State, labels: Any = None) -> tuple[Any, Any]:
    """Posterior probabilities (b, k), noise last, and log-densities (b,) of the rows of ``X``."""
    R, level = distances.softmax_columns(restrict(logits(X, state), labels))
    return R.T, level
