"""The command line in this process, in a folder of its own."""

import pytest

from sfumato.cli import main


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """A function that runs a command and returns its exit code, output and messages."""
    monkeypatch.chdir(tmp_path)

    def command(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return command


@pytest.fixture
def drawn():
    """The report is drawn in full; without this fixture only its file is made."""


@pytest.fixture(autouse=True)
def _quick(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        from sfumato import report

        monkeypatch.setattr(report, "write", lambda path, *_, **__: path.write_text("<html>"))
