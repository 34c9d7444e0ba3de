"""Fits with links beside fits without, in every model that takes them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs
from threadpoolctl import threadpool_limits

import sfumato

from .timing import Line

TITLE = "Links"
DRAWS = 5
SIZES = (150, 300, 2000)
MODELS: dict[str, Callable[[], Any]] = {
    "PairwiseProbabilisticClustering": lambda: sfumato.PairwiseProbabilisticClustering(3),
    "CompletelyPositiveFactorization": lambda: sfumato.CompletelyPositiveFactorization(3),
    "SpectralClustering": lambda: sfumato.SpectralClustering(3),
    "EvidenceAccumulation": lambda: sfumato.EvidenceAccumulation(3),
    "FuzzyCMeans": lambda: sfumato.FuzzyCMeans(3),
    "GaussianMixture": lambda: sfumato.GaussianMixture(3),
    "StudentMixture": lambda: sfumato.StudentMixture(3),
    "FactorMixture": lambda: sfumato.FactorMixture(3, n_factors=1),
    "MixedMixture": lambda: sfumato.MixedMixture(3),
    "DirectionalMixture": lambda: sfumato.DirectionalMixture(3),
    "DirichletProcessMixture": lambda: sfumato.DirichletProcessMixture(),
}


def run() -> list[Line]:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        return [_line(name, n) for n in SIZES for name in MODELS]


def _line(name: str, n: int) -> Line:
    """Milliseconds of processor time in all draws: overlapping groups, a link for ten objects."""
    linked, free, broken = 0.0, 0.0, 0
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        X, y = make_blobs(n, 4, centers=3, cluster_std=2.5, random_state=seed)
        pairs = rng.choice(n, (n // 10, 2), replace=False)
        same = y[pairs[:, 0]] == y[pairs[:, 1]]
        links = {"must_link": pairs[same], "cannot_link": pairs[~same]}
        model = MODELS[name]().set_params(random_state=seed)
        free += _seconds(model, X, {})
        linked += _seconds(model, X, links)
        together = model.labels_[pairs[:, 0]] == model.labels_[pairs[:, 1]]
        broken += int((together != same).sum())
    return Line(
        f"{name}, n {n}, {n // 10} links",
        1000.0 * linked,
        1000.0 * free,
        "without links",
        "ms",
        ">= 0.33",
        f"{broken} broken of {DRAWS * (n // 10)}",
    )


def _seconds(model: Any, X: np.ndarray, links: dict[str, np.ndarray]) -> float:
    """Median processor time of three fits."""
    model.fit(X, **links)
    times = []
    for _ in range(3):
        start = time.process_time()
        model.fit(X, **links)
        times.append(time.process_time() - start)
    return float(np.median(times))
