"""Components into clusters (Baudry, Raftery, Celeux, Lo and Gottardo 2010): by least entropy.

gain(a, b) = sum_i h(u_ia) + h(u_ib) - h(u_ia + u_ib),      h(u) = -u log u
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import entr

__all__ = ["MergeTree", "elbow", "merge_tree"]


class MergeTree(NamedTuple):
    """All merged solutions of a mixture of k components.

    Row c - 1 of ``groups`` (k, k) is the group of every component when c clusters are left,
    ``entropies`` (k,) the uncertainty of the memberships then. ``elbow`` is the number of clusters
    at which the entropy stops falling slowly.
    """

    groups: np.ndarray
    entropies: np.ndarray
    elbow: int


def merge_tree(U: np.ndarray, weights: np.ndarray | None = None) -> MergeTree:
    """Merge the columns of the memberships ``U`` (n, k) in pairs until one is left."""
    weights = np.ones(len(U)) if weights is None else weights
    k = U.shape[1]
    groups, entropies = np.zeros((k, k), dtype=np.int64), np.zeros(k)
    current, U = np.arange(k), U.copy()
    for size in range(k, 0, -1):
        own = weights @ entr(U)
        groups[size - 1], entropies[size - 1] = current, own.sum()
        if size == 1:
            break
        gains = [
            (own[a] + own[b] - weights @ entr(U[:, a] + U[:, b]), a, b)
            for a in range(size)
            for b in range(a + 1, size)
        ]
        _, a, b = max(gains, key=lambda gain: (gain[0], -gain[1], -gain[2]))
        U[:, a] += U[:, b]
        U = np.delete(U, b, axis=1)
        current = np.where(current == b, a, current)
        current = np.where(current > b, current - 1, current)
    return MergeTree(groups, entropies, elbow(entropies))


def elbow(entropies: np.ndarray) -> int:
    """Number of clusters at which two straight lines fit the entropies (k,) of 1, 2, ... best.

    With fewer than four solutions two lines say nothing: all components are kept.
    """
    k = len(entropies)
    if k < 4:
        return k
    sizes = np.arange(1.0, k + 1)
    errors = [
        _line_error(sizes[: c + 1], entropies[: c + 1]) + _line_error(sizes[c:], entropies[c:])
        for c in range(1, k - 1)
    ]
    return int(np.argmin(errors)) + 2


def _line_error(x: np.ndarray, y: np.ndarray) -> float:
    """Squared error of the best straight line."""
    return float(np.sum((np.polyval(np.polyfit(x, y, 1), x) - y) ** 2))
