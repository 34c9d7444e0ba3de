"""Measures of clusterings at a million objects, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import sklearn.metrics as peer

from sfumato import metrics
from sfumato.datasets import make_memberships

from .timing import Line, medians

TITLE = "Metrics: n = 1 000 000 objects, k = 20 clusters"
N, K = 1_000_000, 20
HARD = {
    "rand_index": peer.rand_score,
    "adjusted_rand_index": peer.adjusted_rand_score,
    "normalized_mutual_information": peer.normalized_mutual_info_score,
    "adjusted_mutual_information": peer.adjusted_mutual_info_score,
}
SOFT = [
    "rand_index",
    "adjusted_rand_index",
    "brier_score",
    "matched_accuracy",
    "normalized_mutual_information",
    "adjusted_mutual_information",
]


def run() -> list[Line]:
    U, V = (make_memberships(N, K, random_state=seed) for seed in (0, 1))
    first, second = V.argmax(axis=1), U.argmax(axis=1)
    lines = []
    for name, theirs in HARD.items():
        ours = getattr(metrics, name)
        difference = abs(ours(first, second) - theirs(first, second))
        times = medians(
            {"ours": lambda f=ours: f(first, second), "peer": lambda f=theirs: f(first, second)},
            repeats=3,
        )
        lines.append(
            Line(
                f"{name}, labels",
                times["ours"],
                times["peer"],
                "scikit-learn",
                note=f"difference {difference:.1e}",
            )
        )
    for name in SOFT:
        ours, theirs = getattr(metrics, name), HARD.get(name, peer.adjusted_rand_score)
        times = medians(
            {"ours": lambda f=ours: f(V, U), "peer": lambda f=theirs: f(first, second)}, repeats=3
        )
        peer_name = f"scikit-learn {theirs.__name__}, labels only"
        lines.append(
            Line(
                f"{name}, memberships", times["ours"], times["peer"], peer_name, target="under 1 s"
            )
        )
    lines.append(_silhouette())
    return lines


def _silhouette() -> Line:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(10_000, 8)), rng.integers(5, size=10_000)
    functions = {
        "ours": lambda: metrics.fuzzy_silhouette(X, labels),
        "peer": lambda: peer.silhouette_score(X, labels),
    }
    times = medians(functions, repeats=3)
    return Line(
        "fuzzy_silhouette, n = 10 000",
        times["ours"],
        times["peer"],
        "scikit-learn",
        note="blocks of 64 MB",
    )
