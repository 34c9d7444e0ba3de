"""Levels on the command line: a table, a file, and memberships of new objects."""

import csv
import json

import numpy as np
import pytest

from sfumato.cli import main


@pytest.fixture
def nested(tmp_path, monkeypatch):
    """Two groups far apart, each of two parts."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [0, 6], [40, 0], [40, 6]])
    X = np.repeat(centers, 30, axis=0) + rng.normal(size=(120, 2))
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in X))
    return tmp_path


def test_levels_nest_and_are_said(nested, capsys):
    assert main(["fit", "x.csv", "-k", "4", "--levels", "--out", "r"]) == 0
    out = capsys.readouterr().out
    assert "Levels, coarse to fine" in out
    levels = json.loads((nested / "r/summary.json").read_text())["levels"]
    assert [level["n_clusters"] for level in levels][:4] == [1, 2, 3, 4]
    assert any(level["worth_a_look"] for level in levels)
    with open("r/levels.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    coarse, fine = (np.array([int(row[f"clusters_{k}"]) for row in rows]) for k in (2, 4))
    assert len(set(coarse[:60])) == len(set(coarse[60:])) == 1 != len(set(coarse))
    assert all(len(set(coarse[fine == cluster])) == 1 for cluster in range(4))
    assert main(["fit", "x.csv", "-k", "4", "--levels", "--out", "r", "--force"]) == 0


def test_new_objects_at_another_level(nested, capsys):
    assert main(["fit", "x.csv", "-k", "4", "--levels", "--out", "r", "-q"]) == 0
    (nested / "new.csv").write_text("a,b\n0,1\n40,5\n0,6\n")
    assert main(["predict", "r", "new.csv", "--clusters", "2"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    labels = [row["cluster"] for row in rows]
    assert "cluster_1" in rows[0]
    assert "cluster_2" not in rows[0]
    assert labels[0] == labels[2] != labels[1]
    assert main(["predict", "r", "new.csv", "--clusters", "99"]) == 2
    assert "n_clusters" in capsys.readouterr().err
