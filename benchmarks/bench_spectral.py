"""Spectral clustering beside scikit-learn's, same W, same k; scaling.

Sweeps of the completely positive factorization.
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering as Peer
from sklearn.datasets import load_digits, load_iris, make_blobs, make_circles, make_moons

from sfumato import SpectralClustering
from sfumato.engine import loop
from sfumato.metrics import matched_accuracy
from sfumato.models import factorization as kernel
from sfumato.similarity import coassociation, doubly_stochastic, gaussian, knn, self_tuning

from .timing import Line, medians

TITLE = "Spectral clustering, scaling and completely positive factorization"
PEER = "scikit-learn"


def run() -> list[Line]:
    warnings.simplefilter("ignore", UserWarning)
    return [*accuracy(), *time_dense(), *time_sparse(), *scaling(), *sweeps()]


def accuracy() -> list[Line]:
    """Matched accuracy on the same similarity, mean of three seeds."""
    sets = {
        "digits": (*load_digits(return_X_y=True), 10),
        "moons": (*make_moons(1000, noise=0.08, random_state=0), 2),
        "circles": (*make_circles(1000, noise=0.06, factor=0.5, random_state=0), 2),
        "block stochastic": (None, *block_stochastic()),
    }
    lines = []
    for name, (X, y, k) in sets.items():
        W = knn(X).toarray() if X is not None else y[0]
        y = y if X is not None else y[1]
        ours = [matched_accuracy(y, _ours(k, seed).fit(W).labels_) for seed in range(3)]
        peer = [matched_accuracy(y, _peer(k, seed).fit(W).labels_) for seed in range(3)]
        note = (
            f"Ng-Jordan-Weiss {_mean(W, y, k, 'ng-jordan-weiss'):.3f}, Bach-Jordan "
            f"{_mean(W, y, k, 'bach-jordan'):.3f}"
        )
        lines.append(
            Line(
                f"accuracy, {name}",
                float(np.mean(ours)),
                float(np.mean(peer)),
                PEER,
                "",
                "ours >= peer",
                note,
                larger=True,
            )
        )
    return lines


def block_stochastic() -> tuple[tuple[np.ndarray, np.ndarray], int]:
    """100 objects, 5 clusters, D^-1 W constant on blocks, degrees that differ a thousandfold."""
    labels = np.repeat(np.arange(5), [10, 20, 30, 20, 20])
    strength = np.exp(np.random.default_rng(0).uniform(-3, 3.5, 100))
    between = np.full((5, 5), 0.05) + np.diag([1.0, 0.8, 0.6, 0.8, 0.9])
    return (between[labels][:, labels] * np.outer(strength, strength), labels), 5


def _ours(k: int, seed: int = 0, **parameters: object) -> SpectralClustering:
    return SpectralClustering(k, similarity="precomputed", random_state=seed, **parameters)


def _peer(k: int, seed: int = 0) -> Peer:
    return Peer(k, affinity="precomputed", random_state=seed)


def _mean(W: np.ndarray, y: np.ndarray, k: int, method: str) -> float:
    return float(
        np.mean(
            [matched_accuracy(y, _ours(k, seed, method=method).fit(W).labels_) for seed in range(3)]
        )
    )


def time_dense(n: int = 5000) -> list[Line]:
    X, y = make_blobs(n, 8, centers=10, cluster_std=2.5, random_state=0)
    lines = []
    for name, W in (("Gaussian", gaussian(X)), ("self-tuning", self_tuning(X))):
        times = medians(
            {"ours": lambda W=W: _ours(10).fit(W), "peer": lambda W=W: _peer(10).fit(W)}, repeats=1
        )
        lines.append(
            Line(
                f"time, dense {name}, n = {n}, k = 10",
                times["ours"],
                times["peer"],
                PEER,
                "s",
                ">= 1",
            )
        )
    return lines


def time_sparse() -> list[Line]:
    """The peer factorizes the Laplacian.

    Cheap in the plane, dear in three dimensions, and beyond that too large for memory.
    """
    return [_time_graph(100_000, 3, ">= 1"), _time_graph(20_000, 2, "")]


def _time_graph(n: int, n_features: int, target: str) -> Line:
    X, y = make_blobs(n, n_features, centers=10, cluster_std=1.0, random_state=0)
    W = knn(X)
    as_matrix = sp.csr_matrix(W)
    as_matrix.indices, as_matrix.indptr = (
        as_matrix.indices.astype(np.int32),
        as_matrix.indptr.astype(np.int32),
    )
    ours, ours_s = _timed(lambda: _ours(10).fit(W))
    peer, peer_s = _timed(lambda: _peer(10).fit(as_matrix))
    note = (
        f"accuracy {matched_accuracy(y, ours.labels_):.3f}, peer "
        f"{matched_accuracy(y, peer.labels_):.3f}"
    )
    return Line(
        f"time, kNN graph in {n_features} dimensions, n = {n}, k = 10",
        ours_s,
        peer_s,
        PEER,
        "s",
        target,
        note,
    )


def _timed(function):
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def scaling() -> list[Line]:
    """Largest distance of a row sum from one."""
    rng = np.random.default_rng(0)
    evidence = {
        "block stochastic, n = 100": block_stochastic()[0][0],
        "kNN graph, n = 100 000": knn(rng.normal(size=(100_000, 3))),
        "implicit co-association, n = 20 000, 50 partitions": coassociation(
            rng.integers(0, 40, (20_000, 50))
        ),
    }
    lines = []
    for name, W in evidence.items():
        F, seconds = _timed(partial(doubly_stochastic, W))
        error = float(np.abs(F @ np.ones(W.shape[0]) - 1).max())
        lines.append(
            Line(f"row sums, {name}", error, 1e-10, "target", "", "<= 1e-10", f"{seconds:.2f} s")
        )
    return lines


def sweeps() -> list[Line]:
    """Sweeps until the objective at which the published rule stops (relative decrease below 1e-8),
    from the same start.
    """
    lines = []
    evidence = {
        "Iris": (gaussian(load_iris().data, bandwidth=0.5), 3),
        "block stochastic": (block_stochastic()[0][0], 5),
    }
    for name, (W, k) in evidence.items():
        problem = kernel.Problem.of(doubly_stochastic(W).toarray())
        counts = [_sweeps(problem, k, seed) for seed in range(5)]
        ours, published = (float(np.median(column)) for column in zip(*counts, strict=True))
        lines.append(
            Line(f"sweeps, {name}, k = {k}", ours, published, "published rule", "sweeps", ">= 5")
        )
    return lines


def _sweeps(problem: kernel.Problem, k: int, seed: int) -> tuple[int, int]:
    start = kernel.scaled_start(
        problem, np.random.default_rng(seed).random((problem.F.shape[0], k))
    )
    published = loop.iterate(partial(kernel.sweep, problem, False), start, max_iter=5000, tol=1e-8)
    count = 0

    def step(state):
        nonlocal count
        count += 1
        return kernel.sweep(problem, True, state)

    accelerated = loop.Extrapolation.accelerate(
        step, partial(kernel.combine, problem), lambda mask, one, other: one if mask else other
    )
    state, value = loop.Extrapolation(start), np.inf
    while value > published.objective and count < 5000:
        state, value = accelerated(state)
    return count, published.n_iter
