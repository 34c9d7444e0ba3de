"""Similarities whose rows sum to one: the doubly stochastic matrix nearest to a given matrix.

The matrix F nearest to a similarity K follows from its dual with one y_i per object.

    relative entropy   F_ij = exp(y_i) K_ij exp(y_j)           D(y) = 1/2 sum_ij F_ij    - sum_i y_i
    Frobenius          F_ij = max(0, K_ij + y_i + y_j)         D(y) = 1/4 sum_ij F_ij^2  - sum_i y_i

An object of weight v counts as v copies in the sums. Both duals are convex. Their gradient is F 1 -
1 (zero for row sums of one), and their Hessian diag(h) + H needs only products with F or with the
pattern of its positive entries. So one Newton method with conjugate gradients serves both.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.arrays import namespace, to_numpy
from ..array.types import Array, ArrayLike, Similarity, Weights
from ..array.validation import check_choice, check_number, check_weights, reserve
from ..array.warn import warn
from ..data.matrices import check_rows, check_similarity
from ..numerics.operators import Scaled, Shifted, as_dense, degrees, dtype_of


class Dual(NamedTuple):
    """D and its derivatives at a point; ``curve(v)`` is the Hessian times v."""

    value: float
    gradient: Any
    diagonal: Any
    curve: Callable[[Any], Any]


def entropy_dual(K: Any, y: np.ndarray, sums: Any = 1.0) -> Dual:
    """The dual of the relative entropy for row sums ``sums``; uses K only as K @ x."""
    xp = namespace(y)
    x = xp.exp(y)
    rows = x * (K @ x)
    value = 0.5 * float(xp.sum(rows)) - float(xp.sum(sums * y))
    return Dual(value, rows - sums, rows, lambda v: rows * v + x * (K @ (x * v)))


def frobenius_dual(K: np.ndarray, y: Array, weights: Any = None) -> Dual:
    """The dual of the squared Frobenius distance, with ``weights`` (n,) of the objects; forms F."""
    xp = namespace(y)
    v = xp.ones_like(y) if weights is None else weights
    F = xp.clip(K + y[:, None] + y[None, :], min=0.0)
    positive = xp.astype(F > 0, F.dtype)
    # A row of zeros has no curvature; one keeps its step finite.
    counts = v * xp.clip(positive @ v, min=1.0)
    value = 0.25 * float(xp.sum(v * ((F * F) @ v))) - float(xp.sum(v * y))
    gradient = v * (F @ v - 1)
    return Dual(value, gradient, counts, lambda u: counts * u + v * (positive @ (v * u)))


def fixed_point(K: Any, x: np.ndarray, sums: Any = 1.0) -> Any:
    """x <- sqrt(x sums / K x), which at least halves the error if K is definite."""
    return (x * sums / (K @ x)) ** 0.5


def newton(dual: Callable[[Any], Dual], y: ArrayLike, *, max_halvings: int = 50) -> Any:
    """One damped Newton step towards the minimum of a dual."""
    xp = namespace(y)
    here = dual(y)
    direction = _conjugate_gradients(here, -here.gradient)
    slope = float(xp.sum(here.gradient * direction))
    step = 1.0
    for _ in range(max_halvings):
        with np.errstate(over="ignore", invalid="ignore"):
            value = dual(y + step * direction).value
        if value <= here.value + 1e-4 * step * slope + 1e-14 * abs(here.value):
            return y + step * direction
        step /= 2
    return y


def _conjugate_gradients(dual: Dual, b: Array, max_iter: int = 200) -> Any:
    """Solution of  Hessian v = b  to a tenth of |b| or better, with diagonal preconditioning."""
    xp = namespace(b)
    weight = 1.0 / xp.clip(dual.diagonal, min=float(xp.finfo(b.dtype).eps))
    v, r = xp.zeros_like(b), b
    z = weight * r
    p, rz = z, float(xp.sum(r * z))
    goal = rz * min(0.1, rz**0.5) ** 2
    for _ in range(max_iter):
        if rz <= goal:
            break
        Hp = dual.curve(p)
        curvature = float(xp.sum(p * Hp))
        if curvature <= 1e-12 * float(xp.sum(p * p / weight)):
            break
        v, r = v + (rz / curvature) * p, r - (rz / curvature) * Hp
        z = weight * r
        rz, previous = float(xp.sum(r * z)), rz
        p = z + (rz / previous) * p
    return v if bool(xp.any(v != 0)) else weight * b


class DoublyStochastic(Scaled):
    """The operator F = diag(x) K diag(x) with row sums one; ``scaling`` holds x (n,)."""

    def extend(self, rows: Any) -> Any:
        """Similarities (n_new, n) of new objects, scaled to row sums of one (or zero)."""
        rows = check_rows(rows, self.shape[0], "rows")
        if sp.issparse(rows):
            scaled = sp.csr_array(rows) @ sp.diags_array(self.scaling)
            return sp.diags_array(_reciprocal(np.asarray(scaled.sum(axis=1)).ravel())) @ scaled
        scaled = rows * self.scaling
        return scaled * _reciprocal(scaled.sum(axis=1))[:, None]


def doubly_stochastic(
    W: Similarity,
    *,
    divergence: str = "relative-entropy",
    tol: float | None = None,
    max_iter: int = 500,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Nearest doubly stochastic similarity to W, whose rows sum to one (Zass and Shashua 2006).

    Parameters
    ----------
    W : array, sparse array or operator of shape (n, n)
        Symmetric, nonnegative similarities.
    divergence : {"relative-entropy", "frobenius", "l1"}
        What "nearest" means. ``"relative-entropy"``: diag(x) W diag(x), an operator that forms no
        matrix. ``"frobenius"``: least squares, max(0, W + y_i + y_j), a dense array. ``"l1"``: W -
        D + I with the degrees D, which changes only the diagonal and may make it negative (with a
        warning); the result is dense, sparse or an operator, like W.
    tol : float, optional
        Largest distance of a row sum from one; by default 1e-11 (float64) or 1e-5 (float32).
    max_iter : int
        Largest number of steps.
    sample_weight : array of shape (n,), optional
        Weights of the objects (not for ``"l1"``): an object of weight w counts as w copies, so that
        sum_j w_j F_ij = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import doubly_stochastic
    >>> F = doubly_stochastic(np.array([[1.0, 1.0], [1.0, 4.0]]))
    >>> F.toarray().round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
    """
    check_choice(divergence, "divergence", ("relative-entropy", "frobenius", "l1"))
    W = check_similarity(W)
    tol = _tolerance(W) if tol is None else check_number(tol, "tol", low=0, strict=True)
    check_number(max_iter, "max_iter", low=1, integer=True)
    v = check_weights(sample_weight, W)
    if v is not None and (divergence == "l1" or v.min() <= 0):
        raise ValueError(
            "sample_weight must be positive, and does not go with divergence='l1': leave out "
            "objects of weight 0, or repeat rows and columns"
        )
    if divergence == "l1":
        return _move_diagonal(W)
    if divergence == "frobenius":
        K, y = as_dense(W), least_squares_shifts(W, v, tol, max_iter)
        return np.maximum(0, K + y[:, None] + y[None, :])
    return _scale(W, tol, max_iter, v)


def _tolerance(W: Similarity) -> float:
    return 1e-5 if dtype_of(W) == np.float32 else 1e-11


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # divergence raises an error below
def _scale(W: Similarity, tol: float, max_iter: int, weights: Weights) -> DoublyStochastic:
    """Scaling x = z / v with z_i (W z)_i = v_i; Newton steps where fixed-point steps stall."""
    degree = degrees(W, weights)
    xp = namespace(degree)
    v = 1.0 if weights is None else xp.asarray(weights, dtype=degree.dtype)
    _refuse(np.flatnonzero(to_numpy(degree) <= 0), "have no similarity to any object")
    z, before = v * degree**-0.5, np.inf
    for _ in range(max_iter):
        error = xp.abs(z / v * (W @ z) - 1)
        worst = float(error.max())
        if worst <= tol:
            return DoublyStochastic(W, z / v)
        if not np.isfinite(worst):  # no scaling of this pattern has these row sums
            break
        if worst < 0.7 * before or worst > 1:
            z = fixed_point(W, z, v)
        else:
            z = xp.exp(newton(lambda y: entropy_dual(W, y, v), xp.log(z)))
        before = worst
    far = np.flatnonzero(~(to_numpy(error) <= tol))  # includes NaN
    _refuse(far, f"do not reach a row sum of one within {tol:g} in max_iter={max_iter} steps")
    raise AssertionError


def named(objects: np.ndarray) -> str:
    """Numbers of up to five objects, for a message."""
    return ", ".join(map(str, objects[:5])) + (", ..." if objects.size > 5 else "")


def _refuse(objects: np.ndarray, why: str) -> None:
    if objects.size:
        raise ValueError(
            f"W cannot be made doubly stochastic: {objects.size} objects ({named(objects)}) {why}. "
            "Leave them out, or give every object some similarity to itself, e.g. W + 0.01 * I"
        )


def least_squares_shifts(
    W: Similarity, weights: Weights = None, tol: float | None = None, max_iter: int = 500
) -> np.ndarray:
    """Shifts y (n,) of the nearest matrix (Frobenius norm), F_ij = max(0, W_ij + y_i + y_j)."""
    n, what = W.shape[0], "the nearest matrix in the Frobenius norm"
    reserve((n, 3 * n), dtype_of(W), what, "use 'relative-entropy', which forms nothing")
    K, tol = as_dense(W), _tolerance(W) if tol is None else tol
    v = np.ones(n, dtype=K.dtype) if weights is None else weights.astype(K.dtype)
    total = v.sum()
    y = 0.5 * (1 - K @ v) / total + 0.25 * (v @ K @ v / total**2 - 1 / total)
    for _ in range(max_iter):
        if np.abs(frobenius_dual(K, y, v).gradient / v).max() <= tol:
            break
        y = newton(lambda y: frobenius_dual(K, y, v), y)
    return y


def shifted_rows(rows: np.ndarray, y: np.ndarray, weights: Weights = None) -> np.ndarray:
    """Rows max(0, w_j + y_j + t) of new objects, with t such that weighted rows sum to one."""
    A = rows + y
    v = np.ones(A.shape[1]) if weights is None else weights
    order = np.argsort(-A, axis=1, kind="stable")
    falling, mass = np.take_along_axis(A, order, axis=1), v[order]
    t = (1 - np.cumsum(mass * falling, axis=1)) / np.cumsum(mass, axis=1)
    last = np.maximum((falling + t > 0).sum(axis=1) - 1, 0)
    F = np.maximum(0, A + t[np.arange(len(A)), last][:, None]).astype(rows.dtype)
    return np.where((rows != 0).any(axis=1, keepdims=True), F, 0)


def _move_diagonal(W: Similarity) -> Any:
    surplus = 1 - degrees(W)
    if isinstance(W, np.ndarray):
        F = W.copy()
        F[np.diag_indices_from(F)] += surplus
    elif sp.issparse(W):
        F = sp.csr_array(W + sp.diags_array(surplus))
    else:
        return Shifted(W, surplus)
    if (F.diagonal() < 0).any():
        warn(
            f"the diagonal of W - D + I is negative for {int((F.diagonal() < 0).sum())} objects: "
            "methods that need nonnegative similarities cannot use it; scale W down or use "
            "divergence='relative-entropy'"
        )
    return F


def _reciprocal(total: np.ndarray) -> np.ndarray:
    return np.where(total > 0, 1 / np.where(total > 0, total, 1), 0)
