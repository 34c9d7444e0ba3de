"""Coordinates of features, and distances in them as products.

Models of features use centred, scaled coordinates, whitened if the model allows any affine map:

    inner = ((x - shift) * scale) @ mix          mix = identity where it is None

``shift`` is rounded to the dtype of the data, so that differences are exact for large offsets. In
these coordinates, quadratic forms are linear: distances and weighted moments are matrix products.

    (x - c)' P (x - c)  =  coefficients(c, P) . z(x),
            sum_i a_ij z(x_i)  =  the moments of cluster j

    z(x) = (1, x, |x|^2)                   kind "spherical", P a number
    z(x) = (1, x, x * x)                   kind "diag", P a vector
    z(x) = (1, x, x_a x_b for a <= b)      kind "full", P a symmetric matrix

Objects are columns here (``z`` of d x b is q x b), so that sums over clusters run along contiguous
memory. The expansion loses digits if |x|^2 is much larger than the distance: data must be centred,
and float32 is replaced by float64 if that is not enough.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.arrays import inplace, namespace, native, optional_module, to_numpy
from ..array.rows import Rows
from ..array.types import Array, Weights

RIDGE = 1e-9  # relative to a feature's variance, against features that are combinations of others


class Coordinates(NamedTuple):
    """An invertible affine map of the features, with the ``variances`` (d,) of inner features
    before mixing and the ``thinnest`` one in any direction.
    """

    shift: np.ndarray
    scale: np.ndarray
    mix: np.ndarray | None
    variances: np.ndarray
    thinnest: float = 1.0
    keeps_sparse: bool = False

    def inner(self, X: Any) -> Any:
        """Rows of ``X`` in inner coordinates, as floats; sparse with ``keeps_sparse``."""
        if sp.issparse(X):
            X = X if X.dtype.kind == "f" else X.astype(np.float64)
            if self.keeps_sparse and self.mix is None:
                return sp.csr_array(X.multiply(self.scale[None, :].astype(X.dtype)))
            X = X.toarray()
        xp = namespace(X)
        if not xp.isdtype(X.dtype, "real floating"):  # integers would round what follows
            X = xp.astype(X, xp.float64)
        X = X - xp.asarray(self.shift, dtype=X.dtype, device=X.device)
        X *= xp.asarray(self.scale, dtype=X.dtype, device=X.device)
        return X if self.mix is None else X @ xp.asarray(self.mix, dtype=X.dtype, device=X.device)

    def outer(self, means: np.ndarray) -> np.ndarray:
        """Points in the units of the data."""
        unmixed = means if self.mix is None else means @ np.linalg.inv(self.mix)
        return unmixed / self.scale + self.shift

    def outer_matrix(self) -> np.ndarray:
        """A (d, d) with  outer differences = inner differences @ A."""
        back = np.eye(len(self.scale)) if self.mix is None else np.linalg.inv(self.mix)
        return back / self.scale

    def inner_matrix(self) -> np.ndarray:
        """M (d, d) with  inner differences = outer differences @ M."""
        scale = np.diag(self.scale)
        return scale if self.mix is None else scale @ self.mix

    def covariance(self) -> np.ndarray:
        """Covariance (d, d) of the data in the coordinates before mixing; needs ``mix``."""
        back = np.linalg.inv(np.eye(len(self.scale)) if self.mix is None else self.mix)
        return back.T @ back

    def unmixed(self) -> Coordinates:
        """These coordinates without mixing: every feature that varies has variance one."""
        return self._replace(mix=None, thinnest=float(self.variances.min(initial=1.0)))

    def isotropic(self) -> Coordinates:
        """These coordinates with one factor for all features, and a mean variance of one."""
        varying = self.variances > 0
        least = self.scale[varying].min() if varying.any() else self.scale.min()
        relative = np.where(varying, least / self.scale, 0.0) ** 2 * self.variances
        level = float(relative.mean()) if relative.any() else 1.0
        scale = np.full_like(self.scale, least / np.sqrt(level))
        return Coordinates(self.shift, scale, None, relative / level, relative.min() / level)

    def log_volume(self) -> float:
        """log |det| of the map to inner coordinates, which is added to log densities."""
        mixed = 0.0 if self.mix is None else float(np.linalg.slogdet(self.mix)[1])
        return float(np.log(self.scale).sum()) + mixed


class _Sums(NamedTuple):
    mass: Any
    moment: Any


def measure(rows: Rows, *, per_feature: bool, mix: bool, centre: bool = True) -> Coordinates:
    """Coordinates in which data are centred, with variance one for each feature (or on average),
    and uncorrelated if ``mix``. Missing values (NaN) are ignored.
    """
    d = rows.shape[1]
    total = rows.shape[0] if rows.columns[0] is None else float(rows.columns[0].sum())
    first = rows.sum(lambda X, w, *_: _moment(X, w, total, 1))
    mean = first.moment / np.where(first.mass > 0, first.mass, 1.0)
    low, high = rows.extremes().astype(np.float64)
    mean = np.where(low == high, low, mean)  # exactly, so that no difference is magnified
    shift = np.asarray(mean, dtype=_dtype(rows)).astype(np.float64) if centre else np.zeros(d)
    reach = np.nan_to_num(np.maximum(np.abs(low - shift), np.abs(high - shift)))
    # A constant feature differs from its mean only by rounding, which must not be magnified.
    reach = np.where(reach <= 4.0 * np.finfo(_dtype(rows)).eps * np.abs(shift), 0.0, reach)
    reach = reach if per_feature else np.full(d, reach.max(initial=0.0))
    # A constant feature has no unit. It gets its own size or the largest unit of the others, so
    # that factors between features stay finite. If all are constant, those at zero get the largest
    # size.
    size = np.abs(shift)
    size = np.where(size > 0, size, size.max(initial=0.0))
    reach = np.where(reach > 0, reach, np.maximum(size, reach.max(initial=0.0)))
    scale = _power_of_two(reach)
    middle = Coordinates(shift, scale, None, np.ones(d), keeps_sparse=not centre)
    second = rows.sum(lambda X, w, *_: _moment(middle.inner(X), w, total, 2, mix))
    mass = np.where(second.mass > 0, second.mass, 1.0)
    moment = second.moment / (np.sqrt(np.outer(mass, mass)) if mix else mass)
    rest = scale * (mean - shift)  # remainder of the mean after rounding the shift
    moment = moment - (np.outer(rest, rest) if mix else rest**2)
    variances = np.maximum(np.diag(moment) if mix else moment, 0.0)
    return _finish(middle, moment, variances, per_feature, mix)


def _finish(
    middle: Coordinates, moment: np.ndarray, variances: np.ndarray, per_feature: bool, mix: bool
) -> Coordinates:
    level = variances if per_feature else np.full_like(variances, variances.mean())
    second = 1.0 / np.sqrt(np.where(level > 0, level, 1.0))
    # an outlier may be much larger than the deviation behind the factor
    second = np.minimum(second, 1e305 / np.maximum(middle.scale, 1.0))
    variances, scale = variances * second**2, middle.scale * second
    matrix, thinnest = None, float(variances.min(initial=1.0))
    if mix:
        deviation = np.sqrt(np.where(variances > 0, variances, 1.0))
        correlation = moment * np.outer(second, second) / np.outer(deviation, deviation)
        correlation[np.diag_indices(len(variances))] = np.where(variances > 0, 1.0, 0.0)
        least = float(np.linalg.eigvalsh(correlation)[0])  # negative only by rounding
        thinnest = max(0.0, least) / (max(0.0, least) + RIDGE)
        correlation[np.diag_indices(len(variances))] = 1.0 + RIDGE + 2.0 * max(0.0, -least)
        factor = np.linalg.cholesky(correlation)
        matrix = np.linalg.inv(factor).T / deviation[:, None]
    return Coordinates(middle.shift, scale, matrix, variances, thinnest, middle.keeps_sparse)


def _power_of_two(size: np.ndarray) -> np.ndarray:
    """Powers of two that scale ``size`` into [1/2, 1); one for zero."""
    size = np.where(size > 0, size, 0.75)
    return np.ldexp(1.0, np.clip(-np.frexp(size)[1], -1000, 1000))


def _dtype(rows: Rows) -> Any:
    return np.float32 if "float32" in str(rows.dtype) else np.float64


def _moment(X: Any, weights: Weights, total: float, power: int, mix: bool = False) -> _Sums:
    """Shares of the observed values of every feature; means of values, squares or products."""
    X = X.astype(np.float64) if sp.issparse(X) else to_numpy(X).astype(np.float64, copy=False)
    w = np.full(X.shape[0], 1.0 / total) if weights is None else to_numpy(weights) / total
    if sp.issparse(X):
        return _Sums(np.full(X.shape[1], w.sum()), (X if power == 1 else X.multiply(X)).T @ w)
    seen = ~np.isnan(X)
    if seen.all():
        mass = np.full(X.shape[1], w.sum())
    else:
        mass, X = w @ seen, np.where(seen, X, 0.0)
    return _Sums(mass, (X.T * w) @ X if mix else w @ X**power)


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
        row, column = _upper(centers.shape[1])
        # x_a x_b is stored once for a < b, so off-diagonal entries count twice.
        quadratic = precisions[:, row, column] * (1.0 + (row != column))
    else:
        precisions = precisions[:, None] if kind == "spherical" else precisions
        linear, quadratic = precisions * centers, precisions
    return np.hstack([np.sum(linear * centers, axis=1, keepdims=True), -2.0 * linear, quadratic])


def moments(sums: np.ndarray, d: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass (k,), first (k, d) and second moments (k,), (k, d) or (k, d, d) from sums of z(x)."""
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
    """Columns of exp(logits) (k, b) divided by their sums (in place), and the logs of the sums."""
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


def weighted_columns(logits: Array, weights: Weights, given: Weights = None) -> tuple[Any, Any]:
    """``softmax_columns`` times weights (b,); or ``given`` memberships (b, k), and zeros."""
    R, level = softmax_columns(logits) if given is None else (given.T, np.zeros(len(given)))
    return (R, level) if weights is None else (R * weights, level * weights)


def unit_rows(Z: Any) -> Any:
    """Rows scaled to length one; rows of zeros are unchanged."""
    xp = namespace(Z)
    # First divided by the largest entry, whose square might overflow or underflow.
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
    """Weighted sums of z(x) and of the costs from one native or CUDA kernel; of a mixture without a
    ``fuzzifier``. None if there is no such kernel, or if all densities of an object vanish.
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
    """Cholesky factors (..., d, d); a multiple of the trace is added if rounding requires it."""
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
    """Definite matrices (k, d, d) as unconstrained numbers: Cholesky factors with log diagonals."""
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
    """Clusters (k,) in order of ``sizes``, largest first, and then of ``keys`` (k, d), such as
    centers; values that agree to six digits count as equal.
    """
    sizes = np.round(sizes / max(float(sizes.max()), np.finfo(float).tiny), 6)
    keys = np.round(keys / max(float(np.abs(keys).max(initial=0.0)), np.finfo(float).tiny), 6)
    return np.lexsort((*keys.T[::-1], -sizes))
