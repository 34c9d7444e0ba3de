"""Kinds of evidence for the consensus of features: mixtures, cells, families, the neighbour graph.

Every kind has columns H (n, K): posteriors of mixtures (dense), indicators of the clusters of fine
partitions (sparse), or given membership matrices. The neighbour graph is for many features; its
columns are communities at many resolutions:

    y = (x - mean) P                                leading principal axes, in the scale as given
    p_ij = exp(-(d_ij - min_j d_ij) / s_i)          j the m nearest objects, s_i so that
                                                    sum_j p_ij = log2 m
    w_ij = p_ij + p_ji - p_ij p_ji                  weights of edges, UMAP's fuzzy union

Partitions with large modularity, from few communities to many, are hard members of the
co-association. A fitted object has the columns of its communities. A new object has those of the
nearest fitted objects, with shares that decrease with the distance to zero and are continuous in x.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from ...array.arrays import as_dense, is_numpy, native, to_numpy
from ...array.rows import Rows, has_missing, in_threads
from ...array.types import ArrayLike, Weights
from ...engine.objects import distinct_sample
from ...memberships import check_memberships
from ...numerics.axes import UNEQUAL, Axes, by_radius, fit_axes
from ...numerics.eigen import leading_eigenvectors
from ...similarity.coassociation import check_partition_weight
from .ensemble import ClusteringEnsemble
from .mixtures import TUNING, MixtureEnsemble, Stock, family_mixtures


class Graph(NamedTuple):
    """Constants of the evidence of the neighbour graph."""

    n_axes: int = 50  # principal axes; on most tables the others are noise
    neighbors: tuple[int, ...] = (10, 15, 25)  # UMAP's default, fewer and more
    n_members: int = 24  # eight for each number of neighbours
    resolutions: tuple[float, float] = (0.5, 8.0)  # from a few communities to several per cluster
    exact: int = 20_000  # largest number of objects for which all distances take only seconds
    n_read: int = 10  # number of fitted objects that give a new one its columns
    same: float = 1e-5  # smaller distances, relative to the last of these, are rounding errors
    n_formed: int = 1000  # largest number of features whose covariance is formed
    sharpest: float = 1e-3  # smallest s_i, relative to the mean distance to neighbours, as in UMAP


GRAPH = Graph()


class GraphColumns(NamedTuple):
    """Communities ``labels`` (n, m) of objects at ``known`` = (x - shift) projection (n, q)."""

    shift: np.ndarray
    projection: np.ndarray
    known: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    regularization: float = 0.02  # as for posteriors, since communities overlap in the same way
    on_host: bool = True

    def __call__(self, block: Any) -> sp.csr_array:
        """Columns (b, K), on the host."""
        columns = self.labels + self.offsets[:-1]
        known = _rows(np.ones(columns.shape), columns, int(self.offsets[-1]))
        return self._shares(self._coordinates(block)) @ known

    def _coordinates(self, block: Any) -> np.ndarray:
        if sp.issparse(block):
            return (block @ self.projection - self.shift @ self.projection).astype(np.float32)
        block = block if is_numpy(block) else to_numpy(block)
        return ((block - self.shift) @ self.projection).astype(np.float32)

    def _shares(self, Y: np.ndarray) -> sp.csr_array:
        """Shares (b, n) of the fitted objects for each new one; a fitted object has only itself.
        They are (R - d) / d, with the distance R to the first that has none (Franke and Little)."""
        m = min(GRAPH.n_read + 1, len(self.known))
        index = NearestNeighbors(algorithm="brute").fit(self.known).kneighbors(Y, m)[1]
        # Distances from matrix products are not exactly zero for equal rows.
        d = np.sqrt(np.sum(np.square(Y[:, None, :] - self.known[index]), axis=2, dtype=np.float64))
        end = d.max(axis=1, keepdims=True)
        same = d <= GRAPH.same * end
        shares = np.where(same, 1.0, (end - d) / np.where(same, 1.0, d))
        shares *= same | ~same.any(axis=1, keepdims=True)
        shares += shares.sum(axis=1, keepdims=True) == 0  # all are equally far
        shares /= shares.sum(axis=1, keepdims=True)
        S = _rows(shares, index, len(self.known))
        S.eliminate_zeros()
        return S


def fit_graph(X: Any, rng: np.random.Generator, weights: Weights = None) -> GraphColumns | None:
    """Communities of the objects; None if values are missing or fewer than three objects differ.
    With more than ``GRAPH.exact`` objects, neighbours are found by faiss, or a sample is taken.
    Equal rows are one neighbour, with their total weight in the modularity."""
    if has_missing(Rows(X)):
        return None
    approximate = find_spec("faiss") is not None
    most = X.shape[0] if approximate else GRAPH.exact
    points, mass = distinct_sample(X, most, rng, weights)
    n = points.shape[0]
    if n < 3:
        return None
    shift, projection = _principal_axes(points, mass)
    columns = GraphColumns(shift, projection, np.empty((0, 0)), np.empty((0, 0)), np.empty(0))
    Y = Rows(points).map(columns._coordinates)
    labels = _members(Y, mass, rng)
    kept = np.arange(n)[:: -(-n // GRAPH.exact)]
    offsets = np.cumsum([0, *(labels.max(axis=0) + 1)])
    return columns._replace(known=Y[kept], labels=labels[kept], offsets=offsets)


def _members(Y: np.ndarray, mass: Weights, rng: np.random.Generator) -> np.ndarray:
    """Communities (n, m) of each object, at resolutions evenly spaced on a log scale."""
    m = GRAPH.n_members
    distance, index = _neighbours(Y, min(max(GRAPH.neighbors), len(Y) - 1))
    index = index.astype(np.int32)  # half the memory
    graphs = [_graph(distance[:, :count], index[:, :count]) for count in GRAPH.neighbors]
    low, high = GRAPH.resolutions
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
    if n <= GRAPH.exact:
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
    most = 1.0 / (GRAPH.sharpest * np.where(mean > 0, mean, np.inf))
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
    step = -(-X.shape[0] // GRAPH.exact)
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
    if p <= GRAPH.n_formed:
        covariance = product(np.eye(p))
        covariance = (covariance + covariance.T) / 2
    found = leading_eigenvectors(covariance, min(GRAPH.n_axes, p), tol=1e-6)
    largest = np.sqrt(total * max(found.values[0], np.finfo(float).tiny))
    return shift, found.vectors / largest


def _rows(values: np.ndarray, index: np.ndarray, width: int) -> sp.csr_array:
    """A sparse (b, width) array with ``values`` (b, m) at the columns ``index`` (b, m)."""
    starts = np.arange(0, index.size + 1, index.shape[1])
    return sp.csr_array((values.flatten(), index.flatten(), starts), shape=(len(index), width))


class MixtureColumns(NamedTuple):
    """Posteriors of an ensemble of mixtures."""

    ensemble: MixtureEnsemble
    regularization: float = TUNING.soft_regularization
    on_host: bool = False

    @property
    def offsets(self) -> np.ndarray:
        """Start of the columns of each member."""
        return self.ensemble.members_.offsets

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K), on the device of the objects."""
        return self.ensemble._posteriors(block).T


class CellColumns(NamedTuple):
    """Indicators of the clusters of hard partitions, computed in the coordinates of ``axes``. For
    missing values, every partition gets a different guess by a component of ``mixtures``."""

    ensemble: ClusteringEnsemble
    axes: Axes
    mixtures: MixtureEnsemble
    regularization: float = TUNING.hard_regularization
    on_host: bool = True

    @property
    def offsets(self) -> np.ndarray:
        """Start of the columns of each member."""
        return np.cumsum([0, *(self.ensemble.labelings_.max(axis=0) + 1)])

    def __call__(self, block: Any) -> sp.csr_array:
        """Columns (b, K), on the host."""
        Y, missing = self.axes.seen(block)
        labels = self.ensemble.transform(Y @ self.axes.near)
        if missing is not None:
            rows, guesses = self.mixtures.members_.guesses(Y, missing, labels.shape[1])
            for member, guess in enumerate(guesses):
                labels[rows, member] = self.ensemble._label(guess @ self.axes.near, member)
        offsets, seen = self.offsets, labels >= 0
        columns = (labels + offsets[:-1])[seen]
        starts = np.concatenate([[0], np.cumsum(seen.sum(axis=1))])
        shape = len(labels), int(offsets[-1])
        return sp.csr_array((np.ones(len(columns)), columns, starts), shape=shape)


class GivenColumns(NamedTuple):
    """Given membership matrices, side by side."""

    offsets: np.ndarray
    regularization: float = TUNING.soft_regularization
    on_host: bool = False

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K)."""
        return np.asarray(block, dtype=np.float64)


class FeatureEvidence:
    """Kinds of evidence from a sample of objects with features. Each is made once for all numbers
    of clusters, so that a fit is the same with and without a search."""

    def __init__(
        self,
        X: Any,
        ensemble: MixtureEnsemble | None,
        weights: Weights,
        mass: Weights,
        k: Any,
        rng: np.random.Generator,
    ) -> None:
        self.alone = ensemble is not None  # members given by the user are the only evidence
        self.mixtures = MixtureEnsemble() if ensemble is None else ensemble
        most = self.mixtures.max_objects
        self.rows = None
        if X.shape[0] > most:
            self.rows = Rows(X) if mass is None else Rows(X, mass)
        self.points, self.mass = distinct_sample(X, most, rng, mass, k)
        self.weights = weights
        self._made: dict[Any, Any] = {}
        if self.mixtures.members is not None:
            self.mixtures._fit_members(self.points, rng, self.mass)
            return
        self.axes = fit_axes(self.points, self.mixtures.n_axes, self.mass)
        self.stock = Stock.of(self.points, self.axes, self.mass)
        self.seeds = rng.integers(2**63, size=self.mixtures.n_members)
        self.cell_seed, self.family_seed, seed = (int(s) for s in rng.integers(2**31, size=3))
        self.graph_seed, self.graph = seed, None
        many = self.points.shape[0] >= TUNING.fewest_in_graph
        if many and self.points.shape[1] > self.mixtures.n_axes and not self.alone:
            self.graph = self._graph(1)

    def kinds(self, k: int | None) -> dict[str, Any]:
        """Kinds of evidence for ``k`` clusters, or (None) for choosing the number."""
        if self.mixtures.members is not None:
            return {"members": MixtureColumns(self.mixtures)}
        if self.graph is not None:
            return {"graph": self.graph}
        mixtures = self._small_mixtures(k)
        kinds: dict[str, Any] = {"mixtures": MixtureColumns(mixtures)}
        if self.alone or k == 1:
            return kinds
        if (cells := self._cells) is not None:
            kinds["cells"] = CellColumns(cells, self.axes, mixtures)
        if k is not None and (found := family_mixtures(self.stock, k, self.family_seed)):
            families = MixtureEnsemble(len(found))
            families._keep(found, self.axes)
            kinds["families"] = MixtureColumns(families)
        if k is None and self.points.shape[1] > 2:  # in the plane, cells see the same gaps
            graph = self._graph(max(1, -(-self.points.shape[0] // TUNING.compared)))
            kinds |= {} if graph is None else {"graph": graph}
        return kinds

    def _graph(self, step: int) -> GraphColumns | None:
        """Communities of every ``step``-th object, if the features have similar ranges."""
        if is_numpy(self.points):
            spread = as_dense(self.points.max(axis=0) - self.points.min(axis=0)).ravel()
            varies = spread[spread > 0]
            if not (len(varies) and varies.max() <= UNEQUAL * np.median(varies)):
                return None
        mass = None if self.mass is None else self.mass[::step]
        return fit_graph(self.points[::step], np.random.default_rng(self.graph_seed), mass)

    def _small_mixtures(self, k: int | None) -> MixtureEnsemble:
        """Mixtures with at least as many components as clusters, unless their number is given."""
        low, high = self.mixtures._range(self.mixtures._n_fitted(len(self.stock.Y)))
        if k is not None and self.mixtures.n_clusters is None:
            low, high = max(low, k), max(high, 2 * k)
        if (low, high) not in self._made:
            mixtures = clone(self.mixtures).set_params(n_clusters=(low, high))
            mixtures._fit_stock(self.stock, self.axes, self.seeds)
            self._made[low, high] = mixtures
        return self._made[low, high]  # type: ignore[no-any-return]

    @cached_property
    def _cells(self) -> ClusteringEnsemble | None:
        """Cells of complete objects with evenly spread neighbours; None if fewer than half are."""
        Y, missing = self.axes.seen(self.points)
        order = by_radius(Y)
        if missing is not None:
            order = order[missing.pattern[order] < 0]
        if 2 * len(order) < len(Y):
            return None
        few = order[:: max(1, -(-len(order) // TUNING.most))]
        own = None if self.mass is None else self.mass[few]
        cells = ClusteringEnsemble(
            TUNING.n_cells, n_neighbors=TUNING.n_neighbors, random_state=self.cell_seed
        )
        return cells.fit(Y[few] @ self.axes.near, sample_weight=own)

    def member_weights(self, kind: Any) -> np.ndarray | None:
        """Weights (K,) of the columns of successfully fitted members."""
        if self.weights is None:
            return None
        return np.repeat(self.weights[kind.ensemble._fitted], np.diff(kind.offsets))


class GivenEvidence:
    """Given membership matrices (n, K), with the interface of ``FeatureEvidence``."""

    rows = None

    def __init__(self, H: np.ndarray, offsets: np.ndarray, weights: Weights, *sample: Any) -> None:
        self.points, self.mass, self.offsets, self.weights = H, None, offsets, weights
        mass, k, rng = sample
        if mass is not None:
            self.points, self.mass = distinct_sample(H, len(H), rng, mass, k)

    def kinds(self, k: int | None) -> dict[str, Any]:
        """The only kind of evidence."""
        return {"given": GivenColumns(self.offsets)}

    def member_weights(self, kind: Any) -> np.ndarray | None:
        """Weights (K,) of the columns."""
        return None if self.weights is None else np.repeat(self.weights, np.diff(self.offsets))


def check_given(
    matrices: Any, partition_weight: ArrayLike | None, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Membership matrices side by side, start of each (``offsets`` in the fit), and weights."""
    checked = [np.asarray(check_memberships(each), dtype=np.float64) for each in matrices]
    if len({len(each) for each in checked}) != 1:
        raise ValueError(
            "all membership matrices must describe the same objects, got "
            f"{[len(e) for e in checked]} rows"
        )
    begins = np.cumsum([0, *(each.shape[1] for each in checked)])
    if offsets is not None and not np.array_equal(begins, offsets):
        raise ValueError(
            f"give the same {len(offsets) - 1} membership matrices as in fit, with "
            f"{np.diff(offsets).tolist()} columns; got {np.diff(begins).tolist()}"
        )
    weights = check_partition_weight(partition_weight, len(checked))
    return np.hstack(checked), begins, weights


def check_member_weights(
    partition_weight: ArrayLike | None, ensemble: MixtureEnsemble | None
) -> Weights:
    """Weights of the members of one ensemble."""
    if partition_weight is None:
        return None
    if ensemble is None:
        raise ValueError(
            "partition_weight goes with one ensemble: give ensemble=MixtureEnsemble(...), "
            "ClusteringEnsemble(...) or 'precomputed'"
        )
    n = ensemble.n_members if ensemble.members is None else len(ensemble.members)
    return check_partition_weight(partition_weight, n)
