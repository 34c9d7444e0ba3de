"""Every script of the gallery runs, without a warning."""

import runpy
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib")
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, capsys):
    matplotlib.use("Agg")
    runpy.run_path(str(path), run_name="__main__")
    matplotlib.pyplot.close("all")
