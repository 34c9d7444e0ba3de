"""A sample of the objects that does not depend on their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.arrays import is_numpy, to_numpy
from ...core.objects import objects_of
from ...core.rows import Rows
from ...core.types import Array, Weights
from ...numerics.axes import canonical_order

__all__ = ["distinct_sample", "sample_objects"]


def distinct_sample(
    X: Any, size: int, rng: np.random.Generator, weights: Weights = None, least: Any = 1
) -> tuple[Any, Weights]:
    """At most ``size`` different objects in canonical order, and their weights (None: all one).

    Equal rows are one object of their joint weight, unless fewer than ``least`` would be left.
    """
    if weights is None:
        points = sample_objects(X, size, rng)
    else:
        seed, kept = rng.integers(2**63), np.flatnonzero(weights > 0)
        if isinstance(X, np.ndarray):
            if kept.size > size:
                smallest = np.argpartition(_hashes(X[kept], seed), size)[:size]
                kept = kept[np.sort(smallest)]
            points, weights = np.asarray(X[kept]), weights[kept]
        elif kept.size <= size:
            points, weights = _on_host(X[kept]), weights[kept]
        else:
            points, weights = _on_host(Rows(X, weights).sample(size, _generator(seed)).X), None
    objects = objects_of(points, weights, least)
    if objects.group is None:
        return points, objects.weights
    return points[objects.first()], objects.weights


def sample_objects(X: Array, size: int, rng: np.random.Generator) -> Any:
    """At most ``size`` rows of ``X``, as NumPy or CSR, in an order that depends on their numbers
    alone.

    Which rows are drawn depends on their numbers too: those whose hash is smallest. Arrays of other
    libraries and sparse arrays are sampled along their rows.
    """
    seed = rng.integers(2**63)
    if X.shape[0] <= size:
        few = X[:] if isinstance(X, np.memmap) else X
    elif isinstance(X, np.ndarray):
        few = np.asarray(X[np.sort(np.argpartition(_hashes(X, seed), size)[:size])])
    else:
        few = Rows(X, None).sample(size, _generator(seed)).X
    few = _on_host(few)
    return few[canonical_order(few)]


def _generator(seed: Any) -> np.random.Generator:
    return np.random.default_rng(seed)


def _on_host(few: Any) -> Any:
    return few if is_numpy(few) or sp.issparse(few) else to_numpy(few)


def _hashes(X: np.ndarray, seed: Any) -> np.ndarray:
    """Pseudo-random numbers (n,), one for each row, that are functions of its bits and the seed."""
    odd = np.random.default_rng(seed).integers(2**63, size=X.shape[1], dtype=np.uint64) * 2 + 1

    def mix(block: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(block + 0.0, dtype=np.float64).view(np.uint64)
        total = np.bitwise_xor(bits >> np.uint64(29), bits) * odd
        total = np.sum(total ^ (total >> np.uint64(32)), axis=1, dtype=np.uint64)
        total *= np.uint64(0x9E3779B97F4A7C15)
        return total ^ (total >> np.uint64(31))

    return Rows(X).map(mix)
