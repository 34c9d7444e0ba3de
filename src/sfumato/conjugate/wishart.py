"""Vectors: a normal with unknown mean and covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ..array.types import Array, RandomState, Weights
from ..array.validation import as_generator
from ._checks import Size, as_shape, check_finite, check_level, check_positive
from ._pair import Joint, NormalizedPair
from .kernel import (
    LOG_2PI,
    Moments,
    draw_inverse_wishart,
    normal_wishart_log_normalizer,
    pull,
    student_log_density,
    vector_moments,
)

__all__ = ["NormalInverseWishart"]


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
        return vector_moments(data, weight)

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
        return Joint(
            *(tuple(marginal.ppf(q) for q in check_level(level)) for marginal in self.distribution)
        )

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
