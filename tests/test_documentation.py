"""Every Python block of README and the pages runs as printed, after the blocks above it.

A reader who copies them in order needs nothing that the page does not name.
"""

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.thresholds import THRESHOLDS
from sklearn.datasets import load_iris

import sfumato

pyplot = pytest.importorskip("matplotlib.pyplot")
ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "models").glob("*.md")),
]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
LEFT_OUT = {
    "tcp://scheduler": "needs a cluster of machines; tests/dask runs the same on one",
    "hdbscan_model": "needs BERTopic; tests/test_bertopic.py runs the same",
    "sfumato.anndata.cluster": "needs AnnData; tests/test_anndata.py runs the same",
    "import mlflow": "needs MLflow",
}
FEWER = {  # the same calls, in seconds instead of minutes
    "GaussianMixture(3), X, n_resamples=100": "GaussianMixture(3, n_init=1), X, n_resamples=3",
    "FuzzyCMeans(2000": "FuzzyCMeans(20",
    "np.array_split(X, 100)": "np.array_split(X, 3)",
}
SLOW = ("start", "completely-positive", "evidence-accumulation")  # more than two seconds

PARTS = ["An example", "Parameters", "When not to use it", "The mathematics", "References"]


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line and text of every Python block of a page."""
    text = page.read_text(encoding="utf-8")
    found = [(text[: match.start()].count("\n") + 1, match) for match in BLOCK.finditer(text)]
    return [
        (line, re.sub(f"^{match[1]}", "", match[2], flags=re.MULTILINE)) for line, match in found
    ]


def undefined(texts: list[str]) -> set[str]:
    """Names that blocks use and no block up to there imports, assigns or defines."""
    known, missing = set(dir(builtins)), set()
    for text in texts:
        nodes = list(ast.walk(ast.parse(text)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        known |= {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        known |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                known |= {(name.asname or name.name).split(".")[0] for name in node.names}
        missing |= {node.id for node in names if node.id not in known}
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_uses_a_name_that_its_page_does_not_define(page):
    texts = [text for _, text in blocks(page)]
    left_out = [text for text in texts if any(mark in text for mark in LEFT_OUT)]
    assert not undefined([text for text in texts if text not in left_out])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in SLOW))
        for page in PAGES
        if blocks(page)
    ],
)
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    np.save("features.npy", load_iris().data)  # the file of the page on scale
    for line, text in blocks(page):
        if not any(mark in text for mark in LEFT_OUT):
            for many, few in FEWER.items():
                text = text.replace(many, few)
            exec(compile("\n" * line + text, str(page), "exec"), names)
    pyplot.close("all")


def test_what_is_left_out_or_shortened_is_still_there():
    everything = "".join(text for page in PAGES for _, text in blocks(page))
    assert all(mark in everything for mark in (*LEFT_OUT, *FEWER))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name == "models" and page.stem != "index"],
    ids=lambda page: page.stem,
)
def test_a_model_page_has_its_parts_in_order(page):
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings == PARTS
    example = text.split("## An example")[1].split("\n## ")[0]
    assert "```python" in example
    picture = re.search(r"^!\[[^\]]{20,}\]\((.*?)\)$", example, flags=re.MULTILINE)
    assert picture is not None, "the picture of the example needs a text that says what it shows"
    assert (page.parent / picture[1]).is_file()


ROOMS = "array|numerics|data|engine|components|models|similarity|metrics|selection|conjugate|io|cli"


def found(name: str) -> Any:
    """What a dotted name below the package stands for."""
    value: Any = sfumato
    for part in name.split("."):
        if not hasattr(value, part):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "RESULTS.md")
        if page.stem != "renamed"
    ],
    ids=lambda page: page.stem,
)
def test_names_of_the_package_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(rf"`(?:sfumato\.)?((?:{ROOMS})(?:\.[a-zA-Z_]\w*)+)[`(]", text):
        found(name)


def thresholds() -> Iterator[tuple[list[str], str]]:
    """Names on the page of thresholds with their values as they are printed."""
    text = (ROOT / "docs" / "thresholds.md").read_text(encoding="utf-8")
    tables, _, others = text.partition("## Without a recorded reason")
    rows = [line.split(" | ")[:2] for line in tables.splitlines() if line.startswith("| `")]
    for cell, value in [*rows, *(each.split(": ") for each in others.strip(". \n").split(";"))]:
        names: list[str] = []
        for name in re.findall(r"`(.*?)`", cell):
            # ".field" is another field of the record before it, "NAME" another of the file
            stem = names[-1].rpartition(".")[0] if names else ""
            names.append(f"{stem}.{name.removeprefix('.')}" if "." not in name[1:] else name)
        yield names, value


@pytest.mark.parametrize(
    ("names", "value"), [pytest.param(*row, id=row[0][0]) for row in thresholds()]
)
def test_thresholds_are_those_of_the_code(names, value):
    held = [found(name) for name in names]
    if all(isinstance(each, int | float) for each in held):
        printed = re.findall(r"-?\d+(?:\.\d+)?", value)
        assert [float(each) for each in printed] == held


def test_measured_thresholds_exist():
    for threshold in THRESHOLDS:
        value = found(f"{threshold.module.removeprefix('sfumato.')}.{threshold.name}")
        assert isinstance(value, int | float)
