"""Fits of all families from one clear partition; bounds on the likelihood skip most of them.

A family lies within another where no letter of its name is freer (I before E before V), so that its
likelihood is at most that of the other. What a criterion would be with that likelihood is a bound;
a family whose bound is behind the best by more than what counts in an average is not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...core.model_search import ModelCandidate
from ...numerics import families
from .candidate import Fit, doubt, problem
from .data import MixtureData, Sample
from .parameters import Settings

__all__ = ["BEHIND", "fits_from", "is_passed_over"]

# A family is not fitted if its criterion is behind the best by more than this: 2 log 1000, less
# than a thousandth of the weight of the best one in an average. Runs that stop early are off by a
# tenth of it.
BEHIND = 2.0 * float(np.log(1000.0))
FREEDOM = "IEV"  # letters from the strictest to the freest


def fits_from(
    data: MixtureData, sample: Sample, labels: np.ndarray, types: Sequence[str], settings: Settings
) -> list[Fit]:
    """Fits of all types from a partition ``labels`` (n,) of the sample.

    The simplest family comes first, then the others from the freest on. One that is passed over has
    the likelihood and the state of the freer one that rules it out.
    """
    k, d = int(labels.max()) + 1, sample.X.shape[1]
    R = (labels == np.arange(k)[:, None]) * sample.weights
    costs = {name: families.n_parameters(families.family_of(name), k, d) for name in types}
    simplest, *others = sorted(types, key=lambda name: costs[name])
    fits: dict[str, Fit] = {}
    best = dict.fromkeys((settings.criterion, "bic"), np.inf)  # averages have weights by BIC
    for name in (simplest, *reversed(others)):
        freer = [fit for other, fit in fits.items() if _lies_within(name, other)]
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


@lru_cache(maxsize=len(families.FAMILIES) ** 2)
def _lies_within(name: str, other: str) -> bool:
    pairs = zip(families.family_of(name), families.family_of(other), strict=True)
    return all(FREEDOM.index(a) <= FREEDOM.index(b) for a, b in pairs)


def _highest(fit: Fit) -> float:
    """The log-likelihood that a stricter family has at most, infinite where the fit failed."""
    value = fit.candidate.log_likelihood
    return value if np.isfinite(value) else np.inf


def _bound(fit: Fit, n_parameters: int, criterion: str) -> float:
    """What a criterion is at least, the likelihood being at most that of a freer family."""
    likelihood = fit.likelihood
    cost = 2.0 if criterion == "aic" else float(np.log(likelihood.count))
    return -2.0 * _highest(fit) * likelihood.count / likelihood.total + cost * n_parameters
