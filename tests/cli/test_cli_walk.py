"""How many modules of the library run code in ``sfumato fit`` of iris with the defaults.

The limit holds what has been reached: it only ever goes down.
"""

from sklearn.datasets import load_iris

from sfumato.array import rows
from sfumato.cli import main
from test_walk import walked

LIMIT = 60


def test_a_fit_on_the_command_line_passes_few_modules(tmp_path, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rows, "cpu_count", lambda: 1)  # calls in other threads would not be seen
    lines = [",".join(map(str, row)) for row in load_iris().data]
    (tmp_path / "iris.csv").write_text("\n".join(["a,b,c,d", *lines]))
    words = ["fit", "iris.csv", "--out", "r", "--force", "--quiet"]
    found = walked(lambda: main(words))
    assert (tmp_path / "r" / "report.html").exists()
    assert len(found) <= LIMIT, found
