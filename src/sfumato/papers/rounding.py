"""Rounding of spectral embeddings (Bach and Jordan 2006).

Weighted k-means beside the older ways, and the cost J.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..metrics import matched_accuracy
from ..models.spectral.estimator import SpectralClustering
from .outcome import Outcome, ResultTable, mean_and_deviation
from .shelf import Shelf
from .similarity import announced, origins

__all__ = ["table"]

METHODS = ("normalized-cut", "ng-jordan-weiss", "bach-jordan")


def table(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """Accuracy of the three roundings, one start a seed, and the cost J = |E E' - Pi|^2 / 2 of the
    partition each one finds.
    """
    rows: list[Any] = []
    notes: list[str] = []
    for item, k in announced(shelf, notes):
        for method in METHODS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                models = [
                    SpectralClustering(
                        k, similarity="precomputed", method=method, n_init=1, random_state=seed
                    ).fit(item.W)
                    for seed in range(n_seeds)
                ]
            accuracy = [matched_accuracy(item.labels, model.labels_) for model in models]
            costs = [partition_cost(item.W, model.labels_) for model in models]
            rows.append(
                (item.name, method, mean_and_deviation(accuracy), mean_and_deviation(costs))
            )
    notes += [
        "All are given W; Ng-Jordan-Weiss leaves out its diagonal. The source prints no figures "
        "to set beside these.",
        f"One start a seed, {n_seeds} seeds. J comes from the labels and the k leading "
        "eigenvectors of D^-1/2 W D^-1/2; lower is better.",
        *origins(shelf),
    ]
    return Outcome(
        ResultTable(
            "Rounding a spectral embedding",
            ("data", "rounding", "matched accuracy", "J of the partition"),
            rows,
            tuple(notes),
        )
    )


def partition_cost(W: np.ndarray, labels: np.ndarray) -> float:
    """J = |E E' - Pi|^2 / 2 = k - sum_r e_r'D^1/2 E E'D^1/2 e_r / e_r'D e_r, through the weighted
    indicators.
    """
    degree = W.sum(axis=1)
    root = np.sqrt(degree)
    k = int(labels.max()) + 1
    vectors = np.linalg.eigh(W / root[:, None] / root[None, :])[1][:, -k:]
    indicators = np.zeros((len(W), k))
    indicators[np.arange(len(W)), labels] = root
    mass = np.bincount(labels, weights=degree, minlength=k)
    overlap = np.square(vectors.T @ indicators).sum(axis=0)
    return float(k - (overlap[mass > 0] / mass[mass > 0]).sum())
