"""Model-based agglomeration (Banfield and Raftery 1993, Fraley 1998): nested partitions as starts.

Groups are merged in pairs so that

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

from functools import partial

import numpy as np

from ...array.arrays import native
from ...numerics import seeding

__all__ = ["hierarchy"]

MOST_GROUPS = 300  # that the agglomeration begins with: objects, or small groups by k-means
FEW_GROUPS = 150  # small groups where there are more objects
NEGLIGIBLE = 1e-9  # part of the trace that decides between merges only where these tie


def hierarchy(
    X: np.ndarray, weights: np.ndarray, sizes: list[int], rng: np.random.Generator
) -> dict[int, np.ndarray]:
    """Labels (n,) for every number of groups in ``sizes``; all partitions are nested."""
    Z = _half_white(X, weights)
    if len(Z) <= MOST_GROUPS:
        first = np.arange(len(Z))
    else:
        labels = _small_groups(Z, weights, max(*sizes, FEW_GROUPS), rng)
        first = np.unique(labels, return_inverse=True)[1]
    share = (first == np.arange(first.max() + 1)[:, None]) * weights
    mass = share.sum(axis=1)
    mean = (share @ Z) / mass[:, None]
    squares = np.sum((Z - weights @ Z / weights.sum()) ** 2, axis=1)
    spread = float(weights @ squares) / (weights.sum() * Z.shape[1])
    a = seeding.unit(weights) * spread
    if _only_traces(Z, weights, float(squares.max())):
        own = np.sum((Z - mean[first]) ** 2, axis=1)
        traces = np.bincount(first, weights * own)
        found = seeding.merge(mass, mean, traces, partial(_cost, a), set(sizes))
    else:
        found = _merged(mass, mean, _scatter(Z, share, mass, mean), a, sizes)
    return {k: labels[first] for k, labels in found.items()}


def _scatter(Z: np.ndarray, share: np.ndarray, mass: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Scatter (m, d, d) of groups with the weights ``share`` (m, n) of objects."""
    if len(mass) == len(Z):
        return np.zeros((len(Z), Z.shape[1], Z.shape[1]))
    scatter = np.stack([(Z.T * row) @ Z for row in share])
    return scatter - mass[:, None, None] * mean[:, :, None] * mean[:, None, :]


def _merged(
    mass: np.ndarray, mean: np.ndarray, scatter: np.ndarray, a: float, sizes: list[int]
) -> dict[int, np.ndarray]:
    """Groups by their traces and determinants."""
    groups = (np.array(part, dtype=np.float64, order="C") for part in (mass, mean, scatter))
    merged = native("agglomerate").merges(*groups, a, min(sizes))
    return _partitions(merged, len(mass), sizes)


def _only_traces(Z: np.ndarray, weights: np.ndarray, farthest: float) -> bool:
    """Whether no determinant counts in the cost of any group of half-white objects.

    ``farthest`` is the largest squared distance from the center.
    """
    n, d = Z.shape
    if n <= d:
        return True
    tiny = np.finfo(float).tiny
    lightest = float(np.partition(weights, d)[: d + 1].sum())
    log_det = float(np.log(np.maximum(weights @ (Z * Z), tiny)).sum())
    by_reach = (d - 1) * np.log(max(farthest, tiny)) - d * np.log(d)
    by_volume = (1.0 - 1.0 / d) * (log_det - d * np.log(lightest)) - np.log(d)
    return bool(min(by_reach, by_volume) < np.log(NEGLIGIBLE))


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


def _cost(a: float, N: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """Costs of groups of mass ``N`` by their traces alone."""
    return N * np.log(np.maximum((trace + a) / N, np.finfo(float).tiny))


def _partitions(pairs: np.ndarray, m: int, sizes: list[int]) -> dict[int, np.ndarray]:
    """Group (m,) of every one of m first groups, for all wanted numbers, from merges in order."""
    group, found = np.arange(m), {}
    for k in range(m, min(sizes) - 1, -1):
        if k in sizes:
            found[k] = np.unique(group, return_inverse=True)[1]
        if k > min(sizes):
            i, j = pairs[m - k]
            group[group == j] = i
    return found


def _half_white(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Principal coordinates of standardised features over the square roots of singular values."""
    X = seeding.standardize(X, weights)
    values, axes = np.linalg.eigh((X.T * weights) @ X)
    good = values > 1e-12 * max(values.max(initial=0.0), np.finfo(float).tiny)
    return X @ (axes[:, good] / values[good] ** 0.25)
