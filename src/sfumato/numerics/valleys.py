"""Whether sparse regions lie between the clusters of a labelling: a density test without a refit.

Objects are placed on the directions that separate the clusters (eigenvectors of S_w^-1 S_b). With
r_m(y) the distance to the m-th neighbour of a point y in q dimensions, log density is -q log r_m(y)
up to a constant, with standard deviation 1 / sqrt(m) whatever q is. For two clusters a and b that
are neighbours in the graph of nearest neighbours,

    z_ab = sqrt(m) ( min(g_a, g_b) - g_ab )

where g_a is the median log density in a, and g_ab that of the border: the midpoints of the edges
from a to b. Every object of the side with fewer border objects counts once, by the median over its
edges: a single stray inside the other cluster has many edges. A valley gives a large z; a cut
through one cloud gives z near or below 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..core.optional import compiled_module

__all__ = [
    "Valleys",
    "discriminating_coordinates",
    "leading_coordinates",
    "valleys",
    "without_ties",
]

FEW_VALUES = 5  # different values from which on a rounded column is taken as continuous
FEW = 10  # principal axes that are kept of wider data
MOST = (
    4  # dimensions in which distances to neighbours still show the density of some hundred objects
)
BORDER = 200  # edges of a border that are looked at: the median needs no more
# Edges that are looked at first, and the z from which on they settle it: the median over so few is
# off by 0.8 (standard deviation, 2000 objects in 8 groups), and no threshold in use is above 1.6.
FIRST_LOOK, CLEAR = 64, 4.0
NEIGHBOURS = 0.8  # times sqrt(n): of 0.5, 0.8 and 1.2 the most powerful on blobs and moons, n = 200
# Of the smaller of two clusters, a quarter are neighbours at most: more would reach beyond it. Set
# on groups of sizes 6:3:1, of 2, 3 and 4.
QUARTER = 4
LEAST = 5  # neighbours that a density needs
# Share of the smaller cluster that may be outliers in the other; never as many as the m / 2 objects
# on either side of a cut through a thread.
STRAYS = 0.1


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


def without_ties(X: np.ndarray) -> np.ndarray:
    """Features whose rounded columns are spread evenly, up to half-way to the nearest value.

    Copies of a value have no distance to each other, so counts would fall into pieces. Columns of
    fewer than five values are left alone: what lies between two categories is empty.
    """
    rng, X = np.random.default_rng(0), X.copy()
    ordered = np.sort(X.T, axis=1)
    counts = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    rounded = (counts >= FEW_VALUES) & (counts <= len(X) / 2)
    for place in np.flatnonzero(rounded):
        column = X[:, place]
        values, places = np.unique(column, return_inverse=True)
        gaps = np.diff(values)
        reach = np.minimum(np.append(gaps, np.inf), np.append(np.inf, gaps))
        column += reach[places] * (rng.random(len(column)) - 0.5)
    return X


def discriminating_coordinates(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Coordinates in which clusters are round: up to 4, those that separate the clusters.

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


def valleys(Y: np.ndarray, labels: np.ndarray, *, strays: bool = True) -> Valleys:
    """Depth of the valleys between clusters that touch, for objects at Y (n, q), labels (n,).

    Clusters touch where more than a few strays have neighbours in the other one; without
    ``strays`` where any object has, and then pieces are not looked for.
    """
    n = len(Y)
    k = int(labels.max()) + 1
    m = int(np.clip(round(NEIGHBOURS * np.sqrt(n)), 3, n - 1))
    tree = cKDTree(Y)
    distances, neighbours = _neighbours(tree, m)
    parts, (i, j) = _parted(neighbours, labels)
    pieces = _pieces(parts, labels, k, m) if strays else np.ones(k, dtype=int)
    first = labels[i] < labels[j]
    lower, upper = np.where(first, i, j), np.where(first, j, i)
    key = labels[lower] * k + labels[upper]
    found = np.unique(key)
    sizes = np.bincount(labels, minlength=k)
    for side in (lower, upper):  # a few outliers inside another cluster are no border
        owner, counts = np.unique(np.unique(key * n + side) // n, return_counts=True)
        least = np.minimum(sizes[owner // k], sizes[owner % k]) * STRAYS
        few = np.clip(least, 2, max(2, m / 3)) if strays else 0
        found = np.intersect1d(found, owner[counts > few])
    pairs = np.column_stack([found // k, found % k])
    few = _few_of_each(key, BORDER)
    lower, upper, key = lower[few], upper[few], key[few]
    members = [np.flatnonzero(labels == c) for c in range(k)]
    z = np.empty(len(found))
    for at, (pair, code) in enumerate(zip(pairs, found, strict=True)):
        edges = np.flatnonzero(key == code)
        both = [members[c] for c in pair]
        own = int(np.clip(min(map(len, both)) // QUARTER, min(LEAST, m), m))
        inside = max(float(np.median(distances[rows, own - 1])) for rows in both)
        border = _border(tree, lower[edges], upper[edges], own, inside)
        z[at] = _depth(border, inside, own, Y.shape[1])
    return Valleys(pairs, z, pieces)


def _neighbours(tree: cKDTree, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances (n, m) to the nearest other objects, ascending, and the objects (n, m)."""
    twin = compiled_module(__package__, "compiled_neighbours")
    if twin is not None:
        return twin.neighbours(tree.data, tree.indices, m)
    distances, found = tree.query(tree.data, m + 1)
    return distances[:, 1:], found[:, 1:]


def _depth(border: float, inside: float, m: int, q: int) -> float:
    """The valley z, from distances to the m-th neighbour on the border and inside."""
    tiny = 1e-12 * max(inside, border, np.finfo(float).tiny)
    return float(np.sqrt(m) * q * (np.log(max(border, tiny)) - np.log(max(inside, tiny))))


def _border(tree: cKDTree, lower: np.ndarray, upper: np.ndarray, m: int, inside: float) -> float:
    """Distance to the m-th neighbour half-way along the edges, the median over objects.

    Over some of the edges where these show a valley that is deep beyond doubt.
    """
    Y, n = tree.data, len(lower)
    evenly = np.argsort(np.arange(n) % max(1, n // FIRST_LOOK), kind="stable")
    lower, upper = lower[evenly], upper[evenly]
    middle = (Y[lower] + Y[upper]) / 2
    radius, value = np.empty(0), 0.0
    for stop in (FIRST_LOOK, n):
        more = tree.query(middle[len(radius) : stop], [m])[0][:, 0]
        radius = np.concatenate([radius, more])
        ends = (lower[: len(radius)], upper[: len(radius)])
        side = min(ends, key=lambda side: len(np.unique(side)))
        value = float(np.median(_medians(radius, side)))
        if len(radius) == n or _depth(value, inside, m, Y.shape[1]) > CLEAR:
            break
    return value


def _medians(values: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Median of the values of every owner."""
    order = np.lexsort((values, owner))
    values, starts = values[order], np.flatnonzero(np.diff(owner[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(values)))
    return (values[starts + (sizes - 1) // 2] + values[starts + sizes // 2]) / 2


def _few_of_each(key: np.ndarray, most: int) -> np.ndarray:
    """Positions of at most so many of every value, drawn with a fixed seed."""
    if len(key) <= most:
        return np.arange(len(key))
    order = np.random.default_rng(0).permutation(len(key))
    order = order[np.argsort(key[order], kind="stable")]
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    return np.sort(order[rank < most])


def _parted(found: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A number (n,) for the part of its cluster that edges within it join an object to, and the
    edges (2, e) from one cluster to another.
    """
    twin = compiled_module(__package__, "compiled_neighbours")
    if twin is not None:
        return twin.parted(found, labels)
    n, m = found.shape
    i, j = np.repeat(np.arange(n), m), found.ravel()
    same = labels[i] == labels[j]
    ends = np.append(0, np.cumsum(np.bincount(i[same], minlength=n)))
    graph = csr_array((np.ones(ends[-1]), j[same], ends), shape=(n, n))  # rows are in order
    parts = connected_components(graph, directed=False)[1]
    return parts, np.stack([i[~same], j[~same]])


def _pieces(parts: np.ndarray, labels: np.ndarray, k: int, m: int) -> np.ndarray:
    sizes, sizes_of_clusters = np.bincount(parts), np.bincount(labels, minlength=k)
    cluster = np.zeros(len(sizes), dtype=int)
    cluster[parts] = labels
    large = sizes >= np.maximum(m + 1, 0.1 * sizes_of_clusters[cluster])
    return np.bincount(cluster[large], minlength=k)
