"""Rates and bounds: counts and waiting times with an unknown rate, and numbers up to an unknown
bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from ..array.types import Array, ArrayLike, Weights
from ._pair import MOST, ScalarPair
from .kernel import Events, Largest

__all__ = ["GammaExponential", "GammaPoisson", "ParetoUniform"]


@dataclass(frozen=True, eq=False)
class _GammaPair(ScalarPair):
    """A gamma prior on a rate: events add to the shape, time adds to the rate of the prior."""

    shape: Any = 1.0
    rate: Any = 1.0
    _statistics = Events

    def __post_init__(self) -> None:
        self._freeze(**self._positive("shape", "rate", most=MOST))

    def _posterior_parameters(self, statistics: Events) -> dict[str, Any]:
        return {"shape": self.shape + statistics.events, "rate": self.rate + statistics.time}

    @property
    def distribution(self) -> Any:
        """Distribution of the rate: gamma (scipy)."""
        return stats.gamma(self.shape, scale=1.0 / np.asarray(self.rate))

    @property
    def mean(self) -> Any:
        """Expected rate, shape / rate."""
        return (self.shape / self.rate)[()]

    @property
    def mode(self) -> Any:
        """Most probable rate; 0 where the shape is 1 or less."""
        return (np.maximum(self.shape - 1.0, 0.0) / self.rate)[()]

    def _log_ratio(self, statistics: Events) -> Any:
        return _gamma_log_ratio(self.shape, self.rate, statistics.events, statistics.time)


def _gamma_log_ratio(shape: Any, rate: Any, events: Any, time: Any) -> Any:
    """log of  G(shape + events) rate^shape / (G(shape) (rate + time)^(shape + events)).

    The ratio of gamma functions is written by a beta function, which does not cancel under a firm
    prior.
    """
    events = np.asarray(events, dtype=np.float64)
    some = np.where(events > 0, events, 1.0)
    rising = np.where(events > 0, gammaln(some) - betaln(shape, some), 0.0)
    return rising - shape * np.log1p(time / rate) - events * np.log(rate + time)


@dataclass(frozen=True, eq=False)
class GammaPoisson(_GammaPair):
    """Gamma prior on the rate of counts.

    An observation is the number of events in one unit of time.

    lambda ~ Gamma(shape, rate),  y ~ Poisson(lambda),  posterior Gamma(shape + sum y, rate + n).

    Parameters
    ----------
    shape, rate : float or array of shape (...), default=1.0
        Prior events, and the time in which they were seen.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 2.6.

    Examples
    --------
    >>> from sfumato.conjugate import GammaPoisson
    >>> posterior = GammaPoisson(2, 1).posterior([3, 1, 2])
    >>> print(posterior.shape, posterior.rate, posterior.mean)
    8.0 4.0 2.0
    """

    def _check(self, data: ArrayLike, weight: ArrayLike) -> Any:
        data, weight = super()._check(data, weight)
        if (data < 0).any() or (data != np.floor(data)).any():
            raise ValueError("data must be whole numbers of at least 0, NaN where missing")
        return data, weight

    def _summarize(self, data: Any, weight: Any) -> Events:
        return Events((weight * data).sum(axis=-1), weight.sum(axis=-1))

    def predictive(self) -> Any:
        """Distribution of the next count: negative binomial (scipy)."""
        return stats.nbinom(self.shape, self.rate / (self.rate + 1.0))

    def _log_base(self, data: np.ndarray, weight: Weights) -> Any:
        return -(weight * gammaln(data + 1.0)).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class GammaExponential(_GammaPair):
    """Gamma prior on the rate of waiting times; an observation is the time until an event.

    lambda ~ Gamma(shape, rate),  y ~ Exponential(lambda),  posterior Gamma(shape + n, rate + sum
    y).

    Parameters
    ----------
    shape, rate : float or array of shape (...), default=1.0
        Prior events, and the time that was waited for them.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 2.6.

    Examples
    --------
    >>> from sfumato.conjugate import GammaExponential
    >>> posterior = GammaExponential(2, 1).posterior([0.5, 1.5, 1.0])
    >>> print(posterior.shape, posterior.rate, posterior.mean)
    5.0 4.0 1.25
    """

    def _check(self, data: ArrayLike, weight: ArrayLike) -> Any:
        data, weight = super()._check(data, weight)
        if (data < 0).any():
            raise ValueError("data must be times of at least 0, NaN where missing")
        return data, weight

    def _summarize(self, data: Any, weight: Any) -> Events:
        return Events(weight.sum(axis=-1), (weight * data).sum(axis=-1))

    def predictive(self) -> Any:
        """Distribution of the next time: Lomax (scipy)."""
        return stats.lomax(self.shape, scale=self.rate)

    def _log_base(self, data: np.ndarray, weight: Any) -> Any:
        return np.zeros(np.shape(weight)[:-1])


@dataclass(frozen=True, eq=False)
class ParetoUniform(ScalarPair):
    """Pareto prior on the upper bound of uniform numbers.

    theta ~ Pareto(shape) above ``bound``,  y ~ Uniform(0, theta),  posterior: the larger of
    ``bound`` and max y as the bound, shape + n.

    Parameters
    ----------
    bound, shape : float or array of shape (...), default=1.0
        The bound is at least ``bound``; ``shape`` counts the prior observations.

    References
    ----------
    DeGroot (1970). Optimal Statistical Decisions, section 9.7.

    Examples
    --------
    >>> from sfumato.conjugate import ParetoUniform
    >>> posterior = ParetoUniform(1, 2).posterior([0.5, 3.0])
    >>> print(posterior.bound, posterior.shape, posterior.mean)
    3.0 4.0 4.0
    """

    bound: Any = 1.0
    shape: Any = 1.0
    _statistics = Largest

    def __post_init__(self) -> None:
        self._freeze(**self._positive("bound", "shape", most=MOST))

    def _check(self, data: ArrayLike, weight: ArrayLike) -> Any:
        data, weight = super()._check(data, weight)
        if (data < 0).any():
            raise ValueError("data must be numbers of at least 0, NaN where missing")
        return data, weight

    def _summarize(self, data: Any, weight: Any) -> Largest:
        seen = np.where(weight > 0, data, 0.0)
        return Largest(weight.sum(axis=-1), seen.max(axis=-1, initial=0.0))

    def _posterior_parameters(self, statistics: Largest) -> dict[str, Any]:
        return {
            "bound": np.maximum(self.bound, statistics.largest),
            "shape": self.shape + statistics.count,
        }

    @property
    def distribution(self) -> Any:
        """Distribution of the bound of the data: Pareto (scipy)."""
        return stats.pareto(self.shape, scale=self.bound)

    @property
    def mean(self) -> Any:
        """Expected bound; infinite where the shape is 1 or less."""
        above = np.where(self.shape > 1, self.shape, 2.0)
        return np.where(self.shape > 1, self.bound * (above / (above - 1.0)), np.inf)[()]

    @property
    def mode(self) -> Any:
        """Most probable bound: the least possible one."""
        return np.asarray(self.bound)[()]

    def predictive(self) -> Any:
        """Distribution of the next number (scipy): flat up to the bound, then a power of the
        number.
        """
        return uniform_pareto(self.shape, scale=self.bound)

    def _log_ratio(self, statistics: Largest) -> Any:
        return _pareto_log_ratio(self.bound, self.shape, statistics.count, statistics.largest)

    def _log_base(self, data: np.ndarray, weight: Any) -> Any:
        return np.zeros(np.shape(weight)[:-1])


def _pareto_log_ratio(bound: Any, shape: Any, count: Any, largest: Any) -> Any:
    """log of  shape bound^shape / ((shape + count) m^(shape + count)),  m = max(bound, largest)."""
    m = np.maximum(bound, largest)
    return -np.log1p(count / shape) - shape * np.log(m / bound) - count * np.log(m)


class _UniformPareto(stats.rv_continuous):
    """Uniform numbers up to a bound that is Pareto distributed above 1."""

    def _pdf(self, x: Array, a: Array) -> Any:
        return a / (a + 1.0) * np.maximum(x, 1.0) ** -(a + 1.0)

    def _logpdf(self, x: Array, a: Array) -> Any:
        return np.log(a) - np.log1p(a) - (a + 1.0) * np.log(np.maximum(x, 1.0))

    def _cdf(self, x: Array, a: Array) -> Any:
        return np.where(x < 1.0, a * x / (a + 1.0), 1.0 - np.maximum(x, 1.0) ** -a / (a + 1.0))

    def _ppf(self, q: Array, a: Array) -> Any:
        beyond = np.maximum((1.0 - q) * (a + 1.0), np.finfo(np.float64).tiny)
        return np.where(q < a / (a + 1.0), q * (a + 1.0) / a, beyond ** (-1.0 / a))


uniform_pareto = _UniformPareto(a=0.0, name="uniform_pareto", shapes="a")
