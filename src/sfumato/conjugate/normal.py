"""Normal data: numbers with unknown mean, unknown variance or both, and vectors with unknown mean
and covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from ..array.types import Array, ArrayLike, RandomState, Weights
from ..array.validation import as_generator
from ._pair import (
    ConjugatePair,
    Joint,
    NormalizedPair,
    ScalarPair,
    Size,
    as_shape,
    check_finite,
    check_positive,
    quantiles,
)
from .kernel import (
    LOG_2PI,
    Moments,
    draw_inverse_wishart,
    moments,
    normal_gamma_log_normalizer,
    normal_wishart_log_normalizer,
    pull,
    student_log_density,
)

__all__ = ["NormalInverseGamma", "NormalInverseWishart", "NormalKnownMean", "NormalKnownVariance"]


class _Normal(ConjugatePair):
    """Normal data (..., n)."""

    def _summarize(self, data: np.ndarray, weight: Weights) -> Moments:
        return moments(data, weight)

    def _fits(self, statistics: Any) -> bool:
        return isinstance(statistics, Moments) and statistics.mean.ndim == statistics.count.ndim

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
        with np.errstate(divide="ignore", over="ignore"):  # a tiny shape: as large as numbers go
            draws = self.scale / rng.gamma(self.shape, size=size)
        variance = np.minimum(draws, np.finfo(np.float64).max)
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


@dataclass(frozen=True, eq=False)
class NormalInverseWishart(NormalizedPair):
    """Prior on mean and covariance of normal vectors.

    Sigma ~ InverseWishart(df, scale),  mu | Sigma ~ N(mean, Sigma / kappa),  y ~ N(mu, Sigma). With
    n observations of mean ybar and scatter S: kappa' = kappa + n, df' = df + n, mean' = mean + n
    (ybar - mean) / kappa', scale' = scale + S + (kappa n / kappa') (ybar - mean)(ybar - mean)'.

    Parameters
    ----------
    mean : array of shape (..., d)
        Expected mean.
    kappa : float or array of shape (...)
        How many observations the prior mean is worth.
    df : float or array of shape (...)
        Degrees of freedom, more than d - 1; the expected covariance is scale / (df - d - 1).
    scale : array of shape (..., d, d)
        Symmetric, positive definite; scipy's ``invwishart(df, scale)``.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 3.6.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.conjugate import NormalInverseWishart
    >>> prior = NormalInverseWishart(mean=np.zeros(2), kappa=1, df=4, scale=np.eye(2))
    >>> posterior = prior.posterior([[1.0, 0.0], [3.0, 0.0]])
    >>> print(posterior.mean.round(3), posterior.df, posterior.scale.round(3).tolist())
    [1.333 0.   ] 6.0 [[5.667, 0.0], [0.0, 1.0]]
    """

    mean: Any
    kappa: Any
    df: Any
    scale: Any
    _event = {"mean": 1, "scale": 2}
    _observation = 1
    _missing = False

    def __post_init__(self) -> None:
        mean, scale = check_finite(self.mean, "mean"), check_finite(self.scale, "scale")
        if mean.ndim == 0 or scale.ndim < 2 or scale.shape[-2:] != (mean.shape[-1],) * 2:
            raise ValueError(
                f"mean (d,) and scale (d, d) must agree, got shapes {mean.shape} and {scale.shape}"
            )
        width = np.sqrt(np.abs(np.diagonal(scale, axis1=-2, axis2=-1)))
        if (
            np.abs(scale / 2 - np.swapaxes(scale, -1, -2) / 2)
            > 1e-8 * width[..., None] * width[..., None, :]
        ).any():
            raise ValueError(
                "scale must be symmetric: average it with its transpose, (scale + scale.T) / 2"
            )
        scale = scale / 2 + np.swapaxes(scale, -1, -2) / 2
        try:
            np.linalg.cholesky(scale)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "scale must be positive definite: add a small multiple of the identity"
            ) from error
        kappa, df = (
            check_positive(self.kappa, "kappa"),
            check_positive(self.df, "df", above=mean.shape[-1] - 1.0),
        )
        self._freeze(mean=mean, kappa=kappa, df=df, scale=scale)

    def _check(self, data: Any, weight: Any) -> Any:
        data, weight = super()._check(data, weight)
        if data.shape[-1] != self.mean.shape[-1]:
            raise ValueError(
                f"data must hold vectors of length {self.mean.shape[-1]}, got shape {data.shape}"
            )
        return data, weight

    def _summarize(self, data: np.ndarray, weight: Weights) -> Moments:
        return moments(data, weight, vectors=True)

    def _fits(self, statistics: Any) -> bool:
        vectors = (
            isinstance(statistics, Moments) and statistics.mean.ndim == statistics.count.ndim + 1
        )
        return vectors and statistics.mean.shape[-1] == self.mean.shape[-1]

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        kappa, mean, square = pull(self.kappa, self.mean, statistics)
        return {
            "mean": mean,
            "kappa": kappa,
            "df": self.df + statistics.count,
            "scale": self.scale + square,
        }

    @property
    def covariance(self) -> Any:
        """Expected covariance (..., d, d) of an observation; infinite where df <= d + 1."""
        excess = np.asarray(self.df - self.mean.shape[-1] - 1)[..., None, None]
        return np.where(excess > 0, self.scale / np.where(excess > 0, excess, 1.0), np.inf)

    @property
    def distribution(self) -> Joint:
        """Marginal distributions of each coordinate (scipy).

        Student t of its mean, inverse gamma of its variance.
        """
        d = self.mean.shape[-1]
        freedom, kappa = (np.asarray(value)[..., None] for value in (self.df - d + 1, self.kappa))
        diagonal = np.diagonal(self.scale, axis1=-2, axis2=-1)
        return Joint(
            stats.t(freedom, self.mean, np.sqrt(diagonal / (kappa * freedom))),
            stats.invgamma(freedom / 2, scale=diagonal / 2),
        )

    @property
    def mode(self) -> Joint:
        """Most probable pair of mean and covariance."""
        return Joint(
            self.mean, self.scale / np.asarray(self.df + self.mean.shape[-1] + 2)[..., None, None]
        )

    def interval(self, level: float = 0.95) -> Joint:
        """Equal-tailed intervals (low, high) of each coordinate's mean and variance, each on its
        own, (..., d).
        """
        return Joint(*(quantiles(marginal, level) for marginal in self.distribution))

    def sample(self, size: Size = None, random_state: RandomState = None) -> Joint:
        """Means (size, ..., d) and covariances (size, ..., d, d) drawn together."""
        rng = as_generator(random_state)
        root = draw_inverse_wishart(rng, np.asarray(self.df), self.scale, as_shape(size))
        step = (root @ rng.standard_normal(root.shape[:-1])[..., None])[..., 0]
        return Joint(
            self.mean + step / np.sqrt(np.asarray(self.kappa))[..., None],
            root @ np.swapaxes(root, -1, -2),
        )

    def _student(self) -> tuple[Any, Any, Any]:
        """Degrees of freedom, mean and shape matrix of the predictive."""
        df = np.asarray(self.df - self.mean.shape[-1] + 1)
        return (
            df,
            self.mean,
            self.scale * np.asarray((self.kappa + 1) / (self.kappa * df))[..., None, None],
        )

    def predictive(self) -> Any:
        """Distribution of the next observation: multivariate Student t (scipy), for one prior: of
        many, take ``posterior[i]``.
        """
        if self.batch_shape:
            raise ValueError(
                f"predictive is for one prior, and this object holds {self.batch_shape}: index "
                "it, or use log_predictive"
            )
        df, mean, shape = self._student()
        return stats.multivariate_t(mean, shape, float(df))

    def _log_predictive(self, data: Array, weight: Array) -> Any:
        return student_log_density(data, *self._student())

    def _log_normalizer(self) -> Any:
        return normal_wishart_log_normalizer(self.kappa, self.df, self.scale)

    def _log_base(self, data: Any, weight: Any) -> Any:
        return -0.5 * LOG_2PI * data.shape[-1] * weight.sum(axis=-1)


def _inverse_gamma_mean(shape: float | np.ndarray, scale: ArrayLike) -> Any:
    return np.where(shape > 1, scale / np.where(shape > 1, shape - 1, 1.0), np.inf)[()]
