"""The architecture as a test: imports point down, public names are honest, everything public is documented with an example."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

ROOT = Path(sfumato.__file__).parent
LAYERS = {
    "_arrays": 0,
    "_memory": 0,
    "_rows": 0,
    "memberships": 1,
    "kernels": 1,
    "metrics": 2,
    "_loop": 2,
    "_validation": 2,
    "_base": 2,
    "_similarity_base": 2,
    "similarity": 2,
    "conjugate": 2,
    "datasets": 2,
    "_names": 2,
    "plot": 3,
    "selection": 3,
    "models": 3,
    "io": 3,
    "report": 4,
    "dask": 4,
    "experiments": 4,
    "cli": 5,
    "__init__": 6,
    "__main__": 6,
}
FILES = sorted(ROOT.rglob("*.py"))
PUBLIC = [name for name in sfumato.__all__ if not name.startswith("_")]


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of sfumato that a file imports, wherever in the file."""
    package = ["sfumato", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            full = [*base, *(node.module.split(".") if node.module else [])]
            if full[:1] == ["sfumato"]:
                found |= {full[1]} if len(full) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sfumato.")}
    return found - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    here = part(path)
    assert here in LAYERS, f"{here} has no layer: give it one"
    for other in imported_parts(path) - {here}:
        if other in LAYERS:
            assert LAYERS[other] <= LAYERS[here], f"{path.name} (layer {LAYERS[here]}) imports {other} (layer {LAYERS[other]})"


@pytest.mark.parametrize("path", sorted((ROOT / "kernels").glob("*.py")), ids=lambda path: path.name)
def test_kernels_do_not_know_scikit_learn(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not any(name.split(".")[0] == "sklearn" for name in names)


@pytest.mark.parametrize("name", ["metrics", "plot", "report"])
def test_measuring_and_drawing_never_import_models(name):
    for path in FILES:
        if part(path) == name:
            assert "models" not in imported_parts(path)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_exist(name):
    assert getattr(sfumato, name) is not None


def modules():
    names = [f"sfumato.{info.name}" for info in pkgutil.iter_modules([str(ROOT)]) if info.name != "__main__"]
    return [
        name
        for name in names
        if name.split(".")[1] in ("conjugate", "datasets", "memberships", "metrics", "plot", "report", "selection", "similarity")
    ]


@pytest.mark.parametrize("name", modules())
def test_all_is_honest_and_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for public in module.__all__:
        thing = getattr(module, public)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            assert inspect.getdoc(thing), f"{name}.{public} has no docstring"


@pytest.mark.parametrize("name", [name for name in PUBLIC if name[0].isupper() and not name.endswith(("Warning", "Error"))])
def test_estimators_have_an_example_a_reference_and_documented_parameters(name):
    estimator = getattr(sfumato, name)
    text = inspect.getdoc(estimator)
    for section in ("Parameters", "Attributes", "Examples", "References"):
        assert section in text, f"{name} has no section {section}"
    for parameter in inspect.signature(estimator).parameters:
        assert parameter in text, f"{name} does not document {parameter}"


def test_importing_the_library_imports_nothing_heavy():
    code = "import sys, sfumato; print([m for m in ('sklearn', 'scipy', 'numpy', 'matplotlib', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "[]"


def test_every_public_name_is_in_the_reference():
    pages = ROOT.parents[1] / "docs" / "api.md"
    listed = set(pages.read_text().split())
    for name in modules():
        module = importlib.import_module(name)
        missing = {public for public in module.__all__ if callable(getattr(module, public))} - listed
        assert not missing, f"{name}: {sorted(missing)} not in docs/api.md"
    assert {name for name in PUBLIC if name[0].isupper()} <= listed
