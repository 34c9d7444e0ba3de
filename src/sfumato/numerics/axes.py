"""Coordinates for mixtures and cells that do not depend on the units of the features.

    y = ((x - shift) / spread) P
            P whitens on the leading principal axes: mixtures are fitted here
    r = y A
            A makes the spread among near neighbours round: seeds and cells are made here

Whitening alone shrinks the directions in which clusters are separated. The scatter W of differences
between near neighbours is mostly scatter within clusters, so A = W^(-1/2) reverses this; neighbours
are found again in the new coordinates for a few rounds (Art, Gnanadesikan and Kettenring 1982).
"""

from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds
from scipy.spatial import cKDTree

from ..array.arrays import asarray_like, namespace
from ..array.types import Weights
from .missing import Background, Missing, one_gaussian

# Multiple of the median spread; columns with a larger one are taken to have another unit.
UNEQUAL = 10.0
NULL = 1e-9  # relative to the largest spread; smaller directions are combinations of others
# Relative to the mean variance; chosen (with the rounds) on iris, wine and breast cancer.
RIDGE = 0.01
MOST_FEATURES = 1000  # largest number of features for objects with missing values


class Axes(NamedTuple):
    """Coordinates: ``shift`` (p,), or None for sparse features; ``projection`` (p, q) with
    ``offset`` (q,); ``near`` (q, q); and the Gaussian that fills in missing values, if any.
    """

    shift: np.ndarray | None
    projection: np.ndarray
    offset: np.ndarray
    near: np.ndarray
    background: Background | None = None

    def __call__(self, X: Any) -> Any:
        """Whitened principal coordinates (n, q) of rows; expectations if values are missing."""
        return self.seen(X)[0]

    def seen(self, X: Any) -> tuple[Any, Missing | None]:
        """The same coordinates, and a description of missing values (None if there are none)."""
        if sp.issparse(X):
            if self.shift is None:
                return np.asarray(X @ self.projection) - self.offset, None
            X = X.toarray()
        xp, shift = namespace(X), self.shift
        centred = X if shift is None else X - asarray_like(shift, X)
        centred = xp.astype(centred, xp.float64, copy=False)
        Y = centred @ asarray_like(self.projection, centred) - asarray_like(self.offset, centred)
        if not isinstance(X, np.ndarray) or not np.isnan(np.sum(X)):
            return Y, None
        if self.background is None:
            raise ValueError(
                "X has missing values (NaN), which are supported in dense arrays of at most "
                f"{MOST_FEATURES} features, got {centred.shape[1]}: drop or fill in what is missing"
            )
        holed = np.isnan(centred).any(axis=1)
        filled, missing = self.background.complete(centred[holed], self.projection)
        Y[holed] = filled @ self.projection - self.offset
        pattern = np.full(len(Y), -1)
        pattern[holed] = missing.pattern
        return Y, missing._replace(pattern=pattern)


def by_radius(Y: np.ndarray) -> np.ndarray:
    """Indices that sort whitened objects by their norm, which linear maps do not change."""
    return np.argsort(np.round(np.sum(Y * Y, axis=1), 9), kind="stable")


def fit_axes(X: Any, n_axes: int, weights: Weights = None) -> Axes:
    """Axes of a sample ``X`` (s, p) of objects, dense or sparse. With at most sqrt(s)/2 axes, each
    of sqrt(s) components has two objects for every axis.
    """
    n_axes = min(n_axes, max(2, isqrt(X.shape[0]) // 2))
    if sp.issparse(X):
        shift, projection = None, _sparse_directions(X, n_axes)
    elif np.isnan(X).any():
        return _axes_with_missing(X, n_axes, weights)
    else:
        shift = _mean(X, weights)
        centred = np.asarray(X - shift.astype(X.dtype), dtype=np.float64)
        projection = _directions(centred, n_axes, weights)
    scores = np.asarray(X @ projection) if shift is None else centred @ projection
    offset = scores.mean(axis=0) if weights is None else weights @ scores / weights.sum()
    whitening = _whitening(_rooted(scores - offset, weights))
    Y = (scores - offset) @ whitening
    Y = Y[by_radius(Y)]
    kept = shift is not None and X.shape[1] <= MOST_FEATURES
    background = _background(centred, weights) if kept else None
    turn, near = _near(Y)
    whitening = whitening @ turn
    return Axes(shift, projection @ whitening, offset @ whitening, turn.T @ near, background)


def _axes_with_missing(X: np.ndarray, n_axes: int, weights: Weights) -> Axes:
    """Axes of objects with missing values (NaN), from the covariance of one Gaussian."""
    if X.shape[1] > MOST_FEATURES:
        raise ValueError(
            f"X has missing values (NaN), which are supported with at most {MOST_FEATURES} "
            f"features, got {X.shape[1]}: drop or fill in what is missing"
        )
    shift, unit, covariance = one_gaussian(np.asarray(X, dtype=np.float64), weights)
    varies = np.diag(covariance) > 0
    scale = np.where(varies, unit * np.sqrt(np.diag(covariance)), 0.0)
    varies &= scale > NULL * max(scale.max(initial=0.0), np.finfo(float).tiny)
    background = Background(unit, covariance)
    if not varies.any():
        return Axes(shift, np.eye(X.shape[1], 1), np.zeros(1), np.eye(1), background)
    # Principal axes in common units if the spreads are similar, as for complete objects.
    common = varies.sum() > n_axes and scale.max() <= UNEQUAL * np.median(scale[varies])
    own = np.where(varies, 1.0 / (scale.max() if common else np.where(varies, scale, 1.0)), 0.0)
    values, vectors = np.linalg.eigh(covariance * np.outer(unit * own, unit * own))
    leading = np.argsort(-values)[:n_axes]
    # A covariance found by iteration is not more accurate than this.
    leading = leading[values[leading] > 1e-7 * values.max()]
    projection, q = own[:, None] * vectors[:, leading] / np.sqrt(values[leading]), len(leading)
    axes = Axes(shift, projection, np.zeros(q), np.eye(q), background)
    Y = axes(X)
    turn, near = _near(Y[by_radius(Y)])
    return axes._replace(projection=projection @ turn, near=turn.T @ near)


def _mean(X: np.ndarray, weights: Weights) -> np.ndarray:
    if weights is None:
        return X.mean(axis=0, dtype=np.float64)
    return weights @ X.astype(np.float64) / weights.sum()


def _background(centred: np.ndarray, weights: Weights) -> Background:
    """The Gaussian of complete, centred objects (n, p)."""
    own = np.ones(len(centred)) if weights is None else weights
    spread = np.sqrt(own @ np.square(centred) / own.sum())
    unit = np.where(spread > 0, spread, 1.0)
    scaled = centred * np.sqrt(own / own.sum())[:, None] / unit
    return Background(unit, scaled.T @ scaled)


def _rooted(X: np.ndarray, weights: Weights) -> np.ndarray:
    """Centred objects times root weights, which are scaled to mean one."""
    return X if weights is None else X * np.sqrt(weights / weights.mean())[:, None]


def _directions(X: np.ndarray, n_axes: int, weights: Weights = None) -> np.ndarray:
    """Scaled features, or their leading principal directions, (p, q), for centred objects."""
    spread = X.std(axis=0) if weights is None else np.sqrt(_mean(np.square(X), weights))
    varies = spread > NULL * max(spread.max(initial=0.0), np.finfo(float).tiny)
    if not varies.any():
        return np.eye(X.shape[1], 1)
    unit = np.where(varies, spread, np.inf)
    if varies.sum() <= n_axes:
        return np.diag(1.0 / unit)[:, varies]
    if spread.max() <= UNEQUAL * np.median(spread[varies]):
        unit = np.where(varies, spread.max(), np.inf)
    return _leading(_rooted(X, weights) / unit, n_axes) / unit[:, None]


def _leading(X: np.ndarray, n_axes: int) -> np.ndarray:
    """Right singular vectors (p, q) of the largest singular values."""
    if X.shape[1] <= 1000:
        return np.linalg.eigh(X.T @ X)[1][:, : -n_axes - 1 : -1]
    return _singular(X, n_axes)


def _sparse_directions(X: np.ndarray, n_axes: int) -> np.ndarray:
    """Leading directions (p, q) of sparse objects, which are centred implicitly."""
    n, p = X.shape
    if p <= n_axes or n <= 2:
        return np.eye(p)[:, : max(1, min(n_axes, p))]
    mean = np.asarray(X.mean(axis=0)).reshape(-1)
    products: Any = {"matvec": lambda v: X @ v.ravel() - mean @ v.ravel()}
    products["rmatvec"] = lambda v: X.T @ v.ravel() - mean * v.sum()
    return _singular(LinearOperator((n, p), dtype=np.float64, **products), n_axes)


def _whitening(scores: np.ndarray) -> np.ndarray:
    """Matrix (q, r) that turns the covariance of centred scores into the identity."""
    # Using the covariance would lose half of the digits.
    _, values, vectors = np.linalg.svd(scores, full_matrices=False)
    good = values > NULL * max(values.max(initial=0.0), 1e-290)
    if not good.any():
        return np.eye(scores.shape[1], 1)
    return vectors[good].T / (values[good] / np.sqrt(len(scores)))


def _near(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Axes (q, q) of the scatter among near neighbours, and A (q, q) that makes it round."""
    n, d = Y.shape
    A = turn = np.eye(d)
    points = Y[:: max(1, -(-n // 600))]
    if len(points) <= 6 or d == 1:
        return turn, A
    for first_round in [True] + [False] * 9:
        R = points @ A
        near = cKDTree(R, leafsize=32, balanced_tree=False).query(R, 6)[1]
        difference = (points[:, None, :] - points[near]).reshape(-1, d)
        scatter = difference.T @ difference
        if not np.trace(scatter) > 0:
            return turn, np.eye(d)
        values, vectors = np.linalg.eigh(scatter / (np.trace(scatter) / d))
        values = np.maximum(values, 0.0) + RIDGE
        if first_round:
            turn = vectors
            # Nearly round: nothing to gain. Noise has at most 1.7, iris 3.6, wine 3.7.
            if values[-1] < 2.0 * values[0]:
                return turn, turn
        A = vectors / np.sqrt(values)
    return turn, A / np.sqrt(np.mean(np.sum((points @ A) ** 2, axis=1)) / d)


def _singular(X: Any, n_axes: int) -> np.ndarray:
    """Leading right singular vectors, always from the same start, for reproducible results."""
    start = np.random.default_rng(0).normal(size=min(X.shape))
    return svds(X, min(n_axes, min(X.shape) - 1), v0=start)[2].T[:, ::-1]
