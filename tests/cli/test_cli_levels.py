"""Levels on the command line: a table, a file, and memberships of new objects."""

import csv
import json

import numpy as np
import pytest

from sfumato import EvidenceAccumulation
from sfumato.cli import main
from sfumato.metrics import adjusted_rand_index


@pytest.fixture
def nested(tmp_path, monkeypatch):
    """Two groups far apart, each of two parts."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [0, 4], [40, 0], [40, 4]])
    X = np.repeat(centers, 30, axis=0) + rng.normal(size=(120, 2))
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in X))
    return tmp_path


def test_levels_nest_and_are_said(nested, capsys):
    assert main(["fit", "x.csv", "-m", "gmm", "-k", "4", "--levels", "--out", "r"]) == 0
    out = capsys.readouterr().out
    assert "at 1 to 4 clusters" in out
    levels = json.loads((nested / "r/summary.json").read_text())["levels"]
    assert [level["n_clusters"] for level in levels][:4] == [1, 2, 3, 4]
    assert any(level["worth_a_look"] for level in levels)
    with open("r/levels.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    coarse, fine = (np.array([int(row[f"clusters_{k}"]) for row in rows]) for k in (2, 4))
    assert len(set(coarse[:60])) == len(set(coarse[60:])) == 1 != len(set(coarse))
    assert all(len(set(coarse[fine == cluster])) == 1 for cluster in range(4))
    assert main(["fit", "x.csv", "-m", "gmm", "-k", "4", "--levels", "--out", "r", "--force"]) == 0


def test_new_objects_at_another_level(nested, capsys):
    assert main(["fit", "x.csv", "-m", "gmm", "-k", "4", "--levels", "--out", "r", "-q"]) == 0
    (nested / "new.csv").write_text("a,b\n0,0\n40,4\n0,4\n")
    assert main(["predict", "r", "new.csv", "--clusters", "2"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    labels = [row["cluster"] for row in rows]
    assert "cluster_1" in rows[0]
    assert "cluster_2" not in rows[0]
    assert labels[0] == labels[2] != labels[1]
    assert main(["predict", "r", "new.csv", "--clusters", "99"]) == 2
    assert "n_clusters" in capsys.readouterr().err


def test_the_slider_of_a_report_shows_the_levels_of_the_model(tmp_path, monkeypatch, drawn):
    """Hard clusters of labelings do not overlap: only the labelings say which belong together."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    fine = np.repeat(np.arange(9), 20)
    L = np.stack([np.where(rng.random(180) < 0.7, fine, fine // 3 + 10) for _ in range(9)], axis=1)
    names = ",".join("abcdefghi")
    np.savetxt("l.csv", L, fmt="%d", delimiter=",", header=names, comments="")
    assert main(["consensus", "l.csv", "-k", "9", "--out", "r", "-q"]) == 0
    page = (tmp_path / "r/report.html").read_text()
    held = json.loads(page.split('id="data">')[1].split("</script>")[0])
    finest = np.array(held["memberships"]) / 1000
    model = EvidenceAccumulation(9, ensemble="precomputed", random_state=0).fit(L)
    for level in held["levels"]:
        k = len(level["clusters"])
        found = (finest @ np.eye(k)[level["parents"]]).argmax(axis=1)
        assert adjusted_rand_index(model.at(k).argmax(axis=1), found) > 0.99
    shown = next(level for level in held["levels"] if len(level["clusters"]) == 3)
    found = (finest @ np.eye(3)[shown["parents"]]).argmax(axis=1)
    assert adjusted_rand_index(fine // 3, found) > 0.99


def test_levels_that_are_asked_for_are_in_the_report(nested, drawn):
    assert main(["fit", "x.csv", "-k", "2", "--levels", "--out", "r", "-q"]) == 0
    page = (nested / "r/report.html").read_text()
    held = json.loads(page.split('id="data">')[1].split("</script>")[0])
    numbers = [len(level["clusters"]) for level in held["levels"]]
    levels = json.loads((nested / "r/summary.json").read_text())["levels"]
    assert numbers == [level["n_clusters"] for level in levels[1:]]
    assert max(numbers) >= 4  # the two parts of each group
    assert {"cluster 0a", "cluster 1a"} <= set(held["levels"][-1]["clusters"])
    assert main(["report", "r", "--out", "again.html"]) == 0
    assert (nested / "again.html").read_text() == page
