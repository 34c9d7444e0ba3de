"""The first fit of a new process, as a command line or a notebook has it, beside HDBSCAN.

Every figure is of a process of its own that has imported what it needs: nothing was called before.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np

from .timing import Line

TITLE = "The first call of a new process"
REPEATS = 3
MODELS = (
    "EvidenceAccumulation",
    "GaussianMixture",
    "StudentMixture",
    "SpectralClustering",
    "PairwiseProbabilisticClustering",
)
SHAPES = ((150, 4), (1000, 8), (10_000, 16))  # the first are the irises
LONGEST = 60.0  # seconds of a fit whose larger evidence is left out
CODE = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
name, n, d, k = sys.argv[1], *map(int, sys.argv[2:])
from sklearn.datasets import load_iris, make_blobs
X = load_iris().data if n == 150 else make_blobs(n, d, centers=5, cluster_std=3.0, random_state=0)[0]
began = time.perf_counter(), time.process_time()
if name == "HDBSCAN":
    from sklearn.cluster import HDBSCAN as Model
else:
    import sfumato
    Model = getattr(sfumato, name)
loaded = time.perf_counter(), time.process_time()
if name == "HDBSCAN":
    Model(copy=True).fit(X)
else:
    Model(*([k] if k else []), random_state=0).fit(X)
ended = time.perf_counter(), time.process_time()
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
print(json.dumps([ended[0] - loaded[0], ended[1] - loaded[1], loaded[0] - began[0], peak]))
"""


def run() -> list[Line]:
    lines = [_line("HDBSCAN", n, d, 0, math.nan) for n, d in SHAPES]
    peers = {shape: line.ours for shape, line in zip(SHAPES, lines, strict=True)}
    for name in MODELS:
        for k in (0, 3):
            for n, d in SHAPES:
                lines.append(_line(name, n, d, k, peers[n, d]))
                if lines[-1].ours > LONGEST:
                    break
    return lines


def _line(name: str, n: int, d: int, k: int, peer: float) -> Line:
    """Median seconds of the fit; processor seconds, seconds of the import and the peak of the memory
    as a note.
    """
    words = [sys.executable, "-c", CODE, name, str(n), str(d), str(k)]
    found = []
    while len(found) < REPEATS and sum(each[0] for each in found) < LONGEST:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    seconds, processor, loading, peak = np.median(found, axis=0)
    data = "iris" if n == 150 else f"{n} x {d}"
    note = f"{processor:.2g} s of processor, import {loading:.2g} s, peak {peak:.0f} MB"
    own = "" if name == "HDBSCAN" else f"({k or ''})"
    best = "" if math.isnan(peer) else "HDBSCAN"
    return Line(f"{name}{own}, {data}", float(seconds), peer, best, "s", "", note)
