"""Few labels and many objects.

Support vector machines on cluster kernels (after Chapelle, Weston and Schoelkopf 2002).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.svm import SVC

from .. import datasets
from ..similarity import cluster_kernel, knn, self_tuning
from .outcome import Outcome, ResultTable, mean_and_deviation
from .shelf import Shelf

__all__ = ["table"]

TRANSFERS = ("linear", "step", "linear-step", "polynomial", "poly-step")
LABELS_PER_CLASS = (1, 2, 5, 10)


def table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Accuracy on the unlabelled objects, by kernel and by the number of labels in each class."""
    rows, notes = [], []
    for name, X, y in _data():
        k = len(np.unique(y))
        notes.append(f"{name}: n = {len(y)}, {k} classes, graph of 10 nearest neighbours.")
        shelf.say(f"working on {name}")
        for kernel, K in _kernels(X, k):
            scores = [
                mean_and_deviation([_accuracy(K, y, m, seed) for seed in range(n_seeds)])
                for m in LABELS_PER_CLASS
            ]
            rows.append((name, kernel, *scores))
    notes += [
        f"Support vector machine with C = 100 on a precomputed kernel, {n_seeds} draws of the "
        "labelled objects.",
        "The cut of the spectrum stands behind as many eigenvectors as there are classes, twice "
        "over.",
        "The source reports text and digits of its own with 40 labels; its figures are not "
        "comparable.",
    ]
    columns = ("data", "kernel", *(f"{m} a class" for m in LABELS_PER_CLASS))
    return Outcome(ResultTable("Few labels: cluster kernels", columns, rows, tuple(notes)))


def _data() -> list[tuple[str, np.ndarray, np.ndarray]]:
    digits = datasets.load_digits()
    moons = datasets.make_moons(400, noise=0.08, random_state=0)
    return [
        ("Digits", digits.X[:900], digits.labels[:900]),
        ("Moons", moons.evidence, moons.labels),
    ]


def _kernels(X: np.ndarray, k: int) -> list[tuple[str, np.ndarray]]:
    """The plain kernel, and the cluster kernel of the neighbour graph under every transfer
    function.
    """
    graph = knn(X, n_neighbors=10)
    found = [("plain", self_tuning(X))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for transfer in TRANSFERS:
            kept = None if transfer in ("linear", "polynomial") else 2 * k
            found.append((transfer, cluster_kernel(graph, kept, transfer=transfer).toarray()))
    return found


def _accuracy(K: np.ndarray, y: np.ndarray, m: int, seed: int) -> float:
    """Accuracy on all other objects of a machine that saw ``m`` labels of each class."""
    rng: Any = np.random.default_rng(seed)
    known = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:m] for c in np.unique(y)])
    others = np.setdiff1d(np.arange(len(y)), known)
    machine = SVC(C=100.0, kernel="precomputed").fit(K[np.ix_(known, known)], y[known])
    return float((machine.predict(K[np.ix_(others, known)]) == y[others]).mean())
