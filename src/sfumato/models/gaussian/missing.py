"""The same mixture with missing values: full-information likelihood (Ghahramani and Jordan 1994).

An object counts with the density of what was seen of it, o = its observed features:

    r_ij ~ pi_j N(x_io | mu_jo, Sigma_joo)
    E[x | seen, j] = mu_j + Sigma_j P (x_o - mu_jo),
            Cov[x | seen, j] = Sigma_j - Sigma_j P Sigma_j,
    P = the inverse of Sigma_joo, padded with zeros

Objects with the same pattern of holes share P. Where features are independent within components, P
is the diagonal of the observed 1 / Sigma_j, and a product with the indicator of what was seen does
for all patterns.
"""

from __future__ import annotations

import numpy as np

from ...numerics import distances, families
from .kernel import LOG_2PI, State, Stats, matrices, restrict, update

__all__ = ["complete", "impute", "kind_of_sums", "memberships", "summarize"]


def kind_of_sums(family: str) -> str:
    """Kind of z(x) that ``summarize`` gives sums of."""
    return "full" if families.kind_of(family) == "full" else "diag"


def _patterns(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different patterns of observed features (p, d), and the pattern of every object."""
    return np.unique(~np.isnan(X), axis=0, return_inverse=True)


def _precisions(covariance: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of the observed part (p, d, d), zero elsewhere, and its log-determinant (p,), for
    every pattern.
    """
    both = seen[:, :, None] & seen[:, None, :]
    padded = np.where(both, covariance, np.eye(len(covariance)))
    factor = np.linalg.inv(np.linalg.cholesky(padded))
    log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    return (np.swapaxes(factor, 1, 2) @ factor) * both, log_det


def _pieces(b: int) -> list[slice]:
    """Pieces of a block small enough to hold a matrix for every object."""
    return [slice(start, start + 512) for start in range(0, b, 512)]


def _expect(
    X: np.ndarray, state: State, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, list, np.ndarray]:
    """Posterior probabilities (k, b), log-densities (b,), precisions by component and the pattern
    of every object.
    """
    k = len(state.means)
    seen, pattern = _patterns(X)
    pattern = pattern.ravel()
    L = np.empty((len(state.weights), len(X)))
    constants = np.log(np.maximum(state.weights, np.finfo(float).tiny))
    precisions = []
    for j, covariance in enumerate(matrices(state)):
        P, log_det = _precisions(covariance, seen)
        Y = np.nan_to_num(X - state.means[j])
        V = np.concatenate(
            [np.einsum("bij,bj->bi", P[pattern[at]], Y[at]) for at in _pieces(len(X))]
        )
        L[j] = constants[j] + 0.5 * (
            log_det[pattern] - seen.sum(axis=1)[pattern] * LOG_2PI - np.sum(Y * V, axis=1)
        )
        precisions.append((P, V))
    if state.noise is not None:
        L[k] = constants[k] + (seen @ state.noise)[pattern]
    R, level = distances.softmax_columns(restrict(L, labels))
    return R, level, precisions, pattern


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
    R, level, precisions, pattern = _expect(X, state, labels)
    if weights is not None:
        R, level = R * weights, level * weights
    d = X.shape[1]
    sums = np.zeros((len(R), distances.width(d, "full")))
    sums[:, 0] = R.sum(axis=1)
    for j, covariance in enumerate(matrices(state)):
        P, V = precisions[j]
        filled = np.where(np.isnan(X), state.means[j] + V @ covariance, X)
        by_pattern = np.bincount(pattern, weights=R[j], minlength=len(P))
        spread = (
            by_pattern.sum() * covariance - covariance @ np.tensordot(by_pattern, P, 1) @ covariance
        )
        second = (filled.T * R[j]) @ filled + spread
        sums[j, 1:] = np.concatenate(
            [R[j] @ filled, distances.pack(((second + second.T) / 2.0)[None])[0]]
        )
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
    R, _, precisions, _ = _expect(X, state, None)
    k = len(state.means)
    share = R[:k] / R[:k].sum(axis=0)
    expected = sum(
        share[j][:, None] * (state.means[j] + precisions[j][1] @ c)
        for j, c in enumerate(matrices(state))
    )
    return np.where(np.isnan(X), expected, X)


def complete(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects with missing values filled by their expected values under one Gaussian."""
    d = X.shape[1]
    state = State(np.ones(1), np.zeros((1, d)), np.eye(d)[None], "VVV", 1e-6)
    for _ in range(10):
        stats = summarize(X, weights, state)
        state = update(stats, state, kind="full")
    return impute(X, state)
