"""Which start of a Gaussian mixture wins: many drafts, a few runs to the end, and attempts to leave the optimum they found.

Drafts of a few plain steps from different kinds of starts are cheap and say which of them are worth a whole run (Biernacki, Celeux and
Govaert 2003). The winner then tries to do without one component and to cut another in two.

Where objects are fewer than two for each free parameter, the highest likelihoods belong to components that found a direction in which
a handful of objects happen to be thin. Only k-means starts compete then, and nobody searches further.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import loop
from ...core.rows import Rows
from . import moves

__all__ = ["contest"]

KINDS = ("whitened", "standardized", "units", "objects")  # of drafts after the first, in turn
FEW = 2000  # objects that make steps so cheap that drafts are not counted
DRAFTS, SHORT = (
    3,
    20,
)  # drafts for each start that was asked for, where objects are few; steps of a draft
FINALISTS = 5  # drafts that go to the end, besides the first
ROUNDS, TRIED = 5, 6  # of moves; moves of a round that go to the end
INDIFFERENT, EVEN = (
    0.35,
    0.75,
)  # difference of log-likelihoods that says nothing; share of an equal part that makes parts even


def contest(model: Any, rows: Rows, seeds: np.ndarray, total: float) -> loop.Run:
    """The best run; one that ends in a collapsed component only if there is no other."""
    few, poor = rows.shape[0] <= FEW, model._poor(rows, total)
    if model.n_clusters == 1 or model.means_init is not None or model.n_init == 1:
        how = "features" if poor else "agglomerate"
        return model._run(rows, model._start(rows, np.random.default_rng(seeds[0]), how), total)
    step = model._step(rows)
    first, *others = [
        _draft(step, state) for state in _starts(model, rows, seeds, DRAFTS if few else 1, poor)
    ]
    others.sort(key=lambda draft: -draft[1])
    finalists = [first, *_different(others)[:FINALISTS]]
    runs = [model._run(rows, state, total) for state, _ in finalists]
    sound = [run for run in runs if not model._collapsed(run.state, rows, total).any()]
    best = max(sound or runs, key=lambda run: float(run.objective))
    if poor or not sound:
        return best
    if model._movable:
        best = _improve(model, rows, total, best, step)
    even = (
        any(run is runs[0] for run in sound)
        and runs[0].state.weights[: model.n_clusters].min() * model.n_clusters >= EVEN
    )
    return runs[0] if even and runs[0].objective >= best.objective - INDIFFERENT else best


def _starts(model: Any, rows: Rows, seeds: np.ndarray, drafts: int, poor: bool) -> list[Any]:
    """States: the agglomeration, then ``drafts`` of each seed; where data are poor k-means on the features, once a seed."""
    if poor:
        return [model._start(rows, np.random.default_rng(seed), "features") for seed in seeds]
    rngs = [rng for seed in seeds for rng in np.random.default_rng(seed).spawn(drafts)]
    kinds = ["agglomerate", *(KINDS[i % len(KINDS)] for i in range(len(rngs) - 1))]
    return [model._start(rows, rng, how) for rng, how in zip(rngs, kinds, strict=True)]


def _draft(step: loop.Step, state: Any) -> tuple[Any, float]:
    value = -np.inf
    for _ in range(SHORT):
        state, value = step(state)
    return state, float(value)


def _different(drafts: list[tuple[Any, float]]) -> list[tuple[Any, float]]:
    """Drafts without those whose likelihood one before them has too, to a millionth."""
    return [d for i, d in enumerate(drafts) if i == 0 or drafts[i - 1][1] - d[1] > 1e-6 * abs(d[1])]


def _improve(model: Any, rows: Rows, total: float, best: loop.Run, step: loop.Step) -> loop.Run:
    """Moves, as long as one of them ends higher."""
    X, weights = model._look(rows, np.random.default_rng(0))[:2]
    for _ in range(ROUNDS):
        drafts = [_draft(step, state) for state in moves.swaps(X, weights, best.state)]
        drafts.sort(key=lambda draft: -draft[1])
        runs = [model._run(rows, state, total) for state, _ in _different(drafts)[:TRIED]]
        higher = [run for run in runs if run.objective > best.objective + 1e-6 * total]
        higher = [run for run in higher if not model._collapsed(run.state, rows, total).any()]
        if not higher:
            break
        best = max(higher, key=lambda run: float(run.objective))
    return best
