"""Mixtures of objects with missing values, which are integrated out.

Of the coordinates of an object, y = e + F't with t standard normal under one Gaussian for all
objects (``numerics.holes``): e is expected, F (r, d) spans what is open. Component j with
precision Q and mean m gives what was seen of the object the density, relative to that Gaussian,

    log p_j = log N(e | m, Q) - log N(e | 0, I) - log|K| / 2 + g'K^(-1)g / 2
    K = I + F (Q - I) F' ,   g = F (Q (e - m) - e)

and  t ~ N(-K^(-1)g, K^(-1))  given what was seen, from which the expected sums of z(y) follow
(Ghahramani and Jordan 1994). Without holes K is 1 and g is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...array.arrays import native
from ...array.types import Weights
from ...numerics import distances
from ...numerics.holes import Gaps

__all__ = ["Partial", "add_corrections"]


class Partial(NamedTuple):
    """Objects with holes: expected coordinates (m, d) sorted by pattern, where the objects of each
    pattern begin (P + 1,), F of each (P, r, d), and weights (m,) or None.
    """

    Y: np.ndarray
    starts: np.ndarray
    spreads: np.ndarray
    mass: Weights

    @classmethod
    def of(cls, Y: np.ndarray, gaps: Gaps, mass: Weights) -> tuple[Partial, np.ndarray]:
        """The objects of which something is missing, and their indices."""
        rows = np.flatnonzero(gaps.pattern >= 0)
        rows = rows[np.argsort(gaps.pattern[rows], kind="stable")]
        used, counts = np.unique(gaps.pattern[rows], return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        own = None if mass is None else mass[rows]
        spreads = np.ascontiguousarray(gaps.spreads[used])
        return cls(np.ascontiguousarray(Y[rows]), starts, spreads, own), rows

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Logarithms (k, m) of pi_j N of what was seen, relative to one Gaussian for all objects,
        plus its mean log-density.
        """
        d = self.Y.shape[1]
        L = rows @ distances.features(np.ascontiguousarray(self.Y.T), "full")
        self.correct(rows, L)
        return L + 0.5 * (np.sum(self.Y**2, axis=1) - d)

    def correct(self, rows: np.ndarray, L: np.ndarray) -> None:
        """Add  -log|K| / 2 + g'K^(-1)g / 2  to ``L`` (k, m)."""
        self._native(rows).correct(L)

    def sums(self, rows: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Expected sums (k, q) of z(y) weighted by ``share`` (k, m)."""
        total = self._native(rows).sums(share)
        return np.hstack([total[:, 0, :1], total[:, 0, 1:], distances.pack(total[:, 1:, 1:])])

    def _native(self, rows: np.ndarray) -> Any:
        Q, linear = _natural(rows, self.Y.shape[1])
        return native("mixtures").Holes(Q, linear, self.Y, self.starts, self.spreads)

    def expected(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Coordinates (m, d) expected of the component ``chosen`` (m,) for each object."""
        Q, linear = _natural(rows, self.Y.shape[1])
        F = np.repeat(self.spreads, np.diff(self.starts), axis=0)
        FM = F @ (Q[chosen] - np.eye(Q.shape[1]))
        K = np.eye(F.shape[1]) + FM @ np.swapaxes(F, 1, 2)
        g = FM @ self.Y[:, :, None] - F @ linear[chosen][:, :, None]
        return self.Y - (np.swapaxes(F, 1, 2) @ np.linalg.solve(K, g))[:, :, 0]


def _natural(rows: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Precisions (k, d, d), and precisions times means (k, d), from coefficients of z(y)."""
    Q = -distances.moments(rows, d, "full")[2]
    Q[:, np.arange(d), np.arange(d)] *= 2.0
    return Q, np.ascontiguousarray(rows[:, 1 : d + 1])


def add_corrections(rows: np.ndarray, Y: np.ndarray, gaps: Gaps, logits: np.ndarray) -> None:
    """Turn logits (K, n) at expected coordinates into those of what was seen, in place, up to a
    constant for each object.
    """
    partial, where = Partial.of(Y, gaps, None)
    L = np.ascontiguousarray(logits[:, where])
    partial.correct(rows, L)
    logits[:, where] = L
