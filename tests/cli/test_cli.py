"""The command line from end to end, in this process."""

import csv
import io
import json
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from sfumato.metrics import adjusted_rand_index

HOSTILE = [
    "</script><script>alert(1)</script>",
    "[/]",
    "=cmd()",
    "$\\frac{$",
    "../../x",
    "n" * 300,
    "🙂",
    "\u202etxt.exe",
    "@SUM(A1)",
    "-x",
    "+y",
    "[bold]z",
    "a\nb",
    'say "hi", twice',
    "{{ 7 }}",
    "%s%n",
]


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 9 * np.eye(3)[labels][:, :2], labels


@pytest.fixture
def data(tmp_path):
    X, labels = blobs()
    with (tmp_path / "data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "x", "y", "kind", "weight"])
        writer.writerows(
            [f"o{i}", *row, "abc"[label], 1 + i % 2]
            for i, (row, label) in enumerate(zip(X, labels, strict=True))
        )
    return "data.csv"


ROLES = ("--class-column", "kind", "--weight-column", "weight", "-m", "fuzzy-c-means", "-k", "3")


def memberships(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return [row[0] for row in rows[1:]], np.array([row[3:] for row in rows[1:]], dtype=float)


def test_fit_writes_a_whole_result(run, data, tmp_path, drawn):
    code, out, err = run("fit", data, *ROLES, "--clusters", 3, "--out", "r")
    assert code == 0, err
    assert "60 objects in 3 clusters" in out
    assert "Report: r/report.html" in out
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "memberships.csv",
        "model.skops",
        "pictures.json",
        "report.html",
        "summary.json",
    ]
    ids, U = memberships("r/memberships.csv")
    assert ids == [f"o{i}" for i in range(60)]
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert (summary["schema"], summary["n_clusters"], summary["seed"], summary["converged"]) == (
        1,
        3,
        0,
        True,
    )
    assert summary["input"]["columns"] == ["x", "y"]
    assert len(summary["input"]["sha256"]) == 64
    assert summary["metrics"]["adjusted Rand index"] > 0.9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "r"]


@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_noise_is_called_noise(run, data, tmp_path, drawn, table):
    code, out, err = run(
        "fit",
        data,
        *ROLES,
        "--clusters",
        3,
        "--set",
        "noise_cluster=0.5",
        "--table",
        table,
        "--out",
        "r",
    )
    assert code == 0, err
    assert "60 objects in 3 clusters and noise" in out
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["n_clusters"] == 3
    page = (tmp_path / "r" / "report.html").read_text()
    assert "60 objects in 3 clusters and noise" in page
    assert "<bdi>noise</bdi>" in page
    assert "cluster 3" not in page
    code, out, err = run("predict", "r", data, "--out", "-")
    assert code == 0, err
    assert out.splitlines()[0] == "id,cluster,certainty,cluster_0,cluster_1,cluster_2,noise"
    if table == "csv":
        assert (tmp_path / "r" / "memberships.csv").read_text().startswith(out.splitlines()[0])
    assert run("report", "r")[0] == 0


def test_fit_equals_the_library(run, data, tmp_path):
    from sfumato import FuzzyCMeans

    run("fit", data, *ROLES, "--clusters", 3, "--seed", 5, "--set", "fuzzifier=1.5", "--out", "r")
    X, _ = blobs()
    expected = FuzzyCMeans(3, fuzzifier=1.5, random_state=5).fit(
        X, sample_weight=1 + np.arange(60) % 2
    )
    np.testing.assert_array_equal(memberships("r/memberships.csv")[1], expected.memberships_)
    certainty = json.loads((tmp_path / "r" / "summary.json").read_text())["certainty"]
    assert certainty == pytest.approx(expected.memberships_.max(axis=1).mean(), rel=1e-12)


def test_json_is_the_only_thing_on_standard_output(run, data):
    code, out, _ = run("fit", data, *ROLES, "--out", "r", "--json")
    assert code == 0
    assert json.loads(out)["n_objects"] == 60


def test_standard_input_and_output(run, data, tmp_path, monkeypatch):
    content = (tmp_path / data).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, err = run("fit", "-", *ROLES, "--out", "-")
    assert code == 0
    assert out.startswith("id,cluster,certainty,cluster_0")
    assert len(out.splitlines()) == 61
    assert "60 objects in 3 clusters" in err
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_no_overwriting_without_force(run, data, tmp_path):
    assert run("fit", data, *ROLES, "--out", "r")[0] == 0
    before = (tmp_path / "r" / "memberships.csv").stat().st_mtime_ns
    code, _, err = run("fit", data, *ROLES, "--out", "r", "--seed", 3)
    assert (code, "add --force" in err) == (2, True)
    assert (tmp_path / "r" / "memberships.csv").stat().st_mtime_ns == before
    assert run("fit", data, *ROLES, "--out", "r", "--seed", 3, "--force")[0] == 0
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["seed"] == 3


def test_parquet_table(run, data, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    assert run("fit", data, *ROLES, "--out", "r", "--table", "parquet")[0] == 0
    assert pq.read_table(tmp_path / "r" / "memberships.parquet").column_names[:3] == [
        "id",
        "cluster",
        "certainty",
    ]
    assert run("score", data, "r", "--column", "kind")[0] == 0


def test_predict_matches_columns_by_name(run, data, tmp_path):
    run("fit", data, *ROLES, "--out", "r")
    X, _ = blobs()
    with (tmp_path / "new.csv").open("w") as file:
        file.write("id,junk,y,x\n" + "".join(f"n{i},text,{y},{x}\n" for i, (x, y) in enumerate(X)))
    code, out, err = run("predict", "r", "new.csv")
    assert code == 0, err
    rows = list(csv.reader(io.StringIO(out)))
    assert [row[0] for row in rows[1:]] == [f"n{i}" for i in range(60)]
    np.testing.assert_allclose(
        np.array([row[3:] for row in rows[1:]], dtype=float),
        memberships("r/memberships.csv")[1],
        atol=1e-12,
    )
    assert run("predict", "r", "new.csv", "--out", "p.csv")[0] == 0
    assert run("predict", "r", "new.csv", "--out", "p.csv")[0] == 2
    (tmp_path / "bad.csv").write_text("x,z\n1,2\n")
    code, _, err = run("predict", "r", "bad.csv")
    assert (code, "'y' is not in the table" in err) == (2, True)


def test_score_labels_and_memberships_in_any_order(run, data, tmp_path):
    run("fit", data, *ROLES, "--out", "r")
    lines = (tmp_path / data).read_text().splitlines()
    (tmp_path / "shuffled.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    plain = json.loads(run("score", data, "r", "--column", "kind", "--json")[1])
    turned = json.loads(run("score", "shuffled.csv", "r", "--column", "kind", "--json")[1])
    assert plain["adjusted Rand index"] > 0.9
    kinds, U = [line.split(",")[3] for line in lines[1:]], memberships("r/memberships.csv")[1]
    assert plain["adjusted Rand index"] == pytest.approx(
        adjusted_rand_score(kinds, U.argmax(axis=1))
    )
    assert plain["soft adjusted Rand index"] == pytest.approx(adjusted_rand_index(kinds, U))
    assert plain["soft matched accuracy"] < plain["matched accuracy"]
    assert turned["adjusted Rand index"] == pytest.approx(plain["adjusted Rand index"])
    (tmp_path / "labels.csv").write_text("\n".join(["label", *(str(i % 3) for i in range(60))]))
    assert json.loads(run("score", "labels.csv", "labels.csv", "--json")[1])["Rand index"] == 1
    code, _, err = run("score", data, "r")
    assert (code, "--column" in err) == (2, True)
    code, _, err = run("score", data, "r", "--column", "colour")
    assert (code, "no labels called 'colour'" in err) == (2, True)


def test_score_takes_no_measurement_for_an_id(run, tmp_path):
    (tmp_path / "known.csv").write_text(
        "length,kind\n" + "".join(f"{row % 4},{'ab'[row % 2]}\n" for row in range(8))
    )
    (tmp_path / "other.csv").write_text("label\n" + "".join(f"{row % 2}\n" for row in range(8)))
    (tmp_path / "soft.csv").write_text(
        "cluster_0,cluster_1\n" + "".join(f"{row % 2},{1 - row % 2}\n" for row in range(8))
    )
    for other in ("other.csv", "soft.csv"):
        assert (
            json.loads(run("score", "known.csv", other, "--column", "kind", "--json")[1])[
                "Rand index"
            ]
            == 1
        )


def test_report_is_written_again(run, data, tmp_path, drawn):
    run("fit", data, *ROLES, "--out", "r")
    first = (tmp_path / "r" / "report.html").read_text()
    assert run("report", "r")[0] == 0
    assert (tmp_path / "r" / "report.html").read_text() == first
    assert run("report", "r", "--title", "[/] <b>", "--out", "other.html")[0] == 0
    assert "[/] &lt;b&gt;" in (tmp_path / "other.html").read_text()


def test_every_command_that_reads_a_table_takes_its_encoding(run, tmp_path):
    lines = ["größe;länge", *(f"{i % 2 * 9 + i / 40:.2f};{i / 7:.2f}" for i in range(40))]
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode("cp1252"))
    for command in ("inspect", "fit", "choose"):
        code, _, error = run(command, "t.csv")
        assert code == 2
        assert "--encoding cp1252" in error
    how = ("--encoding", "cp1252", "--delimiter", ";")
    facts = json.loads(run("inspect", "t.csv", *how, "--json")[1])
    assert facts["column names"] == "'größe', 'länge'"
    assert run("fit", "t.csv", *how, "--clusters", "2", "--out", "r")[0] == 0
    assert run("predict", "r", "t.csv")[0] == 2
    code, memberships, _ = run("predict", "r", "t.csv", *how)
    assert code == 0
    assert len(memberships.splitlines()) == 41


def test_inspect(run, data, tmp_path):
    run("fit", data, *ROLES, "--out", "r")
    facts = json.loads(run("inspect", data, "--json")[1])
    assert (facts["rows"], facts["looks like"].split(":")[0]) == (60, "features")
    assert json.loads(run("inspect", "r", "--json")[1])["n_clusters"] == 3
    assert json.loads(run("inspect", "r/model.skops", "--json")[1])["would be loaded"] is True
    np.save(tmp_path / "w.npy", np.eye(5))
    assert json.loads(run("inspect", "w.npy", "--json")[1])["looks like"].startswith(
        "a similarity matrix"
    )


@pytest.mark.parametrize(
    "words, code, said",
    [
        (["fit", "nothing.csv"], 2, "no file called nothing.csv"),
        (["fit", "data.csv", *ROLES, "--model", "magic"], 2, "--model must be one of pairwise"),
        (["fit", "data.csv", *ROLES, "--clusters", "0"], 2, "--clusters must be a whole number"),
        (["fit", "data.csv", *ROLES, "--clusters", "61"], 2, "more than the 60 rows"),
        (["fit", "data.csv", *ROLES, "--set", "fuzzifier=-1"], 2, "fuzzifier"),
        (["fit", "data.csv", *ROLES, "--set", "magic=1"], 2, "--set takes name=value"),
        (
            ["fit", "data.csv", *ROLES, "--similarity", "knn"],
            2,
            "--similarity does not apply to fuzzy-c-means",
        ),
        (["fit", "data.csv", "--drop", "kind", "--model", "discriminative"], 2, "--class-column"),
        (
            ["fit", "data.csv", *ROLES, "--set", "max_iter=1", "--strict", "--set", "tol=0"],
            3,
            "did not converge",
        ),
        (["fit", "data.csv", *ROLES, "--nonsense"], 2, "No such option"),
        (["fit", "data.csv", *ROLES, "--out", "no/such/folder"], 2, "there is no folder"),
        (["fit"], 2, "Missing argument"),
        (["predict", "data.csv", "data.csv"], 2, "is not a result folder"),
        (["report", "."], 2, "is not a result folder"),
        (["inspect", "nothing"], 2, "no file called"),
        (["score", "nothing", "data.csv"], 2, "no file called nothing"),
    ],
)
def test_errors_take_one_line_and_leave_nothing(run, data, tmp_path, words, code, said):
    got, out, err = run(*words)
    assert (got, said in err) == (code, True), err
    errors = [line for line in err.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_an_empty_cell_is_no_class_to_learn_from(run, data, tmp_path):
    lines = (tmp_path / data).read_text().splitlines()
    at = lines[0].split(",").index("kind")
    for row in (4, 9):
        cells = lines[row].split(",")
        cells[at] = ""
        lines[row] = ",".join(cells)
    (tmp_path / data).write_text("\n".join(lines) + "\n")
    words = ("fit", data, "--model", "discriminative", "--class-column", "kind", "-k", "3")
    code, _, err = run(*words, "--drop", "weight")
    assert code == 2
    assert "2 objects have no class" in err


def test_memory_has_its_own_exit_code(run, data, monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1000")
    code, _, err = run("fit", data, *ROLES)
    assert (code, "does not fit in memory" in err) == (4, True)


def test_debug_shows_the_traceback(run):
    assert "Traceback" not in run("fit", "nothing.csv")[2]
    assert "Traceback" in run("fit", "nothing.csv", "--debug")[2]
    for command in ([], ["fit"], ["predict"], ["models"]):
        assert "--debug" in run(*command, "--help")[1]


def test_help_says_which_model_is_taken(run):
    for name in ("fit", "choose"):
        said = " ".join(run(name, "--help")[1].split()).replace("- ", "-")  # broken at hyphens
        assert "by default mixed-mixture if over a fifth of the columns are codes" in said


def test_missing_values_are_named(run, tmp_path):
    sampler = ("--model", "dirichlet-process", "--set", "inference=gibbs", "--set", "n_draws=4")
    (tmp_path / "m.csv").write_text("a,b\n1,2\n3,\n5,6\n7,8\n")
    code, _, err = run("fit", "m.csv", *sampler)
    assert (code, "missing cells are filled in" in err, "'b' (1)" in err) == (0, True, True)
    np.save(tmp_path / "m.npy", [[1.0, 2.0], [3.0, np.nan], [5.0, 6.0], [7.0, 8.0]])
    code, _, err = run("fit", "m.npy", *sampler, "--out", "n")
    assert (code, "row 2 has no value in column '1'" in err) == (2, True)


def test_ctrl_c_keeps_a_checkpoint_that_resumes_to_the_same_answer(
    run, data, tmp_path, monkeypatch
):
    from sfumato.io import results

    # With this rule every step is kept; a whole run on few objects is one call otherwise
    rule = ("--set", "metric=mahalanobis", "--set", "tol=1e-12")
    words = ("fit", data, *ROLES, "--set", "n_init=4", *rule)
    assert run(*words, "--out", "whole")[0] == 0
    keep, count = results.Checkpoint.keep, 0

    def stop(self, *arguments):
        nonlocal count
        keep(self, *arguments)
        count += 1
        if count == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(results.Checkpoint, "keep", stop)
    code, _, err = run(*words, "--out", "r")
    assert (code, "--resume" in err) == (130, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "r.checkpoint", "whole"]
    code, _, err = run("fit", data, *ROLES, "--out", "r", "--resume", "--seed", 9)
    assert (code, "kept for other data" in err) == (2, True)
    code, _, err = run(*words, "--out", "r", "--resume")
    assert (code, "continuing after 20 iterations" in err) == (0, True)
    assert (tmp_path / "r/memberships.csv").read_bytes() == (
        tmp_path / "whole/memberships.csv"
    ).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "r", "whole"]


def hostile_table(tmp_path):
    X, _ = blobs(3 * len(HOSTILE))
    with (tmp_path / "hostile.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[5]])
        writer.writerows(
            [HOSTILE[i % 16] + str(i // 16), *row, HOSTILE[i % 3]] for i, row in enumerate(X)
        )
    return "hostile.csv"


def test_hostile_names_everywhere(run, tmp_path, drawn):
    data = hostile_table(tmp_path)
    roles = ("--id-column", HOSTILE[0], "--class-column", HOSTILE[5])
    code, out, err = run("fit", data, *roles, "--out", "r")
    assert code == 0, err
    ids, _ = memberships("r/memberships.csv")
    expected = [HOSTILE[i % 16] + str(i // 16) for i in range(48)]
    assert [name.removeprefix("'") for name in ids] == expected
    assert not [name for name in ids if name.startswith(("=", "@", "-x", "+y"))]
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 2
    assert "\u202e" not in page + out + err
    for words in (
        ["inspect", data],
        ["inspect", "r"],
        ["report", "r", "--title", HOSTILE[0]],
        ["score", data, "r", "--column", HOSTILE[5]],
    ):
        code, out, err = run(*words)
        assert code == 0, err
        assert "\u202e" not in out
    code, out, err = run("predict", "r", data)
    assert code == 0, err
    code, _, err = run("fit", data, "--id-column", "[/]nope", "--out", "q")
    assert (code, "[/]nope" in err) == (2, True)
    code, _, err = run("fit", "[/]\u202e.csv", "--out", "q")
    assert (code, "\\u202e" in err) == (2, True)


def test_version_and_help(run):
    assert run("--version")[1].startswith("sfumato ")
    assert run()[:2] == run("--help")[:2]
    commands = (
        "fit",
        "consensus",
        "predict",
        "score",
        "choose",
        "report",
        "inspect",
        "demo",
        "reproduce",
    )
    for words in ([], *([command] for command in commands)):
        code, out, _ = run(*words, "--help")
        assert code == 0
        assert "Usage: sfumato" in out


def test_choose_finds_three_and_draws_the_curve(run, data, tmp_path):
    words = (
        "choose",
        data,
        "--drop",
        "kind",
        "--drop",
        "weight",
        "--from",
        2,
        "--to",
        4,
        "--set",
        "n_init=1",
    )
    code, out, err = run(*words, "--plot", "curve.png")
    assert code == 0, err
    assert "Chosen: 3" in out
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert run(*words, "--plot", "curve.exe")[0] == 2
    assert run(*words, "--from", 5)[0] == 2


def test_choose_reads_a_file_as_fit_does(run, tmp_path):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(center, 0.3, (20, 2)) for center in (0, 5)])
    (tmp_path / "bare.txt").write_text("\n".join(f"{x:.4f};{y:.4f}" for x, y in X))
    words = ("choose", "bare.txt", "--no-header", "--delimiter", ";", "--model", "fuzzy-c-means")
    code, out, err = run(*words, "--to", 3, "--set", "n_init=1", "--json")
    assert code == 0, err
    assert json.loads(out)["n_clusters"] == 2


@pytest.mark.slow
def test_choose_in_json_and_auto_agree(run, data, tmp_path):
    words = (data, "--drop", "kind", "--drop", "weight", "--model", "fuzzy-c-means")
    found = json.loads(run("choose", *words, "--to", 4, "--json")[1])
    assert (found["n_clusters"], found["criterion"], found["supported"]) == (3, "structure", True)
    assert run("fit", *words, "--clusters", "auto", "--out", "r")[0] == 0
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert summary["n_clusters"] == 3
    assert summary["structure"]["supported"]


@pytest.mark.parametrize("model", ["gaussian-mixture", "dirichlet-process"])
def test_auto_finds_three(run, data, tmp_path, model):
    code, _, err = run(
        "fit",
        data,
        "--drop",
        "kind",
        "--drop",
        "weight",
        "--model",
        model,
        "--clusters",
        "auto",
        "--out",
        "r",
    )
    assert code == 0, err
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert (summary["n_clusters"], summary["clusters_asked_for"]) == (3, "auto")
    curve = json.loads((tmp_path / "r" / "pictures.json").read_text())["selection"]
    assert curve["n_clusters"][int(np.argmax(curve["scores"]))] == 3


def test_consensus_of_labelings_and_of_features(run, data, tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    noisy = [np.where(rng.random(60) < 0.9, truth, rng.integers(3, size=60)) for _ in range(15)]
    lines = ["id," + ",".join(f"p{j}" for j in range(15))]
    lines += [
        f"o{i},"
        + ",".join("uvw"[labels[i]] if (i + j) % 11 else "" for j, labels in enumerate(noisy))
        for i in range(60)
    ]
    (tmp_path / "l.csv").write_text("\n".join(lines) + "\n")
    code, _, err = run("consensus", "l.csv", "--clusters", 3, "--out", "r")
    assert code == 0, err
    assert (
        json.loads(run("score", data, "r", "--column", "kind", "--json")[1])["matched accuracy"]
        > 0.9
    )
    head = "\n".join(
        [
            lines[0],
            *lines[1:4],
            lines[1].replace("u", "never-seen").replace("v", "never-seen").replace("o0", "new"),
        ]
    )
    (tmp_path / "new.csv").write_text(head + "\n")
    code, out, err = run("predict", "r", "new.csv")
    assert code == 0, err
    _, U = memberships("r/memberships.csv")
    predicted = [row.split(",")[:2] for row in out.splitlines()[1:]]
    assert [row[0] for row in predicted] == ["o0", "o1", "o2", "new"]
    assert [int(row[1]) for row in predicted[:3]] == U[:3].argmax(axis=1).tolist()
    code, _, err = run(
        "consensus", data, "--features", "--drop", "weight", "--class-column", "kind", "--out", "f"
    )
    assert code == 0, err
    assert (
        json.loads((tmp_path / "f/summary.json").read_text())["metrics"]["adjusted Rand index"]
        > 0.9
    )
    assert "coordinates" in json.loads((tmp_path / "f/pictures.json").read_text())


def test_a_similarity_matrix(run, tmp_path):
    X, labels = blobs()
    np.save(tmp_path / "w.npy", np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 8))
    code, _, err = run(
        "fit",
        "w.npy",
        "--model",
        "pairwise",
        "--similarity",
        "precomputed",
        "--clusters",
        3,
        "--out",
        "r",
    )
    assert code == 0, err
    (tmp_path / "labels.csv").write_text("\n".join(["label", *map(str, labels)]))
    assert json.loads(run("score", "labels.csv", "r", "--json")[1])["matched accuracy"] > 0.9


def test_missing_values_in_a_model_that_takes_them(run, tmp_path):
    X, _ = blobs()
    rows = [f"{x},{y}" for x, y in X]
    rows[5] = f"{X[5, 0]},"
    (tmp_path / "m.csv").write_text("\n".join(["x,y", *rows]))
    assert run("fit", "m.csv", "--model", "gaussian-mixture", "--clusters", 3, "--out", "r")[0] == 0


def test_demo(run, tmp_path, drawn):
    code, out, err = run("demo", "--out", "d")
    assert code == 0, err
    assert "150 objects in 3 clusters (consensus)" in out
    assert (tmp_path / "d" / "report.html").is_file()
    assert (
        json.loads((tmp_path / "d" / "summary.json").read_text())["metrics"]["adjusted Rand index"]
        > 0.5
    )
    assert run("demo", "--out", "d")[0] == 2
    assert run("demo", "--out", "d", "--force")[0] == 0


def test_consensus_of_features_is_refused(run, tmp_path):
    (tmp_path / "x.csv").write_text("x,y\n1.5,2\n1.7,3\n9.1,8\n")
    code, _, err = run("consensus", "x.csv", "--clusters", 2, "--out", "r")
    assert (code, "--features" in err, "'x'" in err) == (2, True, True)
    (tmp_path / "l.csv").write_text("a,b\n1.5,2\nx,3\n1.5,2\n")
    assert run("consensus", "l.csv", "--clusters", 2, "--out", "r")[0] == 0


@pytest.mark.parametrize("out", [".", "", "/"])
def test_the_result_needs_a_name(run, data, out):
    code, _, err = run("fit", data, "--out", out)
    assert code == 2
    assert "name a new folder" in err


def test_more_clusters_than_rows_are_named_by_their_option(run, data):
    code, _, err = run("fit", data, "--clusters", 500)
    assert code == 2
    assert "--clusters 500 is more than the 60 rows of data.csv" in err


def test_nothing_to_resume_is_said(run, data):
    words = ("fit", data, "--model", "fuzzy-c-means", "--clusters", 3, "--set", "n_init=1")
    code, _, err = run(*words, "--resume")
    assert code == 0
    assert "nothing to resume: starting afresh" in err
