"""Numbers that parameters, data and weights must be."""

from __future__ import annotations

import reprlib
from numbers import Real
from typing import Any

import numpy as np

from ..array.validation import check_number, refuse_mask

__all__ = [
    "MOST",
    "Size",
    "as_numbers",
    "as_shape",
    "check_finite",
    "check_level",
    "check_positive",
    "frozen",
    "quantiles",
    "spread_weight",
]

MOST = 1e300  # sums of a few counts or rates up to this size are still finite
Size = int | tuple[int, ...] | None  # shape of a sample, as in NumPy


def spread_weight(weight: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
    """Checked weights, one for each observation."""
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0:
        raise ValueError(
            f"weight must be finite and nonnegative, got {reprlib.repr(weight.tolist())}"
        )
    try:
        return np.broadcast_to(weight, leading)
    except ValueError as error:
        raise ValueError(
            f"weight must have one number for each observation, {leading}, got shape {weight.shape}"
        ) from error


def as_numbers(value: object, name: str) -> np.ndarray:
    """``value`` as an array of float64."""
    refuse_mask(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} must be an array, got rows of different lengths: {reprlib.repr(value)}"
        ) from error
    real = array.dtype.kind in "biuf" or (
        array.dtype.kind == "O" and all(isinstance(entry, Real) for entry in array.ravel())
    )
    if not real:
        raise TypeError(
            f"{name} must hold numbers, got {reprlib.repr(value)} of dtype {array.dtype}"
        )
    return array.astype(np.float64)


def frozen(value: object) -> Any:
    """A read-only float64 copy; a plain number for a single one."""
    array = np.array(value, dtype=np.float64)
    array.flags.writeable = False
    return array[()] if array.ndim == 0 else array


def check_positive(
    value: object, name: str, *, above: float | np.ndarray = 0.0, most: float = np.inf
) -> np.ndarray:
    """``value`` as an array of finite numbers greater than ``above``, none more than ``most``."""
    array = check_finite(value, name, f"greater than {np.max(above):g} and finite")
    if not (array > above).all():
        raise ValueError(
            f"{name} must be greater than {np.max(above):g}, got {reprlib.repr(value)}"
        )
    if (array > most).any():
        raise ValueError(
            f"{name} must be at most {most:.0e}, got {reprlib.repr(value)}: larger numbers do not "
            "add up"
        )
    return array


def check_finite(value: object, name: str, wanted: str = "finite") -> np.ndarray:
    """``value`` as an array of at least one number, all finite."""
    array = as_numbers(value, name)
    if array.size == 0:
        raise ValueError(f"{name} is empty, of shape {array.shape}: give at least one number")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be {wanted}, got {reprlib.repr(value)}")
    return array


def check_level(level: float) -> tuple[float, float]:
    """Lower and upper probability of the equal-tailed interval of this level."""
    level = check_number(level, "level", low=0, high=1, strict=True)
    return (1 - level) / 2, (1 + level) / 2


def quantiles(distribution: Any, level: float) -> tuple[Any, Any]:
    """Ends of the equal-tailed interval of a scipy distribution."""
    low, high = check_level(level)
    with np.errstate(all="ignore"):
        return distribution.ppf(low)[()], distribution.ppf(high)[()]


def as_shape(size: Size) -> tuple[int, ...]:
    """``size`` as in NumPy: nothing, a number or a shape."""
    if size is None:
        return ()
    return tuple(
        check_number(part, "size", low=0, integer=True)
        for part in (size if isinstance(size, (tuple, list)) else (size,))
    )
