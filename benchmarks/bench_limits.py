"""One pass of each kernel on the processor, beside the least time its bytes and operations take on
this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_blobs

from sfumato import FuzzyCMeans, GaussianMixture
from sfumato.components.gaussian import State
from sfumato.data.constraints import Known
from sfumato.engine.search import Objects
from sfumato.models.pairwise import kernel
from sfumato.numerics import simplex
from sfumato.similarity import coassociation, gaussian

from . import roofline
from .timing import Line, medians

TITLE = "Passes beside the limits of the processor"
FEW, MANY = 2, 22


def run() -> list[Line]:
    return [fuzzy(), *mixtures(), pass_over_similarity(), product_with_coassociation()]


def line(what: str, seconds: float, n_bytes: float, n_operations: float) -> Line:
    limit = roofline.limit(n_bytes, n_operations)
    by = "bytes" if n_bytes / roofline.copy_bandwidth() >= limit else "operations"
    note = f"{n_bytes / 1e6:.3g} MB, {n_operations / 1e9:.3g} Gflop; {by} decide"
    return Line(what, seconds, math.nan, "", "s", "", note, limit=limit)


def one_step(fit: Callable[[int], Any]) -> float:
    """Seconds of an iteration: a long run less a short one, divided by how many iterations that
    is.
    """
    times = medians({"few": partial(fit, FEW), "many": partial(fit, MANY)}, repeats=5)
    return (times["many"] - times["few"]) / (MANY - FEW)


def data(n: int, d: int, k: int) -> np.ndarray:
    return make_blobs(n, n_features=d, centers=k, cluster_std=4.0, random_state=0)[0]


def fuzzy(n: int = 200_000, d: int = 16, k: int = 10) -> Line:
    """Distances and sums: two products n x d x k; the data are read once."""
    X = data(n, d, k)
    model = FuzzyCMeans(k, fuzzifier=2.0, random_state=0)
    model._check_parameters()
    rows = model._in_coordinates(X, None, Known())
    return line(
        f"fuzzy c-means, n = {n}, d = {d}, k = {k}",
        _steps(model._step(rows), model._start(rows, np.random.default_rng(0))),
        8 * n * d,
        4 * n * d * k,
    )


def mixtures(n: int = 100_000, d: int = 16, k: int = 10) -> list[Line]:
    """Densities and second moments.

    Two products of k with d (d + 1) / 2 (full) or 2 d (diagonal) features.
    """
    X = data(n, d, k)
    lines = []
    for kind, features in (("full", d * (d + 1) // 2 + d), ("diag", 2 * d)):
        objects, model = Objects.of(X, None), GaussianMixture(k, covariance_type=kind)
        (component,) = model._plan(objects, 0, fixed=False).components(k)
        family, likelihood = component.family, objects.likelihood(component)
        inner = component.coordinates.inner(X)
        spread = np.tile(np.eye(d), (k, 1, 1)) if kind == "full" else np.ones((k, d))
        first = State(np.full(k, 1 / k), inner[:k], spread, family, 1e-6)
        seconds = _steps(likelihood.step, first)
        what = f"{kind} mixture, n = {n}, d = {d}, k = {k}"
        lines.append(line(what, seconds, 8 * n * d, 4 * n * features * k))
    return lines


def _steps(step: Callable[[Any], tuple[Any, Any]], first: Any) -> float:
    def several(count: int) -> None:
        state = first
        for _ in range(count):
            state, _ = step(state)

    return one_step(several)


def pass_over_similarity(n: int = 5000, k: int = 10) -> Line:
    """W is read once for the products with the memberships."""
    problem = kernel.Problem(kernel.Explicit(gaussian(data(n, 8, k))), True, None)
    first = kernel.start(problem, simplex.draw(np.random.default_rng(0), (n, 1, k)))

    def several(count: int) -> None:
        state = first
        for _ in range(count):
            state, _ = kernel.coordinate_step(problem, state)

    return line(
        f"pairwise, dense float64, n = {n}, k = {k}", one_step(several), 8 * n * n, 2 * n * n * k
    )


def product_with_coassociation(n: int = 100_000, m: int = 50, k: int = 10) -> Line:
    """Labels of a byte are read twice, memberships once, products written once.

    An addition for each label and cluster, twice. No addition shares a number with another, as
    those of a matrix product do: a second limit counts what goes between the cache and the
    processor, read once for each addition and written once for every second one.
    """
    rng = np.random.default_rng(0)
    C, U = coassociation(rng.integers(20, size=(n, m))), rng.random((n, k))
    seconds = medians({"product": lambda: C @ U}, repeats=9)["product"]
    row = line(
        f"co-association times memberships, n = {n}, m = {m}, k = {k}",
        seconds,
        n * (2 * m + 16 * k),
        2 * n * m * k,
    )
    cache = 8 * 3 * n * m * k / roofline.cache_bandwidth()
    also = f"; between cache and processor {cache:.3g} s, {seconds / cache:.1f} times"
    return row._replace(note=row.note + also)
