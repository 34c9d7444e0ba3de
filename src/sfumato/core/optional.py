"""Compiled forms of kernels, by Numba or Triton.

The one place that asks whether they are installed.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

__all__ = ["optional_module"]


@lru_cache
def optional_module(package: str, name: str) -> Any:
    """The module ``name`` of ``package``, or None where what it compiles with is not installed."""
    try:
        return import_module(f"{package}.{name}")
    except ImportError:
        return None
