"""Checks of similarity matrices."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import reader
from ..array.validation import largest_size, refuse_mask, refuse_overflow, refuse_underflow
from ..array.warn import warn

# As a share of the largest entry: smaller negative or asymmetric parts are rounding errors.
ROUNDING = 1e-8


def check_similarity(
    W: Any,
    name: str = "W",
    *,
    signed: bool = False,
    features: str = "make one of them, e.g. similarity.gaussian(X)",
) -> Any:
    """A checked similarity (n, n): a finite array or CSR, made symmetric with a warning, and
    nonnegative unless ``signed``; or an operator, whose entries are not checked. ``features`` is
    the advice for callers who passed features.
    """
    W = _as_matrix(W, name)
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(
            f"{name} must be a square similarity matrix (n, n), got shape {tuple(W.shape)}; for "
            f"features {features}"
        )
    if W.shape[0] == 0:
        raise ValueError(f"{name} is empty: 0 objects")
    if not (isinstance(W, np.ndarray) or sp.issparse(W)):
        return W
    W = _checked(W, name, signed)
    refuse_overflow(W, name)
    refuse_underflow(W, name)
    if not (_symmetric_sparse(W) if sp.issparse(W) else _symmetric(W)):
        warn(f"{name} is not symmetric: (W + W') / 2 is used")
        W = (W + W.T) / 2
    n = W.shape[0]
    dense = isinstance(W, np.ndarray)
    if dense and n > 2 and not W.diagonal().any() and np.count_nonzero(W) == n * (n - 1):
        warn(
            f"{name} looks like distances, not similarities: zeros on the diagonal and nowhere "
            "else. If it holds distances d, give similarity='distance', or pass e.g. "
            "exp(-d**2 / (2 * s**2))"
        )
    return W if dense else sp.csr_array(W)


def check_rows(rows: Any, n_objects: int, name: str = "W", *, signed: bool = False) -> Any:
    """Checked similarities (n_new, n_objects) of new objects to the fitted ones."""
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
        return _checked(rows, name, signed)
    return rows


def _as_matrix(W: Any, name: str) -> Any:
    """Lists, frames and array subclasses as plain arrays; operators are returned unchanged."""
    refuse_mask(W, name)
    plain = isinstance(W, np.ndarray) or hasattr(W, "iloc") or not hasattr(W, "__matmul__")
    return np.asarray(W) if plain and not sp.issparse(W) else W


def _checked(W: Any, name: str, signed: bool) -> Any:
    """Finite floats; negative values beyond rounding are refused unless ``signed``."""
    W = sp.csr_array(W) if sp.issparse(W) else W
    if W.dtype.kind == "c":
        raise ValueError(f"{name} holds complex data: take the real part or the modulus")
    try:
        W = W if W.dtype in (np.float32, np.float64) else W.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers, got dtype {W.dtype}: {error}") from error
    if sp.issparse(W) and not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    with np.errstate(invalid="ignore", over="ignore"):  # infinities raise an error, not a warning
        finite = np.isfinite(W.data if sp.issparse(W) else W.sum(axis=1)).all()
    if not finite:
        raise ValueError(
            f"{name} contains NaN or infinity: PairwiseProbabilisticClustering and "
            "SpectralClustering read NaN as not measured; elsewhere drop those objects (0 would "
            "mean that they are not similar)"
        )
    values = W.data if sp.issparse(W) else W
    least, most = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    if least >= 0 or (signed and most > 0):
        return W
    if least < -ROUNDING * most:
        raise ValueError(f"{name} has negative similarities ({least:g}): try {name}.clip(min=0)")
    values = np.clip(values, 0.0, None)
    return sp.csr_array((values, W.indices, W.indptr), shape=W.shape) if sp.issparse(W) else values


def _bound(W: Any) -> float:
    """Largest difference that counts as rounding between entries of a symmetric matrix."""
    return (1e-5 if W.dtype == np.float32 else ROUNDING) * largest_size(W)


def _symmetric(W: np.ndarray) -> bool:
    """Whether W is symmetric; compared in blocks, without an n x n temporary."""
    size, bound = max(1, 2**18 // W.shape[0]), _bound(W)
    blocks = ((at, slice(at, at + size)) for at in range(0, W.shape[0], size))
    gaps = (np.abs(W[rows, at:] - W[at:, rows].T).max(initial=0.0) for at, rows in blocks)
    return all(gap <= bound for gap in gaps)


def _symmetric_sparse(W: Any) -> bool:
    turned = sp.csr_array(W.T)
    alike = np.array_equal(W.indptr, turned.indptr) and np.array_equal(W.indices, turned.indices)
    # Comparing sparse arrays with different patterns takes much longer.
    difference = W.data - turned.data if alike else (W - turned).data
    return bool(np.abs(difference).max(initial=0.0) <= _bound(W))
