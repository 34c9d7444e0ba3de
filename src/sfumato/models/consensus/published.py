"""The published consensus models: squared loss or likelihood of the observed pairs, by descent."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np

from ...array.warn import EvidenceWarning
from ...engine import acceleration, loop
from ...numerics import label_sweep as sweeps
from ...numerics import label_table as tables
from ...numerics import simplex
from . import explicit
from .cluster_kernel import ByKernel
from .reading import Settings

__all__ = ["ByMatrix", "ByObservations", "descend", "starts"]

PLACED = 4096  # new objects placed at a time


class ByObservations:
    """The published model, squared loss over the raw observations, by sweeps over the table."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        self.run = descend(
            partial(sweeps.sweep, table, offset=sweeps.constant(table)),
            starts(table, k, settings, start),
            settings,
        )
        self.memberships = self.run.state
        self.sums = sweeps.moments(table, self.memberships)
        self.run = self.run._replace(state=None)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects.

        One quadratic problem each, against the sums over clusters.
        """
        blocks = range(0, len(new.codes), PLACED)
        return np.concatenate(
            [sweeps.place(new.objects(slice(start, start + PLACED)), self.sums) for start in blocks]
        )


class ByMatrix:
    """The published model with the explicit matrix.

    Every pair counts once, or Bernoulli likelihood of all observations.
    """

    def __init__(
        self,
        name: str,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        self.table, self.likelihood = table, name == "coassociation-likelihood"
        ratios, weights = self._ratios(*tables.pair_shares(table))
        np.fill_diagonal(weights, 0.0)
        pairs = explicit.Pairs(ratios, weights, self.likelihood)
        begin = starts(table, k, settings, start)
        if self.likelihood:
            begin = [simplex.normalize(U + 0.01) for U in begin]
        self.run = descend(partial(explicit.sweep, pairs), begin, settings)
        self.memberships = self.run.state
        self.run = self.run._replace(state=None)

    def _ratios(self, shares: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares with 0 for pairs never seen together, and the weights of the pairs."""
        known = np.isfinite(shares)
        return np.where(known, shares, 0.0), seen if self.likelihood else known.astype(np.float64)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, each by itself beside the fitted ones."""
        ratios, weights = self._ratios(*tables.pair_shares(new, self.table))
        return explicit.place(ratios, weights, self.memberships, self.likelihood)


def descend(sweep: Any, begin: list[np.ndarray], settings: Settings) -> loop.Run:
    """Sweeps with extrapolation from every start; the best run."""
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
    return run._replace(state=run.state.settled, objective=float(run.objective))


def _extrapolate(
    current: np.ndarray, previous: np.ndarray, momentum: float | np.ndarray
) -> np.ndarray:
    return simplex.normalize(np.clip(current + momentum * (current - previous), 0.0, None))


def starts(
    table: tables.Table, k: int, settings: Settings, start: np.ndarray | None
) -> list[np.ndarray]:
    """The given start, or the cluster kernel's solution and random draws."""
    if start is not None:
        return [start]
    rng = np.random.default_rng(settings.random_state)
    n = table.codes.shape[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        first = (
            ByKernel(table, k, settings._replace(tol=1e-4, n_init=1)).memberships
            if k < n
            else simplex.draw(rng, (n, k))
        )
    return [first, *(simplex.draw(rng, (n, k)) for _ in range(settings.n_init - 1))]
