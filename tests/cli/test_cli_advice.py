"""Advice before and after a fit: one sentence for one cause, and silence on clean tables."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from sfumato.cli import main
from sfumato.cli.evidence import advice, explained_by_one
from sfumato.cli.main import Terminal
from sfumato.io import Roles, read
from sfumato.report._description import rules

CAUSES = [
    "0 looks like",
    "'sex' holds few",
    "'barcode' is different",
    "'diagnosis' may",
    "repeat",
]


@pytest.fixture
def messy(tmp_path):
    rng = np.random.default_rng(0)
    n = 80
    frame = pd.DataFrame(
        {
            "glucose": np.where(rng.random(n) < 0.1, 0, rng.normal(120, 15, n).round(1)),
            "sex": rng.integers(1, 3, n),
            "barcode": rng.permutation(90_000)[:n] + 10_000,
            "diagnosis": rng.choice(["a", "b"], n),
            "visits": rng.poisson(2.0, n),
            "change": rng.normal(size=n),
        }
    )
    frame = pd.concat([frame, frame.iloc[:2]])
    frame["barcode"] = rng.permutation(90_000)[: n + 2] + 10_000
    return frame, tmp_path / "t.csv"


def _read(frame, path):
    frame.to_csv(path, index=False)
    return read(path, Roles(mixed=True))


@pytest.mark.parametrize("cause", CAUSES[:4])
def test_each_cause_is_said_once(messy, cause):
    said = advice(_read(*messy))
    assert sum(cause in text for text in said) == 1


def test_codes_of_classes_are_one_cause(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": np.arange(60) % 3})
    (said,) = advice(_read(frame, tmp_path / "t.csv"))
    assert said.startswith("'y' may hold known classes: --class-column y ")


def test_one_column_of_several_with_such_names_is_proposed(tmp_path):
    rng = np.random.default_rng(9)
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60)})
    frame = frame.assign(species=list("abc") * 20, group=list("uv") * 30)
    (said,) = advice(_read(frame, tmp_path / "t.csv"))
    assert said.startswith("'species' may hold known classes: --class-column species ")


def test_repeated_rows_are_counted(messy):
    frame, path = messy
    said = advice(_read(frame.drop(columns="barcode"), path))
    assert sum("2 rows repeat others" in text for text in said) == 1


def test_answers_repeat_by_chance(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(0, 2, (200, 6)), columns=list("abcdef"))
    assert advice(_read(frame.assign(age=rng.integers(20, 60, 200)), tmp_path / "t.csv")) == []


def test_a_clean_table_needs_none(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=50), "count": rng.poisson(3.0, 50)})
    assert advice(_read(frame, tmp_path / "t.csv")) == []


def test_one_column_may_explain_the_clusters(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(90, 4)), columns=list("abcd")).assign(
        ward=list("xyz") * 30
    )
    table = _read(frame, tmp_path / "t.csv")
    labels = np.tile([0, 1, 2], 30)
    tree = rules(table.used, labels)
    said = explained_by_one(tree, table.used, labels)
    assert "'ward' alone determines the cluster of 100%" in said
    assert explained_by_one(tree, table.used[:2], labels) == ""
    other = rng.permutation(labels)
    assert explained_by_one(rules(table.used, other), table.used, other) == ""
    twice = _read(frame.assign(floor=labels + 0.1 * rng.random(90)), tmp_path / "t.csv").used
    assert explained_by_one(rules(twice, labels), twice, labels) == ""  # either says the same


def test_the_verdict_says_that_one_column_explains_the_clusters(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    ward = np.arange(90) % 3
    frame = pd.DataFrame({"a": 20.0 * ward + rng.normal(size=90)})
    frame = frame.assign(b=rng.normal(size=90), c=rng.normal(size=90))
    frame.to_csv("t.csv", index=False)
    assert main(["fit", "t.csv", "--model", "fcm", "--clusters", "3", "--scale", "none"]) == 0
    found = json.loads((tmp_path / "sfumato-result" / "summary.json").read_text())["verdict"]
    assert found["kind"] == "note"
    assert "Column 'a' alone determines the cluster of 100% of the objects" in found["text"]
    assert capsys.readouterr().err.count("alone determines") == 0


def test_several_columns_of_one_cause_are_one_sentence(tmp_path):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(size=60)})
    frame = frame.assign(a=rng.integers(1, 3, 60), b=rng.integers(1, 4, 60))
    frame = frame.assign(region=list("nesw") * 15, colour=["red", "blue"] * 30)
    (codes,) = advice(_read(frame, tmp_path / "t.csv"))  # two categories are just columns
    assert codes.startswith("'a', 'b' hold few whole numbers")
    _, classes = advice(_read(frame.drop(columns="colour"), tmp_path / "t.csv"))
    assert classes.startswith("'region' may hold known classes: --class-column region ")


@pytest.mark.parametrize("code", [0, -1, -2, -9, -99, 999])
def test_codes_of_missing_values_are_seen(tmp_path, code):
    rng = np.random.default_rng(5)
    length, gone = rng.normal(120, 15, 80).round(1), rng.random(80) < 0.1
    frame = pd.DataFrame({"length": np.where(gone, code, length), "change": rng.normal(size=80)})
    frame = frame.assign(other=frame.length, rarely=np.where(rng.random(80) < 0.2, length, np.nan))
    missing, empty = advice(_read(frame, tmp_path / "t.csv"))
    assert missing.startswith(f"{code} looks like a missing value in 'length', 'other':")
    assert empty.startswith("'rarely' is empty in most rows:")


def test_codes_far_below_signed_numbers_are_seen(tmp_path):
    rng = np.random.default_rng(9)
    level = np.where(rng.random(80) < 0.1, -999, rng.normal(0, 5, 80).round(1))
    frame = pd.DataFrame({"level": level, "x": rng.normal(size=80)})
    (said,) = advice(_read(frame, tmp_path / "t.csv"))
    assert said.startswith("-999 looks like a missing value in 'level':")


def test_a_questionnaire_holds_answers_and_not_codes(tmp_path):
    rng = np.random.default_rng(10)
    frame = pd.DataFrame(rng.integers(1, 6, (200, 12))).add_prefix("item ")
    assert advice(_read(frame.assign(height=rng.normal(size=200)), tmp_path / "t.csv")) == []


def test_ends_of_scales_and_signed_numbers_are_no_codes(tmp_path):
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(
        {
            "age": np.r_[rng.integers(18, 90, 79), 99],
            "answer": rng.integers(1, 10, 80),
            "change": np.r_[rng.integers(-30, 30, 79), -9],
            "goals": rng.poisson(2.0, 80) - 1,
            "ink": np.where(rng.random(80) < 0.5, 0, rng.integers(1, 17, 80)),
        }
    )
    assert advice(_read(frame, tmp_path / "t.csv")) == []


def test_a_column_without_a_name_may_hold_the_ids(tmp_path, capsys):
    frame = pd.DataFrame({"x": np.random.default_rng(8).normal(size=30)})
    frame.to_csv(tmp_path / "t.csv", index_label="")
    assert main(["inspect", str(tmp_path / "t.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == "yes, without a title"


def test_warnings_name_the_options_of_the_command_line(capsys):
    with Terminal().heard() as said:
        warnings.warn("try n_clusters='auto' or more max_iter=50; n_clusters is 3", stacklevel=1)
        warnings.warn("no number of clusters stands out: one is the answer", stacklevel=1)
    assert said == ["try --clusters auto or more --set max_iter=50; --clusters is 3"]
    assert capsys.readouterr().err == f"sfumato: warning: {said[0]}\n"


def test_a_matrix_of_distances_is_named_and_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2)) + 9 * (np.arange(60) % 2)[:, None]
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.savetxt("d.csv", D, delimiter=",")
    assert main(["inspect", "d.csv", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    command = facts["looks like"].removeprefix("a distance matrix: sfumato ").split()
    assert not any(key.startswith("advice") for key in facts)
    assert main([command[0], "d.csv", *command[1:]]) == 0
    summary = json.loads((tmp_path / "sfumato-result" / "summary.json").read_text())
    assert sorted(summary["sizes"]) == pytest.approx([30, 30], abs=1)
    assert "looks like distances" not in capsys.readouterr().err
    assert main(["fit", "d.csv", "--similarity", "precomputed", "-m", "pairwise", "-o", "r"]) == 0
    assert capsys.readouterr().err.count("looks like distances") == 1


def test_rows_with_missing_cells_may_repeat_too(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    frame.iloc[3, 1] = np.nan
    (said,) = advice(_read(pd.concat([frame, frame.iloc[[3]]]), tmp_path / "t.csv"))
    assert said.startswith("1 row repeats another")


def test_codes_of_missing_values_are_read_as_such(run, tmp_path):
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"id": range(80), "a": rng.integers(1, 30, 80), "b": rng.normal(9, 1, 80)})
    frame = frame.astype({"b": object})
    frame.loc[3, "a"], frame.loc[5, "b"] = -9, "unclear"
    frame.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = run("inspect", "t.csv")
    assert code == 2
    assert "'unclear' is not a finite number" in err
    assert "--missing" in err
    code, out, _ = run("inspect", "t.csv", "--missing", "unclear")
    assert "--missing -9" in out
    code, out, _ = run("inspect", "t.csv", "--missing", "unclear,-9", "--json")
    assert json.loads(out)["missing cells"] == 2
    words = ("--missing", "-9", "--missing", "unclear", "--model", "gmm", "-k", 1, "--out", "r")
    assert run("fit", "t.csv", *words)[0] == 0
    code, out, err = run("predict", "r", "t.csv")  # new objects are read in the same way
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 81
