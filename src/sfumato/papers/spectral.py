"""Three experiments with spectral clustering.

Rounding of embeddings and learning of the similarity (Bach and Jordan 2006), and support vector
machines on cluster kernels with few labels (after Chapelle, Weston and Schoelkopf 2002).
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_circles, make_moons
from sklearn.svm import SVC

from .. import datasets
from ..array.labels import encode
from ..metrics import matched_accuracy
from ..models.spectral import SpectralClustering
from ..similarity import cluster_kernel, gaussian, knn, learn_scales, self_tuning
from ..similarity.learn import spectral_cost
from .shelf import Outcome, ResultTable, Shelf, included, mean_and_deviation
from .similarity import announced, fitted, origins


def rounding_table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Accuracy of the three roundings, and the cost |E E' - Pi|^2 / 2 of their partitions."""
    rows: list[Any] = []
    notes: list[str] = []
    for item, k in announced(shelf, notes):
        for method in ("normalized-cut", "ng-jordan-weiss", "bach-jordan"):
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                rounded = partial(fitted, SpectralClustering, method=method, n_init=1)
                found = [rounded(item.W, k, seed) for seed in range(n_seeds)]
            accuracy = mean_and_deviation([matched_accuracy(item.labels, each) for each in found])
            costs = mean_and_deviation([spectral_cost(item.W, encode(each))[0] for each in found])
            rows.append((item.name, method, accuracy, costs))
    notes += [
        "All are given W; Ng-Jordan-Weiss leaves out its diagonal. The source prints no figures "
        "to compare these with.",
        f"One start a seed, {n_seeds} seeds. J comes from the labels and the k leading "
        "eigenvectors of D^-1/2 W D^-1/2; lower is better.",
        *origins(shelf),
    ]
    columns = ("data", "rounding", "matched accuracy", "J of the partition")
    return Outcome(ResultTable("Rounding a spectral embedding", columns, rows, tuple(notes)))


def learning_table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Matched accuracy on new data, with equal and with learnt scales."""
    rows = []
    for name, make in (
        ("Moons", partial(make_moons, noise=0.08)),
        ("Circles", partial(make_circles, factor=0.5, noise=0.05)),
    ):
        for extra in (0, 1, 2, 4, 8):
            shelf.say(f"working on {name} with {extra} irrelevant features")
            pairs = [_one(make, extra, seed) for seed in range(n_seeds)]
            equal, learnt = zip(*pairs, strict=True)
            rows.append((name, str(extra), mean_and_deviation(equal), mean_and_deviation(learnt)))
    notes = (
        "Two data sets of 120 objects from one generator: the partition of the first is "
        "known, the second is clustered.",
        "Irrelevant features are normal with the spread of the others. Equal scales: the best of "
        "three bandwidths on the first set.",
        f"{n_seeds} pairs of data sets. The source shows curves of its own toy data, without "
        "numbers.",
    )
    columns = ("data", "irrelevant features", "equal scales", "learnt scales")
    return Outcome(ResultTable("Learning the scales of features", columns, rows, notes))


def _one(make: Callable[..., Any], extra: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    (X, y), (new, truth) = (_drawn(make, extra, rng) for _ in range(2))
    k = len(np.unique(y))
    widths = {width: _accuracy(X, y, k, 1.0 / width) for width in (0.1, 0.2, 0.4)}
    equal = _accuracy(new, truth, k, 1.0 / max(widths, key=lambda width: widths[width]))
    return equal, _accuracy(new, truth, k, learn_scales(X, y, max_iter=60))


def _drawn(
    make: Callable[..., Any], extra: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    X, labels = make(120, random_state=int(rng.integers(2**31)))
    return np.hstack([X, rng.normal(scale=X.std(), size=(120, extra))]), labels


def _accuracy(X: np.ndarray, y: np.ndarray, k: int, scales: np.ndarray | float) -> float:
    W = gaussian(X * scales, bandwidth=1.0)
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return float(matched_accuracy(y, fitted(SpectralClustering, W + 1e-12, k, 0)))


def cluster_kernel_table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Accuracy on the unlabelled objects, by kernel and number of labels per class."""
    rows, notes = [], []
    digits, moons = included("digits"), datasets.make_moons(400, noise=0.08, random_state=0)
    data = ("Digits", digits.X[:900], digits.labels[:900]), ("Moons", moons.evidence, moons.labels)
    for name, X, y in data:
        k = len(np.unique(y))
        notes.append(f"{name}: n = {len(y)}, {k} classes, graph of 10 nearest neighbours.")
        shelf.say(f"working on {name}")
        for kernel, K in _kernels(X, k):
            each = [[_machine_accuracy(K, y, m, i) for i in range(n_seeds)] for m in (1, 2, 5, 10)]
            rows.append((name, kernel, *map(mean_and_deviation, each)))
    notes += [
        f"Support vector machine with C = 100 on a precomputed kernel, {n_seeds} draws of the "
        "labelled objects.",
        "The spectrum is cut after twice as many eigenvectors as there are classes.",
        "The source reports text and digits of its own with 40 labels; its figures are not "
        "comparable.",
    ]
    columns = ("data", "kernel", *(f"{m} a class" for m in (1, 2, 5, 10)))
    return Outcome(ResultTable("Few labels: cluster kernels", columns, rows, tuple(notes)))


def _kernels(X: np.ndarray, k: int) -> list[tuple[str, np.ndarray]]:
    """The plain kernel, and the cluster kernel of the graph under every transfer function."""
    graph = knn(X, n_neighbors=10)
    found = [("plain", self_tuning(X))]
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for transfer in ("linear", "step", "linear-step", "polynomial", "poly-step"):
            kept = None if transfer in ("linear", "polynomial") else 2 * k
            found.append((transfer, cluster_kernel(graph, kept, transfer=transfer).toarray()))
    return found


def _machine_accuracy(K: np.ndarray, y: np.ndarray, m: int, seed: int) -> float:
    """Accuracy on the other objects of a support vector machine given ``m`` labels per class."""
    rng = np.random.default_rng(seed)
    known = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:m] for c in np.unique(y)])
    others = np.setdiff1d(np.arange(len(y)), known)
    machine = SVC(C=100.0, kernel="precomputed").fit(K[np.ix_(known, known)], y[known])
    return float((machine.predict(K[np.ix_(others, known)]) == y[others]).mean())
