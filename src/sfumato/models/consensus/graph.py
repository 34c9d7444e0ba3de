"""Evidence of the neighbour graph, for many features: communities at many resolutions.

    y = (x - mean) P                                leading principal axes, in the scale as given
    p_ij = exp(-(d_ij - min_j d_ij) / s_i)          j the m nearest objects, s_i so that
                                                    sum_j p_ij = log2 m
    w_ij = p_ij + p_ji - p_ij p_ji                  weights of edges, UMAP's fuzzy union

Partitions with large modularity, from few communities to many, are hard members of the
co-association (``evidence``). A fitted object has the columns of its communities. A new object has
those of the nearest fitted objects, with shares that decrease with the distance to zero and are
continuous in x.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from sklearn.neighbors import NearestNeighbors

from ...array.arrays import is_numpy, native, to_numpy
from ...array.rows import Rows, has_missing, in_threads
from ...array.types import Weights
from ...engine.objects import distinct_sample
from ...numerics.eigen import leading_eigenvectors


class Tuning(NamedTuple):
    """Constants of this evidence."""

    n_axes: int = 50  # principal axes; on most tables the others are noise
    neighbors: tuple[int, ...] = (10, 15, 25)  # UMAP's default, fewer and more
    n_members: int = 24  # eight for each number of neighbours
    resolutions: tuple[float, float] = (0.5, 8.0)  # from a few communities to several per cluster
    exact: int = 20_000  # largest number of objects for which all distances take only seconds
    n_read: int = 10  # number of fitted objects that give a new one its columns
    same: float = 1e-5  # smaller distances, relative to the last of these, are rounding errors
    n_formed: int = 1000  # largest number of features whose covariance is formed
    sharpest: float = 1e-3  # smallest s_i, relative to the mean distance to neighbours, as in UMAP


TUNING = Tuning()


class GraphColumns(NamedTuple):
    """Communities ``labels`` (n, m) of objects with coordinates ``known`` = (x - shift) projection
    (n, q).
    """

    shift: np.ndarray
    projection: np.ndarray
    known: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    regularization: float = 0.02  # as for posteriors, since communities overlap in the same way
    on_host: bool = True

    def __call__(self, block: Any) -> sp.csr_array:
        """Columns (b, K), on the host."""
        return self._shares(self._coordinates(block)) @ self._indicators()

    def _coordinates(self, block: Any) -> np.ndarray:
        if sp.issparse(block):
            return (block @ self.projection - self.shift @ self.projection).astype(np.float32)
        block = block if is_numpy(block) else to_numpy(block)
        return ((block - self.shift) @ self.projection).astype(np.float32)

    def _shares(self, Y: np.ndarray) -> sp.csr_array:
        """Shares (b, n) of the fitted objects for each new one; a fitted object has only itself.

        They are (R - d) / d with the distance R to the first object without a share (Franke and
        Little).
        """
        m = min(TUNING.n_read + 1, len(self.known))
        index = NearestNeighbors(algorithm="brute").fit(self.known).kneighbors(Y, m)[1]
        # Distances from matrix products are not exactly zero for equal rows.
        d = np.sqrt(np.sum(np.square(Y[:, None, :] - self.known[index]), axis=2, dtype=np.float64))
        end = d.max(axis=1, keepdims=True)
        same = d <= TUNING.same * end
        shares = np.where(same, 1.0, (end - d) / np.where(same, 1.0, d))
        shares *= same | ~same.any(axis=1, keepdims=True)
        shares += shares.sum(axis=1, keepdims=True) == 0  # all are equally far
        shares /= shares.sum(axis=1, keepdims=True)
        S = _rows(shares, index, len(self.known))
        S.eliminate_zeros()
        return S

    def _indicators(self) -> sp.csr_array:
        """Columns (n, K) of the fitted objects."""
        columns = self.labels + self.offsets[:-1]
        return _rows(np.ones(columns.shape), columns, int(self.offsets[-1]))


def fit_graph(X: Any, rng: np.random.Generator, weights: Weights = None) -> GraphColumns | None:
    """Communities of the objects; None if values are missing or fewer than three objects differ.

    With more than ``TUNING.exact`` objects, neighbours are found by faiss, or a sample is taken.
    Equal rows are one object, which counts once as a neighbour and with its total weight in the
    modularity.
    """
    if has_missing(Rows(X)):
        return None
    approximate = find_spec("faiss") is not None
    most = X.shape[0] if approximate else TUNING.exact
    points, mass = distinct_sample(X, most, rng, weights)
    n = points.shape[0]
    if n < 3:
        return None
    shift, projection = _principal_axes(points, mass)
    columns = GraphColumns(shift, projection, np.empty((0, 0)), np.empty((0, 0)), np.empty(0))
    Y = Rows(points).map(columns._coordinates)
    labels = _members(Y, mass, rng)
    kept = np.arange(n)[:: -(-n // TUNING.exact)]
    offsets = np.cumsum([0, *(labels.max(axis=0) + 1)])
    return columns._replace(known=Y[kept], labels=labels[kept], offsets=offsets)


def _members(Y: np.ndarray, mass: Weights, rng: np.random.Generator) -> np.ndarray:
    """Communities (n, m) of each object, at resolutions evenly spaced on a log scale."""
    m = TUNING.n_members
    distance, index = _neighbours(Y, min(max(TUNING.neighbors), len(Y) - 1))
    index = index.astype(np.int32)  # half the memory
    graphs = [_graph(distance[:, :count], index[:, :count]) for count in TUNING.neighbors]
    low, high = TUNING.resolutions
    resolutions = low * (high / low) ** ((np.arange(m) + rng.random(m)) / m)
    # Largest first, since these take longest and threads should finish together.
    jobs = [
        (graphs[i % len(graphs)], resolutions[i], int(rng.integers(2**63)), mass) for i in range(m)
    ][::-1]
    return np.stack(list(in_threads(_communities, jobs, None)), axis=1)


def _communities(graph: sp.csr_array, resolution: float, seed: int, mass: Weights) -> np.ndarray:
    entries = graph.data, graph.indices, graph.indptr
    return native("communities").communities(*entries, resolution, seed, mass).astype(np.int32)


def _neighbours(Y: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances (n, m) to the nearest others, ascending, and their indices (n, m)."""
    n, q = Y.shape
    if n <= TUNING.exact:
        return NearestNeighbors(n_neighbors=m, algorithm="brute").fit(Y).kneighbors()
    faiss = import_module("faiss")
    n_lists = int(4 * np.sqrt(n))
    search = faiss.IndexIVFFlat(faiss.IndexFlatL2(q), q, n_lists)
    # These settings find .97 of the neighbours of a million objects with 2 % of the distances; more
    # rounds of k-means do not change that.
    search.nprobe, search.cp.niter, search.cp.min_points_per_centroid = 16, 10, 1
    search.train(Y[:: max(1, n // (50 * n_lists))])
    search.add(Y)
    squares, index = np.empty((n, m + 1), dtype=np.float32), np.empty((n, m + 1), dtype=np.int64)
    for low in range(0, n, 2**14):  # in parts, so that signals are noticed in between
        part = slice(low, low + 2**14)
        squares[part], index[part] = search.search(Y[part], m + 1)
    alone = np.flatnonzero(index[:, -1] < 0)  # found too few neighbours in the searched lists
    if alone.size:
        squares[alone], index[alone] = faiss.knn(Y[alone], Y, m + 1)
    # If there are copies, the object itself may not be listed: then the last one is dropped.
    others = index != np.arange(n)[:, None]
    others[others.all(axis=1), -1] = False
    squares, index = squares[others].reshape(n, m), index[others].reshape(n, m)
    return np.sqrt(np.maximum(squares, 0.0)), index


def _graph(distance: np.ndarray, index: np.ndarray) -> sp.csr_array:
    """Weights (n, n) of the edges."""
    P = _rows(Rows(distance).map(_strengths), index, len(index))
    P.sort_indices()
    T = P.T.tocsr()
    return sp.csr_array(P + T - P * T)


def _strengths(distance: np.ndarray) -> np.ndarray:
    """Strengths p (b, m) of the neighbours, from ascending distances."""
    excess = distance.astype(np.float64) - distance[:, :1]
    target, mean = np.log2(distance.shape[1]), distance.mean(axis=1, dtype=np.float64)[:, None]
    most = 1.0 / (TUNING.sharpest * np.where(mean > 0, mean, np.inf))
    sharp = np.zeros_like(most)  # 1 / s
    # The sum of p is convex in 1 / s, so Newton's method from zero approaches the root from one
    # side.
    for _ in range(50):
        p = np.exp(-sharp * excess)
        slope = np.sum(p * excess, axis=1, keepdims=True)
        step = (p.sum(axis=1, keepdims=True) - target) / np.where(slope > 0, slope, np.inf)
        step = np.where(slope > 0, np.minimum(step, most - sharp), most - sharp)
        sharp += step
        if np.all(np.abs(step) <= 1e-6 * sharp):
            break
    return np.exp(-sharp * excess)


def _principal_axes(X: Any, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """The mean (p,), and leading principal axes (p, q) divided by the deviation along the first."""
    step = -(-X.shape[0] // TUNING.exact)
    X, own = X[::step], np.ones(X.shape[0]) if weights is None else weights
    share = own[::step] / own[::step].sum()
    n, p = X.shape
    X = X.astype(np.float64)
    shift = np.asarray(X.T @ share).ravel()
    if sp.issparse(X):
        total = float(np.asarray(X.multiply(X).sum(axis=1)).ravel() @ share - shift @ shift)
    else:
        X = X - shift
        total = float(np.einsum("ij,ij,i", X, X, share))
    total = total if total > 0 else 1.0
    mean = shift if sp.issparse(X) else np.zeros(p)

    def product(V: np.ndarray) -> np.ndarray:
        V = V.reshape(p, -1)
        scores = share[:, None] * (X @ V - mean @ V)
        return (X.T @ scores - np.outer(mean, scores.sum(axis=0))) / total

    covariance: Any = LinearOperator((p, p), matvec=product, matmat=product, dtype=np.float64)
    if p <= TUNING.n_formed:
        covariance = product(np.eye(p))
        covariance = (covariance + covariance.T) / 2
    found = leading_eigenvectors(covariance, min(TUNING.n_axes, p), tol=1e-6)
    largest = np.sqrt(total * max(found.values[0], np.finfo(float).tiny))
    return shift, found.vectors / largest


def _rows(values: np.ndarray, index: np.ndarray, width: int) -> sp.csr_array:
    """A sparse (b, width) array with ``values`` (b, m) at the columns ``index`` (b, m)."""
    starts = np.arange(0, index.size + 1, index.shape[1])
    return sp.csr_array((values.flatten(), index.flatten(), starts), shape=(len(index), width))
