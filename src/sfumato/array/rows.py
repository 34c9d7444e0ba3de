"""Objects in row blocks: everything that a model with additive statistics needs from its data.

Sample weights, threads, files, sparse matrices, GPU arrays and clusters of machines then all become
a sum over row blocks. The blocks do not depend on the number of threads, so neither does the
answer.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import cpu_count, device, is_numpy, namespace, to_numpy
from .types import Array
from .validation import budget_for, free_memory

AHEAD = 4  # calls per thread that are submitted before results are awaited


class Rows:
    """Features and accompanying columns (weights, classes), cut into blocks of rows.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    *columns : arrays of length n or None
        Cut like ``X`` and passed to functions after the block of ``X``; None stays None.
    n_jobs : int or None
        Threads; ``None`` means every core.
    view : function or None
        Applied to a block of ``X`` before functions see it; computed in every pass unless ``kept``.
    """

    def __new__(cls, X: Any, *columns: Any, **options: Any) -> Rows:
        """Features on a cluster of machines use their own class of rows."""
        return super().__new__(getattr(X, "rows", cls))

    def __init__(
        self,
        X: Any,
        *columns: Any,
        n_jobs: int | None = None,
        view: Callable[[Any], Any] | None = None,
    ) -> None:
        self.X, self.columns, self.n_jobs, self.view = X, columns, n_jobs, view
        self.shape, self.dtype = X.shape, X.dtype
        self._made: dict[int, Any] = {}  # kept blocks of the view, by their first row

    @property
    def _here(self) -> bool:
        """Whether the features are in host memory."""
        return is_numpy(self.X) or sp.issparse(self.X)

    @property
    def slices(self) -> list[slice]:
        """The blocks, which depend only on the shape of the data."""
        n, p = self.shape
        if self._here:
            # Products with few clusters stay small for BLAS. A size of 4000, not a power of two,
            # avoids conflicts between cache lines.
            size = max(256, min(4000, 2**19 // max(1, p)))
        else:
            most = 2**30 // max(1, p) if getattr(self.X, "is_cuda", False) else 2**22
            size = max(1, min(n, most))
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def _columns(self, rows: slice) -> list[Any]:
        return [None if column is None else column[rows] for column in self.columns]

    def _cut(self, rows: slice) -> tuple[Any, ...]:
        if rows.start in self._made:
            return (self._made[rows.start], *self._columns(rows))
        block = self.X[rows] if is_numpy(self.X) else self.X[rows, ...]
        return (block if self.view is None else self.view(block), *self._columns(rows))

    def _each(self, function: Callable[[list[slice]], Any]) -> list[Any]:
        """Results of ``function(group)`` for groups of slices, shared among threads."""
        slices = self.slices
        size = max(1, min(8, len(slices) // 16))
        groups = [(slices[start : start + size],) for start in range(0, len(slices), size)]
        if not self._here or len(groups) == 1 or threads(self.n_jobs) == 1:
            return [function(*group) for group in groups]
        return list(in_threads(function, groups, self.n_jobs))

    def sum(self, function: Callable[..., Any]) -> Any:
        """Sum over blocks of ``function(X_block, *column_blocks)``, a tuple of arrays."""

        def total(group: list[slice]) -> Any:
            return reduce(add, (function(*self._cut(rows)) for rows in group))

        return reduce(add, self._each(total))

    def map(self, function: Callable[..., Any]) -> Any:
        """The results of ``function(X_block, *column_blocks)``, stacked."""
        slices = self.slices
        if len(slices) == 1 or not is_numpy(self.X):
            parts = [function(*self._cut(rows)) for rows in slices]
            return parts[0] if len(parts) == 1 else namespace(*parts).concat(parts)
        first = function(*self._cut(slices[0]))
        out = np.empty((self.shape[0], *first.shape[1:]), dtype=first.dtype)

        def write(group: list[slice]) -> None:
            for rows in group:
                out[rows] = function(*self._cut(rows))

        self._each(write)
        return out

    def extremes(self) -> np.ndarray:
        """Smallest and largest value (2, q) of every column of the blocks, ignoring NaN."""
        found = self._each(lambda group: [extremes_of(self._cut(rows)[0]) for rows in group])
        parts = np.concatenate(found)
        return np.stack([np.fmin.reduce(parts[:, 0]), np.fmax.reduce(parts[:, 1])])

    def through(self, view: Callable[[Any], Any]) -> Rows:
        """The same rows with a further view applied."""
        first = self.view
        both = view if first is None else lambda block: view(first(block))
        return Rows(self.X, *self.columns, n_jobs=self.n_jobs, view=both)

    def with_columns(self, *columns: Any) -> Rows:
        """The same rows with other columns; kept blocks stay kept."""
        rows = Rows(self.X, *columns, n_jobs=self.n_jobs, view=self.view)
        rows._made = self._made
        return rows

    def kept(self, *, mapped: bool = False) -> Rows:
        """The same rows with the view computed once, each block with contiguous columns.

        They are the rows themselves if there is no view, if its blocks would take a quarter of the
        memory budget, or if the features are memory-mapped (unless ``mapped`` is set).
        """
        if self.view is None or (_mapped(self.X) and not mapped):
            return self
        first = self.view(self.X[:1])
        if not self._here:
            return self._kept_there(first)
        if sp.issparse(first):
            return Rows(sp.csr_array(self.view(self.X)), *self.columns, n_jobs=self.n_jobs)
        n_bytes = self.shape[0] * first.shape[1] * first.dtype.itemsize
        if n_bytes > budget_for(n_bytes) // 4:
            return self
        kept = self.with_columns(*self.columns)
        kept._made = {}

        def make(group: list[slice]) -> None:
            for rows in group:
                kept._made[rows.start] = np.asfortranarray(self._cut(rows)[0])

        self._each(make)
        return kept

    @property
    def only_block(self) -> tuple[Any, ...] | None:
        """The block and its columns, if there is only one block and its view is kept."""
        whole = slice(0, self.shape[0])
        return self._cut(whole) if self._made and self.slices == [whole] else None

    @property
    def is_kept(self) -> bool:
        """Whether the computed view is kept."""
        return bool(self._made)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the kept view."""
        return sum(block.nbytes for block in self._made.values())

    def _kept_there(self, first: Array) -> Rows:
        """The same as ``kept``, for arrays of other libraries."""
        xp = namespace(self.X)
        n_bytes = self.shape[0] * first.shape[1] * xp.finfo(first.dtype).bits // 8
        if n_bytes > free_memory(self.X) // 2:
            return self
        out = xp.empty((first.shape[1], self.shape[0]), dtype=first.dtype, device=device(self.X)).T
        for rows in self.slices:
            out[rows, :] = self._cut(rows)[0]
        return Rows(out, *self.columns, n_jobs=self.n_jobs)

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """About ``size`` rows of weight one, drawn by the weights in the first column; of an
        array in host memory, the same ones in whatever order they come.
        """
        weights = self.columns[0]
        order = sorted_rows(self.X) if isinstance(self.X, np.ndarray) else None
        where = (np.arange(size) + rng.random(size)) / size
        if weights is None:
            indices = (where * self.shape[0]).astype(np.int64)
        else:
            own = to_numpy(weights)
            cumulative = np.cumsum(own if order is None else own[order])
            indices = np.searchsorted(cumulative, where * cumulative[-1], side="right")
        indices = np.minimum(indices, self.shape[0] - 1)
        indices = indices if order is None else order[indices]
        others = (None if column is None else column[indices] for column in self.columns[1:])
        few = Rows(self.X[indices], None, *others, n_jobs=self.n_jobs, view=self.view)
        return few.kept() if self.is_kept else few

    def take(self, indices: Array) -> Any:
        """Selected rows as a dense array."""
        rows = self.X[indices]
        return rows.toarray() if sp.issparse(rows) else rows


def sorted_rows(X: Any) -> np.ndarray:
    """Indices (n,) of the rows of an array or sparse array in lexicographic order of (at most
    sixteen) features.
    """
    if 0 in X.shape:
        return np.arange(X.shape[0])
    X = X[:, :16].toarray() if sp.issparse(X) else X
    order = np.argsort(X[:, 0], kind="stable")
    first = X[order, 0]
    tie = ~(first[1:] > first[:-1])  # also between missing values
    tied = np.append(tie, False) | np.append(False, tie)
    order[tied] = order[tied][np.lexsort(X[order[tied]].T[15::-1])]
    return order


def has_missing(rows: Rows) -> bool:
    """Whether any value is missing (NaN)."""
    known: bool | None = getattr(rows.X, "has_missing", None)
    if known is not None:
        return known
    if not is_numpy(rows.X) or sp.issparse(rows.X):
        return False
    total = rows.sum(lambda X, *_: (np.sum(X, dtype=np.float64),))[0]
    return bool(np.isnan(total) and rows.sum(lambda X, *_: (int(np.isnan(X).sum()),))[0])


def extremes_of(block: Any) -> np.ndarray:
    """Smallest and largest value (2, q) of every column of a block, ignoring NaN."""
    if sp.issparse(block):
        return np.stack([block.min(axis=0).toarray().ravel(), block.max(axis=0).toarray().ravel()])
    if isinstance(block, np.ndarray):
        columns = np.ascontiguousarray(block.T)  # contiguous columns take a sixth of the time
        return np.stack([np.fmin.reduce(columns, axis=1), np.fmax.reduce(columns, axis=1)])
    xp = namespace(block)
    return np.stack([to_numpy(xp.min(block, axis=0)), to_numpy(xp.max(block, axis=0))])


def _mapped(X: object) -> bool:
    """Whether the values are in a memory-mapped file."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return False


def add(left: Any, right: Any) -> Any:
    """Sum of two records of statistics, entry by entry."""
    parts = (a + b for a, b in zip(left, right, strict=True))
    return type(left)(*parts) if hasattr(left, "_fields") else tuple(parts)


def threads(n_jobs: int | None) -> int:
    """Number of threads, as in joblib; all cores for ``None``."""
    if n_jobs is None:
        return cpu_count()
    return max(1, cpu_count() + 1 + n_jobs) if n_jobs < 0 else n_jobs


_thread = threading.local()


def _mark() -> None:
    """Mark a thread of the pool, which must not wait for other threads of the pool."""
    _thread.ours = True


@lru_cache(maxsize=4)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """A cached thread pool: starting threads takes longer than a pass over small data."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sfumato", initializer=_mark)


def in_threads(
    function: Callable[..., Any], arguments: list[tuple[Any, ...]], n_jobs: int | None
) -> Iterator[Any]:
    """Results of ``function(*each)`` in order, from threads with one BLAS thread each."""
    n_threads = min(threads(n_jobs), len(arguments))
    with one_blas_thread():
        if n_threads <= 1 or getattr(_thread, "ours", False):
            yield from (function(*each) for each in arguments)
            return
        # When the process is stopped, it waits for all submitted calls.
        pool, ahead = _pool(n_threads), deque[Future[Any]]()
        try:
            for each in arguments:
                ahead.append(pool.submit(function, *each))
                if len(ahead) >= AHEAD * n_threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for call in ahead:
                call.cancel()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401, its BLAS is a library of its own, to be found below
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context in which BLAS uses one thread, since this package runs its own threads."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
