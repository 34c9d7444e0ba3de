"""Numbers: a normal with unknown mean, unknown variance, or both."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from ..array.types import Array, ArrayLike, RandomState, Weights
from ..array.validation import as_generator
from ._checks import Size, as_shape, check_finite, quantiles
from ._pair import ConjugatePair, Joint, NormalizedPair, ScalarPair
from .kernel import LOG_2PI, Moments, moments, normal_gamma_log_normalizer, pull

__all__ = ["NormalInverseGamma", "NormalKnownMean", "NormalKnownVariance"]


def _along(value: object) -> np.ndarray:
    """A parameter with an axis for the observations."""
    return np.asarray(value)[..., None]


class _Normal(ConjugatePair):
    """Normal data (..., n)."""

    def _summarize(self, data: np.ndarray, weight: Weights) -> Moments:
        return moments(data, weight)

    def _fits(self, statistics: Any) -> bool:
        return isinstance(statistics, Moments) and statistics.mean.ndim == statistics.count.ndim

    def _log_predictive(self, data: Array, weight: Array) -> Any:
        predictive = type(self)(
            **{name: _along(value) for name, value in self._parameters().items()}
        ).predictive()
        return weight * predictive.logpdf(data)

    @abstractmethod
    def predictive(self) -> Any:
        """Distribution of the next observation."""

    def _log_base(self, data: np.ndarray, weight: Any) -> Any:
        return -0.5 * LOG_2PI * weight.sum(axis=-1)


@dataclass(frozen=True, eq=False)
class NormalKnownVariance(_Normal, ScalarPair):
    """Normal prior on the mean of normal data of known variance.

    mu ~ N(mean, variance),  y ~ N(mu, noise);  the posterior precision is 1/variance + n/noise, the
    posterior mean the precision-weighted mean of prior and data.

    Parameters
    ----------
    mean : float or array of shape (...), default=0.0
        Expected value of the unknown mean.
    variance : float or array of shape (...), default=1.0
        How uncertain the unknown mean is.
    noise : float or array of shape (...), default=1.0
        Known variance of an observation.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 2.5.

    Examples
    --------
    >>> from sfumato.conjugate import NormalKnownVariance
    >>> posterior = NormalKnownVariance(mean=0, variance=1, noise=1).posterior([1.0, 2.0, 3.0])
    >>> print(posterior.mean, posterior.variance)
    1.5 0.25
    """

    mean: Any = 0.0
    variance: Any = 1.0
    noise: Any = 1.0

    def __post_init__(self) -> None:
        mean = check_finite(self.mean, "mean")
        self._freeze(mean=mean, **self._positive("variance", "noise"))

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        _, mean, _ = pull(self.noise / self.variance, self.mean, statistics)
        return {
            "mean": mean,
            "variance": 1 / (1 / self.variance + statistics.count / self.noise),
            "noise": self.noise,
        }

    @property
    def distribution(self) -> Any:
        """Distribution of the mean (scipy)."""
        return stats.norm(self.mean, np.sqrt(self.variance))

    @property
    def mode(self) -> Any:
        """Most probable mean."""
        return self.mean

    def sample(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Means drawn from the distribution, of shape (size, ...)."""
        return as_generator(random_state).normal(
            self.mean, np.sqrt(self.variance), size=as_shape(size) + self.batch_shape
        )

    def predictive(self) -> Any:
        """Distribution of the next observation: normal (scipy)."""
        return stats.norm(self.mean, np.sqrt(self.variance + self.noise))

    def _log_ratio(self, statistics: Moments) -> Any:
        kappa, _, square = pull(self.noise / self.variance, self.mean, statistics)
        shrink = np.log(self.noise / self.variance) - np.log(kappa)
        return 0.5 * (shrink - statistics.count * np.log(self.noise) - square / self.noise)


@dataclass(frozen=True, eq=False)
class NormalKnownMean(_Normal, ScalarPair, NormalizedPair):
    """Inverse gamma prior on the variance of normal data of known mean.

    s2 ~ InverseGamma(shape, scale),  y ~ N(center, s2);  posterior InverseGamma(shape + n/2, scale
    + sum (y - center)^2 / 2).

    Parameters
    ----------
    shape, scale : float or array of shape (...), default=1.0
        Parameters of the inverse gamma distribution (scipy's ``a`` and ``scale``).
    center : float or array of shape (...), default=0.0
        Known mean of an observation.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 2.6.

    Examples
    --------
    >>> from sfumato.conjugate import NormalKnownMean
    >>> posterior = NormalKnownMean(shape=2, scale=1).posterior([1.0, -1.0, 2.0])
    >>> print(posterior.shape, posterior.scale, posterior.mean)
    3.5 4.0 1.6
    """

    shape: Any = 1.0
    scale: Any = 1.0
    center: Any = 0.0

    def __post_init__(self) -> None:
        center = check_finite(self.center, "center")
        self._freeze(**self._positive("shape", "scale"), center=center)

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        square = statistics.scatter + statistics.count * (statistics.mean - self.center) ** 2
        return {
            "shape": self.shape + statistics.count / 2,
            "scale": self.scale + square / 2,
            "center": self.center,
        }

    @property
    def distribution(self) -> Any:
        """Distribution of the variance (scipy)."""
        return stats.invgamma(self.shape, scale=self.scale)

    @property
    def mean(self) -> Any:
        """Expected variance; infinite where shape <= 1."""
        return _inverse_gamma_mean(self.shape, self.scale)

    @property
    def mode(self) -> Any:
        """Most probable variance."""
        return self.scale / (self.shape + 1)

    def sample(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Variances drawn from the distribution, of shape (size, ...)."""
        return _inverse_gamma_draws(
            as_generator(random_state), self.shape, self.scale, as_shape(size) + self.batch_shape
        )

    def predictive(self) -> Any:
        """Distribution of the next observation: Student t (scipy)."""
        return stats.t(2 * self.shape, self.center, np.sqrt(self.scale / self.shape))

    def _log_normalizer(self) -> Any:
        return gammaln(self.shape) - self.shape * np.log(self.scale)


@dataclass(frozen=True, eq=False)
class NormalInverseGamma(_Normal, NormalizedPair):
    """Prior on mean and variance of normal data.

    s2 ~ InverseGamma(shape, scale),  mu | s2 ~ N(mean, s2 / kappa),  y ~ N(mu, s2). With n
    observations of mean ybar and scatter S: kappa' = kappa + n, mean' = mean + n (ybar - mean) /
    kappa', shape' = shape + n/2, scale' = scale + (S + kappa n (ybar - mean)^2 / kappa') / 2. It is
    the one-dimensional ``NormalInverseWishart`` with df = 2 shape and scale 2 scale.

    Parameters
    ----------
    mean : float or array of shape (...), default=0.0
        Expected mean.
    kappa : float or array of shape (...), default=1.0
        How many observations the prior mean is worth.
    shape, scale : float or array of shape (...), default=1.0
        Parameters of the inverse gamma distribution of the variance.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 3.3.

    Examples
    --------
    >>> from sfumato.conjugate import NormalInverseGamma
    >>> posterior = NormalInverseGamma().posterior([1.0, 2.0, 3.0])
    >>> print(posterior.mean, posterior.kappa, posterior.shape, posterior.scale)
    1.5 4.0 2.5 3.5
    """

    mean: Any = 0.0
    kappa: Any = 1.0
    shape: Any = 1.0
    scale: Any = 1.0

    def __post_init__(self) -> None:
        mean = check_finite(self.mean, "mean")
        self._freeze(mean=mean, **self._positive("kappa", "shape", "scale"))

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        kappa, mean, square = pull(self.kappa, self.mean, statistics)
        return {
            "mean": mean,
            "kappa": kappa,
            "shape": self.shape + statistics.count / 2,
            "scale": self.scale + square / 2,
        }

    @property
    def variance(self) -> Any:
        """Expected variance of an observation; infinite where shape <= 1."""
        return _inverse_gamma_mean(self.shape, self.scale)

    @property
    def distribution(self) -> Joint:
        """Marginal distributions: Student t of the mean, inverse gamma of the variance (scipy)."""
        width = np.sqrt(self.scale / (self.shape * self.kappa))
        return Joint(
            stats.t(2 * self.shape, self.mean, width), stats.invgamma(self.shape, scale=self.scale)
        )

    @property
    def mode(self) -> Joint:
        """Most probable pair of mean and variance."""
        return Joint(self.mean, self.scale / (self.shape + 1.5))

    def interval(self, level: float = 0.95) -> Joint:
        """Equal-tailed intervals (low, high) of the mean and of the variance, each on its own."""
        return Joint(*(quantiles(marginal, level) for marginal in self.distribution))

    def sample(self, size: Size = None, random_state: RandomState = None) -> Joint:
        """Pairs of mean and variance drawn together, each of shape (size, ...)."""
        rng = as_generator(random_state)
        size = as_shape(size) + self.batch_shape
        variance = _inverse_gamma_draws(rng, self.shape, self.scale, size)
        return Joint(rng.normal(self.mean, np.sqrt(variance / self.kappa), size=size), variance)

    def predictive(self) -> Any:
        """Distribution of the next observation: Student t (scipy)."""
        return stats.t(
            2 * self.shape,
            self.mean,
            np.sqrt(self.scale * (self.kappa + 1) / (self.kappa * self.shape)),
        )

    def _log_normalizer(self) -> Any:
        return normal_gamma_log_normalizer(self.kappa, self.shape, self.scale)


def _inverse_gamma_mean(shape: float | np.ndarray, scale: ArrayLike) -> Any:
    return np.where(shape > 1, scale / np.where(shape > 1, shape - 1, 1.0), np.inf)[()]


def _inverse_gamma_draws(
    rng: np.random.Generator, shape: float | np.ndarray, scale: Array, size: tuple[int, ...]
) -> Any:
    """Draws that a tiny shape may make as large as numbers go, and not larger."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.minimum(scale / rng.gamma(shape, size=size), np.finfo(np.float64).max)
