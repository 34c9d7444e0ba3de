"""Compiled forms of kernels, by Numba or Triton.

Decides whether they are installed, and whether they are worth their compilation:
Numba takes seconds to compile what NumPy does for a thousand objects in a tenth of a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["compile_for", "compiled_module", "compiling", "optional_module"]

# Objects from which on a fit compiles what it needs. Both ways take the same time within a fifth
# up to 50 000 objects, and compiling takes 5 to 10 s.
MANY_OBJECTS = 200_000

_state = {"compile": False}


@lru_cache
def optional_module(package: str, name: str) -> Any:
    """The module ``name`` of ``package``, or None where what it compiles with is not installed."""
    try:
        return import_module(f"{package}.{name}")
    except ImportError:
        return None


def compiled_module(package: str, name: str) -> Any:
    """The module of compiled forms, or None where plain NumPy should be used instead.

    That is so where Numba is not installed, and where nothing is on disk from an earlier
    compilation and no fit of this process was large enough to be worth one.
    """
    return optional_module(package, name) if _state["compile"] or _kept(package, name) else None


def compile_for(n_objects: int) -> None:
    """From now on compile what is needed, if a fit has so many objects that it is worth it."""
    _state["compile"] |= n_objects >= MANY_OBJECTS


@contextmanager
def compiling() -> Iterator[None]:
    """Compile whatever is needed meanwhile, however few the objects."""
    before = _state["compile"]
    _state["compile"] = True
    try:
        yield
    finally:
        _state["compile"] = before


@lru_cache
def _kept(package: str, name: str) -> bool:
    """Whether compiled forms of the module lie on disk and are not older than their source.

    Asked once in a process, so that all its fits compute in the same way.
    """
    spec = find_spec(f"{package}.{name}")
    if spec is None or spec.origin is None or find_spec("numba") is None:
        return False
    source = Path(spec.origin)
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(source.parent, os.W_OK):
        folder: str | Path | None = source.parent / "__pycache__"
    else:
        functions = vars(optional_module(package, name)).values()
        folder = next((f.stats.cache_path for f in functions if hasattr(f, "stats")), None)
    if folder is None:
        return False
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    indices = Path(folder).glob(f"{source.stem}.*.{version}*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indices)
