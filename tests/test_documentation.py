"""Every Python block of README and the pages runs as printed.

Only arrays that a reader brings along are given.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from sfumato import datasets, memberships, similarity

pyplot = pytest.importorskip("matplotlib.pyplot")
ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "models").glob("*.md")),
]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
LEFT_OUT = {
    "tcp://scheduler": "needs a cluster of machines; tests/test_dask.py runs the same on one",
    "hdbscan_model": "needs BERTopic; tests/test_bertopic.py runs the same",
    "sfumato.anndata.cluster": "needs AnnData; tests/test_anndata.py runs the same",
    "import mlflow": "needs MLflow",
}
FEWER = {  # the same calls, in seconds instead of minutes
    "GaussianMixture(3), X, n_resamples=100": "GaussianMixture(3, n_init=1), X, n_resamples=3",
    "FuzzyCMeans(2000": "FuzzyCMeans(20",
    "np.array_split(X, 100)": "np.array_split(X, 3)",
}


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line and text of every Python block of a page."""
    text = page.read_text(encoding="utf-8")
    found = [(text[: match.start()].count("\n") + 1, match) for match in BLOCK.finditer(text)]
    return [
        (line, re.sub(f"^{match[1]}", "", match[2], flags=re.MULTILINE)) for line, match in found
    ]


def brought_along() -> dict:
    """Evidence under the names that the pages use."""
    iris, rng = datasets.load_iris(), np.random.default_rng(0)
    X, labels, new = iris.X, iris.labels, slice(None, None, 5)
    W = similarity.gaussian(X, bandwidth=0.5)
    U = memberships.one_hot(labels) * 0.9 + 0.1 / 3
    X1, X2 = (
        rng.normal(size=(60, 3)) + 4 * np.eye(3)[labels[::5][rng.permutation(30)].repeat(2)]
        for _ in range(2)
    )
    L = datasets.make_labelings(150, 3, memberships=U, n_partitions=20, random_state=0).evidence
    return {
        "X": X,
        "X_new": X[new],
        "W": W,
        "W_new": W[new],
        "L": L,
        "L_new": L[new],
        "V": (rng.random((150, 8)) < 0.2 + 0.6 * (labels[:, None] == np.arange(8) % 3)).astype(
            float
        ),
        "c": labels,
        "c_new": labels[new],
        "labels": labels,
        "memberships": U,
        "U": U,
        "U1": U,
        "U2": np.roll(U, 1, axis=1),
        "U3": U[:, ::-1],
        "known": np.arange(150) % 2 == 0,
        "w": np.ones(150),
        "counts": rng.poisson(1 + 9 * (labels[:, None] == np.arange(12) % 3)),
        "new_counts": rng.poisson(2, size=(5, 12)),
        "chunks": [
            (X[part::3], np.array(["healthy", "ill", "unclear"])[labels[part::3]])
            for part in range(3)
        ],
        "X1": X1,
        "X2": X2,
        "X3": X1 + X2,
        "y1": (X1 > 2).argmax(axis=1),
        "y2": (X2 > 2).argmax(axis=1),
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem
)
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    names = brought_along()
    np.save("features.npy", names["X"])
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
def test_a_model_page_begins_with_an_example_its_picture_and_when_to_use_it(page):
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings[:2] == ["An example", "When to use it, when not"]
    example = text.split("## An example")[1].split("\n## ")[0]
    assert "```python" in example
    picture = re.search(r"^!\[[^\]]{20,}\]\((.*?)\)$", example, flags=re.MULTILINE)
    assert picture is not None, "the picture of the example needs a text that says what it shows"
    assert (page.parent / picture[1]).is_file()
