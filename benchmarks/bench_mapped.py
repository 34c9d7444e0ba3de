"""Ten million objects from a memory-mapped file.

Time and peak memory of both models, each in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from .timing import Line

TITLE = "From a memory-mapped file, n = 10 000 000, d = 8, k = 5, float32"
N, D, K = 10_000_000, 8, 5
MODELS = {"FuzzyCMeans": {}, "GaussianMixture": {"covariance_type": "diag"}}


def write(path: Path) -> None:
    """Round clusters, a million objects at a time."""
    rng = np.random.default_rng(0)
    centers = 4.0 * rng.normal(size=(K, D))
    data = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N, D))
    for start in range(0, N, 1_000_000):
        data[start : start + 1_000_000] = centers[rng.integers(K, size=1_000_000)] + rng.normal(
            size=(1_000_000, D)
        )
    data.flush()


def fit(name: str, path: str) -> dict[str, float]:
    """Seconds, steps, the most memory that was the process's own, looked at ten times a second, and
    with pages of the file.
    """
    import sfumato

    data, own, done = np.load(path, mmap_mode="r"), [], threading.Event()
    watch = threading.Thread(
        target=lambda: [own.append(_status("RssAnon")) for _ in iter(lambda: done.wait(0.1), True)]
    )
    watch.start()
    start = time.perf_counter()
    model = getattr(sfumato, name)(K, random_state=0, **MODELS[name]).fit(data)
    seconds = time.perf_counter() - start
    done.set()
    watch.join()
    return {"seconds": seconds, "steps": model.n_iter_, "own": max(own), "peak": _status("VmHWM")}


def _status(name: str) -> float:
    """A figure of /proc/self/status in GB."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(name + ":")
    )
    return int(line.split()[1]) * 1024 / 1e9


def run() -> list[Line]:
    if not Path("/proc/self/status").exists():
        return []
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "objects.npy"
        write(path)
        for name in MODELS:
            command = [sys.executable, "-m", "benchmarks.bench_mapped", name, str(path)]
            figures = json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout
            )
            note = (
                f"{figures['seconds']:.0f} s, {figures['steps']} steps; {figures['peak']:.2f} GB "
                "with pages of the file"
            )
            lines.append(
                Line(
                    f"{name}: most memory of its own",
                    figures["own"],
                    1.5,
                    "the limit",
                    "GB",
                    "> 1",
                    note,
                )
            )
    return lines


if __name__ == "__main__":
    print(json.dumps(fit(*sys.argv[1:])))
