"""The best run of EM from several first states, and ways out of a poor optimum.

All starts make a few EM steps together; the most promising ones go on to convergence until three of
them agree (Biernacki, Celeux and Govaert 2003). The best one then tries to do without one component
and to cut another in two (after Ueda et al. 2000).

What the lost component r_j held goes to the others by their posterior; component l is cut through
its mean, across its longest axis or the one along which it looks most like two (least kurtosis):

    r_l' = r_l [v (x - mu_l) > 0],   r_j' = r_l [v (x - mu_l) <= 0],    then one M step

Components that share their covariance may also go to where the density is least. The two halves of
a move by themselves lead from a mixture to one of another size: ``fewer`` and ``more``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...engine import loop
from ...numerics import distances, families
from . import direct, kernel
from .candidate import collapsed, small
from .kernel import State, Stats, update
from .likelihood import Likelihood

__all__ = ["Limits", "best_run", "fewer", "merit", "more", "moved_run", "swaps"]

SAME = 1e-5  # log-likelihoods for each object that differ by less count as one optimum
ROUNDS = 3  # of moves
CERTIFIED_OBJECTS = 500  # above which agreeing runs end the search
AGREEING = 3  # runs from different starts that certify an optimum
PROBES = 3  # starts beside the first one that are tried before all others
PROBE_STEPS = 5  # that these make before they go on
LOST = 4  # components that may go, those least missed
CUT = 5  # components that may be cut, the widest


class Limits(NamedTuple):
    """How long to search: steps that all starts make, runs to convergence, and their length."""

    max_iter: int
    tol: float
    n_short: int = 15
    finalists: int = 4


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
    return _first(likelihood, runs), agreed


def _first(likelihood: Likelihood, runs: list[loop.Run]) -> loop.Run:
    """The run that ranks first; mostly the one of the highest objective, which is known at once."""
    best = min(runs, key=lambda run: -merit(likelihood, run))
    if len(runs) == 1 or not any(_rank(likelihood, best)[:2]):
        return best
    return min(runs, key=lambda run: _rank(likelihood, run))


def _rank(likelihood: Likelihood, run: loop.Run) -> tuple[bool, bool, float]:
    """Sort key of runs: no spikes first, then no small components, then the higher objective."""
    count = likelihood.count
    spikes = collapsed(run.state, count, likelihood.view.coordinates.thinnest).any()
    return bool(spikes), bool(small(run.state, count).any()), -merit(likelihood, run)


def merit(likelihood: Likelihood, run: loop.Run) -> float:
    """Log-likelihood of a run, by which maxima are compared, with a prior too.

    The density of a prior depends on how covariances are written, and is highest where a component
    shrinks onto a few objects: among maxima of the posterior it would choose such ones. Of a run
    that ended beyond numbers it is the least of all.
    """
    value = float(run.objective - likelihood.log_prior(run.state))
    return value if np.isfinite(value) else -np.inf


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


def moved_run(
    likelihood: Likelihood, best: loop.Run, X: np.ndarray, weights: np.ndarray, limits: Limits
) -> loop.Run:
    """The best run after moving components of a run, tried on inner objects ``X``."""
    for _ in range(ROUNDS):
        states = list(swaps(X, weights, best.state))
        moved, _ = best_run(likelihood, states, limits, best)
        if merit(likelihood, moved) <= merit(likelihood, best) + SAME * likelihood.total:
            break
        best = moved
    return best


def swaps(X: np.ndarray, weights: np.ndarray, state: State) -> Iterator[State]:
    """States in which one component left its place to half of another.

    ``X`` (n, d) are inner objects, ``weights`` (n,) theirs.
    """
    k = len(state.means)
    L = direct.logits(X, state)
    Z = distances.features(X.T, families.kind_of(state.family))
    for j in _least_missed(L, weights, k)[:LOST]:
        others = L.copy()
        others[j] = -np.inf
        R, level = distances.softmax_columns(others)
        R *= weights
        if families.has_one_covariance(state.family):
            yield update(Stats(_outlying(X, R, level, weights, j) @ Z.T, 0.0), state)
        sides, spread = _sides(X, R[:k])
        spread[j] = -np.inf
        for cut in np.argsort(-spread, kind="stable")[: min(CUT, k - 1)]:
            for side in sides[cut]:
                halves = R.copy()
                halves[j] = np.where(side, 0.0, R[cut])
                halves[cut] = np.where(side, R[cut], 0.0)
                yield update(Stats(halves @ Z.T, 0.0), state)


def fewer(X: np.ndarray, weights: np.ndarray, state: State) -> Iterator[np.ndarray]:
    """Weighted memberships (k - 1, n) of mixtures that lost a component, those least missed."""
    L = direct.logits(X, state)[: len(state.means)]
    for j in _least_missed(L, weights, len(L))[:CUT]:
        yield distances.softmax_columns(np.delete(L, j, axis=0))[0] * weights


def more(X: np.ndarray, weights: np.ndarray, state: State) -> Iterator[np.ndarray]:
    """Weighted memberships (k + 1, n) of mixtures one component of which is cut in two."""
    R = distances.softmax_columns(direct.logits(X, state)[: len(state.means)])[0] * weights
    sides, spread = _sides(X, R)
    for cut in np.argsort(-spread, kind="stable")[:CUT]:
        for side in sides[cut]:
            halves = np.concatenate([R, np.where(side, 0.0, R[cut])[None]])
            halves[cut] *= side
            yield halves


def _least_missed(L: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """The ``k`` components in the order of the log-likelihood without them, highest first."""
    best, columns = np.argmax(L, axis=0), np.arange(L.shape[1])
    peak, others = L[best, columns], L.copy()
    others[best, columns] = -np.inf
    E = np.exp(others - peak)  # so that what is left without a component never cancels
    without = peak + np.log(1.0 + E.sum(axis=0) - E)
    without[best, columns] = distances.softmax_columns(others)[1]
    return np.argsort(without[:k] @ weights, kind="stable")[::-1]


def _outlying(
    X: np.ndarray, R: np.ndarray, level: np.ndarray, weights: np.ndarray, j: int
) -> np.ndarray:
    """Component j on the least likely object and its neighbours.

    Few will do where all components share their covariance.
    """
    near = np.argsort(np.sum((X - X[np.argmin(level)]) ** 2, axis=1), kind="stable")[
        : X.shape[1] + 1
    ]
    R = R.copy()
    R[:, near] = 0.0
    R[j, near] = weights[near]
    return R


def _sides(X: np.ndarray, R: np.ndarray) -> tuple[list[list[np.ndarray]], np.ndarray]:
    """On which side (n,) of the middle objects lie, for the axes across which a component is cut,
    and the scatter of every component along its longest axis (k,).
    """
    mass = np.maximum(R.sum(axis=1), np.finfo(float).tiny)
    means = (R @ X) / mass[:, None]
    sides, spread = [], np.empty(len(R))
    for j, r in enumerate(R):
        Y = X - means[j]
        values, axes = np.linalg.eigh((Y.T * r) @ Y)
        projected = Y @ axes
        squares = projected * projected
        second = np.maximum(r @ squares, 1e-100)
        kurtosis = mass[j] * (r @ (squares * squares)) / second**2
        chosen = {len(values) - 1, int(np.argmin(kurtosis))}
        sides.append([projected[:, axis] > 0.0 for axis in sorted(chosen)])
        spread[j] = values[-1]
    return sides, spread
