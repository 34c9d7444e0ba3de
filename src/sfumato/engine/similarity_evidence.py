"""A similarity with weights, missing pairs, links and isolated objects.

The functions here prepare it for the models.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from ..array.arrays import is_numpy
from ..array.types import ArrayLike, Similarity, Weights
from ..array.validation import refuse_mask
from ..array.warn import warn
from ..numerics.operators import Factored, degrees, diagonal_of
from .objects import Objects


class Evidence(NamedTuple):
    """Similarity ``W`` among g objects.

    ``weights`` (g,) belong to the objects and ``pairs`` (g, g) to pairs; None if all are one. The
    sparse ``extra`` (g, g) is added for linked pairs. For merged objects, ``self_pairs`` are the
    self pairs of their members and their similarities, per unit of weight.
    """

    W: Any
    weights: Weights = None
    pairs: Any = None
    self_pairs: tuple[np.ndarray, np.ndarray] | None = None
    extra: Any = None

    def merge(self, joints: Objects) -> Evidence:
        """The evidence with linked objects merged: mean similarities, total weights."""
        assert joints.group is not None and joints.row_weights is not None  # noqa: PT018
        assert joints.weights is not None
        out = joints.row_weights * np.minimum(joints.row_weights, 1.0)
        total = joints.weights
        left = np.bincount(joints.group, out) / total
        similarity = np.bincount(joints.group, out * diagonal_of(self.W)) / total
        if self.pairs is None:
            return Evidence(joints.average(self.W), total, None, (left, similarity))
        mean = joints.average(self.pairs)
        W = joints.average(self.pairs * self.W) / np.where(mean > 0, mean, 1.0)
        return Evidence(W, total, mean, (left, similarity))

    def take(self, kept: np.ndarray) -> Evidence:
        """The evidence restricted to some of the objects."""
        selection = Objects(kept.size, np.where(kept, np.cumsum(kept) - 1, -1))
        weights = None if self.weights is None else self.weights[kept]
        pairs = None if self.pairs is None else self.pairs[np.ix_(kept, kept)]
        left = None
        if self.self_pairs is not None:
            left = self.self_pairs[0][kept], self.self_pairs[1][kept]
        return Evidence(selection.average(self.W), weights, pairs, left)

    def filled(self) -> Any:
        """The similarity with uncertain pairs filled in: w_ij of relative weight t becomes t w_ij +
        (1 - t) m_i m_j / m, with the mean similarities m_i of objects and the overall mean m.
        """
        if self.pairs is None:
            return self.W
        v = np.ones(len(self.W)) if self.weights is None else self.weights
        trust = self.pairs / self.pairs.max()
        covered = trust @ v
        mean = (trust * self.W) @ v / np.where(covered > 0, covered, 1.0)
        level = float(v @ (trust * self.W) @ v) / float(v @ covered)
        expected = np.outer(mean, mean) / level if level > 0 else np.zeros_like(self.W)
        return trust * self.W + (1.0 - trust) * expected


def largest_entry(W: Any) -> float:
    """The largest similarity; for an operator, that on its diagonal."""
    if sp.issparse(W):
        return float(abs(W.data).max(initial=0.0)) or 1.0
    values = W if isinstance(W, np.ndarray) else np.asarray(diagonal_of(W))
    return float(np.abs(values).max(initial=0.0)) or 1.0


def has_missing(W: Any) -> bool:
    """Whether a real matrix contains NaN."""
    W = W.tocoo().data if sp.issparse(W) else W
    if isinstance(W, np.ndarray) and W.dtype.kind == "f":
        return not isinstance(W, np.ma.MaskedArray) and bool(np.isnan(W).any())
    if not (
        isinstance(W, (list, tuple))
        or hasattr(W, "to_numpy")
        or str(getattr(W, "dtype", "")) == "object"
    ):
        return False
    try:
        return bool(np.isnan(np.asarray(W, np.float64)).any())
    except (TypeError, ValueError):
        return False


def zeros_for_missing(W: Any) -> np.ndarray:
    """W with NaN replaced by 0; infinities stay and are refused."""
    W = np.asarray(W)
    return np.where(np.isnan(W), W.dtype.type(0), W)


def measured(W: Any, pair_weight: ArrayLike | Similarity | None) -> tuple[Any, Any]:
    """The similarity with 0 for NaN, and the weights of its pairs (n, n); None if all are equal."""
    incomplete = has_missing(W)
    if pair_weight is None and not incomplete:
        return W, None
    dense = _dense(W, "W")
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
        return W, None
    missing = np.isnan(dense)
    Q = np.ones(dense.shape) if pair_weight is None else _dense(pair_weight, "pair_weight")
    if Q.shape != dense.shape:
        raise ValueError(f"pair_weight must have the shape of W, {dense.shape}, got {Q.shape}")
    if not np.isfinite(Q).all() or Q.min() < 0:
        raise ValueError("pair_weight must be finite and nonnegative; 0 means not measured")
    # Products of weights with squared similarities, and their sums, must stay finite.
    if Q.size and Q.max() > 0 and not 1e-20 <= Q.max() <= 1e20:
        raise ValueError(
            f"pair_weight is too large or too small to be summed (largest {Q.max():g}): divide it "
            "by its largest value"
        )
    # If only one of w_ij and w_ji is measured, it is used for both.
    own = np.where(missing, np.where(missing.T, 0.0, Q.T), np.where(missing.T, Q, (Q + Q.T) / 2))
    Q, dense = own, zeros_for_missing(np.where(missing, dense.T, dense))
    if Q.max() <= 0:
        raise ValueError("no pair is measured: W is NaN, or pair_weight 0, everywhere")
    return dense, Q


def _dense(W: Any, name: str) -> np.ndarray:
    """A dense (n, n) array, since weights of pairs need every pair."""
    refuse_mask(W, name)
    if hasattr(W, "toarray"):
        W = W.toarray()
    elif hasattr(W, "__matmul__") and not hasattr(W, "__array__") and hasattr(W, "shape"):
        W = W @ np.eye(W.shape[1])
    try:
        return np.asarray(W, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers: {error}") from error


def isolated(W: Any, pairs: Any = None) -> np.ndarray:
    """Mask (n,) of objects without similarity to any other."""
    if pairs is not None:
        W = np.abs(W) * pairs
    matrix = getattr(W, "factor", W)
    if sp.issparse(matrix) or isinstance(matrix, np.ndarray):
        own = (W.diagonal() != 0).astype(int) if matrix is W else 0
        return np.asarray((matrix != 0).sum(axis=1)).ravel() - own == 0
    if not is_numpy(matrix):
        return np.zeros(W.shape[0], dtype=bool)
    degree = np.abs(np.asarray(degrees(W)))
    rest = degree - np.abs(diagonal_of(W))
    return np.abs(rest) <= 1e-14 * degree.max(initial=0.0)


def set_apart(evidence: Evidence, n_clusters: int) -> np.ndarray:
    """Objects (g,) that are isolated, or in components beyond the ``n_clusters`` largest."""
    dropped = isolated(evidence.W, evidence.pairs)
    if dropped.all():
        return np.zeros(dropped.size, dtype=bool)
    if dropped.any():
        warn(
            f"{int(dropped.sum())} of {dropped.size} objects are similar to no other: they get "
            "equal memberships in all clusters"
        )
    apart = smaller_pieces(evidence.W, evidence.weights, dropped, n_clusters)
    if apart.any():
        warn(
            f"the similarity falls into more than n_clusters={n_clusters} unconnected pieces: the "
            f"{int(apart.sum())} objects of the smaller ones get equal memberships in all clusters"
        )
    return dropped | apart


def smaller_pieces(W: Any, weights: Weights, dropped: np.ndarray, n_clusters: int) -> np.ndarray:
    """Mask (n,) of objects in connected components beyond the ``n_clusters`` heaviest."""
    dense = isinstance(W, np.ndarray) and W.shape[0] <= 5000
    if not (dense or sp.issparse(W)) or n_clusters < 2 or (dense and W[0].all()):
        return np.zeros(dropped.size, dtype=bool)
    piece = _pieces(W) if dense else connected_components(W, directed=False)[1]
    own = np.where(dropped, 0.0, 1.0 if weights is None else weights)
    mass = np.bincount(piece, own)
    alive = np.flatnonzero(mass > 0)
    if alive.size <= n_clusters:
        return np.zeros(dropped.size, dtype=bool)
    heaviest = alive[np.argsort(-mass[alive], kind="stable")[:n_clusters]]
    return ~np.isin(piece, heaviest) & ~dropped


def _pieces(W: np.ndarray) -> np.ndarray:
    """Connected component (n,) of every object, from rows of a symmetric W alone: no copy of W."""
    piece = np.full(len(W), -1)
    for start in range(len(W)):
        front = np.array([start]) if piece[start] < 0 else np.empty(0, dtype=np.intp)
        while front.size:
            piece[front] = start
            near, available = np.zeros(len(W), dtype=bool), piece < 0
            for row in front if available.any() else ():
                near |= W[row] != 0
            front = np.flatnonzero(near & available)
    return np.unique(piece, return_inverse=True)[1]


def averaged(columns: Any, rows: Any) -> Any:
    """Similarities (n_new, g) to objects, averaged over their rows by ``columns`` (n, g)."""
    if columns is None:
        return rows
    if isinstance(rows, Factored):
        return Factored(rows.factor, columns.T @ rows.right)
    if isinstance(rows, LinearOperator):  # its product with a sparse array would be wrong
        return rows @ aslinearoperator(columns.astype(rows.dtype))
    return rows @ columns.astype(rows.dtype)


def shared(U: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Memberships (n, k) averaged over rows with the same nonnegative number in ``copies`` (n,)."""
    place = copies - min(0, int(copies.min()))
    sums = np.zeros((int(place.max()) + 1, U.shape[1]), dtype=U.dtype)
    np.add.at(sums, place, U)
    own = (sums / np.maximum(sums.sum(axis=1, keepdims=True), np.finfo(U.dtype).tiny))[place]
    return np.where((copies >= 0)[:, None], own, U)


def take_rows(X: Any, index: np.ndarray) -> Any:
    """Selected rows of an array, a sparse array, a frame, a list or an operator."""
    if hasattr(X, "iloc"):
        return X.iloc[index]
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return sp.csr_array(X)[index] if sp.issparse(X) else X[index]
    if hasattr(X, "__matmul__") and not hasattr(X, "__array__"):
        columns = np.zeros((X.shape[0], index.size))
        columns[index, np.arange(index.size)] = 1.0
        return np.asarray(X @ columns).T
    return np.asarray(X)[index]


def similarity_of_distances(
    D: Any, scales: np.ndarray | None = None, *, n_neighbors: int = 7
) -> tuple[np.ndarray, np.ndarray]:
    """Similarities exp(-d^2 / (s_i s_j)), with the distances s to the n-th neighbour, and s itself;
    for new objects, from ``scales`` (n,) of the known ones.
    """
    D = _dense(D, "the distances")
    if D.ndim != 2 or (scales is None and D.shape[0] != D.shape[1]):
        raise ValueError(f"similarity='distance' needs distances (n, n), got shape {D.shape}")
    if scales is not None and D.shape[1] != scales.size:
        raise ValueError(f"distances of new objects must be (n_new, {scales.size}), got {D.shape}")
    if np.isnan(D).any() or D.min(initial=0.0) < 0:
        raise ValueError("distances must be nonnegative numbers without NaN")
    own = D if scales is not None else D + np.diag(np.full(len(D), np.inf))
    rank = min(n_neighbors, D.shape[1] - (scales is None)) - 1
    if rank < 0:
        return np.ones_like(D), np.ones(len(D))
    reach = np.partition(own, rank, axis=1)[:, rank]
    good = np.isfinite(reach) & (reach > 0)
    reach = np.where(good, reach, reach[good].min(initial=1.0))
    known = reach if scales is None else scales
    with np.errstate(over="ignore"):
        return np.exp(-((D / reach[:, None]) * (D / known[None, :]))), reach
