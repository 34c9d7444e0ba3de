"""How time and memory grow.

Exponents of a power law fitted to runs over a range of n, k, d or m, all else held.
"""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs

from sfumato import FuzzyCMeans, GaussianMixture, PairwiseProbabilisticClustering
from sfumato.similarity import coassociation, gaussian

from .timing import Line, medians

TITLE = "Growth: exponents of time and of peak memory (ours) beside those of the formula"


def run() -> list[Line]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [line for case in cases() for line in _lines(*case)]


def cases() -> list[tuple[str, tuple[int, ...], Callable[[int], Callable[[], Any]], float, float]]:
    """What grows, over which sizes, a function that prepares a run of that size, and the exponents
    of time and memory expected.
    """
    return [
        (
            "fuzzy c-means, n",
            (100_000, 200_000, 400_000, 800_000),
            lambda n: _fuzzy(n, 8, 8),
            1.0,
            1.0,
        ),
        ("fuzzy c-means, k", (8, 16, 32, 64), lambda k: _fuzzy(100_000, 8, k), 1.0, 1.0),
        ("fuzzy c-means, d", (16, 32, 64, 128), lambda d: _fuzzy(50_000, d, 8), 1.0, 1.0),
        (
            "diagonal mixture, n",
            (100_000, 200_000, 400_000, 800_000),
            lambda n: _mixture(n, 8, 8),
            1.0,
            1.0,
        ),
        ("pairwise, dense, n", (1000, 2000, 4000, 8000), _pairwise, 2.0, 2.0),
        (
            "co-association product, n",
            (20_000, 40_000, 80_000, 160_000),
            lambda n: _product(n, 20),
            1.0,
            1.0,
        ),
        (
            "co-association product, m",
            (20, 40, 80, 160, 320),
            lambda m: _product(40_000, m),
            1.0,
            1.0,
        ),
    ]


def _lines(
    what: str,
    sizes: tuple[int, ...],
    prepare: Callable[[int], Callable[[], Any]],
    in_time: float,
    in_memory: float,
) -> list[Line]:
    runs = {size: prepare(size) for size in sizes}
    times = medians({str(size): run for size, run in runs.items()}, repeats=5)
    seconds = exponent(sizes, [times[str(size)] for size in sizes])
    peaks = exponent(sizes, [_peak(run) for run in runs.values()])
    note = f"{what.rpartition(' ')[2]} from {sizes[0]} to {sizes[-1]}"
    return [
        Line(f"time, {what}", seconds, in_time, "formula", "", f"<= {in_time + 0.15:.2f}", note),
        Line(
            f"memory, {what}", peaks, in_memory, "formula", "", f"<= {in_memory + 0.15:.2f}", note
        ),
    ]


def exponent(sizes: Any, values: Any) -> float:
    """Slope of log values over log sizes."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def _peak(run: Callable[[], Any]) -> int:
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _blobs(n: int, d: int) -> np.ndarray:
    return make_blobs(n, n_features=d, centers=8, cluster_std=2.0, random_state=0)[0]


def _fuzzy(n: int, d: int, k: int) -> Callable[[], Any]:
    return partial(
        FuzzyCMeans(k, fuzzifier=2.0, n_init=1, max_iter=10, tol=0.0, random_state=0).fit,
        _blobs(n, d),
    )


def _mixture(n: int, d: int, k: int) -> Callable[[], Any]:
    return partial(
        GaussianMixture(
            k, covariance_type="diag", n_init=1, max_iter=20, tol=0.0, random_state=0
        ).fit,
        _blobs(n, d),
    )


def _pairwise(n: int) -> Callable[[], Any]:
    W = gaussian(_blobs(n, 8))
    model = PairwiseProbabilisticClustering(
        8, similarity="precomputed", n_init=1, max_iter=5, tol=0.0, random_state=0
    )
    return partial(model.fit, W)


def _product(n: int, m: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    C, V = coassociation(rng.integers(20, size=(n, m))), rng.random((n, 10))
    return lambda: C @ V
