"""Mixtures of objects with missing values, which are integrated out.

Of the coordinates of an object, y = e + F't with t standard normal under one Gaussian for all
objects (``numerics.background``): e is expected, F (r, d) spans what is open. Component j with
precision Q and mean m gives what was seen of the object the density, relative to that Gaussian,

    log p_j = log N(e | m, Q) - log N(e | 0, I) - log|K| / 2 + g'K^(-1)g / 2
    K = I + F (Q - I) F' ,   g = F (Q (e - m) - e)

and  t ~ N(-K^(-1)g, K^(-1))  given what was seen, from which the expected sums of z(y) follow
(Ghahramani and Jordan 1994). Without holes K is 1 and g is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...core.arrays import compiled_module
from ...core.types import Weights
from ...numerics import distances
from ...numerics.background import Gaps

__all__ = ["Partial", "add_corrections"]

PART = 2**17  # numbers of an array over patterns, components and coordinates at one time


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
        compiled = compiled_module(__package__, "compiled_holes")
        Q, linear = _natural(rows, self.Y.shape[1])
        if compiled is not None:
            compiled.correct(Q, linear, self.Y, self.starts, self.spreads, L)
            return
        for part in self._parts(Q, linear):
            half = 0.5 * np.sum(part.g * part.solved, axis=2) + part.log_root[part.own]
            L[:, part.objects] += half.T

    def sums(self, rows: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Expected sums (k, q) of z(y) weighted by ``share`` (k, m)."""
        d = self.Y.shape[1]
        compiled = compiled_module(__package__, "compiled_holes")
        Q, linear = _natural(rows, d)
        total = np.zeros((len(rows), d + 1, d + 1))
        if compiled is not None:
            compiled.add_sums(Q, linear, self.Y, self.starts, self.spreads, share, total)
        else:
            for part in self._parts(Q, linear):
                mass = share[:, part.objects]
                expected = self.Y[part.objects, None] - part.solved @ part.F[part.own]
                ones = np.ones((*expected.shape[:2], 1))
                full = np.swapaxes(np.concatenate([ones, expected], axis=2), 0, 1)
                total += np.swapaxes(full * mass[:, :, None], 1, 2) @ full
                # Sums over the objects of each pattern of what is open of them.
                weights = np.add.reduceat(mass, part.first, axis=1).T
                KF = weights[:, :, None, None] * (part.inverse @ part.F[:, None])
                KF = np.swapaxes(KF, 0, 1).reshape(len(rows), -1, d)
                total[:, 1:, 1:] += part.F.reshape(-1, d).T @ KF
        return np.hstack([total[:, 0, :1], total[:, 0, 1:], distances.pack(total[:, 1:, 1:])])

    def expected(self, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Coordinates (m, d) expected of the component ``chosen`` (m,) for each object."""
        Q, linear = _natural(rows, self.Y.shape[1])
        F = np.repeat(self.spreads, np.diff(self.starts), axis=0)
        FM = F @ (Q[chosen] - np.eye(Q.shape[1]))
        K = np.eye(F.shape[1]) + FM @ np.swapaxes(F, 1, 2)
        g = FM @ self.Y[:, :, None] - F @ linear[chosen][:, :, None]
        return self.Y - (np.swapaxes(F, 1, 2) @ np.linalg.solve(K, g))[:, :, 0]

    def _parts(self, Q: np.ndarray, linear: np.ndarray) -> Iterator[_Part]:
        """Several patterns at a time with their objects."""
        r, d = self.spreads.shape[1:]
        size = max(1, PART // (len(Q) * r * d))
        for low in range(0, len(self.spreads), size):
            starts = self.starts[low : low + size + 1]
            yield _Part.of(Q, linear, self.Y, starts, self.spreads[low : low + size])


class _Part(NamedTuple):
    """Objects of p patterns, b in all: where they are, the pattern of each (b,), and the first of
    each pattern (p,); F (p, r, d); the inverse of K (p, k, r, r) and -log|K| / 2 (p, k); g and
    K^(-1)g (b, k, r).
    """

    objects: slice
    own: np.ndarray
    first: np.ndarray
    F: np.ndarray
    inverse: np.ndarray
    log_root: np.ndarray
    g: np.ndarray
    solved: np.ndarray

    @classmethod
    def of(
        cls,
        Q: np.ndarray,
        linear: np.ndarray,
        Y: np.ndarray,
        starts: np.ndarray,
        F: np.ndarray,
    ) -> _Part:
        objects = slice(starts[0], starts[-1])
        own = np.repeat(np.arange(len(F)), np.diff(starts))
        FM = F[:, None] @ (Q - np.eye(Q.shape[1]))
        K = np.eye(F.shape[1]) + FM @ np.swapaxes(F, 1, 2)[:, None]
        inverse = np.linalg.inv(K)
        g = (FM[own] @ Y[objects, None, :, None])[:, :, :, 0] - (linear @ np.swapaxes(F, 1, 2))[own]
        solved = (inverse[own] @ g[:, :, :, None])[:, :, :, 0]
        log_root = -0.5 * np.linalg.slogdet(K)[1]
        return cls(objects, own, starts[:-1] - starts[0], F, inverse, log_root, g, solved)


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
