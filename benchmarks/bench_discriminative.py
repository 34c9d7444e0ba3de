"""Discriminative clustering at a million objects.

Gradient and online pass, and how near online comes to batch.

There is no packaged implementation to stand beside, so scikit-learn's k-means on the same data sets
the scale.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans

from sfumato import DiscriminativeClustering
from sfumato.array.rows import Rows
from sfumato.models.discriminative.classes import class_rows
from sfumato.models.discriminative.problem import Frame, Online, Problem, online_pass
from sfumato.models.discriminative.starts import starts

from .timing import Line, medians

TITLE = "Discriminative clustering (n = 1 000 000, d = 16, k = 20, 10 classes)"


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Forty Gaussian groups in 16 dimensions, four to a class."""
    rng = np.random.default_rng(seed)
    group = rng.integers(40, size=n)
    return 1.5 * rng.normal(size=(40, 16))[group] + rng.normal(size=(n, 16)), group % 10


def run() -> list[Line]:
    X, c = data(1_000_000)
    rows = Rows(X, class_rows(c, len(X))[0])
    problem = Problem(rows, Frame.of(rows), np.ones(10), 1.0, 0.0, float(len(X)))
    (centers,), bandwidth = starts(problem, 20, "auto", np.random.default_rng(0), 1)
    online, order = (
        Online.start(problem, centers, bandwidth),
        np.random.default_rng(0).permutation(len(X)),
    )
    times = medians(
        {
            "gradient": lambda: problem.gradient(
                problem.table(centers, bandwidth), centers, bandwidth
            ),
            "pass": lambda: online_pass(problem, online, bandwidth, 0.1, order),
            "k-means": lambda: KMeans(
                20, init=problem.frame.coordinates.outer(centers), n_init=1, max_iter=1, tol=0.0
            ).fit(X),
        },
        repeats=3,
    )
    lines = [
        Line(
            "objective and gradient",
            times["gradient"],
            times["k-means"],
            "k-means, one iteration with set-up",
            target="under 1.5 s",
        ),
        Line(
            "online pass",
            times["pass"],
            times["k-means"],
            "k-means, one iteration with set-up",
            target="under 30 s",
        ),
    ]
    return [*lines, *(gap(name, *problem) for name, problem in PROBLEMS.items())]


def groups(seed: int, k: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """k Gaussian groups in d dimensions, dealt out to the classes in turn."""
    rng = np.random.default_rng(seed)
    group = rng.integers(k, size=N)
    return 1.5 * rng.normal(size=(k, d))[group] + rng.normal(size=(N, d)), group % classes


def rings(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three rings around each other, a class each."""
    rng = np.random.default_rng(seed)
    c, angle = rng.integers(3, size=N), rng.uniform(0, 2 * np.pi, N)
    radius = c + 1 + 0.25 * rng.normal(size=N)
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)], c


def spread(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes along one feature, and another of large spread that says nothing."""
    rng = np.random.default_rng(seed)
    c = rng.integers(3, size=N)
    return np.c_[30 * rng.normal(size=N), (c - 1) * 3 + rng.normal(size=N)], c


def mixed(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Six classes whose probabilities change smoothly with five features."""
    rng = np.random.default_rng(seed)
    X, slopes = rng.normal(size=(N, 5)), rng.normal(size=(5, 6))
    P = np.exp(3 * np.tanh(X) @ slopes)
    return X, (P.cumsum(axis=1) > P.sum(axis=1, keepdims=True) * rng.random((N, 1))).argmax(axis=1)


N = 20_000
PROBLEMS = {
    "40 groups, 10 classes": (lambda: groups(0, 40, 16, 10), 20),
    "40 other groups": (lambda: groups(2, 40, 16, 10), 20),
    "24 groups, 6 classes": (lambda: groups(1, 24, 8, 6), 12),
    "rings": (lambda: rings(0), 12),
    "a feature of large spread": (lambda: spread(0), 6),
    "smooth probabilities": (lambda: mixed(0), 8),
}


def gap(name: str, make: Callable[[], tuple[np.ndarray, np.ndarray]], k: int) -> Line:
    """Objective of 20 online passes beside that of L-BFGS, best of four starts each."""
    X, c = make()
    values, seconds = {}, {}
    for algorithm, max_iter in (("online", 20), ("map", 500)):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values[algorithm] = (
                DiscriminativeClustering(
                    k, algorithm=algorithm, max_iter=max_iter, tol=1e-6, random_state=0
                )
                .fit(X, c)
                .objective_
            )
        seconds[algorithm] = time.process_time() - start
    below = (values["map"] - values["online"]) / abs(values["map"])
    return Line(
        f"20 online passes, n = {N}: {name}",
        seconds["online"],
        seconds["map"],
        "ours, L-BFGS",
        target="within 2 %",
        note=f"objective {100 * below:.1f} % below that of L-BFGS",
    )
