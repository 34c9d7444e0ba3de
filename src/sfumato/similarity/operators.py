"""Similarities as operators: they multiply but never form the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..array.arrays import namespace
from ..array.validation import reserve
from ..numerics.operators import dtype_of


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
        """The entries w_ii of a square similarity."""
        if sp.issparse(self.factor):
            return np.asarray(self.factor.multiply(self.right).sum(axis=1)).ravel()
        return namespace(self.factor).sum(self.factor * self.right, axis=1)

    def toarray(self) -> Any:
        """The matrix, if it fits."""
        what = "the explicit similarity matrix"
        reserve(self.shape, self.dtype, what, "use the operator itself, which only multiplies")
        product = self.factor @ self.right.T
        return product.toarray() if sp.issparse(product) else product
