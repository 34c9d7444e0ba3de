"""The memory guard: it refuses fits and arrays that would not fit into memory, before they are
made, and names alternatives that need less.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SHARE = 0.9  # usable share of the budget; the rest is for what is not counted


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
        raise ValueError(
            f"SFUMATO_MEMORY_BUDGET must be a number of bytes such as 2e9, got {override[:40]!r}"
        )
    limits = [_available(), _address_room(), *_cgroup_room()]
    return max(0, int(min((limit for limit in limits if limit is not None), default=2**62)))


def require(
    task: str,
    arrays: Mapping[str, float],
    forms: Iterable[tuple[str, float]],
    budget: int | None = None,
) -> None:
    """Raise ``MemoryBudgetError`` if ``task`` needs more than nine tenths of the budget.

    ``arrays`` gives names and bytes of all that is held at the same time, ``forms`` alternatives
    and their bytes, ``budget`` the memory of the device.
    """
    size = sum(arrays.values())
    budget = budget_for(size) if budget is None else budget
    if size <= SHARE * budget:
        return
    parts = ", ".join(
        f"{name} {_human(part)}"
        for name, part in sorted(arrays.items(), key=lambda item: -item[1])
        if part > 0.01 * size
    )
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


def _address_room() -> int | None:
    """Bytes that ``ulimit -v`` leaves to this process."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        return limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None


def _cgroup_room(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> list[int]:
    """Bytes left by each memory cgroup (version 2, then 1) of this process and its parents."""
    room = []
    for controller, limit, usage, cached in (
        ("", "memory.max", "memory.current", "file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"),
    ):
        for folder in _cgroups(root / controller, own, controller):
            try:
                allowed = (folder / limit).read_text().strip()
                if allowed != "max":
                    used = int((folder / usage).read_text()) - _reclaimable(folder, cached)
                    room.append(int(allowed) - used)
            except (OSError, ValueError):
                continue
    return room


def _cgroups(root: Path, own: Path, controller: str) -> list[Path]:
    """The cgroup of this process and its parents; inside a container only the root is visible."""
    try:
        entries = [line.split(":", 2) for line in own.read_text().splitlines()]
        path = next(entry[2] for entry in entries if controller in entry[1].split(","))
    except (OSError, StopIteration, IndexError):
        return [root]
    folder = root / path.lstrip("/")
    return [folder, *(above for above in folder.parents if above.is_relative_to(root))]


def _reclaimable(folder: Path, name: str) -> int:
    """Bytes of cached files, which the system gives up on demand."""
    try:
        found = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:
        return 0
    return int(found.get(name, 0)) - int(found.get("shmem" if name == "file" else "total_shmem", 0))
