"""How much of the leading eigenvectors of a similarity a labelling explains.

With V the k leading eigenvectors of D^(-1/2) W D^(-1/2), one row for each object, and Q the
normalised indicators of the labels in the same metric (columns D^(1/2) 1_c, scaled to length one),
the share left unexplained of the worst direction of V is

    1 - s^2 ,   s the least singular value of Q'V

Blocks leave almost nothing, smooth waves and noise leave much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import to_numpy
from .eigen import degrees, leading_eigenvectors, normalized_operator

__all__ = ["Blocks"]

TOLERANCE = 1e-3  # of the eigenvectors, whose blocks are sums over many objects


class Blocks(NamedTuple):
    """Sums (c, k) of D^(1/2) V over the objects of every label, and their degrees (c,)."""

    sums: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, W: Any, labels: np.ndarray, k: int) -> Blocks:
        """From a similarity (n, n) and labels (n,)."""
        tiny = np.finfo(float).tiny
        degree = np.maximum(to_numpy(degrees(W)).astype(np.float64), tiny)
        found = leading_eigenvectors(normalized_operator(W), k, tol=TOLERANCE)
        vectors = to_numpy(found.vectors)
        sums = np.zeros((labels.max() + 1, vectors.shape[1]))
        np.add.at(sums, labels, np.sqrt(degree)[:, None] * vectors)
        return cls(sums, np.maximum(np.bincount(labels, degree), tiny))

    def unexplained(self, k: int) -> float:
        """Share of the worst direction of the first ``k`` eigenvectors that varies within the
        labels.
        """
        scaled = self.sums[:, :k] / np.sqrt(self.mass)[:, None]
        explained = np.linalg.svd(scaled, compute_uv=False)
        return 1.0 - float(explained[k - 1] if len(explained) >= k else 0.0) ** 2

    def n_apart(self, k: int, threshold: float) -> int:
        """Largest number of groups of labels, below ``k``, that leave less than ``threshold``; the
        nearest two are joined in turn.
        """
        blocks = self
        while k > 2:
            k -= 1
            while len(blocks.mass) > k:
                blocks = blocks._nearest_joined(k)
            if blocks.unexplained(k) < threshold:
                return k
        return 1

    def _nearest_joined(self, k: int) -> Blocks:
        """The blocks with the two joined that cost least, as in Ward's method."""
        sums, mass = self.sums.copy(), self.mass.copy()
        means = sums[:, :k] / mass[:, None]
        squares = ((means[:, None] - means[None]) ** 2).sum(axis=2)
        cost = squares / (1 / mass[:, None] + 1 / mass[None])
        a, b = np.unravel_index(np.argmin(cost + np.diag(np.full(len(mass), np.inf))), cost.shape)
        sums[a] += sums[b]
        mass[a] += mass[b]
        return Blocks(np.delete(sums, b, axis=0), np.delete(mass, b))
