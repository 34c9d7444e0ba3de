"""The default for features beside its peers.

Adjusted Rand index over 40 sets, true number of clusters given and unknown.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from sfumato import ClusteringEnsemble, EvidenceAccumulation

from .quality_sets import ASIDE, CHOOSING, make
from .timing import Line

TITLE = "Quality of the default for features: adjusted Rand index over 40 sets"
MOST = 20  # clusters that a search over k tries, for all that search

OURS = ("old default", "ours, eigengap")  # no peers

Method = Callable[[np.ndarray, int], np.ndarray]


def _genie(X: np.ndarray, k: int) -> np.ndarray:
    from genieclust import Genie  # its licence keeps it out of our dependencies

    return Genie(n_clusters=k).fit_predict(X)


def _density(X: np.ndarray, k: int) -> np.ndarray:
    return HDBSCAN(min_cluster_size=max(5, len(X) // 50)).fit_predict(X)


def _best_mixture(X: np.ndarray, k: int) -> np.ndarray:
    """The mixture of largest BIC."""
    fits = [GaussianMixture(j, random_state=0).fit(X) for j in range(1, MOST + 1)]
    return min(fits, key=lambda fit: fit.bic(X)).predict(X)


KNOWN: dict[str, Method] = {
    "ours": lambda X, k: EvidenceAccumulation(k, random_state=0).fit_predict(X),
    "old default": lambda X, k: EvidenceAccumulation(
        k, ensemble=ClusteringEnsemble(), random_state=0
    ).fit_predict(X),
    "Genie": _genie,
    "HDBSCAN": _density,
    "SpectralClustering": lambda X, k: SpectralClustering(
        k, affinity="nearest_neighbors", random_state=0
    ).fit_predict(X),
    "GaussianMixture": lambda X, k: GaussianMixture(k, n_init=3, random_state=0).fit_predict(X),
    "KMeans": lambda X, k: KMeans(k, n_init=5, random_state=0).fit_predict(X),
}
UNKNOWN: dict[str, Method] = {
    "ours": lambda X, k: EvidenceAccumulation("auto", random_state=0).fit_predict(X),
    "ours, eigengap": lambda X, k: EvidenceAccumulation(
        "auto", criterion="eigengap", random_state=0
    ).fit_predict(X),
    "HDBSCAN": _density,
    "GaussianMixture, BIC": _best_mixture,
}


def scores(methods: dict[str, Method], names: list[str]) -> dict[str, np.ndarray]:
    """Adjusted Rand index and number of clusters less the true one, (methods, 2), for every set."""
    found = {}
    for name in names:
        X, y = make(name)
        k = len(np.unique(y))
        rows = []
        for method in methods.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    labels = method(X, k)
                except ImportError:
                    labels = np.zeros(len(X), dtype=int)
            rows.append((adjusted_rand_score(y, labels), len(set(labels) - {-1}) - k))
        found[name] = np.array(rows)
        if os.environ.get("VERBOSE"):
            print(name, X.shape, k, *(f"{a:.3f}/{int(b):+d}" for a, b in rows), flush=True)
    return found


def _lines(title: str, methods: dict[str, Method], half: dict, choosing: str) -> list[Line]:
    found = scores(methods, list(half))
    others = list(methods)[1:]
    lines = []
    for name, rows in found.items():
        peers = np.where(np.isin(others, OURS), -1.0, rows[1:, 0])
        best = int(np.argmax(peers))
        rest = "  ".join(
            f"{other} {row[0]:.2f}" for other, row in zip(others, rows[1:], strict=True)
        )
        lines.append(
            Line(
                f"{title}, {name}", rows[0, 0], rows[1 + best, 0], others[best], "", "", rest, True
            )
        )
    mean = np.mean(list(found.values()), axis=0)[:, 0]
    right = np.mean([rows[:, 1] == 0 for rows in found.values()], axis=0)
    for other, value, share in zip(others, mean[1:], right[1:], strict=True):
        note = "" if title == "true k" else f"right k {right[0]:.0%}, {other} {share:.0%}"
        lines.append(
            Line(
                f"{title}, mean of the {choosing}", mean[0], value, other, "", "> +.02", note, True
            )
        )
    return lines


def run() -> list[Line]:
    lines = []
    for title, methods in (("true k", KNOWN), ("k unknown", UNKNOWN)):
        lines += _lines(title, methods, CHOOSING, "20 sets that constants were chosen on")
        lines += _lines(title, methods, ASIDE, "20 sets kept aside")
    return lines
