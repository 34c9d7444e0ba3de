"""Learn which features matter, and how much, from data whose clusters are known."""

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
from ..data.matrices import check_similarity
from ..numerics.operators import as_dense
from ..numerics.waiting import waited
from .spectral_cost import Cost, neighbor_cost, scale_gradient, spectral_cost

__all__ = ["learn_scales", "spectral_cost_gradient"]

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
START_WIDTHS = (1.0, 2.0, 4.0)
N_NESTED = 2  # number of starts with few features
NESTED_WIDTHS = (2.0, 4.0, 8.0)  # the fewer features, the narrower the kernel
SILENT = -6.0  # logarithm of the scale of a feature that such a start leaves out


@documented
def learn_scales(
    X: ArrayLike,
    labels: ArrayLike,
    *,
    penalty: float = 1e-3,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> np.ndarray:
    """Scale of every feature with which spectral clustering finds known partitions best.

    Minimises the spectral cost J of the partitions under the similarity exp(-1/2 sum_f s_f^2 (x_f -
    y_f)^2), summed over the data sets, plus ``penalty`` times the squared scales by its exact
    gradient, from equal scales and from scales with which neighbours share their cluster. A feature
    that does not help ends with a scale near zero.

    Parameters
    ----------
    X : array of shape (n, p), or list of such arrays with the same features
        One or several data sets; each costs O(n^3) a step, so give some hundred objects of each.
    labels : array of shape (n,), or list of such arrays
        The known cluster of every object.
    penalty : float
        Weight of  sum_f (s_f times the spread of feature f)^2.
    max_iter : int
        Gradient steps at most, from each of six starts; the best end counts.
    tol : float
        Largest entry of the gradient at which to stop.

    Returns
    -------
    scales : array of shape (p,)
        For ``gaussian(X * scales, bandwidth=1.0)`` on data of the same kind.

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

    flat = [np.full(spread.size, np.log(width / np.sqrt(spread.size))) for width in START_WIDTHS]
    guided = [_descend(neighbor_cost, sets, start, 0.0, max_iter, tol).x for start in flat]
    nested = _nested(guided, _objective(spectral_cost, sets, penalty))
    starts = (*flat, *guided, *nested)
    ends = [_descend(spectral_cost, sets, start, penalty, max_iter, tol) for start in starts]
    return np.exp(min(ends, key=lambda end: end.fun).x) / spread


@documented
def spectral_cost_gradient(W: Similarity, labels: ArrayLike) -> tuple[float, np.ndarray]:
    """Spectral cost of a known partition, and its derivative by every similarity.

    With it any similarity that depends smoothly on parameters can be learnt from some labelled
    objects: by the chain rule dJ/dt = sum_ij G_ij dW_ij/dt, for scales of features, a linear map,
    weights of several similarities or of partitions.

    Parameters
    ----------
    W : array or sparse array of shape (n, n)
        Symmetric, nonnegative similarities; every labelled object has some to another.
    labels : array of shape (n,)
        The known cluster of every object; -1, or NaN, where it is not known. Only similarities
        among labelled objects count.

    Returns
    -------
    cost : float
        J = 1/2 |E E' - Pi|^2, E the leading eigenvectors of the normalised similarity and Pi the
        projection on the clusters: 0 where the partition is what spectral clustering finds, at most
        the number of clusters less one.
    %(similarity_gradient)s
        0 for pairs of which one is not labelled.

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
    degree, least = part.sum(axis=1), 1e-100  # the derivative divides by the square of a degree
    if not (degree > least * max(degree.max(), 1.0)).all():
        lonely = rows[degree.argmin()]
        raise ValueError(f"object {lonely} has no similarity to any labelled object: leave it out")
    value, slope = waited(spectral_cost, part, own)
    gradient = np.zeros_like(dense)
    gradient[np.ix_(rows, rows)] = (slope + slope.T) / 2
    return value, gradient


def _nested(guided: list[np.ndarray], objective: Objective) -> list[np.ndarray]:
    """The best starts with the 1, 2, 4, ... features of the largest scales alone: from all features
    together, a descent often ends before the scales of irrelevant features vanish.
    """
    candidates = []
    for scales in guided:
        order, size = np.argsort(-scales, kind="stable"), 1
        while size < scales.size:
            start = np.full_like(scales, SILENT)
            level = scales[order[:size]] - scales[order[0]]
            for width in NESTED_WIDTHS:
                start[order[:size]] = level + np.log(width)
                candidates.append(start.copy())
            size *= 2
    return sorted(candidates, key=lambda start: objective(start)[0])[:N_NESTED]


def _objective(cost: Cost, sets: list[Any], penalty: float) -> Objective:
    """The penalised cost, summed over the data sets, and its gradient."""

    def objective(log_scales: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = (
            penalty * np.exp(2 * log_scales).sum(),
            2 * penalty * np.exp(2 * log_scales),
        )
        for X, y in sets:
            more, slope = waited(scale_gradient, cost, X, y, log_scales)
            value, gradient = value + more, gradient + slope
        return value, gradient

    return objective


def _descend(
    cost: Cost, sets: list[Any], start: np.ndarray, penalty: float, max_iter: int, tol: float
) -> Any:
    """Minimise the penalised cost by the logarithms of the scales."""
    bounds = [(-9.0, 5.0)] * start.size
    options = {"maxiter": max_iter, "gtol": tol}
    return minimize(
        _objective(cost, sets, penalty),
        np.clip(start, -9, 5),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=options,
    )


def _data_sets(X: Any, labels: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features in float64 and labels 0, 1, ... of every data set."""
    several = isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 2
    pairs = list(zip(X, labels, strict=True)) if several else [(X, labels)]
    sets = []
    for features, known in pairs:
        with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused, not warned of
            features = check_array(features, dtype=np.float64, ensure_min_samples=2)
        refuse_overflow(features, "X")
        refuse_underflow(features, "X")
        check_consistent_length(features, known)
        classes, codes = np.unique(np.asarray(known), return_inverse=True)
        if not 1 < classes.size < len(codes):
            raise ValueError(
                f"labels must name at least 2 clusters and fewer than n={len(codes)}, got "
                f"{classes.size}"
            )
        sets.append((features, codes))
    if len({features.shape[1] for features, _ in sets}) > 1:
        raise ValueError(
            "the data sets must have the same features, got "
            f"{[features.shape[1] for features, _ in sets]}"
        )
    return sets
