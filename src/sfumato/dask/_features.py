"""Models of features: a pass over the data is a few tasks per worker.

A task costs the scheduler and the worker some milliseconds, as much as the sums of a hundred
thousand rows: it takes several blocks of its worker. Sums are added in the order of the blocks.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import reduce
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
from distributed import Future, wait
from sklearn.base import BaseEstimator

import dask

from ..core.arrays import compile_for
from ..core.features import check_width
from ..core.rows import Rows, add
from ..core.types import Estimator
from ._cluster import check_array, client, pinned, same

__all__ = ["Features", "check_features"]

MOST = 2**28  # bytes of features that a task takes where they are several blocks


class _Pickler(cloudpickle.Pickler):
    """What a task needs of a model.

    Its parameters and state, not its data and not what it has published.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (Rows, Features, Future)):
            return _nothing, ()
        if isinstance(obj, BaseEstimator):
            kept = {
                name: value
                for name, value in vars(obj).items()
                if name not in ("memberships_", "labels_", "history_")
            }
            return _revive, (type(obj), kept)
        return super().reducer_override(obj)


def _nothing() -> None:
    return None


def _revive(kind: type, state: dict[str, Any]) -> Any:
    model: Any = object.__new__(kind)
    model.__dict__.update(state)
    return model


def _packed(function: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(function)
    return buffer.getvalue()


def _rows(payload: bytes, block: np.ndarray, *columns: Any) -> Rows:
    """The rows of one block.

    One thread for each task unless more are asked for: a worker has its own. Whether kernels are
    worth compiling is for the objects of all blocks to say.
    """
    view, n_jobs, n_objects = cloudpickle.loads(payload)
    compile_for(n_objects)
    # Arithmetic with a mapped file would make mapped files of its results, one by one
    return Rows(np.asarray(block), *columns, n_jobs=n_jobs or 1, view=view)


class _Kept:
    """The rows of one block with their view made once, also after a move to another worker."""

    def __init__(self, payload: bytes, block: np.ndarray, *columns: Any) -> None:
        self.given = (payload, block, *columns)
        self.rows = _rows(*self.given).kept(mapped=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, self.given

    def __sizeof__(self) -> int:
        """The scheduler moves tasks to where their data are by what it thinks these weigh."""
        stack = self.rows.stack
        return object.__sizeof__(self) + (0 if stack is None else stack.nbytes)


def _results(payload: bytes, method: str, several: list[_Kept]) -> list[Any]:
    """What a method of rows gives for the functions of the payload, block by block."""
    functions = cloudpickle.loads(payload)
    return [getattr(kept.rows, method)(*functions) for kept in several]


def _once(payload: bytes, method: str, view: bytes, several: list[list[Any]]) -> list[Any]:
    """As ``_results``, with rows that are made for this task alone."""
    functions = cloudpickle.loads(payload)
    return [getattr(_rows(view, *given), method)(*functions) for given in several]


def _only(task: Callable[..., list[Any]], *arguments: Any) -> Any:
    return task(*arguments)[0]


def _form(part: np.ndarray) -> tuple[tuple[int, ...], np.dtype]:
    return part.shape, part.dtype


def _taken(several: list[list[Any]]) -> list[np.ndarray]:
    """Chosen rows of some blocks."""
    return [np.asarray(block[where]) for block, where in several]


class SpreadRows(Rows):
    """Rows whose blocks live on the workers of a cluster."""

    there: list[Future] | None = None  # rows of every block with their view made, if kept
    seen: np.ndarray | None = None  # the first row through the view, if kept

    def _parts(self, method: str, *functions: Callable[..., Any] | None) -> list[Any]:
        """What a method of rows gives for every block, brought here."""
        payload = _packed(functions)
        if self.there is not None:
            return self.X.in_groups(_results, self.there, payload, method)
        return self.X.in_groups(_once, self._given(), payload, method, self._shown())

    def _shown(self) -> bytes:
        """What workers need to make rows of blocks."""
        return _packed((self.view, self.n_jobs, self.shape[0]))

    def _given(self) -> list[list[Any]]:
        """Every block with its columns."""
        columns = [self.X.cut(column) for column in self.columns]
        return [
            [block, *(column[b] for column in columns)] for b, block in enumerate(self.X.blocks)
        ]

    @property
    def is_kept(self) -> bool:
        return self.there is not None

    def sum(self, function: Callable[..., Any], stacks: Callable[..., Any] | None = None) -> Any:
        return reduce(add, self._parts("sum", function, stacks))

    def map(self, function: Callable[..., Any]) -> Any:
        payload = _packed((function,))
        if self.there is not None:
            tasks: list[tuple[Any, ...]] = [
                (_results, payload, "map", [rows]) for rows in self.there
            ]
        else:
            tasks = [(_once, payload, "map", self._shown(), [given]) for given in self._given()]
        parts = [client().submit(_only, *each, pure=False) for each in tasks]
        wait(parts)
        shape, dtype = client().submit(_form, parts[0], pure=False).result()
        return da.concatenate(
            [
                da.from_delayed(dask.delayed(part), (int(size), *shape[1:]), dtype)
                for part, size in zip(parts, np.diff(self.X.bounds), strict=True)
            ],
            axis=0,
        )

    def extremes(self) -> np.ndarray:
        parts = np.stack(self._parts("extremes"))
        return np.stack([np.fmin.reduce(parts[:, 0]), np.fmax.reduce(parts[:, 1])])

    def through(self, view: Callable[[Any], Any]) -> Rows:
        first = self.view
        return SpreadRows(
            self.X,
            *self.columns,
            n_jobs=self.n_jobs,
            view=view if first is None else lambda block: view(first(block)),
        )

    def kept(self, *, mapped: bool = False) -> Rows:
        """The view is made once, of mapped files too, where a quarter of the workers' memory will
        do.
        """
        if self.view is None:
            return self
        first = self.view(self.X[:1])
        if self.shape[0] * first.nbytes > _memory() // 4:
            return self
        kept = SpreadRows(self.X, *self.columns, n_jobs=self.n_jobs, view=self.view)
        shown = self._shown()
        kept.there = [client().submit(_Kept, shown, *each, pure=False) for each in self._given()]
        kept.seen = first
        return kept

    @property
    def stacked(self) -> np.dtype | None:
        return None if self.seen is None else self.seen.dtype


def _memory() -> int:
    """Bytes that the workers may take together; a worker without a limit has room for all."""
    limits = [
        worker["memory_limit"]
        for worker in client().scheduler_info(n_workers=-1)["workers"].values()
    ]
    return sum(limits) if limits and all(limits) else 2**62


class Features:
    """Features (n, p) in blocks of rows on the workers of a cluster."""

    rows = SpreadRows

    def __init__(self, X: da.Array) -> None:
        X = check_array(X, "X")
        self.shape, self.ndim = X.shape, 2
        self.blocks = pinned(X)
        self.bounds = np.concatenate([[0], np.cumsum(X.chunks[0])])
        self.dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        self._columns: dict[int, tuple[Any, list[Any]]] = {}
        self._groups: list[np.ndarray] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def groups(self) -> list[np.ndarray]:
        """The blocks in groups of one worker each, as many as it has threads or more."""
        if self._groups is None:
            wait(self.blocks)
            threads, where = client().nthreads(), client().who_has(self.blocks)
            homes = [min(where[block.key], default="") for block in self.blocks]
            n_bytes = np.diff(self.bounds) * self.shape[1] * self.dtype.itemsize
            self._groups = []
            for home in sorted(set(homes)):
                own = np.flatnonzero([home == other for other in homes])
                count = max(threads.get(home, 1), -(-int(n_bytes[own].sum()) // MOST))
                self._groups += np.array_split(own, min(count, len(own)))
        return self._groups

    def in_groups(self, task: Callable[..., Any], given: list[Any], *arguments: Any) -> list[Any]:
        """Results of every block, of ``task(*arguments, several)`` with some of ``given`` at a
        time.
        """
        futures = [
            client().submit(task, *arguments, [given[b] for b in group], pure=False)
            for group in self.groups
        ]
        out: list[Any] = [None] * len(given)
        for group, parts in zip(self.groups, client().gather(futures), strict=True):
            for b, part in zip(group, parts, strict=True):
                out[b] = part
        return out

    def cut(self, column: Any) -> list[Any]:
        """A column that goes along, in pieces that stay on the workers."""
        if column is None:
            return [None] * len(self.blocks)
        if id(column) not in self._columns:
            pieces = [
                column[low:high]
                for low, high in zip(self.bounds[:-1], self.bounds[1:], strict=True)
            ]
            self._columns[id(column)] = (
                column,
                [client().submit(same, piece, pure=False) for piece in pieces],
            )
        return self._columns[id(column)][1]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype)

    def __getitem__(self, indices: Any) -> np.ndarray:
        """Chosen rows, brought here."""
        if isinstance(indices, slice):
            indices = np.arange(*indices.indices(self.shape[0]))
        indices = np.asarray(indices)
        owner = np.searchsorted(self.bounds, indices, side="right") - 1
        wanted = [indices[owner == b] - self.bounds[b] for b in range(len(self.blocks))]
        out = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        pairs = [list(pair) for pair in zip(self.blocks, wanted, strict=True)]
        for b, part in enumerate(self.in_groups(_taken, pairs)):
            out[owner == b] = part
        return out


def check_features(estimator: Estimator, X: da.Array, reset: bool, missing: bool) -> Features:
    """A dask array as features of an estimator: of the fitted width, finite, squares finite."""
    X = check_array(X, "X")
    check_width(estimator, X, reset)
    features = Features(X)
    limit = float(np.finfo(features.dtype).max) ** 0.5 / (10.0 * X.shape[1])

    def faults(block: np.ndarray) -> tuple[int, int, int]:
        if max(block.max(), -block.min()) <= limit:  # never true of NaN
            return 0, 0, 0
        size = np.abs(block)
        infinite = np.isinf(size).any()
        return int(np.isnan(size).any()), int(infinite), int(np.fmax.reduce(size, None) > limit)

    gaps, infinite, large = Rows(features).sum(faults)
    if infinite or (gaps and not missing):
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    if large:
        raise ValueError("X has values whose squares overflow: change units, e.g. X / X.max()")
    return features
