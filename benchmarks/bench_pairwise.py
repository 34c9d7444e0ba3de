"""The pairwise model: cost of a pass beside the bare product, and passes beside the published
rule.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from sfumato.engine import loop
from sfumato.models.pairwise import kernel
from sfumato.numerics import simplex
from sfumato.similarity import gaussian, knn

from .timing import Line, medians

TITLE = "Pairwise model: passes over W"


def run() -> list[Line]:
    return [*passes(), *cost_dense(), *cost_sparse()]


def problems(n: int = 1000) -> dict[str, np.ndarray]:
    X, _ = make_blobs(n, n_features=8, centers=6, cluster_std=2.5, random_state=0)
    labels = np.stack(
        [KMeans(k, n_init=1, random_state=k).fit_predict(X) for k in range(10, 40)], axis=1
    )
    coassociation = np.mean([column[:, None] == column[None, :] for column in labels.T], axis=0)
    return {
        "Gaussian kernel": gaussian(X),
        "co-association": coassociation,
        "kNN graph": knn(X).toarray(),
    }


def passes() -> list[Line]:
    """Passes over W until the objective is within 1e-3 of the best either solver finds from the
    same start.
    """
    lines = []
    for name, W in problems().items():
        problem = kernel.Problem(kernel.Explicit(W), False, None)
        begin = kernel.start(problem, simplex.draw(np.random.default_rng(0), (W.shape[0], 1, 6)))
        step, passes_made = _counted(problem)
        quick = loop.iterate(step, loop.Extrapolation(begin), max_iter=300, tol=1e-9)
        target = float(quick.objective[0]) * (1 + 1e-3)
        ours = passes_made[int(np.argmax(quick.history[:, 0] <= target))] + 1
        state, published = begin, 0
        for published in range(1, 20_001):  # noqa: B007
            state, objective = kernel.baum_eagon_step(problem, state)
            if objective[0] <= target:
                break
        note = "" if objective[0] <= target else "the peer is not there yet"
        lines.append(
            Line(
                f"passes to 1e-3, {name}, n = 1000",
                ours,
                published,
                "Baum-Eagon",
                "passes",
                ">= 50",
                note,
            )
        )
    return lines


def _counted(problem: kernel.Problem):
    """The accelerated step, and the number of passes made after each call of it."""
    count, after = [0], []

    def plain(state):
        count[0] += 1
        return kernel.coordinate_step(problem, state)

    accelerated = loop.Extrapolation.accelerate(plain, kernel.combine, kernel.select)

    def step(state):
        result = accelerated(state)
        after.append(count[0])
        return result

    return step, after


def cost_dense(n: int = 5000, k: int = 10) -> list[Line]:
    lines = []
    for dtype, target in ((np.float64, "<= 1.5"), (np.float32, "<= 2.5")):
        X, _ = make_blobs(n, n_features=8, centers=k, cluster_std=2.5, random_state=0)
        W = gaussian(X.astype(dtype))
        lines.append(_cost(f"pass, dense {np.dtype(dtype).name}, n = {n}", W, k, target))
    return lines


def cost_sparse(n: int = 200_000, k: int = 10) -> list[Line]:
    X, _ = make_blobs(n, n_features=8, centers=k, cluster_std=2.5, random_state=0)
    return [_cost(f"pass, kNN graph of 30, n = {n}", knn(X, n_neighbors=30), k, "<= 4")]


def _cost(what: str, W, k: int, target: str) -> Line:
    problem = kernel.Problem(kernel.Explicit(W), True, None)
    U = simplex.draw(np.random.default_rng(0), (W.shape[0], 1, k)).astype(W.dtype)
    flat = np.ascontiguousarray(U[:, 0])
    step = loop.Extrapolation.accelerate(
        partial(kernel.coordinate_step, problem), kernel.combine, kernel.select
    )
    state = [loop.Extrapolation(kernel.start(problem, U))]

    def sweep():
        state[0], _ = step(state[0])

    times = medians({"sweep": sweep, "product": lambda: W @ flat}, repeats=9)
    return Line(
        what,
        times["sweep"],
        times["product"],
        "bare product",
        "s",
        target,
        f"{times['sweep'] / times['product']:.2f} products a pass",
    )
