"""Worker processes beside one process: similarities, files, and a worker killed in the middle."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import EvidenceAccumulation, PairwiseProbabilisticClustering

from .bench_workers import N_WORKERS, beside_one_process, cluster
from .timing import Line

TITLE = "A cluster of worker processes on this machine"


def run() -> list[Line]:
    if not find_spec("distributed"):
        print("bench_dask: pip install 'sfumato[dask]'")
        return []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*similarity(), *shards(), *consensus()]


def similarity(n: int = 20_000, k: int = 4) -> list[Line]:
    """Rows of W are made on the workers; one of them is killed during each fit."""
    import dask.array as da
    from distributed import wait

    import dask

    blocks = [
        da.from_delayed(dask.delayed(rows_of)(low, high, n, k), (high - low, n), np.float64)
        for low, high in bounds(n)
    ]
    settings = {"similarity": "precomputed", "random_state": 0}
    models = {
        "default solver": PairwiseProbabilisticClustering(k, n_init=1, **settings),
        "Baum-Eagon, 8 iterations": PairwiseProbabilisticClustering(
            k, solver="baum-eagon", n_init=1, max_iter=8, tol=0.0, **settings
        ),
    }
    with cluster() as client:
        W = client.persist(da.concatenate(blocks))
        wait(W)
        there = {
            name: with_a_loss(client, lambda model=model: model.fit(W).memberships_)
            for name, model in models.items()
        }
    W = np.concatenate([rows_of(low, high, n, k) for low, high in bounds(n)])
    lines = []
    for name, (U, seconds, killed) in there.items():
        start = time.perf_counter()
        alone = models[name].fit(W)
        note = (
            f"{seconds:.0f} s, a worker killed after {killed:.0f} s; one process "
            f"{time.perf_counter() - start:.0f} s"
        )
        difference = float(np.abs(U - alone.memberships_).max())
        lines.append(
            Line(
                f"dense similarity, n = {n}, {name}: largest difference",
                difference,
                1e-8,
                "limit",
                "",
                "<= 1e-8",
                note,
            )
        )
    return lines


def shards(n: int = 10_000_000, d: int = 8, k: int = 8, n_files: int = 40) -> list[Line]:
    """Files written once, read by the workers; one process has them in memory."""
    from sfumato.dask import shards as folder_of

    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, n, d, k, n_files)
        X = np.concatenate([np.load(path) for path in sorted(Path(folder).glob("*.npy"))])
        what = f"n = {n}, d = {d}, k = {k}, from {n_files} files"
        return beside_one_process(what, X, lambda _: folder_of(folder), k)


def consensus(n: int = 10_000_000, d: int = 16, k: int = 10, n_files: int = 40) -> list[Line]:
    """The default consensus of files, without and with a worker killed meanwhile."""
    from sfumato.dask import shards as folder_of

    model = EvidenceAccumulation(k, random_state=0)

    def fit(folder: str) -> np.ndarray:
        """What the answer says of the clusters, and of the first and the last objects."""
        U = model.fit(folder_of(folder)).memberships_
        few = [np.asarray(part) for part in (U[:1000], U[-1000:])]
        return np.concatenate([np.asarray(U.mean(axis=0))[None], *few])

    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, n, d, k, n_files)
        with cluster():
            start = time.perf_counter()
            whole = fit(folder)
            undisturbed = time.perf_counter() - start
        with cluster() as client:
            delay = undisturbed / 4
            lost, seconds, killed = with_a_loss(client, lambda: fit(folder), delay)
    note = (
        f"{n_files} files; {undisturbed:.0f} s undisturbed, {seconds:.0f} s with a worker killed "
        f"after {killed:.0f} s"
    )
    what = f"consensus of features, n = {n}, d = {d}, k = {k}, from files: largest difference"
    return [Line(what, float(np.abs(lost - whole).max()), 1e-8, "limit", "", "<= 1e-8", note)]


def write_files(folder: str, n: int, d: int, k: int, n_files: int) -> None:
    """Gaussians around k centers, in files of equal size."""
    centers = 6 * np.random.default_rng(0).normal(size=(k, d))
    for i in range(n_files):
        rng = np.random.default_rng(i + 1)
        part = centers[rng.integers(k, size=n // n_files)] + rng.normal(size=(n // n_files, d))
        np.save(Path(folder) / f"part-{i:03d}.npy", part)


def bounds(n: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, n, n // N_WORKERS), n]))


def rows_of(start: int, stop: int, n: int, k: int) -> np.ndarray:
    """Rows of a symmetric similarity, k blocks and objects more or less similar to all others, that
    every worker can make.
    """
    rng = np.random.default_rng(0)
    labels, weight = rng.integers(k, size=n), rng.random(n) / 2
    W = (0.6 * (labels == np.arange(k)[:, None]))[labels[start:stop]]
    for row, own in zip(W, weight[start:stop], strict=True):
        row += own * weight
    return W


def with_a_loss(
    client: Any, fit: Callable[[], Any], delay: float = 2.0
) -> tuple[Any, float, float]:
    """The result of a fit during which a worker process is killed, its seconds, and when that
    was.
    """
    start = time.perf_counter()
    killed = []

    def kill() -> None:
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        killed.append(time.perf_counter() - start)

    timer = threading.Timer(delay, kill)
    timer.start()
    result = fit()
    seconds = time.perf_counter() - start
    timer.join()
    assert killed[0] < seconds, "the fit was over before a worker was lost"
    return result, seconds, killed[0]
