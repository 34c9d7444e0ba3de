"""The best of several starts of k-means on the embedded objects."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...array.arrays import namespace, native
from ...engine import loop
from ...numerics import kmeans as kernel

__all__ = ["best_of_starts"]


def best_of_starts(
    Z: Any, weights: Any, k: int, firsts: list[int], *, max_iter: int, tol: float
) -> loop.Run:
    """The run of least distortion: from each of the rows ``firsts`` and those most orthogonal.

    ``Z`` (n, d) is the embedding and ``weights`` (n,) what its rows count.
    """
    if isinstance(Z, np.ndarray):
        steps = native("kmeans")

        def solved(centers: np.ndarray) -> loop.Run:
            state, _, history, done = steps.lloyd(Z, weights, centers, max_iter, tol)
            return loop.Run(state.astype(Z.dtype), history[-1], history, len(history), done)

        starts = Z[steps.orthogonal_rows(Z, k, firsts)]
        runs = [loop.at_once(partial(solved, centers)) for centers in starts]
    else:
        step = partial(kernel.lloyd_step, Z, weights, namespace(Z).sum(Z * Z, axis=1))
        drawn = (Z[kernel.orthogonal_rows(Z, k, first), :] for first in firsts)
        runs = [loop.iterate(step, centers, max_iter=max_iter, tol=tol) for centers in drawn]
    # k-means minimises the distortion.
    return loop.best(runs, larger=False)
