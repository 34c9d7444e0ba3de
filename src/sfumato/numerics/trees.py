"""Linkage trees cut into exactly so many clusters."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import connected_components


def tree(evidence: np.ndarray, method: str) -> np.ndarray:
    """Linkage tree (n - 1, 4) in SciPy's format.

    ``evidence`` is features (n, p), or the distances of all pairs in SciPy's condensed form.
    """
    return linkage(evidence, method)


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
