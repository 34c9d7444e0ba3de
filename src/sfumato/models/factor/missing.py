"""The same mixture with missing values: an object counts with the density of what was seen of it.

With o the observed features of row i, and y = x - mu_j there:

    M_ij = I + sum over o of l l' / psi,   p_ij = sum over o of l y / psi        (l a row of L_j)
    y' Sigma_joo^-1 y = sum over o of y^2 / psi - p' M^-1 p
    log det Sigma_joo = sum over o of log psi + log det M
    E[f | x_o, j] = M^-1 p,   Cov[f | x_o, j] = M^-1

Given the factors, features are independent: each one is a regression on (f, 1) over the rows where
it was seen, so missing values need no expectations of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics.distances import columns_or_given
from .kernel import LOG_2PI, State

__all__ = ["Stats", "logits", "summarize", "update"]

LEAST_SEEN = 1e-10  # share of the weight below which a feature of a cluster keeps its parameters


class Stats(NamedTuple):
    """N (k,), and over the rows where a feature was seen sums of y (k, d), y * y (k, d), y f'
    (k, d, q) and (f, 1)(f, 1)' (k, d, q + 1, q + 1), and the log-likelihood.
    """

    mass: np.ndarray
    first: np.ndarray
    squares: np.ndarray
    cross: np.ndarray
    gram: np.ndarray
    objective: float


class _Block(NamedTuple):
    """What was seen (b, d) and values, zero where nothing was."""

    seen: np.ndarray
    filled: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> _Block:
        seen = ~np.isnan(X)
        return cls(seen.astype(np.float64), np.where(seen, X, 0.0))

    def about(self, mean: np.ndarray) -> np.ndarray:
        """Deviations (b, d) from a mean, zero where nothing was seen."""
        return self.filled - self.seen * mean


def _expect(block: _Block, state: State, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log( pi_j N ) (b,), expected factors (b, q) and their covariances (b, q, q)."""
    L, noise = state.loadings[j], state.noise[j]
    d, q = L.shape
    A, Y = L / noise[:, None], block.about(state.means[j])
    outer = (L[:, :, None] * A[:, None, :]).reshape(d, q * q)
    M = np.eye(q) + (block.seen @ outer).reshape(-1, q, q)
    C, P = np.linalg.inv(M), Y @ A
    F = np.einsum("bqr,br->bq", C, P)
    log_det = block.seen @ (np.log(noise) + LOG_2PI) + np.linalg.slogdet(M)[1]
    distance = (Y * Y) @ (1.0 / noise) - np.sum(P * F, axis=1)
    return np.log(state.weights[j]) - 0.5 * (log_det + distance), F, C


def logits(X: np.ndarray, state: State) -> np.ndarray:
    """log( pi_j N(x_i) ) (k, b) of what was seen of rows (b, d)."""
    block = _Block.of(X)
    return np.stack([_expect(block, state, j)[0] for j in range(len(state.weights))])


def summarize(
    X: np.ndarray, weights: np.ndarray | None, state: State, given: np.ndarray | None = None
) -> Stats:
    """Sums over a block of rows (b, d), with memberships (b, k) if they are ``given``."""
    block, d = _Block.of(X), X.shape[1]
    joint, factors, spreads = zip(
        *(_expect(block, state, j) for j in range(len(state.weights))), strict=True
    )
    R, level = columns_or_given(np.stack(joint), given)
    if weights is not None:
        R, level = R * weights, level * weights
    first, squares, cross, gram = [], [], [], []
    for j, r in enumerate(R):
        Y, F = block.about(state.means[j]), factors[j]
        weighted = Y * r[:, None]
        with_one = np.hstack([F, np.ones((len(F), 1))])
        T = with_one[:, :, None] * with_one[:, None, :]
        T[:, :-1, :-1] += spreads[j]
        first.append(weighted.sum(axis=0))
        squares.append(np.einsum("bd,bd->d", weighted, Y))
        cross.append(weighted.T @ F)
        flat = (T * r[:, None, None]).reshape(len(T), -1)
        gram.append((block.seen.T @ flat).reshape(d, *T.shape[1:]))
    return Stats(
        R.sum(axis=1),
        np.stack(first),
        np.stack(squares),
        np.stack(cross),
        np.stack(gram),
        float(level.sum()),
    )


def update(stats: Stats, state: State, floor: float, *, shared: bool) -> State:
    """The next state: every feature is regressed on factors and one over the rows that have it."""
    q = state.loadings.shape[2]
    mass = np.maximum(stats.mass, 1e-300)
    own = stats.gram[:, :, q, q]
    known = own > LEAST_SEEN * mass.sum()
    own = np.where(known, own, 1.0)
    H = np.concatenate([stats.cross, stats.first[:, :, None]], axis=2) / own[:, :, None]
    G = np.where(known[..., None, None], stats.gram / own[:, :, None, None], np.eye(q + 1))
    solution = np.linalg.solve(G, H[..., None])[..., 0]
    noise = stats.squares / own - np.sum(solution * H, axis=2)
    if shared:
        own = np.where(known, own, 0.0)
        total = own.sum(axis=0)
        pooled = np.sum(own * noise, axis=0) / np.where(total > 0, total, 1.0)
        noise = np.broadcast_to(np.where(total > 0, pooled, state.noise[0]), noise.shape)
    else:
        noise = np.where(known, noise, state.noise)
    return State(
        mass / mass.sum(),
        state.means + np.where(known, solution[:, :, q], 0.0),
        np.where(known[..., None], solution[:, :, :q], state.loadings),
        np.maximum(noise, floor),
    )
