"""Whether sparse regions lie between the clusters of a labelling: a density test without a refit.

Objects are placed on the directions that part the clusters (eigenvectors of S_w^-1 S_b). With
r_m(y) the distance to the m-th neighbour of a point y in q dimensions, log density is -q log r_m(y)
up to a constant, with standard deviation 1 / sqrt(m) whatever q is. For two clusters a and b that
are neighbours in the graph of m nearest neighbours,

    z_ab = sqrt(m) ( min(g_a, g_b) - g_ab )

where g_a is the median log density in a, and g_ab that at the midpoints of the edges from a to b.
A valley gives a large z; a cut through one cloud gives z near or below 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

__all__ = ["Valleys", "discriminating_coordinates", "leading_coordinates", "valleys"]

FEW = 10  # principal axes that are kept of wider data
MOST = (
    4  # dimensions in which distances to neighbours still show the density of some hundred objects
)
BORDER = 200  # edges of a border that are looked at: the median needs no more
NEIGHBOURS = 0.8  # times sqrt(n): of 0.5, 0.8 and 1.2 the most powerful on blobs and moons, n = 200


class Valleys(NamedTuple):
    """Pairs of clusters that touch (m, 2), their z values (m,), and the pieces of every cluster.

    ``pieces`` counts, for each cluster, the parts of at least a tenth of it (and more objects than
    neighbours) that no edge of the neighbour graph joins.
    """

    pairs: np.ndarray
    z: np.ndarray
    pieces: np.ndarray


def leading_coordinates(X: np.ndarray, k: int = FEW) -> np.ndarray:
    """Centred features, on their leading principal axes where they are more than ``k``.

    Columns are standardised before that if their spreads differ more than tenfold, so that units do
    not decide which axes lead.
    """
    X = X - X.mean(axis=0)
    spread = X.std(axis=0)
    X, spread = X[:, spread > 1e-12 * spread.max(initial=0.0)], spread[spread > 0]
    if X.shape[1] <= k:
        return X
    if spread.max() > 10 * spread.min():
        X = X / X.std(axis=0)
    n, p = X.shape
    if p <= n:
        axes = eigh(X.T @ X, subset_by_index=[p - k, p - 1])[1]
        return X @ axes
    values, vectors = eigh(X @ X.T, subset_by_index=[n - k, n - 1])
    return vectors * np.sqrt(np.maximum(values, 0.0))


def discriminating_coordinates(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Coordinates in which clusters are round: up to 4, those that part the clusters.

    Scaled by the covariance within clusters, so any invertible linear map of X gives the same.
    """
    n, p = X.shape
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    sums = np.zeros((k, p))
    np.add.at(sums, labels, X)
    means = sums / np.maximum(sizes, 1)[:, None]
    residuals = X - means[labels]
    within, between = residuals.T @ residuals / n, (means * sizes[:, None]).T @ means / n
    total = float(np.trace(within) + np.trace(between))
    ridge = 1e-3 * float(np.trace(within)) / p + 1e-9 * total / p
    axes = eigh(between, within + ridge * np.eye(p))[1][:, ::-1]
    return X @ (axes if p <= MOST else axes[:, : max(2, min(k - 1, MOST))])


def valleys(Y: np.ndarray, labels: np.ndarray) -> Valleys:
    """Depth of the valleys between clusters that touch, for objects at Y (n, q), labels (n,)."""
    n, q = Y.shape
    k = int(labels.max()) + 1
    m = int(np.clip(round(NEIGHBOURS * np.sqrt(n)), 3, n - 1))
    tree = cKDTree(Y)
    distances, neighbours = tree.query(Y, m + 1)
    tiny = 1e-12 * max(float(distances[:, -1].max()), np.finfo(float).tiny)
    density = -q * np.log(np.maximum(distances[:, -1], tiny))
    i, j = np.repeat(np.arange(n), m), neighbours[:, 1:].ravel()
    pieces = _pieces(i, j, labels, k, m)
    across = labels[i] != labels[j]
    i, j = i[across], j[across]
    key = np.minimum(labels[i], labels[j]) * k + np.maximum(labels[i], labels[j])
    first = labels[i] < labels[j]
    lower, upper = np.where(first, i, j), np.where(first, j, i)
    found = np.unique(key)
    for side in (lower, upper):  # one or two strays inside another cluster are no border
        owner, counts = np.unique(np.unique(key * n + side) // n, return_counts=True)
        found = np.intersect1d(found, owner[counts > 2])
    pairs = np.column_stack([found // k, found % k])
    if not len(found):
        return Valleys(pairs, np.empty(0), pieces)
    few = _few_of_each(key, BORDER)
    i, j, key = i[few], j[few], key[few]
    radius = tree.query((Y[i] + Y[j]) / 2, [m])[0][:, 0]
    border = -q * np.log(np.maximum(radius, tiny))
    inside = np.array([np.median(density[labels == c]) for c in range(k)])
    depth = [
        inside[pair].min() - np.median(border[key == code])
        for pair, code in zip(pairs, found, strict=True)
    ]
    return Valleys(pairs, np.sqrt(m) * np.array(depth), pieces)


def _few_of_each(key: np.ndarray, most: int) -> np.ndarray:
    """Positions of at most so many of every value, drawn with a fixed seed."""
    if len(key) <= most:
        return np.arange(len(key))
    order = np.random.default_rng(0).permutation(len(key))
    order = order[np.argsort(key[order], kind="stable")]
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    return np.sort(order[rank < most])


def _pieces(i: np.ndarray, j: np.ndarray, labels: np.ndarray, k: int, m: int) -> np.ndarray:
    n = len(labels)
    same = labels[i] == labels[j]
    graph = csr_array((np.ones(int(same.sum()), dtype=np.int8), (i[same], j[same])), shape=(n, n))
    part = connected_components(graph, directed=False)[1]
    sizes, sizes_of_clusters = np.bincount(part), np.bincount(labels, minlength=k)
    cluster = np.empty(len(sizes), dtype=int)
    cluster[part] = labels
    large = sizes >= np.maximum(m + 1, 0.1 * sizes_of_clusters[cluster])
    return np.bincount(cluster[large], minlength=k)
