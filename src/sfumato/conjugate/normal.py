"""Pairs for normal numbers with unknown mean, variance or both, and for normal vectors with unknown
mean and covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln

from ..array.types import Array, ArrayLike, RandomState
from ..array.validation import as_generator
from ._pair import ConjugatePair, Joint, Size, as_shape, check_parameter

LOG_2PI = float(np.log(2 * np.pi))


class Moments(NamedTuple):
    """Moments of a data set; ``a + b`` has those of both data sets together."""

    count: Any  # (...), the total weight
    mean: Any  # (...) or (..., d), zero where the count is zero
    scatter: Any  # (...) or (..., d, d), weighted sum of squares (outer products) about the mean

    def __add__(self, other: Moments) -> Moments:  # type: ignore[override]
        # Unlike sums of squares, this loses no digits far from the origin.
        count, mean, scatter = pull(self.count, self.mean, other)
        return Moments(count, mean, self.scatter + scatter)


def moments(x: np.ndarray, weight: np.ndarray, *, vectors: bool) -> Moments:
    """Moments of numbers ``x`` (..., n) along the last axis, or of vectors (..., n, d)."""
    x, w, count = x if vectors else x[..., None], weight[..., None], weight.sum(axis=-1)
    total = np.where(count > 0, count, 1.0)[..., None]
    mean = (w * x).sum(axis=-2) / total
    # Adding the mean of the residuals corrects rounding errors.
    mean = mean + (w * (x - mean[..., None, :])).sum(axis=-2) / total
    centred = x - mean[..., None, :]
    scatter = np.swapaxes(centred * w, -1, -2) @ centred
    return Moments(count, *((mean, scatter) if vectors else (mean[..., 0], scatter[..., 0, 0])))


def pull(kappa: Array, mean: Array, data: Moments) -> tuple[Any, Any, Any]:
    """Posterior kappa and mean, and the scale added by the distance between data and prior mean.

    kappa' = kappa + count,  mean' = mean + count (xbar - mean) / kappa',
    scatter + (kappa count / kappa') (xbar - mean)(xbar - mean)'.
    """
    total, gap = kappa + data.count, data.mean - mean
    share = data.count / np.where(total > 0, total, 1.0)
    if np.ndim(data.mean) == np.ndim(data.count):
        return total, mean + share * gap, data.scatter + kappa * share * gap**2
    square = (kappa * share)[..., None, None] * gap[..., :, None] * gap[..., None, :]
    return total, mean + share[..., None] * gap, data.scatter + square


def normal_wishart_log_normalizer(kappa: Any, df: Any, scale: np.ndarray) -> Any:
    """log Z = log (2 pi / kappa)^(d/2) 2^(df d / 2) Gamma_d(df / 2) |scale|^(-df / 2)."""
    d = scale.shape[-1]
    constant = 0.5 * d * (LOG_2PI - np.log(kappa) + df * np.log(2.0))
    log_gamma = 0.25 * d * (d - 1) * np.log(np.pi)
    log_gamma = log_gamma + gammaln((np.asarray(df)[..., None] - np.arange(d)) / 2).sum(axis=-1)
    return constant + log_gamma - 0.5 * df * np.linalg.slogdet(scale)[1]


class _Normal(ConjugatePair):
    """Normal data (..., n), or vectors (..., n, d)."""

    _log_normalizer: Callable[
        ..., Any
    ]  # log Z of a prior whose ratios give the marginal likelihood

    def _log_ratio(self, statistics: Any) -> Any:
        return self.update(statistics)._log_normalizer() - self._log_normalizer()

    def _summarize(self, data: np.ndarray, weight: Any) -> Moments:
        return moments(data, weight, vectors=self._observation == 1)

    def _fits(self, statistics: Any) -> bool:
        moments = isinstance(statistics, Moments)
        return moments and np.ndim(statistics.mean) - np.ndim(statistics.count) == self._observation

    def _log_base(self, data: np.ndarray, weight: Any) -> Any:
        width = data.shape[-1] if self._observation else 1
        return -0.5 * LOG_2PI * width * weight.sum(axis=-1)


@dataclass(frozen=True, eq=False)
class NormalKnownVariance(_Normal):
    """Normal prior on the mean of normal data of known variance.

    mu ~ N(mean, variance), y ~ N(mu, known_variance). The posterior precision is
    1/variance + n/known_variance; the posterior mean is the precision-weighted mean of prior and
    data.

    Parameters
    ----------
    mean : float or array of shape (...), default=0.0
        Expected value of the unknown mean.
    variance : float or array of shape (...), default=1.0
        Prior variance of the unknown mean.
    known_variance : float or array of shape (...), default=1.0
        Known variance of an observation.

    Examples
    --------
    >>> from sfumato.conjugate import NormalKnownVariance
    >>> prior = NormalKnownVariance(mean=0, variance=1, known_variance=1)
    >>> posterior = prior.posterior([1.0, 2.0, 3.0])
    >>> print(posterior.mean, posterior.variance)
    1.5 0.25
    """

    mean: Any = 0.0
    variance: Any = 1.0
    known_variance: Any = 1.0

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        _, mean, _ = pull(self.known_variance / self.variance, self.mean, statistics)
        precision = 1 / self.variance + statistics.count / self.known_variance
        return {"mean": mean, "variance": 1 / precision}

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
        return stats.norm(self.mean, np.sqrt(self.variance + self.known_variance))

    def _log_ratio(self, statistics: Moments) -> Any:
        kappa, _, square = pull(self.known_variance / self.variance, self.mean, statistics)
        known = self.known_variance
        shrink = np.log(known / self.variance) - np.log(kappa)
        return 0.5 * (shrink - statistics.count * np.log(known) - square / known)


@dataclass(frozen=True, eq=False)
class NormalKnownMean(_Normal):
    """Inverse gamma prior on the variance of normal data of known mean.

    s2 ~ InverseGamma(shape, scale),  y ~ N(center, s2);  posterior InverseGamma(shape + n/2, scale
    + sum (y - center)^2 / 2).

    Parameters
    ----------
    shape, scale : float or array of shape (...), default=1.0
        Parameters of the inverse gamma distribution (scipy's ``a`` and ``scale``).
    center : float or array of shape (...), default=0.0
        Known mean of an observation.

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

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        square = statistics.scatter + statistics.count * (statistics.mean - self.center) ** 2
        return {"shape": self.shape + statistics.count / 2, "scale": self.scale + square / 2}

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
class NormalInverseGamma(_Normal):
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
        Weight of the prior mean, in observations.
    shape, scale : float or array of shape (...), default=1.0
        Parameters of the inverse gamma distribution of the variance.

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

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        kappa, mean, square = pull(self.kappa, self.mean, statistics)
        shape, scale = self.shape + statistics.count / 2, self.scale + square / 2
        return {"mean": mean, "kappa": kappa, "shape": shape, "scale": scale}

    @property
    def variance(self) -> Any:
        """Expected variance of an observation; infinite where shape <= 1."""
        return _inverse_gamma_mean(self.shape, self.scale)

    @property
    def distribution(self) -> Joint:
        """Marginal distributions: Student t of the mean, inverse gamma of the variance (scipy)."""
        mean = stats.t(2 * self.shape, self.mean, np.sqrt(self.scale / (self.shape * self.kappa)))
        return Joint(mean, stats.invgamma(self.shape, scale=self.scale))

    @property
    def mode(self) -> Joint:
        """Most probable pair of mean and variance."""
        return Joint(self.mean, self.scale / (self.shape + 1.5))

    def sample(self, size: Size = None, random_state: RandomState = None) -> Joint:
        """Pairs of mean and variance from their joint distribution, each of shape (size, ...)."""
        rng = as_generator(random_state)
        size = as_shape(size) + self.batch_shape
        with np.errstate(divide="ignore", over="ignore"):  # overflow is clipped two lines below
            draws = self.scale / rng.gamma(self.shape, size=size)
        variance = np.minimum(draws, np.finfo(np.float64).max)
        return Joint(rng.normal(self.mean, np.sqrt(variance / self.kappa), size=size), variance)

    def predictive(self) -> Any:
        """Distribution of the next observation: Student t (scipy)."""
        width = np.sqrt(self.scale * (self.kappa + 1) / (self.kappa * self.shape))
        return stats.t(2 * self.shape, self.mean, width)

    def _log_normalizer(self) -> Any:
        log_gamma = gammaln(self.shape) - self.shape * np.log(self.scale)
        return 0.5 * (LOG_2PI - np.log(self.kappa)) + log_gamma


@dataclass(frozen=True, eq=False)
class NormalInverseWishart(_Normal):
    """Prior on mean and covariance of normal vectors.

    Sigma ~ InverseWishart(df, scale),  mu | Sigma ~ N(mean, Sigma / kappa),  y ~ N(mu, Sigma). With
    n observations of mean ybar and scatter S: kappa' = kappa + n, df' = df + n, mean' = mean + n
    (ybar - mean) / kappa', scale' = scale + S + (kappa n / kappa') (ybar - mean)(ybar - mean)'.

    Parameters
    ----------
    mean : array of shape (..., d)
        Expected mean.
    kappa : float or array of shape (...)
        Weight of the prior mean, in observations.
    df : float or array of shape (...)
        Degrees of freedom, more than d - 1; the expected covariance is scale / (df - d - 1).
    scale : array of shape (..., d, d)
        Symmetric and positive definite, as in scipy's ``invwishart(df, scale)``.

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
    _any_sign = ("mean", "scale")

    def __post_init__(self) -> None:
        mean, scale = (check_parameter(getattr(self, name), name) for name in self._any_sign)
        if mean.ndim == 0 or scale.ndim < 2 or scale.shape[-2:] != (mean.shape[-1],) * 2:
            raise ValueError(f"mean (d,) and scale (d, d) must agree: {mean.shape}, {scale.shape}")
        check_parameter(self.df, "df", above=mean.shape[-1] - 1.0)
        object.__setattr__(self, "scale", positive_definite(scale, "scale"))
        super().__post_init__()

    def _check(self, data: Any, weight: Any) -> Any:
        data, weight = super()._check(data, weight)
        if data.shape[-1] != self.mean.shape[-1]:
            raise ValueError(f"data must hold vectors of {self.mean.shape[-1]}, got {data.shape}")
        return data, weight

    def _fits(self, statistics: Any) -> bool:
        return super()._fits(statistics) and statistics.mean.shape[-1] == self.mean.shape[-1]

    def _posterior_parameters(self, statistics: Moments) -> dict[str, Any]:
        kappa, mean, square = pull(self.kappa, self.mean, statistics)
        df, scale = self.df + statistics.count, self.scale + square
        return {"mean": mean, "kappa": kappa, "df": df, "scale": scale}

    @property
    def covariance(self) -> Any:
        """Expected covariance (..., d, d) of an observation; infinite where df <= d + 1."""
        excess = np.asarray(self.df - self.mean.shape[-1] - 1)[..., None, None]
        return np.where(excess > 0, self.scale / np.where(excess > 0, excess, 1.0), np.inf)

    @property
    def distribution(self) -> Joint:
        """Marginal distributions (scipy): Student t of each mean, inverse gamma of variances."""
        d = self.mean.shape[-1]
        freedom, kappa = (np.asarray(value)[..., None] for value in (self.df - d + 1, self.kappa))
        diagonal = _diagonal(self.scale)
        mean = stats.t(freedom, self.mean, np.sqrt(diagonal / (kappa * freedom)))
        return Joint(mean, stats.invgamma(freedom / 2, scale=diagonal / 2))

    @property
    def mode(self) -> Joint:
        """Most probable pair of mean and covariance."""
        total = np.asarray(self.df + self.mean.shape[-1] + 2)
        return Joint(self.mean, self.scale / total[..., None, None])

    def sample(self, size: Size = None, random_state: RandomState = None) -> Joint:
        """Means (size, ..., d) and covariances (size, ..., d, d) from their joint distribution."""
        rng, d = as_generator(random_state), self.scale.shape[-1]
        shape = as_shape(size) + self.batch_shape
        # Bartlett's decomposition: with scale = C C' the covariance is R R', R = C A^-T, where
        # the squared diagonal of A is chi-squared. A draw of zero would make it singular.
        A = np.tril(rng.standard_normal((*shape, d, d)), -1)
        freedom = np.asarray(self.df)[..., None] - np.arange(d)
        chi = rng.chisquare(np.broadcast_to(freedom, (*shape, d)))
        A[..., np.arange(d), np.arange(d)] = np.sqrt(np.maximum(chi, 1e-60))
        C = np.broadcast_to(np.linalg.cholesky(self.scale), (*shape, d, d))
        turned = np.linalg.solve(A, np.swapaxes(C, -1, -2))
        root = np.swapaxes(turned, -1, -2)
        step = (root @ rng.standard_normal(root.shape[:-1])[..., None])[..., 0]
        mean = self.mean + step / np.sqrt(np.asarray(self.kappa))[..., None]
        return Joint(mean, root @ turned)

    def _student(self) -> tuple[Any, Any]:
        """Degrees of freedom and shape matrix of the predictive distribution."""
        df = np.asarray(self.df - self.mean.shape[-1] + 1)
        factor = np.asarray((self.kappa + 1) / (self.kappa * df))
        return df, self.scale * factor[..., None, None]

    def predictive(self) -> Any:
        """Distribution of the next observation: multivariate Student t (scipy), for one prior."""
        self._require_single("predictive", "index it, or use log_predictive")
        df, shape = self._student()
        return stats.multivariate_t(self.mean, shape, float(df))

    def _log_predictive(self, data: Array, weight: Array) -> Any:
        df, shape = self._student()
        d, factor = data.shape[-1], np.linalg.cholesky(shape)
        gap = np.swapaxes(data - self.mean[..., None, :], -1, -2)
        distance = (np.linalg.solve(factor, gap) ** 2).sum(axis=-2)
        level = gammaln((df + d) / 2) - gammaln(df / 2) - 0.5 * d * np.log(df * np.pi)
        level = level - np.log(_diagonal(factor)).sum(axis=-1)
        return level[..., None] - 0.5 * (df + d)[..., None] * np.log1p(distance / df[..., None])

    def _log_normalizer(self) -> Any:
        return normal_wishart_log_normalizer(self.kappa, self.df, self.scale)


def positive_definite(matrices: np.ndarray, name: str) -> np.ndarray:
    """Checked positive definite ``matrices`` (..., d, d), exactly symmetric."""
    width, turned = np.sqrt(np.abs(_diagonal(matrices))), np.swapaxes(matrices, -1, -2)
    if (np.abs(matrices - turned) > 2e-8 * width[..., None] * width[..., None, :]).any():
        raise ValueError(f"{name} must be symmetric: average each matrix with its transpose")
    matrices = matrices / 2 + turned / 2
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name} must be positive definite: add some of the identity") from error
    return matrices


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _inverse_gamma_mean(shape: float | np.ndarray, scale: ArrayLike) -> Any:
    return np.where(shape > 1, scale / np.where(shape > 1, shape - 1, 1.0), np.inf)[()]
