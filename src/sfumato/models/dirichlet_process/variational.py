"""Variational fit of a Dirichlet process mixture.

Starts, coordinate ascent, merges, and memberships of new objects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core import loop
from ...core.arrays import namespace, to_numpy
from ...core.base import weight_of
from ...core.rows import Rows
from ...core.types import Array, Weights
from ...numerics import seeding
from . import kernel
from .priors import embedding

__all__ = ["Approximation", "approximate", "best_run"]

SAMPLE = 5_000  # objects among which the centers of a start are sought
SCREEN = 10_000  # objects on which starts compete
PHASE = 10  # steps between two attempts to merge


class Approximation(NamedTuple):
    """A fitted variational posterior that assigns objects to the clusters in use."""

    component: Any
    state: kernel.State
    used: np.ndarray
    log_weight: np.ndarray
    parameters: tuple[np.ndarray, ...]

    def memberships(self, block: Array) -> Any:
        """Posterior predictive memberships (b, used) of a block of objects."""
        chosen = tuple(part[self.used] for part in self.parameters)
        return kernel.assign(self.component, self.log_weight[self.used], chosen, block)[0]

    def log_density(self, block: Array) -> Any:
        """Log posterior predictive density (b,) of a block of objects."""
        return kernel.assign(self.component, self.log_weight, self.parameters, block)[1]


def approximate(
    component: Any, rows: Rows, state: kernel.State
) -> tuple[Approximation, np.ndarray]:
    """What a state says about objects, and the chances of 0, 1, ... clusters in use."""
    log_weight, parameters = kernel.log_weights(state), component.predictive(state.sums)

    def look(block: Array, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        R = to_numpy(kernel.assign(component, log_weight, parameters, block)[0])
        w = np.ones(len(R)) if weights is None else to_numpy(weights)
        first = np.bincount(R.argmax(axis=1), weights=w, minlength=R.shape[1])
        return first, w @ np.log(np.maximum(1.0 - R, 1e-300))

    leading, log_vacancy = rows.sum(look)
    used = np.flatnonzero(leading > 0)
    return Approximation(component, state, used, log_weight, parameters), kernel.occupied(
        log_vacancy
    )


def best_run(
    component: Any,
    rows: Rows,
    n_clusters: int,
    prior: kernel.Concentration,
    seeds: np.ndarray,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """The best of several starts.

    With many objects the starts are compared on a sample, and the best goes on with all objects.
    """
    rng = np.random.default_rng(seeds[0])
    few = rows if rows.shape[0] <= 2 * SCREEN else rows.sample(SCREEN, rng)
    starts = (
        _start(component, few, n_clusters, prior, np.random.default_rng(seed)) for seed in seeds
    )
    run = loop.best(
        [ascend(component, few, state, prior, max_iter, tol) for state in starts], larger=True
    )
    if few is rows:
        return run
    # Statistics of the sample, scaled to the weight of all objects, start the full fit.
    grown = weight_of(rows) / weight_of(few)
    state = kernel.update(
        component, grown * run.state.sums, grown * run.state.counts, run.state.concentration, prior
    )
    return ascend(component, rows, state, prior, max_iter, tol)


def ascend(
    component: Any,
    rows: Rows,
    state: kernel.State,
    prior: kernel.Concentration,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """Coordinate ascent from a state; every few steps, clusters whose union raises the bound are
    merged.
    """

    def step(state: kernel.State) -> tuple[kernel.State, float]:
        stats = rows.sum(lambda block, weights: kernel.summarize(component, state, block, weights))
        return kernel.update(
            component, stats.sums, stats.counts, state.concentration, prior
        ), stats.objective - state.penalty

    history: list[np.ndarray] = []
    n_iter = 0
    while True:
        run = loop.iterate(
            step,
            state,
            max_iter=min(PHASE, max_iter - n_iter),
            tol=tol,
            relative_to=weight_of(rows),
        )
        history.append(run.history)
        n_iter += run.n_iter
        # Coordinate ascent alone cannot join two clusters that share one group.
        pairs = kernel.merges(
            component, run.state, lambda pairs, at=run.state: _losses(component, rows, at, pairs)
        )
        if n_iter >= max_iter or (run.converged and not pairs):
            return run._replace(
                history=np.concatenate(history),
                n_iter=n_iter,
                converged=run.converged and not pairs,
            )
        state = (
            kernel.update(
                component, *kernel.merged(run.state, pairs), run.state.concentration, prior
            )
            if pairs
            else run.state
        )


def _losses(
    component: Any, rows: Rows, state: kernel.State, pairs: list[tuple[int, int]]
) -> np.ndarray:
    def block(X: Array, weights: Weights) -> tuple[np.ndarray]:
        return (
            kernel.pair_losses(
                kernel.responsibilities(component, state, component.features(X))[0], weights, pairs
            ),
        )

    return rows.sum(block)[0]


def _start(
    component: Any,
    rows: Rows,
    n_clusters: int,
    prior: kernel.Concentration,
    rng: np.random.Generator,
) -> kernel.State:
    """Every object to the nearest of k objects far from each other."""
    X, weights, _ = seeding.sorted_sample(
        rows, SAMPLE, rng, features=lambda block: embedding(component, block)
    )
    centers = seeding.kmeans_plus_plus(X, weights, n_clusters, rng)

    def block(X: Array, weights: Weights) -> tuple[Any, Any]:
        labels = seeding.nearest(embedding(component, X), centers)
        R = (labels == np.arange(n_clusters)[:, None]) * (
            1.0 if weights is None else to_numpy(weights)
        )
        Z = component.features(X)
        if isinstance(Z, np.ndarray) and np.isnan(Z).any():
            Z = np.nan_to_num(Z)  # missing values begin at the mean of the data
        R = namespace(Z).asarray(R, dtype=Z.dtype, device=getattr(Z, "device", None))
        return to_numpy(R @ Z.T), to_numpy(R.sum(axis=1))

    sums, counts = rows.sum(block)
    return kernel.update(component, sums, counts, prior, prior)
