"""Counts: successes out of trials, and counts over categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from ..array.types import ArrayLike, RandomState, Weights
from ..array.validation import as_generator, check_number
from ._pair import MOST, ConjugatePair, ScalarPair, Size, as_shape, check_level, check_positive
from .kernel import Tally, dirichlet_log_ratio, log_binomial

__all__ = ["BetaBinomial", "DirichletMultinomial"]


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
        Trials of each observation; 1 for yes or no.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 2.4.

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
        self._freeze(**self._positive("a", "b", most=MOST), trials=trials)

    def _check(self, data: Any, weight: Any) -> Any:
        data, weight = super()._check(data, weight)
        if (
            (data < 0).any()
            or (data > np.asarray(self.trials)[..., None]).any()
            or (data != np.floor(data)).any()
        ):
            raise ValueError(
                f"data must be whole numbers from 0 to trials={self.trials}, NaN where missing"
            )
        return data, weight

    def _summarize(self, data: np.ndarray, weight: Weights) -> Tally:
        return Tally(
            (weight * data).sum(axis=-1),
            (weight * (np.asarray(self.trials)[..., None] - data)).sum(axis=-1),
        )

    def _posterior_parameters(self, statistics: Tally) -> dict[str, Any]:
        return {
            "a": self.a + statistics.successes,
            "b": self.b + statistics.failures,
            "trials": self.trials,
        }

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
        """Most probable value; NaN where a = b <= 1: a flat density, or two peaks of the
        same kind.
        """
        return _peak(self._both())[..., 0][()]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval that holds the probability with posterior probability ``level``."""
        return _beta_interval(level, self.a, self.b, self.mean)

    def predictive(self) -> Any:
        """Distribution of the next observation: beta-binomial (scipy)."""
        return stats.betabinom(np.asarray(self.trials, dtype=np.int64), self.a, self.b)

    def _both(self) -> np.ndarray:
        return np.stack([self.a, self.b], axis=-1)

    def _log_ratio(self, statistics: Tally) -> Any:
        return dirichlet_log_ratio(
            self._both(), np.stack(np.broadcast_arrays(*statistics), axis=-1)
        )

    def _log_base(self, data: np.ndarray, weight: Weights) -> Any:
        return (weight * _log_choose(np.asarray(self.trials)[..., None], data)).sum(axis=-1)


def _beta_interval(level: float, a: ArrayLike, b: ArrayLike, mean: ArrayLike) -> tuple[Any, Any]:
    """Quantiles of beta distributions.

    The mean itself where the distribution is too narrow for scipy to find them.
    """
    low, high = check_level(level)
    with np.errstate(all="ignore"):
        bounds = [np.asarray(stats.beta.ppf(q, a, b)) for q in (low, high)]
    return tuple(np.where(np.isnan(bound), mean, bound)[()] for bound in bounds)  # type: ignore[return-value]


def _shares(concentration: np.ndarray) -> np.ndarray:
    """Numbers divided by their sum over the last axis, which may overflow or vanish."""
    shares = concentration / concentration.max(axis=-1, keepdims=True)
    return shares / shares.sum(axis=-1, keepdims=True)


def _peak(concentration: np.ndarray) -> np.ndarray:
    """Mode of a Dirichlet: shares of the excess over 1.

    If there is none, the corner of the largest entry, NaN if that is not one.
    """
    excess = np.maximum(concentration - 1, 0.0)
    inner = (excess > 0).any(axis=-1, keepdims=True)
    largest = concentration == concentration.max(axis=-1, keepdims=True)
    corner = np.where(largest.sum(axis=-1, keepdims=True) == 1, largest.astype(np.float64), np.nan)
    return np.where(inner, _shares(np.where(inner, excess, 1.0)), corner)


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


@dataclass(frozen=True, eq=False)
class DirichletMultinomial(ConjugatePair):
    """Dirichlet prior on the probabilities of d categories; an observation is a row of counts.

    theta ~ Dirichlet(concentration),  y ~ Multinomial(theta),  posterior Dirichlet(concentration +
    sum y).

    Parameters
    ----------
    concentration : array of shape (..., d)
        Prior counts.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 3.4.

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
    _missing = False

    def __post_init__(self) -> None:
        concentration = check_positive(self.concentration, "concentration", most=MOST)
        if concentration.ndim == 0:
            raise ValueError(
                f"concentration must have one entry per category, got {self.concentration!r}: e.g. "
                "np.ones(3)"
            )
        self._freeze(concentration=concentration)

    def _check(self, data: Any, weight: Any) -> Any:
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

    def _posterior_parameters(self, statistics: Any) -> dict[str, Any]:
        return {"concentration": self.concentration + np.asarray(statistics)}

    def _single(self, name: str) -> None:
        if self.batch_shape:
            raise ValueError(
                f"{name} is for one prior, and this object holds {self.batch_shape}: index it"
            )

    @property
    def distribution(self) -> Any:
        """Distribution of the probabilities (scipy); for a single prior."""
        self._single("distribution")
        return stats.dirichlet(self.concentration)

    @property
    def mean(self) -> Any:
        """Expected probabilities (..., d)."""
        return _shares(self.concentration)

    @property
    def mode(self) -> Any:
        """Most probable probabilities (..., d); 0 where the concentration is 1 or less.

        Where all are, it is the corner of the largest, and NaN if several are largest: a flat
        density, or peaks of the same kind.
        """
        return _peak(self.concentration)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval of each probability on its own, (..., d) low and high."""
        rest = self.concentration.sum(axis=-1, keepdims=True) - self.concentration
        return _beta_interval(
            level, self.concentration, np.maximum(rest, np.finfo(float).tiny), self.mean
        )

    def sample(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Probabilities drawn from the distribution, of shape (size, ..., d)."""
        rng = as_generator(random_state)
        gamma = rng.standard_gamma(
            self.concentration, size=as_shape(size) + self.concentration.shape
        )
        reached = rng.random(gamma.shape[:-1] + (1,)) < np.cumsum(self.mean, axis=-1)
        reached[..., -1] = True
        corner = reached & (np.cumsum(reached, axis=-1) == 1)  # what small concentrations tend to
        return _shares(np.where((gamma > 0).any(axis=-1, keepdims=True), gamma, corner))

    def predictive(self, total: ArrayLike = 1) -> Any:
        """Distribution of the next row of counts that sums to ``total``.

        Dirichlet-multinomial (scipy); for a single prior.
        """
        self._single("predictive")
        total = check_number(total, "total", low=0, integer=True)
        return stats.dirichlet_multinomial(self.concentration, total)

    def _log_ratio(self, statistics: Any) -> Any:
        return dirichlet_log_ratio(self.concentration, statistics)

    def _log_base(self, data: np.ndarray, weight: Weights) -> Any:
        return (weight * log_binomial(data)).sum(axis=-1)
