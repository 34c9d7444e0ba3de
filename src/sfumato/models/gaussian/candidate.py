"""One candidate of a search: a number of components of a family on given data, and its criteria.

A partition of a sample becomes a first state by one M step whose scatter is shrunk towards the
pooled scatter as if by d + 1 more objects, so that no component starts as a spike.

Where one partition is clear, all families are fitted from it, and bounds on the likelihood skip
most of them. A family lies within another where no letter of its name is freer (I before E before
V), so that its likelihood is at most that of the other. What a criterion would be with that
likelihood is a bound; a family whose bound is behind the best by more than what counts in an
average is not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...engine import loop
from ...engine.model_search import ModelCandidate
from ...numerics import distances, families, seeding
from ...numerics.families import family_of
from . import direct, kernel
from .data import MixtureData, Sample
from .kernel import State
from .likelihood import Likelihood, inner_covariances
from .parameters import Given, Settings
from .prior import Prior, default_prior, inner_prior

__all__ = ["BEHIND", "Fit", "Problem", "collapsed", "doubt", "fits_from", "from_memberships"]
__all__ += ["is_passed_over", "one_component", "problem", "rated", "small"]

LEAST_WIDTH = 1e-6  # of the data in any direction: thinner ones are raised by the floor
# A family is not fitted if its criterion is behind the best by more than this: 2 log 1000, less
# than a thousandth of the weight of the best one in an average. Runs that stop early are off by a
# tenth of it.
BEHIND = 2.0 * float(np.log(1000.0))


class Fit(NamedTuple):
    """A fitted candidate: how it sees data, and where EM ended."""

    candidate: ModelCandidate
    likelihood: Likelihood
    run: loop.Run


@dataclass(frozen=True)
class Problem:
    """One candidate: its likelihood, a blank state, and the sample in its coordinates."""

    data: MixtureData
    likelihood: Likelihood
    covariance_type: str
    blank: State
    X: np.ndarray
    weights: np.ndarray
    settings: Settings

    def states(self, R: np.ndarray, plain: bool = False) -> list[State]:
        """Starts from weighted groups ``R`` (starts, k, n) of the sample.

        ``plain`` adds the first one without shrinkage, in front.
        """
        if self.settings.given.means is not None:
            means = np.array(self.settings.given.means)
            nearest = seeding.nearest(self.X, self.likelihood.view.coordinates.inner(means))
            R = (nearest == np.arange(len(means))[:, None])[None] * self.weights
        unit = seeding.unit(self.weights)
        states = kernel.unstack(from_memberships(self.X, R, self.blank, unit))
        if plain:
            states = [self.state(R[0]), *states]
        if all(value is None for value in self.settings.given):
            return states
        return [_put_in(s, self.covariance_type, self.data, self.settings) for s in states]

    def state(self, R: np.ndarray) -> State:
        """The start from weighted groups (k, n), without shrinkage towards the pooled scatter."""
        unit = seeding.unit(self.weights)
        return from_memberships(self.X, R, self.blank, unit, shrink=False)

    def rate(self, run: loop.Run) -> Fit:
        """The fit with its criteria, components in an order that equal fits share."""
        if not self.settings.fixed:
            run = run._replace(state=kernel.ordered(run.state))
        return rated(self.likelihood, run, self.covariance_type)

    def memberships(self, state: State) -> np.ndarray:
        """Weighted memberships (k, n) of the sample, without noise."""
        L = direct.logits(self.X, state)[: len(state.means)]
        return distances.softmax_columns(L)[0] * self.weights


def problem(
    data: MixtureData, sample: Sample, k: int, covariance_type: str, settings: Settings
) -> Problem:
    """The candidate of ``k`` components of a covariance type."""
    family = family_of(covariance_type)
    likelihood = data.likelihood(family, settings.frozen, _prior(data, family, k, settings))
    blank, X = _blank(data, family, k, settings), data.inner(sample, family)
    return Problem(data, likelihood, covariance_type, blank, X, sample.weights, settings)


def from_memberships(
    X: np.ndarray, R: np.ndarray, blank: State, unit: float, shrink: bool = True
) -> State:
    """States whose components are weighted groups ``R`` (..., k, n) of inner objects ``X`` (n, d).

    ``unit`` is the weight of one object; ``shrink`` whether small groups are shrunk towards the
    pooled scatter.
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
    # The mean scatter takes the place of a previous solution: EM refines iterative families anyway.
    before = scatter / kernel.spread(mass, scatter)
    covariances = families.covariances(blank.family, scatter, mass, before, blank.floor, 1)
    weights = mass / mass.sum(axis=-1, keepdims=True)
    if blank.noise is not None:
        noise = np.broadcast_to(blank.weights[k:], (*several, 1))
        weights = np.concatenate([weights * (1.0 - noise), noise], axis=-1)
    return blank._replace(weights=weights, means=means, covariances=covariances)


def rated(likelihood: Likelihood, run: loop.Run, covariance_type: str) -> Fit:
    """A fit with its criteria; a collapsed component is a failure and says so."""
    k, noise = len(run.state.means), run.state.noise is not None
    p = likelihood.n_parameters(k, noise)
    inner, sure = likelihood.rating(run.state)
    value = inner + likelihood.log_volume()
    run = run._replace(objective=value + float(likelihood.log_prior(run.state)))
    scaled = value * likelihood.count / likelihood.total
    log_n = np.log(likelihood.count)
    bic, aic = -2.0 * scaled + p * log_n, -2.0 * scaled + 2.0 * p
    icl = bic - 2.0 * sure * likelihood.count / likelihood.total
    spikes = collapsed(run.state, likelihood.count, likelihood.view.coordinates.thinnest)
    setting = {"n_clusters": k, "covariance_type": covariance_type}
    candidate = ModelCandidate(setting, bic, icl, aic, value, p)
    if spikes.any() and likelihood.prior is None:
        reason = f"component {np.flatnonzero(spikes)[0]} of {k} collapsed"
        candidate = candidate.failed(reason)
    return Fit(candidate, likelihood, run)


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
    matrices = kernel.matrices(state)
    if not np.isfinite(matrices).all():  # nothing is left of this mixture
        return np.ones(k, dtype=bool)
    return few | (np.linalg.eigvalsh(matrices)[:, 0] <= 1.5 * state.floor)


def small(state: State, count: float) -> np.ndarray:
    """Which components (k,) hold fewer objects than fix a shape: d + 1, or 3 if it is spherical.

    Never more than half of n / k objects. Such components are no failure, but runs without them are
    preferred, since they often hold a few outliers.
    """
    k, d = state.means.shape
    wanted = min(3.0 if state.family[1] == "I" else d + 1.0, 0.5 * count / k)
    return state.weights[:k] * count < wanted * (1.0 - 1e-6)


def doubt(data: MixtureData, fit: Fit) -> float:
    """Twice the log-likelihood that a fit gains from thin components of few objects.

    It is the loss when the scale of mclust's prior is added to the scatter of every component, as
    with ``prior="default"``: almost nothing for components that have many objects or are as wide as
    the others, about ten for seven objects near a line.
    """
    state, family = fit.run.state, fit.run.state.family
    if data.holes or fit.likelihood.prior is not None:
        return 0.0
    k, d = state.means.shape
    counts, matrices = state.weights[:k] * fit.likelihood.count, kernel.matrices(state)
    if families.has_one_covariance(family):
        counts, matrices = counts.sum(keepdims=True), matrices[:1]
    scale = data.prior_scale(family, k)[None]
    scale = families.as_matrices(families.reduced(scale, family), family, d)
    factor = np.linalg.inv(kernel.cholesky(matrices, state.floor))
    wider = np.linalg.eigvalsh(factor @ scale @ np.swapaxes(factor, 1, 2))
    wider = np.maximum(wider, 0.0) / np.maximum(counts, 1e-100)[:, None]
    return float(np.sum(counts[:, None] * (np.log1p(wider) - wider / (1.0 + wider))))


def fits_from(
    data: MixtureData, sample: Sample, labels: np.ndarray, types: Sequence[str], settings: Settings
) -> list[Fit]:
    """Fits of all types from a partition ``labels`` (n,) of the sample.

    The simplest family comes first, then the others from the freest on. One that is passed over has
    the likelihood and the state of the freer one that rules it out.
    """
    k, d = int(labels.max()) + 1, sample.X.shape[1]
    R = (labels == np.arange(k)[:, None]) * sample.weights
    costs = {name: families.n_parameters(family_of(name), k, d) for name in types}
    simplest, *others = sorted(types, key=lambda name: costs[name])
    fits: dict[str, Fit] = {}
    best = dict.fromkeys((settings.criterion, "bic"), np.inf)  # averages have weights by BIC
    for name in (simplest, *reversed(others)):
        freer = [fit for other, fit in fits.items() if families.lies_within(name, other)]
        least = min(freer, key=_highest, default=None)
        if least is not None and all(
            _bound(least, costs[name], by) > value + BEHIND for by, value in best.items()
        ):
            fits[name] = _passed_over(least, name, costs[name], settings.criterion)
            continue
        own = problem(data, sample, k, name, settings)
        run = own.likelihood.run(own.state(R), settings.max_iter, settings.tol)
        fits[name] = fit = own.rate(run)
        values = {by: getattr(fit.candidate, by) for by in best}
        if any(values[by] < best[by] for by in best):
            more = doubt(data, fit)
            best = {by: min(value, values[by] + more) for by, value in best.items()}
    return [fits[name] for name in types]


def is_passed_over(fit: Fit) -> bool:
    """Whether a candidate was not fitted because it could not have been the best."""
    return fit.run.n_iter == 0


def _passed_over(ruling: Fit, name: str, n_parameters: int, criterion: str) -> Fit:
    bound = _bound(ruling, n_parameters, criterion)
    reason = (
        f"not fitted: its {criterion.upper()} would be {bound:.1f} at least, too high to be chosen"
    )
    setting = {"n_clusters": ruling.candidate.n_clusters, "covariance_type": name}
    candidate = ModelCandidate(setting, n_parameters=n_parameters, reason=reason)
    return Fit(candidate, ruling.likelihood, ruling.run._replace(n_iter=0))


def _highest(fit: Fit) -> float:
    """The log-likelihood that a stricter family has at most, infinite where the fit failed."""
    value = fit.candidate.log_likelihood
    return value if np.isfinite(value) else np.inf


def _bound(fit: Fit, n_parameters: int, criterion: str) -> float:
    """What a criterion is at least, the likelihood being at most that of a freer family."""
    likelihood = fit.likelihood
    cost = 2.0 if criterion == "aic" else float(np.log(likelihood.count))
    return -2.0 * _highest(fit) * likelihood.count / likelihood.total + cost * n_parameters


def _prior(data: MixtureData, family: str, k: int, settings: Settings) -> Prior | None:
    if settings.prior is None:
        return None
    if isinstance(settings.prior, str):
        return default_prior(data.prior_scale(family, k))
    return inner_prior(settings.prior, data.coordinates(family))


def _blank(data: MixtureData, family: str, k: int, settings: Settings) -> State:
    """Components that are all the whole data, with noise."""
    d = data.X.shape[1]
    whole = np.broadcast_to(data.covariance(family), (k, d, d))
    weights, noise = np.full(k, 1.0 / k), None
    if settings.noise is not None:
        weights = np.append((1.0 - settings.noise) * weights, settings.noise)
        noise = data.noise_density(family)
    covariances = np.array(families.reduced(whole, family))
    return State(weights, np.zeros((k, d)), covariances, family, settings.reg_covar, noise)


def _put_in(state: State, covariance_type: str, data: MixtureData, settings: Settings) -> State:
    """The state with the parameters that the user gave."""
    weights, means, covariances = settings.given
    coordinates = data.coordinates(state.family)
    if weights is not None:
        state = state._replace(weights=weights)
    if means is not None:
        state = state._replace(means=np.asarray(coordinates.inner(means.copy()), dtype=np.float64))
    if covariances is not None:
        name = "VVV" if covariance_type == "auto" else covariance_type
        inner = inner_covariances(covariances, name, len(state.means), coordinates)
        if "covariances" not in settings.frozen:
            mass = np.full(len(inner), 1.0 / len(inner))
            scatter = inner * kernel.spread(mass, inner)
            inner = families.covariances(state.family, scatter, mass, None, state.floor)
        state = state._replace(covariances=inner)
    return state


def one_component(data: MixtureData, covariance_type: str, settings: Settings) -> float:
    """BIC of one component, whose maximum has a closed form without a prior."""
    family = family_of(covariance_type)
    coordinates, d = data.coordinates(family), data.X.shape[1]
    if settings.prior is None and coordinates.thinnest > LEAST_WIDTH:
        S = data.covariance(family) * (max(data.count - 1.0, 1.0) / data.count)
        kind = families.kind_of(family)
        if kind == "full":
            log_det = float(np.linalg.slogdet(S)[1])
        else:
            spread = np.diag(S) if kind == "diag" else np.full(d, np.trace(S) / d)
            log_det = float(np.log(spread).sum())
        mean = coordinates.log_volume() - 0.5 * (log_det + d * (1.0 + kernel.LOG_2PI))
        p = families.n_parameters(family, 1, d)
        return float(-2.0 * mean * data.count + p * np.log(data.count))
    alone = replace(settings, given=Given(), frozen=(), fixed=False)
    likelihood = data.likelihood(family, (), _prior(data, family, 1, alone))
    state = likelihood.step(_blank(data, family, 1, replace(alone, noise=None)))[0]
    run = loop.Run(state, 0.0, np.empty(0), 1, True)
    return rated(likelihood, run, covariance_type).candidate.bic
