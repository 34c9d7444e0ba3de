"""Consensus by further Bregman divergences of co-association and u_i'u_j (Banerjee et al. 2005).

    f(U) = sum_{i != j} N_ij loss(c_ij, p_ij),   p_ij = u_i'u_j,   rows of U on the simplex

    kullback-leibler   loss = c log(c / p) - c + p     counts N c are Poisson with mean N p
    itakura-saito      loss = p / c - log(p / c) - 1   of p from c, which is convex in p; a share c
                                                       of no pair at all counts as half a pair

Both are convex in p, so each row is a convex problem: pair steps with a line search never raise f.
N_ij is the number of partitions that saw both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...numerics import label_table as tables
from ...numerics import simplex
from .published import descend, starts
from .reading import Settings

__all__ = ["DIVERGENCES", "ByDivergence", "Divergence", "sweep"]

LEAST = 1e-12  # probability whose logarithm is taken in the place of that of 0
N_HALVINGS = 40  # of a line search: the step is known to the last digits
N_ROUNDS = 30  # over the row of a new object


class Divergence(NamedTuple):
    """Loss of p for shares c, and its first and second derivative by p."""

    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]
    curvature: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _kullback_leibler(c: np.ndarray, p: np.ndarray) -> np.ndarray:
    return c * (np.log(np.maximum(c, LEAST)) - np.log(p)) - c + p


DIVERGENCES = {
    "coassociation-kullback-leibler": Divergence(
        _kullback_leibler, lambda c, p: 1.0 - c / p, lambda c, p: c / p**2
    ),
    "coassociation-itakura-saito": Divergence(
        lambda c, p: p / c - np.log(p / c) - 1.0,
        lambda c, p: 1.0 / c - 1.0 / p,
        lambda c, p: 1.0 / p**2,
    ),
}


class ByDivergence:
    """The published model with another divergence, and the explicit matrix."""

    def __init__(
        self,
        name: str,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        self.table, self.divergence = table, DIVERGENCES[name]
        C, N = self._shares(table)
        np.fill_diagonal(N, 0.0)
        inner = [simplex.normalize(U + 0.01) for U in starts(table, k, settings, start)]
        self.run = descend(partial(sweep, self.divergence, C, N), inner, settings)
        self.memberships = self.run.state
        self.run = self.run._replace(state=None)

    def _shares(self, new: tables.Table) -> tuple[np.ndarray, np.ndarray]:
        """Shares, positive where the divergence needs that, and the weights of the pairs."""
        shares, seen = tables.pair_shares(new, None if new is self.table else self.table)
        shares = np.where(np.isfinite(shares), shares, 0.5)
        if self.divergence is DIVERGENCES["coassociation-itakura-saito"]:
            shares = np.maximum(shares, 0.5 / np.maximum(seen, 1.0))
        return shares, seen

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, each by itself beside the fitted ones."""
        k = self.memberships.shape[1]
        placed = np.full((len(new.codes), k), 1.0 / k)
        for i, (c, weight) in enumerate(zip(*self._shares(new), strict=True)):
            for _ in range(N_ROUNDS):
                before, placed[i] = (
                    placed[i].copy(),
                    _row(self.divergence, c, weight, self.memberships, placed[i]),
                )
                if np.abs(placed[i] - before).max() < 1e-9:
                    break
        return simplex.normalize(placed)


def sweep(
    divergence: Divergence, C: np.ndarray, N: np.ndarray, U: np.ndarray
) -> tuple[np.ndarray, float]:
    """Every row once, newest values first, and f afterwards. ``U`` stays as it is."""
    U = U.copy()
    for i in range(len(U)):
        U[i] = _row(divergence, C[i], N[i], U, U[i])
    U = simplex.normalize(np.where(U < simplex.TINY, 0.0, U))
    return U, float(np.sum(N * divergence.value(C, np.maximum(U @ U.T, LEAST))))


def _row(
    divergence: Divergence, c: np.ndarray, weight: np.ndarray, U: np.ndarray, u: np.ndarray
) -> np.ndarray:
    """Pair steps of one row, each to the near side of the minimum along its line."""
    u = u.copy()
    for _ in range(max(1, len(u) // 2)):
        p = np.maximum(U @ u, LEAST)
        gradient = (weight * divergence.slope(c, p)) @ U
        to, out = int(np.argmin(gradient)), int(np.argmax(np.where(u > 0, gradient, -np.inf)))
        if gradient[out] <= gradient[to]:
            break
        step = _line_search(divergence, c, weight, p, U[:, to] - U[:, out], u[out])
        u[to] += step
        u[out] = max(0.0, u[out] - step)
    return u


def _line_search(
    divergence: Divergence,
    c: np.ndarray,
    weight: np.ndarray,
    p: np.ndarray,
    d: np.ndarray,
    limit: float,
) -> float:
    """The t in [0, limit] where the loss at p + t d is least: Newton steps within a bracket."""

    def derivatives(t: float) -> tuple[float, float]:
        q = np.maximum(p + t * d, LEAST)
        slope, curvature = divergence.slope(c, q), divergence.curvature(c, q)
        return float(np.sum(weight * slope * d)), float(np.sum(weight * curvature * d * d))

    if derivatives(limit)[0] <= 0:
        return limit
    low, high, t = 0.0, limit, 0.0
    for _ in range(N_HALVINGS):
        slope, curvature = derivatives(t)
        low, high = (t, high) if slope <= 0 else (low, t)
        newton = t - slope / curvature if curvature > 0 else high
        ahead = newton if low < newton < high else (low + high) / 2
        if abs(ahead - t) <= 1e-12 * limit:
            return t
        t = ahead
    return low  # on the near side of the minimum, so that the loss never rises
