"""The memory guard: say that an array will not fit before asking for it."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

__all__ = ["MemoryBudgetError", "memory_budget", "reserve"]


class MemoryBudgetError(ValueError, MemoryError):
    """An array was refused because it would not fit into the memory this process may use."""


def memory_budget() -> int:
    """Bytes this process may still take: what the machine has free, what its cgroup allows, or ``SFUMATO_MEMORY_BUDGET``."""
    override = os.environ.get("SFUMATO_MEMORY_BUDGET")
    if override:
        return int(float(override))
    limits = [_available(), *_cgroup_room()]
    return int(min((limit for limit in limits if limit is not None), default=2**62))


def reserve(shape: tuple[int, ...], dtype: object, what: str, instead: str) -> None:
    """Raise ``MemoryBudgetError`` if an array of this shape would take more than nine tenths of the budget."""
    size = math.prod(int(n) for n in shape) * np.dtype(dtype).itemsize  # type: ignore[call-overload]
    budget = memory_budget()
    if size > 0.9 * budget:
        dimensions = " x ".join(f"{n:,}" for n in shape)
        raise MemoryBudgetError(f"{what} ({dimensions}, {_human(size)}) does not fit in memory ({_human(budget)} available): {instead}")


def _human(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return None
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _cgroup_room() -> list[int]:
    """What the memory cgroups (version 2, then 1) leave to this process."""
    room = []
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            allowed = Path(limit).read_text().strip()
            if allowed != "max":
                room.append(int(allowed) - int(Path(usage).read_text()))
        except (OSError, ValueError):
            continue
    return room
