"""sfumato reproduce: what it prints and writes, and what it refuses."""

import pytest
import sklearn.datasets

from sfumato import papers
from sfumato.cli import main
from sfumato.papers import Outcome, ResultTable


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*words):
        code = main(["reproduce", *words])
        return code, *capsys.readouterr()

    return command


@pytest.fixture
def small(monkeypatch):
    """An experiment that wants the house votes, and an OpenML out of reach."""

    def fetch_openml(**options):
        raise TimeoutError("timed out")

    def run_one(name, shelf, *, n_seeds):
        shelf.find("house votes")
        return Outcome(
            ResultTable(name, ("data", "measured"), [("iris", ".9")], tuple(shelf.notes.values()))
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    monkeypatch.setattr(papers, "run", run_one)


def test_the_table_goes_on_without_what_is_missing(run, small, tmp_path):
    code, out, err = run("rounding-table", "--out", "papers")
    assert code == 0
    assert "| iris | .9 |" in out
    assert (
        "- house votes: left out, OpenML could not be reached (timed out); pass --data DIR with "
        "house-votes-84.csv" in out
    )
    assert err.count("\n") == 2
    assert sorted(path.name for path in (tmp_path / "papers").iterdir()) == [
        "rounding-table.csv",
        "rounding-table.md",
    ]


def test_offline_asks_nobody(run, small):
    _, out, err = run("rounding-table", "--offline")
    assert "OpenML was not asked" in out
    assert "asking" not in err


def test_all_writes_every_table_once(run, small, tmp_path):
    assert run("all", "--out", "papers")[0] == 0
    assert {path.stem for path in (tmp_path / "papers").iterdir()} == set(papers.EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "must be one of similarity-table"),
        (["rounding-table", "--data", "nowhere"], "--data: nowhere is not a folder"),
        (["rounding-table", "--seeds", "0"], "--seeds"),
        (["rounding-table", "--out", "file.md"], "not a folder of tables"),
        (["rounding-table", "--out", "other", "--force"], "not a folder of tables"),
        (["rounding-table", "--out", "old"], "add --force"),
        ([], "EXPERIMENT"),
    ],
)
def test_wrong_arguments_take_one_line(run, small, tmp_path, words, said):
    (tmp_path / "file.md").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    (tmp_path / "old").mkdir()
    code, out, err = run(*words)
    assert code == 2
    assert not out
    assert said in err
    assert err.count("\n") == 1
    assert (tmp_path / "other" / "thesis.tex").exists()
