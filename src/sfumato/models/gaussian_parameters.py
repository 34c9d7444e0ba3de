"""Parameters of mixtures at the door: checked, and carried between the units of the data and inner coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .._arrays import is_numpy
from .._rows import Rows
from ..kernels.coordinates import Coordinates
from ..kernels.gaussian import State

__all__ = ["check_frozen", "check_initial", "has_holes", "inner_covariances", "outer_covariances", "partial_labels"]
__all__ += ["precision_factors", "unmixed"]


def has_holes(rows: Rows) -> bool:
    """Whether a value is missing (NaN)."""
    if not is_numpy(rows.X) or sp.issparse(rows.X):
        return False
    return bool(np.isnan(rows.sum(lambda X, *_: (np.sum(X, dtype=np.float64),))[0])) and bool(
        rows.sum(lambda X, *_: (int(np.isnan(X).sum()),))[0]
    )


def partial_labels(y: Any, n: int, n_clusters: int) -> np.ndarray | None:
    """Known labels as components 0, 1, ..., -1 for unknown; None when ``y`` marks nothing as unknown."""
    if y is None:
        return None
    y = np.asarray(y)
    if y.dtype.kind not in "iuf" or y.ndim != 1 or not (y == -1).any() or (y == -1).all():
        return None
    if len(y) != n:
        raise ValueError(f"y has {len(y)} labels for {n} objects: give one label an object, -1 where it is unknown")
    known = y != -1
    classes, codes = np.unique(y[known], return_inverse=True)
    if len(classes) > n_clusters:
        raise ValueError(f"y has {len(classes)} different labels, more than n_clusters={n_clusters}: raise n_clusters")
    labels = np.full(n, -1)
    labels[known] = codes
    return labels


def check_frozen(frozen: Any, given: dict[str, Any]) -> tuple[str, ...]:
    """Names of frozen parameters, each with a first value."""
    if isinstance(frozen, str) or any(name not in given for name in frozen):
        raise ValueError(f"frozen must be a tuple of names out of {', '.join(map(repr, given))}, got {frozen!r}")
    for name in frozen:
        if given[name] is None:
            raise ValueError(f"frozen={frozen!r} needs {name}_init: give the {name} that shall stay")
    return tuple(frozen)


def check_initial(value: Any, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """A given first parameter as a finite float64 array of this shape."""
    if value is None:
        return None
    value = np.asarray(value, dtype=np.float64)
    if value.shape != shape or not np.isfinite(value).all():
        raise ValueError(f"{name} must be a finite array of shape {shape}, got shape {value.shape}")
    return value


def _linear(coordinates: Coordinates) -> np.ndarray:
    scale = np.diag(coordinates.scale)
    return scale if coordinates.mix is None else scale @ coordinates.mix


def inner_covariances(covariances: np.ndarray, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    """Covariances carried into inner coordinates."""
    if covariance_type in ("full", "tied"):
        M = _linear(coordinates)
        return M.T @ covariances @ M
    return covariances * (coordinates.scale if covariance_type == "diag" else coordinates.scale[0]) ** 2


def outer_covariances(covariances: np.ndarray, covariance_type: str, coordinates: Coordinates) -> np.ndarray:
    """Covariances carried back into the units of the data, exactly symmetric."""
    if covariance_type in ("full", "tied"):
        A = coordinates.outer_matrix()
        back = A.T @ covariances @ A
        return (back + np.swapaxes(back, -1, -2)) / 2.0
    return covariances / (coordinates.scale if covariance_type == "diag" else coordinates.scale[0]) ** 2


def precision_factors(state: State, coordinates: Coordinates) -> np.ndarray:
    """C with C C' the inverse of a covariance in the units of the data, upper triangular for matrices."""
    outer = outer_covariances(state.covariances, state.covariance_type, coordinates)
    if state.covariance_type not in ("full", "tied"):
        return 1.0 / np.sqrt(outer)
    inner = np.swapaxes(np.linalg.inv(np.linalg.cholesky(state.covariances)), -1, -2)
    upper = np.linalg.qr(np.swapaxes(_linear(coordinates) @ inner, -1, -2)[..., ::-1])[1]
    return _positive(np.swapaxes(upper, -1, -2)[..., ::-1, ::-1])


def _positive(factor: np.ndarray) -> np.ndarray:
    """Columns turned so that the diagonal is positive."""
    return factor * np.sign(np.diagonal(factor, axis1=-2, axis2=-1))[..., None, :]


def unmixed(state: State, coordinates: Coordinates) -> tuple[State, Coordinates]:
    """The same mixture in coordinates that keep features apart, as missing values need."""
    if coordinates.mix is None:
        return state, coordinates
    A = np.linalg.inv(coordinates.mix)
    noise = state.noise
    if noise is not None:
        noise = np.full_like(noise, (noise.sum() - np.linalg.slogdet(A)[1]) / len(noise))
    apart = state._replace(means=state.means @ A, covariances=A.T @ state.covariances @ A, noise=noise)
    return apart, coordinates._replace(mix=None)
