"""E and M steps with missing values: full-information likelihood (Ghahramani and Jordan 1994).

The likelihood of an object is the density of its observed features o:

    r_ij ~ pi_j N(x_io | mu_jo, Sigma_joo),     sums of expected x and x x' (``numerics.holes``)

Where features are independent within components, a product with the indicator of what was seen
does for all patterns of holes.
"""

from __future__ import annotations

import numpy as np

from ...numerics import distances, families
from ...numerics.holes import Marginal, Patterns
from .kernel import LOG_2PI, State, Stats, matrices, restrict, update

__all__ = ["complete", "impute", "kind_of_sums", "memberships", "summarize"]


def kind_of_sums(family: str) -> str:
    """Kind of z(x) that ``summarize`` gives sums of."""
    return "full" if families.kind_of(family) == "full" else "diag"


def _expect(
    X: np.ndarray, state: State, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, list[Marginal]]:
    """Posterior probabilities (k, b), log-densities (b,), and every component beside the rows."""
    k, patterns = len(state.means), Patterns.of(X)
    L = np.empty((len(state.weights), len(X)))
    constants = np.log(np.maximum(state.weights, np.finfo(float).tiny))
    parts = [
        Marginal.of(X, patterns, mean, covariance)
        for mean, covariance in zip(state.means, matrices(state), strict=True)
    ]
    for j, part in enumerate(parts):
        L[j] = constants[j] + part.log_density()
    if state.noise is not None:
        L[k] = constants[k] + (patterns.seen @ state.noise)[patterns.of_row]
    R, level = distances.softmax_columns(restrict(L, labels))
    return R, level, parts


def _variances(state: State) -> np.ndarray:
    """Variances (k, d) of components without correlations."""
    return np.broadcast_to(state.covariances.reshape(len(state.means), -1), state.means.shape)


def _expect_apart(
    X: np.ndarray, state: State, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities (k, b) and log-densities (b,) where features are independent within
    components.
    """
    k, variances = len(state.means), _variances(state)
    seen = ~np.isnan(X)
    L = np.empty((len(state.weights), len(X)))
    constants = np.log(np.maximum(state.weights, np.finfo(float).tiny))
    for j in range(k):
        Y = np.nan_to_num(X - state.means[j])
        L[j] = constants[j] - 0.5 * (
            (Y * Y) @ (1.0 / variances[j]) + seen @ (np.log(variances[j]) + LOG_2PI)
        )
    if state.noise is not None:
        L[k] = constants[k] + seen @ state.noise
    return distances.softmax_columns(restrict(L, labels))


def _summarize_apart(
    X: np.ndarray, weights: np.ndarray | None, state: State, labels: np.ndarray | None
) -> Stats:
    """Holes hold the mean of the component, and have its variance."""
    R, level = _expect_apart(X, state, labels)
    if weights is not None:
        R, level = R * weights, level * weights
    k, d = state.means.shape
    filled = np.nan_to_num(X)
    unseen = R[:k] @ np.isnan(X)
    sums = np.zeros((len(R), distances.width(d, "diag")))
    sums[:, 0] = R.sum(axis=1)
    sums[:k, 1 : d + 1] = R[:k] @ filled + unseen * state.means
    sums[:k, d + 1 :] = R[:k] @ (filled * filled) + unseen * (state.means**2 + _variances(state))
    return Stats(sums, float(level.sum()))


def summarize(
    X: np.ndarray, weights: np.ndarray | None, state: State, labels: np.ndarray | None = None
) -> Stats:
    """Expected statistics of a block of rows (b, d) with NaN for holes.

    Sums of z(x) of the kind that ``kind_of_sums`` says.
    """
    X = X.astype(np.float64, copy=False)
    if kind_of_sums(state.family) == "diag":
        return _summarize_apart(X, weights, state, labels)
    R, level, parts = _expect(X, state, labels)
    if weights is not None:
        R, level = R * weights, level * weights
    d = X.shape[1]
    sums = np.zeros((len(R), distances.width(d, "full")))
    sums[:, 0] = R.sum(axis=1)
    for j, part in enumerate(parts):
        first, second = part.moments(X, R[j])
        sums[j, 1:] = np.concatenate([first, distances.pack(second[None])[0]])
    return Stats(sums, float(level.sum()))


def memberships(
    X: np.ndarray, state: State, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities (b, k), noise last, and log-densities (b,) of rows with NaN for
    holes.
    """
    expect = _expect if kind_of_sums(state.family) == "full" else _expect_apart
    R, level = expect(X.astype(np.float64, copy=False), state, labels)[:2]
    return R.T.astype(X.dtype), level.astype(X.dtype)


def impute(X: np.ndarray, state: State) -> np.ndarray:
    """Rows with holes filled by their expected values under the mixture."""
    R, _, parts = _expect(X, state, None)
    share = R[: len(parts)] / R[: len(parts)].sum(axis=0)
    expected = sum(share[j][:, None] * part.expected() for j, part in enumerate(parts))
    return np.where(np.isnan(X), expected, X)


def complete(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects with missing values filled by their expected values under one Gaussian."""
    d = X.shape[1]
    state = State(np.ones(1), np.zeros((1, d)), np.eye(d)[None], "VVV", 1e-6)
    for _ in range(10):
        stats = summarize(X, weights, state)
        state = update(stats, state, kind="full")
    return impute(X, state)
