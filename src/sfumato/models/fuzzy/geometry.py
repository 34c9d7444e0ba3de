"""Distances to centers, and the centers that are best for given weights, by the metric asked for.

    euclidean   |x - c|^2            weighted means; missing values are left out, and the sum over
                                     the p' others is raised by p / p' (partial distances)
    cosine      1 - cos(x, c)        means scaled to length one
    manhattan   sum |x - c|          weighted medians

Partial distances: Hathaway and Bezdek (2001). A kernel is Euclidean in
coordinates F with F F' = K.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...numerics.waiting import waited

__all__ = ["Cosine", "Euclidean", "Manhattan", "Solution", "embed", "geometry_of"]

NULL = 1e-10  # of the largest eigenvalue of a kernel: directions below are left out


class Solution(NamedTuple):
    """Centers (k, p), and the last memberships of linked rows, from which the next ones begin."""

    centers: np.ndarray
    linked: np.ndarray | None = None


class Euclidean:
    """Squared distances, over the values that are there."""

    def __init__(self, X: np.ndarray) -> None:
        there = ~np.isnan(X)
        # Partial distances are raised to all p features; objects without any value have distance
        # zero.
        share = X.shape[1] / np.maximum(there.sum(axis=1), 1)
        self.X = np.where(there, X, 0.0)
        self.there = there * share[:, None]
        self.squares = share * np.einsum("ip,ip->i", self.X, self.X)
        self.heavy = self.X * share[:, None]

    def begin(self, centers: np.ndarray) -> Solution:
        """A solution to start from."""
        return Solution(centers)

    def distances(self, solution: Solution) -> np.ndarray:
        """(n, k), never negative."""
        C = solution.centers
        D = self.there @ (C * C).T - 2.0 * (self.heavy @ C.T) + self.squares[:, None]
        return np.maximum(D, 0.0)

    def update(self, A: np.ndarray, solution: Solution) -> Solution:
        """The best centers for weights ``A`` (n, k); a center without any weight stays."""
        mass = A.T @ self.there
        known = mass > 0
        means = (A.T @ self.heavy) / np.where(known, mass, 1.0)
        return Solution(np.where(known, means, solution.centers))


class Cosine:
    """One less the cosine of the angle; an object without direction is as far from every center."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = _unit(X)

    def begin(self, centers: np.ndarray) -> Solution:
        """A solution to start from."""
        return Solution(_unit(centers))

    def distances(self, solution: Solution) -> np.ndarray:
        """(n, k), from 0 to 2."""
        return np.maximum(1.0 - self.X @ solution.centers.T, 0.0)

    def update(self, A: np.ndarray, solution: Solution) -> Solution:
        """Directions of the weighted sums."""
        total = A.T @ self.X
        alive = np.linalg.norm(total, axis=1, keepdims=True) > 0
        return Solution(np.where(alive, _unit(total), solution.centers))


class Manhattan:
    """Sums of absolute differences."""

    def __init__(self, X: np.ndarray) -> None:
        self.X, self.order = X, np.argsort(X, axis=0, kind="stable")

    def begin(self, centers: np.ndarray) -> Solution:
        """A solution to start from."""
        return Solution(centers)

    def distances(self, solution: Solution) -> np.ndarray:
        """(n, k)."""
        columns = [np.abs(self.X - center).sum(axis=1) for center in solution.centers]
        return np.stack(columns, axis=1)

    def update(self, A: np.ndarray, solution: Solution) -> Solution:
        """Weighted medians of every feature; a cluster without weight stays."""
        centers = solution.centers.copy()
        alive = A.sum(axis=0) > 0
        for feature, order in enumerate(self.order.T):
            upto = np.cumsum(A[order], axis=0)
            # Lower weighted median: the first value at which half of the weight is reached.
            middle = (upto < 0.5 * upto[-1]).sum(axis=0)
            values = self.X[order[np.minimum(middle, len(order) - 1)], feature]
            centers[alive, feature] = values[alive]
        return Solution(centers)


def geometry_of(metric: str, X: np.ndarray) -> Any:
    """The geometry of objects (n, p)."""
    if metric == "cosine":
        return Cosine(X)
    if metric == "manhattan":
        return Manhattan(X)
    return Euclidean(X)


def embed(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F (n, r) with F F' = K as far as K is positive, and P (n, r): rows of K times P are of F."""
    values, vectors = waited(np.linalg.eigh, (K + K.T) / 2)
    good = values > NULL * max(float(values[-1]), np.finfo(float).tiny)
    if not good.any():  # all objects in one place
        return np.zeros((len(K), 1)), np.zeros((len(K), 1))
    root = np.sqrt(values[good])
    return vectors[:, good] * root, vectors[:, good] / root


def _unit(X: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(length > 0, length, 1.0)
