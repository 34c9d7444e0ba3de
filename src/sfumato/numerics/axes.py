"""Coordinates for mixtures and cells that do not depend on the units of the features.

    y = ((x - shift) / spread) P
            P whitens on the leading principal axes: mixtures are fitted here
    r = y A
            A makes the spread among near neighbours round: seeds and cells are made here

Whitening alone squeezes the very directions in which clusters lie apart. The scatter W of
differences between near neighbours is mostly scatter within clusters, so that A = W^(-1/2) undoes
that; neighbours are found in the coordinates of the last A, a few times over (Art, Gnanadesikan and
Kettenring 1982). Up to ``n_axes`` features, y and r do not change, but for a rotation, when the
features are mixed by any invertible matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from ..core.arrays import asarray_like, namespace
from ..core.types import Weights

__all__ = ["Axes", "by_radius", "fit_axes"]

# Times the median spread: a column above is in another unit, so that columns are scaled before
# principal axes are cut
UNEQUAL = 10.0
NULL = 1e-9  # of the largest spread: directions below are combinations of others
LEAST = 1e-290  # spreads below it have no reciprocal
N_NEIGHBORS = 5  # whose differences are taken as scatter within clusters
N_ROUNDS = 10  # of finding neighbours anew
N_POINTS = 600  # objects that the scatter is taken from
# Ratio of the largest to the smallest variance of the scatter below which whitened coordinates stay
# as they are: with nothing to
# gain, neighbours found anew would only make chance grow. Noise of 2 to 20 dimensions has at most
# 1.7, iris 3.6, wine 3.7.
ROUND = 2.0
# Of the mean variance, added to the scatter; this and the rounds chosen on iris, wine and breast
# cancer
RIDGE = 0.01


class Axes(NamedTuple):
    """``shift`` (p,) or None for sparse features; ``projection`` (p, q) with ``offset`` (q,);
    ``near`` (q, q).
    """

    shift: np.ndarray | None
    projection: np.ndarray
    offset: np.ndarray
    near: np.ndarray

    def __call__(self, X: Any) -> Any:
        """Whitened principal coordinates (n, q) of the rows of ``X``, in float64, where these
        are.
        """
        if sp.issparse(X):
            if self.shift is None:
                return np.asarray(X @ self.projection) - self.offset
            X = X.toarray()
        xp = namespace(X)
        X = X if self.shift is None else X - asarray_like(self.shift, X)
        X = xp.astype(X, xp.float64, copy=False)
        return X @ asarray_like(self.projection, X) - asarray_like(self.offset, X)


def by_radius(Y: np.ndarray) -> np.ndarray:
    """Indices (n,) that sort whitened objects by their distance from the middle, which no mixing of
    features changes.
    """
    return np.argsort(np.round(np.sum(Y * Y, axis=1), 9), kind="stable")


def fit_axes(X: Any, n_axes: int, weights: Weights = None) -> Axes:
    """Axes of a sample ``X`` (s, p) of objects, dense or sparse.

    ``weights`` (s,) are those of the objects: means and covariances are weighted, while principal
    axes of sparse objects and near neighbours are those of the objects as they are.
    """
    if sp.issparse(X):
        shift, projection = None, _sparse_directions(X, n_axes)
    else:
        shift = _mean(X, weights)
        centred = np.asarray(X - shift.astype(X.dtype), dtype=np.float64)
        projection = _directions(centred, n_axes, weights)
    scores = (
        np.asarray(X @ projection) if shift is None else (X - shift.astype(X.dtype)) @ projection
    )
    offset = scores.mean(axis=0) if weights is None else weights @ scores / weights.sum()
    whitening = _whitening(_rooted(scores - offset, weights))
    Y = (scores - offset) @ whitening
    Y = Y[by_radius(Y)]
    return Axes(shift, projection @ whitening, offset @ whitening, _near(Y))


def _mean(X: np.ndarray, weights: Weights) -> np.ndarray:
    if weights is None:
        return X.mean(axis=0, dtype=np.float64)
    return weights @ X.astype(np.float64) / weights.sum()


def _rooted(X: np.ndarray, weights: Weights) -> np.ndarray:
    """Centred objects times the roots of their weights, these scaled to mean one."""
    return X if weights is None else X * np.sqrt(weights / weights.mean())[:, None]


def _directions(X: np.ndarray, n_axes: int, weights: Weights = None) -> np.ndarray:
    """Scaled features, or their leading principal directions, (p, q), of centred objects."""
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
    n_axes = min(n_axes, min(X.shape) - 1)
    return svds(X, n_axes, v0=np.ones(min(X.shape)))[2].T[:, ::-1]


def _sparse_directions(X: np.ndarray, n_axes: int) -> np.ndarray:
    """The same for sparse objects, whose mean is taken off implicitly."""
    n, p = X.shape
    if p <= n_axes or n <= 2:
        return np.eye(p)[:, : max(1, min(n_axes, p))]
    mean = np.asarray(X.mean(axis=0)).reshape(-1)
    centred = LinearOperator(
        (n, p),
        matvec=lambda v: X @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda v: X.T @ v.ravel() - mean * v.sum(),
        dtype=np.float64,
    )
    n_axes = min(n_axes, min(n, p) - 1)
    return svds(centred, n_axes, v0=np.ones(min(n, p)))[2].T[:, ::-1]


def _whitening(scores: np.ndarray) -> np.ndarray:
    """Matrix (q, r) that gives centred scores the identity as covariance.

    By singular values, not by those of the covariance, whose square root would lose half of the
    digits.
    """
    _, values, vectors = np.linalg.svd(scores, full_matrices=False)
    good = values > NULL * max(values.max(initial=0.0), LEAST)
    if not good.any():
        return np.eye(scores.shape[1], 1)
    return vectors[good].T / (values[good] / np.sqrt(len(scores)))


def _near(Y: np.ndarray) -> np.ndarray:
    """A (q, q): in the coordinates Y A the scatter of differences between near neighbours is
    round.
    """
    n, d = Y.shape
    A = np.eye(d)
    points = Y[:: max(1, -(-n // N_POINTS))]
    if len(points) <= N_NEIGHBORS + 1 or d == 1:
        return np.eye(d)
    for first_round in [True] + [False] * (N_ROUNDS - 1):
        R = points @ A
        square = np.sum(R * R, axis=1)
        distance = square[:, None] + square[None, :] - 2.0 * (R @ R.T)
        near = np.argpartition(distance, N_NEIGHBORS, axis=1)[:, : N_NEIGHBORS + 1]
        difference = (points[:, None, :] - points[near]).reshape(-1, d)
        scatter = difference.T @ difference
        if not np.trace(scatter) > 0:
            return np.eye(d)
        values, vectors = np.linalg.eigh(scatter / (np.trace(scatter) / d))
        values = np.maximum(values, 0.0) + RIDGE
        if first_round and values[-1] < ROUND * values[0]:
            return np.eye(d)
        A = vectors / np.sqrt(values)
    return A / np.sqrt(np.mean(np.sum((points @ A) ** 2, axis=1)) / d)
