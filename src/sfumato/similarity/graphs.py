"""From features to similarities.

Each function is ``f(X, Y=None)``: the similarities (n, n) among the rows of X or, with Y, those (n,
m) of new objects X to known objects Y. What is learnt from the data (a bandwidth, a local scale) is
learnt from the known objects, so both calls agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_array

from ..core.memory import reserve
from ..core.validation import check_number
from ..core.warn import warn
from .operators import Factored

__all__ = ["cosine", "gaussian", "knn", "self_tuning"]

FEW = 2000  # objects whose neighbours are found before threads have been started


def gaussian(X: Any, Y: Any = None, *, bandwidth: float | None = None) -> np.ndarray:
    """Similarities ``exp(-|x - y|^2 / (2 bandwidth^2))``.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
    bandwidth : float, optional
        By default the median distance of an object to its tenth neighbour.

    Returns
    -------
    W : array of shape (n, n) or (n, m)

    Examples
    --------
    >>> from sfumato.similarity import gaussian
    >>> gaussian([[0.0], [2.0]], bandwidth=1.0).round(3)
    array([[1.   , 0.135],
           [0.135, 1.   ]])
    """
    X, Y = _features(X, Y)
    if bandwidth is None:
        bandwidth = _positive(np.median(_neighbor_distances(X if Y is None else Y, 10)))
    else:
        bandwidth = check_number(bandwidth, "bandwidth", low=0, strict=True)
    W = _squared_distances(X, Y)
    W /= -2.0 * bandwidth**2
    return np.exp(W, out=W)


def self_tuning(X: Any, Y: Any = None, *, n_neighbors: int = 7) -> np.ndarray:
    """Similarities ``exp(-|x - y|^2 / (s_x s_y))``, s the distance to the n-th neighbour
    (Zelnik-Manor and Perona 2004).

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
    n_neighbors : int

    Returns
    -------
    W : array of shape (n, n) or (n, m)

    Examples
    --------
    >>> from sfumato.similarity import self_tuning
    >>> self_tuning([[0.0], [1.0], [2.0]], n_neighbors=1).round(3)[0, 1]
    np.float64(0.368)
    """
    X, Y = _features(X, Y)
    check_number(n_neighbors, "n_neighbors", low=1, integer=True)
    known = X if Y is None else Y
    scale_known = _positive_each(_neighbor_distances(known, n_neighbors))
    scale_new = (
        scale_known if Y is None else _positive_each(_neighbor_distances(known, n_neighbors, X))
    )
    W = _squared_distances(X, Y)
    W /= -scale_new[:, None]
    W /= scale_known[None, :]
    return np.exp(W, out=W)


def knn(X: Any, Y: Any = None, *, n_neighbors: int = 10) -> sp.csr_array:
    """Graph of nearest neighbours: 1 for mutual neighbours, 1/2 for one-sided ones.

    An object is its own neighbour.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
        Known objects among which the neighbours of ``X`` are sought.
    n_neighbors : int
        Capped at the number of objects.

    Returns
    -------
    W : CSR array of shape (n, n) or (n, m)

    Examples
    --------
    >>> from sfumato.similarity import knn
    >>> knn([[0.0], [1.0], [5.0]], n_neighbors=2).toarray()
    array([[1. , 1. , 0. ],
           [1. , 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    X, Y = _features(X, Y)
    known = X if Y is None else Y
    n_neighbors = min(check_number(n_neighbors, "n_neighbors", low=1, integer=True), known.shape[0])
    finder = NearestNeighbors(n_neighbors=n_neighbors, n_jobs=-1 if X.shape[0] > FEW else None).fit(
        known
    )
    if Y is None:
        graph = sp.csr_array(finder.kneighbors_graph(X).astype(X.dtype))
        return sp.csr_array((graph + graph.T) * 0.5)
    return _links(finder, X, known, n_neighbors)


def _links(finder: NearestNeighbors, X: Any, known: Any, n_neighbors: int) -> sp.csr_array:
    """Half a link to each neighbour, half from each known object that would count x among its own.

    The latter are sought among five times as many neighbours (and at least 64).
    """
    reach = finder.kneighbors(known)[0][:, -1]
    distance, index = finder.kneighbors(X, min(max(5 * n_neighbors, 64), known.shape[0]))
    weight = 0.5 * (distance <= distance[:, n_neighbors - 1 : n_neighbors]) + 0.5 * (
        distance <= reach[index]
    )
    starts = np.arange(0, weight.size + 1, weight.shape[1])
    rows = sp.csr_array(
        (weight.ravel().astype(X.dtype), index.ravel(), starts), shape=(X.shape[0], known.shape[0])
    )
    rows.eliminate_zeros()
    return rows


def cosine(X: Any, Y: Any = None) -> Factored:
    """Cosines of the angles between rows, as an operator of rank p.

    Never formed, and signed if the features are.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional

    Returns
    -------
    W : operator of shape (n, n) or (n, m)

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import cosine
    >>> W = cosine([[3.0, 4.0], [0.0, 2.0]])
    >>> (W @ np.eye(2)).round(3)
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    X, Y = _features(X, Y)
    return Factored(_unit_rows(X), None if Y is None else _unit_rows(Y))


def _features(X: Any, Y: Any) -> tuple[Any, Any]:
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused, not warned of
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if Y is None:
            return X, None
        Y = check_array(Y, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="Y")
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features but Y has {Y.shape[1]}: they must describe the same "
            "features"
        )
    return X, Y


def _squared_distances(X: Any, Y: Any) -> np.ndarray:
    known = X if Y is None else Y
    reserve(
        (X.shape[0], known.shape[0]),
        X.dtype,
        "a dense similarity matrix",
        "use similarity='cluster-kernel' or 'knn', which stay sparse",
    )
    if not sp.issparse(known):
        center = known.mean(axis=0)
        X, Y = X - center, None if Y is None else Y - center
    return euclidean_distances(X, Y, squared=True)


def _neighbor_distances(known: Any, n_neighbors: int, queries: Any = None) -> np.ndarray:
    """Distance to the n-th neighbour; an object is not its own neighbour."""
    n_neighbors = (
        max(1, min(n_neighbors, known.shape[0] - 1))
        if queries is None
        else min(n_neighbors, known.shape[0])
    )
    if known.shape[0] == 1 and queries is None:
        return np.ones(1)
    finder = NearestNeighbors(n_neighbors=n_neighbors, n_jobs=-1).fit(known)
    return finder.kneighbors(queries)[0][:, -1]


def _positive(scale: float) -> float:
    if scale > 0:
        return float(scale)
    warn("most objects coincide with their neighbours: a bandwidth of 1 is used")
    return 1.0


def _positive_each(scales: np.ndarray) -> np.ndarray:
    """Objects with as many copies as neighbours get the smallest positive scale."""
    positive = scales[scales > 0]
    floor = positive.min() if positive.size else _positive(0.0)
    return np.maximum(scales, floor)


def _unit_rows(X: Any) -> Any:
    """Rows of length one; divided by their largest entry first, whose square may overflow."""
    if sp.issparse(X):
        largest = np.asarray(np.abs(X).max(axis=1).todense()).ravel()
        X = sp.csr_array(sp.diags_array(1.0 / np.where(largest > 0, largest, 1.0)) @ X)
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ X)
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0).astype(X.dtype)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(length > 0, length, 1.0).astype(X.dtype)
