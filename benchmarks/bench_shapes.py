"""The pairwise model on features.

Adjusted Rand index on shapes and real data, true number of clusters given.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from sfumato import PairwiseProbabilisticClustering
from sfumato.numerics import simplex

from .timing import Line

TITLE = "Pairwise model on features: adjusted Rand index, mean of five draws or seeds"


def data_sets(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    stretched, labels = make_blobs(500, random_state=170 + seed)
    wine = load_wine(return_X_y=True)
    return {
        "moons": make_moons(500, noise=0.07, random_state=seed),
        "circles": make_circles(500, noise=0.05, factor=0.5, random_state=seed),
        "anisotropic blobs": (stretched @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels),
        "varied blobs": make_blobs(500, cluster_std=[1.0, 2.5, 0.5], random_state=170 + seed),
        "Iris": load_iris(return_X_y=True),
        "wine": (StandardScaler().fit_transform(wine[0]), wine[1]),
        "digits": load_digits(return_X_y=True),
    }


def scores(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float, float]:
    """Ours, scikit-learn's spectral clustering, and the pairwise model on the raw graph from random
    starts.
    """
    k = len(np.unique(y))
    random = simplex.draw(np.random.default_rng(seed), (4, len(X), k))
    models = (
        PairwiseProbabilisticClustering(k, random_state=seed),
        SpectralClustering(k, affinity="nearest_neighbors", random_state=seed),
        PairwiseProbabilisticClustering(k, similarity="knn", init=random),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tuple(adjusted_rand_score(y, model.fit(X).labels_) for model in models)  # type: ignore[return-value]


def run() -> list[Line]:
    found = {
        name: np.mean([scores(*data_sets(seed)[name], seed) for seed in range(5)], axis=0)
        for name in data_sets(0)
    }
    mean = np.mean(list(found.values()), axis=0)
    peer = "SpectralClustering, kNN"
    lines = [
        Line(name, ours, other, peer, "", "", f"raw graph {raw:.3f}", True)
        for name, (ours, other, raw) in found.items()
    ]
    lines.append(Line("mean", mean[0], mean[1], peer, "", ">= 1", "", True))
    lines.append(
        Line(
            "mean",
            mean[0],
            mean[2],
            "raw graph, random starts",
            "",
            "+.25",
            f"+{mean[0] - mean[2]:.3f}",
            True,
        )
    )
    return lines
