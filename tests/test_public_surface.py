"""What is public, name by name with its signature: a change must be meant.

After a change that is meant, run ``python tests/test_public_surface.py`` and commit the new record.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

import sfumato

RECORD = Path(__file__).parent / "public_surface.json"
MODULES = (
    "anndata",
    "conjugate",
    "dask",
    "datasets",
    "growth",
    "memberships",
    "metrics",
    "papers",
    "plot",
    "report",
    "selection",
    "similarity",
)


def describe(thing: object) -> object:
    """The signature of a function; of a class its parameters and the signatures of its methods."""
    if inspect.isclass(thing):
        methods = {
            name: str(inspect.signature(member)).replace("'", "")
            for name, member in inspect.getmembers(thing, callable)
            if not name.startswith("_")
            and (getattr(member, "__module__", "") or "").startswith("sfumato")
        }
        return {"parameters": _names(thing), "methods": sorted(methods)}
    return _names(thing) if callable(thing) else type(thing).__name__


def _names(thing: object) -> list[str]:
    """Parameters in order; ``*`` before those that can only be given by name, defaults included."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    names = []
    for parameter in parameters:
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        keyword = "*" if parameter.kind is parameter.KEYWORD_ONLY else ""
        names.append(f"{keyword}{parameter.name}{default if ' at 0x' not in default else '=...'}")
    return names


def surface() -> dict[str, object]:
    found = {name: describe(getattr(sfumato, name)) for name in sfumato.__all__ if name[0] != "_"}
    for name in MODULES:
        module = importlib.import_module(f"sfumato.{name}")
        found[name] = {public: describe(getattr(module, public)) for public in module.__all__}
    return json.loads(json.dumps({k: v for k, v in found.items() if v != "module"}))


def test_every_room_of_the_api_page_is_recorded():
    page = Path(__file__).parent.parent / "docs" / "api.md"
    rooms = set(re.findall(r"currentmodule:: sfumato\.(\w+)", page.read_text(encoding="utf-8")))
    assert rooms == set(MODULES)


def test_the_public_surface_is_the_recorded_one():
    pytest.importorskip("dask.array")  # the record holds everything
    recorded, found = json.loads(RECORD.read_text(encoding="utf-8")), surface()
    changed = sorted(
        name for name in recorded.keys() | found.keys() if recorded.get(name) != found.get(name)
    )
    assert not changed, f"changed: {changed}; if meant, run python tests/test_public_surface.py"


if __name__ == "__main__":
    RECORD.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
