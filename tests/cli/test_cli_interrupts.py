"""Ctrl-C in the middle of every model: the command is soon over, with the exit code of a stop.

The limit is generous, for machines with much else to do. How long it took is printed (``pytest -m
slow -s``), and docs/trust.md has what was measured.
"""

import os
import signal
import sys
import time

import numpy as np
import pytest

pytest.importorskip("typer")

from kills import _CONTEXT

from sfumato.models import MODELS

LIMIT = 20.0  # seconds; two are promised, on a machine that has time
LONG = {  # words with which the fit of a model takes minutes
    "pairwise": ["n_init=400", "tol=1e-300", "max_iter=100000"],
    "consensus": ["n_init=100000", "tol=1e-300", "max_iter=100000"],
    "consensus, linkage": ["consensus=average"],
    "completely-positive": ["n_init=100000", "tol=1e-300", "max_iter=100000"],
    "spectral": ["n_init=100000"],
    "fuzzy-c-means": ["n_init=100000"],
    "gaussian-mixture": ["n_init=100000"],
    "student-mixture": ["n_init=100000"],
    "factor-mixture": ["n_init=100000"],
    "directional-mixture": ["n_init=100000"],
    "mixed-mixture": ["n_init=100000"],
    "dirichlet-process": ["n_init=100000"],
    "dirichlet-process, gibbs": ["inference=gibbs", "burn_in=1000000"],
    "discriminative": ["n_init=100000"],
    "information-maximization": ["n_init=100000"],
    "information-bottleneck": ["n_init=100000"],
}


def _command(folder, words):
    from sfumato.cli import main

    os.chdir(folder)
    sys.stderr = open("stderr", "w")  # noqa: SIM115 (for the life of the process)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    code = main(words)
    sys.stderr.flush()
    os._exit(code)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupts")
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(4000, 6)) + 2.0 * np.eye(6)[np.arange(4000) % 3]).round(3)
    rows = "".join(f"{','.join(map(str, x))},{'abc'[i % 3]}\n" for i, x in enumerate(X.tolist()))
    (folder / "x.csv").write_text("a,b,c,d,e,f,kind\n" + rows)
    return folder


def test_every_model_of_the_command_line_is_here():
    assert {model.command for model in MODELS if model.command} == {
        name.partition(",")[0] for name in LONG
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_it_ends_soon_after_ctrl_c(table, name):
    settings = [word for setting in LONG[name] for word in ("--set", setting)]
    out = f"out {name}"
    words = ["fit", "x.csv", "-m", name.partition(",")[0], "-k", "8", *settings, "--out", out]
    words += (["--class-column"] if name == "discriminative" else ["--drop"]) + ["kind"]
    process = _CONTEXT.Process(target=_command, args=(str(table), words))
    process.start()
    while process.is_alive() and not (table / f".{out}.lock").exists():
        time.sleep(0.01)
    time.sleep(4.0)  # into the fit
    said = (table / "stderr").read_text()
    assert process.is_alive(), said
    os.kill(process.pid, signal.SIGINT)
    start = time.monotonic()
    process.join(LIMIT)
    took = time.monotonic() - start
    alive = process.is_alive()
    if alive:
        process.kill()
        process.join()
    print(f"{name}: over after {took:.2f} s")
    said = (table / "stderr").read_text()
    assert not alive, f"still there after {LIMIT} s"
    assert process.exitcode == 130, said
    assert "Traceback" not in said
    assert not (table / out).exists()
