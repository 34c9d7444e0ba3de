"""From evidence to the problem of the pairwise model.

Forms of the similarity, starts, and the spectral bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ...array.arrays import is_numpy, optional_module, reader, to_numpy
from ...data.constraints import Known
from ...engine.similarity_evidence import Evidence, largest_entry
from ...numerics import simplex
from ...numerics.eigen import dtype_of, leading_eigenvectors
from ...numerics.operators import like
from . import kernel
from .pairs import Pairs

__all__ = [
    "lower_bound",
    "of_objects",
    "problem",
    "similarity",
    "split_bound",
    "squared_norm",
    "with_links",
]


def squared_norm(rows: Any, weights: Any = None) -> float:
    """|rows|^2, columns weighted, of an array, a sparse array, a factored operator or anything that
    multiplies.
    """
    if weights is not None:
        dense = (
            rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows @ np.eye(rows.shape[1]))
        )
        return float((dense**2 @ weights).sum())
    if hasattr(rows, "factor"):
        # |F R'|^2 = <F'F, R'R>: no product of the size of the similarity.
        return float(((rows.factor.T @ rows.factor) * (rows.right.T @ rows.right)).sum())
    if sp.issparse(rows):
        return float(rows.data @ rows.data)
    if hasattr(rows, "__array__") or not is_numpy(rows):
        return float((rows * rows).sum())
    return float(np.square(rows @ np.eye(rows.shape[1])).sum())


def similarity(evidence: Evidence, k: int) -> Any:
    """A dask array on its cluster, a dense CUDA array in the form of its own sweep where it has
    one; anything else as it is.
    """
    W, plain = evidence.W, evidence.weights is None and evidence.extra is None
    foreign = reader(W)
    if foreign is not None:
        if not plain:
            raise ValueError(
                "a dask similarity takes no sample_weight and no constraints: give an array, or "
                "drop them"
            )
        return foreign.Similarity(W)
    if not getattr(W, "is_cuda", False) or not plain:
        return W
    gpu = optional_module(__package__, "cuda")
    return gpu.Panels(W) if gpu is not None and gpu.Panels.fits(W, k) else W


def with_links(evidence: Evidence, known: Known, group: Any) -> Evidence:
    """The evidence with pulls between linked objects; by default one weighs as much as all
    similarities of an object.
    """
    if known.pairs is None:
        return evidence
    size = evidence.W.shape[0]
    unit = largest_entry(evidence.W)
    return evidence._replace(extra=known.similarities(group, size, float(size), unit))


def problem(
    W: Any, evidence: Evidence, exclude: bool, scale: float | None, labels: Any
) -> kernel.Problem:
    """The problem of this evidence.

    Objects with ``labels`` (g,) of at least 0 keep their memberships.
    """
    v, held = evidence.weights, None if labels is None else labels >= 0
    if evidence.pairs is not None:
        if evidence.extra is not None:
            evidence = _as_pairs(evidence)
            W = evidence.W
        Q = evidence.pairs if v is None else evidence.pairs * (v[:, None] * v)
        if exclude:
            # Of v^2 pairs of an object of weight v with itself, v are of a copy with itself.
            own = np.ones(len(Q)) if v is None else v * np.minimum(v, 1.0)
            left = own if evidence.self_pairs is None or v is None else v * evidence.self_pairs[0]
            Q = Q - np.diag(np.minimum(left * evidence.pairs.diagonal(), Q.diagonal()))
        return kernel.Problem(Pairs(np.asarray(W), Q, held), False, scale, held=held)
    left, form = evidence.self_pairs if exclude else None, _as_evidence(W)
    if evidence.extra is not None and isinstance(form, kernel.Implicit):
        raise ValueError(
            "cannot_link, labels and weights of must_link need a similarity that is an array, "
            "sparse or factored"
        )
    fitted = kernel.Problem(form, exclude, scale, v, held, linked=evidence.extra)
    return fitted if left is None else fitted._replace(left=left[0], left_similarity=left[1])


def _as_pairs(evidence: Evidence) -> Evidence:
    """Links as measured pairs: the largest similarity, or 0, with the weight of the link."""
    links, unit = evidence.extra.toarray(), largest_entry(evidence.W)
    W = np.where(links > 0, unit, np.where(links < 0, 0.0, evidence.W))
    pairs = np.where(links != 0, np.abs(links) / unit, evidence.pairs)
    return evidence._replace(W=W, pairs=pairs, extra=None)


def of_objects(U: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Starting memberships (g, r, k) of objects: the means of those of their rows (n, r, k)."""
    total = np.zeros((size, *U.shape[1:]))
    np.add.at(total, group[group >= 0], U[group >= 0])
    return simplex.normalize(total)


def _as_evidence(W: Any) -> Any:
    """The similarity in the form that its solver reads."""
    if hasattr(W, "panels"):
        return W
    if hasattr(W, "factor"):
        return kernel.Low(W.factor)
    if isinstance(W, np.ndarray) or sp.issparse(W) or not is_numpy(W):
        return kernel.Explicit(W)
    return kernel.Implicit(W)


def lower_bound(W: Any, k: int) -> float:
    """|W|^2 less the squares of its k largest positive eigenvalues."""
    size = W.norm**0.5
    values = to_numpy(leading_eigenvectors(_Normed(W, size), k, tol=1e-6).values) * size
    return max(0.0, W.norm - float(np.square(np.clip(values, 0, None)).sum()))


def split_bound(W: np.ndarray, k: int) -> float:
    """Lower bound of  sum_{i != j} (w_ij - a u_i'u_j)^2  over all memberships.

    Between two halves A and B of the objects there is no diagonal, and a U_A U_B' has rank k: the
    squared singular values of W_AB beyond the k largest stay. Pairs within A and within B are left
    over, which the halves of each bound in the same way.
    """

    def tail(rows: np.ndarray) -> float:
        # Every second object: consecutive ones may be of one cluster, whose block would have low
        # rank.
        first, second = rows[::2], rows[1::2]
        if second.size <= k:
            return 0.0
        values = np.linalg.svd(W[np.ix_(first, second)], compute_uv=False)
        return float(np.square(values[k:]).sum()) + tail(first) + tail(second)

    # W is symmetric: the block between the halves stands in it twice.
    return 2.0 * tail(np.arange(len(W)))


class _Normed(LinearOperator):
    """W / size: an operator of norm at most one.

    ``W`` is what tells on which device vectors belong.
    """

    def __init__(self, evidence: Any, size: float) -> None:
        super().__init__(dtype_of(evidence), (evidence.n, evidence.n))
        self.evidence, self.size, self.W = evidence, size, getattr(evidence, "W", evidence)

    def __matmul__(self, V: Any) -> Any:
        return (self.evidence @ V) / self.size

    def _matmat(self, V: Any) -> Any:
        return self @ V

    def toarray(self) -> Any:
        return self @ like(self.W, np.eye(self.shape[0], dtype=self.dtype))
