"""The memory of a task: temporary arrays stay with the process until the task is over.

Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_``, so that what a task frees goes back to the
system at once. A pass frees and asks for the same temporary arrays thousands of times, and each
time the system would clear new pages: that takes longer than the sums.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

__all__ = ["keeping_temporaries"]

# The numbers of malloc.h, and the values that glibc has without settings
TRIM_THRESHOLD, MMAP_THRESHOLD, DEFAULT = -1, -3, 2**17
LARGEST = 2**23  # bytes of a temporary array that is kept; larger ones are rare
KEPT = 2**26  # bytes of such arrays together, for each thread

_lock = threading.Lock()
_tasks = {"running": 0}


@contextmanager
def keeping_temporaries() -> Iterator[None]:
    """Memory that is freed meanwhile is used again, where a worker would give it back.

    The settings of the worker come back with the end of the last task.
    """
    settings = _settings()
    if settings is None:
        yield
        return
    with _lock:
        _tasks["running"] += 1
        if _tasks["running"] == 1:
            _set(KEPT, LARGEST)
    try:
        yield
    finally:
        with _lock:
            _tasks["running"] -= 1
            if not _tasks["running"]:
                _set(*settings)


def _settings() -> tuple[int, int] | None:
    """What the process was started with; None where it gives no memory back at once."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ or _mallopt() is None:
        return None
    try:
        trim = int(os.environ["MALLOC_TRIM_THRESHOLD_"])
        return trim, int(os.environ.get("MALLOC_MMAP_THRESHOLD_", DEFAULT))
    except ValueError:
        return None


def _set(trim: int, mapped: int) -> None:
    _mallopt()(TRIM_THRESHOLD, trim)
    _mallopt()(MMAP_THRESHOLD, mapped)


@lru_cache
def _mallopt() -> Any:
    """The function of the C library, or None where it has none."""
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return None
