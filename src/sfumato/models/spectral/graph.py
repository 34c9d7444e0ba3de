"""The graph that is cut: links as edges, degrees, and the best of several starts of k-means."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import namespace, native
from ...array.types import Array, Similarity
from ...data.constraints import Known
from ...engine import loop
from ...engine.similarity_evidence import Evidence
from ...numerics.eigen import Spectrum
from ...numerics.operators import Shifted, diagonal_of, dtype_of, positive_degrees
from ...similarity import ClusterKernel


def linked(evidence: Evidence, known: Known, group: Any) -> Any:
    """The similarity with links as edges; what pairs of little weight lack is filled with means."""
    W = evidence.W
    if evidence.pairs is not None:
        v = np.ones(len(W)) if evidence.weights is None else evidence.weights
        trust = evidence.pairs / evidence.pairs.max()
        covered = trust @ v
        mean = (trust * W) @ v / np.where(covered > 0, covered, 1.0)
        level = float(v @ (trust * W) @ v) / float(v @ covered)
        expected = np.outer(mean, mean) / level if level > 0 else np.zeros_like(W)
        W = trust * W + (1.0 - trust) * expected
    if known.links is None or isinstance(W, ClusterKernel):
        return W
    W = W.toarray() if hasattr(W, "factor") else W
    if not (isinstance(W, np.ndarray) or sp.issparse(W)):
        raise ValueError(
            "must_link, cannot_link and y need a similarity that is an array, sparse or factored"
        )
    size = W.shape[0]
    W = W + known.edges(group, size, float(abs(W).sum()) / size)
    return sp.csr_array(W) if sp.issparse(W) else np.asarray(W)


def without_diagonal(W: Any, weights: Any) -> Any:
    """W without similarities of objects to themselves; copies keep those to each other."""
    diagonal = diagonal_of(W)
    if weights is not None:
        diagonal = diagonal * np.minimum(1.0, 1.0 / weights).astype(dtype_of(W))
    return sp.csr_array(W - sp.diags_array(diagonal)) if sp.issparse(W) else Shifted(W, -diagonal)


def of_rows(Z: Any, group: np.ndarray) -> np.ndarray:
    """The embedding of all rows; zeros for rows that were no part of the fit."""
    rows = np.zeros((group.size, Z.shape[1]), dtype=Z.dtype)
    rows[group >= 0] = Z[group[group >= 0]]
    return rows


def connected_degrees(W: Similarity, weights: Any) -> Any:
    """Degrees; a W without any similarity is refused."""
    degree = positive_degrees(W, weights, "W")
    least, most = float(degree[degree > 0].min()), float(degree.max())
    if least < float(namespace(degree).finfo(degree.dtype).tiny) ** 0.75 * most:
        raise ValueError(
            f"W has objects whose similarities sum to {least:.0e} beside others with {most:.0e}, "
            "too little to be scaled by: set them to 0, or drop those objects"
        )
    return degree


def over_eigenvalues(spectrum: Spectrum) -> Any:
    """E diag(1 / lambda); zero for eigenvalues at rounding level."""
    values, vectors = spectrum.values, spectrum.vectors
    xp = namespace(values)
    usable = xp.abs(values) > vectors.shape[0] * xp.finfo(values.dtype).eps
    inverse = 1 / xp.where(usable, values, xp.ones_like(values))
    return vectors * xp.where(usable, inverse, xp.zeros_like(values))


def share(memberships: Array, degree: Array) -> Any:
    """Objects without any similarity belong to every cluster alike."""
    xp = namespace(memberships)
    alike = xp.full_like(memberships, 1 / memberships.shape[1])
    return xp.where((degree > 0)[:, None], memberships, alike)


def best_of_starts(
    Z: np.ndarray, weights: np.ndarray, k: int, firsts: list[int], max_iter: int, tol: float
) -> loop.Run:
    """The run of least distortion from each of the rows ``firsts`` and those most orthogonal."""
    steps = native("kmeans")

    def solved(centers: np.ndarray) -> loop.Run:
        state, _, history, done = steps.lloyd(Z, weights, centers, max_iter, tol)
        return loop.Run(state.astype(Z.dtype), history[-1], history, len(history), done)

    starts = Z[steps.orthogonal_rows(Z, k, firsts)]
    return loop.best([loop.at_once(partial(solved, start)) for start in starts], larger=False)
