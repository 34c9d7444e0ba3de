"""One search over numbers and shapes of clusters, for every mixture: candidates in one table.

Candidates of one number share their starts, and each also starts from where the others ended. With
many objects all of them compete on one sample. A sample is drawn from the sorted objects, so that
neither their order nor their floating type matters, and starts depend on the number of clusters
and the seed only, so that "auto" ends where the number that it found, if given, would end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.rows import Rows
from ..array.types import Array
from ..numerics import seeding
from . import loop
from .component import Component, Fit, Likelihood
from .growth import ModelCandidate, ModelSearch
from .linked import Linked, LinkedRows
from .runs import EFFORT, Limits, Problem, best_run, fewer, merit, more, moved_run
from .starts import SCREEN, Sample

__all__ = ["Objects", "Plan", "choose", "fit_all", "fit_growing", "on_all"]


@dataclass(frozen=True, eq=False)
class Objects:
    """What is fitted: features, weights, links, and further columns that go along.

    ``total`` is the weight of all objects, ``count`` their number (copies where weights are whole
    numbers). ``linked`` are linked rows with their features and weights.
    """

    X: Array
    weights: np.ndarray | None
    total: float
    count: float
    linked: tuple[Linked, np.ndarray, np.ndarray] | None = None
    columns: tuple[Any, ...] = ()
    _rows: dict[Any, Rows] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, X: Array, weights: np.ndarray | None, links: Linked | None = None, *columns: Any
    ) -> Objects:
        """Objects with weights (n,) or None, and rows that the user linked."""
        total = float(X.shape[0] if weights is None else weights.sum())
        positive = float(X.shape[0] if weights is None else (weights > 0).sum())
        if links is None:
            return cls(X, weights, total, max(total, positive), None, (None, *columns))
        if not (isinstance(X, np.ndarray) or sp.issparse(X)):
            raise ValueError(
                "must_link, cannot_link and labels of some objects need X as a NumPy array or a "
                "data frame in memory"
            )
        free = np.ones(X.shape[0])
        free[links.rows] = 0.0
        own = np.ones(links.rows.size) if weights is None else weights[links.rows]
        linked = (links, X[links.rows], own)
        return cls(X, weights, total, max(total, positive), linked, (free, *columns))

    def likelihood(self, component: Component) -> Likelihood:
        """The likelihood on these objects; components that see rows alike share them."""
        if component.key not in self._rows:
            rows = component.rows(self.X, self.weights, *self.columns)
            self._rows[component.key] = rows.kept()
        linked = None
        if self.linked is not None:
            links, X, weights = self.linked
            linked = LinkedRows(links, component.rows(X, weights).kept())
        rows = self._rows[component.key]
        return Likelihood(component, rows, self.total, self.count, linked)

    def few(self, seed: int) -> Objects:
        """All objects, or a sample of them drawn by weight, each of weight one, in float64."""
        if self.X.shape[0] <= SCREEN:
            return self
        rng = np.random.default_rng(seed)
        if not isinstance(self.X, np.ndarray):
            rows = Rows(self.X, self.weights, *self.columns).sample(SCREEN, rng)
            X, columns = rows.X, rows.columns[1:]
        else:
            order = seeding.sort(self.X, self.weights)
            mass = np.ones(len(order)) if self.weights is None else self.weights[order]
            where = (np.arange(SCREEN) + rng.random(SCREEN)) / SCREEN
            reached = np.cumsum(mass)
            at = np.searchsorted(reached, where * reached[-1], side="right")
            chosen = order[np.minimum(at, len(order) - 1)]
            X = self.X[chosen].astype(np.float64)
            columns = tuple(None if part is None else part[chosen] for part in self.columns)
        size = float(SCREEN)
        return replace(self, X=X, weights=None, total=size, count=size, columns=columns, _rows={})


class Plan(NamedTuple):
    """What a search needs beside the objects.

    ``components(k)`` are the candidates of ``k`` clusters, the simplest first; ``sample(objects)``
    are objects for starts; ``fixed`` says whether clusters are numbered by labels or by values
    that the user gave.
    """

    components: Callable[[int], Sequence[Component]]
    sample: Callable[[Objects], Sample]
    criterion: str
    n_init: int
    max_iter: int
    tol: float
    seed: int
    fixed: bool = False
    thorough: bool = True  # whether moves and exchanges are worth their time

    @property
    def limits(self) -> Limits:
        """Limits of a run."""
        return Limits(self.max_iter, self.tol)


class _Search:
    """A search on some objects, with the sample that all starts share."""

    def __init__(self, few: Objects, plan: Plan, sample: Sample | None = None) -> None:
        self.few, self.plan = few, plan
        self.sample = plan.sample(few) if sample is None else sample

    def problems(self, k: int) -> list[Problem]:
        """The candidates of ``k`` clusters."""
        return [
            Problem.of(self.few.likelihood(component), self.sample, self.plan.fixed)
            for component in self.plan.components(k)
        ]

    def fits(self, sizes: Sequence[int]) -> list[Fit]:
        """Fits of all candidates, those of one number beside each other."""
        problems = {k: self.problems(k) for k in dict.fromkeys(sizes)}
        several = any(len(same) > 1 for same in problems.values())
        loose = several and (self.few.count > EFFORT.tight_objects or not self.plan.thorough)
        if not several:
            found = {k: [same[0].rate(self._alone(same[0]))] for k, same in problems.items()}
        elif loose:
            found = self._loose(problems)
        else:
            found = self._tight(problems)
        fits = [fit for k in problems for fit in found[k]]
        if loose:
            self._polish(fits)
        return fits

    def _alone(self, problem: Problem) -> loop.Run:
        """The best run of the only candidate, clusters moved where starts did not agree."""
        likelihood, plan, component = problem.likelihood, self.plan, problem.component
        poor = likelihood.count < 2 * component.n_parameters()
        # Where objects are few, high likelihoods belong to thin clusters: only k-means is safe.
        R = self.sample.groups(component.n_clusters, plan.n_init, plan.seed, nested=not poor)
        states = problem.states(R, plain=len(R) > 1 and not poor)
        if len(states) == 1:
            return likelihood.run(states[0], plan.max_iter, plan.tol)
        run, agreed = best_run(likelihood, states, plan.limits)
        if agreed or poor or plan.fixed or not plan.thorough:
            return run
        return moved_run(problem, run, plan.limits)

    def _from_groups(self, problems: list[Problem], tol: float) -> list[loop.Run]:
        """A run of every candidate of one number from the starts that all share."""
        k = problems[0].component.n_clusters
        n_starts = 1 if self.plan.n_init == 1 else min(self.plan.n_init, EFFORT.search_starts)
        R = self.sample.groups(k, n_starts, self.plan.seed)
        limits = Limits(self.plan.max_iter, tol, EFFORT.search_steps, 1)
        return [best_run(p.likelihood, p.states(R, plain=True), limits)[0] for p in problems]

    def _donors(self, pairs: list[tuple[Problem, loop.Run]]) -> list[tuple[Problem, np.ndarray]]:
        """Memberships that candidates ended with, the most likely first, those that agree once."""
        if self.plan.fixed or pairs[0][0].component.n_clusters == 1:
            return []
        height = [p.likelihood.log_volume() + merit(p.likelihood, run) for p, run in pairs]
        donors: list[tuple[Problem, np.ndarray]] = []
        for i in np.argsort(height)[::-1]:
            R = pairs[i][0].memberships(pairs[i][1].state)
            if not any(_alike(R, other) for _, other in donors):
                donors.append((pairs[i][0], R))
        return donors

    def _exchanged(
        self,
        problem: Problem,
        donors: list[tuple[Problem, np.ndarray]],
        tol: float,
        own: loop.Run | None,
    ) -> loop.Run:
        """The best run of a candidate also from the memberships that others ended with."""
        R = [groups for giver, groups in donors if giver is not problem][: EFFORT.donors]
        if not R:
            return self._from_groups([problem], tol)[0] if own is None else own
        limits = Limits(self.plan.max_iter, tol, EFFORT.search_steps, 1)
        return best_run(problem.likelihood, problem.states(np.stack(R)), limits, own)[0]

    def _tight(self, problems: dict[int, list[Problem]]) -> dict[int, list[Fit]]:
        """Every candidate to the full tolerance, also from its neighbours in the table."""
        tol, runs = self.plan.tol, {}
        for k, same in problems.items():
            pairs = list(zip(same, self._from_groups(same, tol), strict=True))
            donors = self._donors(pairs)
            runs[k] = [self._exchanged(p, donors, tol, own) for p, own in pairs]
        helped = not self.plan.fixed and self.plan.thorough
        if helped:
            self._compare_sizes(problems, runs)
        found = {
            k: [p.rate(run) for p, run in zip(same, runs[k], strict=True)]
            for k, same in problems.items()
        }
        if helped and len(problems) == 1:
            for same, fits in zip(problems.values(), found.values(), strict=True):
                self._repeat_best(same, fits)
        return found

    def _compare_sizes(
        self, problems: dict[int, list[Problem]], runs: dict[int, list[loop.Run]]
    ) -> None:
        """Start every candidate also from those with one cluster more or less, in place."""
        limits = Limits(self.plan.max_iter, self.plan.tol, EFFORT.search_steps, EFFORT.neighbours)
        for k in sorted(set(problems) - {1}):
            moves = [(j, move) for j, move in ((k - 1, more), (k + 1, fewer)) if j in problems]
            for t, problem in enumerate(problems[k]):
                R = [
                    groups
                    for j, move in moves
                    if j > 1 and t < len(problems[j])
                    for groups in move(problems[j][t], runs[j][t].state)
                ]
                if R:
                    states, run = problem.states(np.stack(R)), runs[k][t]
                    runs[k][t] = best_run(problem.likelihood, states, limits, run)[0]

    def _repeat_best(self, problems: list[Problem], fits: list[Fit]) -> None:
        """Fit the best candidates of one number as if their shapes had been given, in place.

        So the choice of a shape never costs likelihood.
        """
        values = np.array([fit.value(self.plan.criterion) for fit in fits])
        if np.isnan(values).all():
            return
        for i in np.argsort(values, kind="stable")[: EFFORT.polished]:  # NaN comes last
            if values[i] <= np.nanmin(values) + EFFORT.close:
                again = problems[i].rate(self._alone(problems[i]))
                if again.candidate.log_likelihood > fits[i].candidate.log_likelihood:
                    fits[i] = again

    def _loose(self, problems: dict[int, list[Problem]]) -> dict[int, list[Fit]]:
        """Leading shapes from all starts; others from where these ended, unless they are ruled out.

        A shape is ruled out if a freer one is not likely enough for its number of parameters.
        """
        tol, criterion = max(self.plan.tol, EFFORT.loose_tol), self.plan.criterion
        fits: dict[tuple[int, int], Fit] = {}
        ends: dict[int, list[tuple[Problem, loop.Run]]] = {}
        for k, same in problems.items():
            leading = [p for p in same if p.component.leads] or same[-1:]
            ends[k] = list(zip(leading, self._from_groups(leading, tol), strict=True))
            for p, run in ends[k]:
                fits[k, same.index(p)] = p.rate(run)
        best = dict.fromkeys({criterion, "bic"}, np.inf)  # averages have weights by BIC
        for fit in fits.values():
            _improve(best, fit)
        for k, same in problems.items():
            donors = self._donors(ends[k])
            for i in reversed(range(len(same))):
                if (k, i) in fits:
                    continue
                problem = same[i]
                freer = [
                    fit
                    for (size, _), fit in fits.items()
                    if size == k and problem.component.within(fit.likelihood.component)
                ]
                ruled = ruled_out(problem.likelihood, freer, best, criterion)
                if ruled is None:
                    run = self._exchanged(problem, donors, tol, None)
                    fits[k, i] = problem.rate(run)
                    _improve(best, fits[k, i])
                else:
                    fits[k, i] = Fit(ruled, problem.likelihood, ends[k][0][1])
        return {k: [fits[k, i] for i in range(len(same))] for k, same in problems.items()}

    def _polish(self, fits: list[Fit]) -> None:
        """Run the best candidates to the tolerance that was asked for, in place."""
        values = np.nan_to_num([fit.value(self.plan.criterion) for fit in fits], nan=np.inf)
        for i in np.argsort(values, kind="stable")[: EFFORT.polished]:
            if not values[i] <= values.min() + EFFORT.behind:
                break
            fits[i] = _further(fits[i], fits[i].likelihood, self.plan)


def ruled_out(
    likelihood: Likelihood, freer: list[Fit], best: dict[str, float], criterion: str
) -> ModelCandidate | None:
    """The row of a candidate that need not be fitted, with the bound as the reason; else None.

    Its log-likelihood is at most that of a freer shape.
    """
    p, log_n = likelihood.component.n_parameters(), float(np.log(likelihood.count))
    share = likelihood.count / likelihood.total
    highest = float(np.nanmin([*(fit.candidate.log_likelihood for fit in freer), np.inf]))
    bounds = {by: -2.0 * highest * share + (2.0 if by == "aic" else log_n) * p for by in best}
    if not all(
        bounds[by] > best[by] + EFFORT.behind for by in best
    ):  # also where a fit failed (NaN)
        return None
    reason = (
        f"not fitted: its {criterion.upper()} would be {bounds[criterion]:.1f} at least, too high "
        "to be chosen"
    )
    return ModelCandidate(likelihood.component.setting, n_parameters=p, reason=reason)


def _improve(best: dict[str, float], fit: Fit) -> None:
    """Lower the best criteria to those of a fit, less what it owes to thin clusters."""
    doubt = fit.likelihood.component.doubt(fit.run.state, fit.likelihood.count)
    for by, value in best.items():
        best[by] = float(np.fmin(value, fit.value(by) + doubt))


def fit_all(data: Objects, sizes: Sequence[int], plan: Plan) -> list[Fit]:
    """Fits of every candidate with these numbers of clusters, on a sample of many objects."""
    return _Search(data.few(plan.seed), plan).fits(sizes)


def fit_growing(
    data: Objects, sizes: list[int], plan: Plan, more_sizes: Callable[[int, list[int]], list[int]]
) -> list[Fit]:
    """Fits of "auto": of more clusters while ``more_sizes(best, tried)`` names some, with the
    shapes of the best candidates.

    The best number is then fitted by itself, as if it had been given; if another is the best
    after that, that one too.
    """
    search = _Search(data.few(plan.seed), plan)
    fits, tried = search.fits(sizes), list(sizes)
    while next_ := more_sizes(choose(fits, plan.criterion).candidate.n_clusters, tried):
        table = ModelSearch([fit.candidate for fit in fits], plan.criterion)
        names = {row.shape for row in table.best(EFFORT.growing)}
        fewer_shapes = plan._replace(components=_only(plan.components, names))
        going = _Search(search.few, fewer_shapes, search.sample)
        fits, tried = fits + going.fits(next_), tried + next_
    if search.few.count > EFFORT.tight_objects or plan.fixed or not plan.thorough:
        return sorted(fits, key=lambda fit: fit.candidate.n_clusters)
    done: set[int] = set()
    while (k := choose(fits, plan.criterion).candidate.n_clusters) not in done:
        fits = [fit for fit in fits if fit.candidate.n_clusters != k] + search.fits([k])
        done.add(k)
    return sorted(fits, key=lambda fit: fit.candidate.n_clusters)


def _only(
    components: Callable[[int], Sequence[Component]], names: set[str]
) -> Callable[[int], Sequence[Component]]:
    """The candidates of some shapes; all where none is known."""

    def some(k: int) -> Sequence[Component]:
        every = components(k)
        return [c for c in every if ModelCandidate(c.setting).shape in names] or every

    return some


def choose(fits: Sequence[Fit], criterion: str) -> Fit:
    """The best fit; of those that tie the one with the fewest parameters, then the earliest. Where
    every candidate failed, the one with the fewest parameters.

    What a fit owes to the thinness of clusters of few objects counts against it (``doubt``): such
    maxima have no more to say about clusters for their high likelihood.
    """
    values = np.array([fit.value(criterion) for fit in fits])
    near, judged = np.arange(len(fits)), np.full(len(fits), np.inf)
    if np.isfinite(values).any():
        for i in np.argsort(values, kind="stable"):  # NaN comes last
            if not values[i] <= judged.min() + EFFORT.tie:
                break
            own = fits[i].likelihood
            judged[i] = values[i] + own.component.doubt(fits[i].run.state, own.count)
        near = np.flatnonzero(judged <= judged.min() + EFFORT.tie)
    return fits[min(map(int, near), key=lambda i: (fits[i].candidate.n_parameters, i))]


def on_all(data: Objects, fit: Fit, plan: Plan) -> Fit:
    """The fit of a candidate on all objects, from where its fit on a sample ended."""
    if fit.likelihood.rows.shape[0] == data.X.shape[0]:
        return fit
    return _further(fit, data.likelihood(fit.likelihood.component), plan)


def _further(fit: Fit, likelihood: Likelihood, plan: Plan) -> Fit:
    run = likelihood.run(fit.run.state, plan.max_iter, plan.tol)
    return Fit.of(likelihood, run, keep_order=plan.fixed)


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two weighted memberships (k, n) are the same, in whatever order."""
    together = one @ other.T
    best = np.abs(one - other[np.argmax(together, axis=1)])
    return bool(best.sum() <= EFFORT.same_memberships * one.sum())
