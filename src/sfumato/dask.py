"""A cluster of machines: the same estimators on dask arrays. ``pip install 'sfumato[dask]'``, and a running ``distributed.Client``.

Blocks of rows stay on the workers as futures; what travels is the state of the model one way and sums over blocks the other, added
in the order of the blocks, so that the answer does not depend on which worker did what. Results of a lost worker are computed again.

Features: a pass over the data is one task a block. Similarities: worker b keeps rows W_b; a panel P of a Gauss-Seidel sweep needs

    (W U)[P] = sum_b W_b[:, P]' U_b        (W is symmetric: every worker takes part in every panel)

so that only U_b and its changes are sent.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
from distributed import Future, default_client, wait
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator

from ._rows import Rows, add

__all__ = ["Features", "Similarity", "shards"]

N_PANELS = 8  # a panel costs a trip to all workers
ATTEMPTS = 5  # times a panel is tried while workers are being lost


def shards(folder: Any, pattern: str = "*") -> da.Array:
    """The NPY or Parquet files of a folder, in the order of their names, as one dask array (n, p).

    Parameters
    ----------
    folder : path
        A folder that every worker can read.
    pattern : str
        Which of its files.

    Returns
    -------
    X : dask array of shape (n, p)
        One block a file; NPY files are mapped into memory, of Parquet files all columns are taken as features.

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
    paths = sorted(path for path in Path(folder).glob(pattern) if path.suffix in (".npy", ".parquet"))
    if not paths:
        raise ValueError(f"folder={str(folder)!r} holds no .npy or .parquet file that matches {pattern!r}")
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
    return (file.metadata.num_rows, file.metadata.num_columns), np.dtype(np.float32 if single else np.float64)


def _load(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    from pyarrow import parquet

    columns = [column.to_numpy() for column in parquet.read_table(path).columns]
    return np.stack(columns, axis=1).astype(np.result_type(*columns, np.float32), copy=False)


def _client() -> Any:
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "a dask array needs a cluster: start one first, e.g. client = distributed.Client(), or pass X.compute() if it fits in memory"
        ) from None


def _pinned(array: da.Array) -> list[Future]:
    """Blocks of rows as futures that stay on their workers."""
    whole = array.rechunk({1: array.shape[1]}).astype(array.dtype if array.dtype in (np.float32, np.float64) else np.float64).persist()
    futures = _client().futures_of(whole)
    by_key = {future.key: future for future in futures}
    return [by_key[key] for key in (row[0] for row in whole.__dask_keys__())]


# ---- models of features ------------------------------------------------------------------------------------------------


class _Pickler(cloudpickle.Pickler):
    """What a task needs of a model: its parameters and state, not its data and not what it has published."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (Rows, Features, Future)):
            return _nothing, ()
        if isinstance(obj, BaseEstimator):
            kept = {name: value for name, value in vars(obj).items() if name not in ("memberships_", "labels_", "history_")}
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


def _local(payload: bytes, method: str, block: np.ndarray, *columns: Any) -> Any:
    """A method of the rows of one block."""
    function, view, n_jobs = cloudpickle.loads(payload)
    rows = Rows(block, *columns, n_jobs=n_jobs, view=view)
    return getattr(rows, method)(*(() if function is None else (function,)))


def _same(value: Any) -> Any:
    return value


class SpreadRows(Rows):
    """Rows whose blocks live on the workers of a cluster."""

    def _tasks(self, method: str, function: Callable[..., Any] | None = None) -> list[Future]:
        payload = _packed((function, self.view, self.n_jobs))
        columns = [self.X.cut(column) for column in self.columns]
        return [
            _client().submit(_local, payload, method, block, *(column[b] for column in columns), pure=False)
            for b, block in enumerate(self.X.blocks)
        ]

    def sum(self, function: Callable[..., Any]) -> Any:
        parts = _client().gather(self._tasks("sum", function))
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        return total

    def map(self, function: Callable[..., Any]) -> Any:
        parts = self._tasks("map", function)
        wait(parts)
        shapes = _client().gather([_client().submit(lambda part: (part.shape, part.dtype), part, pure=False) for part in parts])
        return da.concatenate([da.from_delayed(dask.delayed(part), *form) for part, form in zip(parts, shapes, strict=True)], axis=0)

    def extremes(self) -> np.ndarray:
        parts = np.stack(_client().gather(self._tasks("extremes")))
        return np.stack([np.fmin.reduce(parts[:, 0]), np.fmax.reduce(parts[:, 1])])

    def through(self, view: Callable[[Any], Any]) -> Rows:
        first = self.view
        return SpreadRows(self.X, *self.columns, n_jobs=self.n_jobs, view=view if first is None else lambda block: view(first(block)))

    def kept(self) -> Rows:
        return self


class Features:
    """Features (n, p) in blocks of rows on the workers of a cluster."""

    rows = SpreadRows

    def __init__(self, X: da.Array) -> None:
        if np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        self.shape, self.ndim = X.shape, 2
        self.blocks = [block for block, size in zip(_pinned(X), X.chunks[0], strict=True) if size]
        self.bounds = np.concatenate([[0], np.cumsum([size for size in X.chunks[0] if size])])
        self.dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        self._columns: dict[int, tuple[Any, list[Any]]] = {}

    def __len__(self) -> int:
        return self.shape[0]

    def cut(self, column: Any) -> list[Any]:
        """A column that goes along, in pieces that stay on the workers."""
        if column is None:
            return [None] * len(self.blocks)
        if id(column) not in self._columns:
            pieces = [column[low:high] for low, high in zip(self.bounds[:-1], self.bounds[1:])]
            self._columns[id(column)] = column, [_client().submit(_same, piece, pure=False) for piece in pieces]
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
            _client().submit(lambda block, where: np.asarray(block[where]), self.blocks[b], wanted[b], pure=False) for b in np.unique(owner)
        ]
        out = np.empty((len(indices), self.shape[1]), dtype=self.dtype)
        for b, part in zip(np.unique(owner), _client().gather(parts)):
            out[owner == b] = part
        return out


def check_features(estimator: Any, X: da.Array, reset: bool, missing: bool) -> Features:
    """A dask array as features of an estimator: two-dimensional, of the fitted width, finite."""
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional (n_samples, n_features), got a dask array of shape {X.shape}")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {type(estimator).__name__} was fitted with {estimator.n_features_in_}")
    features = Features(X)
    if not missing and not Rows(features).sum(lambda block: (int(not np.isfinite(block.sum(dtype=np.float64))),))[0] == 0:
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    return features


# ---- similarities ------------------------------------------------------------------------------------------------------


def _facts(block: np.ndarray, start: int, probe: np.ndarray) -> tuple[Any, ...]:
    """Squared norm, diagonal, least entry of a block of rows, and its products with a vector from both sides."""
    diagonal = block[np.arange(len(block)), np.arange(start, start + len(block))]
    norm = float(np.einsum("ij,ij->i", block, block).astype(np.float64).sum())
    return norm, diagonal, float(block.min()), block @ probe, probe[start : start + len(block)] @ block


def _panel_part(block: np.ndarray, V: np.ndarray, start: int, rows: slice) -> tuple[Any, ...]:
    """What the objects of a block, before, within and after a panel, add to (W V)[panel]."""
    low, high = (min(max(edge - start, 0), len(block)) for edge in (rows.start, rows.stop))
    strip = block[:, rows].T
    return tuple(
        strip[:, part] @ V[part] if part.stop > part.start else None for part in (slice(0, low), slice(low, high), slice(high, len(V)))
    )


def _moved(V: np.ndarray, rows: slice, change: np.ndarray) -> np.ndarray:
    V = V.copy()
    V[rows] += change
    return V


class Similarity(LinearOperator):
    """A symmetric similarity (n, n) in blocks of rows on the workers of a cluster; evidence of the pairwise model.

    Parameters
    ----------
    W : dask array of shape (n, n)
        Symmetric, nonnegative, finite.
    """

    def __init__(self, W: da.Array) -> None:
        self.blocks = _pinned(W)
        self.bounds = np.concatenate([[0], np.cumsum(W.chunks[0])])
        super().__init__(np.dtype(W.dtype if W.dtype in (np.float32, np.float64) else np.float64), W.shape)
        self.n = W.shape[0]
        probe = np.random.default_rng(0).standard_normal(self.n).astype(self.dtype)
        facts = _client().gather(
            [_client().submit(_facts, block, int(low), probe, pure=False) for block, low in zip(self.blocks, self.bounds)]
        )
        norms, diagonals, least, right, left = zip(*facts, strict=True)
        self._check(sum(norms), min(least), np.concatenate(right), np.sum(left, axis=0))
        self.norm, self.diagonal = float(sum(norms)), np.concatenate(diagonals)
        self.diagonal_norm = float(np.sum(np.square(self.diagonal, dtype=np.float64)))
        cuts = np.unique(np.concatenate([np.arange(0, self.n, -(-self.n // N_PANELS)), self.bounds]))
        self.panels = [slice(int(low), int(high)) for low, high in pairwise(cuts)]

    def _check(self, norm: float, least: float, right: np.ndarray, left: np.ndarray) -> None:
        if not np.isfinite(norm):
            raise ValueError("W contains NaN or infinity: replace missing similarities (0 means never together) or drop those objects")
        if least < 0:
            raise ValueError(f"W has negative similarities (smallest {least:g}): shift or clip them, e.g. W.clip(min=0)")
        tolerance = 1e-4 if self.dtype == np.float32 else 1e-9
        if np.abs(right - left).max() > tolerance * max(norm, 1e-300) ** 0.5:
            raise ValueError("W is not symmetric: pass (W + W.T) / 2")

    def __matmul__(self, V: Any) -> Any:
        return self._attempt(lambda: np.concatenate(self._products(np.asarray(V, dtype=self.dtype))))

    def _products(self, V: np.ndarray) -> list[np.ndarray]:
        shared = _client().scatter(V, broadcast=True, hash=False)
        return _client().gather([_client().submit(np.matmul, block, shared, pure=False) for block in self.blocks])

    def _matmat(self, V: Any) -> Any:
        return self @ V

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """The result of ``work``, tried again while workers come and go."""
        for attempt in range(ATTEMPTS):
            try:
                return work()
            except Exception:
                if attempt + 1 == ATTEMPTS:
                    raise
                wait(self.blocks)
        raise AssertionError

    def sweep(self, V: np.ndarray, visit: Any) -> tuple[Any, Any]:
        """As ``pairwise.Explicit.sweep``: visit the panels of ``V`` (n, c) in order, newest values first; t before and after."""
        t_old, t_change = np.zeros(V.shape[1]), np.zeros(V.shape[1])
        parts, changes = self._spread(V), []
        for rows in self.panels:
            old = V[rows].copy()
            before, inside, forward = self._attempt(partial(self._panel, parts, V, rows))
            t_old += 2 * _columns(old, forward) + _columns(old, inside)
            product = forward + inside + before
            change = visit(rows, product)
            V[rows] += change
            t_change += 2 * _columns(change, product)
            changes.append(change)
            owner, local = self._owner(rows)
            parts[owner] = _client().submit(_moved, parts[owner], local, change, pure=False)
        for curved in self._attempt(lambda: _client().gather([self._curved(*pair) for pair in zip(self.panels, changes, strict=True)])):
            t_change += curved
        return t_old, t_old + t_change

    def _owner(self, rows: slice) -> tuple[int, slice]:
        """The block that holds a panel, and the panel's rows within it."""
        owner = int(np.searchsorted(self.bounds, rows.start, side="right") - 1)
        start = int(self.bounds[owner])
        return owner, slice(rows.start - start, rows.stop - start)

    def _spread(self, V: np.ndarray) -> list[Future]:
        """The rows of V, each where its rows of W are."""
        places = _client().who_has(self.blocks)
        return [
            _client().submit(_same, V[low:high].copy(), pure=False, workers=places.get(block.key) or None, allow_other_workers=True)
            for block, low, high in zip(self.blocks, self.bounds[:-1], self.bounds[1:])
        ]

    def _panel(self, parts: list[Future], V: np.ndarray, rows: slice) -> list[np.ndarray]:
        """Contributions to (W V)[rows] of the objects before, within and after them, added in the order of the blocks."""
        if any(part.status in ("error", "lost", "cancelled") for part in parts):
            parts[:] = self._spread(V)
        triples = zip(self.blocks, parts, self.bounds[:-1], strict=True)
        tasks = [_client().submit(_panel_part, block, part, int(low), rows, pure=False) for block, part, low in triples]
        total = [np.zeros((rows.stop - rows.start, V.shape[1]), dtype=V.dtype) for _ in range(3)]
        for found in _client().gather(tasks):
            for place, piece in zip(total, found, strict=True):
                if piece is not None:
                    place += piece
        return total

    def _curved(self, rows: slice, change: np.ndarray) -> Future:
        """<change, W change> within a panel, a column each."""
        owner, local = self._owner(rows)
        return _client().submit(lambda block: _columns(change, block[local, rows] @ change), self.blocks[owner], pure=False)


def _columns(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)
