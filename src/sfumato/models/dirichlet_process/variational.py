"""Variational fit of a Dirichlet process mixture.

Starts, coordinate ascent, merges, and memberships of new objects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...array.arrays import to_numpy
from ...array.rows import Rows, has_holes
from ...array.types import Array, Weights
from ...engine import loop
from ...engine.base import weight_of
from . import kernel
from .starts import is_clear, starts, unmerged

__all__ = ["Approximation", "approximate", "best_run"]

SCREEN = 10_000  # objects on which starts compete
PHASE = 10  # steps between two attempts to merge
SHORT = 3  # steps after which starts are compared, and the best goes on


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
    """The best of several starts, which are compared after a few steps.

    Merged groups find clear clusters as well as other starts do, but may miss clusters that
    overlap: without clear clusters, starts that merge nothing are tried as well. With many objects
    the starts are compared on a sample, and the best goes on with all objects.
    """
    rng = np.random.default_rng(seeds[0])
    few = rows if rows.shape[0] <= 2 * SCREEN else rows.sample(SCREEN, rng)
    run = _race(
        component, few, starts(component, few, n_clusters, prior, seeds), prior, max_iter, tol
    )
    if not (has_holes(few) or is_clear(component, few, run.state)):
        others = unmerged(component, few, n_clusters, prior, seeds)
        more = [ascend(component, few, state, prior, max_iter, tol) for state in others]
        run = loop.best([run, *more], larger=True)
    if few is rows:
        return run
    # Statistics of the sample, scaled to the weight of all objects, start the full fit.
    grown = weight_of(rows) / weight_of(few)
    state = kernel.update(
        component, grown * run.state.sums, grown * run.state.counts, run.state.concentration, prior
    )
    return ascend(component, rows, state, prior, max_iter, tol)


def _race(
    component: Any,
    rows: Rows,
    states: list[kernel.State],
    prior: kernel.Concentration,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """The run from the state that leads after a few steps."""
    if len(states) == 1:
        return ascend(component, rows, states[0], prior, max_iter, tol)
    few = min(SHORT, max_iter)
    first = loop.best(
        [_steps(component, rows, state, prior, few, tol) for state in states], larger=True
    )
    if few == max_iter:
        return first
    run = ascend(component, rows, first.state, prior, max_iter - few, tol)
    return run._replace(
        history=np.concatenate([first.history, run.history]), n_iter=first.n_iter + run.n_iter
    )


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
    history: list[np.ndarray] = []
    n_iter = 0
    while True:
        run = _steps(component, rows, state, prior, min(PHASE, max_iter - n_iter), tol)
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


def _steps(
    component: Any,
    rows: Rows,
    state: kernel.State,
    prior: kernel.Concentration,
    max_iter: int,
    tol: float,
) -> loop.Run:
    """Coordinate ascent without merges."""

    def step(state: kernel.State) -> tuple[kernel.State, float]:
        stats = rows.sum(lambda block, weights: kernel.summarize(component, state, block, weights))
        return kernel.update(
            component, stats.sums, stats.counts, state.concentration, prior
        ), stats.objective - state.penalty

    return loop.iterate(step, state, max_iter=max_iter, tol=tol, relative_to=weight_of(rows))


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
