"""Whole fits with default settings, from 150 objects to 100 000, beside what users would pick
instead.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.cluster import SpectralClustering as ScikitSpectral
from sklearn.datasets import make_moons
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture import GaussianMixture as ScikitMixture

import sfumato
from sfumato import datasets, metrics

from .timing import Line

TITLE = "Whole fits, default settings"
SIZES = ((150, 4, 3), (1000, 8, 5), (10_000, 16, 10), (100_000, 16, 10))
PEERS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "FuzzyCMeans": ("KMeans, ten starts", lambda k: KMeans(k, n_init=10, random_state=0)),
    "GaussianMixture": (
        "GaussianMixture, ten starts",
        lambda k: ScikitMixture(k, n_init=10, random_state=0),
    ),
    "SpectralClustering": (
        "SpectralClustering, neighbours",
        lambda k: ScikitSpectral(k, affinity="nearest_neighbors", random_state=0),
    ),
    "PairwiseProbabilisticClustering": (
        "SpectralClustering, neighbours",
        lambda k: ScikitSpectral(k, affinity="nearest_neighbors", random_state=0),
    ),
    "EvidenceAccumulation": ("HDBSCAN", lambda k: HDBSCAN(copy=True)),
    "DirichletProcessMixture": (
        "BayesianGaussianMixture",
        lambda k: BayesianGaussianMixture(n_components=2 * k, max_iter=500, random_state=0),
    ),
}
MOST = {  # objects beyond which a fit of ours or of the peer takes minutes
    "SpectralClustering": 10_000,
    "PairwiseProbabilisticClustering": 10_000,
    "DirichletProcessMixture": 10_000,
}
BUDGET = {  # milliseconds of a fit of 150 objects
    "FuzzyCMeans": 10,
    "GaussianMixture": 40,
    "SpectralClustering": 15,
    "PairwiseProbabilisticClustering": 25,
    "EvidenceAccumulation": 60,
}
OTHERS = (  # models, objects, features and clusters of further sets
    (("EvidenceAccumulation",), 5000, 784, 10),
    (("PairwiseProbabilisticClustering", "SpectralClustering"), 10_000, 384, 40),
)
SHORT, LONG = 0.5, 5.0  # seconds of a fit up to which it is repeated five times, or once


def run() -> list[Line]:
    """One line for each model and size."""
    return [*gaussians(), *others(), graph()]


def gaussians() -> list[Line]:
    """Every model with a default for features, at every size."""
    lines = []
    for n, p, k in SIZES:
        X, _, labels = datasets.make_gaussians(n, k, n_features=p, separation=6.0, random_state=0)
        for name in PEERS:
            if n <= MOST.get(name, n):
                lines.append(_line(name, X, labels, k))
    return lines


def others() -> list[Line]:
    """Many features, and many clusters: centers about eight deviations from each other."""
    lines = []
    for names, n, p, k in OTHERS:
        rng = np.random.default_rng(0)
        centers, labels = rng.normal(size=(k, p)) * 8.0 / np.sqrt(2 * p), rng.integers(k, size=n)
        X = centers[labels] + rng.normal(size=(n, p))
        lines += [_line(name, X, labels, k) for name in names]
    return lines


def graph(n: int = 20_000) -> Line:
    """Two moons: neighbours in the plane."""
    X, labels = make_moons(n, noise=0.08, random_state=0)
    return _line("SpectralClustering", X, labels, 2)


def _line(name: str, X: np.ndarray, labels: Any, k: int) -> Line:
    peer_name, make = PEERS[name]
    arguments = () if name == "DirichletProcessMixture" else (k,)
    model, peer = getattr(sfumato, name)(*arguments, random_state=0), make(k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = _seconds(lambda: model.fit(X), lambda: peer.fit(X))
        found = [  # what HDBSCAN calls noise is one more cluster
            metrics.adjusted_rand_index(labels, _labels(each, X), missing="cluster")
            for each in (model, peer)
        ]
        note = f"adjusted Rand {found[0]:.3f}, peer {found[1]:.3f}"
        if name == "GaussianMixture":
            note += f"; log-likelihood {model.score(X):.4f}, peer {peer.score(X):.4f}"
    what = f"{name}, {len(X)} x {X.shape[1]}, k = {k}"
    target = f"<= {BUDGET[name]} ms" if len(X) == SIZES[0][0] and name in BUDGET else ""
    return Line(what, ours, theirs, f"scikit-learn {peer_name}", target=target, note=note)


def _seconds(*fits: Callable[[], Any]) -> list[float]:
    """Median seconds of interleaved fits; a long fit counts as it was the first time."""
    times = [[_once(fit)] for fit in fits]
    for repeat in range(5):
        for fit, seconds in zip(fits, times, strict=True):
            if seconds[0] <= SHORT or (repeat == 0 and seconds[0] <= LONG):
                seconds.append(_once(fit))
    return [statistics.median(seconds[1:] or seconds) for seconds in times]


def _once(fit: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fit()
    return time.perf_counter() - start


def _labels(model: Any, X: np.ndarray) -> np.ndarray:
    return model.labels_ if hasattr(model, "labels_") else model.predict(X)
