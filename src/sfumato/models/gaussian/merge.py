"""Components into clusters (Baudry, Raftery, Celeux, Lo and Gottardo 2010).

Merge the pair that lowers the entropy most.

gain(a, b) = sum_i h(u_ia) + h(u_ib) - h(u_ia + u_ib),      h(u) = -u log u
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

__all__ = ["merge"]


def merge(U: np.ndarray, n_clusters: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Group (k,) of every column of the memberships ``U`` (n, k) after merging down to
    ``n_clusters``.
    """
    weights = np.ones(len(U)) if weights is None else weights
    groups = np.arange(U.shape[1])
    U = U.copy()
    while U.shape[1] > n_clusters:
        own = weights @ entr(U)
        gains = [
            (own[a] + own[b] - weights @ entr(U[:, a] + U[:, b]), a, b)
            for a in range(U.shape[1])
            for b in range(a + 1, U.shape[1])
        ]
        _, a, b = max(gains, key=lambda gain: (gain[0], -gain[1], -gain[2]))
        U[:, a] += U[:, b]
        U = np.delete(U, b, axis=1)
        groups[groups == b] = a
        groups[groups > b] -= 1
    return groups
