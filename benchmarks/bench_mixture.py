"""Gaussian mixtures: time of one iteration beside scikit-learn at equal log-likelihood, and
iterations saved by extrapolation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as Peer

from sfumato import GaussianMixture
from sfumato.core import loop

from .bench_fuzzy import Iterations, seconds, steps
from .timing import Line

TITLE = "Gaussian mixtures, n = 100 000, d = 16, k = 10"
N, D, K = 100_000, 16, 10


def data() -> np.ndarray:
    """Overlapping ellipsoids."""
    rng = np.random.default_rng(0)
    labels, shapes = rng.integers(K, size=N), 0.3 * rng.normal(size=(K, D, D)) + np.eye(D)
    return 1.5 * rng.normal(size=(K, D))[labels] + np.einsum(
        "nij,nj->ni", shapes[labels], rng.normal(size=(N, D))
    )


def ours(X: np.ndarray, covariance_type: str) -> tuple[Any, Any, Any]:
    """A prepared model, its rows and one start."""
    model = GaussianMixture(K, covariance_type=covariance_type, random_state=0, max_iter=5000)
    model._check_parameters()
    model._named, model.n_features_in_ = True, X.shape[1]
    rows = model._measure(X, None, None)
    model._blank = model._blank_state(rows)
    return model, rows, model._start(rows, np.random.default_rng(0))


def peer(X: np.ndarray, model: Any, state: Any, covariance_type: str) -> Callable[[int], Any]:
    """scikit-learn from the same parameters."""
    model._publish_parameters(state)
    invert = np.linalg.inv if covariance_type in ("full", "tied") else np.reciprocal
    first = {
        "weights_init": model.weights_,
        "means_init": model.means_,
        "precisions_init": invert(model.covariances_),
    }

    def fit(n: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return Peer(
                K, covariance_type=covariance_type, max_iter=n, tol=0.0, reg_covar=0.0, **first
            ).fit(X)

    return fit


def run() -> list[Line]:
    X = data()
    lines = []
    for covariance_type, target in (
        ("full", ">= 8"),
        ("diag", ">= 4"),
        ("tied", ""),
        ("spherical", ""),
    ):
        model, rows, state = ours(X, covariance_type)
        step, other = model._step(rows), peer(X, model, state, covariance_type)
        short = loop.iterate(step, state, max_iter=4, tol=0.0)
        value = model._objective(rows, short.state) / N + model._coordinates.log_volume()
        difference = abs(value - other(4).score(X)) / abs(value)
        few, many = (1, 5) if covariance_type in ("full", "tied") else (2, 12)
        t = seconds(
            {
                "ours": Iterations(steps(step, state), 2, 22),
                "peer": Iterations(lambda n, other=other: other(n).n_iter_, few, many),
            },
            5,
        )
        note = (
            f"log-likelihood after 4 steps differs by {difference:.0e}; set-up left out on both "
            "sides"
        )
        lines.append(
            Line(
                f"one iteration, {covariance_type}",
                1e3 * t["ours"],
                1e3 * t["peer"],
                "scikit-learn",
                "ms",
                target,
                note,
            )
        )
    return [*lines, *_acceleration()]


def _acceleration() -> list[Line]:
    """Steps to the same tolerance, with and without extrapolation, from the same start, on clusters
    that overlap.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(K, 4))[rng.integers(K, size=10_000)] * 2.0 + rng.normal(size=(10_000, 4))
    lines = []
    for covariance_type in ("full", "diag"):
        model, rows, state = ours(X, covariance_type)
        total = float(len(X))
        fast = model._run(rows, state, total)
        plain = loop.iterate(
            model._step(rows), state, max_iter=5000, tol=model.tol, relative_to=total
        )
        note = f"log-likelihood {fast.objective:.2f} and {plain.objective:.2f}"
        lines.append(
            Line(
                f"iterations to tol, {covariance_type}",
                fast.n_iter,
                plain.n_iter,
                "plain EM",
                "",
                ">= 2",
                note,
            )
        )
    return lines
