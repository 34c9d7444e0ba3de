"""Evidence of the neighbour graph: digits, simulated cells, and the time that it takes."""

from __future__ import annotations

import math
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from sfumato.metrics import adjusted_rand_index
from sfumato.models.consensus.evidence import fit_graph
from sfumato.models.consensus.soft import Settings, factorize, fit_reader
from sfumato.numerics.distances import unit_rows
from sfumato.selection.criteria import eigengap, penalized_eigengap

from .timing import Line

TITLE = "Neighbour-graph evidence"
SEEDS = 5
MOST = 16  # clusters that a search tries
CELLS = (0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.04, 0.02)  # sizes of groups


def simulated_cells(n: int, strength: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fifty principal components of log-normalised negative binomial counts, and groups.

    Eight groups of unequal size, in two lineages, have their own means in one gene of twenty;
    ``strength`` is the standard deviation of the differences on a log scale.
    """
    rng = np.random.default_rng(seed)
    k, genes = len(CELLS), 2000
    own = rng.choice(k, size=n, p=CELLS)

    def markers(size: tuple[int, int]) -> np.ndarray:
        return (rng.random(size) < 0.05) * rng.normal(0.0, strength, size=size)

    lineages = np.repeat(markers((2, genes)), k // 2, axis=0)
    means = np.exp(rng.normal(-1.0, 1.5, size=genes) + lineages + markers((k, genes)))[own]
    depth = rng.lognormal(np.log(3000.0), 0.4, size=(n, 1))
    expected = means / means.sum(axis=1, keepdims=True) * depth
    counts = rng.poisson(rng.gamma(2.0, expected / 2.0))
    logs = np.log1p(1e4 * counts / counts.sum(axis=1, keepdims=True))
    logs -= logs.mean(axis=0)
    return logs @ np.linalg.eigh(logs.T @ logs)[1][:, :-51:-1], own


def memberships(kind: Any, X: np.ndarray, k: int | None = None) -> np.ndarray:
    """Memberships of fitted objects in ``k`` clusters, or in as many as have the largest
    penalized eigengap.
    """
    columns = kind(X)
    factor = factorize(kind, columns, MOST if k is None else k)
    whole, gaps = factor.coordinates(columns), eigengap(factor.values)
    found = []
    for number in range(2, MOST + 1) if k is None else [k]:
        Z = unit_rows(whole[:, :number])
        reader = fit_reader(Z, Settings(1 if k is None else 4, 500, 1e-6, 0))
        gap = gaps[number - 1]
        found.append((float(penalized_eigengap(gap, reader.misfit)), number, reader(Z)))
    return max(found, key=lambda each: each[:2])[2]


def _quality(what: str, sets: list[tuple[np.ndarray, np.ndarray]]) -> list[Line]:
    """Mean adjusted Rand index, the number of clusters given and not."""
    given, open_, peer, numbers = [], [], [], []
    for seed, (X, own) in enumerate(sets):
        kind, k = fit_graph(X, np.random.default_rng(seed)), len(np.unique(own))
        U = memberships(kind, X)
        given.append(adjusted_rand_index(memberships(kind, X, k).argmax(axis=1), own))
        open_.append(adjusted_rand_index(U.argmax(axis=1), own))
        peer.append(adjusted_rand_index(KMeans(k, random_state=seed).fit_predict(X), own))
        numbers.append(U.shape[1])
    name, against = "adjusted Rand", float(np.mean(peer))
    said = f"{min(numbers)} to {max(numbers)} clusters found"
    return [
        Line(f"{what}, k given", float(np.mean(given)), against, "k-means", name, larger=True),
        Line(f"{what}, k unknown", float(np.mean(open_)), against, "k-means, k given", name, "", said, True),
    ]  # fmt: skip


def _time(n: int, p: int, k: int) -> Line:
    rng = np.random.default_rng(0)
    X = 0.35 * rng.normal(size=(k, p))[rng.integers(k, size=n)] + rng.normal(size=(n, p))
    start = perf_counter()
    fit_graph(X, rng)
    return Line(f"columns of {n} x {p}", perf_counter() - start, math.nan, "")


def run() -> list[Line]:
    digits = load_digits(return_X_y=True)
    lines = _quality("digits", [digits] * SEEDS)
    for n in (700, 3000):
        for strength in (0.7, 1.0, 1.4):
            sets = [simulated_cells(n, strength, seed) for seed in range(SEEDS)]
            lines += _quality(f"{n} cells, markers {strength:g}", sets)
    sizes = [(5000, 784, 10), (10_000, 384, 40), (20_000, 50, 20)]
    sizes += [(1_000_000, 50, 20)] if find_spec("faiss") else []
    return lines + [_time(*size) for size in sizes]
