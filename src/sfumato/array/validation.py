"""Checks made before work begins: parameters, weights, ranges of numbers, and memory.

Every message names the parameter, the value and the fix. The memory guard refuses fits and arrays
that would not fit into memory, before they are made, and names alternatives that need less.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arrays import to_numpy
from .types import ArrayLike, RandomState

SHARE = 0.9  # usable share of the budget; the rest is for what is not counted


def refuse_mask(X: object, name: str) -> None:
    """Refuse a masked array, since its mask would be ignored."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a masked array, whose mask would be ignored: fill it, e.g. "
            f"{name}.filled(np.nan), or drop those rows"
        )


def check_number(
    value: object,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    integer: bool = False,
    strict: bool = False,
) -> Any:
    """``value`` if it is a number from ``low`` to ``high``, both excluded if ``strict``."""
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        raise TypeError(
            f"{name} must be {'an integer' if integer else 'a number'}, got {value!r} of type "
            f"{type(value).__name__}"
        )
    number = float(value)
    inside = low < number < high if strict else low <= number <= high
    if not inside:
        left, right = ("(", ")") if strict else ("[", "]")
        raise ValueError(f"{name} must lie in {left}{low}, {high}{right}, got {value!r}")
    return int(value) if integer else float(value)  # type: ignore[call-overload]


def check_numbers(value: Any, name: str) -> list[int] | None:
    """The positive integers of a number or a sequence, ascending; None for "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(f"{name} must be an integer, integers or 'auto', got {value!r}")
        return None
    several = value if isinstance(value, Iterable) else [value]
    if not (found := sorted({check_number(k, name, low=1, integer=True) for k in several})):
        raise ValueError(f"{name} is an empty sequence: give at least one number to try")
    return found


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    """``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_n_clusters(n_clusters: Any, n_objects: int) -> int:
    """``n_clusters`` as an integer between 1 and the number of objects."""
    n_clusters = check_number(n_clusters, "n_clusters", low=1, integer=True)
    if n_clusters > n_objects:
        raise ValueError(f"n_clusters={n_clusters} exceeds n_samples={n_objects}: ask for fewer")
    return n_clusters


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A NumPy generator from ``None``, a seed, a ``RandomState`` or a generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    seed = isinstance(random_state, numbers.Integral) and int(random_state) >= 0
    if seed or random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    raise ValueError(f"random_state must be a seed or a NumPy generator, got {random_state!r}")


def check_weights(
    given: ArrayLike | None,
    X: Any,
    *,
    any_size: bool = False,
    positive: bool = False,
    name: str = "sample_weight",
    of: str = "objects",
) -> Any:
    """Nonnegative (or ``positive``) weights (n,), of finite sum unless ``any_size``; or None."""
    if given is None:
        return None
    refuse_mask(given, name)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    try:
        weights = np.asarray(to_numpy(given), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name} must hold a number for each of the {of}: {error}") from error
    weights = weights if weights.ndim else np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(f"{name} must hold a weight for each of {n} {of}, got {weights.shape}")
    refused = np.flatnonzero(~np.isfinite(weights))
    if refused.size:
        raise ValueError(
            f"{name} must hold finite numbers, got {weights[refused[0]]} for row {refused[0]}: "
            f"give such {of} weight 0, or leave them out"
        )
    if not weights.any():
        raise ValueError(f"{name} must have a positive sum, got all zeros: give some {of} weight")
    if (least := weights.min()) < 0 or (positive and least == 0):
        kind = "positive" if positive else "nonnegative"
        raise ValueError(f"{name} must be {kind}, got a weight of {least:g}")
    largest = float(weights.max())
    if not any_size and not 1e-150 <= largest <= 1e150 / n:
        raise ValueError(f"{name} is too large or too small to be summed: divide it by {largest:g}")
    return weights


def refuse_overflow(X: Any, name: str) -> None:
    """Refuse numbers whose sums of squares would overflow."""
    largest = largest_size(X)
    if largest > float(np.finfo(X.dtype).max) ** 0.5 / max(10.0, 10.0 * X.shape[1]):
        raise ValueError(
            f"{name} has values as large as {largest:.0e}, whose squares overflow: change units, "
            f"e.g. {name} / {largest:.0e}"
        )


def refuse_underflow(X: Any, name: str, *, squares: bool = True) -> None:
    """Refuse nonzero numbers whose squares (or only the reciprocals) leave the range of floats."""
    largest, tiny = largest_size(X), float(np.finfo(X.dtype).tiny)
    if 0 < largest < (tiny**0.5 * 1e6 if squares else tiny * 1e3):
        raise ValueError(
            f"{name} has no value larger than {largest:.0e}, and their squares underflow: change "
            f"units, e.g. {name} / {largest:.0e}"
        )


def largest_size(X: Any) -> float:
    """Largest absolute value, ignoring NaN; 0 for an empty array."""
    values = X.data if sp.issparse(X) else X
    if values.size == 0:
        return 0.0
    return float(max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)))


class MemoryBudgetError(ValueError, MemoryError):
    """An array or a fit was refused because it would not fit into memory."""


class InputSize(NamedTuple):
    """Shape and bytes of the data, known before they are read."""

    n: int
    p: int
    stored: int  # values stored: n p, the nonzeros of a sparse array, or 0
    itemsize: int  # bytes per value after reading
    copied: bool  # whether reading converts the values to floating point
    sparse: bool

    @classmethod
    def of(cls, X: Any) -> InputSize | None:
        """Size of an array, sparse array, frame or operator; None without a shape, and for dask."""
        shape = getattr(X, "shape", None)
        if shape is None or len(shape) != 2 or type(X).__module__.startswith("dask."):
            return None
        n, p = (int(size) for size in shape)
        dtype = str(getattr(X, "dtype", "")).rpartition(".")[2]
        sparse = hasattr(X, "nnz")
        whole = hasattr(X, "__array__") or hasattr(X, "__dlpack__")
        stored = int(X.nnz) if sparse else n * p if whole else 0
        itemsize = 4 if dtype in ("float32", "bfloat16", "") else 8
        copied = dtype not in ("float32", "float64", "bfloat16") and (sparse or whole)
        return cls(n, p, stored, itemsize, copied, sparse)

    def copy(self) -> int:
        """Bytes of the copy made while reading, if any."""
        return self.stored * (self.itemsize + 4 * self.sparse) if self.copied else 0

    def halved(self) -> InputSize:
        """The size in float32."""
        return self._replace(itemsize=4, copied=False)


def memory_budget() -> int:
    """Bytes that this process may still allocate, or ``SFUMATO_MEMORY_BUDGET``."""
    override = os.environ.get("SFUMATO_MEMORY_BUDGET")
    if override:
        with suppress(ValueError, OverflowError):
            if (size := int(float(override))) >= 0:
                return size
        raise ValueError(f"SFUMATO_MEMORY_BUDGET must be bytes, such as 2e9, got {override[:40]!r}")
    limits = [_available(), _address_space_left(), *_cgroup_left()]
    return max(0, int(min((limit for limit in limits if limit is not None), default=2**62)))


def free_memory(array: Any) -> int:
    """Free memory in bytes on the array's device."""
    if getattr(array, "is_cuda", False):
        import torch

        return int(torch.cuda.mem_get_info(array.device)[0])
    return memory_budget()


def require(
    task: str,
    arrays: Mapping[str, float],
    forms: Iterable[tuple[str, float]],
    budget: int | None = None,
) -> None:
    """Raise ``MemoryBudgetError`` if ``task`` needs more than nine tenths of the budget. Its
    ``arrays`` are held at the same time; ``forms`` are alternatives (names and bytes of both).
    """
    size = sum(arrays.values())
    budget = budget_for(size) if budget is None else budget
    if size <= SHARE * budget:
        return
    largest = sorted(arrays.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{name} {_human(part)}" for name, part in largest if part > 0.01 * size)
    fitting = [form for form, needed in forms if needed <= SHARE * budget]
    raise MemoryBudgetError(
        f"{task} would take {_human(size)} ({parts}) and does not fit in memory ({_human(budget)} "
        f"available): {', or '.join(fitting)}"
    )


def reserve(shape: tuple[int, ...], dtype: npt.DTypeLike, what: str, instead: str) -> None:
    """Raise ``MemoryBudgetError`` if an array of this shape would take most of the budget."""
    size = math.prod(int(n) for n in shape) * np.dtype(dtype).itemsize
    budget = budget_for(size)
    if size > SHARE * budget:
        dimensions = " x ".join(f"{n:,}" for n in shape)
        raise MemoryBudgetError(
            f"{what} ({dimensions}, {_human(size)}) does not fit in memory ({_human(budget)} "
            f"available): {instead}"
        )


def budget_for(size: float) -> int:
    """The memory budget; infinite for a small ``size``, unless a budget was set."""
    # Below 16 MiB, reading the limits of the system is not worth the time.
    return 2**62 if size <= 2**24 and "SFUMATO_MEMORY_BUDGET" not in os.environ else memory_budget()


def _human(size: float) -> str:
    if size < 1024:
        return f"{size:.0f} bytes"
    power = min(4, int(math.log2(size)) // 10)
    return f"{size / 1024**power:.1f} {('', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def _available() -> int | None:
    """Free memory of the machine, including swap."""
    try:
        found = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return sum(int(found[name].split()[0]) * 1024 for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _address_space_left() -> int | None:
    """Bytes that ``ulimit -v`` leaves to this process."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        return limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None


def _cgroup_left(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[int]:
    """Bytes left by each memory cgroup (version 2) of this process and its parents, besides cached
    files; inside a container only the root is visible.
    """
    left_in_groups, folder = [], root
    with suppress(OSError, IndexError):
        folder = root / own.read_text().split("0::/", 1)[1].splitlines()[0]
    for group in (folder, *(above for above in folder.parents if above.is_relative_to(root))):
        with suppress(OSError, ValueError):  # without a limit, it is "max"
            allowed = int((group / "memory.max").read_text())
            used = int((group / "memory.current").read_text())
            lines = (group / "memory.stat").read_text().splitlines()
            cached = {name: int(size) for name, size in map(str.split, lines)}
            left_in_groups.append(allowed - used + cached.get("file", 0) - cached.get("shmem", 0))
    return left_in_groups


def check_array(value: object, name: str, *shapes: tuple[int, ...]) -> np.ndarray:
    """``value`` as finite numbers, in float64, of one of these shapes."""
    wanted = " or ".join(map(str, shapes))
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers of shape {wanted}, got {value!r}"
        ) from error
    if array.shape not in shapes:
        raise ValueError(f"{name} must be an array of shape {wanted}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, but holds {'NaN' if np.isnan(array).any() else 'infinity'}: "
            "give a number in its place"
        )
    return array
