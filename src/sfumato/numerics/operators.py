"""Similarities scaled or shifted along their diagonal, never formed explicitly."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..array.arrays import is_bfloat16, is_numpy, namespace
from ..array.types import Array, Similarity

__all__ = [
    "Scaled",
    "Shifted",
    "Symmetric",
    "as_dense",
    "degrees",
    "diagonal_of",
    "dtype_of",
    "like",
    "magnitudes",
    "normalized_operator",
]


class Symmetric(LinearOperator):
    """A symmetric operator that is defined by ``@`` with one vector or several as columns."""

    def _matvec(self, x: np.ndarray) -> Any:
        return self @ x.reshape(-1)

    def _matmat(self, X: Array) -> Any:
        return self @ X

    def _adjoint(self) -> Symmetric:
        return self


class Scaled(Symmetric):
    """diag(s) W diag(s) for any W that multiplies: an array, a sparse array, an operator, an array
    on another device.
    """

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
        """The matrix itself, (n, n)."""
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
        """The matrix itself, (n, n)."""
        n = self.shape[0]
        return self @ like(self.W, np.eye(n, dtype=self.dtype))


def diagonal_of(W: Any) -> Any:
    """The diagonal of ``W``, asked for or, where there is only a product, read off products with
    blocks of the identity.
    """
    if not is_numpy(W):
        return namespace(W).linalg.diagonal(W)
    if hasattr(W, "diagonal"):
        return W.diagonal()
    n, entries = W.shape[0], []
    for start in range(0, n, 256):
        block = np.eye(n, min(256, n - start), -start, dtype=dtype_of(W))
        entries.append(np.sum(np.asarray(W @ block) * block, axis=0))
    return np.concatenate(entries)


def dtype_of(W: Any) -> np.dtype:
    """NumPy's name for the precision of products with ``W``; float64 where it has none."""
    if is_bfloat16(W):
        return np.dtype(np.float32)
    return np.dtype(str(getattr(W, "dtype", "float64")).rpartition(".")[2])


def magnitudes(W: Any) -> Any:
    """|w_ij| where the entries are known and some are negative; else W itself."""
    if sp.issparse(W):
        return abs(W) if W.nnz and W.data.min() < 0 else W
    return np.abs(W) if isinstance(W, np.ndarray) and W.min(initial=0.0) < 0 else W


def degrees(W: Any, weights: Any = None) -> Any:
    """Row sums W 1 (n,), or W v with weights v, in the type of W."""
    ones = like(W, np.ones(W.shape[0], dtype=dtype_of(W)) if weights is None else weights)
    if is_bfloat16(W):  # torch multiplies equal types only
        return namespace(W).sum(W * ones if weights is not None else W, axis=1, dtype=ones.dtype)
    sums = W @ ones
    return sums.astype(dtype_of(W), copy=False) if isinstance(sums, np.ndarray) else sums


def normalized_operator(W: Any, degree: Any = None, weights: Any = None) -> Scaled:
    """D^-1/2 W D^-1/2; with weights v (V/D)^1/2 W (V/D)^1/2.

    An object without any similarity keeps a row of zeros.
    """
    degree = degrees(W, weights) if degree is None else degree
    xp = namespace(degree)
    positive = degree > 0
    safe = xp.where(positive, degree, xp.ones_like(degree))
    scaling = safe**-0.5  # one over a tiny degree may be infinite, over its root it is not
    if weights is not None:
        scaling = scaling * xp.asarray(weights, dtype=safe.dtype) ** 0.5
    return Scaled(W, xp.where(positive, scaling, xp.zeros_like(degree)))


def as_dense(W: Any) -> Any:
    """The matrix behind anything that multiplies.

    An operator may have a ``toarray`` that knows more than its products, such as which entries are
    unknown; it then says so by ``toarray_is_product``.
    """
    if isinstance(W, np.ndarray) or not is_numpy(W):
        return W
    if hasattr(W, "toarray") and getattr(W, "toarray_is_product", True):
        return W.toarray()
    return np.asarray(W @ np.eye(W.shape[0], dtype=dtype_of(W)))


def like(W: Any, array: np.ndarray) -> Any:
    """``array`` in the library and on the device of ``W``."""
    inner = W
    while isinstance(inner, LinearOperator) and hasattr(inner, "W"):
        inner = inner.W
    return array if is_numpy(inner) else namespace(inner).asarray(array, device=inner.device)
