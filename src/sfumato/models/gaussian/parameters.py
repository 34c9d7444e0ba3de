"""Parameters that users give and read: checked, and carried between units and inner coordinates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...core.arrays import is_numpy
from ...core.rows import Rows
from ...core.types import ArrayLike
from ...numerics import families
from ...numerics.coordinates import Coordinates
from .kernel import State, matrices

__all__ = [
    "Given",
    "check_covariances_init",
    "check_frozen",
    "check_initial",
    "check_weights_init",
    "has_holes",
    "inner_covariances",
    "outer_covariances",
    "partial_labels",
    "precision_factors",
    "shape_of",
    "unmixed",
]


class Given(NamedTuple):
    """First weights, means and covariances that the user gave, in the units of the data."""

    weights: np.ndarray | None = None
    means: np.ndarray | None = None
    covariances: np.ndarray | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in self)


def has_holes(rows: Rows) -> bool:
    """Whether a value is missing (NaN)."""
    if not is_numpy(rows.X) or sp.issparse(rows.X):
        return False
    return bool(np.isnan(rows.sum(lambda X, *_: (np.sum(X, dtype=np.float64),))[0])) and bool(
        rows.sum(lambda X, *_: (int(np.isnan(X).sum()),))[0]
    )


def partial_labels(
    y: Any, n: int, n_clusters: int, classes: np.ndarray | None = None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Known labels as components 0, 1, ..., -1 for unknown, and the label of each component.

    None where ``y`` marks nothing as unknown. ``classes`` are the labels of the components where
    they are known already.
    """
    y = _integers(y, n)
    if y is None or not (y == -1).any() or (y == -1).all():
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


def _integers(y: ArrayLike, n: int) -> np.ndarray | None:
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
            f"y has {len(y)} labels for {n} objects: give one label an object, -1 where it is "
            "unknown"
        )
    if y.dtype.kind in "iu":
        return y
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


def check_initial(value: object, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
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


def check_weights_init(value: object, shape: tuple[int, ...]) -> np.ndarray | None:
    """Given first weights, nonnegative, made to sum to one."""
    weights = check_initial(value, "weights_init", shape)
    if weights is not None and (weights.min() < 0 or weights.sum() <= 0):
        raise ValueError(f"weights_init must be nonnegative with a positive sum, got {weights}")
    return None if weights is None else weights / weights.sum()


def shape_of(covariance_type: str, k: int, d: int) -> tuple[int, ...]:
    """Shape of ``covariances_``: scikit-learn's for its names, matrices for the others."""
    shapes: dict[str, tuple[int, ...]] = {"tied": (d, d), "diag": (k, d), "spherical": (k,)}
    return shapes.get(covariance_type, (k, d, d))


def check_covariances_init(
    value: object, covariance_type: str, k: int, d: int
) -> np.ndarray | None:
    """Given first covariances: symmetric positive definite matrices, or positive numbers."""
    covariances = check_initial(value, "covariances_init", shape_of(covariance_type, k, d))
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


def inner_covariances(
    covariances: np.ndarray, covariance_type: str, k: int, coordinates: Coordinates
) -> np.ndarray:
    """Covariances shaped as the family needs them, in inner coordinates."""
    family = families.family_of(covariance_type)
    if covariance_type in ("diag", "spherical"):
        scale = _own_scale(covariance_type, coordinates)
        return covariances * scale * scale
    M = coordinates.inner_matrix()
    inner = M.T @ covariances @ M
    inner = np.broadcast_to(inner, (k, *inner.shape[-2:]))
    return families.reduced(inner, family)


def _own_scale(covariance_type: str, coordinates: Coordinates) -> Any:
    """What every feature is multiplied by, or all of them alike; its square may overflow."""
    return coordinates.scale if covariance_type == "diag" else coordinates.scale[0]


def outer_covariances(state: State, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    """Covariances in the units of the data, shaped by their type, exactly symmetric."""
    if covariance_type in ("diag", "spherical"):
        scale = _own_scale(covariance_type, coordinates)
        return state.covariances / scale / scale
    A = coordinates.outer_matrix()
    inner = matrices(state)
    back = A.T @ (inner[0] if covariance_type == "tied" else inner) @ A
    return (back + np.swapaxes(back, -1, -2)) / 2.0


def precision_factors(state: State, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    """C with C C' the inverse of a covariance in the units of the data, upper triangular."""
    if covariance_type in ("diag", "spherical"):
        return _own_scale(covariance_type, coordinates) / np.sqrt(state.covariances)
    full = matrices(state)
    full = full[0] if covariance_type == "tied" else full
    inner = np.swapaxes(np.linalg.inv(np.linalg.cholesky(full)), -1, -2)
    factor = np.swapaxes(coordinates.inner_matrix() @ inner, -1, -2)[..., ::-1]
    upper = np.linalg.qr(factor)[1]
    upper = np.swapaxes(upper, -1, -2)[..., ::-1, ::-1]
    return upper * np.sign(np.diagonal(upper, axis1=-2, axis2=-1))[..., None, :]


def unmixed(state: State, coordinates: Coordinates) -> tuple[State, Coordinates]:
    """The same mixture in coordinates that keep features apart, as missing values need."""
    if coordinates.mix is None:
        return state, coordinates
    A = np.linalg.inv(coordinates.mix)
    noise = state.noise
    if noise is not None:
        noise = np.full_like(noise, (noise.sum() - np.linalg.slogdet(A)[1]) / len(noise))
    apart = state._replace(
        means=state.means @ A, covariances=A.T @ state.covariances @ A, noise=noise
    )
    return apart, coordinates._replace(mix=None)
