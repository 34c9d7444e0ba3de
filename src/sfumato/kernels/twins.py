"""Kernels with a compiled twin, by Numba or Triton: the one place that asks whether it is there."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

__all__ = ["twin"]


@lru_cache
def twin(name: str) -> Any:
    """The module ``name`` of this folder, or None where what it compiles with is not installed."""
    try:
        return import_module(f"{__package__}.{name}")
    except ImportError:
        return None
