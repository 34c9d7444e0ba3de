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
from sfumato.components import gaussian as kernel
from sfumato.engine import loop
from sfumato.engine.component import Likelihood
from sfumato.engine.search import Objects

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


def ours(X: np.ndarray, covariance_type: str) -> tuple[Likelihood, kernel.State]:
    """The likelihood of the data and one start."""
    data, model = Objects.of(X, None), GaussianMixture(K, covariance_type=covariance_type)
    plan = model._plan(data, 0, fixed=False)
    (component,) = plan.components(K)
    sample = plan.sample(data.few(0))
    R = sample.groups(K, 1, 0, nested=False)[0]
    return data.likelihood(component), component.start(component.place(sample.X), R, 1.0)


def peer(
    X: np.ndarray, likelihood: Likelihood, state: kernel.State, covariance_type: str
) -> Callable[[int], Any]:
    """scikit-learn from the same parameters."""
    component = likelihood.component
    coordinates, covariances = component.coordinates, component.outer_covariances(state)
    invert = np.linalg.inv if covariance_type in ("full", "tied") else np.reciprocal
    first = {
        "weights_init": state.weights,
        "means_init": coordinates.outer(state.means),
        "precisions_init": invert(covariances),
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
        likelihood, state = ours(X, covariance_type)
        step, other = likelihood.step, peer(X, likelihood, state, covariance_type)
        short = loop.iterate(step, state, max_iter=4, tol=0.0)
        value = (likelihood.sum(short.state).objective + likelihood.log_volume) / N
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
        likelihood, state = ours(X, covariance_type)
        fast = likelihood.run(state, 5000, 1e-6)
        plain = loop.iterate(
            likelihood.step, state, max_iter=5000, tol=1e-6, relative_to=float(len(X))
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
