"""The running cluster, arrays that stay on its workers, and files as dask arrays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Future, default_client

import dask


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
    """Make this process reuse freed memory instead of returning it to the system at once.

    Dask starts its workers with the opposite setting, and then clearing new pages for every
    temporary array takes longer than the sums.
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
        raise ValueError(
            f"folder={str(folder)!r} holds no .npy or .parquet file that matches {pattern!r}"
        )
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
