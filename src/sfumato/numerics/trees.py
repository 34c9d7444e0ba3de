"""Linkage trees of many objects, in steps that can be interrupted.

The chain of nearest neighbours and the minimum spanning tree are those of SciPy (Müllner 2011), in
the same order, so that ties are broken alike. SciPy's own loop cannot be interrupted; it takes half
a second for 5000 objects and grows with their square.

Müllner (2011), *Modern hierarchical, agglomerative clustering algorithms*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

__all__ = ["cut", "tree"]

AT_ONCE = 5000  # objects whose tree SciPy makes in less than a second
BLOCK = 2**22  # distances that are computed in one call


def tree(evidence: np.ndarray, method: str) -> np.ndarray:
    """Linkage tree (n - 1, 4) in SciPy's format.

    ``evidence`` is features (n, p), or the distances of all pairs in SciPy's condensed form.
    ``method`` is "single", "average", "complete" or "ward".
    """
    condensed = evidence.ndim == 1
    n = round((1 + np.sqrt(1 + 8 * len(evidence))) / 2) if condensed else len(evidence)
    if n <= AT_ONCE:
        return linkage(evidence, method)
    distances = np.array(evidence, dtype=np.float64) if condensed else _distances(evidence)
    pairs = _spanning_tree(distances, n) if method == "single" else _chain(distances, n, method)
    return _numbered(pairs[np.argsort(pairs[:, 2], kind="stable")], n)


def cut(tree: np.ndarray, n_clusters: int) -> np.ndarray:
    """Labels of the objects when a linkage tree (SciPy's format) is cut into exactly
    ``n_clusters``, ties or not.
    """
    n = len(tree) + 1
    merges = tree[: n - n_clusters, :2].astype(np.int64)
    parents = np.repeat(np.arange(n, n + len(merges)), 2)
    graph = sp.coo_array(
        (np.ones(len(parents)), (merges.reshape(-1), parents)), shape=(2 * n, 2 * n)
    )
    labels = connected_components(graph, directed=False)[1][:n]
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def _distances(X: np.ndarray) -> np.ndarray:
    """Distances of all pairs of rows, condensed."""
    n, begin = len(X), 0
    X = np.asarray(X, dtype=np.float64)
    distances = np.empty(n * (n - 1) // 2)
    height = max(1, BLOCK // n)
    for low in range(0, n, height):
        block = cdist(X[low : low + height], X[low:])
        for row in range(len(block)):
            length = n - 1 - low - row
            distances[begin : begin + length] = block[row, row + 1 :]
            begin += length
    return distances


def _starts(n: int) -> np.ndarray:
    """Where row i of the condensed form would have its column 0: d(i, j) is at ``starts[i] + j``
    for i < j.
    """
    rows = np.arange(n)
    return n * rows - rows * (rows + 1) // 2 - rows - 1


def _spanning_tree(distances: np.ndarray, n: int) -> np.ndarray:
    """Edges (n - 1, 3) of the minimum spanning tree: two objects and their distance (Prim)."""
    starts, edges = _starts(n), np.empty((n - 1, 3))
    near, left, x = np.full(n, np.inf), np.arange(n), 0
    for step in range(n - 1):
        left = left[left != x]
        place = np.where(left < x, starts[left] + x, starts[x] + left)
        near[left] = np.minimum(near[left], distances[place])
        nearest = int(left[np.argmin(near[left])])
        edges[step] = x, nearest, near[nearest]
        x = nearest
    return edges


def _chain(distances: np.ndarray, n: int, method: str) -> np.ndarray:
    """Merges (n - 1, 3): two clusters, named by an object each, and their distance; ``distances``
    are written over.
    """
    starts, merges, size = _starts(n), np.empty((n - 1, 3)), np.ones(n)
    alive = np.arange(n)
    chain: list[int] = []
    for step in range(n - 1):
        if not chain:
            chain = [int(alive[0])]
        while True:
            x = chain[-1]
            others = alive[alive != x]
            row = distances[np.where(others < x, starts[others] + x, starts[x] + others)]
            best = int(np.argmin(row))
            y, least = int(others[best]), float(row[best])
            # Of equally near clusters the previous one, so that the chain cannot run in a circle.
            if len(chain) > 1:
                before = float(row[np.searchsorted(others, chain[-2])])
                if before <= least:
                    y, least = chain[-2], before
                    break
            chain.append(y)
        del chain[-2:]
        x, y = min(x, y), max(x, y)
        merges[step] = x, y, least
        alive = alive[alive != x]
        rest = alive[alive != y]
        of_x = distances[np.where(rest < x, starts[rest] + x, starts[x] + rest)]
        place = np.where(rest < y, starts[rest] + y, starts[y] + rest)
        sizes = (size[x], size[y], size[rest])
        distances[place] = _merged(of_x, distances[place], least, sizes, method)
        size[y] += size[x]
    return merges


def _merged(
    of_x: np.ndarray, of_y: np.ndarray, between: float, sizes: tuple[Any, Any, Any], method: str
) -> np.ndarray:
    """Distances of the others to the union of x and y (Lance and Williams)."""
    if method == "complete":
        return np.maximum(of_x, of_y)
    x, y, others = sizes
    if method == "average":
        return (x * of_x + y * of_y) / (x + y)
    share = 1.0 / (x + y + others)
    squared = (others + x) * share * of_x * of_x + (others + y) * share * of_y * of_y
    return np.sqrt(np.maximum(squared - others * share * between * between, 0.0))


def _numbered(merges: np.ndarray, n: int) -> np.ndarray:
    """Sorted merges with clusters named by their step, as SciPy does, and their sizes."""
    parent, size = list(range(2 * n - 1)), [1] * (2 * n - 1)
    found = np.empty((n - 1, 4))
    for step, (x, y, distance) in enumerate(merges.tolist()):
        low, high = sorted((_root(parent, int(x)), _root(parent, int(y))))
        parent[low] = parent[high] = n + step
        size[n + step] = size[low] + size[high]
        found[step] = low, high, distance, size[n + step]
    return found


def _root(parent: list[int], node: int) -> int:
    top = node
    while parent[top] != top:
        top = parent[top]
    while parent[node] != top:
        parent[node], node = top, parent[node]
    return top
