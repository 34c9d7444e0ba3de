"""E and M steps without quadratic features, for many dimensions.

In many dimensions the d (d + 1) / 2 quadratic features of an object cost more than they save.

    log N(x | mu, Sigma) = -|L^-1 (x - mu)|^2 / 2 - log det L - d log(2 pi) / 2,      Sigma = L L'

One product per component for E and one for M, both on deviations from the component's mean. Where
all components share their covariance, one product is enough for each: the M step needs only the sum
of their scatter, of which every component is given its share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array.arrays import namespace, to_numpy
from ...array.types import Array
from ...numerics import distances, families
from .kernel import LOG_2PI, State, Stats, cholesky, matrices, restrict

__all__ = ["logits", "memberships", "summarize"]

ROUNDING = 1e-7  # of a squared distance in units of the covariance, for which none need be exact


def logits(X: Any, state: State) -> Any:
    """log pi_j N(x) (k, b) of the rows of ``X`` (b, d), one more row for noise."""
    xp = namespace(X)
    k, d = state.means.shape
    shared = families.has_one_covariance(state.family)
    covariances = matrices(state)[:1] if shared else matrices(state)
    factor = np.linalg.inv(cholesky(covariances, state.floor))
    log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    logs = np.log(np.maximum(state.weights, np.finfo(float).tiny))
    constants = logs[:k] + log_det - 0.5 * d * LOG_2PI
    L = xp.empty((len(logs), X.shape[0]), dtype=X.dtype, device=X.device)
    if shared:
        L[:k, :] = _distances(X @ _like(factor[0].T, X), state.means @ factor[0].T)
    else:
        for j in range(k):
            Y = (X - _like(state.means[j], X)) @ _like(factor[j].T, X)
            L[j, :] = xp.vecdot(Y, Y, axis=1)
    L[:k, :] = _like(constants, X)[:, None] - 0.5 * L[:k, :]
    if state.noise is not None:
        L[k, :] = float(logs[k] + state.noise.sum())
    return L


def _distances(X: Any, centers: np.ndarray) -> Any:
    """Squared distances (k, b) of the rows of ``X`` (b, d) from centers (k, d).

    One product gives them; rows so far from zero that it would round go by their deviations.
    """
    xp = namespace(X)
    C = _like(centers, X)
    own, others = xp.vecdot(X, X, axis=1), xp.vecdot(C, C, axis=1)
    squares = C @ X.T
    squares *= -2.0
    squares += own
    squares += others[:, None]
    far = xp.nonzero(own > ROUNDING / xp.finfo(X.dtype).eps)[0]
    if far.shape[0]:
        rows = X[far, :]
        for j in range(len(centers)):
            Y = rows - C[j, :]
            squares[j, far] = xp.vecdot(Y, Y, axis=1)
    return squares


def _like(array: np.ndarray, X: Any) -> Any:
    return namespace(X).asarray(array, dtype=X.dtype, device=X.device)


def summarize(X: Any, weights: Any, state: State, labels: Array | None = None) -> Stats:
    """Statistics of a block of rows (b, d), the same sums as those of quadratic features."""
    xp = namespace(X)
    R, level = distances.softmax_columns(restrict(logits(X, state), labels))
    if weights is not None:
        R *= _like(weights, X)
        level = level * _like(weights, X)
    of_block = _shared_sums if families.has_one_covariance(state.family) else _own_sums
    return Stats(of_block(X, R, state), float(xp.sum(level, dtype=xp.float64)))


def _own_sums(X: Any, R: Any, state: State) -> np.ndarray:
    """Sums of z(x) with the weighted memberships ``R`` (k, b), noise last."""
    xp = namespace(X)
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
    return sums


def _shared_sums(X: Any, R: Any, state: State) -> np.ndarray:
    """The same, but the scatter of all components divided among them by their mass."""
    xp = namespace(X)
    k, d = state.means.shape
    sums = np.zeros((len(R), distances.width(d, "full")))
    sums[:, 0] = to_numpy(xp.sum(R, axis=1, dtype=xp.float64))
    sums[:k, 1 : d + 1] = to_numpy(R[:k, :] @ X).astype(np.float64)
    mass, first = sums[:k, 0], sums[:k, 1 : d + 1]
    weighted = X * xp.sum(R[:k, :], axis=0)[:, None]
    second = to_numpy(weighted.T @ X).astype(np.float64)
    safe = np.maximum(mass, np.finfo(float).tiny)
    within = distances.pack((second - (first.T / safe) @ first)[None])
    between = distances.pack(first[:, :, None] * (first / safe[:, None])[:, None, :])
    sums[:k, d + 1 :] = between + (mass / safe.sum())[:, None] * within
    return sums


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
