"""First states of Gaussian mixtures, and the best run from several of them.

A partition of a sample (agglomeration or k-means, see ``numerics.seeding``) becomes a state by one
M step whose scatter is shrunk towards the pooled scatter as if by d + 1 more objects, so that no
component starts as a spike. All starts make a few EM steps together; the most promising ones go on
to convergence until three of them agree (Biernacki, Celeux and Govaert 2003). The best one then
tries to do without one component and to cut another in two (``moves``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...core import loop
from ...numerics import distances, families, seeding
from . import kernel, moves
from .hierarchy import hierarchy
from .kernel import State
from .likelihood import Likelihood

__all__ = ["Limits", "Sample", "best_run", "clear_partition", "collapsed", "from_memberships"]
__all__ += ["match", "merit", "moved_run", "partitions", "small"]

KINDS = ("whitened", "standardized", "units", "objects")  # of starts after the first, in turn
SAME = 1e-5  # log-likelihoods for each object that differ by less count as one optimum
ROUNDS = 3  # of moves
CERTIFIED_OBJECTS = 500  # above which agreeing runs end the search
AGREEING = 3  # runs from different starts that certify an optimum
CLEAR_MOVES = 4  # of a partition that is not clear yet
LLOYD_STEPS = 5  # after each of them
PROBES = 3  # starts beside the first one that are tried before all others
PROBE_STEPS = 5  # that these make before they go on


class Limits(NamedTuple):
    """How long to search: steps that all starts make, runs to convergence, and their length."""

    max_iter: int
    tol: float
    n_short: int = 15
    finalists: int = 4


class Sample(NamedTuple):
    """Objects (n, d) that starts look at, standardised and sorted, with weights and known labels.

    ``units`` (d,) are the factors that give all features the same units again.
    """

    X: np.ndarray
    weights: np.ndarray
    labels: np.ndarray | None
    units: np.ndarray


def partitions(
    sample: Sample, sizes: Sequence[int], n_starts: int, rng: np.random.Generator, nested: bool
) -> dict[int, np.ndarray]:
    """Labels (n_starts, n) of so many groups for every size.

    Where ``nested``, the first partitions of all sizes come from one hierarchy and the others from
    k-means in different coordinates; otherwise all come from k-means on standardised features.
    """
    X, weights, index = seeding.distinct(sample.X, sample.weights)
    possible = sorted({min(k, len(X)) for k in sizes})
    tree = hierarchy(X, weights, possible, rng) if nested and possible[-1] > 1 else {}
    spaces = {
        "whitened": seeding.whiten(X, weights),
        "standardized": seeding.standardize(X, weights),
        "units": X * sample.units,
    }
    found = {}
    for size in sizes:
        k = min(size, len(X))
        kinds = KINDS if nested else ("standardized",)
        groups = [tree[k]] if k in tree else []
        if k == 1:
            groups = [np.zeros(len(X), dtype=np.int64)]
        elif n_starts > len(groups):
            rngs = rng.spawn(n_starts - len(groups))
            groups += [
                _groups(spaces, weights, k, kinds[i % len(kinds)], r) for i, r in enumerate(rngs)
            ]
        found[size] = np.stack(groups)[:, index]
    return found


def clear_partition(sample: Sample, k: int, rng: np.random.Generator) -> np.ndarray | None:
    """Labels (n,) of ``k`` clusters so clear that no other partition need be tried, or None."""
    X, weights = sample.X, sample.weights
    if k < 2 or len(X) < 2 * k * (X.shape[1] + 1):
        return None
    white = seeding.whiten(X, weights)
    if white.shape[1] < X.shape[1]:
        return None
    counts = weights / seeding.unit(weights)
    for space in (seeding.standardize(X, weights), white):
        labels = seeding.kmeans(space, weights, k, rng)
        for _ in range(CLEAR_MOVES):
            trial = moves.best_move(white, counts, labels, k)
            if trial.clear:
                return labels
            if not 0.0 < trial.gain < np.inf:
                break
            centers = [np.average(space[trial.labels == j], axis=0) for j in range(k)]
            labels = seeding.lloyd(space, weights, np.stack(centers), LLOYD_STEPS)
    return None


def _groups(
    spaces: dict[str, np.ndarray],
    weights: np.ndarray,
    k: int,
    kind: str,
    rng: np.random.Generator,
) -> np.ndarray:
    """One partition (n,): by k-means, or by the nearest of ``k`` objects."""
    if kind != "objects":
        return seeding.kmeans(spaces[kind], weights, k, rng)
    X = spaces["whitened"]
    return seeding.nearest(
        X, X[rng.choice(len(X), size=k, replace=False, p=weights / weights.sum())]
    )


def match(groups: np.ndarray, labels: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Groups renumbered to agree best with the known labels (-1: unknown), which take their
    place.
    """
    known = labels >= 0
    table = np.zeros((k, k))
    np.add.at(table, (groups[known], labels[known]), weights[known])
    order = np.empty(k, dtype=np.int64)
    rows, columns = linear_sum_assignment(-table)
    order[rows] = columns
    return np.where(known, labels, order[groups])


def from_memberships(
    X: np.ndarray, R: np.ndarray, blank: State, unit: float, shrink: bool = True
) -> State:
    """States whose components are weighted groups ``R`` (..., k, n) of inner objects ``X`` (n, d).

    ``unit`` is the weight of one object; ``shrink`` says whether small groups lean on the others.
    """
    k, d = blank.means.shape
    kind = families.kind_of(blank.family)
    sums = R @ distances.features(X.T, kind).T
    several = sums.shape[:-2]
    mass, first, second = distances.moments(sums.reshape(-1, sums.shape[-1]), d, kind)
    mass = np.maximum(mass.reshape(*several, k), 1e-6 * unit)
    means = first.reshape(*several, k, d) / mass[..., None]
    second = second.reshape(*several, k, *second.shape[1:])
    scatter = kernel.about(second, first.reshape(means.shape), mass, means, kind)
    share = kernel.spread(mass / mass.sum(axis=-1, keepdims=True), scatter)
    pooled = np.sum(share * scatter, axis=len(several), keepdims=True)
    more = unit * (d + 1 if kind == "full" else 2) if shrink else 0.0
    part = kernel.spread(mass / (mass + more), scatter)
    scatter = (part * scatter + (1.0 - part) * pooled) * kernel.spread(mass, scatter)
    # The mean scatter stands for a previous solution: EM refines iterative families anyway.
    before = scatter / kernel.spread(mass, scatter)
    covariances = families.covariances(blank.family, scatter, mass, before, blank.floor, 1)
    weights = mass / mass.sum(axis=-1, keepdims=True)
    if blank.noise is not None:
        noise = np.broadcast_to(blank.weights[k:], (*several, 1))
        weights = np.concatenate([weights * (1.0 - noise), noise], axis=-1)
    return blank._replace(weights=weights, means=means, covariances=covariances)


def best_run(
    likelihood: Likelihood,
    states: Sequence[State],
    limits: Limits,
    incumbent: loop.Run | None = None,
) -> tuple[loop.Run, bool]:
    """The best run from several states, and whether another one found the same optimum.

    The first state goes to convergence whatever short runs say, unless there is an ``incumbent``
    already. Runs whose components are all large enough are preferred; a spike is taken only if all
    have one.
    """
    runs = [likelihood.run(states[0], limits.max_iter, limits.tol)] if incumbent is None else []
    left = list(states[1:]) if incumbent is None else list(states)
    same = SAME * likelihood.total
    # A few starts often agree already; only where they do not, all others are tried.
    # With few objects steps are cheap and optima many: then agreement proves nothing.
    certify = incumbent is None and likelihood.count > CERTIFIED_OBJECTS
    agreed = False
    groups = (left[:PROBES], left[PROBES:]) if certify else (left,)
    for i, group in enumerate(groups):
        if not group or agreed:
            continue
        n_short = min(limits.n_short, PROBE_STEPS) if certify and not i else limits.n_short
        for state in _short(likelihood, group, n_short)[: limits.finalists]:
            runs.append(likelihood.run(state, limits.max_iter, limits.tol))
            agreed = certify and _agree(runs, same)
            if agreed:
                break
    runs = runs if incumbent is None else [incumbent, *runs]
    return min(runs, key=lambda run: _rank(likelihood, run)), agreed


def moved_run(
    likelihood: Likelihood, best: loop.Run, X: np.ndarray, weights: np.ndarray, limits: Limits
) -> loop.Run:
    """The best run after moving components of a run, tried on inner objects ``X``."""
    for _ in range(ROUNDS):
        states = list(moves.swaps(X, weights, best.state))
        moved, _ = best_run(likelihood, states, limits, best)
        if merit(likelihood, moved) <= merit(likelihood, best) + SAME * likelihood.total:
            break
        best = moved
    return best


def _rank(likelihood: Likelihood, run: loop.Run) -> tuple[bool, bool, float]:
    """Sort key of runs: no spikes first, then no small components, then the higher objective."""
    count = likelihood.count
    spikes = collapsed(run.state, count, likelihood.view.coordinates.thinnest).any()
    return bool(spikes), bool(small(run.state, count).any()), -merit(likelihood, run)


def merit(likelihood: Likelihood, run: loop.Run) -> float:
    """Log-likelihood of a run, by which maxima are compared, with a prior too.

    The density of a prior depends on how covariances are written, and is highest where a component
    shrinks onto a few objects: among maxima of the posterior it would choose such ones.
    """
    return float(run.objective - likelihood.log_prior(run.state))


def _short(likelihood: Likelihood, states: Sequence[State], n_steps: int) -> list[State]:
    """Different states after a few steps: those without small components first, then by
    objective.
    """
    ends, values = likelihood.steps(list(states), n_steps)
    if likelihood.prior is not None:
        values = values - likelihood.log_prior(kernel.stack(ends))
    tiny = [bool(small(end, likelihood.count).any()) for end in ends]
    order = np.lexsort((-values, np.array(tiny)))
    different = [order[0]]
    for i in order[1:]:
        if abs(values[different[-1]] - values[i]) > SAME * likelihood.total:
            different.append(i)
    return [ends[i] for i in different]


def _agree(runs: list[loop.Run], same: float) -> bool:
    """Whether enough of the runs found the best optimum."""
    values = sorted((float(run.objective) for run in runs), reverse=True)
    return len(values) >= AGREEING and values[0] - values[AGREEING - 1] <= same


def collapsed(state: State, count: float, thinnest: float) -> np.ndarray:
    """Which components (k,) are spikes: too few objects for their shape, or no width.

    ``count`` is the number of objects, ``thinnest`` the least variance of the data in any
    direction. A covariance of its own needs d + 1 objects, variances of its own need two, a volume
    of its own more than one.
    """
    k, d = state.means.shape
    volume, shape, orientation = tuple(state.family)
    if orientation == "V" and shape == "V":
        need = d + 1.0
    elif shape == "V" or orientation == "V":
        need = 2.0
    else:
        need = 1.0 + 1.0 / d if volume == "V" else 0.0
    few = state.weights[:k] * count < need * (1.0 - 1e-6)
    if families.has_one_covariance(state.family) or thinnest <= 100.0 * state.floor:
        return few
    return few | (np.linalg.eigvalsh(kernel.matrices(state))[:, 0] <= 1.5 * state.floor)


def small(state: State, count: float) -> np.ndarray:
    """Which components (k,) hold fewer objects than fix a shape: d + 1, or 3 if it is spherical.

    Never more than half of an equal part is asked for. Such components are no failure, but a run
    without them is preferred: they are often a few outlying objects.
    """
    k, d = state.means.shape
    wanted = min(3.0 if state.family[1] == "I" else d + 1.0, 0.5 * count / k)
    return state.weights[:k] * count < wanted * (1.0 - 1e-6)
