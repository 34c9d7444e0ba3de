"""A plugin of pytest: which functions of src the tests of every file call, and the time they take.

``python -m pytest -p reached`` with ``.ci`` in ``PYTHONPATH`` writes what it saw to
``build/reached``, one file for each process. ``mutate.py`` reads it to choose tests.

Tests of one file share fits, and only the first of them calls what makes one. So a file of tests
counts as a whole, and of the contract all that is asked of one case.
"""

from __future__ import annotations

import cProfile
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "build" / "reached"
CALLED = defaultdict[str, set[str]](set)
SECONDS = Counter[str]()
TESTS = defaultdict[str, list[str]](list)


def unit(item: pytest.Item) -> str:
    """What counts as a whole: the file of a test, or a case of the contract."""
    file = item.nodeid.partition("::")[0]
    case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
    return f"{file}[{case.name}]" if file.endswith("test_contract.py") and case else file


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if "walk" in item.path.stem:  # has a profiler of its own
        return (yield)
    profile, begun, name = cProfile.Profile(builtins=False), time.process_time(), unit(item)
    profile.enable()
    try:
        return (yield)
    finally:
        profile.disable()
        for entry in profile.getstats():
            path = "" if isinstance(entry.code, str) else entry.code.co_filename
            if "/src/sfumato/" in path:
                file = path.rpartition("/src/sfumato/")[2]
                CALLED[name].add(f"{file}:{entry.code.co_qualname}")
        SECONDS[name] += time.process_time() - begun
        TESTS[name].append(item.nodeid)


def pytest_sessionfinish() -> None:
    found = {
        name: {"seconds": SECONDS[name], "tests": tests, "called": sorted(CALLED[name])}
        for name, tests in TESTS.items()
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    name = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    (FOLDER / f"{name}.json").write_text(json.dumps(found))
