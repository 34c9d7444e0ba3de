"""Starts of Gaussian mixtures.

Log-likelihood beside the best of ten starts of scikit-learn, also with more components than there
are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

from sfumato import EvidenceWarning, GaussianMixture

from .timing import Line

TITLE = "Starts of Gaussian mixtures: log-likelihood beside the best of ten starts"
TYPES = ("full", "tied", "diag", "spherical")
SEEDS = 3
NEED = dict.fromkeys(
    TYPES, 3.0
)  # objects that a component needs in the plane; with fewer, ours does not count either


def faithful(seed: int) -> np.ndarray:
    """Two clusters like the eruptions of Old Faithful: minutes of eruption, minutes of waiting."""
    rng = np.random.default_rng(seed)
    short = rng.multivariate_normal([2.04, 54.5], [[0.07, 0.44], [0.44, 33.7]], 272)
    long = rng.multivariate_normal([4.29, 80.0], [[0.17, 0.94], [0.94, 36.0]], 272)
    return np.where(rng.random((272, 1)) < 0.36, short, long)


def anisotropic(seed: int) -> np.ndarray:
    """Three round clusters, all stretched in one direction."""
    rng = np.random.default_rng(1000 + seed)
    centers = np.array([[-5.6, -2.8], [0.0, 3.5], [4.2, -2.1]])
    return (centers[rng.integers(3, size=500)] + rng.normal(size=(500, 2))) @ np.array(
        [[0.61, -0.64], [-0.41, 0.85]]
    )


def best_of_ten(X: np.ndarray, k: int, covariance_type: str, seed: int) -> float:
    """The peer's best log-likelihood among runs none of whose components holds fewer objects than
    its shape needs.
    """
    runs = [
        Peer(
            k, covariance_type=covariance_type, random_state=10 * seed + i, tol=1e-6, max_iter=2000
        ).fit(X)
        for i in range(10)
    ]
    sound = [run for run in runs if run.weights_.min() * len(X) >= NEED[covariance_type]]
    return max(run.score(X) * len(X) for run in sound or runs)


def cases(seeds: range) -> Iterator[tuple[str, np.ndarray, int, str, int]]:
    for seed in seeds:
        for name, draw, sizes in (
            ("Old Faithful-like", faithful, range(2, 6)),
            ("anisotropic", anisotropic, range(3, 6)),
        ):
            yield from (
                (name, draw(seed), k, covariance_type, seed)
                for k in sizes
                for covariance_type in TYPES
            )


def run() -> list[Line]:
    gaps: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", EvidenceWarning)
        for name, X, k, covariance_type, seed in cases(range(SEEDS)):
            model = GaussianMixture(k, covariance_type=covariance_type, random_state=seed).fit(X)
            gaps.setdefault(f"{name}, {covariance_type}", []).append(
                model.objective_ - best_of_ten(X, k, covariance_type, seed)
            )
    lines = []
    for what, values in gaps.items():
        gap = np.array(values)
        note = (
            f"higher in {np.sum(gap > 1e-3)}, lower in {np.sum(gap < -1e-3)}; least difference "
            f"{gap.min():.3f}, largest {gap.max():.3f}"
        )
        lines.append(
            Line(
                f"{what}: fits no lower by 0.001",
                float(np.sum(gap >= -1e-3)),
                len(gap),
                "all",
                "",
                ">= 1",
                note,
                larger=True,
            )
        )
    return lines
