"""The best run of EM from several first states, and ways out of a poor optimum.

All starts make a few EM steps; the most promising ones go on to convergence until three of them
agree (Biernacki, Celeux and Govaert 2003). The best one then tries to do without one cluster and
to cut another in two (after Ueda et al. 2000).

What the lost cluster r_j held goes to the others by their posterior; cluster l is cut through its
mean, across its longest axis or the one along which it looks most like two (least kurtosis):

    r_l' = r_l [v (x - mu_l) > 0],   r_j' = r_l [v (x - mu_l) <= 0],    then one M step

The two halves of a move by themselves lead from a mixture to one of another size: ``fewer`` and
``more``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import to_numpy
from ..data.constraints import matching
from ..numerics.distances import softmax_columns
from . import loop
from .component import Component, Fit, Likelihood
from .starts import Sample

__all__ = ["Limits", "Problem", "best_run", "fewer", "merit", "more", "moved_run"]

SAME = 1e-5  # log-likelihoods for each object that differ by less count as one optimum
ROUNDS = 3  # of moves
CERTIFIED_OBJECTS = 500  # above which agreeing runs end the search
AGREEING = 3  # runs from different starts that certify an optimum
PROBES = 3  # starts beside the first one that are tried before all others
PROBE_STEPS = 5  # that these make before they go on
LOST = 4  # clusters that may go, those least missed
CUT = 5  # clusters that may be cut, the widest
MOST_AXES = 48  # features up to which clusters are cut


class Limits(NamedTuple):
    """How long to search: steps that all starts make, runs to convergence, and their length."""

    max_iter: int
    tol: float
    n_short: int = 15
    finalists: int = 4


@dataclass(frozen=True, eq=False)
class Problem:
    """One candidate: its likelihood, and the sample for starts as it sees it."""

    likelihood: Likelihood
    sample: Sample
    X: np.ndarray
    fixed: bool  # whether clusters are numbered by labels or by values that the user gave

    @classmethod
    def of(cls, likelihood: Likelihood, sample: Sample, fixed: bool) -> Problem:
        """The candidate of a likelihood, its clusters in the order of known labels."""
        return cls(likelihood, sample, likelihood.component.place(sample.X), fixed)

    @property
    def component(self) -> Component:
        """What a cluster is."""
        return self.likelihood.component

    def state(self, R: np.ndarray, *, shrink: bool = True) -> Any:
        """The start from weighted groups (k, n) of the sample."""
        state, linked = self.component.start(self.X, R, self.sample.unit, shrink), None
        linked = self.likelihood.linked
        if linked is None or (linked.labels < 0).all():
            return state
        ready = self.component.ready(state)
        U = linked.rows.map(lambda block, _: to_numpy(self.component.posterior(block, ready)[0]))
        order = matching(U[:, : self.component.n_clusters], linked.labels)
        return self.component.permuted(state, order)

    def states(self, R: np.ndarray, *, plain: bool = False) -> list[Any]:
        """Starts from groups (starts, k, n); ``plain`` adds the first one without shrinkage."""
        first = [self.state(R[0], shrink=False)] if plain else []
        return first + [self.state(one) for one in R]

    def logits(self, state: Any) -> np.ndarray:
        """log( pi_j f_j ) (k, n) of the sample, without noise."""
        L = self.component.logits(self.X, self.component.ready(state))
        return to_numpy(L)[: self.component.n_clusters].astype(np.float64)

    def memberships(self, state: Any) -> np.ndarray:
        """Weighted memberships (k, n) of the sample, without noise."""
        return softmax_columns(self.logits(state))[0] * self.sample.weights

    def rate(self, run: loop.Run) -> Fit:
        """The fit with its criteria, clusters in an order that equal fits share."""
        return Fit.of(self.likelihood, run, keep_order=self.fixed)


def best_run(
    likelihood: Likelihood,
    states: Sequence[Any],
    limits: Limits,
    incumbent: loop.Run | None = None,
) -> tuple[loop.Run, bool]:
    """The best run from several states, and whether another one found the same optimum.

    The first state goes to convergence whatever short runs say, unless there is an ``incumbent``
    already. Runs whose clusters are all large enough are preferred; a collapsed one is taken only
    if all are.
    """
    runs = [likelihood.run(states[0], limits.max_iter, limits.tol)] if incumbent is None else []
    left = list(states[1:]) if incumbent is None else list(states)
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
            agreed = certify and _agree(runs, SAME * likelihood.total)
            if agreed:
                break
    runs = runs if incumbent is None else [incumbent, *runs]
    return min(runs, key=lambda run: _rank(likelihood, run)), agreed


def _rank(likelihood: Likelihood, run: loop.Run) -> tuple[bool, bool, float]:
    """Sort key of runs: sound ones first, then no small clusters, then the higher objective."""
    component, count = likelihood.component, likelihood.count
    sound = component.is_sound(run.state, count)
    return not sound, component.has_small(run.state, count), -merit(likelihood, run)


def merit(likelihood: Likelihood, run: loop.Run) -> float:
    """Log-likelihood of a run, by which maxima are compared, with a prior too.

    The density of a prior depends on how covariances are written, and is highest where a cluster
    shrinks onto a few objects: among maxima of the posterior it would choose such ones. Of a run
    that ended beyond numbers it is the least of all.
    """
    value = float(run.objective - likelihood.component.log_prior(run.state))
    return value if np.isfinite(value) else -np.inf


def _short(likelihood: Likelihood, states: Sequence[Any], n_steps: int) -> list[Any]:
    """Different states after a few steps: those without small clusters first, then by objective."""
    component, ranked = likelihood.component, []
    for i, state in enumerate(states):
        end, value = likelihood.steps(state, n_steps)
        value = float(value - component.log_prior(end))
        value = value if np.isfinite(value) else -np.inf
        ranked.append((component.has_small(end, likelihood.count), -value, i, end))
    ranked.sort(key=lambda one: one[:3])
    different = [ranked[0]]
    for one in ranked[1:]:
        if not abs(different[-1][1] - one[1]) <= SAME * likelihood.total:
            different.append(one)
    return [one[3] for one in different]


def _agree(runs: list[loop.Run], same: float) -> bool:
    """Whether enough of the runs found the best optimum."""
    values = sorted((float(run.objective) for run in runs), reverse=True)
    return len(values) >= AGREEING and values[0] - values[AGREEING - 1] <= same


def moved_run(problem: Problem, best: loop.Run, limits: Limits) -> loop.Run:
    """The best run after moving clusters of a run."""
    likelihood = problem.likelihood
    if problem.component.n_clusters < 2 or problem.sample.spaces[0].shape[1] > MOST_AXES:
        return best
    for _ in range(ROUNDS):
        states = [problem.state(R, shrink=False) for R in _swaps(problem, best.state)]
        moved, _ = best_run(likelihood, states, limits, best)
        if merit(likelihood, moved) <= merit(likelihood, best) + SAME * likelihood.total:
            break
        best = moved
    return best


def _swaps(problem: Problem, state: Any) -> Iterator[np.ndarray]:
    """Groups (k, n) in which one cluster left its place to half of another."""
    L, weights = problem.logits(state), problem.sample.weights
    for j in least_missed(L, weights)[:LOST]:
        others = L.copy()
        others[j] = -np.inf
        R = softmax_columns(others)[0] * weights
        sides, spread = _sides(problem.sample.spaces[0], R)
        spread[j] = -np.inf
        for cut in np.argsort(-spread, kind="stable")[: min(CUT, len(L) - 1)]:
            for side in sides[cut]:
                halves = R.copy()
                halves[j] = np.where(side, 0.0, R[cut])
                halves[cut] = np.where(side, R[cut], 0.0)
                yield halves


def fewer(problem: Problem, state: Any) -> Iterator[np.ndarray]:
    """Weighted memberships (k - 1, n) of mixtures that lost a cluster, those least missed."""
    L, weights = problem.logits(state), problem.sample.weights
    for j in least_missed(L, weights)[:CUT]:
        yield softmax_columns(np.delete(L, j, axis=0))[0] * weights


def more(problem: Problem, state: Any) -> Iterator[np.ndarray]:
    """Weighted memberships (k + 1, n) of mixtures one cluster of which is cut in two."""
    R = problem.memberships(state)
    sides, spread = _sides(problem.sample.spaces[0], R)
    for cut in np.argsort(-spread, kind="stable")[:CUT]:
        for side in sides[cut]:
            halves = np.concatenate([R, np.where(side, 0.0, R[cut])[None]])
            halves[cut] *= side
            yield halves


def least_missed(L: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The clusters in the order of the log-likelihood without them, highest first."""
    best, columns = np.argmax(L, axis=0), np.arange(L.shape[1])
    peak, others = L[best, columns], L.copy()
    others[best, columns] = -np.inf
    E = np.exp(others - peak)  # so that what is left without a cluster never cancels
    without = peak + np.log(1.0 + E.sum(axis=0) - E)
    without[best, columns] = softmax_columns(others)[1]
    return np.argsort(without @ weights, kind="stable")[::-1]


def _sides(X: np.ndarray, R: np.ndarray) -> tuple[list[list[np.ndarray]], np.ndarray]:
    """On which side (n,) of the middle objects lie, for the axes across which a cluster is cut,
    and the scatter of every cluster along its longest axis (k,).
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
