"""The one module that knows array libraries, and the compilers of kernels.

Kernels are written once, against the array API standard, and find their library in the data: ``xp =
namespace(U)``. NumPy (2.1 and later) is such a library by itself; torch and CuPy come through
``array-api-compat``.

Some kernels have compiled forms too, by Numba or Triton, in modules that are imported where those
are installed and worth their compilation: Numba takes seconds to compile what NumPy does for a
thousand objects in a tenth of a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .memory import memory_budget
from .types import Array

__all__ = [
    "add_at",
    "as_dense",
    "asarray_like",
    "compile_for",
    "compiled_module",
    "compiling",
    "cpu_count",
    "device",
    "free_memory",
    "inplace",
    "is_bfloat16",
    "is_numpy",
    "namespace",
    "native",
    "optional_module",
    "reader",
    "to_numpy",
]

# Array libraries that a module of this package in a higher layer reads; it is imported when such
# an array arrives.
READERS = {"dask": "sfumato.dask"}
# A fit of at least this many objects compiles what it needs. Both ways take the same time within a
# fifth up to 50 000 objects, and compiling takes 5 to 10 s.
MANY_OBJECTS = 200_000

_state = {"compile": False, "whole": False}
_VERSION = f"py{sys.version_info.major}{sys.version_info.minor}"
_asked: set[tuple[str, str]] = set()  # modules of compiled forms that were used


def namespace(*arrays: Any) -> Any:
    """Array library of the arguments: NumPy unless one of them belongs to another library."""
    for array in arrays:
        if isinstance(array, (np.ndarray, np.generic)) or array is None:
            continue
        root = type(array).__module__.partition(".")[0]
        if root in ("torch", "cupy"):
            return _compat(root)
        if root not in ("scipy", "sfumato", "numpy") and hasattr(array, "__array_namespace__"):
            return array.__array_namespace__()
    return np


def _compat(root: str) -> Any:
    try:
        if root == "torch":
            import array_api_compat.torch as xp
        else:
            import array_api_compat.cupy as xp  # type: ignore[no-redef]
    except ImportError as error:
        raise ImportError(
            f"{root} arrays need array-api-compat: pip install 'sfumato[gpu]'"
        ) from error
    return xp


def reader(array: Any) -> Any:
    """The module of this package that reads arrays of this library (``READERS``), or None."""
    name = READERS.get(type(array).__module__.partition(".")[0])
    return import_module(name) if name else None


def is_numpy(*arrays: Any) -> bool:
    """True when the arguments are handled by NumPy."""
    return namespace(*arrays) is np


def is_bfloat16(array: Any) -> bool:
    """Whether an array holds bfloat16, which NumPy does not have."""
    return str(getattr(array, "dtype", "")).endswith("bfloat16")


def to_numpy(array: Any) -> np.ndarray:
    """The same numbers as a NumPy array, copied from the device if need be."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        return (array.float() if is_bfloat16(array) else array).numpy()
    if hasattr(array, "get") and type(array).__module__.startswith("cupy"):
        return array.get()
    try:
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError):
        return np.from_dlpack(array)


def as_dense(product: Any, dtype: Any) -> Any:
    """The result of a product with an operator as a plain array."""
    if sp.issparse(product):
        product = product.toarray()
    return np.asarray(product, dtype=dtype) if is_numpy(product) else product


def asarray_like(values: Any, array: Any, dtype: Any = None) -> Any:
    """Numbers of the host in the library of ``array``, where it lives, and in its dtype by default.

    Nothing is copied where they are such an array already.
    """
    dtype = array.dtype if dtype is None else dtype
    return namespace(array).asarray(values, dtype=dtype, device=device(array))


def inplace(function: str, array: Array) -> Any:
    """``function(array)``, written over ``array`` where the library can: ``inplace("exp", D)``."""
    if isinstance(array, np.ndarray):
        return getattr(np, function)(array, out=array)
    if type(array).__module__.startswith("torch"):
        return getattr(array, function + "_")()
    return getattr(namespace(array), function)(array)


def add_at(vector: Any, index: Any, values: Array) -> Any:
    """``vector[index] += values`` for distinct indices; in place where the library can."""
    xp = namespace(vector)
    if xp.__name__.startswith("array_api_strict"):
        hit = xp.arange(vector.shape[0])[None, :] == index[:, None]
        vector += xp.sum(
            xp.where(hit, values[:, None], xp.zeros((1, 1), dtype=vector.dtype)), axis=0
        )
    else:
        vector[index] += values


def device(array: Array) -> Any:
    """Where the array lives."""
    return getattr(array, "device", None)


def free_memory(array: Any) -> int:
    """Bytes still free where the array lives."""
    if getattr(array, "is_cuda", False):
        import torch

        return int(torch.cuda.mem_get_info(array.device)[0])
    return memory_budget()


def cpu_count() -> int:
    """Cores this process may run on."""
    if sys.platform == "linux":
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@lru_cache
def native(name: str) -> Any:
    """The module ``name`` of ``sfumato.native``, loops that were compiled when the package was
    built; NumPy arrays need them, arrays of other libraries do not.
    """
    try:
        return import_module(f"sfumato.native.{name}")
    except ImportError as error:
        raise ImportError(
            f"sfumato.native.{name} is missing, which NumPy arrays need: install a wheel (pip "
            "install sfumato) or build it (pip install . in a clone, not PYTHONPATH)"
        ) from error


@lru_cache
def optional_module(package: str, name: str) -> Any:
    """The module ``name`` of ``package``, or None where what it compiles with is not installed.

    None too where Numba finds no folder to keep compiled forms in: an installation and a home that
    cannot be written, as in many containers.
    """
    try:
        module = import_module(f"{package}.{name}")
        return _kernels(module) if name.startswith("compiled") else module
    except ImportError:
        return None
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        return None


def _kernels(module: Any) -> SimpleNamespace:
    """The public names of a compiled module, its functions such that they can be stopped."""
    public = {name: getattr(module, name) for name in module.__all__}
    return SimpleNamespace(
        **{name: _stoppable(it) if callable(it) else it for name, it in public.items()}
    )


def _stoppable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after which Ctrl-C is what it is: Numba makes a SystemError of one that came
    while the function worked.
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except SystemError as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None
            raise

    return call


def compiled_module(package: str, name: str) -> Any:
    """The module of compiled forms, or None where plain NumPy should be used instead.

    That is so where Numba is not installed, and where nothing is on disk from an earlier
    compilation and no fit of this process was large enough to be worth one.
    """
    if not (_state["compile"] or _kept(package, name)):
        return None
    if (package, name) not in _asked:
        _asked.add((package, name))
        if _state["whole"]:
            _say_unfinished(package, name)
    return optional_module(package, name)


def compile_for(n_objects: int) -> None:
    """From now on compile what is needed, if a fit has enough objects to be worth it."""
    _state["compile"] |= n_objects >= MANY_OBJECTS


@contextmanager
def compiling(whole: bool = False) -> Iterator[None]:
    """Compile whatever is needed meanwhile, however few the objects.

    What was used is marked as new: Numba takes forms of a source that was touched, but not changed.
    With ``whole`` every kernel is compiled meanwhile. Until the end a note beside the forms says
    that some may be missing, for which small fits would wait; it stays where the process was
    stopped or killed, and compiling again takes it away.
    """
    before = dict(_state)
    _state.update(compile=True, whole=whole)
    try:
        if whole:
            for names in _asked:
                _say_unfinished(*names)
        yield
    finally:
        _state.update(before)
    for names in _asked:
        for index in _indices(*names):
            index.touch()
    if whole:
        for names in _asked:
            if (note := _note(*names)) is not None:
                note.unlink(missing_ok=True)


@lru_cache
def _kept(package: str, name: str) -> bool:
    """Whether compiled forms of the module lie on disk, whole and not older than their source.

    Asked once in a process, so that all its fits compute in the same way.
    """
    note, place = _note(package, name), _place(package, name)
    if note is None or place is None or note.exists():
        return False
    changed = place[0].stat().st_mtime
    return any(index.stat().st_mtime >= changed for index in _indices(package, name))


def _indices(package: str, name: str) -> list[Path]:
    """The files that list compiled forms of a module."""
    place = _place(package, name)
    return [] if place is None else list(place[1].glob(f"{place[0].stem}.*.{_VERSION}*.nbi"))


def _say_unfinished(package: str, name: str) -> None:
    """Say beside the forms of a module that some may be missing."""
    if (note := _note(package, name)) is not None:
        with suppress(OSError):  # where nothing can be written no form is kept either
            note.parent.mkdir(parents=True, exist_ok=True)
            note.touch()


def _note(package: str, name: str) -> Path | None:
    """The file that is there until a compilation of the module has ended."""
    place = _place(package, name)
    return None if place is None else place[1] / f"{place[0].stem}.{_VERSION}.unfinished"


def _place(package: str, name: str) -> tuple[Path, Path] | None:
    """The source of a module and the folder for its compiled forms; None where there is none."""
    spec = find_spec(f"{package}.{name}")
    if spec is None or spec.origin is None or find_spec("numba") is None:
        return None
    source = Path(spec.origin)
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(source.parent, os.W_OK):
        return source, source.parent / "__pycache__"
    kernels = getattr(optional_module(package, name), "__dict__", {}).values()
    functions = [getattr(kernel, "__wrapped__", kernel) for kernel in kernels]
    folder = next((f.stats.cache_path for f in functions if hasattr(f, "stats")), None)
    return None if folder is None else (source, Path(folder))
