"""Student, factor and mixed mixtures: passes beside scikit-learn's Gaussian ones, and whole fits.

No peer in Python fits these models; a pass of scikit-learn's GaussianMixture over the same data is
the yardstick.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Peer
from threadpoolctl import threadpool_limits

from sfumato import FactorMixture, MixedMixture, StudentMixture
from sfumato.engine.search import Objects
from sfumato.metrics import adjusted_rand_index

from .timing import Line, medians

TITLE = "Student, factor and mixed mixtures"


def run() -> list[Line]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_student("full"), _student("diag"), _mixed(), _factor(), _factor_fit()]


def _step(model: Any, X: np.ndarray) -> Callable[[], Any]:
    """One step of EM of a model with one candidate, from its first start."""
    model._read(X, reset=True)
    data = Objects.of(X, None)
    plan = model._plan(data, 0, fixed=False)
    (component,) = plan.components(model.n_clusters)
    likelihood, sample = data.likelihood(component), plan.sample(data)
    groups = sample.groups(model.n_clusters, 1, 0)[0]
    state = component.start(component.place(sample.X), groups, 1.0)
    return lambda: likelihood.step(state)


def _peer_step(X: np.ndarray, k: int, covariance_type: str) -> Callable[[], Any]:
    peer = Peer(
        k, covariance_type=covariance_type, max_iter=1, init_params="random", random_state=0
    )
    peer.fit(X)

    def step() -> None:
        _, log_responsibilities = peer._e_step(X)
        peer._m_step(X, log_responsibilities)

    return step


def _line(what: str, ours: Callable[[], Any], peer: Callable[[], Any], name: str) -> Line:
    with threadpool_limits(1):
        seconds = medians({"ours": ours, "peer": peer}, repeats=3)
    return Line(what, seconds["ours"], seconds["peer"], f"scikit-learn, {name}, one core")


def _blobs(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return 2.0 * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def _student(covariance_type: str) -> Line:
    X = _blobs(100_000, 16, 10)
    ours = _step(StudentMixture(10, covariance_type=covariance_type), X)
    what = f"Student step, {covariance_type}, n 100 000, d 16, k 10"
    return _line(what, ours, _peer_step(X, 10, covariance_type), f"Gaussian {covariance_type}")


def _mixed() -> Line:
    X = _blobs(100_000, 20, 10)
    ours = _step(MixedMixture(10), X)
    return _line(
        "mixed step, 20 normal columns, n 100 000, k 10",
        ours,
        _peer_step(X, 10, "diag"),
        "Gaussian diag",
    )


def _images() -> tuple[np.ndarray, np.ndarray]:
    """5000 objects of 784 features in ten groups, each with five factors of its own."""
    rng = np.random.default_rng(0)
    n, d, k, q = 5000, 784, 10, 5
    groups, loadings = rng.integers(k, size=n), rng.normal(size=(k, d, q))
    X = 0.5 * rng.normal(size=(k, d))[groups] + 2.0 * rng.normal(size=(n, d))
    factors = rng.normal(size=(n, q))
    for j in range(k):
        X[groups == j] += factors[groups == j] @ loadings[j].T
    return X, groups


def _factor() -> Line:
    X, _ = _images()
    ours = _step(FactorMixture(10, n_factors=5), X)
    what = "factor step, 5 factors, n 5000, d 784, k 10"
    return _line(what, ours, _peer_step(X, 10, "full"), "Gaussian full")


def _factor_fit() -> Line:
    X, groups = _images()
    start = time.perf_counter()
    model = FactorMixture(10, n_factors=5, random_state=0).fit(X)
    seconds = time.perf_counter() - start
    index = adjusted_rand_index(groups, model.labels_)
    return Line(
        "factor fit, 4 starts, the same data",
        seconds,
        math.nan,
        "",
        note=f"{model.n_iter_} steps, adjusted Rand index {index:.2f}",
    )
