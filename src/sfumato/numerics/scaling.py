"""The doubly stochastic matrix F nearest to a similarity K, by its dual with one y_i per object.

    relative entropy   F_ij = exp(y_i) K_ij exp(y_j)           D(y) = 1/2 sum_ij F_ij    - sum_i y_i
    Frobenius          F_ij = max(0, K_ij + y_i + y_j)         D(y) = 1/4 sum_ij F_ij^2  - sum_i y_i

An object of weight v counts as v copies in the sums. Both duals are convex. Their gradient is F 1 -
1 (zero for row sums of one), and their Hessian diag(h) + H needs only products with F or with the
pattern of its positive entries. So one Newton method with conjugate gradients serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from ..array.arrays import namespace
from ..array.types import Array, ArrayLike


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


def without_support(K: Any) -> np.ndarray:
    """Objects with a similarity that no doubly stochastic matrix of the same pattern can have.

    A perfect matching turns the pattern into a directed graph; every link must be inside a strong
    component of it.
    """
    if (K.diagonal() > 0).all():
        return np.empty(0, dtype=np.intp)
    pattern = sp.csr_array(K)
    pattern.eliminate_zeros()
    n = pattern.shape[0]
    column_of = maximum_bipartite_matching(pattern, perm_type="column")
    if (column_of < 0).any():
        return np.flatnonzero(column_of < 0)
    row_of = np.empty(n, dtype=np.intp)
    row_of[column_of] = np.arange(n)
    links = pattern.tocoo()
    entries = np.ones(links.nnz, dtype=np.int8), (links.row, row_of[links.col])
    matched = sp.csr_array(entries, shape=(n, n))
    component = connected_components(matched, directed=True, connection="strong")[1]
    return np.unique(links.row[component[links.row] != component[row_of[links.col]]])
