"""Features on a cluster, its client, and files as dask arrays.

A pass over the data is a few tasks per worker. A task costs the scheduler and the worker some
milliseconds, as much as the sums of a hundred thousand rows, so one task handles several blocks of
its worker. Sums are added in the order of the blocks.
"""

from __future__ import annotations

import ctypes
import io
import os
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
from distributed import Future, default_client, wait
from sklearn.base import BaseEstimator

import dask

from ..array.rows import Rows, add, extremes_of
from ..array.types import Estimator
from ..array.validation import refuse_overflow
from ..data.features import check_width


def check_array(X: Any, name: str) -> da.Array:
    """Checked dask array of real numbers: two-dimensional, of known size, no empty blocks."""
    if not isinstance(X, da.Array):
        raise TypeError(
            f"{name} must be a dask array, got a dask {type(X).__name__}: a data frame gives one "
            f"by {name}.to_dask_array(lengths=True)"
        )
    if X.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, got an array of {X.ndim} dimensions")
    if X.dtype.kind == "c":
        raise ValueError(f"{name} holds complex data, which is not supported: take the real part")
    if X.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got an array of dtype {X.dtype}")
    if np.isnan(X.shape).any():
        X = X.compute_chunk_sizes()
    if 0 in X.shape:
        raise ValueError(f"{name} is empty: its shape is {X.shape}")
    full = tuple(tuple(size for size in sizes if size) for sizes in X.chunks)
    return X if full == X.chunks else X.rechunk(full)


def client() -> Any:
    """The current distributed client, or a ValueError that says how to start one."""
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "a dask array needs a cluster: start one first, e.g. client = distributed.Client(), "
            "or pass X.compute() if it fits in memory"
        ) from None


def submit(task: Callable[..., Any], *arguments: object, **where: object) -> Future:
    """Future of a task that runs again each time it is submitted (not cached by its arguments)."""
    return client().submit(task, *arguments, pure=False, **where)


def floating(dtype: np.dtype) -> np.dtype:
    """Floating-point type in which an array is kept: float32 stays, others become float64."""
    return np.dtype(dtype if dtype in (np.float32, np.float64) else np.float64)


def pinned(array: da.Array) -> list[Future]:
    """Blocks of rows as futures that stay on their workers."""
    whole = array.rechunk({1: array.shape[1]}).astype(floating(array.dtype)).persist()
    by_key = {future.key: future for future in client().futures_of(whole)}
    return [by_key[row[0]] for row in whole.__dask_keys__()]


def same(value: Any) -> Any:
    """The value itself: submitting this puts it on a worker."""
    return value


@cache
def keep_temporaries() -> None:
    """Make this process reuse freed memory. Dask starts its workers with the opposite setting, and
    then clearing new pages takes longer than the sums.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        with suppress(OSError, AttributeError, TypeError):  # a C library without this function
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(-1, 2**26)  # M_TRIM_THRESHOLD: bytes of free memory to keep
            mallopt(-3, 2**23)  # M_MMAP_THRESHOLD: largest array allocated from there


def shards(folder: Any, pattern: str = "*") -> da.Array:
    """The NPY or Parquet files of a folder, sorted by name, as one dask array (n, p).

    There is one block per file. NPY files are memory-mapped; of Parquet files all columns are
    features.

    Parameters
    ----------
    folder : path
        A folder that every worker can read.
    pattern : str
        Pattern of the file names.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sfumato.dask import shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(3):
    ...         np.save(f"{folder}/part-{i}.npy", np.full((2, 4), float(i)))
    ...     X = shards(folder)
    ...     print(X.shape, float(X.sum()))
    (6, 4) 24.0
    """
    found = Path(folder).glob(pattern)
    paths = sorted(path for path in found if path.suffix in (".npy", ".parquet"))
    if not paths:
        raise ValueError(f"folder={str(folder)!r} holds no .npy or .parquet file like {pattern!r}")
    blocks = []
    for path in paths:
        shape, dtype = _header(path)
        blocks.append(da.from_delayed(dask.delayed(_load, pure=True)(str(path)), shape, dtype))
    return da.concatenate(blocks, axis=0)


def _header(path: Path) -> tuple[tuple[int, int], np.dtype]:
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r")
        return array.shape, array.dtype
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    single = all(str(field.type) == "float" for field in file.schema_arrow)
    dtype = np.dtype(np.float32 if single else np.float64)
    return (file.metadata.num_rows, file.metadata.num_columns), dtype


def _load(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    from pyarrow import parquet

    columns = [column.to_numpy() for column in parquet.read_table(path).columns]
    return np.stack(columns, axis=1).astype(np.result_type(*columns, np.float32), copy=False)


class _Pickler(cloudpickle.Pickler):
    """Pickles the parts of a model that a task needs."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (Rows, Features, Future, da.Array)):
            return type(None), ()
        if isinstance(obj, BaseEstimator):
            left_out = ("memberships_", "labels_", "history_", "_fitted_to_")
            kept = {name: value for name, value in vars(obj).items() if name not in left_out}
            return _revive, (type(obj), kept)
        return super().reducer_override(obj)


def _revive(kind: type, state: dict[str, Any]) -> Any:
    model: Any = object.__new__(kind)
    model.__dict__.update(state)
    return model


def _packed(function: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(function)
    return buffer.getvalue()


def _rows(payload: bytes, block: np.ndarray, *columns: Any) -> Rows:
    """The rows of one block."""
    view, n_jobs = cloudpickle.loads(payload)
    # Otherwise, arithmetic with a memory-mapped file makes memory-mapped results.
    return Rows(np.asarray(block), *columns, n_jobs=n_jobs or 1, view=view)


class _Kept:
    """The rows of one block with their view, which is computed once, also after a move."""

    def __init__(self, payload: bytes, block: np.ndarray, *columns: Any) -> None:
        self.given = (payload, block, *columns)
        keep_temporaries()
        self.rows = _rows(*self.given).kept(mapped=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, self.given

    def __sizeof__(self) -> int:
        """Size by which the scheduler decides where to run tasks; includes the view."""
        return object.__sizeof__(self) + self.rows.kept_bytes


def _make(view: bytes, several: list[list[Any]]) -> list[_Kept]:
    """Rows of several blocks with their views computed."""
    return [_Kept(view, *given) for given in several]


def _results(payload: bytes, method: str, several: list[Any], view: bytes = b"") -> list[Any]:
    """Results of a method of ``Rows`` for the given functions, block by block."""
    keep_temporaries()
    functions = cloudpickle.loads(payload)
    rows = [_rows(view, *each) if view else each.rows for each in several]
    return [getattr(each, method)(*functions) for each in rows]


def _facts(several: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """Smallest and largest values (p,) of some blocks, ignoring NaN, and whether there is NaN."""
    return [(*extremes_of(np.asarray(block)), bool(np.isnan(block).any())) for block in several]


def _taken(several: list[list[Any]]) -> list[np.ndarray]:
    """Selected rows of some blocks."""
    return [np.asarray(block[where]) for block, where in several]


class SpreadRows(Rows):
    """Rows whose blocks live on the workers of a cluster."""

    there: list[Future] | None = None  # rows of every group with their view computed, if kept

    def _tasks(self, method: str, *functions: Callable[..., Any] | None) -> list[Future]:
        """Futures of a method of ``Rows`` for the blocks of every group."""
        payload = _packed(functions)
        if self.there is not None:
            return [submit(_results, payload, method, rows) for rows in self.there]
        given, view = self._given(), self._shown()
        groups = [[given[b] for b in group] for group in self.X.groups]
        return [submit(_results, payload, method, several, view) for several in groups]

    def _parts(self, method: str, *functions: Callable[..., Any] | None) -> list[Any]:
        """Results of a method of ``Rows`` for every block, gathered on the client."""
        return self.X.in_order(client().gather(self._tasks(method, *functions)))

    def _shown(self) -> bytes:
        """The view and settings with which workers make rows from blocks."""
        return _packed((self.view, self.n_jobs))

    def _given(self) -> list[list[Any]]:
        """Every block with its columns."""
        columns = [self.X.cut(column) for column in self.columns]
        return [[block, *each] for block, *each in zip(self.X.blocks, *columns, strict=True)]

    @property
    def is_kept(self) -> bool:
        return self.there is not None

    def sum(self, function: Callable[..., Any]) -> Any:
        return reduce(add, self._parts("sum", function))

    def map(self, function: Callable[..., Any]) -> Any:
        tasks = self._tasks("map", function)
        shape, dtype = submit(lambda parts: (parts[0].shape, parts[0].dtype), tasks[0]).result()
        wait(tasks)
        sizes = zip(tasks, map(len, self.X.groups), strict=True)
        each = [[dask.delayed(getitem)(task, i) for i in range(size)] for task, size in sizes]
        parts = self.X.in_order(each)
        sized = zip(parts, np.diff(self.X.bounds), strict=True)
        blocks = [da.from_delayed(part, (int(n), *shape[1:]), dtype) for part, n in sized]
        return da.concatenate(blocks, axis=0)

    def extremes(self) -> np.ndarray:
        if self.view is None and self.X.extremes is not None:
            return self.X.extremes
        parts = np.stack(self._parts("extremes"))
        return np.stack([np.fmin.reduce(parts[:, 0]), np.fmax.reduce(parts[:, 1])])

    def through(self, view: Callable[[Any], Any]) -> Rows:
        first = self.view
        both = view if first is None else lambda block: view(first(block))
        return SpreadRows(self.X, *self.columns, n_jobs=self.n_jobs, view=both)

    def kept(self, *, mapped: bool = False) -> Rows:
        """Rows with the view computed once, if a quarter of the workers' memory is enough."""
        if self.view is None:
            return self
        if self.shape[0] * self.view(self.X[:1]).nbytes > _memory() // 4:
            return self
        kept = SpreadRows(self.X, *self.columns, n_jobs=self.n_jobs, view=self.view)
        kept.there = self.X.submit(_make, self._given(), self._shown())
        return kept


def _memory() -> int:
    """Total memory limit of the workers in bytes; huge if a worker has none."""
    workers = client().scheduler_info(n_workers=-1)["workers"].values()
    limits = [worker["memory_limit"] for worker in workers]
    return sum(limits) if limits and all(limits) else 2**62


class Features:
    """Features (n, p) in blocks of rows on the workers of a cluster."""

    rows = SpreadRows
    most = 2**28  # bytes of features that a task may hold when it gets several blocks
    # found by the check, so that no later pass needs to find them
    extremes: np.ndarray | None = None  # smallest and largest value (2, p)
    has_missing: bool | None = None

    def __init__(self, X: da.Array) -> None:
        X = check_array(X, "X")
        self.shape, self.ndim = X.shape, 2
        self.blocks = pinned(X)
        self.bounds = np.concatenate([[0], np.cumsum(X.chunks[0])])
        self.dtype = floating(X.dtype)
        self._columns: dict[int, tuple[Any, list[Any]]] = {}
        self._groups: list[np.ndarray] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def groups(self) -> list[np.ndarray]:
        """Groups of blocks, each on one worker; at least as many groups as threads."""
        if self._groups is None:
            wait(self.blocks)
            threads, where = client().nthreads(), client().who_has(self.blocks)
            homes = [min(where[block.key], default="") for block in self.blocks]
            n_bytes = np.diff(self.bounds) * self.shape[1] * self.dtype.itemsize
            self._groups = []
            for home in sorted(set(homes)):
                own = np.flatnonzero([home == other for other in homes])
                count = max(threads.get(home, 1), -(-int(n_bytes[own].sum()) // self.most))
                self._groups += np.array_split(own, min(count, len(own)))
        return self._groups

    def submit(
        self, task: Callable[..., list[Any]], given: list[Any], *arguments: object
    ) -> list[Future]:
        """``task(*arguments, several)`` for each group, with its items of ``given``."""
        return [submit(task, *arguments, [given[b] for b in group]) for group in self.groups]

    def in_order(self, results: list[list[Any]]) -> list[Any]:
        """Results of all blocks, in order, from the results of the groups."""
        out: list[Any] = [None] * len(self.blocks)
        for group, parts in zip(self.groups, results, strict=True):
            for b, part in zip(group, parts, strict=True):
                out[b] = part
        return out

    def cut(self, column: Any) -> list[Any]:
        """Pieces of a column (weights, classes), one per block, kept on the workers."""
        if column is None:
            return [None] * len(self.blocks)
        if id(column) not in self._columns:
            edges = zip(self.bounds[:-1], self.bounds[1:], strict=True)
            pieces = [submit(same, column[low:high]) for low, high in edges]
            self._columns[id(column)] = (column, pieces)
        return self._columns[id(column)][1]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype)

    def _narrowed(self, columns: Any) -> Features:
        """Selected features, in the same blocks."""
        part = copy(self)
        part.blocks = [submit(getitem, block, (slice(None), columns)) for block in self.blocks]
        part.shape = (self.shape[0], len(np.arange(self.shape[1])[columns]))
        part.extremes = None if self.extremes is None else self.extremes[:, columns]
        part._columns, part._groups = {}, None
        return part

    def __getitem__(self, indices: Any) -> Any:
        """Selected rows, gathered on the client; selected features stay on the workers."""
        if isinstance(indices, tuple):
            rows, columns = indices
            part = self._narrowed(columns)
            return part if rows == slice(None) else part[rows]
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(self.shape[0]))
        indices = np.asarray(indices)
        owner = np.searchsorted(self.bounds, indices, side="right") - 1
        out = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        wanted = {b: np.flatnonzero(owner == b) for b in np.unique(owner).tolist()}
        groups = [own for group in self.groups if (own := [b for b in group if b in wanted])]
        asked = {b: [self.blocks[b], indices[at] - self.bounds[b]] for b, at in wanted.items()}
        tasks = [submit(_taken, [asked[b] for b in own]) for own in groups]
        for own, parts in zip(groups, client().gather(tasks), strict=True):
            for b, part in zip(own, parts, strict=True):
                out[wanted[b]] = part
        return out


def check_features(estimator: Estimator, X: da.Array, reset: bool, missing: bool) -> Features:
    """Checked features of a dask array: fitted width, finite values and squares."""
    X = check_array(X, "X")
    check_width(estimator, X, reset)
    features = Features(X)
    groups = client().gather(features.submit(_facts, features.blocks))
    facts = [part for group in groups for part in group]
    low, high, gaps = zip(*facts, strict=True)
    features.extremes = np.stack([np.fmin.reduce(low), np.fmax.reduce(high)])
    features.has_missing = any(gaps)
    largest = np.fmax.reduce(np.abs(features.extremes), None, initial=0.0)
    if np.isinf(largest) or (features.has_missing and not missing):
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    refuse_overflow(features.extremes.astype(features.dtype), "X")
    return features
