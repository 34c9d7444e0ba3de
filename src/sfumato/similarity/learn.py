"""Costs of the spectral embedding and their gradients, to learn a similarity from labels or pairs
of some objects (Bach and Jordan 2006).

    J(W) = 1/2 |P - Pi|^2 = k - tr(P Pi),
            P = E E',  E the k leading eigenvectors of A = D^-1/2 W D^-1/2,
    Pi = sum_r q_r q_r' / v_r,
            q_r = sqrt(d) on cluster r and 0 elsewhere,  v_r = sum of d over the cluster

    dP = sum_{a <= k < b} (e_b'dA e_a) / (lambda_a - lambda_b) (e_a e_b' + e_b e_a'),  and d = W 1
    moves A and Pi too.

For the Gaussian similarity W_ij = exp(-1/2 sum_f s_f^2 (x_if - x_jf)^2) the chain rule ends at the
logarithms of the scales s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.utils.validation import check_array, check_consistent_length

from ..array.docs import documented
from ..array.labels import check_labelings
from ..array.types import ArrayLike, Similarity
from ..array.validation import check_number, refuse_overflow, refuse_underflow
from ..array.warn import warn
from ..data.constraints import check_pairs
from ..data.matrices import check_similarity
from ..numerics.eigen import waited
from ..numerics.operators import as_dense
from .doubly_stochastic import named
from .graphs import gaussian

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


@documented
def learn_scales(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    penalty: float = 1e-3,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> np.ndarray:
    """Scales (p,) of the features with which spectral clustering best finds known partitions.

    Minimises the spectral cost J of the partitions under the Gaussian similarity, summed over the
    data sets, plus ``penalty`` times the squared scales. Features that do not help end with a scale
    near zero. Use the scales as ``gaussian(X * scales, bandwidth=1.0)`` on data of the same kind.

    Parameters
    ----------
    X : array of shape (n, p), or list of such arrays with the same features
        One or several data sets of some hundred objects each; a step costs O(n^3).
    labels : array of shape (n,), or list of such arrays
        The known cluster of every object.
    penalty : float
        Weight of  sum_f (s_f times the spread of feature f)^2.
    max_iter : int
        Largest number of gradient steps from each of six starts, of which the best is kept.
    tol : float
        Stop when no entry of the gradient is larger.

    %(learning_spectral)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import learn_scales
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X = np.stack([4.0 * y + rng.normal(size=40), rng.normal(size=40)], axis=1)
    >>> scales = learn_scales(X, y)
    >>> bool(scales[0] > 3 * scales[1])
    True
    """
    check_number(penalty, "penalty", low=0)
    check_number(max_iter, "max_iter", low=1, integer=True)
    check_number(tol, "tol", low=0)
    sets = _data_sets(X, labels)
    spread = np.sqrt(np.mean([X.var(axis=0) for X, _ in sets], axis=0))
    spread[spread == 0] = 1.0
    sets = [(X / spread, y) for X, y in sets]

    flat = [np.full(spread.size, np.log(width / np.sqrt(spread.size))) for width in (1.0, 2.0, 4.0)]
    guided = [_descend(neighbor_cost, sets, start, 0.0, max_iter, tol).x for start in flat]
    nested = _nested(guided, _objective(spectral_cost, sets, penalty))
    starts = (*flat, *guided, *nested)
    ends = [_descend(spectral_cost, sets, start, penalty, max_iter, tol) for start in starts]
    return np.exp(min(ends, key=lambda end: end.fun).x) / spread


@documented
def spectral_cost_gradient(W: Similarity, labels: ArrayLike) -> tuple[float, np.ndarray]:
    """Spectral cost of a known partition, and its derivative with respect to each similarity.

    With the chain rule dJ/dt = sum_ij G_ij dW_ij/dt, any similarity that depends smoothly on
    parameters t can be learnt from labelled objects.

    Parameters
    ----------
    W : array or sparse array of shape (n, n)
        Symmetric and nonnegative; every labelled object must be similar to another one.
    labels : array of shape (n,)
        The known cluster of every object, -1 or NaN if unknown. Only similarities among labelled
        objects count.

    Returns
    -------
    cost : float
        J = 1/2 |E E' - Pi|^2: 0 if spectral clustering finds exactly this partition, at most the
        number of clusters minus one.
    %(similarity_gradient)s
        0 for pairs with an unlabelled object.

    %(learning_spectral)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import spectral_cost_gradient
    >>> W = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> cost, G = spectral_cost_gradient(W, [0, 0, 0, 1, 1, 1])
    >>> bool(cost < 1e-12), G.shape
    (True, (6, 6))
    """
    dense: np.ndarray = as_dense(check_similarity(W)).astype(np.float64)
    codes = check_labelings(np.asarray(labels), "labels")[:, 0]
    if codes.size != len(dense):
        raise ValueError(f"labels must name {len(dense)} objects, got {codes.size}")
    rows = np.flatnonzero(codes >= 0)
    known, own = np.unique(codes[rows], return_inverse=True)
    if not 1 < known.size < rows.size:
        raise ValueError(
            f"labels must name at least 2 clusters and fewer than the {rows.size} labelled "
            f"objects, got {known.size}"
        )
    part = dense[np.ix_(rows, rows)]
    _refuse_lonely(part, rows, "labelled object")
    value, slope = waited(spectral_cost, part, own)
    gradient = np.zeros_like(dense)
    gradient[np.ix_(rows, rows)] = (slope + slope.T) / 2
    return value, gradient


def _refuse_lonely(W: np.ndarray, rows: np.ndarray, others: str) -> None:
    """Refuse objects without similarities: the derivative divides by the square of a degree."""
    degree = W.sum(axis=1)
    if not (degree > 1e-100 * max(degree.max(), 1.0)).all():
        lonely = rows[degree.argmin()]
        raise ValueError(f"object {lonely} has no similarity to any {others}: leave it out")


def _nested(guided: list[np.ndarray], objective: Objective) -> list[np.ndarray]:
    """The two best starts among those with only the 1, 2, 4, ... features of largest scale:
    descents from all features often end before irrelevant scales vanish.
    """
    candidates = []
    for scales in guided:
        order, size = np.argsort(-scales, kind="stable"), 1
        while size < scales.size:
            start = np.full_like(scales, -6.0)  # log scale of an almost ignored feature
            level = scales[order[:size]] - scales[order[0]]
            for width in (2.0, 4.0, 8.0):  # fewer features need a narrower kernel
                start[order[:size]] = level + np.log(width)
                candidates.append(start.copy())
            size *= 2
    return sorted(candidates, key=lambda start: objective(start)[0])[:2]


def _objective(cost: Cost, sets: list[Any], penalty: float) -> Objective:
    """The penalised cost, summed over the data sets, and its gradient."""

    def objective(log_scales: np.ndarray) -> tuple[float, np.ndarray]:
        squares = penalty * np.exp(2 * log_scales)
        value, gradient = squares.sum(), 2 * squares
        for X, y in sets:
            more, slope = waited(scale_gradient, cost, X, y, log_scales)
            value, gradient = value + more, gradient + slope
        return value, gradient

    return objective


def _descend(
    cost: Cost, sets: list[Any], start: np.ndarray, penalty: float, max_iter: int, tol: float
) -> Any:
    """The minimum of the penalised cost over the logarithms of the scales."""
    settings: Any = {"jac": True, "method": "L-BFGS-B", "bounds": [(-9.0, 5.0)] * start.size}
    options = {"maxiter": max_iter, "gtol": tol}
    objective = _objective(cost, sets, penalty)
    return minimize(objective, np.clip(start, -9, 5), options=options, **settings)


def _data_sets(X: Any, labels: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features in float64 and labels 0, 1, ... of every data set."""
    several = isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 2
    pairs = list(zip(X, labels, strict=True)) if several else [(X, labels)]
    sets = []
    for features, known in pairs:
        with np.errstate(invalid="ignore", over="ignore"):  # infinities raise an error later
            features = check_array(features, dtype=np.float64, ensure_min_samples=2)
        refuse_overflow(features, "X")
        refuse_underflow(features, "X")
        check_consistent_length(features, known)
        classes, codes = np.unique(np.asarray(known), return_inverse=True)
        if not 1 < classes.size < len(codes):
            raise ValueError(f"labels must name 2 to {len(codes) - 1} clusters, got {classes.size}")
        sets.append((features, codes))
    if len(widths := {features.shape[1] for features, _ in sets}) > 1:
        raise ValueError(f"the data sets must have the same features, got {sorted(widths)}")
    return sets


ABSENT = 1e-24  # squared length below which a row of the embedding is zero up to rounding


@documented
def pair_cost_gradient(
    W: Similarity,
    n_clusters: int,
    *,
    must_link: ArrayLike | None = None,
    cannot_link: ArrayLike | None = None,
) -> tuple[float, np.ndarray]:
    """Cost of known pairs in the spectral embedding, and its derivative by each similarity.

    With the rows e_i of the leading eigenvectors of the normalised similarity and the cosine c_ij
    of e_i and e_j, the cost is the weighted mean of (1 - c_ij)^2 over pairs that belong together
    and of c_ij^2 over pairs that belong apart. It is 0 if spectral clustering into ``n_clusters``
    satisfies all pairs. With its derivative, parameters of a similarity can be learnt from pairs,
    as ``spectral_cost_gradient`` does from labels.

    Parameters
    ----------
    W : array or sparse array of shape (n, n)
        Symmetric and nonnegative; every object must be similar to another one. Costs O(n^3). If W
        has more connected components than ``n_clusters``, objects in which the leading eigenvectors
        are zero count as orthogonal to the others, with a warning.
    n_clusters : int
        Number of leading eigenvectors, at least 2 and fewer than n.
    must_link, cannot_link : array of shape (m, 2) or (m, 3), optional
        Pairs of rows that belong together and apart; a third column holds positive weights, 1 by
        default. At least one pair is needed.

    Returns
    -------
    cost : float
    %(similarity_gradient)s

    %(learning_spectral)s

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.similarity import pair_cost_gradient
    >>> W = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> cost, G = pair_cost_gradient(W, 2, must_link=[(0, 1)], cannot_link=[(1, 4)])
    >>> bool(cost < 1e-12), G.shape
    (True, (6, 6))
    """
    dense: np.ndarray = as_dense(check_similarity(W)).astype(np.float64)
    n = len(dense)
    if n < 3:
        raise ValueError(f"W must hold similarities of 3 objects or more, got {n}")
    check_number(n_clusters, "n_clusters", low=2, high=n - 1, integer=True)
    pairs, wanted, weights = _known(must_link, cannot_link, n)
    _refuse_lonely(dense, np.arange(n), "other")
    _, E, chained = waited(_embedded, dense, n_clusters)
    P = E @ E.T
    _warn_of_absent(P.diagonal(), pairs, n_clusters)
    cost, G = _of_projection(P, pairs, wanted, weights)
    G = chained(G)
    return cost, (G + G.T) / 2


def _known(
    must_link: ArrayLike | None, cannot_link: ArrayLike | None, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs (m, 2), the wanted cosine of each, and weights that sum to one."""
    none = np.empty((0, 2))
    together, first = check_pairs(none if must_link is None else must_link, n, "must_link")
    apart, second = check_pairs(none if cannot_link is None else cannot_link, n, "cannot_link")
    pairs = np.concatenate([together, apart])
    if not len(pairs):
        raise ValueError("must_link or cannot_link must hold a pair of rows, got none")
    weights = np.nan_to_num(np.concatenate([first, second]), nan=1.0)
    return pairs, np.repeat([1.0, 0.0], [len(together), len(apart)]), weights / weights.sum()


def _warn_of_absent(own: np.ndarray, pairs: np.ndarray, n_clusters: int) -> None:
    """Warn if objects of the given pairs have a zero row in the embedding."""
    absent = np.unique(pairs)[own[np.unique(pairs)] <= ABSENT]
    if absent.size:
        warn(
            f"objects {named(absent)} of the pairs do not appear in the {n_clusters} leading "
            "eigenvectors: W has more connected components than n_clusters. Their pairs count "
            "as orthogonal and have no derivative; widen the similarity"
        )


def _of_projection(
    P: np.ndarray, pairs: np.ndarray, wanted: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """The cost, as a function of the projection P on the eigenvectors, and its derivative."""
    i, j = pairs.T
    there = np.minimum(P.diagonal()[i], P.diagonal()[j]) > ABSENT
    own = np.where(P.diagonal() > ABSENT, P.diagonal(), 1.0)
    size = np.sqrt(own[i] * own[j])
    cosine = np.where(there, P[i, j] / size, 0.0)
    miss = cosine - wanted
    slope = np.where(there, 2.0 * weights * miss, 0.0)
    G = np.zeros_like(P)
    np.add.at(G, (i, j), slope / size / 2)
    np.add.at(G, (j, i), slope / size / 2)
    for one in (i, j):
        np.add.at(G, (one, one), -slope * cosine / (2 * own[one]))
    return float(weights @ miss**2), G


Cost = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]


def _embedded(
    W: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Degrees, the k leading eigenvectors E (n, k), and the chain rule from dJ/d(EE') to W."""
    degree = W.sum(axis=1)
    s = degree**-0.5
    A = s[:, None] * W * s
    values, vectors = np.linalg.eigh(A)
    E, rest = vectors[:, -k:], vectors[:, :-k]
    gaps = np.maximum(values[-k:] - values[:-k, None], 1e-10)

    def chained(G: np.ndarray) -> np.ndarray:
        half = rest @ ((rest.T @ (G @ E)) / gaps) @ E.T
        along_A = half + half.T
        along_degree = -(along_A * A).sum(axis=1) / degree
        return along_A * (s[:, None] * s) + along_degree[:, None]

    return degree, E, chained


def spectral_cost(W: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """J of ``labels`` (n,) in 0, ..., k - 1 (all used), and dJ/dW for symmetric changes of W."""
    k = int(labels.max()) + 1
    degree, E, chained = _embedded(W, k)
    Q = (labels[:, None] == np.arange(k)) * np.sqrt(degree)[:, None]
    volume = np.bincount(labels, degree)
    inner = E.T @ Q
    shares = (inner**2).sum(axis=0) / volume
    pull = np.take_along_axis(E @ inner, labels[:, None], axis=1)[:, 0]
    along_degree = (shares[labels] - pull / np.sqrt(degree)) / volume[labels]
    return float(k - shares.sum()), chained(-(Q / volume) @ Q.T) + along_degree[:, None]


def neighbor_cost(W: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Smooth chance that a random step along W leaves its cluster, and its gradient, for starts."""
    W = W - np.diag(W.diagonal())
    same = labels[:, None] == labels
    degree = W.sum(axis=1) + 1e-300
    stay = (W * same).sum(axis=1) / degree
    slope = (stay[:, None] - same) / (degree[:, None] * len(labels))
    np.fill_diagonal(slope, 0)
    return float(1 - stay.mean()), slope


def scale_gradient(
    cost: Cost, X: np.ndarray, labels: np.ndarray, log_scales: np.ndarray
) -> tuple[float, np.ndarray]:
    """A cost of the Gaussian similarity, and its gradient by the logarithms of the scales, (p,)."""
    scales = np.exp(log_scales)
    W = gaussian(X * scales, bandwidth=1.0)
    value, slope = cost(W, labels)
    N = slope * W
    X = X - X.mean(axis=0)
    squares = (N.sum(axis=0) + N.sum(axis=1)) @ X**2 - 2 * (X * (N @ X)).sum(axis=0)
    return value, -(scales**2) * squares
