"""How large the package may be. The limits hold what has been reached: they only ever go down."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "figures.py"
LIMITS = {
    "lines of Python": 37_423,
    "files of Python": 142,
    "lines of Cython": 4_988,
    "constants": 131,
}


def measured() -> dict[str, int]:
    spec = importlib.util.spec_from_file_location("figures", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.figures()


@pytest.mark.parametrize("name", LIMITS)
def test_the_package_does_not_grow(name):
    assert measured()[name] <= LIMITS[name]
