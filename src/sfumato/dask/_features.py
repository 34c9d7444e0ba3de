"""Models of features: a pass over the data is one task per block.

Sums are added in the order of the blocks.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
from distributed import Future, wait
from sklearn.base import BaseEstimator

import dask

from ..core.rows import Rows, add
from ..core.types import Estimator
from ..core.validation import check_width
from ._cluster import check_array, client, pinned, same

__all__ = ["Features", "check_features"]


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

    One thread for each task unless more are asked for: a worker has its own.
    """
    view, n_jobs = cloudpickle.loads(payload)
    return Rows(block, *columns, n_jobs=n_jobs or 1, view=view)


class _Kept:
    """The rows of one block with their view made once, also after a move to another worker."""

    def __init__(self, payload: bytes, block: np.ndarray, *columns: Any) -> None:
        self.given = (payload, block, *columns)
        self.rows = _rows(*self.given).kept()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, self.given


def _result(payload: bytes, method: str, kept: _Kept) -> Any:
    """What a method of rows gives for the functions of the payload."""
    return getattr(kept.rows, method)(*cloudpickle.loads(payload))


def _once(payload: bytes, method: str, view: bytes, block: np.ndarray, *columns: Any) -> Any:
    """As ``_result``, with rows that are made for this task alone."""
    return getattr(_rows(view, block, *columns), method)(*cloudpickle.loads(payload))


class SpreadRows(Rows):
    """Rows whose blocks live on the workers of a cluster."""

    there: list[Future] | None = None  # rows of every block with their view made, if kept

    def _tasks(self, method: str, *functions: Callable[..., Any] | None) -> list[Future]:
        payload = _packed(functions)
        if self.there is not None:
            return [
                client().submit(_result, payload, method, rows, pure=False) for rows in self.there
            ]
        return self._of_blocks(_once, payload, method)

    def _of_blocks(self, task: Callable[..., Any], *arguments: Any) -> list[Future]:
        """``task(*arguments, view, block, *columns)`` of every block."""
        view = _packed((self.view, self.n_jobs))
        columns = [self.X.cut(column) for column in self.columns]
        return [
            client().submit(
                task, *arguments, view, block, *(column[b] for column in columns), pure=False
            )
            for b, block in enumerate(self.X.blocks)
        ]

    @property
    def is_kept(self) -> bool:
        return self.there is not None

    def sum(self, function: Callable[..., Any], stacks: Callable[..., Any] | None = None) -> Any:
        parts = client().gather(self._tasks("sum", function, stacks))
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        return total

    def map(self, function: Callable[..., Any]) -> Any:
        parts = self._tasks("map", function)
        wait(parts)
        shapes = client().gather(
            [
                client().submit(lambda part: (part.shape, part.dtype), part, pure=False)
                for part in parts
            ]
        )
        return da.concatenate(
            [
                da.from_delayed(dask.delayed(part), *form)
                for part, form in zip(parts, shapes, strict=True)
            ],
            axis=0,
        )

    def extremes(self) -> np.ndarray:
        parts = np.stack(client().gather(self._tasks("extremes")))
        return np.stack([np.fmin.reduce(parts[:, 0]), np.fmax.reduce(parts[:, 1])])

    def through(self, view: Callable[[Any], Any]) -> Rows:
        first = self.view
        return SpreadRows(
            self.X,
            *self.columns,
            n_jobs=self.n_jobs,
            view=view if first is None else lambda block: view(first(block)),
        )

    def kept(self) -> Rows:
        if self.view is None:
            return self
        kept = SpreadRows(self.X, *self.columns, n_jobs=self.n_jobs, view=self.view)
        kept.there = self._of_blocks(_Kept)
        return kept


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

    def __len__(self) -> int:
        return self.shape[0]

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
        parts = [
            client().submit(
                lambda block, where: np.asarray(block[where]), self.blocks[b], wanted[b], pure=False
            )
            for b in np.unique(owner)
        ]
        out = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        for b, part in zip(np.unique(owner), client().gather(parts), strict=True):
            out[owner == b] = part
        return out


def check_features(estimator: Estimator, X: da.Array, reset: bool, missing: bool) -> Features:
    """A dask array as features of an estimator: of the fitted width, finite, squares finite."""
    X = check_array(X, "X")
    check_width(estimator, X, reset)
    features = Features(X)
    limit = float(np.finfo(features.dtype).max) ** 0.5 / (10.0 * X.shape[1])

    def faults(block: np.ndarray) -> tuple[int, int, int]:
        size = np.abs(block)
        infinite = np.isinf(size).any()
        return int(np.isnan(size).any()), int(infinite), int(np.fmax.reduce(size, None) > limit)

    gaps, infinite, large = Rows(features).sum(faults)
    if infinite or (gaps and not missing):
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    if large:
        raise ValueError("X has values whose squares overflow: change units, e.g. X / X.max()")
    return features
