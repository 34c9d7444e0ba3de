"""Similarities that are never formed: factored, scaled or shifted along their diagonal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..array.arrays import is_bfloat16, is_numpy, namespace
from ..array.types import Array, Similarity, Weights
from ..array.validation import reserve


class Symmetric(LinearOperator):
    """A symmetric operator, defined by ``@`` for one vector or several columns."""

    def _matmat(self, X: Array) -> Any:
        return self @ X

    def _adjoint(self) -> Symmetric:
        return self


class Scaled(Symmetric):
    """diag(s) W diag(s) for any W that multiplies, also on another device."""

    def __init__(self, W: Similarity, scaling: Any) -> None:
        super().__init__(dtype_of(W), W.shape)
        self.W, self.scaling = W, scaling

    def __matmul__(self, X: Array) -> Any:
        s = self.scaling if X.ndim == 1 else self.scaling[:, None]
        return s * (self.W @ (s * X))

    def diagonal(self) -> Any:
        """The diagonal, (n,)."""
        return self.scaling**2 * diagonal_of(self.W)

    def toarray(self) -> Any:
        """The explicit matrix (n, n)."""
        return self.scaling[:, None] * as_dense(self.W) * self.scaling[None, :]


class Shifted(Symmetric):
    """W + diag(s) for any W that multiplies."""

    def __init__(self, W: Similarity, shift: Any) -> None:
        super().__init__(dtype_of(W), W.shape)
        self.W, self.shift = W, shift

    def __matmul__(self, X: Array) -> Any:
        return self.W @ X + (self.shift if X.ndim == 1 else self.shift[:, None]) * X

    def diagonal(self) -> Any:
        """The diagonal, (n,)."""
        return diagonal_of(self.W) + self.shift

    def toarray(self) -> Any:
        """The explicit matrix (n, n)."""
        return self @ like(self.W, np.eye(self.shape[0], dtype=self.dtype))


class Factored(LinearOperator):
    """The similarity  left @ right.T  as an operator; ``right`` defaults to ``left``.

    Parameters
    ----------
    factor : array or sparse array of shape (n, d)
    right : array or sparse array of shape (m, d), optional

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import Factored
    >>> W = Factored(np.eye(3)[[0, 0, 1]])
    >>> W @ np.ones(3)
    array([2., 2., 1.])
    """

    def __init__(self, factor: Any, right: Any = None) -> None:
        self.factor = factor
        self.right = factor if right is None else right
        super().__init__(dtype_of(factor), (factor.shape[0], self.right.shape[0]))

    def __matmul__(self, V: Any) -> Any:
        return self.factor @ (self.right.T @ V)

    def _matmat(self, V: Any) -> Any:
        return self @ V

    def _adjoint(self) -> Factored:
        return Factored(self.right, self.factor)

    _transpose = _adjoint

    def diagonal(self) -> Any:
        """The diagonal entries w_ii of a square similarity."""
        if sp.issparse(self.factor):
            return np.asarray(self.factor.multiply(self.right).sum(axis=1)).ravel()
        return namespace(self.factor).sum(self.factor * self.right, axis=1)

    def toarray(self) -> Any:
        """The explicit matrix, if it fits into memory."""
        what = "the explicit similarity matrix"
        reserve(self.shape, self.dtype, what, "use the operator itself, which only multiplies")
        product = self.factor @ self.right.T
        return product.toarray() if sp.issparse(product) else product


def _columns_in_blocks(W: Similarity) -> Iterator[tuple[slice, Any]]:
    """Blocks of columns of an operator, by products with the identity."""
    m = W.shape[1]
    for start in range(0, m, 256):
        columns = slice(start, min(start + 256, m))
        block = np.eye(m, columns.stop - start, -start, dtype=dtype_of(W))
        yield columns, np.asarray(W @ block)


def diagonal_of(W: Any) -> Any:
    """The diagonal of ``W`` (n,), by products if there is no other way."""
    if not is_numpy(W):
        return namespace(W).linalg.diagonal(W)
    if hasattr(W, "diagonal"):
        return W.diagonal()
    return np.concatenate([block[columns].diagonal() for columns, block in _columns_in_blocks(W)])


def squared_norm(W: Any, left: Weights = None, right: Weights = None) -> float:
    """sum_ij l_i r_j w_ij^2 of an array, a sparse array, a factored operator or another one."""
    if hasattr(W, "factor"):
        # |F R'|^2 = <F'F, R'R>: no product as large as the similarity.
        F, R = W.factor, getattr(W, "right", W.factor)
        one = _gram(F, left)
        other = one if R is F and left is right else _gram(R, right)
        if sp.issparse(one):
            return float(one.multiply(other).sum())
        xp = namespace(one)
        return float(xp.sum(xp.sum(one * other, axis=1), dtype=xp.float64))
    n, m = W.shape
    if not sp.issparse(W) and (isinstance(W, np.ndarray) or not is_numpy(W)):
        xp, total = namespace(W), 0.0
        for start in range(0, n, max(1, -(-n // 16))):
            rows = slice(start, start + max(1, -(-n // 16)))
            squares = W[rows, :] ** 2
            sums = xp.sum(squares, axis=1) if right is None else squares @ right
            total += float(xp.sum(sums if left is None else left[rows] * sums, dtype=xp.float64))
        return total
    left, right = (np.ones(s) if v is None else v for s, v in ((n, left), (m, right)))
    if sp.issparse(W):
        return float(left @ (W.multiply(W) @ right))
    blocks = _columns_in_blocks(W)
    return sum(float(left @ (block**2 @ right[columns])) for columns, block in blocks)


def _gram(F: Array, weights: Weights) -> Any:
    """F' diag(v) F."""
    if sp.issparse(F):
        return F.T @ (F if weights is None else sp.diags_array(weights) @ F)
    return F.T @ (F if weights is None else weights[:, None] * F)


def dtype_of(W: Any) -> np.dtype:
    """NumPy dtype of products with ``W``; float64 if it has none."""
    if is_bfloat16(W):
        return np.dtype(np.float32)
    return np.dtype(str(getattr(W, "dtype", "float64")).rpartition(".")[2])


def magnitudes(W: Any) -> Any:
    """|w_ij| if the entries are known and some are negative; otherwise W itself."""
    if sp.issparse(W):
        return abs(W) if W.nnz and W.data.min() < 0 else W
    return np.abs(W) if isinstance(W, np.ndarray) and W.min(initial=0.0) < 0 else W


def degrees(W: Similarity, weights: Weights = None) -> Any:
    """Row sums W 1 (n,), or W v with weights v, in the dtype of W."""
    ones = like(W, np.ones(W.shape[0], dtype=dtype_of(W)) if weights is None else weights)
    if is_bfloat16(W):  # torch only multiplies equal dtypes
        return namespace(W).sum(W * ones if weights is not None else W, axis=1, dtype=ones.dtype)
    sums = W @ ones
    return sums.astype(dtype_of(W), copy=False) if isinstance(sums, np.ndarray) else sums


def positive_degrees(W: Similarity, weights: Weights, name: str) -> Any:
    """Degrees from absolute entries; raises ValueError if all are zero, or if one is negative."""
    degree = degrees(magnitudes(W), weights)
    if bool((degree < 0).any()):
        raise ValueError(f"{name} has negative degrees (row sums): shift or clip it")
    if not bool((degree > 0).any()):
        raise ValueError(f"{name} is zero everywhere: no object is similar to any other")
    return degree


def normalized_operator(W: Similarity, degree: Any = None, weights: Weights = None) -> Scaled:
    """D^-1/2 W D^-1/2; with weights v, (V/D)^1/2 W (V/D)^1/2. Isolated rows stay zero."""
    degree = degrees(W, weights) if degree is None else degree
    xp = namespace(degree)
    positive = degree > 0
    safe = xp.where(positive, degree, xp.ones_like(degree))
    scaling = safe**-0.5  # the reciprocal of a tiny degree may overflow, that of its root does not
    if weights is not None:
        scaling = scaling * xp.asarray(weights, dtype=safe.dtype) ** 0.5
    return Scaled(W, xp.where(positive, scaling, xp.zeros_like(degree)))


def as_dense(W: Any) -> Any:
    """The explicit matrix of anything that multiplies. An operator whose ``toarray`` gives more
    than its products, such as unknown entries, has ``toarray_is_product`` False.
    """
    if isinstance(W, np.ndarray) or not is_numpy(W):
        return W
    if hasattr(W, "toarray") and getattr(W, "toarray_is_product", True):
        return W.toarray()
    return np.asarray(W @ np.eye(W.shape[1], dtype=dtype_of(W)))


def like(W: Any, array: np.ndarray) -> Any:
    """``array`` in the library and on the device of ``W``."""
    inner = W
    while isinstance(inner, LinearOperator) and hasattr(inner, "W"):
        inner = inner.W
    return array if is_numpy(inner) else namespace(inner).asarray(array, device=inner.device)
