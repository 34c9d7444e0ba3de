"""The memory guard."""

import numpy as np
import pytest

from sfumato import MemoryBudgetError, _memory


def test_a_budget_is_found_and_can_be_set(monkeypatch):
    assert 2**20 < _memory.memory_budget() < 2**60
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "2e9")
    assert _memory.memory_budget() == 2_000_000_000


def test_what_fits_passes_and_what_does_not_is_refused_with_size_and_advice(monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "8e6")
    _memory.reserve((100, 100), np.float64, "a matrix", "use less")
    with pytest.raises(MemoryBudgetError, match=r"a matrix \(1,000 x 1,000, 7.6 MiB\).*7.6 MiB available\): use less"):
        _memory.reserve((1000, 1000), np.float64, "a matrix", "use less")
    assert issubclass(MemoryBudgetError, MemoryError)
    assert issubclass(MemoryBudgetError, ValueError)


def test_cgroup_limits_count(monkeypatch, tmp_path):
    monkeypatch.delenv("SFUMATO_MEMORY_BUDGET", raising=False)
    monkeypatch.setattr(_memory, "_cgroup_room", lambda: [12345])
    assert _memory.memory_budget() == 12345
