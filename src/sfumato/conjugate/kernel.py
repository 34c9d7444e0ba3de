"""Conjugate updates: posterior = prior + statistics, and every evidence is a ratio of normalising
constants.

    log evidence = log Z(posterior) - log Z(prior) + sum of weight * log h(x)

with  Z  the integral of the unnormalised prior and  h  the part of the likelihood that holds no
parameter. For normal data the statistics are the weight, the mean and the scatter about it (Chan,
Golub and LeVeque 1983), which add up without cancelling; with kappa' = kappa + count:

    mean'  = mean + count (xbar - mean) / kappa'
    scale' = scale + scatter + (kappa count / kappa') (xbar - mean)(xbar - mean)'
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

from ..array.types import Array, ArrayLike, Weights

__all__ = [
    "Events",
    "Largest",
    "Moments",
    "Tally",
    "dirichlet_log_ratio",
    "draw_inverse_wishart",
    "log_binomial",
    "moments",
    "normal_gamma_log_normalizer",
    "normal_wishart_log_normalizer",
    "pull",
    "student_log_density",
]

LOG_2PI = float(np.log(2 * np.pi))
LOG_PI = float(np.log(np.pi))


class Tally(NamedTuple):
    """Successes and failures, weighted."""

    successes: Any
    failures: Any

    def __add__(self, other: Any) -> Tally:
        return Tally(self.successes + other.successes, self.failures + other.failures)


class Events(NamedTuple):
    """Events and the time in which they happened, weighted."""

    events: Any
    time: Any

    def __add__(self, other: Any) -> Events:
        return Events(self.events + other.events, self.time + other.time)


class Largest(NamedTuple):
    """Weight and largest of some numbers; the largest of nothing is 0."""

    count: Any
    largest: Any

    def __add__(self, other: Any) -> Largest:
        return Largest(self.count + other.count, np.maximum(self.largest, other.largest))


class Moments:
    """Weight, mean and scatter about the mean of some data.

    ``a + b`` are the moments of both together.

    Parameters
    ----------
    count : array of shape (...)
        Total weight.
    mean : array of shape (...) or (..., d)
        Zero where the count is zero.
    scatter : array of shape (...) or (..., d, d)
        Weighted sum of squares (of outer products) about the mean.
    """

    __slots__ = ("count", "mean", "scatter")

    def __init__(self, count: float | np.ndarray, mean: ArrayLike, scatter: ArrayLike) -> None:
        self.count, self.mean, self.scatter = (
            np.asarray(part, dtype=np.float64) for part in (count, mean, scatter)
        )

    def __add__(self, other: Moments) -> Moments:
        count = self.count + other.count
        # Merging by differences of means does not cancel far from the origin, as sums of squares
        # would.
        share = np.where(count > 0, other.count, 0.0) / np.where(count > 0, count, 1.0)
        gap = other.mean - self.mean
        vector = self.mean.ndim > self.count.ndim
        weight = share[..., None] if vector else share
        square = (
            gap[..., :, None] * gap[..., None, :] * (self.count * share)[..., None, None]
            if vector
            else gap**2 * self.count * share
        )
        return Moments(count, self.mean + weight * gap, self.scatter + other.scatter + square)

    def __repr__(self) -> str:
        return f"Moments(count={self.count!r}, mean={self.mean!r}, scatter={self.scatter!r})"


def moments(x: np.ndarray, weight: Any, *, vectors: bool = False) -> Moments:
    """Moments of numbers ``x`` (..., n) along the last axis, or of vectors (..., n, d)."""
    count = weight.sum(axis=-1)
    safe = np.where(count > 0, count, 1.0)
    if not vectors:
        mean = _corrected_mean(x, weight, safe, axis=-1)
        return Moments(count, mean, (weight * (x - mean[..., None]) ** 2).sum(axis=-1))
    mean = _corrected_mean(x, weight[..., None], safe[..., None], axis=-2)
    centred = x - mean[..., None, :]
    return Moments(count, mean, np.swapaxes(centred * weight[..., None], -1, -2) @ centred)


def _corrected_mean(x: np.ndarray, weight: Weights, total: np.ndarray, axis: int) -> Any:
    """The mean, then the mean of what is left: exact to the last bit or two even far from the
    origin.
    """
    mean = (weight * x).sum(axis=axis) / total
    rest = (weight * (x - np.expand_dims(mean, axis))).sum(axis=axis) / total
    return np.where(total > 0, mean + rest, 0.0)


def pull(kappa: Array, mean: Array, data: Moments) -> tuple[Any, Any, Any]:
    """Posterior kappa and mean, and what data and prior disagree by: the addition to the scale."""
    total, gap = kappa + data.count, data.mean - mean
    share, spread = data.count / total, kappa * data.count / total
    if data.mean.ndim == data.count.ndim:
        return total, mean + share * gap, data.scatter + spread * gap**2
    square = spread[..., None, None] * gap[..., :, None] * gap[..., None, :]
    return total, mean + share[..., None] * gap, data.scatter + square


def dirichlet_log_ratio(concentration: np.ndarray, counts: Array) -> Any:
    """log Z(concentration + counts) - log Z(concentration) of a Dirichlet over the last axis,
    without cancelling.
    """
    return _log_rise(concentration, counts).sum(axis=-1) - _log_rise(
        concentration.sum(axis=-1), counts.sum(axis=-1)
    )


def _log_rise(a: ArrayLike, z: Any) -> Any:
    """log Gamma(a + z) - log Gamma(a), accurate also where a is much larger than z."""
    # The difference of two log gammas loses all digits for a large a; the beta function does not.
    some = np.where(z > 0, z, 1.0)
    return np.where(z > 0, gammaln(some) - betaln(a, some), 0.0)


def log_binomial(counts: Array) -> Any:
    """Logarithm of the multinomial coefficient of the counts along the last axis."""
    return gammaln(counts.sum(axis=-1) + 1.0) - gammaln(counts + 1.0).sum(axis=-1)


def normal_gamma_log_normalizer(
    kappa: ArrayLike, shape: float | np.ndarray, scale: ArrayLike
) -> Any:
    """log Z of a normal-inverse-gamma: log sqrt(2 pi / kappa) + log Gamma(shape) - shape
    log scale.
    """
    return 0.5 * (LOG_2PI - np.log(kappa)) + gammaln(shape) - shape * np.log(scale)


def normal_wishart_log_normalizer(kappa: Any, df: Any, scale: Any) -> Any:
    """log Z of a normal-inverse-Wishart: (2 pi / kappa)^(d/2) 2^(df d / 2) Gamma_d(df / 2)
    |scale|^(-df / 2).
    """
    d = scale.shape[-1]
    log_det = np.linalg.slogdet(scale)[1]
    log_gamma = gammaln((np.asarray(df)[..., None] - np.arange(d)) / 2).sum(axis=-1)
    return (
        0.5 * d * (LOG_2PI - np.log(kappa) + df * np.log(2.0))
        + 0.25 * d * (d - 1) * LOG_PI
        + log_gamma
        - 0.5 * df * log_det
    )


def student_log_density(x: Array, df: Array, mean: Array, shape: np.ndarray) -> Any:
    """Log density of multivariate Student t with parameters (...), (..., d), (..., d, d) at ``x``
    (..., n, d).
    """
    d = x.shape[-1]
    factor = np.linalg.cholesky(shape)
    gap = np.swapaxes(x - mean[..., None, :], -1, -2)
    distance = (np.linalg.solve(factor, gap) ** 2).sum(axis=-2)
    log_det = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
    constant = gammaln((df + d) / 2) - gammaln(df / 2) - 0.5 * d * np.log(df * np.pi) - log_det
    return constant[..., None] - 0.5 * (df + d)[..., None] * np.log1p(distance / df[..., None])


def draw_inverse_wishart(
    rng: np.random.Generator, df: Array, scale: Array, size: tuple[int, ...]
) -> Any:
    """Roots R (size, ..., d, d) of inverse-Wishart draws R R' by Bartlett's decomposition: R = C
    A^-T with C C' = scale.
    """
    d = scale.shape[-1]
    shape = size + scale.shape[:-2]
    lower = np.tril(rng.standard_normal(shape + (d, d)), -1)
    index = np.arange(d)
    lower[..., index, index] = np.sqrt(
        # Bartlett: the squared diagonal is chi-squared. A draw of zero would make a singular
        # matrix.
        np.maximum(rng.chisquare(np.broadcast_to(df[..., None] - index, shape + (d,))), 1e-60)
    )
    factor = np.linalg.cholesky(scale)
    return np.swapaxes(
        np.linalg.solve(lower, np.swapaxes(np.broadcast_to(factor, shape + (d, d)), -1, -2)), -1, -2
    )
