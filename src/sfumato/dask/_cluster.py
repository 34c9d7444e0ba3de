"""The running cluster, and arrays that stay on its workers."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from distributed import Future, default_client

__all__ = ["check_array", "client", "pinned", "same"]


def check_array(X: Any, name: str) -> da.Array:
    """A dask array of real numbers, two-dimensional, of known size and without empty blocks."""
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
    """The client in place."""
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "a dask array needs a cluster: start one first, e.g. client = distributed.Client(), "
            "or pass X.compute() if it fits in memory"
        ) from None


def pinned(array: da.Array) -> list[Future]:
    """Blocks of rows as futures that stay on their workers."""
    whole = (
        array.rechunk({1: array.shape[1]})
        .astype(array.dtype if array.dtype in (np.float32, np.float64) else np.float64)
        .persist()
    )
    futures = client().futures_of(whole)
    by_key = {future.key: future for future in futures}
    return [by_key[key] for key in (row[0] for row in whole.__dask_keys__())]


def same(value: Any) -> Any:
    """The value itself: a task that puts it on a worker."""
    return value
