"""What every conjugate pair shares: immutable parameters, checked data, and the three verbs built on statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, NamedTuple, Self

import numpy as np

__all__ = ["ConjugatePair", "Joint", "as_shape", "check_finite", "check_level", "check_positive", "frozen"]


class Joint(NamedTuple):
    """One thing for each of two parameters: the mean, and the variance (or covariance matrix)."""

    mean: Any
    variance: Any


class ConjugatePair(ABC):
    """A prior that data of its likelihood turn into a posterior of the same class."""

    _event: dict[str, int] = {}  # dimensions of a parameter that belong to one prior; 0 unless said
    _observation = 0  # dimensions of one observation
    _missing = True  # whether single numbers may be missing

    @abstractmethod
    def statistics(self, data: Any, weight: Any = None) -> Any:
        """Sufficient statistics of the data; they add up."""

    @abstractmethod
    def update(self, statistics: Any) -> Self:
        """Posterior after data with these statistics."""

    @abstractmethod
    def log_predictive(self, data: Any) -> Any:
        """Log predictive density (or mass) of each observation on its own."""

    def _log_normalizer(self) -> Any:
        """log Z of the prior."""
        raise NotImplementedError

    def _log_base(self, data: Any, weight: Any) -> Any:
        """Weighted sum of the log likelihood's parameter-free part."""
        raise NotImplementedError

    def posterior(self, data: Any, weight: Any = None) -> Self:
        """Posterior after seeing the data.

        Parameters
        ----------
        data : array of shape (..., n) or (..., n, d)
            One data set for each leading index; leading shapes of data and parameters broadcast.
        weight : array broadcastable to (..., n), optional
            A weight of w counts as w copies of the observation.

        Returns
        -------
        posterior : an object of the same class
        """
        return self.update(self.statistics(data, weight))

    def log_evidence(self, data: Any, weight: Any = None) -> Any:
        """Log probability of the data with the parameters integrated out, one number for each data set.

        Parameters
        ----------
        data : array of shape (..., n) or (..., n, d)
        weight : array broadcastable to (..., n), optional

        Returns
        -------
        log_evidence : array of shape (...)
        """
        posterior = self.posterior(data, weight)
        return posterior._log_normalizer() - self._log_normalizer() + self._log_base(*self._check(data, weight))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        theirs = other._parameters()  # type: ignore[attr-defined]
        return all(np.array_equal(value, theirs[name]) for name, value in self._parameters().items())

    def __hash__(self) -> int:
        return hash((type(self), *(np.asarray(value).tobytes() for value in self._parameters().values())))

    def __getitem__(self, index: Any) -> Self:
        """The priors at ``index`` of the leading shape."""
        return type(self)(**{name: value[index] for name, value in self._parameters().items()})

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Leading shape of the parameters: () for a single prior."""
        name, value = next(iter(self._parameters().items()))
        return np.shape(value)[: np.ndim(value) - self._event.get(name, 0)]

    def _parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def _freeze(self, **parameters: Any) -> None:
        """Store the parameters, broadcast to one leading shape and read-only."""
        leading = np.broadcast_shapes(*(np.shape(v)[: np.ndim(v) - self._event.get(k, 0)] for k, v in parameters.items()))
        for name, value in parameters.items():
            tail = np.shape(value)[np.ndim(value) - self._event.get(name, 0) :]
            object.__setattr__(self, name, frozen(np.broadcast_to(value, leading + tail)))

    def _check(self, data: Any, weight: Any) -> tuple[np.ndarray, np.ndarray]:
        """Data with missing numbers set to zero, and weights of the same leading shape, zero where a number is missing."""
        data = np.asarray(data)
        if data.dtype.kind not in "biuf":
            raise TypeError(f"data must hold numbers, got an array of dtype {data.dtype}")
        data = data.astype(np.float64)
        if data.ndim <= self._observation:
            what = "(..., n)" if not self._observation else "(..., n, d)"
            raise ValueError(f"data must have shape {what}, got {data.shape}: wrap a single observation in a list")
        if np.isinf(data).any():
            raise ValueError("data contains infinity: drop or clip those observations")
        missing = np.isnan(data)
        if missing.any() and not self._missing:
            raise ValueError(f"data contains NaN, and the entries of one {type(self).__name__} observation hang together: drop those rows")
        leading = data.shape if not self._observation else data.shape[:-1]
        weight = np.broadcast_to(1.0 if weight is None else np.asarray(weight, dtype=np.float64), leading)
        if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0:
            raise ValueError("weight must be finite and nonnegative")
        if missing.any():
            data, weight = np.where(missing, 0.0, data), np.where(missing, 0.0, weight)
        return data, weight


def frozen(value: Any) -> Any:
    """A read-only float64 copy; a plain number for a single one."""
    array = np.array(value, dtype=np.float64)
    array.flags.writeable = False
    return array[()] if array.ndim == 0 else array


def check_positive(value: Any, name: str, *, above: Any = 0.0) -> np.ndarray:
    """``value`` as an array of finite numbers greater than ``above``."""
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > above).all()):
        raise ValueError(f"{name} must be greater than {np.max(above):g}, got {value!r}")
    return array


def check_finite(value: Any, name: str) -> np.ndarray:
    """``value`` as an array of finite numbers."""
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {value!r}")
    return array


def check_level(level: float) -> tuple[float, float]:
    """Lower and upper probability of the equal-tailed interval of this level."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level!r}")
    return (1 - level) / 2, (1 + level) / 2


def as_shape(size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """``size`` as in NumPy: nothing, a number or a shape."""
    if size is None:
        return ()
    return (size,) if isinstance(size, (int, np.integer)) else tuple(size)
