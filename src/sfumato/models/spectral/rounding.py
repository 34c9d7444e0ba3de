"""The best of several starts of k-means on the embedded objects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core import loop
from ...core.arrays import compiled_module, namespace
from ...numerics import kmeans as kernel

__all__ = ["best_of_starts"]


def best_of_starts(
    Z: Any, weights: Any, k: int, firsts: list[int], *, max_iter: int, tol: float
) -> loop.Run:
    """The run of least distortion: from each of the rows ``firsts`` and those most orthogonal.

    ``Z`` (n, d) is the embedding and ``weights`` (n,) what its rows count.
    """
    twin = compiled_module("sfumato.numerics", "compiled_kmeans")
    if twin is not None and isinstance(Z, np.ndarray):
        rows, mass = (np.ascontiguousarray(part, dtype=np.float64) for part in (Z, weights))
        starts = rows[twin.orthogonal_rows(rows, k, np.array(firsts))]

        def solved(centers: np.ndarray) -> loop.Run:
            history, done = twin.lloyd(rows, mass, centers, max_iter, float(tol))
            state = centers.astype(Z.dtype, copy=False)
            return loop.Run(state, history[-1], history, len(history), bool(done))

        runs = [loop.at_once(partial(solved, centers)) for centers in starts]
    else:
        step = partial(kernel.lloyd_step, Z, weights, namespace(Z).sum(Z * Z, axis=1))
        drawn = (Z[kernel.orthogonal_rows(Z, k, first), :] for first in firsts)
        runs = [loop.iterate(step, centers, max_iter=max_iter, tol=tol) for centers in drawn]
    # k-means minimises the distortion.
    return loop.best(runs, larger=False)
