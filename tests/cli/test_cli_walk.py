"""How many modules of the library run code in ``sfumato fit`` of iris with the defaults.

The limit holds what has been reached: it only ever goes down.
"""

import sys
from pathlib import Path

from sklearn.datasets import load_iris

import sfumato
from sfumato.array import rows
from sfumato.cli import main

ROOT = Path(sfumato.__file__).parent
LIMIT = 78


def test_a_fit_on_the_command_line_passes_few_modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rows, "cpu_count", lambda: 1)  # calls in other threads would not be seen
    lines = [",".join(map(str, row)) for row in load_iris().data]
    (tmp_path / "iris.csv").write_text("\n".join(["a,b,c,d", *lines]))
    words = ["fit", "iris.csv", "--out", "r", "--force", "--quiet"]
    assert main(words) == 0  # what is loaded once is no part of the walk
    seen = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        assert main(words) == 0
    finally:
        sys.setprofile(None)
    found = sorted(name for name in seen if Path(name).is_relative_to(ROOT))
    assert len(found) <= LIMIT, found
