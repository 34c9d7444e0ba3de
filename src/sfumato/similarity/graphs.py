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
from sklearn.utils.validation import check_array

from ..array.memory import reserve
from ..array.types import Array, ArrayLike
from ..array.validation import check_number, refuse_overflow
from ..array.warn import warn
from ..data.features import refuse_unseen
from .neighbors import finder_of, known_weights, links, neighbor_distances, reach, shares
from .operators import Factored

__all__ = ["cosine", "gaussian", "knn", "self_tuning"]


def gaussian(
    X: ArrayLike, Y: ArrayLike | None = None, *, bandwidth: float | None = None, weights: Any = None
) -> np.ndarray:
    """Similarities ``exp(-|x - y|^2 / (2 bandwidth^2))``.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
    bandwidth : float, optional
        By default the median distance of an object to its tenth neighbour.
    weights : array, optional
        Of the known objects: an object of weight w counts as w copies when neighbours are counted.

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
        distances = neighbor_distances(X if Y is None else Y, 10, weights=weights)
        bandwidth = _positive(_median(distances, weights))
    else:
        bandwidth = check_number(bandwidth, "bandwidth", low=0, strict=True)
    W = _squared_distances(X, Y)
    # Divided twice: the square of a bandwidth may be no number of this precision.
    limits = np.finfo(W.dtype)
    bandwidth = float(np.clip(bandwidth, limits.tiny, limits.max / 4))
    with np.errstate(over="ignore"):
        W /= bandwidth
        W /= -2.0 * bandwidth
    return np.exp(W, out=W)


def self_tuning(
    X: ArrayLike, Y: ArrayLike | None = None, *, n_neighbors: int = 7, weights: Any = None
) -> np.ndarray:
    """Similarities ``exp(-|x - y|^2 / (s_x s_y))``, s the distance to the n-th neighbour
    (Zelnik-Manor and Perona 2004).

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    Y : array or sparse array of shape (m, p), optional
    n_neighbors : int
    weights : array, optional
        Of the known objects: an object of weight w counts as w copies when neighbours are counted.

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
    scale_known = _positive_each(neighbor_distances(known, n_neighbors, weights=weights))
    scale_new = scale_known
    if Y is not None:
        scale_new = _positive_each(neighbor_distances(known, n_neighbors, X, weights=weights))
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
    weights: Any = None,
) -> sp.csr_array:
    """Graph of nearest neighbours: 1 for mutual neighbours, 1/2 for one-sided ones.

    An object is its own neighbour.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
        NaN counts as not measured: distances are then those in the features that both objects have,
        as if the others differed as much on average.
    Y : array or sparse array of shape (m, p), optional
        Known objects among which the neighbours of ``X`` are sought.
    n_neighbors : int
        Capped at the number of objects.
    metric : str
        A distance that scikit-learn's NearestNeighbors knows: "euclidean", "manhattan", "cosine",
        "chebyshev", ...
    weights : array, optional
        Of the known objects: an object of weight w counts as w copies. Where the n-th neighbour is
        one of several copies, the link is that share of them.

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
    X, Y = _features(X, Y, missing=True)
    known = X if Y is None else Y
    n_neighbors = check_number(n_neighbors, "n_neighbors", low=1, integer=True)
    weights = known_weights(weights, known.shape[0])
    finder = finder_of(known, X, metric)
    if Y is None:
        graph = shares(*reach(finder, None, n_neighbors, weights), n_neighbors, weights, known)
        graph.data *= 0.5
        return sp.csr_array(graph + graph.T)
    return links(finder, X, known, n_neighbors, weights)


def cosine(X: ArrayLike, Y: ArrayLike | None = None) -> Factored:
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
    X, Y = _features(X, Y, distances=False)
    return Factored(_unit_rows(X), None if Y is None else _unit_rows(Y))


def _features(X: Any, Y: Any, *, missing: bool = False, distances: bool = True) -> tuple[Any, Any]:
    """Checked features, and those of the known objects; fit for distances, if asked."""
    options: dict[str, Any] = {
        "accept_sparse": "csr",
        "accept_large_sparse": True,
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": "allow-nan" if missing else True,
    }
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused, not warned of
        X = check_array(X, input_name="X", **options)
        Y = None if Y is None else check_array(Y, input_name="Y", **options)
    for part, name in ((X, "X"), (Y, "Y")) if distances else ():
        if part is not None:
            refuse_overflow(part, name)
    known = X if Y is None else Y
    if missing and isinstance(known, np.ndarray):
        refuse_unseen(known)
    if Y is None:
        return X, None
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


def _median(values: np.ndarray, weights: Any) -> float:
    """The median; with weights that of the copies, the mean of the two middle ones where their
    number is even.
    """
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values, kind="stable")
    total = np.cumsum(np.asarray(weights, dtype=np.float64)[order])
    low = int(np.searchsorted(total, total[-1] / 2 * (1 - 1e-12)))
    high = int(np.searchsorted(total, total[-1] / 2 * (1 + 1e-12)))
    return float(values[order[low]] + values[order[min(high, values.size - 1)]]) / 2


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
        X = sp.csr_array(X)
        # Divided, not multiplied: one over a very small number is infinite.
        divisors = np.repeat(np.where(largest > 0, largest, 1.0), np.diff(X.indptr))
        X = sp.csr_array((X.data / divisors.astype(X.dtype), X.indices, X.indptr), shape=X.shape)
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(1.0 / np.where(length > 0, length, 1.0)) @ X)
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0).astype(X.dtype)
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(length > 0, length, 1.0).astype(X.dtype)
