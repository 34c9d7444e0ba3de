"""Evidence accumulation: speed and memory, beside R's clue and with growing n."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris, make_blobs

from sfumato import ClusteringEnsemble, EvidenceAccumulation, PairwiseProbabilisticClustering
from sfumato.similarity import coassociation

from .timing import Line, medians

TITLE = "Evidence accumulation: speed and memory"

CLUE = """
suppressMessages(library(clue)); set.seed(1)
L <- as.matrix(read.csv("L.csv", header = FALSE))
ensemble <- cl_ensemble(list = lapply(1:ncol(L), function(b) as.cl_hard_partition(L[, b])))
seconds <- system.time(result <- cl_consensus(ensemble, method = "GV3", control = list(k = 3)))["elapsed"]
write.table(unclass(cl_membership(result))[, 1:3], "U.csv", row.names = FALSE, col.names = FALSE, sep = ",")
cat(seconds)
"""

LARGE = """
import sys, time
import numpy as np
from sfumato import EvidenceAccumulation
n, m, k = int(sys.argv[1]), 50, 10
rng = np.random.default_rng(0)
truth = rng.integers(0, k, n)
L = np.empty((n, m), dtype=np.int16)
for b in range(m):
    L[:, b] = 2 * np.where(rng.random(n) < 0.8, truth, rng.integers(0, k, n)) + rng.integers(0, 2, n)
start, busy = time.perf_counter(), time.process_time()
model = EvidenceAccumulation(k, ensemble="precomputed", random_state=0).fit(L)
seconds, busy = time.perf_counter() - start, time.process_time() - busy
peak = next((int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")), 0)
print(seconds, busy, peak / 2**20)
"""


def run() -> list[Line]:
    return [*beside_clue(), *explicit_matrix(), *growing(), *from_features()]


def beside_clue() -> list[Line]:
    """The same objective, co-association with its diagonal and scale 1, on Iris.

    Seconds, and how far ours lies below.
    """
    if shutil.which("Rscript") is None:
        return []
    L = ClusteringEnsemble(
        50, algorithms="k-means", n_clusters=(2, 6), subsample=1.0, random_state=0
    ).fit_transform(load_iris().data)
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder, "L.csv"), L + 1, fmt="%d", delimiter=",")
        done = subprocess.run(["Rscript", "-e", CLUE], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            return []
        theirs, seconds = np.loadtxt(Path(folder, "U.csv"), delimiter=","), float(done.stdout)
    C = coassociation(L).toarray()

    def error(U: np.ndarray) -> float:
        return float(np.sum((C - U @ U.T) ** 2))

    lines = []
    for what, consensus in {
        "the same objective": PairwiseProbabilisticClustering(
            scale=1.0, diagonal="include", n_init=1, tol=1e-6
        ),
        "without the diagonal": "coassociation",
    }.items():
        model = EvidenceAccumulation(
            3, ensemble="precomputed", consensus=consensus, n_init=1, random_state=0
        )
        ours = medians({"ours": lambda model=model: model.fit(L)})["ours"]
        found = error(model.memberships_)
        note = f"squared error {found:.3f}, clue {error(theirs):.3f}"
        lines.append(
            Line(f"Iris, 50 partitions, {what}", ours, seconds, "R clue, GV3", "s", ">= 20", note)
        )
    return lines


def explicit_matrix() -> list[Line]:
    """The explicit co-association of 5000 objects and 200 partitions, beside one product of one-hot
    labels.
    """
    L = np.random.default_rng(0).integers(0, 20, (5000, 200))
    H = np.concatenate([(column[:, None] == np.arange(20)) for column in L.T], axis=1).astype(
        np.float32
    )
    C = coassociation(L)
    seconds = medians({"ours": C.toarray, "product": lambda: H @ H.T / 200}, repeats=3)
    return [
        Line(
            "explicit co-association, n = 5000, m = 200",
            seconds["ours"],
            seconds["product"],
            "one-hot float32 product",
        )
    ]


def growing() -> list[Line]:
    """Labels given, m = 50, k = 10.

    Seconds and peak memory in a process of its own, and the exponent of n.
    """
    found = {}
    for n in (10_000, 100_000, 1_000_000):
        done = subprocess.run(
            [sys.executable, "-c", LARGE, str(n)], capture_output=True, text=True, check=True
        )
        found[n] = [float(word) for word in done.stdout.split()]
    exponent = np.polyfit(
        np.log(list(found)), np.log([seconds for seconds, _, _ in found.values()]), 1
    )[0]
    targets = {10_000: "", 100_000: "15 s", 1_000_000: "180 s, 2 GB"}
    return [
        Line(
            f"fit(L), n = {n:,}, m = 50, k = 10",
            seconds,
            float("nan"),
            "",
            "s",
            targets[n],
            f"{busy:.1f} s of processor time, peak {memory:.2f} GB",
        )
        for n, (seconds, busy, memory) in found.items()
    ] + [Line("exponent of n, 10^4 to 10^6", exponent, 1.1, "limit", "", "<= 1.1")]


def from_features() -> list[Line]:
    X, _ = make_blobs(100_000, n_features=16, centers=10, cluster_std=4.0, random_state=0)
    start = time.perf_counter()
    EvidenceAccumulation(10, ensemble=ClusteringEnsemble(50), random_state=0).fit(
        X.astype(np.float32)
    )
    return [
        Line(
            "fit(X), n = 100,000, d = 16, 50 partitions",
            time.perf_counter() - start,
            float("nan"),
            "",
            "s",
            "minutes",
        )
    ]
