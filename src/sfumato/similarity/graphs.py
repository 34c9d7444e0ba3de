"""Functions from features to similarities.

Each function is ``f(X, Y=None)``. It gives the similarities (n, n) among the rows of X or, with Y,
those (n, m) of new objects X to known objects Y. Bandwidths and local scales are learnt from the
known objects, so both calls agree.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_array

from ..array.types import Array, ArrayLike
from ..array.validation import check_number, check_weights, refuse_overflow, reserve
from ..array.warn import warn
from ..data.features import refuse_empty_columns
from ..numerics.distances import unit_rows
from ..numerics.operators import Factored


def gaussian(
    X: ArrayLike,
    Y: ArrayLike | None = None,
    *,
    bandwidth: float | None = None,
    sample_weight: Any = None,
) -> np.ndarray:
    """Gaussian similarities (n, n) or (n, m), ``exp(-|x - y|^2 / (2 bandwidth^2))``.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
    bandwidth : float, optional
        By default, the median distance of objects to their tenth neighbour.
    sample_weight : array, optional
        Weights of the known objects: weight w counts as w copies when neighbours are counted.

    Examples
    --------
    >>> from sfumato.similarity import gaussian
    >>> gaussian([[0.0], [2.0]], bandwidth=1.0).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """
    X, Y = _features(X, Y)
    if bandwidth is None:
        distances = neighbor_distances(X if Y is None else Y, 10, weights=sample_weight)
        bandwidth = float(_positive(np.array([_median(distances, sample_weight)]))[0])
    else:
        bandwidth = check_number(bandwidth, "bandwidth", low=0, strict=True)
    W = _squared_distances(X, Y)
    # Divided twice, since the square of a bandwidth may underflow or overflow.
    limits = np.finfo(W.dtype)
    bandwidth = float(np.clip(bandwidth, limits.tiny, limits.max / 4))
    with np.errstate(over="ignore"):
        W /= bandwidth
        W /= -2.0 * bandwidth
    return np.exp(W, out=W)


def self_tuning(
    X: ArrayLike, Y: ArrayLike | None = None, *, n_neighbors: int = 7, sample_weight: Any = None
) -> np.ndarray:
    """Similarities ``exp(-|x - y|^2 / (s_x s_y))``, where s is the distance to the n-th neighbour
    (Zelnik-Manor and Perona 2004).

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
    n_neighbors : int
    sample_weight : array, optional
        Weights of the known objects: weight w counts as w copies when neighbours are counted.

    Examples
    --------
    >>> from sfumato.similarity import self_tuning
    >>> self_tuning([[0.0], [1.0], [2.0]], n_neighbors=1).round(3)[0, 1]
    np.float64(0.368)
    """
    X, Y = _features(X, Y)
    check_number(n_neighbors, "n_neighbors", low=1, integer=True)
    known = X if Y is None else Y
    weights = {"weights": sample_weight}
    scale_known = scale_new = _positive(neighbor_distances(known, n_neighbors, **weights))
    if Y is not None:
        scale_new = _positive(neighbor_distances(known, n_neighbors, X, **weights))
    W = _squared_distances(X, Y)
    W /= -scale_new[:, None]
    W /= scale_known[None, :]
    return np.exp(W, out=W)


def knn(
    X: Array,
    Y: Array | None = None,
    *,
    n_neighbors: int = 10,
    metric: str = "euclidean",
    sample_weight: Any = None,
) -> sp.csr_array:
    """Graph of nearest neighbours, a CSR array (n, n) or (n, m).

    Entries are 1 for mutual neighbours and 1/2 for one-sided ones; an object is its own neighbour.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
        NaN is a missing value: distances are then computed from the features that both objects
        have, and rescaled to all features.
    Y : array or sparse array of shape (m, p), optional
        Known objects, among which the neighbours of ``X`` are searched.
    n_neighbors : int
        At most the number of objects is used.
    metric : str
        A distance of scikit-learn's NearestNeighbors: "euclidean", "manhattan", "cosine",
        "chebyshev", ...
    sample_weight : array, optional
        Weights of the known objects: weight w counts as w copies. If only some copies of the n-th
        neighbour are among the nearest, the link is their share.

    Examples
    --------
    >>> from sfumato.similarity import knn
    >>> knn([[0.0], [1.0], [5.0]], n_neighbors=2).toarray()
    array([[1. , 1. , 0. ],
           [1. , 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    X, Y = _features(X, Y, missing=True)
    known = X if Y is None else Y
    n_neighbors = check_number(n_neighbors, "n_neighbors", low=1, integer=True)
    weights = check_weights(sample_weight, known, positive=True)
    weights = np.ones(known.shape[0]) if weights is None else weights
    finder = finder_of(known, X, metric)
    if Y is None:
        graph = shares(*reach(finder, None, n_neighbors, weights), n_neighbors, weights, known)
        graph.data *= 0.5
        return sp.csr_array(graph + graph.T)
    return links(finder, X, n_neighbors, weights)


def cosine(X: ArrayLike, Y: ArrayLike | None = None) -> Factored:
    """Cosines of the angles between rows, as an operator of rank p; signed if the features are.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import cosine
    >>> W = cosine([[3.0, 4.0], [0.0, 2.0]])
    >>> (W @ np.eye(2)).round(3)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    X, Y = _features(X, Y, distances=False)
    return Factored(_unit_rows(X), None if Y is None else _unit_rows(Y))


def _features(X: Any, Y: Any, *, missing: bool = False, distances: bool = True) -> tuple[Any, Any]:
    """Checked features of the new and the known objects; also checked for overflow of distances."""
    options: Any = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
    options["ensure_all_finite"] = "allow-nan" if missing else True
    with np.errstate(invalid="ignore", over="ignore"):  # infinities raise an error later
        X = check_array(X, input_name="X", **options)
        Y = None if Y is None else check_array(Y, input_name="Y", **options)
    for part, name in ((X, "X"), (Y, "Y")) if distances else ():
        if part is not None:
            refuse_overflow(part, name)
    known = X if Y is None else Y
    if missing and isinstance(known, np.ndarray):
        refuse_empty_columns(known)
    if Y is not None and X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features but Y has {Y.shape[1]}")
    return X, Y


def _squared_distances(X: Any, Y: Any) -> np.ndarray:
    known = X if Y is None else Y
    fix = "use similarity='cluster-kernel' or 'knn', which stay sparse"
    reserve((X.shape[0], known.shape[0]), X.dtype, "a dense similarity matrix", fix)
    if not sp.issparse(known):
        center = known.mean(axis=0)
        X, Y = X - center, None if Y is None else Y - center
    return euclidean_distances(X, Y, squared=True)


def _median(values: np.ndarray, weights: Any) -> float:
    """The median; with weights, that of all copies."""
    ends = (sign * values for sign in (1.0, -1.0))  # the lower of the two middle copies, from both
    lower, upper = (np.quantile(v, 0.5, weights=weights, method="inverted_cdf") for v in ends)
    return float(lower - upper) / 2


def _positive(scales: np.ndarray) -> np.ndarray:
    """Positive scales: zeros (coinciding neighbours) become the smallest positive one, or 1."""
    positive = scales[scales > 0]
    if not positive.size:
        warn("most objects coincide with their neighbours: a bandwidth of 1 is used")
    return np.maximum(scales, positive.min() if positive.size else 1.0)


def _unit_rows(X: Any) -> Any:
    """Rows of length one; first divided by the largest entry, since squares may overflow."""
    if not sp.issparse(X):
        return unit_rows(X)
    # Divided rather than multiplied: the reciprocal of a very small number is infinite.
    X, counts = sp.csr_array(X), np.diff(X.indptr)
    largest = np.asarray(np.abs(X).max(axis=1).todense()).ravel()
    data = X.data / np.repeat(np.where(largest > 0, largest, 1.0), counts).astype(X.dtype)
    scaled = sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
    length = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ scaled)


Finder = Any  # anything with kneighbors(rows, q), such as scikit-learn's searches


class Tree:
    """Search for Euclidean neighbours among dense objects with few features."""

    def __init__(self, known: np.ndarray, workers: int) -> None:
        self._fit_X, self._workers = known, workers
        self._tree = cKDTree(known, leafsize=48, balanced_tree=False)

    def kneighbors(self, rows: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances and indices (n, q) of the nearest objects, in ascending order."""
        return self._tree.query(rows, range(1, q + 1), workers=self._workers)


def neighbor_distances(
    known: Any, n_neighbors: int, queries: Any = None, *, weights: Any = None
) -> np.ndarray:
    """Distance (n,) to the n-th neighbour; objects are not their own neighbours, but copies are."""
    n = known.shape[0]
    weights = check_weights(weights, known, positive=True)
    if n == 1 and queries is None:
        return np.ones(1)
    finder = finder_of(known, known, "euclidean")
    if weights is None:
        if queries is None:
            return finder.kneighbors(known, min(n_neighbors, n - 1) + 1)[0][:, -1]
        return finder.kneighbors(queries, min(n_neighbors, n))[0][:, -1]
    mass = n_neighbors + (queries is None)
    distance, index = reach(finder, queries, mass, weights)
    return _distance_at(distance, index, mass, weights)


def finder_of(known: Any, queries: Any, metric: str) -> Finder:
    """A search among the known objects that skips missing values."""
    missing = any(not sp.issparse(part) and np.isnan(part).any() for part in (known, queries))
    # With few objects, starting threads costs more than the search.
    jobs = -1 if queries.shape[0] > 2000 else 1
    if missing and metric != "euclidean":
        raise ValueError(f"metric={metric!r} takes no missing values: use 'euclidean', or impute")
    for part in (known, queries) if missing else ():
        empty = np.flatnonzero(np.isnan(part).all(axis=1))
        if empty.size:
            raise ValueError(
                f"X has no measured value in {empty.size} row{'s' * (empty.size > 1)} (first: row "
                f"{empty[0]}): drop {'them' if empty.size > 1 else 'it'}"
            )
    # SciPy's tree is up to six times as fast as scikit-learn's search, and not slower.
    few_features = isinstance(known, np.ndarray) and known.shape[1] <= 12
    if metric == "euclidean" and not missing and few_features:
        return Tree(known, jobs)
    metric_of = "nan_euclidean" if missing else metric
    try:
        return NearestNeighbors(metric=metric_of, n_jobs=jobs).fit(known)
    except (ValueError, TypeError) as error:
        raise ValueError(f"metric={metric!r} does not work on these features: {error}") from error


def reach(
    finder: Finder, queries: Any, n_neighbors: float, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and indices (n, q) of neighbours whose weights add up to ``n_neighbors``."""
    n = weights.size
    q = min(int(n_neighbors), n)
    rows = finder._fit_X if queries is None else queries
    while True:
        distance, index = finder.kneighbors(rows, q)
        if q == n or (weights[index].sum(axis=1) >= n_neighbors).all():
            return distance, index
        q = min(2 * q, n)


def shares(
    distance: np.ndarray, index: np.ndarray, n_neighbors: int, weights: np.ndarray, known: Any
) -> sp.csr_array:
    """Sparse (n, m) shares of each neighbour's copies that are among the nearest."""
    if index.shape[1] == n_neighbors and (weights == 1).all() and not np.isnan(distance).any():
        small = max(index.size, weights.size) < 2**31
        index = index.astype(np.int32 if small else np.int64, copy=False)
        starts = np.arange(0, index.size + 1, n_neighbors, dtype=index.dtype)
        ones = np.ones(index.size, dtype=known.dtype)
        # Sorted indices make sums of sparse arrays twice as fast.
        entries = ones, np.sort(index, axis=1).ravel(), starts
        return sp.csr_array(entries, shape=(len(index), weights.size))
    weight = weights[index]
    before = np.cumsum(weight, axis=1) - weight
    share = np.clip((n_neighbors - before) / weight, 0.0, 1.0)
    share[np.isnan(distance)] = 0.0
    return _graph(share.astype(known.dtype), index, weights.size)


def _graph(weight: np.ndarray, index: np.ndarray, m: int) -> sp.csr_array:
    """Sparse graph (n, m) with these weights (n, q) at these neighbours (n, q)."""
    starts = np.arange(0, weight.size + 1, weight.shape[1])
    graph = sp.csr_array((weight.ravel(), index.ravel(), starts), shape=(len(index), m))
    graph.eliminate_zeros()
    return graph


def links(finder: Finder, X: Array, n_neighbors: int, weights: np.ndarray) -> sp.csr_array:
    """Half a link to each neighbour, and half from each known object that has x as one."""
    n_neighbors = min(n_neighbors, int(np.ceil(weights.sum())))
    farthest = _distance_at(*reach(finder, None, n_neighbors, weights), n_neighbors, weights)
    distance, index = reach(finder, X, max(5 * n_neighbors, 64), weights)
    own = _distance_at(distance, index, n_neighbors, weights)
    weight = 0.5 * (distance <= own[:, None]) + 0.5 * (distance <= farthest[index])
    return _graph(weight.astype(X.dtype), index, weights.size)


def _distance_at(
    distance: np.ndarray, index: np.ndarray, mass: float, weights: np.ndarray
) -> np.ndarray:
    """Distance (n,) at which the weights of neighbours add up to ``mass``, or the largest one."""
    enough = np.cumsum(weights[index], axis=1) >= mass * (1 - 1e-12)
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), index.shape[1] - 1)
    found = np.take_along_axis(distance, last[:, None], axis=1)[:, 0]
    return np.where(np.isnan(found), np.fmax.reduce(distance, axis=1), found)
