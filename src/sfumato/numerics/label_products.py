"""Products of a table of labels with matrices: H'U and H diag(w) V, H the one-hot labels.

With Numba the labels are followed one by one; otherwise H is formed a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..core.arrays import compiled_module
from ..core.rows import in_threads

__all__ = ["each_block", "gather", "one_hot", "scatter"]

# Labels of a block: of those with one-hot matrices, and of those without, which are less work
LABELS, LABELS_COMPILED = 2**20, 2**18
LINE = 64  # bytes of a line of the cache


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
    compiled = _compiled(table, U)
    if compiled is not None:
        return _scatter_compiled(compiled, table, U, scale)
    total = np.zeros((int(table.offsets[-1]), U.shape[1]), dtype=U.dtype)

    def part(rows: slice) -> Any:
        own = U[rows] if scale is None else U[rows] * scale[rows, None].astype(U.dtype)
        return one_hot(table, rows, U.dtype).T @ own

    for each in each_block(table, part):
        total += each
    return total


def gather(table: Table, V: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
    """H diag(w) V (n, k): the rows of V summed over the clusters of every object, times ``scale``
    (n,).
    """
    if type(V).__module__.startswith("torch"):
        from . import label_table_torch

        out = label_table_torch.gather(table, V)
        return out if scale is None else scale[:, None] * out
    compiled = _compiled(table, V)
    weighted = V * table.column_weight[:, None].astype(V.dtype)
    out = np.empty((table.codes.shape[0], V.shape[1]), dtype=V.dtype)
    if compiled is not None:
        _gather_compiled(compiled, table, weighted, scale, out)
        return out

    def fill(rows: slice) -> None:
        out[rows] = one_hot(table, rows, V.dtype) @ weighted
        if scale is not None:
            out[rows] *= scale[rows, None].astype(V.dtype)

    for _ in each_block(table, fill):
        pass
    return out


def _compiled(table: Table, V: np.ndarray) -> Any:
    """The module of compiled products, or None where they do not apply."""
    plain = V.dtype in (np.float32, np.float64) and table.codes.dtype.kind == "u"
    return compiled_module(__package__, "compiled_products") if plain else None


def _scatter_compiled(
    compiled: Any, table: Table, U: np.ndarray, scale: np.ndarray | None
) -> np.ndarray:
    """As ``scatter``: every block has sums of its own, which are added in order."""
    k, n_columns = U.shape[1], int(table.offsets[-1])
    factor = _factor(table, U, scale)
    total = np.zeros((n_columns, k), dtype=U.dtype)
    for start in range(0, k, compiled.WIDEST):
        own = _plain(U[:, start : start + compiled.WIDEST], U.dtype)

        def part(rows: slice, own: np.ndarray = own) -> np.ndarray:
            sums = _zeros(n_columns, compiled.padded(own.shape[1]), U.dtype)
            codes = _plain(table.codes[rows], table.codes.dtype)
            compiled.scatter(codes, table.offsets, own[rows], factor[rows], sums)
            return sums

        for sums in each_block(table, part, LABELS_COMPILED):
            total[:, start : start + compiled.WIDEST] += sums[:, : own.shape[1]]
    return total


def _gather_compiled(
    compiled: Any, table: Table, weighted: np.ndarray, scale: np.ndarray | None, out: np.ndarray
) -> None:
    """As ``gather``, written to ``out``."""
    (n_columns, k), factor = weighted.shape, _factor(table, weighted, scale)
    for start in range(0, k, compiled.WIDEST):
        width = min(compiled.WIDEST, k - start)
        sums = _zeros(n_columns, compiled.padded(width), out.dtype)
        sums[:, :width] = weighted[:, start : start + width]
        whole = out if width == k else np.empty((len(out), width), dtype=out.dtype)

        def fill(rows: slice, sums: np.ndarray = sums, whole: np.ndarray = whole) -> None:
            codes = _plain(table.codes[rows], table.codes.dtype)
            compiled.gather(codes, table.offsets, sums, factor[rows], whole[rows])

        for _ in each_block(table, fill, LABELS_COMPILED):
            pass
        if whole is not out:
            out[:, start : start + width] = whole


def _factor(table: Table, V: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    given = np.ones(len(table.codes)) if scale is None else scale
    return _plain(given, V.dtype)


def _zeros(n_columns: int, width: int, dtype: np.dtype) -> np.ndarray:
    """Sums to begin with, where no vector of them lies in two lines of the cache: a third of the
    time.
    """
    size = n_columns * width * dtype.itemsize
    memory = np.zeros(size + LINE, dtype=np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(n_columns, width)


def _plain(array: np.ndarray, dtype: npt.DTypeLike) -> np.ndarray:
    """The array as the kernels were compiled for: rows one after the other, and writable."""
    return np.require(array, dtype, ["C", "W"])


def one_hot(table: Table, rows: slice, dtype: npt.DTypeLike) -> sp.csr_array:
    """H (rows, columns) of some objects."""
    columns = table.columns(rows)
    n, m = columns.shape
    starts = np.arange(0, n * m + 1, m, dtype=np.int32)
    return sp.csr_array(
        (np.ones(n * m, dtype=dtype), columns.reshape(-1), starts),
        shape=(n, int(table.offsets[-1])),
    )


def each_block(
    table: Table, function: Callable[[slice], Any], labels: int = LABELS
) -> Iterator[Any]:
    """``function`` of blocks of rows of about so many labels, on every core.

    Blocks and order do not depend on the number of cores.
    """
    n, m = table.codes.shape
    size = max(1, max(labels, 4 * int(table.offsets[-1])) // m)
    blocks = [(slice(start, min(start + size, n)),) for start in range(0, n, size)]
    yield from in_threads(function, blocks, None)
