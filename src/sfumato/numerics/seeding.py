"""Starts: k-means++, merging of groups, and partitions of a sample of a few thousand objects.

k-means++ (Arthur and Vassilvitskii 2007): the next center is drawn with probability  w_i min_j |x_i
- c_j|^2,  best of several draws. Draws go by cumulative weight over sorted objects, so weight w
counts as w copies and the order of the objects does not matter.

Model-based agglomeration (Banfield and Raftery 1993, Fraley 1998) merges groups in pairs so that

    sum_g  N_g log( (tr W_g + a) / N_g + det(W_g / N_g) ),      a = tr W / (n d)

rises least, where W_g is the scatter of a group and W that of all objects. The trace replaces the
determinant while a group has too few objects. As in R's mclust, features are half whitened: their
standardised principal axes are scaled by the square roots of the singular values.

Two bounds show before any merge that determinants are negligible, as they are with many features.
With R^2 the largest squared distance of an object from the center and N the weight of the d + 1
lightest objects, t = tr W_g / N_g is at most R^2, det W_g <= det W, and so

    det(W_g / N_g) / t  <=  R^(2 d - 2) / d^d    and    <=  (det W / N^d)^(1 - 1/d) / d
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array.arrays import native, to_numpy
from ..array.rows import Rows, sorted_rows
from ..array.types import Array, Weights
from .distances import Coordinates
from .missing import Background, one_gaussian

SCREEN = 4096  # size of the sample for starts, on which many candidates compete


def sort(X: np.ndarray, weights: Weights) -> np.ndarray:
    """Objects of positive weight, in lexicographic order of (at most sixteen) features."""
    order = sorted_rows(X)
    return order if weights is None else order[weights[order] > 0]


def sorted_sample(
    rows: Rows,
    size: int,
    rng: np.random.Generator,
    *,
    features: Callable[[Any], Any] | None = None,
    key: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray | None]]:
    """Features (m, d) in float64, weights (m,) and further columns of at most ``size`` objects,
    sorted by ``key`` of the features or by the features themselves, which ``features`` computes.
    """
    few = rows if rows.shape[0] <= size else rows.sample(size, rng)
    made = few.map(lambda block, *_: block if features is None else features(block))
    X = to_numpy(made).astype(np.float64)
    first, *others = few.columns
    weights = np.ones(len(X)) if first is None else to_numpy(first)
    order = sort(X if key is None else key(X), weights)
    rest = [None if column is None else column[order] for column in others]
    return X[order], weights[order], rest


def distinct(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct ones of sorted objects, their weights, and the index of each object."""
    new = np.ones(len(X), dtype=bool)
    new[1:] = np.any(X[1:] != X[:-1], axis=1)
    index = np.cumsum(new) - 1
    return X[new], np.bincount(index, weights=weights), index


def standardize(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``X`` with mean zero, and variance one in every feature that varies."""
    share = weights / weights.sum()
    X = X - share @ X
    variance = share @ X**2
    return X / np.sqrt(np.where(variance > 0, variance, 1.0))


def whiten(X: np.ndarray, weights: np.ndarray, power: float = 1.0) -> np.ndarray:
    """``X`` with mean zero and covariance raised to the power 1 - ``power``, within its rank."""
    share = weights / weights.sum()
    X = X - share @ X
    values, vectors = np.linalg.eigh((X.T * share) @ X)
    # Directions without variance would only amplify rounding errors.
    good = values > 1e-12 * max(values.max(initial=0.0), np.finfo(float).tiny)
    return X @ (vectors[:, good] / values[good] ** (power / 2.0)) if good.any() else X


def nearest(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Index of the nearest center of every object."""
    return np.argmin(np.sum(centers**2, axis=1)[:, None] - 2.0 * (centers @ X.T), axis=0)


def kmeans_plus_plus(
    X: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator, *, cap: float = np.inf
) -> np.ndarray:
    """``k`` objects as centers (k, d), distinct if possible; distances are clipped at ``cap``."""
    # As many candidates for each center as in scikit-learn.
    n_trials = 2 + int(np.log(k))
    first, draws = rng.random(), rng.random((k - 1, n_trials))
    return X[native("kmeans").plus_plus(X, weights, first, draws, cap)]


def kmeans(
    X: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator, *, n_steps: int = 10
) -> np.ndarray:
    """Labels (n,) after k-means++ and a few steps of Lloyd's algorithm."""
    return lloyd(X, weights, kmeans_plus_plus(X, weights, k, rng), n_steps)


def lloyd(X: np.ndarray, weights: np.ndarray, centers: np.ndarray, n_steps: int) -> np.ndarray:
    """Labels (n,) after a few steps of Lloyd's algorithm."""
    return native("kmeans").lloyd(X, weights, centers, n_steps, 0.0)[1]


def unit(weights: np.ndarray) -> float:
    """Weight of one object: one, or the mean weight if weights are shares."""
    return min(1.0, float(weights.sum()) / len(weights))


def cut(tree: np.ndarray, n_clusters: int) -> np.ndarray:
    """Labels from cutting a linkage tree (SciPy's format) into exactly this many clusters."""
    n = len(tree) + 1
    merges = tree[: n - n_clusters, :2].astype(np.int64)
    parents = np.repeat(np.arange(n, n + len(merges)), 2)
    links = np.ones(len(parents)), (merges.reshape(-1), parents)
    graph = sp.coo_array(links, shape=(2 * n, 2 * n))
    labels = connected_components(graph, directed=False)[1][:n]
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


@dataclass(frozen=True, eq=False)
class Sample:
    """Complete, sorted objects (n, d) with weights (n,), for starts: in ``spaces`` by k-means in
    turn, in ``nested`` by agglomeration. Every second start sees only the ``bulk`` (n,).
    """

    X: np.ndarray
    weights: np.ndarray
    spaces: Sequence[np.ndarray]
    nested: np.ndarray | None = None
    bulk: np.ndarray | None = None
    _trees: list[Hierarchy] = field(default_factory=list, compare=False)
    _known: dict[Any, np.ndarray] = field(default_factory=dict, compare=False)  # partitions

    @property
    def unit(self) -> float:
        """Weight of one object."""
        return unit(self.weights)

    def groups(self, k: int, n_starts: int, seed: int, *, nested: bool = True) -> np.ndarray:
        """Weighted groups (starts, k, n): first those of the tree, then by k-means in all spaces;
        without ``nested``, only k-means in the first space.
        """
        turns = range(n_starts if k > 1 else 1)
        keys = [(k, turn, seed, nested) for turn in turns]
        for key in keys:
            if key not in self._known:
                self._known[key] = self._partition(*key)
        labels = [self._known[key] for key in keys]
        return (np.stack(labels)[:, None, :] == np.arange(k)[:, None]) * self.weights

    def _partition(self, k: int, turn: int, seed: int, nested: bool) -> np.ndarray:
        """Labels (n,) of start number ``turn``; -1 for objects that it leaves out."""
        part = None if self.bulk is None or turn % 2 else self.bulk
        chosen = np.arange(len(self.X)) if part is None else np.flatnonzero(part)
        _, mass, index = distinct(self.X[chosen], self.weights[chosen])
        first = np.unique(index, return_index=True)[1]
        size, found = min(k, len(first)), None
        if size == 1:
            found = np.zeros(len(first), dtype=np.int64)
        elif nested and turn == 0 and self.nested is not None:
            if not self._trees:  # one tree for all numbers
                self._trees.append(Hierarchy.of(self.nested[chosen[first]], mass))
            found = self._trees[0].labels(size)
        if found is None:
            at = (turn - (self.nested is not None)) % len(self.spaces) if nested else 0
            rng = np.random.default_rng([seed, k, turn])
            found = kmeans(self.spaces[at][chosen[first]], mass, size, rng)
        labels = np.full(len(self.X), -1)
        labels[chosen] = found[index]
        return labels


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """First groups (n,) of objects, and the pairs (m - 1, 2) of groups in the order of merging."""

    first: np.ndarray
    pairs: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, weights: np.ndarray) -> Hierarchy:
        """Agglomeration of objects (n, d), or of small groups if there are many."""
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
        a = unit(weights) * spread
        width = 1 if _only_traces(Z, weights, float(squares.max())) else Z.shape[1]
        scatter = np.zeros((len(mass), width, width))
        if width == 1:
            own = np.sum((Z - mean[first]) ** 2, axis=1)
            scatter[:, 0, 0] = np.bincount(first, weights * own)
        elif len(mass) < len(Z):
            scatter = np.stack([(Z.T * row) @ Z for row in share])
            scatter -= mass[:, None, None] * mean[:, :, None] * mean[:, None, :]
        groups = (np.array(part, dtype=np.float64, order="C") for part in (mass, mean, scatter))
        return cls(first, native("agglomerate").merges(*groups, a, 1))

    def labels(self, k: int) -> np.ndarray | None:
        """Labels (n,) of ``k`` groups; None if there are fewer."""
        group = np.arange(len(self.pairs) + 1)
        if k > len(group):
            return None
        for i, j in self.pairs[: len(group) - k]:
            group[group == j] = i
        return np.unique(group, return_inverse=True)[1][self.first]


def _only_traces(Z: np.ndarray, weights: np.ndarray, farthest: float) -> bool:
    """Whether determinants are negligible, within this largest squared distance."""
    n, d = Z.shape
    if n <= d:
        return True
    tiny = np.finfo(float).tiny
    lightest = float(np.partition(weights, d)[: d + 1].sum())
    log_det = float(np.log(np.maximum(weights @ (Z * Z), tiny)).sum())
    by_reach = (d - 1) * np.log(max(farthest, tiny)) - d * np.log(d)
    by_volume = (1.0 - 1.0 / d) * (log_det - d * np.log(lightest)) - np.log(d)
    # A determinant that is a smaller share of the trace only decides ties.
    return bool(min(by_reach, by_volume) < np.log(1e-9))


def _small_groups(
    Z: np.ndarray, weights: np.ndarray, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels (n,) of about ``m`` small groups around objects drawn by weight, after two updates."""
    chosen = rng.choice(len(Z), size=min(m, len(Z)), replace=False, p=weights / weights.sum())
    return lloyd(Z, weights, Z[np.sort(chosen)], 2)


def _half_white(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Principal coordinates of standardised features, divided by root singular values."""
    return whiten(standardize(X, weights), weights, 0.5) / weights.sum() ** 0.25


def feature_sample(
    X: Array, weights: Weights, coordinates: Coordinates, *, missing: bool, trimmed: bool = False
) -> Sample:
    """Complete, standardised objects for starts, which outliers do not make if ``trimmed``."""
    feature = coordinates.unmixed()
    rows = Rows(X, weights, view=feature.inner)
    X, weights, _ = sorted_sample(rows, SCREEN, np.random.default_rng(0))
    if missing:
        X = complete(X, weights) if X.shape[1] <= 48 else np.nan_to_num(X)
    units = X * (coordinates.isotropic().scale / feature.scale)
    bulk = _bulk(X, weights) if trimmed else None
    return Sample(X, weights, (X, whiten(X, weights), units), nested=X, bulk=bulk)


def _bulk(X: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Mask of objects that are not far from the others in any feature; None if many are far."""
    middle = _medians(X, weights)
    spread = 1.4826 * _medians(np.abs(X - middle), weights)
    # "Far" means five median absolute deviations. If a fifth are far, there is no bulk.
    near = (np.abs(X - middle) <= 5.0 * np.where(spread > 0, spread, np.inf)).all(axis=1)
    enough = weights @ near >= 0.8 * weights.sum()
    return near if enough and not near.all() else None


def _medians(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Lower weighted medians (d,); weight w counts as w copies."""
    return np.quantile(X, 0.5, axis=0, weights=weights, method="inverted_cdf")


def complete(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects with missing values replaced by their expectations under one Gaussian."""
    mean, unit, covariance = one_gaussian(X, weights)
    return mean + Background(unit, covariance).complete(X - mean, np.eye(X.shape[1]))[0]
