"""Every script of the gallery runs.

Doubts about weak evidence are part of what some of them show.
"""

import re
from pathlib import Path

import pytest

pyplot = pytest.importorskip("matplotlib.pyplot")
EXAMPLES = sorted((Path(__file__).parents[1] / "examples").rglob("plot_*.py"))


def cells(path):
    """The parts of a script, each of which the gallery shows with the figures it has drawn."""
    return re.split(r"^# %%.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_no_panel_is_blank(path, capsys):
    pyplot.switch_backend("Agg")
    space = {"__name__": "__main__", "__file__": str(path)}
    for number, cell in enumerate(cells(path)):
        exec(compile(cell, f"{path.name}, cell {number}", "exec"), space)
        for figure in map(pyplot.figure, pyplot.get_fignums()):
            blank = [ax for ax in figure.axes if not (ax.has_data() or ax.texts)]
            assert not blank, f"{path.name}: cell {number} leaves {len(blank)} panels empty"
        pyplot.close("all")
