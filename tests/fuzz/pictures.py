"""Plots and reports of random answers; no picture is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato import plot, report

from . import evidence
from .judge import attempt


def picture(rng: np.random.Generator) -> str:
    """Draw or describe random memberships."""
    import matplotlib.pyplot as plt

    U, W = evidence.memberships(rng), evidence.similarity(rng)
    n = len(U)
    X = rng.normal(size=(n, int(rng.choice([1, 2, 5])))) * float(rng.choice(evidence.SCALES))
    table = rng.integers(0, 3, size=(2, 3)) * float(rng.choice([0.0, 1.0, 1e300]))
    values = rng.random(n) * float(rng.choice(evidence.SCALES))
    weight = {"sample_weight": evidence.weights(rng, n)}
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        *((getattr(plot, name), (U,), {}) for name in ("memberships", "profiles", "simplex")),
        (plot.uncertainty, (U,), weight),
        (plot.reconstruction, (U,), {"blocks": 3}),
        (plot.similarity, (W,), {"blocks": int(rng.choice([1, 5, 200]))}),
        (plot.block_means, (W, U), {}),
        (plot.scatter, (X, U), {}),
        (plot.history, (values,), {}),
        (plot.information, (values, values), {}),
        (plot.contingency, (table,), {}),
        (plot.calibration, (values, values), {}),
        (plot.cluster_numbers, (dict(enumerate(values, start=1)),), {}),
        (report.profiles, (X, U), {}),
        (report.describe, (X, U), {}),
        (report.plane, (X,), {}),
        (report.render, (U, X), {}),
    ]
    call, given, options = calls[int(rng.integers(len(calls)))]
    try:
        attempt(lambda: call(*given, **options), *given)
    finally:
        plt.close("all")
    return f"{call.__name__}{tuple(getattr(thing, 'shape', thing) for thing in given)}"
