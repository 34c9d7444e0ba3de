"""The published consensus model with the co-association matrix in hand, for a few thousand objects.

    f(U) = sum_{i != j} N_ij loss(c_ij, u_i'u_j)            rows u_i on the simplex

    squared      loss(c, p) = (c - p)^2
    likelihood   loss(c, p) = -(c log p + (1 - c) log(1 - p)) / 2
            f = - log-likelihood of the Bernoulli observations

N_ij = 1 for pairs that were seen together makes the unweighted model, N_ij = the number of
partitions that saw both the likelihood; N_ij = 0, and whatever c_ij, for pairs that no partition
saw together. Object after object: each row is a convex problem.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...array.arrays import native
from ...numerics import simplex

__all__ = ["Pairs", "objective", "place", "sweep"]

NEAR = 1e-12  # probabilities keep this distance from 0 and 1


class Pairs(NamedTuple):
    """Shares ``C`` (n, n) and weights ``N`` (n, n) of all pairs, zero weight on the diagonal.

    ``likelihood`` says which loss.
    """

    C: np.ndarray
    N: np.ndarray
    likelihood: bool


def objective(pairs: Pairs, U: np.ndarray) -> float:
    """f(U)."""
    size = max(1, 2**22 // len(U))
    return sum(
        _loss(pairs, rows, U)
        for rows in (slice(start, start + size) for start in range(0, len(U), size))
    )


def _loss(pairs: Pairs, rows: slice, U: np.ndarray) -> float:
    p, c, weight = U[rows] @ U.T, pairs.C[rows], pairs.N[rows]
    if not pairs.likelihood:
        return float(np.sum(weight * (c - p) ** 2))
    p = np.clip(p, NEAR, 1 - NEAR)
    return -float(np.sum(weight * (c * np.log(p) + (1 - c) * np.log1p(-p)))) / 2


def sweep(pairs: Pairs, U: np.ndarray) -> tuple[np.ndarray, float]:
    """One Gauss-Seidel pass over the objects, and f afterwards. ``U`` stays as it is."""
    U = U.copy()
    row = _row(pairs.likelihood)
    for i in range(len(U)):
        U[i] = row(pairs.C[i], pairs.N[i], U, U[i])
    U = simplex.normalize(np.where(U < simplex.TINY, 0.0, U))
    return U, objective(pairs, U)


def place(
    C: np.ndarray, N: np.ndarray, U: np.ndarray, likelihood: bool, n_rounds: int = 30
) -> np.ndarray:
    """Memberships of new objects with shares ``C`` and weights ``N`` (n_new, n) beside the objects
    of ``U``.
    """
    row = _row(likelihood)
    placed = np.full((len(C), U.shape[1]), 1.0 / U.shape[1])
    for i in range(len(C)):
        for _ in range(n_rounds):
            previous, placed[i] = placed[i].copy(), row(C[i], N[i], U, placed[i])
            if np.abs(placed[i] - previous).max() < 1e-9:
                break
    return simplex.normalize(placed)


def _row(likelihood: bool) -> Any:
    """The new row of one object by the loss asked for; of the likelihood by pair steps, each with a
    line search.
    """
    return native("labels").likely_row if likelihood else _squared_row


def _squared_row(c: np.ndarray, weight: np.ndarray, U: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Pair steps on  sum_j N_j (c_j - u'u_j)^2 / 2,  a quadratic."""
    weighted = U * weight[:, None]
    H = weighted.T @ U
    gradient = H @ u - weighted.T @ c
    return simplex.pair_steps(H, gradient[None], u[None].copy(), max(1, len(u) // 2))[0]
