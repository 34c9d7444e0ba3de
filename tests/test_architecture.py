"""The architecture as a test.

Imports point down, public names are honest, everything public is documented with an example.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import io
import itertools
import pkgutil
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs import reference

import sfumato

ROOT = Path(sfumato.__file__).parent
LAYERS = {
    "native": 0,
    "array": 1,
    "numerics": 2,
    "data": 3,
    "memberships": 4,
    "metrics": 5,
    "similarity": 5,
    "conjugate": 5,
    "datasets": 5,
    "engine": 6,
    "components": 7,
    "growth": 7,
    "selection": 7,
    "models": 8,
    "plot": 9,
    "io": 9,
    "report": 10,
    "dask": 10,
    "anndata": 10,
    "papers": 10,
    "cli": 11,
    "__init__": 12,
    "__main__": 12,
}
# The one declared exception to the arrows: foreign array libraries and the module of ours that
# reads them.
DECLARED = {("array.arrays", "dask")}
FILES = sorted(ROOT.rglob("*.py"))
PUBLIC = [name for name in sfumato.__all__ if not name.startswith("_")]


def module(path: Path) -> str:
    """Dotted name of a file below ``sfumato``, without ``__init__``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def layer(name: str) -> int | None:
    """Layer of a dotted module: that of its longest prefix with one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LAYERS:
            return LAYERS[".".join(parts[:length])]
    return None


def imported(path: Path) -> set[str]:
    """Modules of sfumato (dotted, without the package) that a file imports, names in strings
    included.
    """
    package = ["sfumato", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            full = [*base, *(node.module.split(".") if node.module else [])]
            if full[:1] == ["sfumato"]:
                for alias in node.names:
                    child = [*full, alias.name]
                    is_module = (
                        ROOT.joinpath(*child[1:]).with_suffix(".py").exists()
                        or ROOT.joinpath(*child[1:]).is_dir()
                    )
                    found.add(".".join((child if is_module else full)[1:]))
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("sfumato.")
                for alias in node.names
                if alias.name.startswith("sfumato.")
            }
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"sfumato(\.\w+)+", node.value)
        ):
            found.add(node.value.removeprefix("sfumato."))
    return found - {"", "__version__"}


def imported_parts(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    here = module(path)
    assert layer(here) is not None, f"{here} has no layer: give it one"
    for other in imported(path) - {here}:
        if (here, other) not in DECLARED and layer(other) is not None:
            assert layer(other) <= layer(here), (
                f"{here} (layer {layer(here)}) imports {other} (layer {layer(other)})"
            )


def test_there_are_no_import_cycles():
    names = {module(path) for path in FILES}
    graph = {
        module(path): {
            other
            for other in imported(path)
            if other in names and (module(path), other) not in DECLARED
        }
        for path in FILES
    }
    order = graphlib.TopologicalSorter({name: others - {name} for name, others in graph.items()})
    order.prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_model_imports_no_other_model_but_through_its_estimator(path):
    parts = module(path).split(".")
    if parts[0] == "models" and len(parts) > 2:
        others = {
            name
            for name in imported(path)
            if name.startswith("models.") and name.split(".")[1] != parts[1]
        }
        folders = {name for name in others if name.count(".") > 1}  # others are one file
        assert all(name.split(".")[-1] in ("estimator", "ensemble") for name in folders), folders


def mathematics() -> list[Path]:
    kernels = [
        path
        for path in (ROOT / "models").rglob("*.py")
        if path.stem in ("kernel", "compiled", "cuda")
    ]
    return sorted([*(ROOT / "numerics").glob("*.py"), *kernels])


@pytest.mark.parametrize("path", mathematics(), ids=lambda path: str(path.relative_to(ROOT)))
def test_mathematics_does_not_know_scikit_learn(path):
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
    if name == "dask":
        pytest.importorskip("dask.array")
    assert getattr(sfumato, name) is not None


def modules():
    names = [
        f"sfumato.{info.name}"
        for info in pkgutil.iter_modules([str(ROOT)])
        if info.name != "__main__"
    ]
    return [
        name
        for name in names
        if name.split(".")[1]
        in (
            "conjugate",
            "datasets",
            "growth",
            "memberships",
            "metrics",
            "plot",
            "report",
            "selection",
            "similarity",
        )
    ]


@pytest.mark.parametrize("name", modules())
def test_all_is_honest_and_documented(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for public in module.__all__:
        thing = getattr(module, public)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            assert inspect.getdoc(thing), f"{name}.{public} has no docstring"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in PUBLIC
        if name[0].isupper() and not name.endswith(("Warning", "Error", "Start"))
    ],
)
def test_estimators_have_an_example_a_reference_and_documented_parameters(name):
    estimator = getattr(sfumato, name)
    text = inspect.getdoc(estimator)
    for section in ("Parameters", "Attributes", "Examples", "References"):
        assert section in text, f"{name} has no section {section}"
    for parameter in inspect.signature(estimator).parameters:
        assert parameter in text, f"{name} does not document {parameter}"


def test_importing_the_library_imports_nothing_heavy():
    code = (
        "import sys, sfumato; print([m for m in ('sklearn', 'scipy', 'numpy', 'matplotlib', "
        "'torch') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found == "[]"


def test_every_public_name_is_in_the_reference():
    pytest.importorskip("dask.array")  # the page lists everything
    page = ROOT.parents[1] / "docs" / "api.md"
    listed = set(reference.expand(page.read_text()).split())
    for name in modules():
        module = importlib.import_module(name)
        missing = {
            public for public in module.__all__ if callable(getattr(module, public))
        } - listed
        assert not missing, f"{name}: {sorted(missing)} not in docs/api.md"
    assert {name for name in PUBLIC if name[0].isupper()} <= listed


@pytest.mark.parametrize(
    "path", [path for path in FILES if part(path) == "models"], ids=lambda path: module(path)
)
def test_a_file_of_a_model_imports_at_most_ten_modules(path):
    """The folders that every model builds on count as one, whatever their files."""
    shared = ("array", "data", "engine")
    others = {"shared" if name.startswith(shared) else name for name in imported(path)}
    assert len(others) <= 10, sorted(others)


RUN = 6  # lines that make a copy


def declared(tree: ast.Module) -> Iterator[int]:
    """Lines that must be written again and are no logic: texts, imports, lists of names,
    signatures and parameters that are stored.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from range(node.lineno, node.body[0].lineno)
        dull = isinstance(node, (ast.Import, ast.ImportFrom))
        dull |= isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        dull |= isinstance(node, ast.Assign) and (
            ast.unparse(node.targets[0]) == "__all__"
            or ast.unparse(node.targets[0]) == f"self.{ast.unparse(node.value)}"
        )
        if dull:
            yield from range(node.lineno, node.end_lineno + 1)


def lines_of_logic(path: Path) -> list[str]:
    """Lines of a file without declarations and comments, white space folded."""
    text = path.read_text()
    left_out = set(declared(ast.parse(text)))
    found = defaultdict(list)
    dull = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in dull and token.start[0] not in left_out:
            found[token.start[0]].append(token.string)
    lines = [" ".join(found[number]) for number in sorted(found)]
    return [line for line in lines if any(letter.isalnum() for letter in line)]


def test_few_files_share_six_lines_of_logic():
    places = defaultdict(list)
    for path in FILES:
        lines = lines_of_logic(path)
        for first in range(len(lines) - RUN + 1):
            places[tuple(lines[first : first + RUN])].append((module(path), first))
    pairs = {
        (one, other)
        for group in places.values()
        for (one, first), (other, second) in itertools.combinations(group, 2)
        if one != other or second - first >= RUN
    }
    assert len(pairs) <= 2, sorted(pairs)


def test_few_arguments_are_of_any_type():
    annotations = [
        ast.unparse(argument.annotation)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arguments)
        for argument in ast.walk(node)
        if isinstance(argument, ast.arg) and argument.annotation is not None
    ]
    assert annotations.count("Any") < 0.15 * len(annotations)
