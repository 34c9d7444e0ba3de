"""Parameters of a Gaussian mixture, checked: values to begin with or to keep, errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...array.types import ArrayLike
from ...components.gaussian import Start

__all__ = ["check_errors", "check_frozen", "check_start"]


def check_start(init: Any, covariance_type: str, k: int, d: int, *, noise: bool) -> Start:
    """First values as finite arrays of the right shapes; weights sum to one."""
    weights, means, covariances, frozen = init
    return Start(
        _check_weights(weights, (k + noise,)),
        _check_initial(means, "init.means", (k, d)),
        _check_covariances(covariances, covariance_type, k, d),
        tuple(frozen),
    )


def check_frozen(init: Any) -> Start:
    """What the user gave to begin with, each frozen parameter with a first value."""
    if init is None:
        return Start()
    if not isinstance(init, (Start, Mapping)):
        raise TypeError(
            "init must be Start(weights=, means=, covariances=, frozen=) or a dict of these, got "
            f"{init!r}"
        )
    given = Start(**init) if isinstance(init, Mapping) else init
    names = ("weights", "means", "covariances")
    if not isinstance(given.frozen, (tuple, list, set, frozenset)) or any(
        not isinstance(name, str) or name not in names for name in given.frozen
    ):
        raise ValueError(
            f"init.frozen must be a tuple of names out of {', '.join(map(repr, names))}, got "
            f"{given.frozen!r}"
        )
    for name in given.frozen:
        if getattr(given, name) is None:
            raise ValueError(
                f"init.frozen={given.frozen!r} needs init.{name}: give the {name} that shall stay"
            )
    return given


def check_errors(value: ArrayLike, n: int, d: int) -> np.ndarray:
    """Error covariances (n, d, d) out of variances (n, d) or covariances."""
    try:
        errors = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"measurement_error must be an array of shape ({n}, {d}), variances, or ({n}, {d}, "
            f"{d}), covariances; got {value!r}"
        ) from error
    if errors.shape not in ((n, d), (n, d, d)):
        raise ValueError(
            f"measurement_error must have shape ({n}, {d}), variances, or ({n}, {d}, {d}), "
            f"covariances; got shape {errors.shape}"
        )
    if not np.isfinite(errors).all():
        raise ValueError(
            "measurement_error must be finite: leave out objects whose error is not known"
        )
    if errors.ndim == 2:
        errors = errors[:, :, None] * np.eye(d)
    largest = np.abs(errors).max(initial=0.0)
    if (np.abs(errors - np.swapaxes(errors, 1, 2)) > 1e-8 * largest).any():
        raise ValueError("measurement_error must hold symmetric covariances")
    errors = (errors + np.swapaxes(errors, 1, 2)) / 2.0
    least = np.linalg.eigvalsh(errors).min(initial=0.0)
    if least < -1e-10 * largest:
        raise ValueError(
            f"measurement_error must hold variances or covariances that are not negative, got "
            f"{least:g}"
        )
    return errors


def _check_initial(value: object, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """A given first parameter as a finite float64 array of this shape."""
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers of shape {shape}, got {value!r}"
        ) from error
    if array.shape != shape:
        raise ValueError(f"{name} must be an array of shape {shape}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, but holds {'NaN' if np.isnan(array).any() else 'infinity'}: "
            "give a number in its place"
        )
    return array


def _check_weights(value: object, shape: tuple[int, ...]) -> np.ndarray | None:
    """Given first weights, nonnegative, made to sum to one."""
    weights = _check_initial(value, "init.weights", shape)
    if weights is not None and (weights.min() < 0 or weights.sum() <= 0):
        raise ValueError(f"init.weights must be nonnegative with a positive sum, got {weights}")
    return None if weights is None else weights / weights.sum()


def _shape_of(covariance_type: str, k: int, d: int) -> tuple[int, ...]:
    """Shape of ``covariances_``: scikit-learn's for its names, matrices for the others."""
    shapes: dict[str, tuple[int, ...]] = {"tied": (d, d), "diag": (k, d), "spherical": (k,)}
    return shapes.get(covariance_type, (k, d, d))


def _check_covariances(value: object, covariance_type: str, k: int, d: int) -> np.ndarray | None:
    """Given first covariances: symmetric positive definite matrices, or positive numbers."""
    covariances = _check_initial(value, "init.covariances", _shape_of(covariance_type, k, d))
    if covariances is None:
        return None
    if covariance_type in ("diag", "spherical"):
        if covariances.min() <= 0:
            raise ValueError(
                f"init.covariances must be positive, got {covariances.min():g}: give variances"
            )
        return covariances
    transposed = np.swapaxes(covariances, -1, -2)
    deviations = np.sqrt(np.abs(np.diagonal(covariances, axis1=-2, axis2=-1)))
    allowed = 1e-8 * deviations[..., :, None] * deviations[..., None, :]
    if (np.abs(covariances - transposed) > allowed).any():
        raise ValueError("init.covariances must be symmetric: give (C + C.T) / 2 of each matrix C")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        raise ValueError(
            "init.covariances must be positive definite, but a matrix has an eigenvalue that is "
            "not positive"
        ) from None
    return (covariances + transposed) / 2.0
