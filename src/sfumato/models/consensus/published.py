"""The published consensus models: a loss between what the partitions say and u_i'u_j, by descent.

    f(U) = sum_{i != j} N_ij loss(c_ij, p_ij),   p_ij = u_i'u_j,   rows u_i on the simplex

    squared            (c - p)^2
    likelihood         -(c log p + (1 - c) log(1 - p)) / 2: f is minus the log-likelihood of the
                       Bernoulli observations
    kullback-leibler   c log(c / p) - c + p: counts N c are Poisson with mean N p
    itakura-saito      p / c - log(p / c) - 1, of p from c, which is convex in p; a share c of no
                       pair at all counts as half a pair

N_ij partitions saw both objects, a share c_ij of them together; pairs that no partition saw drop
out. The squared loss goes by sweeps over the table of labels, the other Bregman divergences
(Banerjee et al. 2005) have the co-association matrix in hand, for a few thousand objects. Object
after object: each row is a convex problem, whose steps never raise f.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import xlogy

from ...array.arrays import native
from ...array.warn import EvidenceWarning
from ...engine import acceleration, loop
from ...numerics import label_sweep as sweeps
from ...numerics import label_table as tables
from ...numerics import simplex
from .reading import ByKernel, Settings

PLACED = 4096  # new objects placed at a time
NEAR = 1e-12  # probabilities keep this distance from 0 and 1
N_ROUNDS = 30  # over the row of a new object


class ByObservations:
    """The squared loss over the raw observations, by sweeps over the table."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        sweep = partial(sweeps.sweep, table, offset=sweeps.constant(table))
        self.memberships, self.run = _descend(sweep, _starts(table, k, settings, start), settings)
        self.sums = sweeps.moments(table, self.memberships)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: one quadratic problem each, against the sums."""
        blocks = range(0, len(new.codes), PLACED)
        return np.concatenate(
            [sweeps.place(new.objects(slice(start, start + PLACED)), self.sums) for start in blocks]
        )


class ByDivergence:
    """A Bregman divergence of the shares and the products of rows, with the explicit matrix."""

    def __init__(
        self,
        name: str,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        self.table, self.kind = table, list(DIVERGENCES).index(name)
        C, N = self._shares(table)
        np.fill_diagonal(N, 0.0)
        # Logarithms of 0 are left out of the start.
        begin = [simplex.normalize(U + 0.01) for U in _starts(table, k, settings, start)]
        self.memberships, self.run = _descend(partial(sweep, C, N, name=name), begin, settings)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, each by itself beside the fitted ones."""
        row, k = native("labels").bregman_row, self.memberships.shape[1]
        placed = np.full((len(new.codes), k), 1.0 / k)
        for i, (c, weight) in enumerate(zip(*self._shares(new, self.table), strict=True)):
            for _ in range(N_ROUNDS):
                before = placed[i].copy()
                placed[i] = row(c, weight, self.memberships, before, self.kind)
                if np.abs(placed[i] - before).max() < 1e-9:
                    break
        return simplex.normalize(placed)

    def _shares(
        self, new: tables.Table, other: tables.Table | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Shares of pairs, any number where none was seen, and how many partitions saw each."""
        shares, seen = tables.pair_shares(new, other)
        least = 0.5 / np.maximum(seen, 1.0) if self.kind == 2 else 0.0
        return np.where(np.isfinite(shares), np.maximum(shares, least), 0.5), seen


def _descend(
    sweep: Any, begin: list[np.ndarray], settings: Settings
) -> tuple[np.ndarray, loop.Run]:
    """Memberships and run of the best start, by sweeps with extrapolation."""
    step = acceleration.Extrapolation.accelerate(
        sweep, _extrapolate, lambda mask, one, other: one if mask else other
    )
    runs = [
        loop.iterate(
            step, acceleration.Extrapolation(U), max_iter=settings.max_iter, tol=settings.tol
        )
        for U in begin
    ]
    run = loop.best(runs, larger=False)
    return run.state.settled, run._replace(state=None, objective=float(run.objective))


def _extrapolate(
    current: np.ndarray, previous: np.ndarray, momentum: float | np.ndarray
) -> np.ndarray:
    return simplex.normalize(np.clip(current + momentum * (current - previous), 0.0, None))


def _starts(
    table: tables.Table, k: int, settings: Settings, start: np.ndarray | None
) -> list[np.ndarray]:
    """The given start, or the cluster kernel's solution and random draws."""
    if start is not None:
        return [start]
    rng = np.random.default_rng(settings.random_state)
    n = len(table.codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        first = (
            ByKernel(table, k, settings._replace(tol=1e-4, n_init=1)).memberships
            if k < n
            else simplex.draw(rng, (n, k))
        )
    return [first, *(simplex.draw(rng, (n, k)) for _ in range(settings.n_init - 1))]


# Losses in the order that ``native.labels`` knows them in, each of probabilities within (0, 1).
DIVERGENCES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "coassociation-likelihood": lambda c, p: -(c * np.log(p) + (1 - c) * np.log1p(-p)) / 2,
    "coassociation-kullback-leibler": lambda c, p: xlogy(c, c / p) - c + p,
    "coassociation-itakura-saito": lambda c, p: p / c - np.log(p / c) - 1.0,
}


def objective(C: np.ndarray, N: np.ndarray, U: np.ndarray, name: str) -> float:
    """f(U) by a divergence, by blocks of rows."""
    size, total = max(1, 2**22 // len(U)), 0.0
    for own in (slice(start, start + size) for start in range(0, len(U), size)):
        p = np.clip(U[own] @ U.T, NEAR, 1 - NEAR)
        total += float(np.sum(N[own] * DIVERGENCES[name](C[own], p)))
    return total


def sweep(C: np.ndarray, N: np.ndarray, U: np.ndarray, name: str) -> tuple[np.ndarray, float]:
    """Every row once, newest values first, and f afterwards. ``U`` stays as it is."""
    U, kind = U.copy(), list(DIVERGENCES).index(name)
    for i in range(len(U)):
        U[i] = native("labels").bregman_row(C[i], N[i], U, U[i], kind)
    U = simplex.normalize(np.where(U < simplex.TINY, 0.0, U))
    return U, objective(C, N, U, name)
