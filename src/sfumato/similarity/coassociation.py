"""Co-association: how often clusterings put two objects together, as an operator that never forms
the n x n matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..array.arrays import namespace
from ..array.labels import as_labels, check_labelings
from ..array.types import Array, ArrayLike, Weights
from ..array.validation import check_weights, reserve
from ..numerics import label_table as kernel


def coassociation(L: ArrayLike, partition_weight: ArrayLike | None = None) -> Coassociation:
    """Co-association of labelings as an operator (n, n) that multiplies in O(n m).

    Entry (i, j) is sum_b w_b [h_b(i) = h_b(j)] / sqrt(W_i W_j), where W_i is the weight of the
    partitions that saw object i: the share of partitions that put both together (Fred and Jain
    2005).

    Parameters
    ----------
    L : array of shape (n, m)
        One clustering per column, with integer or string labels; -1, NaN, None or "" if a
        clustering did not see the object.
    partition_weight : array of shape (m,), optional
        Nonnegative weight of every clustering; by default all are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import coassociation
    >>> C = coassociation([[0, 0], [0, 1], [1, 1]])
    >>> C.toarray()
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    >>> C @ np.ones(3)
    array([1.5, 2. , 1.5])
    """
    labels = check_labelings(L)
    weights = check_partition_weight(partition_weight, labels.shape[1])
    table = kernel.encode(labels, weights)
    columns = zip(labels.T, as_labels(L).T, strict=True)
    return Coassociation(table, [_representatives(codes, given) for codes, given in columns])


class Coassociation(LinearOperator):
    """Coverage-scaled co-association  diag(s) H diag(w) H' diag(s)  of n objects.

    Attributes
    ----------
    table : labels as small integers, with the weights of the partitions
    """

    def __init__(self, table: kernel.Table, categories: list[np.ndarray] | None = None) -> None:
        super().__init__(np.dtype(np.float64), (table.codes.shape[0],) * 2)
        self.table, self.categories = table, categories

    def to(self, device: Any) -> Coassociation:
        """The same operator with its labels on a torch ``device``, for torch arrays there."""
        return Coassociation(kernel.on_device(self.table, device), self.categories)

    def __matmul__(self, V: ArrayLike) -> Any:
        return self._matmat(V) if kernel.in_torch(V) else super().__matmul__(V)

    def _matmat(self, V: Any) -> np.ndarray:
        return _multiply(self.table, self.table, V)

    def _adjoint(self) -> Coassociation:
        return self

    _transpose = _adjoint

    @property
    def factor(self) -> sp.csr_array:
        """Sparse F (n, clusters of all partitions) whose product F F' is this operator."""
        F = kernel.one_hot(self.table, slice(None), np.float64)
        values = np.sqrt(self.table.column_weight)[F.indices]
        F.data = values * np.repeat(self.table.scale, np.diff(F.indptr))
        # Objects that a partition did not see are in columns of weight zero.
        F.eliminate_zeros()
        return F

    def diagonal(self) -> np.ndarray:
        """The diagonal (n,): ones, and zeros for objects that no partition saw."""
        return (self.table.coverage > 0).astype(np.float64)

    @property
    def toarray_is_product(self) -> bool:
        """Whether ``toarray`` is the matrix of this operator: only if no labels are missing."""
        return not kernel.has_missing(self.table)

    def toarray(self) -> np.ndarray:
        """Times together over times seen together, (n, n); NaN for pairs never seen together."""
        what = "the explicit co-association matrix"
        reserve((3, *self.shape), np.float64, what, "keep the operator, which only multiplies")
        return kernel.pair_shares(self.table)[0]

    def rows(self, L: np.ndarray) -> LinearOperator:
        """Similarities of new objects to the n fitted ones, an operator (n_new, n), from their
        labels ``L`` (n_new, m) by the same partitions; unknown labels count as not seen.
        """
        return Rows(self.recode(L), self.table)

    def recode(self, L: ArrayLike) -> kernel.Table:
        """Labels of new objects, coded like those of this operator."""
        L = as_labels(L)
        m = self.table.codes.shape[1]
        if L.shape[1] != m:
            raise ValueError(
                f"L must hold the labels of new objects by the same {m} partitions, (n_new, {m}); "
                f"got shape {L.shape}"
            )
        if self.categories is None:
            return kernel.recode(self.table, L)
        codes = [_known_codes(known, L[:, column]) for column, known in enumerate(self.categories)]
        return kernel.recode(self.table, np.stack(codes, axis=1))


class Rows(LinearOperator):
    """Co-association of new objects (rows) with fitted ones (columns), plus a ``constant``."""

    def __init__(self, new: kernel.Table, known: kernel.Table, constant: float = 0.0) -> None:
        super().__init__(np.dtype(np.float64), (new.codes.shape[0], known.codes.shape[0]))
        self.new, self.known, self.constant = new, known, constant

    def _matmat(self, V: Array) -> np.ndarray:
        return _multiply(self.new, self.known, V) + self.constant * V.sum(axis=0)

    def _adjoint(self) -> Rows:
        return Rows(self.known, self.new, self.constant)

    _transpose = _adjoint


class Shares(LinearOperator):
    """Times together divided by times seen together (0 / 0 is 0), in blocks of rows."""

    def __init__(self, left: kernel.Table, right: kernel.Table) -> None:
        super().__init__(np.dtype(np.float64), (left.codes.shape[0], right.codes.shape[0]))
        self.left, self.right = left, right

    def block(self, rows: slice) -> np.ndarray:
        """Selected rows as a dense array."""
        together, seen = kernel.pair_counts(self.left.objects(rows), self.right)
        return np.divide(together, seen, out=np.zeros_like(together), where=seen > 0)

    def toarray(self) -> np.ndarray:
        """All rows as a dense array."""
        return self.block(slice(None))

    def _matmat(self, V: Array) -> np.ndarray:
        n, m = self.shape
        # Blocks of about 32 MB.
        size = max(1, 2**22 // m)
        blocks = (slice(low, min(low + size, n)) for low in range(0, n, size))
        return np.concatenate([self.block(rows) @ V for rows in blocks])

    def _adjoint(self) -> Shares:
        return Shares(self.right, self.left)

    _transpose = _adjoint


def _multiply(left: kernel.Table, right: kernel.Table, V: Any) -> np.ndarray:
    here, there = left.scale, right.scale
    if kernel.in_torch(V):
        xp = namespace(V)
        here, there = (xp.asarray(side, dtype=V.dtype, device=V.device) for side in (here, there))
    else:
        V = np.asarray(V)
        V = V if V.dtype in (np.float32, np.float64) else V.astype(np.float64)
    return kernel.gather(left, kernel.scatter(right, V, there), here)


def check_partition_weight(partition_weight: ArrayLike | None, m: int) -> Weights:
    """Checked weights, one per partition: nonnegative, finite, not all zero."""
    named: Any = {"name": "partition_weight", "of": "partitions"}
    return check_weights(partition_weight, range(m), **named)


def _representatives(codes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One original label for each code 0, 1, ..."""
    # The last entry receives writes of code -1 (not seen) and is dropped.
    some = np.zeros(codes.max() + 2, dtype=np.intp)
    some[codes] = np.arange(len(codes))
    return labels[some[:-1]]


def _known_codes(known: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Codes of labels in the order of ``known``; -1 for labels that are not known."""
    if known.dtype.kind != labels.dtype.kind:
        known, labels = known.astype(object), labels.astype(object)
    codes = check_labelings(np.concatenate([known, labels])[:, None])[:, 0]
    # The last entry belongs to code -1, so that missing labels stay missing.
    lookup = np.full(codes.max() + 2, -1, dtype=np.int32)
    lookup[codes[: len(known)]] = np.arange(len(known))
    return lookup[codes[len(known) :]]
