"""Counts: successes out of trials, and counts over categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln

from .._validation import as_generator
from ..kernels.conjugate import dirichlet_log_normalizer, log_binomial
from ._pair import ConjugatePair, as_shape, check_level, check_positive

__all__ = ["BetaBinomial", "DirichletMultinomial", "Tally"]


class Tally(NamedTuple):
    """Successes and failures, weighted."""

    successes: Any
    failures: Any

    def __add__(self, other: Any) -> Tally:
        return Tally(self.successes + other.successes, self.failures + other.failures)


@dataclass(frozen=True, eq=False)
class BetaBinomial(ConjugatePair):
    """Beta prior on a probability; an observation is the number of successes in ``trials`` trials.

    theta ~ Beta(a, b),  y ~ Binomial(trials, theta),  posterior Beta(a + sum y, b + sum (trials - y)).

    Parameters
    ----------
    a, b : float or array of shape (...), default=1.0
        Prior successes and failures.
    trials : int or array of shape (...), default=1
        Trials of each observation; 1 for yes or no.

    References
    ----------
    .. [1] A. Gelman et al., Bayesian Data Analysis, 3rd edition, 2013, section 2.4.

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
        trials = check_positive(self.trials, "trials")
        if (trials != np.floor(trials)).any():
            raise ValueError(f"trials must be a whole number, got {self.trials!r}")
        self._freeze(a=check_positive(self.a, "a"), b=check_positive(self.b, "b"), trials=trials)

    def _check(self, data: Any, weight: Any) -> Any:
        data, weight = super()._check(data, weight)
        if (data < 0).any() or (data > np.asarray(self.trials)[..., None]).any() or (data != np.floor(data)).any():
            raise ValueError(f"data must be whole numbers from 0 to trials={self.trials}, NaN where missing")
        return data, weight

    def statistics(self, data: Any, weight: Any = None) -> Tally:
        """Weighted numbers of successes and failures, each of shape (...), for data (..., n)."""
        data, weight = self._check(data, weight)
        return Tally((weight * data).sum(axis=-1), (weight * (np.asarray(self.trials)[..., None] - data)).sum(axis=-1))

    def update(self, statistics: Tally) -> BetaBinomial:
        """Posterior after so many successes and failures."""
        return BetaBinomial(self.a + statistics.successes, self.b + statistics.failures, self.trials)

    @property
    def distribution(self) -> Any:
        """Distribution of the probability (scipy)."""
        return stats.beta(self.a, self.b)

    @property
    def mean(self) -> Any:
        """Expected probability, a / (a + b)."""
        return self.a / (self.a + self.b)

    @property
    def mode(self) -> Any:
        """Most probable value; NaN where the density has no single inner peak (a <= 1 and b <= 1)."""
        total = self.a + self.b - 2
        inside = np.clip((self.a - 1) / np.where(total != 0, total, 1.0), 0.0, 1.0)
        return np.where((self.a <= 1) & (self.b <= 1), np.nan, np.where(self.a <= 1, 0.0, np.where(self.b <= 1, 1.0, inside)))[()]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval that holds the probability with posterior probability ``level``."""
        low, high = check_level(level)
        return self.distribution.ppf(low), self.distribution.ppf(high)

    def sample(self, size: Any = None, random_state: Any = None) -> Any:
        """Probabilities drawn from the distribution, of shape (size, ...)."""
        return as_generator(random_state).beta(self.a, self.b, size=as_shape(size) + self.batch_shape)

    def predictive(self) -> Any:
        """Distribution of the next observation: beta-binomial (scipy)."""
        return stats.betabinom(np.asarray(self.trials, dtype=np.int64), self.a, self.b)

    def log_predictive(self, data: Any) -> Any:
        """Log probability (..., n) of each observation on its own; 0 where missing."""
        data, weight = self._check(data, None)
        a, b, trials = (np.asarray(value)[..., None] for value in (self.a, self.b, self.trials))
        return weight * (betaln(a + data, b + trials - data) - betaln(a, b) + _log_choose(trials, data))

    def _log_normalizer(self) -> Any:
        return betaln(self.a, self.b)

    def _log_base(self, data: Any, weight: Any) -> Any:
        return (weight * _log_choose(np.asarray(self.trials)[..., None], data)).sum(axis=-1)


def _log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


@dataclass(frozen=True, eq=False)
class DirichletMultinomial(ConjugatePair):
    """Dirichlet prior on the probabilities of d categories; an observation is a row of counts.

    theta ~ Dirichlet(concentration),  y ~ Multinomial(theta),  posterior Dirichlet(concentration + sum y).

    Parameters
    ----------
    concentration : array of shape (..., d)
        Prior counts.

    References
    ----------
    .. [1] A. Gelman et al., Bayesian Data Analysis, 3rd edition, 2013, section 3.4.

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
        concentration = check_positive(self.concentration, "concentration")
        if concentration.ndim == 0:
            raise ValueError(f"concentration must have one entry a category, got {self.concentration!r}: e.g. np.ones(3)")
        self._freeze(concentration=concentration)

    def _check(self, data: Any, weight: Any) -> Any:
        data, weight = super()._check(data, weight)
        if (data < 0).any() or data.shape[-1] != self.concentration.shape[-1]:
            raise ValueError(f"data must hold nonnegative counts of {self.concentration.shape[-1]} categories, got shape {data.shape}")
        return data, weight

    def statistics(self, data: Any, weight: Any = None) -> Any:
        """Weighted counts (..., d) of data (..., n, d)."""
        data, weight = self._check(data, weight)
        return (weight[..., None] * data).sum(axis=-2)

    def update(self, statistics: Any) -> DirichletMultinomial:
        """Posterior after these counts."""
        return DirichletMultinomial(self.concentration + statistics)

    @property
    def distribution(self) -> Any:
        """Distribution of the probabilities (scipy); for a single prior."""
        return stats.dirichlet(self.concentration)

    @property
    def mean(self) -> Any:
        """Expected probabilities (..., d)."""
        return self.concentration / self.concentration.sum(axis=-1, keepdims=True)

    @property
    def mode(self) -> Any:
        """Most probable probabilities (..., d); NaN where a concentration of 1 or less puts the peak on the edge."""
        inner = (self.concentration > 1).all(axis=-1, keepdims=True)
        excess = np.where(inner, self.concentration - 1, 1.0)
        return np.where(inner, excess / excess.sum(axis=-1, keepdims=True), np.nan)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed interval of each probability on its own, (..., d) low and high."""
        rest = self.concentration.sum(axis=-1, keepdims=True) - self.concentration
        return tuple(stats.beta.ppf(q, self.concentration, rest) for q in check_level(level))  # type: ignore[return-value]

    def sample(self, size: Any = None, random_state: Any = None) -> Any:
        """Probabilities drawn from the distribution, of shape (size, ..., d)."""
        rng = as_generator(random_state)
        gamma = rng.standard_gamma(self.concentration, size=as_shape(size) + self.concentration.shape)
        return gamma / gamma.sum(axis=-1, keepdims=True)

    def predictive(self, total: Any = 1) -> Any:
        """Distribution of the next row of counts that sums to ``total``: Dirichlet-multinomial (scipy)."""
        return stats.dirichlet_multinomial(self.concentration, total)

    def log_predictive(self, data: Any) -> Any:
        """Log probability (..., n) of each row of counts on its own, given its total."""
        data, _ = self._check(data, None)
        prior = self.concentration[..., None, :]
        return dirichlet_log_normalizer(prior + data) - dirichlet_log_normalizer(prior) + log_binomial(data)

    def _log_normalizer(self) -> Any:
        return dirichlet_log_normalizer(self.concentration)

    def _log_base(self, data: Any, weight: Any) -> Any:
        return (weight * log_binomial(data)).sum(axis=-1)
