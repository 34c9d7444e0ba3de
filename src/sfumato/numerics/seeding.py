"""Starts: k-means++ and merging of groups, on a sample of a few thousand objects with weights.

k-means++ (Arthur and Vassilvitskii 2007): the next center is drawn with probability  w_i min_j |x_i
- c_j|^2,  best of several draws, so that two centers never coincide. Draws go by cumulative weight
over sorted objects, so weight w counts as w copies and the order of the objects does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array.arrays import native, to_numpy
from ..array.rows import Rows
from . import distances


def sort(X: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Objects of positive weight in lexicographic order of (at most sixteen) features."""
    if not X.size:
        order = np.arange(len(X))
    elif np.isnan(X[:, 0]).any():
        order = np.lexsort(X.T[15::-1])  # the first feature is the last key
    else:
        order = np.argsort(X[:, 0], kind="stable")
        # Ties are few: to sort all by sixteen features takes most of the time of a start.
        same = np.diff(X[order, 0]) == 0
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        if tied.size:
            objects = order[tied]
            order[tied] = objects[np.lexsort(X[objects].T[15::-1])]
    return order if weights is None else order[weights[order] > 0]


def sorted_sample(
    rows: Rows,
    size: int,
    rng: np.random.Generator,
    *,
    features: Callable[[Any], Any] | None = None,
    key: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray | None]]:
    """Features (m, d), weights (m,) and further columns of the objects that a start looks at.

    At most ``size`` of them, in float64, and in an order that does not depend on that of the rows:
    by ``key`` of the features or by the features themselves, as ``features`` makes them of a block.
    """
    few = rows if rows.shape[0] <= size else rows.sample(size, rng)
    made = few.map(lambda block, *_: block if features is None else features(block))
    X = to_numpy(made).astype(np.float64)
    first, *others = few.columns
    weights = np.ones(len(X)) if first is None else to_numpy(first)
    order = sort(X if key is None else key(X), weights)
    rest = [None if column is None else column[order] for column in others]
    return X[order], weights[order], rest


def distinct(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Different objects out of sorted ones, their weights, and which of them each object is."""
    new = np.ones(len(X), dtype=bool)
    new[1:] = np.any(X[1:] != X[:-1], axis=1)
    index = np.cumsum(new) - 1
    return X[new], np.bincount(index, weights=weights), index


def standardize(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``X`` with mean zero and variance one in every feature that varies."""
    share = weights / weights.sum()
    X = X - share @ X
    variance = share @ X**2
    return X / np.sqrt(np.where(variance > 0, variance, 1.0))


def whiten(X: np.ndarray, weights: np.ndarray, power: float = 1.0) -> np.ndarray:
    """``X`` with mean zero and its covariance raised to 1 - ``power``, as far as its rank goes."""
    share = weights / weights.sum()
    X = X - share @ X
    values, vectors = np.linalg.eigh((X.T * share) @ X)
    # Directions without variance would only amplify rounding errors.
    good = values > 1e-12 * max(values.max(initial=0.0), np.finfo(float).tiny)
    return X @ (vectors[:, good] / values[good] ** (power / 2.0)) if good.any() else X


def nearest(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Index of the nearest center of every object."""
    return np.argmin(np.sum(centers**2, axis=1)[:, None] - 2.0 * (centers @ X.T), axis=0)


def kmeans_plus_plus(
    X: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator, *, cap: float = np.inf
) -> np.ndarray:
    """``k`` objects as centers (k, d), different as long as there are so many different objects.

    Squared distances count up to ``cap``, so that outliers are not drawn more often than others.
    """
    # As many candidates as scikit-learn tries for each center.
    n_trials = 2 + int(np.log(k))
    first, draws = rng.random(), rng.random((k - 1, n_trials))
    return X[native("kmeans").plus_plus(X, weights, first, draws, cap)]


def kmeans(
    X: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator, *, n_steps: int = 10
) -> np.ndarray:
    """Labels (n,) after k-means++ and a few steps of Lloyd's algorithm."""
    return lloyd(X, weights, kmeans_plus_plus(X, weights, k, rng), n_steps)


def lloyd(X: np.ndarray, weights: np.ndarray, centers: np.ndarray, n_steps: int) -> np.ndarray:
    """Labels (n,) after a few steps of Lloyd's algorithm."""
    return native("kmeans").lloyd(X, weights, centers, n_steps, 0.0)[1]


def unit(weights: np.ndarray) -> float:
    """Weight of one object: one, or the average weight where weights are shares."""
    return min(1.0, float(weights.sum()) / len(weights))


def merge(
    mass: np.ndarray,
    mean: np.ndarray,
    trace: np.ndarray,
    cost: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Pairs (m - 1, 2) of groups in the order in which they are merged, each into the first one.

    Merges the pair that raises the sum of ``cost(mass, trace)`` over groups least, again and
    again. ``mass`` (m,), ``mean`` (m, d) and the traces of the scatter (m,) are written to.
    """

    def union(a: Any, others: Any) -> tuple[np.ndarray, np.ndarray]:
        N = mass[a] + mass[others]
        gap, share = mean[others] - mean[a], mass[a] * mass[others] / N
        return N, trace[a] + trace[others] + share * np.sum(gap * gap, axis=1)

    m = len(mass)
    alive, own, rise = np.ones(m, dtype=bool), cost(mass, trace), np.full((m, m), np.inf)
    for one in range(m):
        two = np.arange(one + 1, m)
        rise[one, two] = rise[two, one] = cost(*union(one, two)) - own[one] - own[two]
    pairs = np.empty((max(m - 1, 0), 2), dtype=np.intp)
    for pair in pairs:
        pair[:] = a, b = divmod(int(np.argmin(rise)), m)
        N, W = union(a, [b])
        mean[a] = (mass[a] * mean[a] + mass[b] * mean[b]) / N[0]
        mass[a], trace[a], alive[b] = N[0], W[0], False
        own[a] = cost(N, W)[0]
        rise[b, :] = rise[:, b] = np.inf
        others = np.flatnonzero(alive & (np.arange(m) != a))
        rise[a, others] = rise[others, a] = cost(*union(a, others)) - own[a] - own[others]
    return pairs


def cut(tree: np.ndarray, n_clusters: int) -> np.ndarray:
    """Labels when a linkage tree (SciPy's format) is cut into exactly so many, ties or not."""
    n = len(tree) + 1
    merges = tree[: n - n_clusters, :2].astype(np.int64)
    parents = np.repeat(np.arange(n, n + len(merges)), 2)
    links = np.ones(len(parents)), (merges.reshape(-1), parents)
    graph = sp.coo_array(links, shape=(2 * n, 2 * n))
    labels = connected_components(graph, directed=False)[1][:n]
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def best_move(
    X: np.ndarray, weights: np.ndarray, labels: np.ndarray, k: int
) -> tuple[float, np.ndarray, bool]:
    """Gain of the best move of a partition (n,) into ``k`` groups, the groups (n,) that it would
    leave, and whether they are so clear that no other partition need be tried.

    A move merges two groups and cuts a third, along its longest axis, along the one with the least
    kurtosis, or into a core and a shell. The gain is one of the log-likelihood where objects are in
    their groups for certain, covariances being free; infinite where groups are too small.

    A partition is clear where every cut loses what one through a Gaussian does, every merge loses,
    and the best of both together loses more than EM could make up for. A cut through the middle of
    a Gaussian loses 0.5 log(1 - 2 / pi) + log 2 = 0.19 for each object, with a standard deviation
    of 0.45 over the root of their number; one through a uniform cloud loses nothing. A merge of two
    Gaussians at 6 standard deviations loses 0.46, of two halves of a cloud nothing. The numbers
    were set on Gaussian clusters in 2 to 16 dimensions.
    """
    d = X.shape[1]
    share = (labels == np.arange(k)[:, None]) * weights
    mass = share.sum(axis=1)
    if mass.min() < 2 * (d + 1):
        return np.inf, labels, False
    Z = distances.features(X.T, "full")
    sums = share @ Z.T
    sides = _cuts(X, weights, labels, sums)
    halves = (share * sides[:, None, :]).reshape(len(sides) * k, -1) @ Z.T
    i, j = np.triu_indices(k, 1)
    every = [sums, halves, np.tile(sums, (len(sides), 1)) - halves, sums[i] + sums[j]]
    heights = _heights(np.concatenate(every), d)
    if not np.isfinite(heights).all():
        return np.inf, labels, False
    own, one, other, both = np.split(heights, np.cumsum([len(part) for part in every[:-1]]))
    gains = (one + other).reshape(-1, k) - own
    losses = own[i] + own[j] - both
    kind, cut = np.unravel_index(np.argmax(gains), gains.shape)
    least = int(np.argmin(np.where((i == cut) | (j == cut), np.inf, losses)))
    moved = np.where(labels == j[least], i[least], labels)
    moved[(labels == cut) & sides[kind]] = j[least]
    gain = max(float(gains.max()), 0.0) - float(losses.min())
    free = (d + 1) * (d + 2) / 2  # parameters of a group
    whole = (gains < free - 0.19 * mass + 1.35 * np.sqrt(mass)).all()
    apart = (losses > free + 0.2 * np.minimum(mass[i], mass[j])).all()
    return gain, moved, bool(whole and apart and gain < -0.75 * free)


def _cuts(X: np.ndarray, weights: np.ndarray, labels: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """On which side (3, n) of its group every object lies: of two axes, and of the middle shell."""
    _, means, scatter = _shapes(sums, X.shape[1])
    sides = np.empty((3, len(X)), dtype=bool)
    for j, (values, axes) in enumerate(zip(*np.linalg.eigh(scatter), strict=True)):
        rows = np.flatnonzero(labels == j)
        projected = (X[rows] - means[j]) @ axes
        squares = projected * projected
        along = np.maximum(weights[rows] @ squares, 1e-100)
        flattest = np.argmin((weights[rows] @ (squares * squares)) / along**2)
        radius = squares @ (1.0 / np.maximum(values, 1e-100))
        sides[0, rows] = projected[:, -1] > 0.0
        sides[1, rows] = projected[:, flattest] > 0.0
        sides[2, rows] = radius > np.median(radius)
    return sides


def _heights(sums: np.ndarray, d: int) -> np.ndarray:
    """What groups add to the log-likelihood, from their sums of z(x); infinite without width."""
    mass, _, scatter = _shapes(sums, d)
    sign, log_det = np.linalg.slogdet(scatter)
    narrow = (sign <= 0.0) | (mass <= d)
    return mass * np.log(mass) - 0.5 * mass * np.where(narrow, -np.inf, log_det)


def _shapes(sums: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masses, means and covariances of groups, from their sums of z(x)."""
    mass, first, second = distances.moments(sums, d, "full")
    mass = np.maximum(mass, np.finfo(float).tiny)
    means = first / mass[:, None]
    return mass, means, second / mass[:, None, None] - means[:, :, None] * means[:, None, :]
