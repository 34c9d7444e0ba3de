"""Partitions of a sample from which mixtures start: nested agglomeration, and k-means.

Model-based agglomeration (Banfield and Raftery 1993, Fraley 1998) merges groups in pairs so that

    sum_g  N_g log( (tr W_g + a) / N_g + det(W_g / N_g) ),      a = tr W / (n d)

rises least, W_g the scatter of a group and W that of all objects. The trace stands in for the
determinant while a group has too few objects for one. As in R's mclust, features are standardised
and their principal axes scaled by the square roots of the singular values: half way to white.

In many features no determinant counts beside the trace, as two bounds show before any merge. Of
every group, t = tr W_g / N_g is at most R^2, the largest squared distance of an object from the
center. A group of at most d objects has the determinant 0, a larger one weighs N at least, that of
the d + 1 lightest objects, and det W_g <= det W. The mean of d eigenvalues bounds their product:

    det(W_g / N_g) / t  <=  R^(2 d - 2) / d^d    and    <=  (det W / N^d)^(1 - 1/d) / d

Where the lesser is negligible, groups are merged by their traces alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..array.arrays import native
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..numerics import seeding
from ..numerics.coordinates import Coordinates
from ..numerics.holes import Background, one_gaussian

SCREEN = 4096  # objects that starts look at, and on which candidates compete where there are more


@dataclass(frozen=True, eq=False)
class Sample:
    """Objects (n, d) that starts look at: complete and sorted, with weights (n,).

    ``spaces`` are coordinates in which k-means looks for groups, in turn, ``nested`` those of the
    agglomeration, if there is one. ``bulk`` (n,) are the objects of every second start.
    """

    X: np.ndarray
    weights: np.ndarray
    spaces: Sequence[np.ndarray]
    nested: np.ndarray | None = None
    bulk: np.ndarray | None = None
    _trees: list[Hierarchy] = field(default_factory=list, compare=False)

    @property
    def unit(self) -> float:
        """Weight of one object."""
        return seeding.unit(self.weights)

    def groups(self, k: int, n_starts: int, seed: int, *, nested: bool = True) -> np.ndarray:
        """Weighted groups (starts, k, n) by ``k`` and seed: that of the tree first, then by k-means
        in all spaces; in the first space only where not ``nested``."""
        turns = range(n_starts if k > 1 else 1)
        labels = [self._partition(k, turn, seed, nested) for turn in turns]
        return (np.stack(labels)[:, None, :] == np.arange(k)[:, None]) * self.weights

    def _partition(self, k: int, turn: int, seed: int, nested: bool) -> np.ndarray:
        """Labels (n,) of the start number ``turn``; -1 for objects that it leaves out."""
        part = None if self.bulk is None or turn % 2 else self.bulk
        chosen = np.arange(len(self.X)) if part is None else np.flatnonzero(part)
        _, mass, index = seeding.distinct(self.X[chosen], self.weights[chosen])
        first = np.unique(index, return_index=True)[1]
        size, found = min(k, len(first)), None
        if size == 1:
            found = np.zeros(len(first), dtype=np.int64)
        elif nested and turn == 0 and self.nested is not None:
            if not self._trees:  # one for all numbers
                self._trees.append(Hierarchy.of(self.nested[chosen[first]], mass))
            found = self._trees[0].labels(size)
        if found is None:
            at = (turn - (self.nested is not None)) % len(self.spaces) if nested else 0
            rng = np.random.default_rng([seed, k, turn])
            found = seeding.kmeans(self.spaces[at][chosen[first]], mass, size, rng)
        labels = np.full(len(self.X), -1)
        labels[chosen] = found[index]
        return labels


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """First groups (n,) of objects, and the pairs (m - 1, 2) of these in the order of merges."""

    first: np.ndarray
    pairs: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, weights: np.ndarray) -> Hierarchy:
        """Agglomerate objects (n, d), or small groups where they are many."""
        Z = _half_white(X, weights)
        first = np.arange(len(Z))
        if len(Z) > 300:
            labels = _small_groups(Z, weights, 150, np.random.default_rng(0))
            first = np.unique(labels, return_inverse=True)[1]
        share = (first == np.arange(first.max() + 1)[:, None]) * weights
        mass = share.sum(axis=1)
        mean = (share @ Z) / mass[:, None]
        squares = np.sum((Z - weights @ Z / weights.sum()) ** 2, axis=1)
        spread = float(weights @ squares) / (weights.sum() * max(Z.shape[1], 1))
        a = seeding.unit(weights) * spread
        if _only_traces(Z, weights, float(squares.max())):
            own = np.sum((Z - mean[first]) ** 2, axis=1)
            traces = np.bincount(first, weights * own)
            tiny = np.finfo(float).tiny

            def cost(N: np.ndarray, trace: np.ndarray) -> np.ndarray:
                return N * np.log(np.maximum((trace + a) / N, tiny))

            return cls(first, seeding.merge(mass, mean, traces, cost))
        scatter = np.zeros((len(mass), Z.shape[1], Z.shape[1]))
        if len(mass) < len(Z):
            scatter = np.stack([(Z.T * row) @ Z for row in share])
            scatter -= mass[:, None, None] * mean[:, :, None] * mean[:, None, :]
        groups = (np.array(part, dtype=np.float64, order="C") for part in (mass, mean, scatter))
        return cls(first, native("agglomerate").merges(*groups, a, 1))

    def labels(self, k: int) -> np.ndarray | None:
        """Labels (n,) of ``k`` groups; None where there are not so many."""
        group = np.arange(len(self.pairs) + 1)
        if k > len(group):
            return None
        for i, j in self.pairs[: len(group) - k]:
            group[group == j] = i
        return np.unique(group, return_inverse=True)[1][self.first]


def _only_traces(Z: np.ndarray, weights: np.ndarray, farthest: float) -> bool:
    """Whether no determinant counts, ``farthest`` the largest squared distance from the center."""
    n, d = Z.shape
    if n <= d:
        return True
    tiny = np.finfo(float).tiny
    lightest = float(np.partition(weights, d)[: d + 1].sum())
    log_det = float(np.log(np.maximum(weights @ (Z * Z), tiny)).sum())
    by_reach = (d - 1) * np.log(max(farthest, tiny)) - d * np.log(d)
    by_volume = (1.0 - 1.0 / d) * (log_det - d * np.log(lightest)) - np.log(d)
    # A smaller part of the trace decides between merges only where these tie.
    return bool(min(by_reach, by_volume) < np.log(1e-9))


def _small_groups(
    Z: np.ndarray, weights: np.ndarray, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels (n,) of about ``m`` small groups around objects drawn by weight, moved twice."""
    chosen = rng.choice(len(Z), size=min(m, len(Z)), replace=False, p=weights / weights.sum())
    centers = Z[np.sort(chosen)]
    for _ in range(2):
        labels = seeding.nearest(Z, centers)
        mass = np.bincount(labels, weights, len(centers))
        sums = np.stack([np.bincount(labels, weights * z, len(centers)) for z in Z.T], axis=1)
        centers = sums[mass > 0] / mass[mass > 0, None]
    return seeding.nearest(Z, centers)


def _half_white(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Principal coordinates of standardised features over the square roots of singular values."""
    X = seeding.standardize(X, weights)
    return seeding.whiten(X, weights, 0.5) / weights.sum() ** 0.25


def feature_sample(
    X: Array, weights: Weights, coordinates: Coordinates, *, missing: bool, trimmed: bool = False
) -> Sample:
    """Standardised objects, complete, with k-means in three sorts of coordinates; if ``trimmed``,
    outliers do not begin as clusters of their own."""
    feature = coordinates.unmixed()
    rows = Rows(X, weights, view=feature.inner)
    X, weights, _ = seeding.sorted_sample(rows, SCREEN, np.random.default_rng(0))
    if missing:
        X = complete(X, weights) if X.shape[1] <= 48 else np.nan_to_num(X)
    units = X * (coordinates.isotropic().scale / feature.scale)
    bulk = _bulk(X, weights) if trimmed else None
    return Sample(X, weights, (X, seeding.whiten(X, weights), units), nested=X, bulk=bulk)


def _bulk(X: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Which objects are not far from the others in any feature; None where many are far."""
    middle = _medians(X, weights)
    spread = 1.4826 * _medians(np.abs(X - middle), weights)
    # Far: five median absolute deviations. With a fifth far, there is no bulk to be far from.
    near = (np.abs(X - middle) <= 5.0 * np.where(spread > 0, spread, np.inf)).all(axis=1)
    enough = weights @ near >= 0.8 * weights.sum()
    return near if enough and not near.all() else None


def _medians(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Lower weighted medians (d,): weight w counts as w copies."""
    order = np.argsort(X, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    place = np.argmax(cumulative >= 0.5 * cumulative[-1], axis=0)
    columns = np.arange(X.shape[1])
    return X[order[place, columns], columns]


def complete(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects with missing values filled by their expected values under one Gaussian."""
    mean, unit, covariance = one_gaussian(X, weights)
    return mean + Background(unit, covariance).complete(X - mean, np.eye(X.shape[1]))[0]
