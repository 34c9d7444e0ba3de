"""Mixtures of one common covariance (EEE) that cannot be the best, known before any is fitted.

In many features EEE has far more parameters than the axis-parallel families and its steps cost most
of a search. No mixture of k components is more likely than if every object had the density of its
most likely component. These objects are a partition whose scatter is that of all objects less a
matrix of rank k - 1 at most, so that but for the k - 1 largest eigenvalues tau of the covariance of
all objects, none is lost (Weyl). With covariances of at least ``floor`` in every direction

    -2 log L / n  >=  d log(2 pi) + sum of log tau + 1 over the d - k + 1 least tau
                      + (k - 1) log floor

With the parameters of EEE this bounds its criteria. It is not fitted where the bound is behind what
the start of a simpler family has already.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...engine import loop
from ...engine.model_search import ModelCandidate
from ...numerics.families import family_of
from .candidate import BEHIND, Fit, Problem, doubt
from .candidate import problem as problem_of
from .data import MixtureData, Sample
from .kernel import LOG_2PI
from .likelihood import MOST_FEATURES, Likelihood
from .parameters import Settings

__all__ = ["least_criterion", "passed_over", "possible_types"]


def possible_types(
    data: MixtureData,
    sample: Sample,
    groups: dict[int, np.ndarray],
    types: Sequence[str],
    settings: Settings,
) -> tuple[str, ...]:
    """The types without EEE where it cannot be the best with any number of components.

    ``groups`` are the partitions (starts, n) from which every number begins.
    """
    given = settings.fixed or settings.frozen or any(value is not None for value in settings.given)
    simple = [name for name in types if family_of(name) in ("EII", "EEI")]
    plain = not (given or data.holes or data.linked) and settings.noise is None
    common = [name for name in types if family_of(name) == "EEE"]
    if not (plain and simple and common) or data.X.shape[1] <= MOST_FEATURES:
        return tuple(types)
    begun = [
        _start(problem_of(data, sample, k, name, settings), labels[0])
        for k, labels in groups.items()
        for name in simple
    ]
    extra = [doubt(data, fit) for fit in begun]
    likelihood, spread = _spread(data, sample, settings)
    for by in {settings.criterion, "bic"}:  # averages have weights by BIC
        known = [getattr(fit.candidate, by) + more for fit, more in zip(begun, extra, strict=True)]
        bounds = [least_criterion(likelihood, spread, k, settings.reg_covar, by) for k in groups]
        if not min(bounds) > np.nanmin([*known, np.inf]) + BEHIND:
            return tuple(types)
    return tuple(name for name in types if name not in common)


def passed_over(
    data: MixtureData, sample: Sample, k: int, covariance_type: str, settings: Settings
) -> Fit:
    """The row of a candidate of EEE that was not fitted, with the bound as the reason."""
    own = problem_of(data, sample, k, covariance_type, settings)
    likelihood, spread = _spread(data, sample, settings)
    bound = least_criterion(likelihood, spread, k, settings.reg_covar, settings.criterion)
    reason = (
        f"not fitted: its {settings.criterion.upper()} would be {bound:.1f} at least, too high to "
        "be chosen"
    )
    setting = {"n_clusters": k, "covariance_type": covariance_type}
    n_parameters = own.likelihood.n_parameters(k)
    candidate = ModelCandidate(setting, n_parameters=n_parameters, reason=reason)
    return Fit(candidate, own.likelihood, loop.Run(own.blank, -np.inf, np.empty(0), 0, False))


def least_criterion(
    likelihood: Likelihood, spread: np.ndarray, k: int, floor: float, criterion: str
) -> float:
    """What a criterion of EEE with ``k`` components is at least.

    ``spread`` (d,) are the eigenvalues of the covariance of the objects, the least first.
    """
    d = len(spread)
    kept = spread[: max(d - k + 1, 0)]
    # A direction as thin as the floor may have no deviations at all.
    terms = np.where(kept > 2.0 * floor, np.log(np.maximum(kept, floor)) + 1.0, np.log(floor))
    deviance = d * LOG_2PI + terms.sum() + (d - len(kept)) * np.log(floor)
    volume = 2.0 * likelihood.log_volume() * likelihood.count / likelihood.total
    cost = 2.0 if criterion == "aic" else float(np.log(likelihood.count))
    return float(likelihood.count * deviance - volume + cost * likelihood.n_parameters(k))


def _spread(data: MixtureData, sample: Sample, settings: Settings) -> tuple[Likelihood, np.ndarray]:
    """The likelihood of EEE, and the eigenvalues (d,) of the covariance of the objects."""
    alone = problem_of(data, sample, 1, "EEE", settings)
    whole = alone.likelihood.update(alone.likelihood.sum(alone.blank), alone.blank)
    return alone.likelihood, np.linalg.eigvalsh(whole.covariances[0])


def _start(problem: Problem, labels: np.ndarray) -> Fit:
    """The fit that a partition of the sample begins with."""
    R = (labels == np.arange(len(problem.blank.means))[:, None]) * problem.weights
    return problem.rate(loop.Run(problem.state(R), 0.0, np.empty(0), 1, False))
