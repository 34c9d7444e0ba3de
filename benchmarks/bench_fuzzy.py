"""Fuzzy c-means: time of one iteration beside scikit-fuzzy and scikit-learn's k-means, and
iterations saved by extrapolation.
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from sfumato import FuzzyCMeans
from sfumato.data.constraints import Known
from sfumato.engine import loop

from .timing import Line, medians

TITLE = "Fuzzy c-means, n = 200 000, d = 16, k = 10"
N, D, K = 200_000, 16, 10


def data(dtype: Any = np.float64) -> np.ndarray:
    """Round clusters, some of them overlapping."""
    rng = np.random.default_rng(0)
    centers = 3.0 * rng.normal(size=(K, D))
    return (centers[rng.integers(K, size=N)] + rng.normal(size=(N, D))).astype(dtype)


class Iterations(NamedTuple):
    """``run(n)`` makes at most n iterations and says how many it made.

    The time of one is the difference of a long and a short run.
    """

    run: Callable[[int], Any]
    few: int = 2
    many: int = 32


def seconds(functions: dict[str, Iterations], repeats: int = 9) -> dict[str, float]:
    """Seconds of one iteration of each: the median over interleaved repeats.

    What is done once for all iterations drops out.

    Each runs once before it is timed, so that its threads are awake and those of the one before at
    rest.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            function.run(function.many)
            clock, made = [time.perf_counter()], []
            for n in (function.few, function.many):
                made.append(function.run(n))
                clock.append(time.perf_counter())
            times[name].append((clock[2] - 2 * clock[1] + clock[0]) / (made[1] - made[0]))
    return {name: statistics.median(values) for name, values in times.items()}


def step_of(X: np.ndarray) -> Callable[[int], Any]:
    """Ours: so many plain steps from one start."""
    model = FuzzyCMeans(K, fuzzifier=2.0, random_state=0)
    model._check_parameters()
    rows = model._in_coordinates(X, None, Known())
    return steps(model._step(rows), model._start(rows, np.random.default_rng(0)))


def steps(step: Callable[[Any], Any], first: Any) -> Callable[[int], Any]:
    """So many steps from one state."""

    def run(n: int) -> int:
        state = first
        for _ in range(n):
            state = step(state)[0]
        return n

    return run


def run() -> list[Line]:
    X, X32 = data(), data(np.float32)
    init = X[:K].copy()

    def lloyd(data: np.ndarray, first: np.ndarray) -> Callable[[int], Any]:
        return lambda n: (
            KMeans(K, init=first, n_init=1, algorithm="lloyd", max_iter=n, tol=0.0)
            .fit(data)
            .n_iter_
        )

    functions = {
        "ours": Iterations(step_of(X)),
        "ours32": Iterations(step_of(X32)),
        "lloyd": Iterations(lloyd(X, init)),
        "lloyd32": Iterations(lloyd(X32, init.astype(np.float32))),
    }
    if importlib.util.find_spec("skfuzzy"):
        cmeans = importlib.import_module("skfuzzy").cmeans
        functions["skfuzzy"] = Iterations(
            lambda n: cmeans(X.T, K, 2.0, error=0.0, maxiter=n, seed=0)[5], 1, 4
        )
    t = seconds(functions)
    note = "centring and set-up left out on both sides"
    lines = [
        Line(
            "one iteration, float64",
            1e3 * t["ours"],
            1e3 * t["lloyd"],
            "scikit-learn k-means (Lloyd)",
            "ms",
            "> 1",
            note,
        ),
        Line(
            "one iteration, float32",
            1e3 * t["ours32"],
            1e3 * t["lloyd32"],
            "scikit-learn k-means (Lloyd)",
            "ms",
            "> 1",
            note,
        ),
    ]
    if "skfuzzy" in t:
        lines.insert(
            0,
            Line(
                "one iteration, float64",
                1e3 * t["ours"],
                1e3 * t["skfuzzy"],
                "scikit-fuzzy",
                "ms",
                ">= 12",
                note,
            ),
        )
    return [*lines, *_whole(X), _acceleration()]


def _whole(X: np.ndarray) -> list[Line]:
    t = medians(
        {
            "ours": lambda: FuzzyCMeans(K, random_state=0).fit(X),
            "lloyd": lambda: KMeans(K, n_init=4, tol=0.0, random_state=0).fit(X),
        },
        1,
    )
    return [
        Line(
            "whole fit, 4 starts",
            t["ours"],
            t["lloyd"],
            "scikit-learn k-means",
            "s",
            "",
            "ours to tol = 1e-7 of the objective",
        )
    ]


def _acceleration() -> Line:
    """Steps to the same tolerance, with and without extrapolation, from the same start, on clusters
    that overlap.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(K, 4))[rng.integers(K, size=10_000)] * 2.0 + rng.normal(size=(10_000, 4))
    model = FuzzyCMeans(K, fuzzifier=2.0, random_state=0, max_iter=5000)
    model._check_parameters()
    rows = model._in_coordinates(X, None, Known())
    state = model._start(rows, np.random.default_rng(0))
    fast = model._run(rows, state, float(len(X)))
    plain = loop.iterate(model._step(rows), state, max_iter=5000, tol=model.tol)
    note = f"objective {fast.objective:.8g} and {plain.objective:.8g}"
    return Line(
        "iterations to tol, n = 10 000, d = 4",
        fast.n_iter,
        plain.n_iter,
        "plain alternation",
        "",
        ">= 2",
        note,
    )
