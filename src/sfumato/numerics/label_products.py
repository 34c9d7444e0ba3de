"""Products of a table of labels with matrices: H'U and H diag(w) V, H the one-hot labels.

The labels are followed one by one, a block of rows at a time on every core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..array.arrays import native
from ..array.rows import in_threads

__all__ = ["each_block", "gather", "one_hot", "scatter"]

LABELS = 2**18  # of a block


class Table(Protocol):
    """What the products need of a table of labels (``label_table.Table``)."""

    @property
    def codes(self) -> np.ndarray:
        """Labels (n, m)."""

    @property
    def offsets(self) -> np.ndarray:
        """Where the columns of each partition begin (m + 1,)."""

    @property
    def column_weight(self) -> np.ndarray:
        """Weight of every column."""

    def columns(self, rows: slice = ...) -> np.ndarray:
        """Columns in which the objects stand."""


def scatter(table: Table, U: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """H'U (columns, k): the rows of U, times ``scale`` (n,), summed over every cluster of every
    partition.
    """
    if type(U).__module__.startswith("torch"):
        from . import label_table_torch

        return label_table_torch.scatter(table, U if scale is None else scale[:, None] * U)
    shape, dtype = (int(table.offsets[-1]), U.shape[1]), _real(U)
    total = np.zeros(shape, dtype=dtype)

    def part(rows: slice) -> np.ndarray:
        sums, own = np.zeros(shape, dtype=dtype), None if scale is None else scale[rows]
        native("labels").scatter(table.codes[rows], table.offsets, U[rows], own, sums)
        return sums

    for sums in each_block(table, part):
        total += sums
    return total


def gather(table: Table, V: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """H diag(w) V (n, k): the rows of V summed over the clusters of every object, times ``scale``
    (n,).
    """
    if type(V).__module__.startswith("torch"):
        from . import label_table_torch

        out = label_table_torch.gather(table, V)
        return out if scale is None else scale[:, None] * out
    weighted = V * table.column_weight[:, None].astype(_real(V))
    out = np.empty((table.codes.shape[0], V.shape[1]), dtype=_real(V))

    def fill(rows: slice) -> None:
        own = None if scale is None else scale[rows]
        native("labels").gather(table.codes[rows], table.offsets, weighted, own, out[rows])

    for _ in each_block(table, fill):
        pass
    return out


def _real(V: np.ndarray) -> Any:
    """The type of the sums."""
    return np.float32 if V.dtype == np.float32 else np.float64


def one_hot(table: Table, rows: slice, dtype: npt.DTypeLike) -> sp.csr_array:
    """H (rows, columns) of some objects."""
    columns = table.columns(rows)
    n, m = columns.shape
    starts = np.arange(0, n * m + 1, m, dtype=np.int32)
    return sp.csr_array(
        (np.ones(n * m, dtype=dtype), columns.reshape(-1), starts),
        shape=(n, int(table.offsets[-1])),
    )


def each_block(table: Table, function: Callable[[slice], Any]) -> Iterator[Any]:
    """``function`` of blocks of rows, on every core.

    Blocks and order do not depend on the number of cores.
    """
    n, m = table.codes.shape
    size = max(1, max(LABELS, 4 * int(table.offsets[-1])) // m)
    blocks = [(slice(start, min(start + size, n)),) for start in range(0, n, size)]
    yield from in_threads(function, blocks, None)
