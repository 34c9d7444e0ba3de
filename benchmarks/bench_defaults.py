"""Whole fits with default settings, from 150 objects to 100 000, beside what users would pick
instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.cluster import SpectralClustering as ScikitSpectral
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture import GaussianMixture as ScikitMixture

import sfumato
from sfumato import datasets, metrics

from .timing import Line, medians

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


def run() -> list[Line]:
    """One line for each model and size."""
    lines = []
    for n, p, k in SIZES:
        X, _, labels = datasets.make_gaussians(n, k, n_features=p, separation=6.0, random_state=0)
        for name, (peer_name, peer) in PEERS.items():
            if n <= MOST.get(name, n):
                lines.append(_line(name, peer_name, peer(k), X, labels, k))
    return lines


def _line(name: str, peer_name: str, peer: Any, X: np.ndarray, labels: Any, k: int) -> Line:
    arguments = () if name == "DirichletProcessMixture" else (k,)
    model = getattr(sfumato, name)(*arguments, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = medians(
            {"ours": lambda: model.fit(X), "peer": lambda: peer.fit(X)},
            repeats=3 if len(X) <= 10_000 else 1,
        )
        found = [_labels(fitted, X) for fitted in (model, peer)]
    ours, theirs = (metrics.adjusted_rand_index(labels, each) for each in found)
    note = f"adjusted Rand {ours:.3f}, peer {theirs:.3f}"
    what = f"{name}, {len(X)} x {X.shape[1]}, k = {k}"
    return Line(what, times["ours"], times["peer"], f"scikit-learn {peer_name}", note=note)


def _labels(model: Any, X: np.ndarray) -> np.ndarray:
    return model.labels_ if hasattr(model, "labels_") else model.predict(X)
