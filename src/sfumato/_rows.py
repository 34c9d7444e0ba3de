"""Objects in row blocks: all that a model of additive statistics may ask of its data.

Sample weights, threads, memory-mapped files, sparse matrices, GPU arrays and clusters of machines are then all the same thing, a sum
over row blocks, and no model knows which. The blocks do not depend on the number of threads and are added in order, so neither
does the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import scipy.sparse as sp

from ._arrays import cpu_count, is_numpy, namespace

__all__ = ["Rows", "add", "one_blas_thread", "threads"]


class Rows:
    """Features with columns that go along (weights, classes), cut into blocks of rows.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    *columns : arrays of length n or None
        Cut like ``X`` and passed to the functions after the block of ``X``; ``None`` stays ``None``.
    n_jobs : int or None
        Threads; ``None`` means every core.
    """

    def __init__(self, X: Any, *columns: Any, n_jobs: int | None = None) -> None:
        self.X, self.columns, self.n_jobs = X, columns, n_jobs
        self.shape, self.dtype = X.shape, X.dtype

    @property
    def slices(self) -> list[slice]:
        n, p = self.shape
        if not (is_numpy(self.X) or sp.issparse(self.X)):
            size = max(1, min(n, 2**22))
        else:
            size = max(256, min(8192, 2**19 // max(1, p)))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        for rows in self.slices:
            yield self.X[rows], *(None if column is None else column[rows] for column in self.columns)

    def _each(self, function: Callable[..., Any]) -> Iterator[Any]:
        n_threads = min(threads(self.n_jobs), len(self.slices)) if is_numpy(self.X) or sp.issparse(self.X) else 1
        if n_threads <= 1:
            yield from (function(*block) for block in self._blocks())
            return
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            yield from pool.map(lambda block: function(*block), self._blocks())

    def sum(self, function: Callable[..., Any]) -> Any:
        """Sum over blocks of ``function(X_block, *column_blocks)``, a NamedTuple (or tuple) of arrays and numbers."""
        total = None
        for part in self._each(function):
            total = part if total is None else add(total, part)
        return total

    def map(self, function: Callable[..., Any]) -> Any:
        """The arrays ``function(X_block, *column_blocks)`` one under the other."""
        parts = list(self._each(function))
        return parts[0] if len(parts) == 1 else namespace(*parts).concat(parts)

    def take(self, indices: Any) -> Any:
        """Chosen rows as a dense array."""
        rows = self.X[indices]
        return rows.toarray() if sp.issparse(rows) else rows


def add(left: Any, right: Any) -> Any:
    """Sum of two records of statistics, entry by entry."""
    parts = (a + b for a, b in zip(left, right, strict=True))
    return type(left)(*parts) if hasattr(left, "_fields") else tuple(parts)


def threads(n_jobs: int | None) -> int:
    """Number of threads that ``n_jobs`` asks for: ``None`` every core, negative counts from the end as in joblib."""
    if n_jobs is None:
        return cpu_count()
    return max(1, cpu_count() + 1 + n_jobs) if n_jobs < 0 else n_jobs


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS keeps to one thread while we run our own."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
