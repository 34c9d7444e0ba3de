"""What every conjugate pair shares: immutable parameters, checked data and posterior.

    log marginal likelihood = log Z(posterior) - log Z(prior) + sum of weight * log h(x)

where Z is the integral of the unnormalised prior and h the parameter-free factor of the likelihood.
"""

import reprlib
from abc import ABC, abstractmethod
from dataclasses import fields
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from ..array.types import ArrayLike, RandomState, Weights
from ..array.validation import as_generator, check_number, refuse_mask

Size = int | tuple[int, ...] | None  # shape of a sample, as in NumPy


def as_numbers(value: object, name: str) -> np.ndarray:
    """``value`` as an array of float64."""
    refuse_mask(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} has rows of different lengths: {reprlib.repr(value)}") from error
    objects = array.ravel() if array.dtype.kind == "O" else ["text"]
    if array.dtype.kind not in "biuf" and not all(isinstance(entry, Real) for entry in objects):
        raise TypeError(f"{name} must hold numbers, got {reprlib.repr(value)} ({array.dtype})")
    return array.astype(np.float64)


def check_parameter(
    value: object, name: str, *, above: float = -np.inf, most: float = 1e300
) -> np.ndarray:
    """``value`` as an array of numbers above ``above`` and small enough that sums stay finite."""
    array = as_numbers(value, name)
    if array.size == 0:
        raise ValueError(f"{name} is empty, of shape {array.shape}: give at least one number")
    if not (np.isfinite(array) & (array > above)).all():
        wanted = "finite" if above == -np.inf else f"greater than {above:g} and finite"
        raise ValueError(f"{name} must be {wanted}, got {reprlib.repr(value)}")
    if (np.abs(array) > most).any():
        raise ValueError(f"{name} must be at most {most:.0e}, got {reprlib.repr(value)}")
    return array


def quantiles(distribution: Any, confidence: float, otherwise: Any = np.nan) -> Any:
    """Ends of the equal-tailed interval; ``otherwise`` where scipy returns NaN."""
    confidence = check_number(confidence, "confidence", low=0, high=1, strict=True)
    if isinstance(distribution, Joint):
        return Joint(*(quantiles(marginal, confidence) for marginal in distribution))
    with np.errstate(all="ignore"):
        ends = [np.asarray(distribution.ppf((1 + sign * confidence) / 2)) for sign in (-1, 1)]
    return tuple(np.where(np.isnan(end), otherwise, end)[()] for end in ends)


def as_shape(size: Size) -> tuple[int, ...]:
    """``size`` as a shape: () for None, (size,) for a number."""
    parts = () if size is None else size if isinstance(size, (tuple, list)) else (size,)
    return tuple(check_number(part, "size", low=0, integer=True) for part in parts)


class Joint(NamedTuple):
    """A pair of values: one for the mean and one for the variance (or covariance matrix)."""

    mean: Any
    variance: Any


class ConjugatePair(ABC):
    """A prior, and the likelihood under which data turn it into a posterior of the same class."""

    _event: dict[str, int] = {}  # dimensions that a parameter of one prior has; 0 by default
    _observation = 0  # dimensions of one observation; only single numbers may be missing
    _any_sign: tuple[str, ...] = ("mean", "center")  # parameters that need not be positive

    def __post_init__(self) -> None:
        low = dict.fromkeys(self._any_sign, -np.inf)
        own = self._parameters().items()
        self._freeze(
            **{name: check_parameter(v, name, above=low.get(name, 0.0)) for name, v in own}
        )

    @abstractmethod
    def _summarize(self, data: np.ndarray, weight: Weights) -> Any:
        """Sufficient statistics of checked data."""

    @abstractmethod
    def _fits(self, statistics: Any) -> bool:
        """Whether ``statistics`` belong to this likelihood."""

    @abstractmethod
    def _posterior_parameters(self, statistics: Any) -> dict[str, Any]:
        """Parameters of the posterior that differ from those of the prior."""

    @property
    @abstractmethod
    def distribution(self) -> Any:
        """Distribution of the parameter (scipy), or a pair of marginal distributions."""

    def interval(self, confidence: float = 0.95) -> Any:
        """Equal-tailed interval of the parameter, or a pair of intervals for two parameters."""
        return quantiles(self.distribution, confidence)

    def sample(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Parameters drawn from the distribution, of shape (size, ...)."""
        shape, rng = as_shape(size) + self.batch_shape, as_generator(random_state)
        with np.errstate(divide="ignore", over="ignore"):
            drawn = np.asarray(self.distribution.rvs(size=shape, random_state=rng))
        return np.minimum(drawn, np.finfo(np.float64).max)[()]  # clipped to the largest float

    @abstractmethod
    def _log_ratio(self, statistics: Any) -> Any:
        """Log marginal likelihood without its parameter-free factor."""

    @abstractmethod
    def _log_base(self, data: np.ndarray, weight: np.ndarray) -> Any:
        """Weighted log of the parameter-free factor of the likelihood, for checked data."""

    def statistics(self, data: ArrayLike, weight: ArrayLike | None = None) -> Any:
        """Sufficient statistics of data as in ``posterior``, which add up: counts (..., d) of the
        categories (successes and failures of a ``BetaBinomial``), or ``Moments`` of normal data.
        """
        return self._statistics_of(*self._check(data, weight))

    def _statistics_of(self, data: np.ndarray, weight: np.ndarray) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            statistics = self._summarize(data, weight)
        parts = statistics if isinstance(statistics, tuple) else (statistics,)
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError(
                f"data has values as large as {np.abs(data).max(initial=0.0):.0e} and weights up "
                f"to {weight.max(initial=0.0):.0e}, "
                "whose squares or sums overflow: change units"
            )
        return statistics

    def update(self, statistics: Any) -> Self:
        """Posterior after data with these ``statistics(data)``, or a sum of several."""
        if not self._fits(statistics):
            name = type(self).__name__
            raise TypeError(
                f"statistics must be those of {name}, as {name}.statistics(data) gives them, got "
                f"{reprlib.repr(statistics)}"
            )
        moments = isinstance(statistics, tuple)
        leading = np.shape(statistics[0]) if moments else np.shape(statistics)[:-1]
        self._check_leading_shape(leading, "statistics")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            parameters = self._parameters() | self._posterior_parameters(statistics)
        try:
            return type(self)(**parameters)
        except ValueError as error:
            raise ValueError(f"data and prior are too far apart: change units ({error})") from error

    def posterior(self, data: ArrayLike, weight: ArrayLike | None = None) -> Self:
        """Posterior after seeing the data.

        Parameters
        ----------
        data : array of shape (..., n) or (..., n, d)
            One data set for each leading index; leading shapes of data and parameters broadcast.
        weight : array broadcastable to (..., n), optional
            A weight of w counts as w copies of the observation.
        """
        return self.update(self.statistics(data, weight))

    def log_predictive(self, data: ArrayLike) -> Any:
        """Log predictive density or probability (..., n) of each observation; 0 where missing."""
        with np.errstate(all="ignore"):
            return _require_finite(self._log_predictive(*self._check(data, None)), "log_predictive")

    def _log_predictive(self, data: np.ndarray, weight: np.ndarray) -> Any:
        """Log probabilities of checked observations, each taken as a separate data set."""
        own, event = self._parameters().items(), self._event
        wide = {name: np.expand_dims(v, np.ndim(v) - event.get(name, 0)) for name, v in own}
        each = type(self)(**wide)
        data, weight = np.expand_dims(data, data.ndim - self._observation), weight[..., None]
        return each._log_ratio(each._summarize(data, weight)) + each._log_base(data, weight)

    def log_marginal_likelihood(self, data: ArrayLike, weight: ArrayLike | None = None) -> Any:
        """Log probability (...) of each data set, with the parameters integrated out."""
        data, weight = self._check(data, weight)
        with np.errstate(all="ignore"):
            ratio = self._log_ratio(self._statistics_of(data, weight))
            return _require_finite(ratio + self._log_base(data, weight), "log_marginal_likelihood")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        theirs = other._parameters()  # type: ignore[attr-defined]
        return all(np.array_equal(own, theirs[name]) for name, own in self._parameters().items())

    def __hash__(self) -> int:
        values = self._parameters().values()
        return hash((type(self), *(np.asarray(value).tobytes() for value in values)))

    def __getitem__(self, index: object) -> Self:
        """The priors selected by ``index`` along the leading axes."""
        return type(self)(**{name: value[index] for name, value in self._parameters().items()})

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading shape of the parameters: () for a single prior."""
        return self._leading(*next(iter(self._parameters().items())))

    def _leading(self, name: str, value: ArrayLike) -> tuple[int, ...]:
        return np.shape(value)[: np.ndim(value) - self._event.get(name, 0)]

    def _require_single(self, name: str, way: str = "index it") -> None:
        if self.batch_shape:
            raise ValueError(f"{name} is for one prior, not {self.batch_shape} of them: {way}")

    def _parameters(self) -> dict[str, Any]:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    def _freeze(self, **parameters: Any) -> None:
        """Store the parameters, broadcast to one leading shape and read-only."""
        shapes = {name: self._leading(name, value) for name, value in parameters.items()}
        try:
            leading = np.broadcast_shapes(*shapes.values())
        except ValueError as error:
            found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ValueError(f"leading shapes of parameters must broadcast, got {found}") from error
        for name, value in parameters.items():
            array = np.array(np.broadcast_to(value, leading + value.shape[len(shapes[name]) :]))
            array.flags.writeable = False
            object.__setattr__(self, name, array[()] if array.ndim == 0 else array)

    def _check(self, data: Any, weight: Any) -> tuple[np.ndarray, np.ndarray]:
        """Data and weights with the same leading shape, set to zero where a value is missing."""
        data = as_numbers(data, "data")
        if data.ndim <= self._observation:
            what = "(..., n, d)" if self._observation else "(..., n)"
            fix = "wrap a single observation in a list"
            raise ValueError(f"data must have shape {what}, got {data.shape}: {fix}")
        if np.isinf(data).any():
            raise ValueError("data contains infinity: drop or clip those observations")
        missing = np.isnan(data)
        if missing.any() and self._observation:
            raise ValueError(
                f"data contains NaN, and a {type(self).__name__} observation is one vector, of "
                "which no entry may be missing: drop those rows"
            )
        leading = data.shape[: data.ndim - self._observation]
        self._check_leading_shape(leading[:-1], "data")
        weight = np.ones(()) if weight is None else as_numbers(weight, "weight")
        if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0:
            raise ValueError(f"weight must be finite and nonnegative, got {weight.min():g}")
        try:
            weight = np.broadcast_to(weight, leading)
        except ValueError as error:
            raise ValueError(
                f"weight must have one number for each observation, {leading}, got shape "
                f"{weight.shape}"
            ) from error
        if missing.any():
            data, weight = np.where(missing, 0.0, data), np.where(missing, 0.0, weight)
        return data, weight

    def _check_leading_shape(self, leading: tuple[int, ...], name: str) -> None:
        """Refuse data whose leading shape does not broadcast with that of the priors."""
        try:
            np.broadcast_shapes(leading, self.batch_shape)
        except ValueError as error:
            each = ", ".join([*map(str, self.batch_shape), "n, d" if self._observation else "n"])
            raise ValueError(
                f"{name} holds data sets of leading shape {leading} for priors of shape "
                f"{self.batch_shape}: observations come last, ({each})"
            ) from error


def _require_finite(values: ArrayLike, name: str) -> Any:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} overflows: data and prior are too far apart: change units")
    return values
