"""The published consensus models: a loss between what the partitions say and u_i'u_j, by descent.

    f(U) = sum_{i != j} N_ij loss(c_ij, p_ij),   p_ij = u_i'u_j,   rows u_i on the simplex

    squared            (c - p)^2
    likelihood         -(c log p + (1 - c) log(1 - p)) / 2: f is minus the log-likelihood of the
                       Bernoulli observations

"coassociation" is the squared loss over the raw observations, by sweeps over the table. The others
have the co-association matrix in hand, for a few thousand objects. N_ij = 1 for pairs that were
seen together makes the unweighted model, the number of partitions that saw both the likelihood;
N_ij = 0, and whatever c_ij, for pairs that no partition saw together. Object after object: each row
is a convex problem, whose steps never raise f.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

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


class ByMatrix:
    """One of ``LOSSES`` with the explicit matrix."""

    def __init__(
        self,
        name: str,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        self.table, self.name = table, name
        C, N = self._shares(table, None)
        np.fill_diagonal(N, 0.0)
        begin = _starts(table, k, settings, start)
        if name != "coassociation-unweighted":  # logarithms of 0 are left out of the start
            begin = [simplex.normalize(U + 0.01) for U in begin]
        step = partial(sweep, LOSSES[name], C, N)
        self.memberships, self.run = _descend(step, begin, settings)

    def _shares(
        self, new: tables.Table, other: tables.Table | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Shares, one half where a pair was never seen, and the weights of the pairs."""
        shares, seen = tables.pair_shares(new, other)
        known = np.isfinite(shares)
        shares = np.where(known, shares, 0.5)
        unweighted = self.name == "coassociation-unweighted"
        return shares, known.astype(np.float64) if unweighted else seen

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, each by itself beside the fitted ones."""
        row, k = LOSSES[self.name].row, self.memberships.shape[1]
        placed = np.full((len(new.codes), k), 1.0 / k)
        for i, (c, weight) in enumerate(zip(*self._shares(new, self.table), strict=True)):
            for _ in range(N_ROUNDS):
                before = placed[i].copy()
                placed[i] = row(c, weight, self.memberships, before)
                if np.abs(placed[i] - before).max() < 1e-9:
                    break
        return simplex.normalize(placed)


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


def objective(loss: Any, C: np.ndarray, N: np.ndarray, U: np.ndarray) -> float:
    """f(U), by blocks of rows."""
    size = max(1, 2**22 // len(U))
    blocks = [slice(start, start + size) for start in range(0, len(U), size)]
    return sum(float(np.sum(N[own] * loss.value(C[own], U[own] @ U.T))) for own in blocks)


def sweep(loss: Any, C: np.ndarray, N: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, float]:
    """Every row once, newest values first, and f afterwards. ``U`` stays as it is."""
    U = U.copy()
    for i in range(len(U)):
        U[i] = loss.row(C[i], N[i], U, U[i])
    U = simplex.normalize(np.where(U < simplex.TINY, 0.0, U))
    return U, objective(loss, C, N, U)


class Loss(NamedTuple):
    """Loss of p for shares c, and the next row of one object."""

    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    row: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _squared_row(c: np.ndarray, weight: np.ndarray, U: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Pair steps on  sum_j N_j (c_j - u'u_j)^2 / 2,  a quadratic."""
    weighted = U * weight[:, None]
    H = weighted.T @ U
    gradient = H @ u - weighted.T @ c
    return simplex.pair_steps(H, gradient[None], u[None].copy(), max(1, len(u) // 2))[0]


def _likelihood(c: np.ndarray, p: np.ndarray) -> np.ndarray:
    p = np.clip(p, NEAR, 1 - NEAR)
    return -(c * np.log(p) + (1 - c) * np.log1p(-p)) / 2


LOSSES: dict[str, Any] = {
    "coassociation-unweighted": Loss(lambda c, p: (c - p) ** 2, _squared_row),
    "coassociation-likelihood": Loss(_likelihood, lambda *row: native("labels").likely_row(*row)),
}
