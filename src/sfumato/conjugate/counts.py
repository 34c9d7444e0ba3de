"""Counts: successes out of trials, and counts over categories."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from ..array.types import Array, ArrayLike, RandomState, Weights
from ..array.validation import as_generator, check_number
from ._pair import ConjugatePair, Size, as_shape, check_parameter, quantiles


class _CountsPair(ConjugatePair):
    """Counts of categories whose probabilities have a Dirichlet prior."""

    @property
    @abstractmethod
    def _counts(self) -> np.ndarray:
        """Prior counts (..., d) of the categories."""

    @abstractmethod
    def _whole(self, data: np.ndarray) -> np.ndarray:
        """Counts (..., n, d) of the categories in each observation."""

    def _summarize(self, data: np.ndarray, weight: Any) -> Any:
        return (weight[..., None] * self._whole(data)).sum(axis=-2)

    def _fits(self, statistics: Any) -> bool:
        if not isinstance(statistics, (np.ndarray, list)):
            return False
        counts = np.asarray(statistics)
        return counts.dtype.kind in "biuf" and counts.shape[-1:] == self._counts.shape[-1:]

    def _log_ratio(self, statistics: Array) -> Any:
        """log Z(prior + counts) - log Z(prior) of a Dirichlet, over the last axis."""
        prior, counts = self._counts, np.asarray(statistics)
        total = _log_rise(prior.sum(axis=-1), counts.sum(axis=-1))
        return _log_rise(prior, counts).sum(axis=-1) - total

    def _log_base(self, data: np.ndarray, weight: Weights) -> Any:
        counts = self._whole(data)
        several = gammaln(counts.sum(axis=-1) + 1.0) - gammaln(counts + 1.0).sum(axis=-1)
        return (weight * several).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class BetaBinomial(_CountsPair):
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

    def __post_init__(self) -> None:
        trials = check_parameter(self.trials, "trials", above=0.0, most=2.0**53)
        if (trials != np.floor(trials)).any():
            raise ValueError(f"trials must be a whole number, got {self.trials!r}")
        super().__post_init__()

    @property
    def _counts(self) -> np.ndarray:
        return np.stack([self.a, self.b], axis=-1)

    def _whole(self, data: np.ndarray) -> np.ndarray:
        failures = np.asarray(self.trials)[..., None] - data
        return np.stack(np.broadcast_arrays(data, failures), axis=-1)

    def _check(self, data: ArrayLike, weight: ArrayLike | None) -> Any:
        data, weight = super()._check(data, weight)
        beyond = (data < 0) | (data > np.asarray(self.trials)[..., None])
        if (beyond | (data != np.floor(data))).any():
            raise ValueError(f"data must be whole numbers from 0 to trials={self.trials}, or NaN")
        return data, weight

    def _posterior_parameters(self, statistics: ArrayLike) -> dict[str, Any]:
        counts = np.asarray(statistics)
        return {"a": self.a + counts[..., 0], "b": self.b + counts[..., 1]}

    @property
    def distribution(self) -> Any:
        """Distribution of the probability (scipy)."""
        return stats.beta(self.a, self.b)

    @property
    def mean(self) -> Any:
        """Expected probability, a / (a + b)."""
        return _shares(self._counts)[..., 0][()]

    @property
    def mode(self) -> Any:
        """Most probable value; NaN if a = b <= 1: the density is flat or has two peaks."""
        return _peak(self._counts)[..., 0][()]

    def interval(self, confidence: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed posterior interval of the probability."""
        return quantiles(self.distribution, confidence, self.mean)

    def predictive(self) -> Any:
        """Distribution of the next observation: beta-binomial (scipy)."""
        return stats.betabinom(np.asarray(self.trials, dtype=np.int64), self.a, self.b)


@dataclass(frozen=True, eq=False)
class DirichletMultinomial(_CountsPair):
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
        if np.ndim(self.concentration) == 0:
            raise ValueError(f"concentration needs an entry per category: {self.concentration!r}")
        super().__post_init__()

    @property
    def _counts(self) -> np.ndarray:
        return self.concentration

    def _whole(self, data: np.ndarray) -> np.ndarray:
        return data

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
        """Most probable probabilities (..., d). If all counts are 1 or less, the corner of the
        largest one, or NaN if several are equally large.
        """
        return _peak(self.concentration)

    def interval(self, confidence: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval of each single probability, low and high of shape (..., d)."""
        rest = self.concentration.sum(axis=-1, keepdims=True) - self.concentration
        each = stats.beta(self.concentration, np.maximum(rest, np.finfo(float).tiny))
        return quantiles(each, confidence, self.mean)

    def sample(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Probabilities drawn from the distribution, of shape (size, ..., d)."""
        rng, shape = as_generator(random_state), as_shape(size) + self.concentration.shape
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


def _log_rise(a: ArrayLike, z: Any) -> Any:
    """log Gamma(a + z) - log Gamma(a), accurate also where a is much larger than z."""
    # For large a the difference of two log gammas loses all digits; the beta function does not.
    some = np.where(z > 0, z, 1.0)
    return np.where(z > 0, gammaln(some) - betaln(a, some), 0.0)
