"""Checks of similarities: every message names the parameter, the value and the fix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import reader
from ..array.types import ArrayLike, Similarity
from ..array.validation import refuse_mask, refuse_overflow, refuse_underflow
from ..array.warn import warn

__all__ = ["check_rows", "check_similarity"]

ROUNDING = (
    1e-8  # of the largest entry: negative and asymmetric entries up to here are rounding errors
)


def check_similarity(
    W: Similarity,
    name: str = "W",
    *,
    signed: bool = False,
    features: str = "make one of them, e.g. similarity.gaussian(X)",
) -> Any:
    """A similarity (n, n): symmetric, finite, nonnegative unless ``signed``.

    Negative entries as small as rounding errors are set to zero.

    An array, CSR, or an operator (anything with ``shape`` and ``@``).

    An asymmetric matrix is averaged with its transpose, with a warning. The
    entries of an operator are not checked. ``features`` says what to do with those.
    """
    W = _as_matrix(W, name)
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(
            f"{name} must be a square similarity matrix (n, n), got shape {tuple(W.shape)}; for "
            f"features {features}"
        )
    if W.shape[0] == 0:
        raise ValueError(f"{name} is empty: 0 objects")
    if sp.issparse(W):
        return _check_sparse(W, name, signed)
    if isinstance(W, np.ndarray):
        return _check_dense(W, name, signed)
    return W


def _as_matrix(W: Similarity, name: str) -> Any:
    """Lists, frames and subclasses of arrays as plain arrays; operators as they are."""
    refuse_mask(W, name)
    if sp.issparse(W) or (
        type(W) is not np.ndarray
        and not isinstance(W, np.ndarray)
        and not hasattr(W, "iloc")
        and hasattr(W, "__matmul__")
    ):
        return W
    return np.asarray(W)


def _finite(values: ArrayLike, name: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} contains NaN or infinity: PairwiseProbabilisticClustering and "
            "SpectralClustering read NaN as not "
            "measured; elsewhere drop those objects (0 would mean that they are not similar)"
        )


def _as_float(W: Any, name: str) -> Any:
    if W.dtype in (np.float32, np.float64):
        return W
    if W.dtype.kind in "biuf":
        return W.astype(np.float64)
    if W.dtype.kind == "c":
        raise ValueError(
            f"{name} holds complex data, which is not supported: take the real part or the modulus"
        )
    try:
        return W.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must hold numbers, got an array of dtype {W.dtype}: {error}"
        ) from error


def _nonnegative(values: np.ndarray, name: str, signed: bool) -> np.ndarray:
    """Entries without the negative ones that rounding leaves.

    Larger ones are refused unless ``signed``.
    """
    least = float(values.min(initial=0.0))
    if least >= 0 or (signed and float(values.max(initial=0.0)) > 0):
        return values
    if least >= -ROUNDING * float(values.max(initial=0.0)):
        return np.clip(values, 0.0, None)
    raise ValueError(
        f"{name} has negative similarities (smallest {least:g}): shift or clip them, e.g. "
        f"{name}.clip(min=0)"
    )


def _check_dense(W: np.ndarray, name: str, signed: bool) -> np.ndarray:
    W = _as_float(W, name)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused, not warned of
        _finite(W.sum(axis=1), name)
    W = _nonnegative(W, name, signed)
    refuse_overflow(W, name)
    refuse_underflow(W, name)
    if not _symmetric(W):
        warn(f"{name} is not symmetric: (W + W') / 2 is used")
        W = (W + W.T) / 2
    _warn_if_distances(W.diagonal(), W, name)
    return W


def _symmetric(W: np.ndarray) -> bool:
    """Compare blocks of rows with blocks of columns: no n x n temporary."""
    tolerance = 1e-5 if W.dtype == np.float32 else ROUNDING
    bound = tolerance * float(max(W.max(initial=0.0), -W.min(initial=0.0)))
    size = max(1, 2**18 // W.shape[0])
    return all(
        np.abs(W[start : start + size, start:] - W[start:, start : start + size].T).max(initial=0.0)
        <= bound
        for start in range(0, W.shape[0], size)
    )


def _warn_if_distances(diagonal: np.ndarray, W: np.ndarray, name: str) -> None:
    n = W.shape[0]
    if n > 2 and not diagonal.any() and np.count_nonzero(W) == n * (n - 1):
        warn(
            f"{name} looks like distances, not similarities: zeros on the diagonal and nowhere "
            "else. If it holds distances d, give similarity='distance', or pass e.g. "
            "exp(-d**2 / (2 * s**2))"
        )


def _check_sparse(W: Any, name: str, signed: bool) -> Any:
    W = _as_float(sp.csr_array(W), name)
    if not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    _finite(W.data, name)
    data = _nonnegative(W.data, name, signed)
    W = W if data is W.data else sp.csr_array((data, W.indices, W.indptr), shape=W.shape)
    refuse_overflow(W, name)
    refuse_underflow(W, name)
    transposed = sp.csr_array(W.T)
    alike = np.array_equal(W.indptr, transposed.indptr) and np.array_equal(
        W.indices, transposed.indices
    )
    # Sparse arrays with entries in other places take much longer to compare.
    difference = W.data - transposed.data if alike else (W - transposed).data
    tolerance = 1e-5 if W.dtype == np.float32 else ROUNDING
    bound = tolerance * float(np.abs(W.data).max(initial=0.0))
    if np.abs(difference).max(initial=0.0) > bound:
        warn(f"{name} is not symmetric: (W + W') / 2 is used")
        W = sp.csr_array((W + W.T) / 2)
    return W


def check_rows(rows: Any, n_objects: int, name: str = "W", *, signed: bool = False) -> Any:
    """Similarities of new objects to the fitted ones: (n_new, n_objects), finite, nonnegative
    unless ``signed``.
    """
    if reader(rows) is not None:
        raise TypeError(
            f"{name} is a dask array: similarities of new objects are read here, a part at a "
            f"time; pass {name}.compute()"
        )
    rows = _as_matrix(rows, name)
    if len(rows.shape) != 2 or rows.shape[1] != n_objects:
        raise ValueError(
            f"{name} must hold similarities of new objects to the {n_objects} fitted ones, "
            f"(n_new, {n_objects}); got {tuple(rows.shape)}"
        )
    if isinstance(rows, np.ndarray) or sp.issparse(rows):
        rows = _as_float(sp.csr_array(rows) if sp.issparse(rows) else rows, name)
        values = rows.data if sp.issparse(rows) else rows
        _finite(values, name)
        clipped = _nonnegative(values, name, signed)
        if clipped is not values:
            if not sp.issparse(rows):
                return clipped
            rows = sp.csr_array((clipped, rows.indices, rows.indptr), shape=rows.shape)
    return rows
