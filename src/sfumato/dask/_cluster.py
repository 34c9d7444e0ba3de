"""The cluster that is there, and what stays on its workers."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from distributed import Future, default_client

__all__ = ["client", "pinned", "same"]


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
