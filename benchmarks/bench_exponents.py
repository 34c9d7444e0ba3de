"""How the processor time of default fits grows with objects, clusters and features, model by model.

Exponents of a power law fitted to whole fits (starts, choice of family and structure test
included) of well separated Gaussians, as many as there are clusters.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import sfumato

from .bench_growth import exponent
from .timing import Line

TITLE = "Exponents of the processor time of default fits, for every model"
# Model: the largest number of objects, and the exponents that its formulas give for n, k and p.
MODELS = {
    "FuzzyCMeans": (64_000, 1.0, 1.0, 1.0),
    "GaussianMixture": (64_000, 1.0, 1.0, 2.0),
    "StudentMixture": (16_000, 1.0, 1.0, 2.0),
    "FactorMixture": (16_000, 1.0, 1.0, 1.0),
    "MixedMixture": (16_000, 1.0, 1.0, 1.0),
    "DirichletProcessMixture": (16_000, 1.0, 1.0, 2.0),
    "EvidenceAccumulation": (64_000, 1.0, 1.0, 2.0),
    "PairwiseProbabilisticClustering": (16_000, 1.0, 1.0, 1.0),
    "SpectralClustering": (16_000, 1.0, 1.0, 1.0),
    "CompletelyPositiveFactorization": (4_000, 2.0, 1.0, 1.0),
    "DiscriminativeClustering": (16_000, 1.0, 1.0, 1.0),
    "InformationBottleneck": (16_000, 1.0, 1.0, 1.0),
}
STEPS = (1 / 8, 1 / 4, 1 / 2, 1)
CLUSTERS, FEATURES = (4, 8, 16, 32), (4, 8, 16, 32)


def run() -> list[Line]:
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (most, *expected) in MODELS.items():
            sizes = [int(most * step) for step in STEPS]
            middle = most // 4
            runs: tuple[tuple[str, Any, list[float]], ...] = (
                ("n", sizes, [_seconds(name, n, 8, 8) for n in sizes]),
                ("k", CLUSTERS, [_seconds(name, middle, k, 8) for k in CLUSTERS]),
                ("p", FEATURES, [_seconds(name, middle, 8, p) for p in FEATURES]),
            )
            for (letter, values, seconds), formula in zip(runs, expected, strict=True):
                note = f"{letter} from {values[0]} to {values[-1]}, {seconds[0]:.2g} to "
                note += f"{seconds[-1]:.2g} s"
                found = exponent(values, seconds)
                lines.append(Line(f"{name}, {letter}", found, formula, "formula", "", "", note))
    return lines


def _seconds(name: str, n: int, k: int, p: int, repeats: int = 3) -> float:
    """Median processor time of a fit."""
    rng = np.random.default_rng(0)
    labels = rng.integers(k, size=n)
    X = rng.normal(size=(n, p)) + rng.normal(scale=4.0, size=(k, p))[labels]
    evidence = (X, labels) if name == "DiscriminativeClustering" else (X,)
    if name == "InformationBottleneck":
        evidence = (rng.poisson(np.exp(np.clip(X / 4.0, -3.0, 3.0))),)
    times = []
    for _ in range(repeats):
        model = getattr(sfumato, name)(k, random_state=0)
        begin = time.process_time()
        model.fit(*evidence)
        times.append(time.process_time() - begin)
    return float(np.median(times))
