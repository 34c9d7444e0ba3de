"""Model-based agglomeration (Banfield and Raftery 1993, Fraley 1998): nested partitions as starts.

Groups are merged in pairs so that

    sum_g  N_g log( (tr W_g + a) / N_g + det(W_g / N_g) ),      a = tr W / (n d)

rises least, W_g the scatter of a group and W that of all objects. The trace stands in for the
determinant while a group has too few objects for one. As in R's mclust, features are standardised
and their principal axes scaled by the square roots of the singular values: half way to white.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...core.arrays import compiled_module
from ...numerics import seeding

__all__ = ["hierarchy"]

MOST_GROUPS = 300  # that the agglomeration begins with: objects, or small groups by k-means
FEW_GROUPS = 150  # small groups where there are more objects


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
    if len(mass) == len(Z):
        scatter = np.zeros((len(Z), Z.shape[1], Z.shape[1]))
    else:
        scatter = np.stack([(Z.T * row) @ Z for row in share])
        scatter -= mass[:, None, None] * mean[:, :, None] * mean[:, None, :]
    center = weights @ Z / weights.sum()
    spread = float(weights @ np.sum((Z - center) ** 2, axis=1)) / (weights.sum() * Z.shape[1])
    a = seeding.unit(weights) * spread

    twin = compiled_module(__package__, "compiled_hierarchy")
    if twin is not None:
        found = _partitions(twin.merges(mass, mean, scatter, a, min(sizes)), len(mass), sizes)
    else:
        found = seeding.merge(mass, mean, scatter, partial(_cost, a), set(sizes))
    return {k: labels[first] for k, labels in found.items()}


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


def _cost(a: float, N: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Costs of groups of mass ``N`` and scatter ``W``."""
    trace = np.trace(W, axis1=-2, axis2=-1)
    inner = (trace + a) / N + np.maximum(np.linalg.det(W / N[..., None, None]), 0.0)
    return N * np.log(np.maximum(inner, np.finfo(float).tiny))


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
