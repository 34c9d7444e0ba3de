"""Fits of all families from one clear partition; bounds on the likelihood skip most of them.

A family lies within another where no letter of its name is freer (I before E before V), so that its
likelihood is at most that of the other. What a criterion would be with that likelihood is a bound;
a family whose bound is behind the best by more than what counts in an average is not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...numerics.families import FAMILIES
from .candidate import Fit, Problem, doubt
from .data import MixtureData

__all__ = ["fits_from", "is_passed_over"]

# A family is not fitted if its criterion is behind the best by more than this: 2 log 1000, less
# than a thousandth of the weight of the best one in an average. Runs that stop early are off by a
# tenth of it.
BEHIND = 2.0 * float(np.log(1000.0))
FREEDOM = "IEV"  # letters from the strictest to the freest


def fits_from(data: MixtureData, problems: Sequence[Problem], R: np.ndarray) -> list[Fit]:
    """Fits of all problems from weighted groups ``R`` (k, n) of the sample.

    The simplest family comes first, then the others from the freest on.
    """
    costs = {problem.blank.family: problem.n_parameters for problem in problems}
    simplest, *others = sorted(problems, key=lambda problem: costs[problem.blank.family])
    fits: dict[str, Fit] = {}
    best = np.inf
    for problem in (simplest, *reversed(others)):
        settings, family = problem.settings, problem.blank.family
        freer = [fit for name, fit in fits.items() if _lies_within(family, name)]
        bound = max((_bound(problem, costs[family], fit) for fit in freer), default=-np.inf)
        if bound > best + BEHIND:
            fits[family] = problem.passed_over(bound)
            continue
        run = problem.likelihood.run(problem.state(R), settings.max_iter, settings.tol)
        fits[family] = fit = problem.rate(run)
        value = getattr(fit.candidate, settings.criterion)
        if value < best:
            best = min(best, value + doubt(data, fit))
    return [fits[problem.blank.family] for problem in problems]


def is_passed_over(fit: Fit) -> bool:
    """Whether a candidate was not fitted because it could not have been the best."""
    return fit.run.n_iter == 0


@lru_cache(maxsize=len(FAMILIES) ** 2)
def _lies_within(family: str, other: str) -> bool:
    return all(FREEDOM.index(a) <= FREEDOM.index(b) for a, b in zip(family, other, strict=True))


def _bound(problem: Problem, n_parameters: int, fit: Fit) -> float:
    """What the criterion is at least, the likelihood being at most that of a freer family."""
    candidate, likelihood = fit.candidate, problem.likelihood
    if not np.isfinite(candidate.log_likelihood):
        return -np.inf
    cost = 2.0 if problem.settings.criterion == "aic" else float(np.log(likelihood.count))
    scaled = candidate.log_likelihood * likelihood.count / likelihood.total
    return -2.0 * scaled + cost * n_parameters
