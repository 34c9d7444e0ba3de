"""The only module that knows array libraries, and where to find compiled kernels.

Kernels are written once for the array API standard and get their library from the data: ``xp =
namespace(U)``. NumPy (2.1 or later) follows the standard; torch and CuPy do through
``array-api-compat``. Loops over NumPy arrays are native modules, compiled when the package is
built.
"""

import os
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from .types import Array


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
        return import_module(f"array_api_compat.{root}")
    except ImportError as error:
        raise ImportError(f"{root} arrays need a package: pip install 'sfumato[gpu]'") from error


def reader(array: object) -> Any:
    """The module of this package that handles arrays of this library; None if none is needed."""
    dask = type(array).__module__.partition(".")[0] == "dask"
    return import_module("sfumato.dask") if dask else None


def is_numpy(*arrays: Any) -> bool:
    """Whether all arguments are handled by NumPy."""
    return namespace(*arrays) is np


def is_bfloat16(array: object) -> bool:
    """Whether an array holds bfloat16, which NumPy does not have."""
    return str(getattr(array, "dtype", "")).endswith("bfloat16")


def to_numpy(array: Any) -> np.ndarray:
    """The same values as a NumPy array, copied from a device if necessary."""
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


def as_dense(product: Any, dtype: Any = None) -> Any:
    """A sparse array, or the result of a product with an operator, as a plain array."""
    if sp.issparse(product):
        product = product.toarray()
    return np.asarray(product, dtype=dtype) if is_numpy(product) else product


def asarray_like(values: Any, array: Any, dtype: Any = None) -> Any:
    """Host values in the library, on the device and by default in the dtype of ``array``."""
    dtype = array.dtype if dtype is None else dtype
    return namespace(array).asarray(values, dtype=dtype, device=device(array))


def inplace(function: str, array: Array) -> Any:
    """``function(array)``, computed in place if the library can: ``inplace("exp", D)``."""
    if isinstance(array, np.ndarray):
        return getattr(np, function)(array, out=array)
    if type(array).__module__.startswith("torch"):
        return getattr(array, function + "_")()
    return getattr(namespace(array), function)(array)


def add_at(vector: Any, index: Any, values: Array) -> Any:
    """``vector[index] += values`` for distinct indices; in place if the library can."""
    xp = namespace(vector)
    if xp.__name__.startswith("array_api_strict"):
        hit = xp.arange(vector.shape[0])[None, :] == index[:, None]
        none = xp.zeros((1, 1), dtype=vector.dtype)
        vector += xp.sum(xp.where(hit, values[:, None], none), axis=0)
    else:
        vector[index] += values


def device(array: Array) -> Any:
    """Device of the array, or None."""
    return getattr(array, "device", None)


def cpu_count() -> int:
    """Number of threads allowed by the affinity, the container quota and OMP_NUM_THREADS."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = _cores()
    return min(cores, max(1, int(asked))) if asked.isdigit() else cores


@lru_cache(maxsize=1)
def _cores() -> int:
    from joblib import cpu_count

    return max(1, cpu_count())


@lru_cache
def native(name: str) -> Any:
    """The module ``name`` of ``sfumato.native`` with compiled loops for NumPy arrays."""
    try:
        return import_module(f"sfumato.native.{name}")
    except ImportError as error:
        raise ImportError(
            f"sfumato.native.{name} is missing, which NumPy arrays need: install a wheel (pip "
            "install sfumato) or build it (pip install . in a clone, not PYTHONPATH)"
        ) from error


@lru_cache
def optional_module(package: str, name: str) -> Any:
    """The module ``name`` of ``package``, or None if its compiler is not installed."""
    try:
        return import_module(f"{package}.{name}")
    except ImportError:
        return None
