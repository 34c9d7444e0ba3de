"""A model of the cost of a pass on a cluster, beside measured passes of 1, 2 and 4 workers.

A pass of a model of features sends the state to every block, adds up the statistics of its rows,
and brings them back. Its time is modelled as

    passes * ( rounds * block + tasks * dispatch + blocks * statistics / bandwidth )

where ``block`` is what one process needs for the rows of a block, ``rounds`` how many blocks the
busiest worker has, ``dispatch`` the time that the scheduler spends on a task, one after the other,
and ``bandwidth`` what the client can take in. A task takes several blocks of its worker.
``simulated`` plays the same pass with tasks that take more or less time.
"""

from __future__ import annotations

import os
import time
import warnings
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from sfumato import FuzzyCMeans

from .timing import Line

TITLE = "A pass on a cluster: the model of its cost beside measured passes"
ITERATIONS = 10
MOST = 2**28  # bytes of features that a task takes, as in ``sfumato.dask``


class Cost(NamedTuple):
    """Seconds of a row, seconds of a task on the scheduler, and bytes a second to the client."""

    row: float
    dispatch: float
    bandwidth: float

    def of_a_pass(self, n: float, blocks: int, workers: int, tasks: int, sums: float) -> float:
        """Seconds of one pass over n objects in so many blocks, ``sums`` bytes of each."""
        rounds = -(-blocks // workers)
        return (
            rounds * (n / blocks) * self.row
            + tasks * self.dispatch
            + blocks * sums / self.bandwidth
        )

    def simulated(
        self, n: float, blocks: int, workers: int, tasks: int, sums: float, spread: float = 0.3
    ) -> float:
        """As ``of_a_pass``, task by task, with times that vary by ``spread`` (log-normal)."""
        rng = np.random.default_rng(0)
        seconds = (n / tasks) * self.row * np.exp(spread * rng.normal(size=tasks))
        free, handed, received, ends = np.zeros(workers), 0.0, 0.0, []
        for task, needed in enumerate(seconds):
            handed += self.dispatch
            free[task % workers] = max(free[task % workers], handed) + needed
            ends.append(free[task % workers])
        for end in sorted(ends):
            received = max(received, end) + (blocks / tasks) * sums / self.bandwidth
        return received


def n_tasks(n: float, d: int, workers: int) -> int:
    """Tasks of a pass on workers of one thread each."""
    return workers * -(-int(8 * n * d / workers) // MOST)


def run() -> list[Line]:
    if not find_spec("distributed"):
        print("bench_scale: pip install 'sfumato[dask]'")
        return []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measured()


def measured(n: int = 3_200_000, d: int = 8, k: int = 8, blocks: int = 16) -> list[Line]:
    """Passes of fuzzy c-means on 1, 2 and 4 worker processes."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    X = np.random.default_rng(0).normal(size=(n, d)) + 4 * (np.arange(n)[:, None] % k)
    cost, lines = None, []
    for workers in (1, 2, 4):
        options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
        with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
            there = client.persist(da.from_array(X, chunks=(n // blocks, d)))
            wait(there)
            seconds = passes(there, k)
            if cost is None:
                dispatch = _dispatch(client)
                row = (seconds - n_tasks(n, d, 1) * dispatch) / n
                cost = Cost(row, dispatch, 1e9)
        busy = min(workers, os.cpu_count() or 1)
        expected = cost.of_a_pass(n, blocks, busy, n_tasks(n, d, workers), 8 * k * (d + 1))
        note = f"{blocks} blocks; {busy} cores for {workers} workers"
        name = f"a pass of fuzzy c-means, n = {n}, d = {d}, k = {k}, {workers} workers"
        lines.append(Line(name, seconds, expected, "model", "s", "", note))
    assert cost is not None
    return lines + [_far(cost, k, d)]


def passes(X, k: int) -> float:
    """Seconds of a pass: of a fit of 10 iterations more, by iteration."""

    def fit(iterations: int) -> float:
        model = FuzzyCMeans(
            k, fuzzifier=2.0, n_init=1, max_iter=iterations, tol=0.0, random_state=0
        )
        start = time.perf_counter()
        model.fit(X)
        return time.perf_counter() - start

    fit(1)
    few = min(fit(2) for _ in range(3))
    return (min(fit(2 + ITERATIONS) for _ in range(3)) - few) / ITERATIONS


def _dispatch(client, tasks: int = 400) -> float:
    """Seconds that a task without work takes."""
    client.gather([client.submit(int, 0, pure=False) for _ in range(20)])
    start = time.perf_counter()
    client.gather([client.submit(int, i, pure=False) for i in range(tasks)])
    return (time.perf_counter() - start) / tasks


def _far(cost: Cost, k: int, d: int, n: float = 1e9, workers: int = 100) -> Line:
    """A thousand million objects on a hundred workers."""
    blocks, tasks, sums = 8 * workers, n_tasks(n, d, workers), 8 * k * (d + 1)
    expected = cost.of_a_pass(n, blocks, workers, tasks, sums)
    note = (
        f"not measured: {blocks} blocks, {tasks} tasks, {cost.row * 1e9:.0f} ns a row, "
        f"{cost.dispatch * 1e3:.2f} ms a task"
    )
    name = f"a pass of fuzzy c-means, n = {n:.0e}, d = {d}, k = {k}, {workers} workers: simulated"
    simulated = cost.simulated(n, blocks, workers, tasks, sums)
    return Line(name, simulated, expected, "model", "s", "", note)
