"""Ctrl-C and SIGTERM, wherever they come.

Soon over, no traceback, and what --resume promises is there.
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from sfumato.cli import main
from sfumato.cli.main import Stop, listening, rescued

FAST = (
    "from sfumato.io.results import Checkpoint; Checkpoint.__init__.__kwdefaults__['every'] = 0.0; "
)
FCM = ("-m", "fuzzy-c-means", "-k", "3")
MAIN = "import sys; from sfumato.cli import main; sys.exit(main())"


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) + 4 * np.eye(3)[np.arange(200) % 3]
    kinds = "abc"
    rows = "".join(f"{a},{b},{c},{kinds[i % 3]}\n" for i, (a, b, c) in enumerate(X.tolist()))
    (tmp_path / "x.csv").write_text("a,b,c,kind\n" + rows)
    return tmp_path


IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
import sfumato.__main__
"""


@pytest.mark.parametrize(
    "name",
    ["sfumato.cli", "typer", "numpy", "numpy._core.multiarray", "scipy.sparse"],
)
def test_during_an_import_there_is_no_traceback(table, name):
    command = [
        sys.executable,
        "-c",
        IMPORT.format(name=name),
        "fit",
        "x.csv",
        "--class-column",
        "kind",
    ]
    done = subprocess.run(command, cwd=table, capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1
    assert os.listdir(table) == ["x.csv"]


DEAF = """
import hashlib, sys, threading
from sfumato import FuzzyCMeans
update, count = FuzzyCMeans._update, 0

def deaf(*arguments):
    global count
    count += 1
    if count == 5:
        print("deaf", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2 * 10**8)  # minutes in C, where no signal is heard
    return update(*arguments)

FuzzyCMeans._update = deaf
from sfumato.cli import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_call_that_lets_nothing_through_is_ended_with_a_checkpoint(table, number, code):
    # With this rule the steps of few objects are single calls, too
    rule = ["--set", "metric=mahalanobis", "--set", "tol=1e-12"]
    words = ["fit", "x.csv", "--drop", "kind", *FCM, *rule, "--out"]
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF, *words, "r"],
        cwd=table,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "deaf\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "--resume goes on from here" in err) == (code, True), err
    assert sorted(os.listdir(table)) == ["r.checkpoint", "x.csv"]
    for more in (["r", "--resume"], ["whole"]):
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *words, *more], cwd=table, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert ("continuing after" in done.stderr) == ("--resume" in more)
    assert (table / "r/memberships.csv").read_bytes() == (
        table / "whole/memberships.csv"
    ).read_bytes()


@pytest.mark.slow
def test_the_sampler_hears_at_once(table):
    """Chains of minutes in threads of their own.

    The process ends, and the sweeps so far are kept.
    """
    words = [
        "fit",
        "x.csv",
        "--drop",
        "kind",
        "-m",
        "dirichlet-process",
        "--set",
        "inference=gibbs",
        "--set",
        "burn_in=1000000",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", FAST + MAIN, *words, "--out", "r"],
        cwd=table,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (table / "r.checkpoint").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "--resume goes on from here" in err) == (130, True), err


def test_a_stop_that_is_not_heard_is_carried_out_by_the_watch(monkeypatch, capsys):
    """The thread beside the work keeps what there is, says so, and ends the process.

    Heard in time, it does nothing.
    """
    ended = []
    monkeypatch.setattr(Stop, "patience", 0.05)
    monkeypatch.setattr(os, "_exit", ended.append)
    with listening(), rescued(lambda: "all is kept"):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(len(hashlib.pbkdf2_hmac("sha256", b"", b"", 1_500_000)))
    assert (ended, capsys.readouterr().err) == ([143], "sfumato: all is kept\n")
    with listening(), pytest.raises(KeyboardInterrupt), rescued(lambda: "kept"):
        signal.raise_signal(signal.SIGINT)
    assert ended == [143]


def test_an_error_that_a_library_makes_of_the_stop_is_the_stop(table, monkeypatch, capsys):
    from sfumato import FuzzyCMeans

    def convert(self, X, y=None, sample_weight=None):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt as stop:
            raise ImportError("numpy could not be imported") from stop

    monkeypatch.chdir(table)
    monkeypatch.setattr(FuzzyCMeans, "fit", convert)
    assert main(["fit", "x.csv", "--drop", "kind", *FCM]) == 130
    assert capsys.readouterr().err == "sfumato: stopped\n"


def test_signals_are_given_back_and_ignored_ones_stay_ignored(capsys):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert main(["--version"]) == 0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with listening() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.signal is None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, earlier)


def test_another_thread_than_the_first_may_run_a_command(capsys):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["--version"])))
    thread.start()
    thread.join()
    assert codes == [0]
