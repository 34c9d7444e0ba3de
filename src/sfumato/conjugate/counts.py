"""Pairs for binomial and categorical counts, for events in time, and for uniform numbers below an
unknown bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from ..array.types import Array, ArrayLike, RandomState, Weights
from ..array.validation import as_generator, check_number
from ._pair import ConjugatePair, ScalarPair, Size, Statistics, as_shape, check_positive, quantiles


@dataclass(frozen=True, eq=False)
class Tally(Statistics):
    """Numbers of successes and failures."""

    successes: Any
    failures: Any


@dataclass(frozen=True, eq=False)
class BetaBinomial(ScalarPair):
    """Beta prior on a probability; an observation is the number of successes in ``trials`` trials.

    theta ~ Beta(a, b),  y ~ Binomial(trials, theta),  posterior Beta(a + sum y, b + sum (trials -
    y)).

    Parameters
    ----------
    a, b : float or array of shape (...), default=1.0
        Prior successes and failures.
    trials : int or array of shape (...), default=1
        Number of trials of each observation; 1 for yes-or-no data.

    Examples
    --------
    >>> from sfumato.conjugate import BetaBinomial
    >>> posterior = BetaBinomial(1, 1).posterior([1, 0, 1, 1])
    >>> print(posterior.a, posterior.b, round(posterior.mean, 3))
    4.0 2.0 0.667
    """

    a: Any = 1.0
    b: Any = 1.0
    trials: Any = 1
    _statistics = Tally

    def __post_init__(self) -> None:
        trials = check_positive(self.trials, "trials", most=2.0**53)
        if (trials != np.floor(trials)).any():
            raise ValueError(f"trials must be a whole number, got {self.trials!r}")
        self._freeze(**self._positive("a", "b"), trials=trials)

    def _check(self, data: ArrayLike, weight: ArrayLike | None) -> Any:
        data, weight = super()._check(data, weight)
        beyond = (data < 0) | (data > np.asarray(self.trials)[..., None])
        if (beyond | (data != np.floor(data))).any():
            raise ValueError(
                f"data must be whole numbers from 0 to trials={self.trials}, NaN where missing"
            )
        return data, weight

    def _summarize(self, data: np.ndarray, weight: Weights) -> Tally:
        failures = np.asarray(self.trials)[..., None] - data
        return Tally((weight * data).sum(axis=-1), (weight * failures).sum(axis=-1))

    def _posterior_parameters(self, statistics: Tally) -> dict[str, Any]:
        return {"a": self.a + statistics.successes, "b": self.b + statistics.failures}

    @property
    def distribution(self) -> Any:
        """Distribution of the probability (scipy)."""
        return stats.beta(self.a, self.b)

    @property
    def mean(self) -> Any:
        """Expected probability, a / (a + b)."""
        return _shares(self._both())[..., 0][()]

    @property
    def mode(self) -> Any:
        """Most probable value; NaN if a = b <= 1: the density is flat or has two peaks."""
        return _peak(self._both())[..., 0][()]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval that holds the probability with posterior probability ``level``."""
        return quantiles(self.distribution, level, self.mean)

    def predictive(self) -> Any:
        """Distribution of the next observation: beta-binomial (scipy)."""
        return stats.betabinom(np.asarray(self.trials, dtype=np.int64), self.a, self.b)

    def _both(self) -> np.ndarray:
        return np.stack([self.a, self.b], axis=-1)

    def _log_ratio(self, statistics: Tally) -> Any:
        counts = np.stack(np.broadcast_arrays(*statistics._parts()), axis=-1)
        return _dirichlet_log_ratio(self._both(), counts)

    def _log_base(self, data: np.ndarray, weight: Weights) -> Any:
        failures = np.asarray(self.trials)[..., None] - data
        counts = np.stack(np.broadcast_arrays(data, failures), axis=-1)
        return (weight * _log_multinomial(counts)).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class DirichletMultinomial(ConjugatePair):
    """Dirichlet prior on the probabilities of d categories; an observation is a row of counts.

    theta ~ Dirichlet(concentration),  y ~ Multinomial(theta),  posterior Dirichlet(concentration +
    sum y).

    Parameters
    ----------
    concentration : array of shape (..., d)
        Prior counts.

    Examples
    --------
    >>> from sfumato.conjugate import DirichletMultinomial
    >>> posterior = DirichletMultinomial([1, 1, 1]).posterior([[2, 1, 0], [3, 0, 0]])
    >>> print(posterior.concentration, posterior.mean.round(3))
    [6. 2. 1.] [0.667 0.222 0.111]
    """

    concentration: Any
    _event = {"concentration": 1}
    _observation = 1

    def __post_init__(self) -> None:
        concentration = check_positive(self.concentration, "concentration")
        if concentration.ndim == 0:
            raise ValueError(
                f"concentration must have one entry per category, got {self.concentration!r}: e.g. "
                "np.ones(3)"
            )
        self._freeze(concentration=concentration)

    def _check(self, data: ArrayLike, weight: ArrayLike | None) -> Any:
        data, weight = super()._check(data, weight)
        if (data < 0).any() or data.shape[-1] != self.concentration.shape[-1]:
            raise ValueError(
                f"data must hold nonnegative counts of {self.concentration.shape[-1]} categories, "
                f"got shape {data.shape}"
            )
        if (data != np.floor(data)).any():
            raise ValueError(
                f"data must hold whole counts, got {data[data != np.floor(data)][0]:g}: put parts "
                "of a count into weight"
            )
        return data, weight

    def _summarize(self, data: Any, weight: Any) -> Any:
        return (weight[..., None] * data).sum(axis=-2)

    def _fits(self, statistics: Any) -> bool:
        if not isinstance(statistics, (np.ndarray, list)):
            return False
        counts = np.asarray(statistics)
        return counts.dtype.kind in "biuf" and counts.shape[-1:] == self.concentration.shape[-1:]

    def _posterior_parameters(self, statistics: ArrayLike) -> dict[str, Any]:
        return {"concentration": self.concentration + np.asarray(statistics)}

    @property
    def distribution(self) -> Any:
        """Distribution of the probabilities (scipy); for a single prior."""
        self._require_single("distribution")
        return stats.dirichlet(self.concentration)

    @property
    def mean(self) -> Any:
        """Expected probabilities (..., d)."""
        return _shares(self.concentration)

    @property
    def mode(self) -> Any:
        """Most probable probabilities (..., d); 0 where the concentration is 1 or less.

        If all are, the mode is the corner of the largest one, or NaN if several are equally large.
        """
        return _peak(self.concentration)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval of each single probability, low and high of shape (..., d)."""
        rest = self.concentration.sum(axis=-1, keepdims=True) - self.concentration
        each = stats.beta(self.concentration, np.maximum(rest, np.finfo(float).tiny))
        return quantiles(each, level, self.mean)

    def sample(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Probabilities drawn from the distribution, of shape (size, ..., d)."""
        rng = as_generator(random_state)
        shape = as_shape(size) + self.concentration.shape
        gamma = rng.standard_gamma(self.concentration, size=shape)
        reached = rng.random(gamma.shape[:-1] + (1,)) < np.cumsum(self.mean, axis=-1)
        reached[..., -1] = True
        corner = reached & (np.cumsum(reached, axis=-1) == 1)  # limit of small concentrations
        return _shares(np.where((gamma > 0).any(axis=-1, keepdims=True), gamma, corner))

    def predictive(self, total: ArrayLike = 1) -> Any:
        """Dirichlet-multinomial distribution (scipy) of the next counts with sum ``total``."""
        self._require_single("predictive")
        total = check_number(total, "total", low=0, integer=True)
        return stats.dirichlet_multinomial(self.concentration, total)

    def _log_ratio(self, statistics: Array) -> Any:
        return _dirichlet_log_ratio(self.concentration, statistics)

    def _log_base(self, data: np.ndarray, weight: Weights) -> Any:
        return (weight * _log_multinomial(data)).sum(axis=-1)


def _shares(concentration: np.ndarray) -> np.ndarray:
    """Entries divided by their sum over the last axis, safe against overflow and underflow."""
    shares = concentration / concentration.max(axis=-1, keepdims=True)
    return shares / shares.sum(axis=-1, keepdims=True)


def _peak(concentration: np.ndarray) -> np.ndarray:
    """Mode of a Dirichlet: excess over 1, normalised; else the corner of the largest, or NaN."""
    excess = np.maximum(concentration - 1, 0.0)
    inner = (excess > 0).any(axis=-1, keepdims=True)
    largest = concentration == concentration.max(axis=-1, keepdims=True)
    corner = np.where(largest.sum(axis=-1, keepdims=True) == 1, largest.astype(np.float64), np.nan)
    return np.where(inner, _shares(np.where(inner, excess, 1.0)), corner)


def _dirichlet_log_ratio(concentration: np.ndarray, counts: Array) -> Any:
    """log Z(concentration + counts) - log Z(concentration) of a Dirichlet over the last axis."""
    total = _log_rise(concentration.sum(axis=-1), counts.sum(axis=-1))
    return _log_rise(concentration, counts).sum(axis=-1) - total


def _log_rise(a: ArrayLike, z: Any) -> Any:
    """log Gamma(a + z) - log Gamma(a), accurate also where a is much larger than z."""
    # For large a the difference of two log gammas loses all digits; the beta function does not.
    some = np.where(z > 0, z, 1.0)
    return np.where(z > 0, gammaln(some) - betaln(a, some), 0.0)


def _log_multinomial(counts: Array) -> Any:
    """Logarithm of the multinomial coefficient of the counts along the last axis."""
    return gammaln(counts.sum(axis=-1) + 1.0) - gammaln(counts + 1.0).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class Events(Statistics):
    """Number of events, and the time in which they happened."""

    events: Any
    time: Any


class _NonnegativePair(ScalarPair):
    """A pair whose observations are nonnegative numbers."""

    _observations = "numbers"

    def _check(self, data: ArrayLike, weight: ArrayLike | None) -> Any:
        data, weight = super()._check(data, weight)
        fraction = self._observations == "whole numbers" and (data != np.floor(data)).any()
        if fraction or (data < 0).any():
            raise ValueError(f"data must be {self._observations} of at least 0, NaN where missing")
        return data, weight


@dataclass(frozen=True, eq=False)
class _GammaPair(_NonnegativePair):
    """A gamma prior on a rate: events add to its shape, and time adds to its rate parameter."""

    shape: Any = 1.0
    rate: Any = 1.0
    _statistics = Events

    def __post_init__(self) -> None:
        self._freeze(**self._positive("shape", "rate"))

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
        events, time = statistics._parts()
        rate = self.shape * np.log1p(time / self.rate) + events * np.log(self.rate + time)
        return _log_rise(self.shape, events) - rate


@dataclass(frozen=True, eq=False)
class GammaPoisson(_GammaPair):
    """Gamma prior on the rate of counts; an observation is the number of events in one unit of
    time.

    lambda ~ Gamma(shape, rate),  y ~ Poisson(lambda),  posterior Gamma(shape + sum y, rate + n).

    Parameters
    ----------
    shape, rate : float or array of shape (...), default=1.0
        Prior number of events, and the time in which they were seen.

    Examples
    --------
    >>> from sfumato.conjugate import GammaPoisson
    >>> posterior = GammaPoisson(2, 1).posterior([3, 1, 2])
    >>> print(posterior.shape, posterior.rate, posterior.mean)
    8.0 4.0 2.0
    """

    _observations = "whole numbers"

    def _summarize(self, data: np.ndarray, weight: Any) -> Events:
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
        Prior number of events, and the total waiting time.

    Examples
    --------
    >>> from sfumato.conjugate import GammaExponential
    >>> posterior = GammaExponential(2, 1).posterior([0.5, 1.5, 1.0])
    >>> print(posterior.shape, posterior.rate, posterior.mean)
    5.0 4.0 1.25
    """

    _observations = "times"

    def _summarize(self, data: np.ndarray, weight: Any) -> Events:
        return Events(weight.sum(axis=-1), (weight * data).sum(axis=-1))

    def predictive(self) -> Any:
        """Distribution of the next time: Lomax (scipy)."""
        return stats.lomax(self.shape, scale=self.rate)


@dataclass(frozen=True, eq=False)
class Largest(Statistics):
    """Total weight and maximum of some numbers; the maximum of no numbers is 0."""

    count: Any
    largest: Any

    def __add__(self, other: Any) -> Largest:
        return Largest(self.count + other.count, np.maximum(self.largest, other.largest))


@dataclass(frozen=True, eq=False)
class ParetoUniform(_NonnegativePair):
    """Pareto prior on the upper bound of uniformly distributed numbers.

    theta ~ Pareto(shape) above ``bound``, y ~ Uniform(0, theta), the posterior has bound
    max(``bound``, max y) and shape + n.

    Parameters
    ----------
    bound, shape : float or array of shape (...), default=1.0
        Smallest possible value of theta, and the number of prior observations.

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
        self._freeze(**self._positive("bound", "shape"))

    def _summarize(self, data: np.ndarray, weight: Any) -> Largest:
        seen = np.where(weight > 0, data, 0.0)
        return Largest(weight.sum(axis=-1), seen.max(axis=-1, initial=0.0))

    def _posterior_parameters(self, statistics: Largest) -> dict[str, Any]:
        bound = np.maximum(self.bound, statistics.largest)
        return {"bound": bound, "shape": self.shape + statistics.count}

    @property
    def distribution(self) -> Any:
        """Distribution of the upper bound: Pareto (scipy)."""
        return stats.pareto(self.shape, scale=self.bound)

    @property
    def mean(self) -> Any:
        """Expected upper bound; infinite where the shape is 1 or less."""
        above = np.where(self.shape > 1, self.shape, 2.0)
        return np.where(self.shape > 1, self.bound * (above / (above - 1.0)), np.inf)[()]

    @property
    def mode(self) -> Any:
        """Most probable upper bound: the smallest possible one."""
        return np.asarray(self.bound)[()]

    def predictive(self) -> Any:
        """Distribution of the next number (scipy): flat up to the bound, a power law above it."""
        return uniform_pareto(self.shape, scale=self.bound)

    def _log_ratio(self, statistics: Largest) -> Any:
        # shape bound^shape / ((shape + count) m^(shape + count)),  m = max(bound, largest)
        count, m = statistics.count, np.maximum(self.bound, statistics.largest)
        power = self.shape * np.log(m / self.bound) + count * np.log(m)
        return -np.log1p(count / self.shape) - power


class _UniformPareto(stats.rv_continuous):
    """Uniform numbers whose upper bound is Pareto distributed above 1."""

    def _pdf(self, x: Array, a: Array) -> Any:
        return np.exp(self._logpdf(x, a))

    def _logpdf(self, x: Array, a: Array) -> Any:
        return np.log(a) - np.log1p(a) - (a + 1.0) * np.log(np.maximum(x, 1.0))

    def _cdf(self, x: Array, a: Array) -> Any:
        return np.where(x < 1.0, a * x / (a + 1.0), 1.0 - np.maximum(x, 1.0) ** -a / (a + 1.0))

    def _ppf(self, q: Array, a: Array) -> Any:
        beyond = np.maximum((1.0 - q) * (a + 1.0), np.finfo(np.float64).tiny)
        return np.where(q < a / (a + 1.0), q * (a + 1.0) / a, beyond ** (-1.0 / a))


uniform_pareto = _UniformPareto(a=0.0, name="uniform_pareto", shapes="a")
