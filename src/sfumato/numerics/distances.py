"""Quadratic forms as linear ones: distances are one product, weighted moments another.

    (x - c)' P (x - c)  =  coefficients(c, P) . z(x),
            sum_i a_ij z(x_i)  =  the moments of cluster j

    z(x) = (1, x, |x|^2)                   kind "spherical", P a number
    z(x) = (1, x, x * x)                   kind "diag", P a vector
    z(x) = (1, x, x_a x_b for a <= b)      kind "full", P a symmetric matrix

Objects are columns here, so that sums over clusters run along contiguous memory: ``z`` of d x b is
q x b. The expansion cancels where |x|^2 is far above the distance, so the data must be centred, and
float32 goes over to float64 where that is not enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import inplace, namespace, native, optional_module
from ..array.types import Array, Weights


def width(d: int, kind: str) -> int:
    """Length of z(x)."""
    return 1 + d + {"spherical": 1, "diag": d, "full": d * (d + 1) // 2}[kind]


def features(X: Any, kind: str) -> Any:
    """z(x) (q, b) of every column of ``X`` (d, b), sparse if it is, which needs "spherical"."""
    d, b = X.shape
    if sp.issparse(X):
        norms = np.asarray(X.multiply(X).sum(axis=0)).reshape(1, b)
        return sp.vstack([np.ones((1, b), dtype=X.dtype), X, norms.astype(X.dtype)], format="csc")
    xp = namespace(X)
    Z = xp.empty((width(d, kind), b), dtype=X.dtype, device=X.device)
    Z[0, :] = 1.0
    Z[1 : d + 1, :] = X
    if kind == "spherical":
        Z[d + 1, :] = xp.vecdot(X, X, axis=0)
    elif kind == "diag":
        Z[d + 1 :, :] = X * X
    else:
        row = d + 1
        for a in range(d):
            products = Z[row : row + d - a, :]
            products[...] = X[a:, :]
            products *= X[a : a + 1, :]
            row += d - a
    return Z


def coefficients(centers: np.ndarray, precisions: np.ndarray, kind: str) -> np.ndarray:
    """Coefficients (k, q) of (x - c)' P (x - c); precisions are (k,), (k, d) or (k, d, d)."""
    if kind == "full":
        linear = (precisions @ centers[:, :, None])[:, :, 0]
        # x_a x_b stands once for a < b, so entries off the diagonal count twice.
        quadratic = pack(2.0 * precisions - precisions * np.eye(centers.shape[1]))
    else:
        precisions = precisions[:, None] if kind == "spherical" else precisions
        linear, quadratic = precisions * centers, precisions
    return np.hstack([np.sum(linear * centers, axis=1, keepdims=True), -2.0 * linear, quadratic])


def moments(sums: np.ndarray, d: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass (k,), first (k, d) and second moments (k,), (k, d) or (k, d, d) out of sums of z(x)."""
    mass, first, second = sums[:, 0], sums[:, 1 : d + 1], sums[:, d + 1 :]
    if kind == "spherical":
        second = second[:, 0]
    elif kind == "full":
        matrix = np.zeros((len(sums), d, d))
        upper = _upper(d)
        matrix[:, upper[0], upper[1]] = second
        matrix[:, upper[1], upper[0]] = second
        second = matrix
    return mass, first, second


@lru_cache(maxsize=64)
def _upper(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the upper triangle, row by row."""
    return np.triu_indices(d)


def pack(matrices: np.ndarray) -> np.ndarray:
    """Upper triangles, row by row, of symmetric matrices (k, d, d): an array (k, d (d + 1) / 2)."""
    upper = _upper(matrices.shape[-1])
    return matrices[:, upper[0], upper[1]]


def softmax_columns(logits: Array) -> tuple[Any, Any]:
    """Columns of exp(logits) (k, b), overwritten, over their sums, and the logarithms of these."""
    xp = namespace(logits)
    # Relative to the largest, so that no exponential overflows.
    top = xp.max(logits, axis=0)
    logits -= top
    logits = inplace("exp", logits)
    total = xp.sum(logits, axis=0)
    logits /= total
    total = inplace("log", total)
    total += top
    return logits, total


def weighted_columns(
    logits: Array, weights: Weights, given: np.ndarray | None = None
) -> tuple[Any, Any]:
    """``softmax_columns`` times weights (b,), or memberships (b, k) that are ``given``, as columns,
    with zeros (b,)."""
    R, level = softmax_columns(logits) if given is None else (given.T, np.zeros(len(given)))
    return (R, level) if weights is None else (R * weights, level * weights)


def unit_rows(Z: Any) -> Any:
    """Rows scaled to length one; a row of zeros stays."""
    xp = namespace(Z)
    # First by the largest entry, whose square might overflow or underflow.
    Z = Z / _positive(xp.max(xp.abs(Z), axis=1, keepdims=True))
    return Z / _positive(xp.sum(Z * Z, axis=1, keepdims=True) ** 0.5)


def _positive(x: Any) -> Any:
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))


def fused_sums(
    Z: Array,
    weights: Weights,
    rows: np.ndarray,
    d: int,
    *,
    fuzzifier: float | None = None,
    floor: float = 0.0,
) -> tuple[np.ndarray, float] | None:
    """Weighted sums of z(x) and of the costs by one kernel, native or of a CUDA device.

    None where there is no such kernel, and where all densities of an object vanish. Without a
    ``fuzzifier`` they are those of mixtures. ``Z`` holds z(x) or, for "full" mixtures, x alone.
    """
    if isinstance(Z, np.ndarray):
        if fuzzifier is None:
            return native("sums").gaussian_sums(Z, weights, rows)
        raised = rows.copy()
        raised[:, 0] += floor
        return native("fuzzy").fuzzy_sums(Z, weights, raised, fuzzifier)
    if not getattr(Z, "is_cuda", False):
        return None
    sums = optional_module(__package__, "cuda_sums")
    if sums is None or not sums.fits(Z, rows, d):
        return None
    return sums.soft_sums(Z, weights, rows, d, fuzzifier=fuzzifier, floor=floor)


def roots(matrices: np.ndarray) -> np.ndarray:
    """Cholesky factors (..., d, d); a multiple of the traces is added where rounding needs it."""
    lift = 0.0
    mean = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / max(1, matrices.shape[-1])
    while True:
        try:
            return np.linalg.cholesky(matrices + lift * mean * np.eye(matrices.shape[-1]))
        except np.linalg.LinAlgError:
            if lift > 1e-3:
                raise
            lift = max(10.0 * lift, 1e-15)


def cholesky_coordinates(matrices: np.ndarray) -> np.ndarray:
    """Definite matrices (k, d, d) as free numbers: Cholesky factors with logarithmic diagonals."""
    factor = roots(matrices)
    diagonal = np.arange(factor.shape[-1])
    factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
    return pack(np.swapaxes(factor, 1, 2))


def from_cholesky_coordinates(numbers: np.ndarray, d: int) -> np.ndarray:
    """The matrices (k, d, d) that ``cholesky_coordinates`` describes."""
    factor = np.zeros((len(numbers), d, d))
    upper, diagonal = _upper(d), np.arange(d)
    factor[:, upper[1], upper[0]] = numbers
    factor[:, diagonal, diagonal] = np.exp(np.clip(factor[:, diagonal, diagonal], -300.0, 300.0))
    return factor @ np.swapaxes(factor, 1, 2)


def largest_first(sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Clusters (k,) in the order of their ``sizes``, the largest first.

    Sizes and ``keys`` (k, d), such as centers, that agree to six digits count as equal, so that
    rounding, and with it the order of the objects, does not decide; equal sizes go by their keys.
    """
    sizes = np.round(sizes / max(float(sizes.max()), np.finfo(float).tiny), 6)
    keys = np.round(keys / max(float(np.abs(keys).max(initial=0.0)), np.finfo(float).tiny), 6)
    return np.lexsort((*keys.T[::-1], -sizes))
