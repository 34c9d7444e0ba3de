"""The command line as its users meet it.

a process that can be killed, that must be quick to help, and that must not fill the memory.
"""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sfumato.cli import main

SFUMATO = [sys.executable, "-m", "sfumato"]


def test_help_imports_nothing_heavy():
    heavy = (
        "{'numpy', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'rich', 'jinja2', 'skops', "
        "'pyarrow'}"
    )
    code = (
        "import sys; from sfumato.cli import main; main(['--help']); main(['fit', '--help']); "
        f"sys.exit(str({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "set()"
    assert "Usage: sfumato fit" in done.stdout


@pytest.mark.slow
def test_kill_9_in_the_middle_then_resume(tmp_path):
    """Kept every moment, killed without warning, taken up again.

    Byte for byte the memberships of a run left alone.
    """
    X = np.random.default_rng(0).normal(size=(2000, 4))
    np.save(tmp_path / "x.npy", X)
    words = [
        "fit",
        "x.npy",
        "--model",
        "fuzzy-c-means",
        "--clusters",
        "6",
        "--seed",
        "1",
        "--set",
        "n_init=2",
        "--set",
        "tol=1e-13",
        "--set",
        "max_iter=100",
    ]
    often = (
        "from sfumato.io.results import Checkpoint; Checkpoint.__init__.__kwdefaults__['every'] "
        "= 0.0; "
    )
    slow = "import time; from sfumato import FuzzyCMeans; u = FuzzyCMeans._update; "
    slow += "FuzzyCMeans._update = lambda *a: (time.sleep(0.01), u(*a))[1]; "
    command = [sys.executable, "-c", often + slow + "import sfumato.__main__"]
    process = subprocess.Popen(
        [*command, *words, "--out", "cut"], cwd=tmp_path, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "cut.checkpoint").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "cut").exists()
    resumed = subprocess.run(
        [*SFUMATO, *words, "--out", "cut", "--resume"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (resumed.returncode, "going on after" in resumed.stderr) == (0, True), resumed.stderr
    assert (
        subprocess.run(
            [*SFUMATO, *words, "--out", "whole"], cwd=tmp_path, capture_output=True
        ).returncode
        == 0
    )
    assert (tmp_path / "cut/memberships.csv").read_bytes() == (
        tmp_path / "whole/memberships.csv"
    ).read_bytes()
    assert not [path for path in tmp_path.iterdir() if "checkpoint" in path.name]


@pytest.mark.slow
def test_a_terminal_shows_a_progress_bar(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(30_000)))
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*SFUMATO, "fit", "x.csv", "-m", "fcm", "-k", "3", "--out", "r"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:
        pass
    assert process.wait() == 0
    for words in ("reading", "fitting fuzzy-c-means", "iteration", "writing"):
        assert words.encode() in seen


def write_million(path, n):
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("id,a,b,c,d\n")
        for start in range(0, n, 50_000):
            rows = rng.normal(size=(50_000, 4)) + 8 * np.eye(4)[rng.integers(3, size=50_000)]
            file.writelines(
                f"cell-{start + i},{r[0]:.4f},{r[1]:.4f},{r[2]:.4f},{r[3]:.4f}\n"
                for i, r in enumerate(rows.tolist())
            )


@pytest.mark.slow
def test_a_million_rows_in_bounded_memory(tmp_path):
    """Under 2 GB at the peak, and every id comes out, in order."""
    n = 1_000_000
    write_million(tmp_path / "big.csv", n)
    done = subprocess.run(
        [
            *SFUMATO,
            "fit",
            "big.csv",
            "--model",
            "fuzzy-c-means",
            "--clusters",
            "3",
            "--out",
            "r",
            "--json",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_objects"] == n
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"peak {peak:.0f} MiB")
    assert peak < 2000
    with (tmp_path / "r" / "memberships.csv").open() as file:
        next(file)
        for number, line in enumerate(file):
            assert line.startswith(f"cell-{number},")
    assert number == n - 1


@pytest.mark.slow
def test_hostile_files_are_refused_before_anything_heavy_is_loaded(tmp_path):
    """The command as a process: exit 2, one line, nothing left behind.

    Scikit-learn is not even imported.
    """
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "io"))
    from test_io_reading import HOSTILE

    light = (
        "import sys; from sfumato.cli import main; code = main(); assert 'sklearn' not in "
        "sys.modules; sys.exit(code)"
    )
    for name, (content, _) in HOSTILE.items():
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-c", light, "fit", name], cwd=folder, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), (
            name,
            done.stderr,
        )
        assert [path.name for path in folder.iterdir()] == [name]


def test_main_in_this_process_agrees_with_the_entry_point(capsys):
    assert main(["--version"]) == 0
    here = capsys.readouterr().out
    assert subprocess.run([*SFUMATO, "--version"], capture_output=True, text=True).stdout == here
