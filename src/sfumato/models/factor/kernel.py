"""Mixture of factor analyzers (Ghahramani and Hinton 1996; McLachlan and Peel 2000).

    maximise  sum_i w_i log sum_j pi_j N(x_i | mu_j, L_j L_j' + Psi_j),   Psi_j diagonal, L_j (d, q)

Nothing d x d is ever formed. With  A_j = Psi_j^-1 L_j,  M_j = I + L_j' A_j  (q x q),  y = x - mu_j:

    y' Sigma_j^-1 y = y' Psi_j^-1 y - p' M_j^-1 p,   p = A_j' y           (Woodbury)
    log det Sigma_j = log det Psi_j + log det M_j
    E[f | x, j] = M_j^-1 p,   Cov[f | x, j] = M_j^-1

Given the memberships, x is a regression on (f, 1): loadings and mean of a cluster are updated
together from the sums of  y, y * y  and  y f',  which add up over rows. A pass costs three products
of the rows with matrices of k (q + 2) columns altogether, and one back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics.distances import columns_or_given

__all__ = [
    "Ready",
    "State",
    "Stats",
    "logits",
    "most_factors",
    "n_parameters",
    "ordered",
    "pack",
    "ready",
    "summarize",
    "unpack",
    "update",
]

LOG_2PI = float(np.log(2.0 * np.pi))


class State(NamedTuple):
    """Weights (k,), means (k, d), loadings (k, d, q), noise variances (k, d)."""

    weights: np.ndarray
    means: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray


class Stats(NamedTuple):
    """N (k,), sums of y (k, d), y * y (k, d) and y f' (k, d, q) about the means of the state they
    were taken at, and its log-likelihood."""

    mass: np.ndarray
    first: np.ndarray
    squares: np.ndarray
    cross: np.ndarray
    objective: float


class Ready(NamedTuple):
    """A state as a pass needs it: A (d, k q), A' mu (k q,), inverses of M (k, q, q), constants."""

    state: State
    A: np.ndarray
    shift: np.ndarray
    inverse: np.ndarray
    constant: np.ndarray


def ready(state: State) -> Ready:
    """What a pass needs of a state."""
    k, d, q = state.loadings.shape
    A = state.loadings / state.noise[:, :, None]
    M = np.eye(q) + np.swapaxes(state.loadings, 1, 2) @ A
    log_det = np.log(state.noise).sum(axis=1) + np.linalg.slogdet(M)[1]
    constant = np.log(state.weights) - 0.5 * (d * LOG_2PI + log_det)
    shift = (state.means[:, None] @ A)[:, 0]
    flat = np.ascontiguousarray(np.moveaxis(A, 0, 1).reshape(d, k * q))
    return Ready(state, flat, shift.ravel(), np.linalg.inv(M), constant)


def _expect(X: np.ndarray, at: Ready) -> tuple[np.ndarray, np.ndarray]:
    """log( pi_j N(x_i) ) (k, b) and expected factors (k, b, q)."""
    k, _, q = at.state.loadings.shape
    precision = 1.0 / at.state.noise
    pull = at.state.means * precision
    P = np.moveaxis((X @ at.A - at.shift).reshape(len(X), k, q), 1, 0)
    F = P @ at.inverse
    distance = precision @ (X * X).T - 2.0 * (pull @ X.T)
    distance += np.sum(at.state.means * pull, axis=1)[:, None] - np.sum(P * F, axis=2)
    return at.constant[:, None] - 0.5 * distance, F


def logits(X: np.ndarray, at: Ready) -> np.ndarray:
    """log( pi_j N(x_i) ) (k, b) of rows (b, d)."""
    return _expect(X, at)[0]


def summarize(
    X: np.ndarray, weights: np.ndarray | None, at: Ready, given: np.ndarray | None = None
) -> Stats:
    """Sums over a block of rows (b, d).

    ``given`` are memberships (b, k) instead of those of the state, whose log-likelihood stays out.
    """
    joint, F = _expect(X, at)
    R, level = columns_or_given(joint, given)
    if weights is not None:
        R, level = R * weights, level * weights
    k, d, q = at.state.loadings.shape
    means, mass = at.state.means, R.sum(axis=1)
    total = R @ X
    squares = R @ (X * X) - 2.0 * means * total + mass[:, None] * means**2
    F = F * R[:, :, None]
    flat = np.moveaxis(F, 0, 1).reshape(len(X), k * q)
    cross = np.moveaxis((X.T @ flat).reshape(d, k, q), 1, 0)
    cross = cross - means[:, :, None] * F.sum(axis=1)[:, None]
    return Stats(mass, total - mass[:, None] * means, squares, cross, float(level.sum()))


def update(stats: Stats, state: State, floor: float, *, shared: bool) -> State:
    """The next state: regression of the rows on the expected factors and one."""
    q = state.loadings.shape[2]
    mass = np.maximum(stats.mass, 1e-300)
    A = state.loadings / state.noise[:, :, None]
    inverse = np.linalg.inv(np.eye(q) + np.swapaxes(state.loadings, 1, 2) @ A)
    B = inverse @ np.swapaxes(A, 1, 2)  # expected factors are B y
    first, cross = stats.first / mass[:, None], stats.cross / mass[:, None, None]
    factors = (B @ first[:, :, None])[:, :, 0]
    G = np.empty((len(mass), q + 1, q + 1))
    G[:, :q, :q] = B @ cross + inverse
    G[:, :q, q] = G[:, q, :q] = factors
    G[:, q, q] = 1.0
    H = np.concatenate([cross, first[:, :, None]], axis=2)
    solution = np.swapaxes(np.linalg.solve(G, np.swapaxes(H, 1, 2)), 1, 2)
    noise = stats.squares / mass[:, None] - np.sum(solution * H, axis=2)
    if shared:
        noise = np.broadcast_to((mass @ noise) / mass.sum(), noise.shape)
    return State(
        mass / mass.sum(),
        state.means + solution[:, :, q],
        np.ascontiguousarray(solution[:, :, :q]),
        np.maximum(noise, floor),
    )


def n_parameters(k: int, d: int, q: int, *, shared: bool) -> int:
    """Number of free parameters that are identified.

    Loadings are known up to a rotation of the factors, and no covariance has more than its
    d (d + 1) / 2 different entries.
    """
    loadings, noise, full = d * q - q * (q - 1) // 2, d, d * (d + 1) // 2
    covariances = k * loadings + noise if shared else k * (loadings + noise)
    return k - 1 + k * d + min(covariances, k * full)


def most_factors(d: int) -> int:
    """The bound of Ledermann (1937): with more factors than this, Sigma = L L' + Psi has as many
    free parameters as a full covariance, or more; at least one.
    """
    return max(1, int((2 * d + 1 - (8 * d + 1) ** 0.5) / 2 + 1e-9))


def ordered(state: State) -> State:
    """The same clusters, the largest first."""
    order = np.argsort(-state.weights, kind="stable")
    return State(*(part[order] for part in state))


def pack(state: State) -> np.ndarray:
    """The state as one vector without constraints."""
    parts = (np.log(state.weights), state.means, state.loadings, np.log(state.noise))
    return np.concatenate([part.ravel() for part in parts])


def unpack(vector: np.ndarray, like: State, floor: float) -> State:
    """The state that ``pack`` would make this vector of, its noise raised to the floor."""
    ends = np.cumsum([part.size for part in like])[:-1]
    parts = np.split(vector, ends)
    weights, means, loadings, noise = (
        part.reshape(shape.shape) for part, shape in zip(parts, like, strict=True)
    )
    weights = np.maximum(np.exp(weights - weights.max()), 1e-300)  # its logarithm is needed
    noise = np.maximum(np.exp(np.clip(noise, -300, 300)), floor)
    return State(weights / weights.sum(), means, loadings, noise)
