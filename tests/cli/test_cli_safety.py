"""Nothing that a user has is lost.

Not what lies at the output, not the result, not the last good checkpoint.
"""

import errno
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from test_cli import ROLES, blobs, data  # noqa: F401

from sfumato.cli import fitting, main
from sfumato.io import read_result, results
from sfumato.io.output import Output
from sfumato.io.results import check_target


@pytest.fixture
def during(monkeypatch):
    """Something that happens between the fit and the writing of its result."""

    def install(action):
        watched = fitting._watched

        @contextmanager
        def watched_and_act(*arguments):
            with watched(*arguments):
                yield
            action()

        monkeypatch.setattr(fitting, "_watched", watched_and_act)

    return install


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_thesis_that_appears_during_the_fit_is_not_replaced(run, data, tmp_path, during, force):
    def appear():
        (tmp_path / "r").mkdir()
        (tmp_path / "r/thesis.txt").write_text("five years")

    during(appear)
    code, _, err = run("fit", data, *ROLES, "--out", "r", *force)
    assert (code, "appeared meanwhile" in err, "r.1" in err) == (2, True, True)
    assert (tmp_path / "r/thesis.txt").read_text() == "five years"
    assert len(read_result(tmp_path / "r.1").memberships) == 60
    assert names(tmp_path) == ["data.csv", "r", "r.1"]


def test_two_runs_to_one_folder(run, data, tmp_path):
    with Output(tmp_path / "r", check_target):
        code, _, err = run("fit", data, *ROLES, "--out", "r")
        assert (code, "being written by another process" in err) == (2, True)
        assert main(["demo", "--out", "r"]) == 2
    assert run("fit", data, *ROLES, "--out", "r")[0] == 0
    assert names(tmp_path) == ["data.csv", "r"]


def often(monkeypatch):
    monkeypatch.setitem(results.Checkpoint.__init__.__kwdefaults__, "every", 0.0)


def failing(monkeypatch, error, after):
    """Writes of checkpoints fail after some good ones."""
    dump, count = results.skops().dump, 0

    def fail(thing, path):
        nonlocal count
        if isinstance(thing, dict):
            count += 1
            if count > after:
                path.write_bytes(b"half")
                raise error
        dump(thing, path)

    monkeypatch.setattr(results.skops(), "dump", fail)


WORDS = ("--set", "n_init=4", "--set", "tol=1e-12", "--set", "metric=mahalanobis")
ERRORS = [OSError(errno.ENOSPC, "No space left on device"), MemoryError()]


@pytest.mark.parametrize("error", ERRORS, ids=["full disk", "no memory"])
def test_a_checkpoint_that_cannot_be_written_warns_and_the_fit_goes_on(
    run, data, tmp_path, monkeypatch, error
):
    assert run("fit", data, *ROLES, *WORDS, "--out", "whole")[0] == 0
    often(monkeypatch)
    failing(monkeypatch, error, 3)
    code, _, err = run("fit", data, *ROLES, *WORDS, "--out", "r")
    assert (code, err.count("could not be written")) == (0, 1), err
    assert "the last good one is kept" in err
    assert (tmp_path / "r/memberships.csv").read_bytes() == (
        tmp_path / "whole/memberships.csv"
    ).read_bytes()
    assert names(tmp_path) == ["data.csv", "r", "whole"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_the_last_good_checkpoint_survives_whatever_ends_the_fit(
    run, data, tmp_path, monkeypatch, stop
):
    words = ("fit", data, *ROLES, *WORDS)
    assert run(*words, "--out", "whole")[0] == 0
    with monkeypatch.context() as patched:
        often(patched)
        failing(patched, OSError(errno.ENOSPC, "No space left on device"), 5)
        keep, count = results.Checkpoint.keep, 0

        def end(self, *arguments):
            nonlocal count
            keep(self, *arguments)
            count += 1
            if count == 20:
                raise stop

        patched.setattr(results.Checkpoint, "keep", end)
        code, _, err = run(*words, "--out", "r")
    expected = {KeyboardInterrupt: 130, MemoryError: 4, RuntimeError: 1}[stop]
    assert (code, "goes on from the last good" in err) == (expected, stop is KeyboardInterrupt), err
    assert names(tmp_path) == ["data.csv", "r.checkpoint", "whole"]
    code, _, err = run(*words, "--out", "r")
    assert (code, "--resume" in err, "--force" in err) == (2, True, True)
    code, _, err = run(*words, "--out", "r", "--resume")
    assert (code, "continuing after 5 iterations" in err) == (0, True), err
    assert (tmp_path / "r/memberships.csv").read_bytes() == (
        tmp_path / "whole/memberships.csv"
    ).read_bytes()
    assert names(tmp_path) == ["data.csv", "r", "whole"]


def test_stopped_before_the_first_step_nothing_is_promised(run, data, tmp_path, monkeypatch):
    from sfumato import FuzzyCMeans

    def stop(self, X, y=None, sample_weight=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(FuzzyCMeans, "fit", stop)
    code, _, err = run("fit", data, *ROLES, "--out", "r")
    assert (code, "--resume" in err) == (130, False)
    assert names(tmp_path) == ["data.csv"]


@pytest.mark.parametrize(
    "error", [*ERRORS, KeyboardInterrupt()], ids=["full disk", "no memory", "Ctrl-C"]
)
def test_a_result_that_cannot_be_written_leaves_the_fit(run, data, tmp_path, monkeypatch, error):
    words = ("fit", data, *ROLES, "--out", "r")

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(fitting, "write_result", fail)
        code, _, err = run(*words)
    assert (code, "--resume" in err) == (
        130 if isinstance(error, KeyboardInterrupt) else 4 if isinstance(error, MemoryError) else 1,
        True,
    )
    assert names(tmp_path) == ["data.csv", "r.checkpoint"]
    code, _, err = run(*words, "--resume")
    assert (code, "continuing after" in err) == (0, True)
    assert names(tmp_path) == ["data.csv", "r"]


def test_a_full_disk_is_noticed_before_the_fit(run, data, monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
    monkeypatch.setattr(fitting, "_watched", lambda *_: pytest.fail("the fit has begun"))
    for words in (
        ("fit", data, *ROLES, "--out", "r"),
        ("predict", "r", data, "--out", "p.csv"),
        ("choose", data, "--plot", "c.png"),
    ):
        code, _, err = run(*words)
        assert (code, "of space are left" in err) == (2, True), err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_noticed_before_the_fit(
    run, data, tmp_path, monkeypatch
):
    (tmp_path / "locked").mkdir(mode=0o500)
    monkeypatch.setattr(fitting, "_watched", lambda *_: pytest.fail("the fit has begun"))
    code, _, err = run("fit", data, *ROLES, "--out", "locked/r")
    assert (code, "cannot be written to" in err) == (2, True)


CHOOSE = (
    "--drop",
    "kind",
    "--drop",
    "weight",
    "--from",
    2,
    "--to",
    3,
    "--set",
    "n_init=1",
    "--plot",
    "curve.png",
)


def test_the_curve_of_choose_replaces_nothing_unasked(run, data, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    (tmp_path / "curve.png").write_text("precious")
    code, out, err = run("choose", data, *CHOOSE)
    assert (code, out, "--plot: curve.png exists" in err) == (2, "", True)

    def full(self, path, **_):
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Figure, "savefig", full)
        code, out, err = run("choose", data, *CHOOSE, "--force")
    assert (code, "Chosen:" in out, "No space left" in err) == (1, True, True)
    assert (tmp_path / "curve.png").read_text() == "precious"
    assert run("choose", data, *CHOOSE, "--force")[0] == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert names(tmp_path) == ["curve.png", "data.csv"]


def test_a_report_replaces_nothing_unasked(run, data, tmp_path):
    assert run("fit", data, *ROLES, "--out", "r")[0] == 0
    (tmp_path / "page.html").write_text("precious")
    code, _, err = run("report", "r", "--out", "page.html")
    assert (code, "exists" in err, (tmp_path / "page.html").read_text()) == (2, True, "precious")
    assert run("report", "r", "--out", "page.html", "--force")[0] == 0
    assert (tmp_path / "page.html").read_text() == "<html>"
    assert run("report", "r")[0] == 0


def test_predict_follows_no_link_and_replaces_nothing_that_appears(
    run, data, tmp_path, monkeypatch
):
    from sfumato.cli import using

    assert run("fit", data, *ROLES, "--out", "r")[0] == 0
    (tmp_path / "precious").write_text("x")
    (tmp_path / ".p.csv.partial").symlink_to(tmp_path / "precious")
    assert run("predict", "r", data, "--out", "p.csv")[0] == 0
    assert (tmp_path / "precious").read_text() == "x"
    write = using.write_memberships

    def meanwhile(*arguments, **options):
        (tmp_path / "q.csv").write_text("of another run")
        write(*arguments, **options)

    monkeypatch.setattr(using, "write_memberships", meanwhile)
    code, _, err = run("predict", "r", data, "--out", "q.csv")
    assert (code, "q.csv.1" in err, (tmp_path / "q.csv").read_text()) == (2, True, "of another run")
    assert (tmp_path / "q.csv.1").read_bytes() == (tmp_path / "p.csv").read_bytes()


def test_an_id_with_a_carriage_return_goes_through_every_command(run, tmp_path):
    X, _ = blobs()
    with (tmp_path / "odd.csv").open("w", newline="") as file:
        file.write("id,x,y\n" + "".join(f'"{i}\r=cmd",{x},{y}\n' for i, (x, y) in enumerate(X)))
    assert run("fit", "odd.csv", "-m", "fuzzy-c-means", "-k", 3, "--out", "r")[0] == 0
    assert list(read_result(tmp_path / "r").ids) == [f"{i}\r=cmd" for i in range(60)]
    for words in (
        ["report", "r"],
        ["score", "r", "r"],
        ["predict", "r", "odd.csv", "--out", "p.csv"],
        ["score", "p.csv", "r"],
    ):
        code, _, err = run(*words)
        assert code == 0, err


DAMAGE = {
    "summary.json": [
        "{}",
        "[" * 100_000,
        '{"schema": 1}',
        '{"schema": 1, "input": {}}',
        '{"schema": 1, "input": 3}',
        "\x00",
    ],
    "pictures.json": [
        "[" * 100_000,
        '{"selection": {"scores": 1}}',
        '{"class_codes": [99]}',
        '{"coordinates": [1], "history": {}}',
    ],
    "memberships.csv": [
        "",
        "id,cluster,certainty,cluster_0\n",
        "id,cluster,certainty,cluster_0\na,0,1,nan\n",
        "\x00\x01",
    ],
    "model.skops": ["", "PK\x03\x04", "{}"],
}


@pytest.mark.parametrize("file", DAMAGE)
def test_a_damaged_result_is_bad_input_and_one_sentence(run, data, tmp_path, monkeypatch, file):
    assert run("fit", data, *ROLES, "--out", "whole")[0] == 0
    monkeypatch.undo()  # the reports below are drawn
    monkeypatch.chdir(tmp_path)
    commands = (["report", "r"], ["predict", "r", data], ["inspect", "r"], ["score", "r", "r"])
    for content in DAMAGE[file]:
        shutil.copytree(tmp_path / "whole", tmp_path / "r")
        (tmp_path / "r" / file).write_text(content)
        codes = []
        for words in commands:
            code, _, err = run(*words)
            assert code in (0, 2), (words, content[:40], err)
            assert len(err.splitlines()) <= 1
            codes.append(code)
        assert 2 in codes, content[:40]
        shutil.rmtree(tmp_path / "r")


def test_a_model_that_lost_what_it_learned_is_bad_input(run, data, tmp_path):
    from sfumato import FuzzyCMeans

    assert run("fit", data, *ROLES, "--out", "r")[0] == 0
    for thing in (
        FuzzyCMeans(3),
        {"a": 1},
        [1, 2],
        FuzzyCMeans(3, random_state=0).fit(blobs()[0][:, :1]),
    ):
        results.save(thing, tmp_path / "r/model.skops")
        code, _, err = run("predict", "r", data)
        assert (code, len(err.splitlines())) == (2, 1), err


def test_without_a_terminal_long_work_says_a_line_now_and_then(run, data, monkeypatch):
    from sfumato.cli.main import Terminal

    monkeypatch.setattr(Terminal, "patience", 0.0)
    _, _, err = run("fit", data, *ROLES, "--out", "r")
    assert "reading: 100%, 60 rows; memory holds at most" in err
    assert "fitting fuzzy-c-means: " in err
    assert "reading" not in run("fit", data, *ROLES, "--out", "q", "--quiet")[2]


@pytest.mark.parametrize("words", [(), ("--force",), ("--resume",)])
def test_a_file_of_somebody_else_in_the_place_of_a_checkpoint_stays(run, data, tmp_path, words):
    (tmp_path / "r.checkpoint").write_text("weights of a week")
    code, _, err = run("fit", data, *ROLES, "--out", "r", *words)
    assert (code, "is not a checkpoint of this program" in err) == (2, True)
    assert (tmp_path / "r.checkpoint").read_text() == "weights of a week"


def test_a_file_that_takes_the_place_of_the_checkpoint_meanwhile_stays(
    run, data, tmp_path, monkeypatch
):
    often(monkeypatch)
    keep, count = results.Checkpoint.keep, 0

    def appear(self, *arguments):
        nonlocal count
        count += 1
        if count == 3:
            (tmp_path / "mine").write_text("weights of a week")
            os.replace(tmp_path / "mine", tmp_path / "r.checkpoint")
        keep(self, *arguments)

    monkeypatch.setattr(results.Checkpoint, "keep", appear)
    code, _, err = run("fit", data, *ROLES, "--out", "r")
    assert (code, "another file has this name" in err) == (0, True)
    assert (tmp_path / "r.checkpoint").read_text() == "weights of a week"


TAMPERED = {
    "no loops": lambda kept: {"task": kept["task"]},
    "numbers": lambda kept: {**kept, "loops": [1, 2]},
    "no history": lambda kept: {**kept, "loops": [(state, None) for state, _ in kept["loops"]]},
    "another state": lambda kept: {
        **kept,
        "loops": [("x", history) for _, history in kept["loops"]],
    },
    "words": lambda kept: {**kept, "loops": [(state, ["a", "b"]) for state, _ in kept["loops"]]},
    "a list": lambda kept: [kept],
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_tampered_checkpoint_is_bad_input_and_one_sentence(
    run, data, tmp_path, monkeypatch, case
):
    with monkeypatch.context() as patched:
        patched.setattr(fitting, "write_result", lambda *_, **__: 1 / 0)
        assert run("fit", data, *ROLES, *WORDS, "--out", "r")[0] == 1
    path = tmp_path / "r.checkpoint"
    results.save(TAMPERED[case](results.load(path)), path)
    code, _, err = run("fit", data, *ROLES, *WORDS, "--out", "r", "--resume")
    said = [line for line in err.splitlines() if "error" in line]
    assert (code, len(said), "Traceback" in err) == (2, 1, False), err
    assert path.exists()
    assert run("fit", data, *ROLES, *WORDS, "--out", "r", "--force")[0] == 0
    assert names(tmp_path) == ["data.csv", "r"]


def test_a_mapped_file_that_changes_during_the_fit_is_refused(run, tmp_path, during):
    np.save(tmp_path / "x.npy", blobs()[0])

    def change():
        mapped = np.lib.format.open_memmap(tmp_path / "x.npy")
        mapped[0] = 99
        mapped.flush()
        os.utime(tmp_path / "x.npy")

    during(change)
    code, _, err = run("fit", "x.npy", "-m", "fuzzy-c-means", "-k", 3, "--out", "r")
    assert (code, "changed while the fit was reading it" in err) == (2, True), err
    assert names(tmp_path) == ["x.npy"]


STREAMS = {
    "ascii": ("export PYTHONIOENCODING=ascii;", "", 0),
    "no output": ("", ">&-", 0),
    "no errors": ("", "2>&-", 0),
    "no input": ("", "<&-", 0),
    "full": ("", ">/dev/full", 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", STREAMS)
def test_streams_that_are_closed_full_or_poor(data, tmp_path, case):
    before, after, code = STREAMS[case]
    X, _ = blobs()
    rows = "".join(f"é{i}日,{x},{y}\n" for i, (x, y) in enumerate(X))
    (tmp_path / "odd.csv").write_text("id,x,y\n" + rows, encoding="utf-8")
    command = (
        f"{before} {sys.executable} -m sfumato fit odd.csv -m fuzzy-c-means -k 3 --out r {after}"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert len(read_result(tmp_path / "r").memberships) == 60
    if case == "no input":
        command = command.replace("odd.csv", "-").replace("--out r", "--out q")
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, "standard input is closed" in done.stderr) == (2, True)
