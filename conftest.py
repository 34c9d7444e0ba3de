"""What may be left out of a test run: tests and modules that need a package which is not there.

Everything else that cannot be imported is an error, in the examples of the docstrings too.
"""

from __future__ import annotations

from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

NEEDS = {  # package: what cannot be imported, or says nothing, without it
    "typer": ("src/sfumato/cli/*", "tests/cli/*", "tests/selection/test_one_answer.py"),
    "jinja2": ("src/sfumato/report/*", "tests/report/*"),
    "matplotlib": ("src/sfumato/plot/*", "tests/plot/*"),
    "distributed": ("src/sfumato/dask/*",),
    "torch": ("src/sfumato/numerics/*_torch.py",),
    "triton": ("src/sfumato/*/cuda*.py", "src/sfumato/models/*/cuda*.py"),
}
MISSING = {package: patterns for package, patterns in NEEDS.items() if find_spec(package) is None}


collect_ignore_glob = ["tests/*conftest.py"]  # no modules with examples


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not collection_path.is_relative_to(config.rootpath):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    left_out = any(fnmatch(name, one) for patterns in MISSING.values() for one in patterns)
    return True if left_out else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run files, and tests in them, in any order")


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed = config.getoption("--shuffle")
    return ([f"order of the tests: --shuffle {seed}"] if seed else []) + [
        f"without {package}: {', '.join(patterns)} left out"
        for package, patterns in MISSING.items()
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--shuffle"):  # files stay together, for the sake of their fixtures
        items.sort(key=lambda item: Random(f"{seed} {item.nodeid}").random())
        items.sort(key=lambda item: Random(f"{seed} {item.path}").random())
