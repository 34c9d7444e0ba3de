"""Faults at every write and every allocation.

What was there stays, what is said is true, and the next run works.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading

import pytest
from test_cli import ROLES, data  # noqa: F401

from faults import fault, raising, watch_the_rest
from sfumato.array import validation
from sfumato.io import InputError, read_result, results
from sfumato.io.output import Output
from sfumato.io.results import check_target

filelock = pytest.importorskip("filelock")
FULL = raising(lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
BROKEN = raising(lambda: OSError(errno.EIO, os.strerror(errno.EIO)))
NO_MEMORY = raising(MemoryError)
STOPPED = raising(KeyboardInterrupt)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setitem(results.Checkpoint.__init__.__kwdefaults__, "every", 0.0)
    watch_the_rest(monkeypatch.setattr)


def whole(folder):
    """The memberships of a result that is complete, or nothing where there is none at all."""
    if not folder.exists():
        return None
    assert sorted(path.name for path in folder.iterdir()) == [
        "memberships.csv",
        "model.skops",
        "pictures.json",
        "report.html",
        "summary.json",
    ]
    read_result(folder)
    return (folder / "memberships.csv").read_bytes()


def every_write(run, data, tmp_path, action, force, step):
    """Fit again and again, with the fault at a later write each time, until none is left to
    fail.
    """
    words = ("fit", data, *ROLES, "--set", "max_iter=3", "--set", "n_init=1")
    assert run(*words, "--seed", 1, "--out", "old")[0] == 0
    assert run(*words, "--out", "new")[0] == 0
    old, new = whole(tmp_path / "old"), whole(tmp_path / "new")
    for place in range(1, 1000, step):
        if force:
            shutil.copytree(tmp_path / "old", tmp_path / "r")
        with fault(tmp_path, place, action) as made:
            code, _, err = run(*words, "--out", "r", *force)
        said = [
            line for line in err.splitlines() if "warning" not in line and "ids are" not in line
        ]
        assert "Traceback" not in err
        assert len([line for line in said if "error:" in line or "stopped" in line]) == (
            code != 0
        ), err
        found = whole(tmp_path / "r")
        assert found == new if code == 0 else found in ((old, new) if force else (None, new)), err
        promised = ("--resume" in err and "kept" in err + " ") or "goes on from" in err
        if promised:
            assert (tmp_path / "r.checkpoint").exists(), err
        again = run(*words, "--out", "r", "--force", *(["--resume"] if promised else []))
        assert again[0] == 0, again[2]
        assert whole(tmp_path / "r") == new
        if (tmp_path / "r.1").exists():  # in doubt what was there is kept beside
            assert force
            assert whole(tmp_path / "r.1") in (old, new)
            shutil.rmtree(tmp_path / "r.1")
        assert sorted(os.listdir(tmp_path)) == ["data.csv", "new", "old", "r"], (place, err)
        shutil.rmtree(tmp_path / "r")
        if not made.met:
            return place
    raise AssertionError


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["fresh", "force"])
@pytest.mark.parametrize("action", [FULL, STOPPED], ids=["full", "stopped"])
def test_a_fault_at_some_writes_of_a_fit(run, data, tmp_path, action, force):
    assert every_write(run, data, tmp_path, action, force, 11) > 30


@pytest.mark.slow
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["fresh", "force"])
@pytest.mark.parametrize(
    "action", [FULL, BROKEN, NO_MEMORY, STOPPED], ids=["full", "broken", "no memory", "stopped"]
)
def test_a_fault_at_every_write_of_a_fit(run, data, tmp_path, action, force):
    assert every_write(run, data, tmp_path, action, force, 1) > 30


@pytest.mark.parametrize("model", ["fuzzy-c-means", "pairwise", "consensus", "gaussian-mixture"])
def test_no_memory_at_a_guard(run, data, tmp_path, monkeypatch, model):
    """The memory guard says no once, early or late: at the first, second, fourth, tenth ... call.

    Exit 4, and nothing left but a checkpoint that is spoken of; or the result, without the figure
    that found no room.
    """
    budget, left = validation.budget_for, 0

    def exhausted(size):
        nonlocal left
        left -= 1
        if left == 0:
            return 0
        return budget(size)

    monkeypatch.setattr(validation, "budget_for", exhausted)
    roles = (
        ROLES
        if model in ("fuzzy-c-means", "gaussian-mixture")
        else ("--class-column", "kind", "--drop", "weight", "-k", "3")
    )
    for place in (1, 2, 4, 10, 25, 63, 158, 398, 1000):
        left = place
        code, _, err = run("fit", data, *roles, "-m", model, "--set", "n_init=1", "--out", "r")
        if left > 0:
            break
        if code == 0:  # the fit was done: only the resamples that tell its stability found no room,
            # or one kind of evidence of the consensus, which then does without
            found = json.loads((tmp_path / "r" / "summary.json").read_text())
            assert found["stability"] is None or model == "consensus"
            shutil.rmtree(tmp_path / "r")
            continue
        assert (code, "does not fit in memory" in err) == (4, True), err
        kept = {"r.checkpoint"} if "--resume goes on" in err else set()
        assert set(os.listdir(tmp_path)) == {"data.csv"} | kept
        (tmp_path / "r.checkpoint").unlink(missing_ok=True)
    assert (code, place > 1) == (0, True)


@pytest.mark.parametrize(
    "words", [("predict", "r", "data.csv", "--out", "p.csv"), ("report", "r", "--out", "p.csv")]
)
def test_a_fault_at_every_write_of_a_file(run, data, tmp_path, words):
    assert run("fit", data, *ROLES, "--out", "r")[0] == 0
    for place in range(1, 100):
        (tmp_path / "p.csv").write_text("old")
        with fault(tmp_path, place, FULL) as made:
            code, _, err = run(*words, "--force")
        assert code == 0 or len(err.splitlines()) == 1, err
        text = (tmp_path / "p.csv").read_text()
        assert text == "old" or text.startswith(("id,", "<html>"))
        assert run(*words, "--force")[0] == 0
        assert sorted(set(os.listdir(tmp_path)) - {"p.csv.1"}) == ["data.csv", "p.csv", "r"]
        if not made.met:
            break
    assert place > 8


def without_locks(*_, **__):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def writer(target, number, outcomes, force):
    try:
        with Output(target, check_target, force=force) as output, output.folder() as folder:
            (folder / "summary.json").write_text(str(number))
        outcomes[number] = "written"
    except InputError as error:
        outcomes[number] = "beside" if "appeared meanwhile" in str(error) else "refused"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_many_writers_to_one_folder_lose_nothing(tmp_path, monkeypatch, locks, force):
    if not locks:
        monkeypatch.setattr(filelock.FileLock, "acquire", without_locks)
    outcomes = {}
    threads = [
        threading.Thread(target=writer, args=(tmp_path / "r", i, outcomes, force))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = sorted(int((path / "summary.json").read_text()) for path in tmp_path.iterdir())
    assert len(outcomes) == 12
    kept = [number for number, outcome in outcomes.items() if outcome == "beside"]
    written = [number for number, outcome in outcomes.items() if outcome == "written"]
    assert set(found) <= set(kept + written)
    assert set(kept) <= set(found)
    assert len(written) >= 1
    if not force:
        assert (len(written), found) == (1, sorted(kept + written))
        assert kept == [] or not locks
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


LIMITED = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from sfumato.cli import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 10, 900, 1100, 3000, 9000, 15000, 40000])
def test_a_disk_that_fills_up_in_the_middle_of_a_file(run, data, tmp_path, limit):
    """A real limit of the system on the size of files, in a process of its own."""
    words = ["fit", data, *ROLES, "--out", "r"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *words], capture_output=True, text=True
    )
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()
    kept = (tmp_path / "r.checkpoint").exists()
    assert ("--resume" in done.stderr) == kept
    assert run(*words, *(["--resume"] if kept else []))[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "r"]
