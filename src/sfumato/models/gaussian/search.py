"""Number and family of the components by a criterion, as mclust does: every candidate in a table.

Candidates of one size share their starts, candidates whose coordinates agree share their rows, and
every candidate also starts from where the families before it ended. With many objects they compete
on a sample, their likelihood for each object being that of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...array.types import ArrayLike
from ...array.validation import check_n_clusters, check_number
from ...array.warn import warn
from ...engine import loop
from ...engine.growth import first_sizes, more_sizes
from ...engine.model_search import ModelSearch
from ...numerics import families
from ...numerics.families import family_of
from . import noisy
from .bounds import passed_over, possible_types
from .candidate import BEHIND, Fit, Problem, doubt, fits_from, is_passed_over, one_component, rated
from .candidate import problem as problem_of
from .data import MixtureData, Sample, clear_partition, match, partitions
from .likelihood import MOST_FEATURES
from .parameters import Settings
from .runs import Limits, best_run, fewer, merit, more, moved_run

__all__ = ["Fit", "choose", "fit_all", "fit_growing", "on_all", "settled", "sizes_of"]
__all__ += ["doubt", "one_component", "types_of", "with_errors"]

CONTEST = 2000  # objects on which starts compete, and fewest on which candidates do
SCREEN = 8192  # most objects on which candidates compete
OBJECTS_PER_PARAMETER = 3  # of such a sample: with fewer than two, likelihoods mean little
LEADING = ("EEE", "VVI", "VVV")  # types that try all starts where objects are many
HOPELESS = 0.02  # criterion per object behind the best at which a candidate runs no further
SAME_MEMBERSHIPS = 0.002  # share of the weight by which memberships that count as one may differ
DONORS = 4  # candidates of a size from whose memberships the others start
SEARCH_STARTS = 4  # of every size where several families are tried
SEARCH_STEPS = 6  # that starts of a search make together
NEIGHBOURS = 2  # runs of every candidate from the mixtures with one component more or less
TIGHT_OBJECTS = 500  # up to which every candidate of a search converges to the full tolerance
LOOSE_TOL = 1e-4  # gain for each object at which the candidates of larger searches stop
POLISHED = 3  # best candidates of those, which go on to the full tolerance
CLOSE = 10.0  # criterion behind the best up to which candidates of one size are fitted again
GROWING = 3  # best candidates whose types are tried with more components
TIE = 1e-3  # criteria that differ by less are equal: rounding must not choose


def types_of(covariance_type: str, frozen: tuple[str, ...], n: int, d: int) -> tuple[str, ...]:
    """Covariance types to try; "auto" leaves out families that so many features do not allow."""
    if covariance_type != "auto":
        return (covariance_type,)
    if "covariances" in frozen:
        return ("VVV",)
    return families.suited(n, d)


def sizes_of(
    n_clusters: Any, X: Any, max_clusters: int, weights: np.ndarray | None = None
) -> list[int]:
    """Numbers of components to try."""
    if isinstance(n_clusters, str):
        if n_clusters != "auto":
            raise ValueError(
                "n_clusters must be an integer, a sequence of integers or 'auto', got "
                f"{n_clusters!r}"
            )
        return first_sizes(X, max_clusters, weights)
    several = list(n_clusters) if isinstance(n_clusters, (Sequence, np.ndarray)) else [n_clusters]
    if not several:
        raise ValueError(
            "n_clusters is an empty sequence: give at least one number of components to try"
        )
    n_objects = X.shape[0]
    sizes = [check_number(k, "n_clusters", low=1, integer=True) for k in several]
    check_n_clusters(min(sizes), n_objects)
    if max(sizes) > n_objects:
        warn(
            f"n_clusters holds {max(sizes)}, more than the {n_objects} objects: numbers above are "
            "not tried"
        )
    return [k for k in sizes if k <= n_objects]


def fit_all(
    data: MixtureData,
    sizes: Sequence[int],
    types: Sequence[str],
    settings: Settings,
    known: Sequence[Fit] = (),
) -> list[Fit]:
    """Fit every candidate, on a sample of the objects where they are many.

    Starts compete on a smaller sample than candidates. ``known`` are fits of some sizes, which
    are kept.
    """
    rng = np.random.default_rng(settings.seed)
    largest = max(
        families.n_parameters(family_of(name), k, data.X.shape[1]) for name in types for k in sizes
    )
    size = int(np.clip(OBJECTS_PER_PARAMETER * largest, CONTEST, SCREEN))
    several = len(types) > 1 or len(sizes) > 1
    few = data.screen(size if several else CONTEST, rng) if data.X.shape[0] > size else data
    contest = few.screen(CONTEST, rng) if few.X.shape[0] > CONTEST else few
    sample = contest.sample(rng)
    # Where objects are few, high likelihoods belong to thin components, and only k-means is safe.
    nested = data.count >= 2 * largest or len(types) > 1
    n_starts = settings.n_init if settings.given.means is None else 1
    loose = len(types) > 1 and few.count > TIGHT_OBJECTS
    if len(types) > 1 and (loose or len(sizes) > 1):
        n_starts = min(n_starts, SEARCH_STARTS)
    clear = None
    if n_starts > 1 and _is_plain(data, sizes, settings):
        clear = clear_partition(sample, sizes[0], np.random.default_rng(settings.seed))
    first = replace(settings, tol=max(settings.tol, LOOSE_TOL)) if loose else settings
    if clear is not None:
        fits = fits_from(contest, sample, clear, types, first)
    else:
        # Those of all sizes, since the starts of a size depend on the sizes before it.
        groups = partitions(sample, sizes, n_starts, rng, nested)
        done = {fit.candidate.n_clusters for fit in known}
        groups = {k: groups[k] for k in sizes if k not in done}
        fits = [*known, *_fits_of(contest, sample, groups, types, first, loose)]
        fits.sort(key=lambda fit: fit.candidate.n_clusters)
    if few is not contest:
        fits = _on_more(few, fits, first)
    if loose:
        _polish(fits, settings)
    return fits


def _fits_of(
    data: MixtureData,
    sample: Sample,
    groups: dict[int, np.ndarray],
    types: Sequence[str],
    settings: Settings,
    loose: bool,
) -> list[Fit]:
    """Fits of every size of the groups and type, and rows of those that a bound rules out."""
    tried = possible_types(data, sample, groups, types, settings)
    problems = [[problem_of(data, sample, k, name, settings) for name in tried] for k in groups]
    fits = iter(_from_starts(data, problems, sample, groups, loose))
    return [
        next(fits) if name in tried else passed_over(data, sample, k, name, settings)
        for k in groups
        for name in types
    ]


def _from_starts(
    data: MixtureData,
    problems: list[list[Problem]],
    sample: Sample,
    groups: dict[int, np.ndarray],
    loose: bool,
) -> list[Fit]:
    """Fits of all candidates from the groups of every size."""
    settings, sizes = problems[0][0].settings, list(groups)
    runs = [
        _fit_size(same, sample, groups[k], loose) for k, same in zip(sizes, problems, strict=True)
    ]
    thorough = len(problems[0]) > 1 and not (loose or settings.fixed or data.holes)
    if thorough:
        _compare_sizes(sizes, problems, runs, settings)
    pairs = [
        (each, run)
        for same in zip(problems, runs, strict=True)
        for each, run in zip(*same, strict=True)
    ]
    fits = [each.rate(run) for each, run in pairs]
    if thorough and len(sizes) == 1:
        _repeat_best(problems[0], sample, groups[sizes[0]], fits)
    return fits


def _is_plain(data: MixtureData, sizes: Sequence[int], settings: Settings) -> bool:
    """Whether the likelihood alone decides, so that a clear partition needs no other starts."""
    helped = settings.fixed or settings.frozen or settings.noise is not None or data.linked
    whole = data.X.shape[1] <= MOST_FEATURES and not data.holes
    return len(sizes) == 1 and whole and not helped and settings.prior is None


def _repeat_best(
    problems: list[Problem], sample: Sample, groups: np.ndarray, fits: list[Fit]
) -> None:
    """Fit the best candidates of one size as if their types had been given, in place.

    So the choice of a type never costs likelihood.
    """
    settings = problems[0].settings
    R = (groups[:, None, :] == np.arange(len(problems[0].blank.means))[:, None]) * sample.weights
    values = np.array([getattr(fit.candidate, settings.criterion) for fit in fits])
    if np.isnan(values).all():
        return
    for i in np.argsort(values, kind="stable")[:POLISHED]:  # NaN comes last
        if values[i] <= np.nanmin(values) + CLOSE:
            again = problems[i].rate(_alone(problems[i], R, settings))
            if again.candidate.log_likelihood > fits[i].candidate.log_likelihood:
                fits[i] = again


def _on_more(few: MixtureData, fits: list[Fit], settings: Settings) -> list[Fit]:
    """The fits on more objects; those far behind the best do not go on from where they are."""
    size = few.count
    values = [
        -2.0 * fit.candidate.log_likelihood / fit.likelihood.total * size
        + fit.candidate.n_parameters * np.log(size)
        for fit in fits
    ]
    best, more = np.nanmin([*values, np.inf]), []
    for fit, value in zip(fits, values, strict=True):
        if is_passed_over(fit):
            more.append(fit)
            continue
        family = fit.likelihood.view.family
        likelihood = few.likelihood(family, settings.frozen, fit.likelihood.prior)
        run = fit.run
        if not value > best + HOPELESS * size:
            run = likelihood.run(run.state, settings.max_iter, settings.tol)
        more.append(rated(likelihood, run, fit.candidate.covariance_type))
    return more


def _compare_sizes(
    sizes: Sequence[int],
    problems: list[list[Problem]],
    runs: list[list[loop.Run]],
    settings: Settings,
) -> None:
    """Start every candidate also from its neighbours with one component more or less, in place."""
    place = {k: i for i, k in enumerate(sizes)}
    limits = Limits(settings.max_iter, settings.tol, SEARCH_STEPS, NEIGHBOURS)
    for k in sorted(set(place) - {1}):
        neighbours = [
            (place[other], move)
            for other, move in ((k - 1, more), (k + 1, fewer))
            if other > 1 and other in place
        ]
        for t, problem in enumerate(problems[place[k]] if neighbours else ()):
            R = [
                memberships
                for i, move in neighbours
                for memberships in move(problem.X, problem.weights, runs[i][t].state)
            ]
            states, run = problem.states(np.stack(R)), runs[place[k]][t]
            runs[place[k]][t] = best_run(problem.likelihood, states, limits, run)[0]


def fit_growing(
    data: MixtureData,
    sizes: list[int],
    types: Sequence[str],
    settings: Settings,
    max_clusters: int,
) -> list[Fit]:
    """Fit the candidates of "auto": more components while the best number is the largest one tried.

    Only the types of the best candidates go on, and the smaller numbers are fitted again: with
    more components the sample on which candidates compete is larger. Only where one type alone went
    on before, on all objects, would that be the same work twice.
    """
    n = data.X.shape[0]
    fits = fit_all(data, sizes, types, settings)
    while True:
        best = choose(data, fits, settings.criterion).candidate.n_clusters
        more = more_sizes(best, sizes, n, max_clusters)
        if not more:
            return fits
        sizes = sorted(sizes + more)
        table = ModelSearch([fit.candidate for fit in fits], settings.criterion)
        going = {row.covariance_type for row in table.best(GROWING)}
        alone = len(types) == 1 and n <= CONTEST
        types = [name for name in types if name in going]
        fits = fit_all(data, sizes, types, settings, fits if alone else ())


def settled(
    data: MixtureData, fits: list[Fit], types: Sequence[str], settings: Settings
) -> list[Fit]:
    """The fits with those of the best number made as if that number had been given.

    Starts depend on the numbers that are tried together, so the rows of that number change a
    little; if another number is the best then, it is settled too. Rows of families that are passed
    over then stay as they were.
    """
    done: set[int] = set()
    while (k := choose(data, fits, settings.criterion).candidate.n_clusters) not in done:
        known = {
            fit.candidate.covariance_type: fit for fit in fits if fit.candidate.n_clusters == k
        }
        own = [
            known.get(fit.candidate.covariance_type, fit) if is_passed_over(fit) else fit
            for fit in fit_all(data, [k], types, settings)
        ]
        first = next(i for i, fit in enumerate(fits) if fit.candidate.n_clusters == k)
        others = [fit for fit in fits if fit.candidate.n_clusters != k]
        fits = [*others[:first], *own, *others[first:]]
        done.add(k)
    return fits


def _polish(fits: list[Fit], settings: Settings) -> None:
    """Run the best candidates to the tolerance that was asked for, in place."""
    values = np.nan_to_num([getattr(fit.candidate, settings.criterion) for fit in fits], nan=np.inf)
    for i in np.argsort(values, kind="stable")[:POLISHED]:
        fit = fits[i]
        if not values[i] <= values.min() + BEHIND:
            break
        run = fit.likelihood.run(fit.run.state, settings.max_iter, settings.tol)
        fits[i] = rated(fit.likelihood, run, fit.candidate.covariance_type)


def choose(data: MixtureData, fits: Sequence[Fit], criterion: str) -> Fit:
    """The best fit; of those that tie the one with the fewest parameters, then the earliest. Where
    every candidate failed, the one with the fewest parameters.

    What a fit owes to the thinness of components of few objects counts against it (``doubt``):
    such maxima have no more to say about clusters for their high likelihood.
    """
    values = np.array([getattr(fit.candidate, criterion) for fit in fits])
    near, judged = np.arange(len(fits)), np.full(len(fits), np.inf)
    if np.isfinite(values).any():
        for i in np.argsort(values, kind="stable"):  # NaN comes last
            if not values[i] <= judged.min() + TIE:
                break
            judged[i] = values[i] + doubt(data, fits[i])
        near = np.flatnonzero(judged <= judged.min() + TIE)
    return fits[min(map(int, near), key=lambda i: (fits[i].candidate.n_parameters, i))]


def with_errors(
    data: MixtureData, fits: list[Fit], measurement_error: ArrayLike, settings: Settings
) -> list[Fit]:
    """The fits of the objects without their errors, from those that take the errors as spread."""
    errors = noisy.check_errors(measurement_error, *data.X.shape)
    found = []
    for fit in fits:
        plain = on_all(data, fit, settings)
        likelihood = noisy.likelihood_of(data.X, data.weights, errors, plain.likelihood)
        run = likelihood.run(plain.run.state, settings.max_iter, settings.tol)
        found.append(rated(likelihood, run, fit.candidate.covariance_type))
    return found


def on_all(data: MixtureData, fit: Fit, settings: Settings) -> Fit:
    """The fit of a candidate on all objects, from where its fit on a sample ended."""
    if fit.likelihood.rows.shape[0] == data.X.shape[0]:
        return fit
    family = fit.likelihood.view.family
    likelihood = data.likelihood(family, settings.frozen, fit.likelihood.prior)
    run = likelihood.run(fit.run.state, settings.max_iter, settings.tol)
    return rated(likelihood, run, fit.candidate.covariance_type)


def _fit_size(
    problems: list[Problem], sample: Sample, groups: np.ndarray, loose: bool
) -> list[loop.Run]:
    """Runs of one size, one for each type; several types also start where the others ended.

    With many objects (``loose``) only some types try all starts, the others what these found.
    """
    settings, k = problems[0].settings, len(problems[0].blank.means)
    if sample.labels is not None:
        groups = np.stack([match(g, sample.labels, sample.weights, k) for g in groups])
    R = (groups[:, None, :] == np.arange(k)[:, None]) * sample.weights
    if len(problems) == 1:
        return [_alone(problems[0], R, settings)]
    R = R[:SEARCH_STARTS]
    limits = Limits(settings.max_iter, settings.tol, SEARCH_STEPS, 1)
    alike = len(R) == 1 or settings.fixed
    leading = [p for p in problems if p.covariance_type in LEADING] if loose and not alike else []
    leading = leading or problems
    runs = [best_run(p.likelihood, p.states(R, True), limits)[0] for p in leading]
    return runs if alike else _exchanged(problems, leading, runs, limits)


def _alone(problem: Problem, R: np.ndarray, settings: Settings) -> loop.Run:
    """The best run of the only candidate, components moved where starts did not agree."""
    likelihood, k = problem.likelihood, len(problem.blank.means)
    limits = Limits(settings.max_iter, settings.tol)
    poor = likelihood.count < 2 * likelihood.n_parameters(k, settings.noise is not None)
    states = problem.states(R, plain=len(R) > 1 and not poor)
    if len(states) == 1:
        return likelihood.run(states[0], limits.max_iter, limits.tol)
    run, agreed = best_run(likelihood, states, limits)
    held = settings.fixed or settings.frozen or likelihood.view.layout == "missing"
    if agreed or poor or held:
        return run
    return moved_run(likelihood, run, problem.X, problem.weights, limits)


def _exchanged(
    problems: list[Problem], leading: list[Problem], runs: list[loop.Run], limits: Limits
) -> list[loop.Run]:
    """Runs of all candidates after starts from the memberships that leading ones ended with.

    Of these the ones with the highest likelihoods, those that agree once.
    """
    pairs = list(zip(leading, runs, strict=True))
    R = np.stack([p.memberships(run.state) for p, run in pairs])
    values = [p.likelihood.log_volume() + merit(p.likelihood, run) for p, run in pairs]
    donors: list[int] = []
    for j in map(int, np.argsort(values)[::-1]):
        if not any(_alike(R[j], R[i]) for i in donors):
            donors.append(j)
    known, results = {p.covariance_type: run for p, run in pairs}, []
    for problem in problems:
        own = known.get(problem.covariance_type)
        chosen = [j for j in donors if leading[j] is not problem][:DONORS]
        if chosen:
            states = problem.states(R[chosen])
            own = best_run(problem.likelihood, states, limits, own)[0]
        assert own is not None  # donors are candidates with a run
        results.append(own)
    return results


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two weighted memberships (k, n) are the same, in whatever order."""
    together = one @ other.T
    best = np.abs(one - other[np.argmax(together, axis=1)])
    return bool(best.sum() <= SAME_MEMBERSHIPS * one.sum())
