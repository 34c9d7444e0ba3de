"""Whole fits of Gaussian mixtures beside ten starts of scikit-learn, one core, processor time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as Peer
from threadpoolctl import threadpool_limits

from sfumato import GaussianMixture, datasets

from .timing import Line

TITLE = "Whole fits of Gaussian mixtures beside ten starts, one core, processor time"
SIZES = ((150, 4, 3, 5), (1000, 8, 5, 5), (10_000, 16, 10, 3), (100_000, 16, 10, 1))


def _seconds(fits: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Medians of processor time, the fits in turn."""
    times: dict[str, list[float]] = {name: [] for name in fits}
    for _ in range(repeats):
        for name, fit in fits.items():
            start = time.process_time()
            fit()
            times[name].append(time.process_time() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def run() -> list[Line]:
    lines = []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for n, d, k, repeats in SIZES:
            X = datasets.make_gaussians(n, k, n_features=d, separation=6.0, random_state=0)[0]
            full = GaussianMixture(k, covariance_type="full", random_state=0)
            models = {
                "full": full,
                "families": GaussianMixture(k, random_state=0),
                "peer": Peer(k, n_init=10, random_state=0),
            }
            full.fit(X)
            seconds = _seconds(
                {name: (lambda m=m, X=X: m.fit(X)) for name, m in models.items()}, repeats
            )
            note = f"log-likelihood {full.score(X):.5f} and {models['peer'].score(X):.5f}"
            for name in ("full", "families"):
                what = f"{n} x {d}, k = {k}, " + ("full" if name == "full" else "family chosen")
                target, told = (">= 3", note) if name == "full" else ("", "")
                lines.append(
                    Line(
                        what,
                        seconds[name],
                        seconds["peer"],
                        "scikit-learn, full, ten starts",
                        target=target,
                        note=told,
                    )
                )
        searches = {
            "Iris": (load_iris().data, 0.42),
            "2000 x 4": (
                datasets.make_gaussians(2000, 5, n_features=4, separation=3.5, random_state=0)[0],
                4.8,
            ),
        }
        told = "R mclust 6.0.0 on another day, on other data of the size where it is not Iris"
        for name, (X, peer) in searches.items():
            search = GaussianMixture(range(1, 10), random_state=0)
            found = _seconds({"ours": lambda m=search, X=X: m.fit(X)}, 3)["ours"]
            what = f"{name}, 14 families x 9 sizes"
            lines.append(Line(what, found, peer, "R mclust", target=">= 1", note=told))
    return lines
