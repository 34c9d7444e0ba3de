"""A model that is added to the table appears everywhere.

The package, the command line, the checks, the pages.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from docs import reference
from sklearn.utils.estimator_checks import check_estimator

import sfumato
import test_scikit_learn
from sfumato import models
from sfumato.array.validation import check_number
from sfumato.cli import main
from sfumato.cli.app import class_of, commands, make, parse_clusters
from sfumato.engine.base import InductiveClusterer

PAGES = Path(__file__).parents[2] / "docs"


class Sums(NamedTuple):
    """What a block of rows adds to the next centers."""

    mass: np.ndarray
    total: np.ndarray
    objective: float


class ToyCMeans(InductiveClusterer):
    """Fuzzy c-means with fuzzifier 2 and nothing else."""

    def __init__(self, n_clusters=2, *, max_iter=3000, tol=1e-13, n_init=1, random_state=None):
        self.n_clusters = n_clusters
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state

    def _check_parameters(self):
        super()._check_parameters()
        check_number(self.n_clusters, "n_clusters", low=1, integer=True)

    def _start(self, rows, rng):
        """Centers along the diagonal of the data, the same for weights as for copies."""
        mass, first, second = rows.sum(self._moments)
        mean = first / mass
        spread = np.sqrt(np.maximum(second / mass - mean**2, 1e-12))
        return mean + np.linspace(-1, 1, self.n_clusters)[:, None] * spread

    def _moments(self, block, weights):
        block = block.toarray() if hasattr(block, "toarray") else block
        weights = np.ones(len(block)) if weights is None else weights
        return weights.sum(), weights @ block, weights @ block**2

    def _distances(self, block, centers):
        block = block.toarray() if hasattr(block, "toarray") else block
        return ((block[:, None] - centers) ** 2).sum(axis=2) + 1e-12

    def _assign(self, block, centers):
        share = 1.0 / self._distances(block, centers)
        return (share / share.sum(axis=1, keepdims=True)).astype(block.dtype)

    def _summarize(self, block, weights, centers):
        distances = self._distances(block, centers)
        share = (distances * (1.0 / distances).sum(axis=1, keepdims=True)) ** -2.0
        if weights is not None:
            share = share * weights[:, None]
        block = block.toarray() if hasattr(block, "toarray") else block
        return Sums(share.sum(axis=0), share.T @ block, float((share * distances).sum()))

    def _update(self, sums, centers):
        return sums.total / sums.mass[:, None]


@pytest.fixture
def toy(monkeypatch):
    """The table with one more line, and the file that the line names."""
    place = types.ModuleType("sfumato.models.toy.estimator")
    for kind in (ToyCMeans, Sums):
        setattr(place, kind.__name__, kind)
        monkeypatch.setattr(kind, "__module__", place.__name__)
    monkeypatch.setitem(sys.modules, "sfumato.models.toy", types.ModuleType("sfumato.models.toy"))
    monkeypatch.setitem(sys.modules, place.__name__, place)
    line = models.Model("ToyCMeans", "toy.estimator", "toy", ("features",), "a toy")
    monkeypatch.setattr(models, "MODELS", (*models.MODELS, line))


def test_the_package_and_its_reference_page_have_it(toy):
    pytest.importorskip("dask.array")  # the page lists everything
    assert sfumato.ToyCMeans is ToyCMeans
    assert "ToyCMeans" in dir(sfumato)
    assert "   ToyCMeans\n" in reference.expand("{all sfumato: Everything}\n")


def test_the_command_line_has_it(toy, tmp_path, monkeypatch):
    pytest.importorskip("typer")
    assert commands()["toy"] == "ToyCMeans"
    assert class_of("toy") is ToyCMeans
    assert parse_clusters("4", "toy") == 4
    assert make("toy", 2, seed=1, settings=["tol=0.5"]).tol == 0.5
    table = tmp_path / "points.csv"
    points = [f"{x + 9 * (i % 2)},{x}" for i, x in enumerate(np.linspace(0, 1, 20))]
    table.write_text("a,b\n" + "\n".join(points) + "\n")
    out = tmp_path / "out"
    arguments = ["fit", str(table), "-m", "toy", "--clusters", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["sfumato", *arguments])
    assert not main()
    assert (out / "report.html").exists()


def test_the_checks_have_it_and_it_passes_them(toy):
    made = [kind for kind in test_scikit_learn.estimators() if type(kind) is ToyCMeans]
    assert len(made) == 1
    check_estimator(made[0], expected_failed_checks=test_scikit_learn.SPARSE, on_skip=None)


def test_every_model_of_the_table_has_a_case_and_a_page():
    from cases import CASES

    built = {type(case.make(0)).__name__ for case in CASES}
    pages = "".join(
        page.read_text() for page in (PAGES / "models").glob("*.md") if page.stem != "index"
    )
    for model in models.MODELS:
        assert model.name in built or model.command is None, f"{model.name}: add a Case"
        assert model.name in pages or model.command is None, f"{model.name}: write its page"
