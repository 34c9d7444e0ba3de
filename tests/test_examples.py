"""Every script of the gallery runs.

Doubts about weak evidence are part of what some of them show.
"""

import runpy
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib")
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, capsys):
    matplotlib.use("Agg")
    runpy.run_path(str(path), run_name="__main__")
    matplotlib.pyplot.close("all")
