"""Whole fits on worker processes beside one process: the processor time of all of them.

Workers of one thread each; where there are more of them than cores they share these.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from sfumato import FuzzyCMeans, GaussianMixture

from .timing import Line

TITLE = "Whole fits on worker processes: processor time of all processes"
N_WORKERS = 4
REPEATS = 3


def run() -> list[Line]:
    if not find_spec("distributed"):
        print("bench_workers: pip install 'sfumato[dask]'")
        return []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return blocks()


def blocks(n: int = 2_000_000, d: int = 16, k: int = 10, n_blocks: int = 16) -> list[Line]:
    """Blocks of float32 that lie on the workers."""
    import dask.array as da
    from distributed import wait

    rng = np.random.default_rng(0)
    centers = 6 * rng.normal(size=(k, d))
    X = (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(np.float32)

    def spread(client: Any) -> Any:
        there = client.persist(da.from_array(X, chunks=(n // n_blocks, d)))
        wait(there)
        return there

    what = f"n = {n}, d = {d}, k = {k}, float32, {n_blocks} blocks on the workers"
    return beside_one_process(what, X, spread, k)


def beside_one_process(
    what: str, X: np.ndarray, spread: Callable[[Any], Any], k: int
) -> list[Line]:
    """Whole fits on 1, 2 and 4 workers of one thread each: processor time of all processes."""
    options = {"n_init": 1, "max_iter": 10, "tol": 0.0, "random_state": 0}
    models = {
        "fuzzy c-means": FuzzyCMeans(k, **options),
        "diagonal mixture": GaussianMixture(k, covariance_type="diag", **options),
    }
    lines = []
    for workers in (1, 2, 4):
        with cluster(workers) as client:
            processes = [os.getpid(), *client.run(os.getpid).values()]
            there = spread(client)
            for name, model in models.items():
                spent, seconds, objective, alone, wall, here = _timed(model, there, X, processes)
                note = (
                    f"at most 10 iterations; {seconds:.2f} s by the clock, one process {wall:.2f}; "
                    f"objectives differ by {abs(objective - here) / abs(here):.0e}"
                )
                said = f"{name}, {what}: processor time, {workers} workers, {os.cpu_count()} cores"
                peer = "one process, in memory"
                print(f"{said}: {spent:.2f}, one process {alone:.2f}", flush=True)
                lines.append(Line(said, spent, alone, peer, "s", ">= 0.77", note))
    return lines


def _timed(model: Any, there: Any, X: np.ndarray, processes: list[int]) -> tuple[float, ...]:
    """Processor time of all processes, seconds by the clock and objective, there and then here.

    Medians of fits in turn, after a first one of each, which reads what is compiled.
    """
    import psutil

    def spent() -> float:
        return sum(sum(psutil.Process(process).cpu_times()[:2]) for process in processes)

    times: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(REPEATS + 1):
        for own, data in zip(times, (there, X), strict=True):
            before, start = spent(), time.perf_counter()
            objective = model.fit(data).objective_
            own.append((spent() - before, time.perf_counter() - start, objective))
    return tuple(float(number) for own in times for number in np.median(own[1:], axis=0))


class cluster:
    """Worker processes of one thread each."""

    def __init__(self, n_workers: int = N_WORKERS) -> None:
        self.n_workers = n_workers

    def __enter__(self) -> Any:
        import distributed

        self.cluster = distributed.LocalCluster(
            n_workers=self.n_workers, threads_per_worker=1, processes=True, dashboard_address=None
        )
        self.client = distributed.Client(self.cluster)
        return self.client

    def __exit__(self, *_: Any) -> None:
        self.client.close()
        self.cluster.close()
