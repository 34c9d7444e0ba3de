"""The parameters of a fit, checked: settings, values to begin with or to keep, partial labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...array.labels import warn_of_ignored
from ...array.types import ArrayLike
from ...conjugate import NormalInverseWishart

__all__ = ["Given", "Settings", "check_frozen", "check_given", "partial_labels"]


class Given(NamedTuple):
    """First weights, means and covariances that the user gave, in the units of the data."""

    weights: np.ndarray | None = None
    means: np.ndarray | None = None
    covariances: np.ndarray | None = None


@dataclass(frozen=True)
class Settings:
    """What a fit needs to know beside the data: the parameters of the estimator, checked."""

    criterion: str
    reg_covar: float
    noise: float | None
    frozen: tuple[str, ...]
    prior: str | NormalInverseWishart | None
    n_init: int
    max_iter: int
    tol: float
    seed: int
    given: Given
    fixed: bool  # whether components are numbered by labels or first values


def check_given(
    values: dict[str, ArrayLike | None], covariance_type: str, k: int, d: int, *, noise: bool
) -> Given:
    """First values as finite arrays of the right shapes; weights sum to one."""
    return Given(
        _check_weights(values["weights"], (k + noise,)),
        _check_initial(values["means"], "means_init", (k, d)),
        _check_covariances(values["covariances"], covariance_type, k, d),
    )


def partial_labels(
    y: ArrayLike | None, n: int, n_clusters: int, classes: np.ndarray | None = None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Known labels as components 0, 1, ..., -1 for unknown, and the label of each component.

    None where ``y`` marks nothing as unknown. ``classes`` are the labels of the components where
    they are known already.
    """
    y = _integers(y, n)
    if y is None or not (y == -1).any() or (y == -1).all():
        warn_of_ignored(y)
        return None, None
    known = y != -1
    classes = np.unique(y[known]) if classes is None else classes
    if len(classes) > n_clusters:
        raise ValueError(
            f"y has {len(classes)} different labels, more than n_clusters={n_clusters}: raise "
            "n_clusters"
        )
    strange = known & ~np.isin(y, classes)
    if strange.any():
        raise ValueError(
            f"y has the label {y[strange][0]}, which the first batch had not: begin with a batch "
            "that has all labels"
        )
    return np.where(known, np.searchsorted(classes, y), -1), classes


def _integers(y: ArrayLike | None, n: int) -> np.ndarray | None:
    """``y`` as integers (n,); None where it is no partial labelling.

    There is none, or names or numbers without a sign of unknown.
    """
    if y is None:
        return None
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        return None
    if len(y) != n:
        raise ValueError(
            f"y has {len(y)} labels for {n} objects: give one label per object, -1 where it is "
            "unknown"
        )
    if y.dtype.kind in "iu":
        return y
    if y.dtype.kind == "f" and np.isnan(y).any() and not np.isnan(y).all():
        y = np.where(np.isnan(y), -1.0, y)  # NaN means unknown, as in other models
    values = y.tolist()
    if all(
        isinstance(value, (int, float)) and value == value and value == np.rint(value)
        for value in values
    ):
        return (
            np.array([int(value) for value in values])
            if np.isfinite(np.asarray(values, dtype=float)).all()
            else None
        )
    unknown = [value for value in values if value is None or value != value or value in (-1, "-1")]
    if unknown:
        raise ValueError(
            f"y must hold integers with -1 for unknown, or no unknown at all; got {unknown[0]!r} "
            f"among {y.dtype} values"
        )
    return None


def check_frozen(frozen: Any, given: dict[str, Any]) -> tuple[str, ...]:
    """Names of frozen parameters, each with a first value."""
    if not isinstance(frozen, (tuple, list, set, frozenset)) or any(
        not isinstance(name, str) or name not in given for name in frozen
    ):
        raise ValueError(
            f"frozen must be a tuple of names out of {', '.join(map(repr, given))}, got {frozen!r}"
        )
    for name in frozen:
        if given[name] is None:
            raise ValueError(
                f"frozen={frozen!r} needs {name}_init: give the {name} that shall stay"
            )
    return tuple(frozen)


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
    weights = _check_initial(value, "weights_init", shape)
    if weights is not None and (weights.min() < 0 or weights.sum() <= 0):
        raise ValueError(f"weights_init must be nonnegative with a positive sum, got {weights}")
    return None if weights is None else weights / weights.sum()


def _shape_of(covariance_type: str, k: int, d: int) -> tuple[int, ...]:
    """Shape of ``covariances_``: scikit-learn's for its names, matrices for the others."""
    shapes: dict[str, tuple[int, ...]] = {"tied": (d, d), "diag": (k, d), "spherical": (k,)}
    return shapes.get(covariance_type, (k, d, d))


def _check_covariances(value: object, covariance_type: str, k: int, d: int) -> np.ndarray | None:
    """Given first covariances: symmetric positive definite matrices, or positive numbers."""
    covariances = _check_initial(value, "covariances_init", _shape_of(covariance_type, k, d))
    if covariances is None:
        return None
    if covariance_type in ("diag", "spherical"):
        if covariances.min() <= 0:
            raise ValueError(
                f"covariances_init must be positive, got {covariances.min():g}: give variances"
            )
        return covariances
    transposed = np.swapaxes(covariances, -1, -2)
    deviations = np.sqrt(np.abs(np.diagonal(covariances, axis1=-2, axis2=-1)))
    allowed = 1e-8 * deviations[..., :, None] * deviations[..., None, :]
    if (np.abs(covariances - transposed) > allowed).any():
        raise ValueError("covariances_init must be symmetric: give (C + C.T) / 2 of each matrix C")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        raise ValueError(
            "covariances_init must be positive definite, but a matrix has an eigenvalue that is "
            "not positive"
        ) from None
    return (covariances + transposed) / 2.0
