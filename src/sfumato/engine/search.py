"""One search over numbers and shapes of clusters for every mixture, with one table of candidates.

Candidates with the same number of clusters share their starts, and each also starts from the
results of the others. With many objects all of them compete on one sample, drawn from the sorted
objects, so that neither their order nor their dtype matters. Starts depend only on the number of
clusters and the seed, so "auto" gives the same fit as its answer given as a number.

All starts of a candidate make a few EM steps, and the most promising ones continue to convergence
(Biernacki, Celeux and Govaert 2003). From the best one, a cluster is dropped and another cut in two
(after Ueda et al. 2000). Objects of the dropped cluster r_j go to the others by their posterior;
cluster l is cut through its mean, across its longest axis or the axis of smallest kurtosis:

    r_l' = r_l [v (x - mu_l) > 0],   r_j' = r_l [v (x - mu_l) <= 0],    then one M step
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import to_numpy
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..data.constraints import Known, matching
from ..numerics.distances import softmax_columns
from ..numerics.seeding import SCREEN, Sample
from . import loop
from .component import Component, Fit, Likelihood, ModelCandidate, ModelSearch
from .linked import LinkedRows
from .loop import State


class Effort(NamedTuple):
    """Effort of a search; changes affect the time more than the answers."""

    same: float = 1e-5  # difference of log-likelihoods per object below which optima count as equal
    lost: int = 4  # clusters that may be dropped, those least missed
    cut: int = 3  # clusters that may be cut, the widest
    most_axes: int = 48  # largest number of features for cutting clusters
    # A criterion worse by this has less than a thousandth of the best one's weight in an average.
    behind: float = 2.0 * float(np.log(1000.0))
    donors: int = 2  # candidates whose memberships start the others of the same number
    search_starts: int = 4  # starts for every number if several shapes are tried
    search_steps: int = 6  # steps that the starts of a search make together
    tight_objects: int = 500  # with more, not every candidate converges to the full tolerance
    finalists: int = 2  # runs from the results of other candidates that converge
    loose_tol: float = 1e-4  # gain per object at which candidates of larger searches stop
    polished: int = 3  # best candidates, which then continue to the full tolerance
    growing: int = 3  # best candidates whose shapes are tried with more clusters
    tie: float = 1e-3  # criteria that differ by less are equal


EFFORT = Effort()


class Limits(NamedTuple):
    """How long a search goes on: all starts take ``n_short`` steps, and the best ``finalists`` of
    them go on until ``tol`` or ``max_iter``."""

    max_iter: int
    tol: float
    n_short: int = 15
    finalists: int = 4


@dataclass(frozen=True, eq=False)
class Objects:
    """The data of a fit. ``columns`` begin with 0 for linked rows, 1 for others; ``total`` and
    ``count`` are as in ``Likelihood``.
    """

    X: Array
    weights: Weights
    total: float
    count: float
    linked: LinkedRows | None = None
    columns: tuple[Any, ...] = ()
    _rows: dict[Any, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, X: Array, weights: Weights, known: Known | None = None, *columns: Any) -> Objects:
        """Objects with weights (n,) or None, and the constraints on some rows."""
        total = float(X.shape[0] if weights is None else weights.sum())
        positive = float(X.shape[0] if weights is None else (weights > 0).sum())
        linked = None
        if known is not None and known.links is not None:
            linked = LinkedRows.of(known, X, weights)
        free = None if linked is None else linked.free(X.shape[0])
        return cls(X, weights, total, max(total, positive), linked, (free, *columns))

    def likelihood(self, component: Component) -> Likelihood:
        """The likelihood on these objects; components with equal keys share the rows."""
        if component.key not in self._rows:
            rows = component.rows(self.X, self.weights, *self.columns).kept()
            linked = self.linked
            if linked is not None:
                own = component.rows(linked.rows.X, linked.weights).kept()
                linked = linked._replace(rows=own)
            self._rows[component.key] = rows, linked, _log_volume(component, rows)
        rows, linked, volume = self._rows[component.key]
        return Likelihood(component, rows, self.total, self.count, linked, volume)

    def few(self, seed: int) -> Objects:
        """All objects, or a sample drawn by weight, each of weight one, in float64."""
        if self.X.shape[0] <= SCREEN:
            return self
        rng = np.random.default_rng(seed)
        rows = Rows(self.X, self.weights, *self.columns).sample(SCREEN, rng)
        X = rows.X.astype(np.float64) if isinstance(rows.X, np.ndarray) else rows.X
        columns = rows.columns[1:]
        size = float(SCREEN)
        return replace(self, X=X, weights=None, total=size, count=size, columns=columns, _rows={})


def _log_volume(component: Component, rows: Rows) -> float:
    def part(block: Array, w: Weights = None, *_: Any) -> tuple[float]:
        own = np.ones(block.shape[0]) if w is None else to_numpy(w)
        return (float(np.sum(own * component.log_volumes(block))),)

    return float(rows.sum(part)[0])


class Plan(NamedTuple):
    """Settings of a search: candidates with k clusters, simplest first, and a sample for starts."""

    components: Callable[[int], Sequence[Component]]
    sample: Callable[[Objects], Sample]
    criterion: str
    n_init: int
    max_iter: int
    tol: float
    seed: int
    fixed: bool = False  # whether the user fixed the order of clusters, by labels or values
    thorough: bool = True  # whether moves and exchanges are worth their time

    def limits(self, tol: float, finalists: int = 1) -> Limits:
        """Limits of one of several candidates."""
        return Limits(self.max_iter, tol, EFFORT.search_steps, finalists)


@dataclass(frozen=True, eq=False)
class Problem:
    """One candidate: its likelihood, and the sample for starts in its coordinates."""

    likelihood: Likelihood
    sample: Sample
    X: np.ndarray
    fixed: bool  # as in the plan

    @property
    def component(self) -> Component:
        """The component of the mixture."""
        return self.likelihood.component

    def states(self, R: np.ndarray, *, plain: bool = False, shrink: bool = True) -> list[Any]:
        """Starts from groups (starts, k, n); ``plain`` adds the first one without shrinkage."""
        R, few = (np.concatenate([R[:1], R]), [False]) if plain else (R, [])
        each = few + [shrink] * (len(R) - len(few))
        found = self.component.starts(self.X, R, self.sample.unit, each)
        linked = self.likelihood.linked
        if linked is None or (linked.labels < 0).all():
            return list(found)
        return [self._matched(state, linked) for state in found]

    def _matched(self, state: State, linked: LinkedRows) -> Any:
        """A start with its clusters in the order of the known labels."""
        ready = self.component.ready(state)
        U = linked.rows.map(lambda block, _: to_numpy(self.component.posterior(block, ready)[0]))
        order = matching(U[:, : self.component.n_clusters], linked.labels)
        return self.component.permuted(state, order)

    def logits(self, state: State) -> np.ndarray:
        """log( pi_j f_j ) (k, n) of the sample, without noise."""
        L = self.component.logits(self.X, self.component.ready(state))
        return to_numpy(L)[: self.component.n_clusters].astype(np.float64)

    def memberships(self, state: State) -> np.ndarray:
        """Weighted memberships (k, n) of the sample, without noise."""
        return softmax_columns(self.logits(state))[0] * self.sample.weights

    def rate(self, run: loop.Run) -> Fit:
        """The fit with its criteria, with clusters in a canonical order."""
        return Fit.of(self.likelihood, run, keep_order=self.fixed)


class _Search:
    """A search on some objects, with the sample that all starts share."""

    def __init__(self, few: Objects, plan: Plan) -> None:
        self.few, self.plan, self.sample = few, plan, plan.sample(few)
        self._placed: dict[Any, np.ndarray] = {}

    def problems(self, k: int, shapes: Collection[str]) -> list[Problem]:
        """Candidates with ``k`` clusters of these shapes; all if there are none of these shapes."""
        every, found = self.plan.components(k), []
        for one in [c for c in every if ModelCandidate(c.setting).shape in shapes] or every:
            if one.key not in self._placed:  # components with equal keys share them
                self._placed[one.key] = one.place(self.sample.X)
            X = self._placed[one.key]
            found.append(Problem(self.few.likelihood(one), self.sample, X, self.plan.fixed))
        return found

    def fits(
        self, sizes: Sequence[int], shapes: Collection[str] = (), *, quick: bool = False
    ) -> list[Fit]:
        """Fits of all candidates, or of some shapes; with ``quick``, only the best converge."""
        problems = {k: self.problems(k, shapes) for k in dict.fromkeys(sizes)}
        if all(len(same) == 1 for same in problems.values()):
            return [problem.rate(self._alone(problem)) for (problem,) in problems.values()]
        few = self.few.count <= EFFORT.tight_objects and self.plan.thorough
        return self._several(problems, tight=few and not quick)

    def _alone(self, problem: Problem) -> loop.Run:
        """The best run of a single candidate, after moving clusters."""
        likelihood, plan, component = problem.likelihood, self.plan, problem.component
        poor = likelihood.count < 2 * component.n_parameters()
        # With few objects, high likelihoods belong to thin clusters: only k-means starts are safe.
        R = self.sample.groups(component.n_clusters, plan.n_init, plan.seed, nested=not poor)
        states = problem.states(R, plain=len(R) > 1 and not poor)
        if len(states) == 1:
            return likelihood.run(states[0], plan.max_iter, plan.tol)
        limits = Limits(plan.max_iter, plan.tol)
        run = best_run(likelihood, states, limits)
        if poor or plan.fixed or not plan.thorough:
            return run
        return moved_run(problem, run, limits)

    def _from_groups(self, problems: list[Problem], tol: float) -> list[loop.Run]:
        """A run of every candidate with one number of clusters, from shared starts."""
        k = problems[0].component.n_clusters
        n_starts = min(self.plan.n_init, EFFORT.search_starts)
        R = self.sample.groups(k, n_starts, self.plan.seed)
        limits = self.plan.limits(tol)
        return [best_run(p.likelihood, p.states(R, plain=True), limits) for p in problems]

    def _donors(self, pairs: list[tuple[Problem, loop.Run]]) -> list[np.ndarray]:
        """Final memberships of the most likely candidates."""
        if self.plan.fixed or pairs[0][0].component.n_clusters == 1:
            return []
        height = [p.likelihood.log_volume + merit(p.likelihood, *run[:2]) for p, run in pairs]
        best = [pairs[i] for i in np.argsort(height)[::-1][: EFFORT.donors]]
        return [problem.memberships(run.state) for problem, run in best]

    def _exchanged(
        self, problem: Problem, donors: list[np.ndarray], tol: float, own: loop.Run | None = None
    ) -> loop.Run:
        """The best run of a candidate, also started from memberships of others."""
        if not donors:
            return self._from_groups([problem], tol)[0] if own is None else own
        limits = self.plan.limits(tol, EFFORT.finalists)
        return best_run(problem.likelihood, problem.states(np.stack(donors)), limits, own)

    def _several(self, problems: dict[int, list[Problem]], *, tight: bool) -> list[Fit]:
        """Fits of several shapes. Leading ones run from all starts, others only from their results,
        unless the likelihood of a freer shape is too low. With ``tight``, all shapes lead, and
        converge to the full tolerance.
        """
        criterion = self.plan.criterion
        tol = self.plan.tol if tight else max(self.plan.tol, EFFORT.loose_tol)
        fits: dict[tuple[int, int], Fit] = {}
        donors, ends = {}, {}
        for k, same in sorted(problems.items()):
            leading = same if tight else [p for p in same if p.component.leads] or same[-1:]
            pairs = list(zip(leading, self._from_groups(leading, tol), strict=True))
            donors[k], ends[k] = self._donors(pairs), [run for _, run in pairs]
            for i, (p, run) in enumerate(pairs if tight else ()):
                grown: Iterable[np.ndarray] = ()
                if k - 1 in ends:
                    R = problems[k - 1][i].memberships(ends[k - 1][i].state)
                    grown = _cuts(self.sample.spaces[0], R)
                given = [] if self.plan.fixed else [*donors[k], *grown]
                ends[k][i] = self._exchanged(p, given, tol, run)
            for p, run in zip(leading, ends[k], strict=True):
                fits[k, same.index(p)] = p.rate(run)
        best = dict.fromkeys({criterion, "bic"}, np.inf)  # averages use weights by BIC
        for fit in fits.values():
            _improve(best, fit)
        for k, same in problems.items():
            for i in reversed([i for i in range(len(same)) if (k, i) not in fits]):
                problem = same[i]
                alike = (fit for (size, _), fit in fits.items() if size == k)
                within = problem.component.within
                freer = [fit for fit in alike if within(fit.likelihood.component)]
                ruled = ruled_out(problem.likelihood, freer, best, criterion)
                if ruled is None:
                    fits[k, i] = problem.rate(self._exchanged(problem, donors[k], tol))
                    _improve(best, fits[k, i])
                else:
                    gone = ends[k][0]._replace(objective=np.nan)
                    fits[k, i] = Fit(ruled, problem.likelihood, gone)
        if not tight or (len(problems) == 1 and not self.plan.fixed):
            self._polish(problems, fits, tight)
        return [fits[k, i] for k, same in problems.items() for i in range(len(same))]

    def _polish(
        self, problems: dict[int, list[Problem]], fits: dict[tuple[int, int], Fit], tight: bool
    ) -> None:
        """Continue the best candidates to the full tolerance or, if that is reached, fit them as if
        their shapes had been given; in place.
        """
        values = {at: fit.value(self.plan.criterion) for at, fit in fits.items()}
        sound = [at for at, value in values.items() if np.isfinite(value)]
        order = sorted((values[at], at) for at in sound)
        # As ``choose`` judges them, so that thin clusters do not hide the best of the others.
        lowest = min((values[at] + fits[at].doubt() for at in sound), default=np.inf)
        for value, (k, i) in order[: EFFORT.polished]:
            if value > lowest + EFFORT.behind:
                break
            fit = fits[k, i]
            if not tight:
                fits[k, i] = _further(fit, fit.likelihood, self.plan)
                continue
            again = problems[k][i].rate(self._alone(problems[k][i]))
            better = again.candidate.log_likelihood > fit.candidate.log_likelihood
            fits[k, i] = again if better else fit


def ruled_out(
    likelihood: Likelihood, freer: list[Fit], best: dict[str, float], criterion: str
) -> ModelCandidate | None:
    """Row of a candidate that need not be fitted, since ``freer`` shapes bound it; or None."""
    component = likelihood.component
    p, log_n = component.n_parameters(), float(np.log(likelihood.count))
    share = likelihood.count / likelihood.total
    ends = [float(fit.run.objective) for fit in freer if np.isfinite(fit.run.objective)]
    highest = min(ends, default=np.inf)
    bounds = {by: -2.0 * highest * share + (2.0 if by == "aic" else log_n) * p for by in best}
    if any(bounds[by] <= best[by] + EFFORT.behind for by in best):
        return None
    reason = f"not fitted: its {criterion.upper()} would be {bounds[criterion]:.1f} at least"
    return ModelCandidate(component.setting, n_parameters=p, reason=reason)


def _improve(best: dict[str, float], fit: Fit) -> None:
    """Update the best criteria with those of a fit, corrected for thin clusters."""
    for by, value in best.items():
        best[by] = float(np.fmin(value, fit.value(by) + fit.doubt()))


def fit_all(data: Objects, sizes: Sequence[int], plan: Plan) -> list[Fit]:
    """Fits of every candidate with these numbers of clusters; on a sample of many objects."""
    return _Search(data.few(plan.seed), plan).fits(sizes)


def fit_growing(
    data: Objects, sizes: list[int], plan: Plan, more_sizes: Callable[[int, list[int]], list[int]]
) -> list[Fit]:
    """Fits of "auto": more clusters, with the shapes of the best candidates, as long as
    ``more_sizes(best, tried)`` returns some. The best number is then fitted as if it were given.
    """
    search = _Search(data.few(plan.seed), plan)
    fits, tried = search.fits(sizes, quick=not plan.fixed), list(sizes)
    while next_ := more_sizes(choose(fits, plan.criterion).candidate.n_clusters, tried):
        table = ModelSearch([fit.candidate for fit in fits], plan.criterion)
        names = {row.shape for row in table.best(EFFORT.growing)}
        fits, tried = fits + search.fits(next_, names, quick=not plan.fixed), tried + next_
    if plan.fixed:
        return sorted(fits, key=lambda fit: fit.candidate.n_clusters)
    done: set[int] = set()
    while (k := choose(fits, plan.criterion).candidate.n_clusters) not in done:
        fits = [fit for fit in fits if fit.candidate.n_clusters != k] + search.fits([k])
        done.add(k)
    return sorted(fits, key=lambda fit: fit.candidate.n_clusters)


def choose(fits: Sequence[Fit], criterion: str) -> Fit:
    """The best fit, less its ``doubt``; in a tie, the one with the fewest parameters."""
    values = np.array([fit.value(criterion) for fit in fits])
    near, judged = np.arange(len(fits)), np.full(len(fits), np.inf)
    if np.isfinite(values).any():
        for i in np.argsort(values, kind="stable"):  # NaN comes last
            if not values[i] <= judged.min() + EFFORT.tie:
                break
            judged[i] = values[i] + fits[i].doubt()
        near = np.flatnonzero(judged <= judged.min() + EFFORT.tie)
    return fits[min(map(int, near), key=lambda i: (fits[i].candidate.n_parameters, i))]


def on_all(data: Objects, fit: Fit, plan: Plan) -> Fit:
    """The fit of a candidate to all objects, continued from its fit to a sample."""
    if fit.likelihood.rows.shape[0] == data.X.shape[0]:
        return fit
    return _further(fit, data.likelihood(fit.likelihood.component), plan)


def _further(fit: Fit, likelihood: Likelihood, plan: Plan) -> Fit:
    run = likelihood.run(fit.run.state, plan.max_iter, plan.tol)
    return Fit.of(likelihood, run, keep_order=plan.fixed)


def best_run(
    likelihood: Likelihood,
    states: Sequence[State],
    limits: Limits,
    incumbent: loop.Run | None = None,
) -> loop.Run:
    """The best run from several states; without an ``incumbent``, the first always converges."""
    run = partial(likelihood.run, max_iter=limits.max_iter, tol=limits.tol)
    runs = [run(states[0])] if incumbent is None else [incumbent]
    left = _short(likelihood, states[incumbent is None :], limits.n_short)
    runs += map(run, left[: limits.finalists])
    return min(runs, key=partial(_rank, likelihood)) if runs[1:] else runs[0]


def _rank(likelihood: Likelihood, run: loop.Run) -> tuple[bool, bool, float]:
    """Sort key of runs: sound ones first, then those without small clusters, then by objective."""
    component, count = likelihood.component, likelihood.count
    value = -merit(likelihood, run.state, run.objective)
    return not component.is_sound(run.state, count), component.has_small(run.state, count), value


def merit(likelihood: Likelihood, state: State, objective: float) -> float:
    """Value by which maxima are compared; -inf if the objective is not finite."""
    value = float(objective - likelihood.component.uncounted(state))
    return value if np.isfinite(value) else -np.inf


def _short(likelihood: Likelihood, states: Sequence[State], n_steps: int) -> list[Any]:
    """Different states after a few steps: those without small clusters first, then by objective."""
    component, ranked = likelihood.component, []
    for i, state in enumerate(states):
        end, value = likelihood.steps(state, n_steps)
        value = -merit(likelihood, end, value)
        ranked.append((component.has_small(end, likelihood.count), value, i, end))
    ranked.sort(key=lambda one: one[:3])
    different: list[Any] = []
    for one in ranked:
        if not different or not abs(different[-1][1] - one[1]) <= EFFORT.same * likelihood.total:
            different.append(one)
    return [one[3] for one in different]


def moved_run(problem: Problem, best: loop.Run, limits: Limits) -> loop.Run:
    """The best run after moving clusters of a run."""
    likelihood = problem.likelihood
    if problem.component.n_clusters < 2 or problem.sample.spaces[0].shape[1] > EFFORT.most_axes:
        return best
    while True:
        swaps = np.stack(list(_swaps(problem, best.state)))
        moved = best_run(likelihood, problem.states(swaps, shrink=False), limits, best)
        gain = merit(likelihood, *moved[:2]) - merit(likelihood, *best[:2])
        if not gain > EFFORT.same * likelihood.total:
            return best
        best = moved


def _swaps(problem: Problem, state: State) -> Iterator[np.ndarray]:
    """Groups (k, n) in which a cluster was dropped and another one cut in two."""
    L, sample = problem.logits(state), problem.sample
    for j in least_missed(L, sample.weights)[: EFFORT.lost]:
        left = softmax_columns(np.delete(L, j, axis=0))[0] * sample.weights
        yield from _cuts(sample.spaces[0], left)


def _cuts(X: np.ndarray, R: np.ndarray) -> Iterator[np.ndarray]:
    """Groups (k + 1, n) in which one of the widest of k groups was cut in two."""
    sides, spread = _sides(X, R)
    for cut in np.argsort(-spread, kind="stable")[: EFFORT.cut]:
        for side in sides[cut]:
            halves = np.concatenate([R, np.where(side, 0.0, R[cut])[None]])
            halves[cut] *= side
            yield halves


def least_missed(L: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The clusters, sorted by the log-likelihood without them, highest first."""
    best, columns = np.argmax(L, axis=0), np.arange(L.shape[1])
    peak, others = L[best, columns], L.copy()
    others[best, columns] = -np.inf
    E = np.exp(others - peak)  # avoids cancellation
    without = peak + np.log(1.0 + E.sum(axis=0) - E)
    without[best, columns] = softmax_columns(others)[1]
    return np.argsort(without @ weights, kind="stable")[::-1]


def _sides(X: np.ndarray, R: np.ndarray) -> tuple[list[list[np.ndarray]], np.ndarray]:
    """Sides (n,) of the objects for each axis to cut across; scatter (k,) along the longest."""
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
