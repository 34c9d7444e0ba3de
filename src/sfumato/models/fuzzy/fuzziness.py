"""Choice of the fuzzifier: the smallest one that does not cut a cluster in two.

Let two centers coincide at v, with weights a_i = w_i u_i^m. A step multiplies a small distance
between them by at most 2 m l / (m - 1), where l is the largest eigenvalue of

    F = sum_i a_i (x_i - v)(x_i - v)' / |x_i - v|^2 / sum_i a_i

so they stay together if and only if m >= 1 / (1 - 2 l) (Yu, Cheng and Huang 2004, for a center that
all clusters share). Computed within the clusters of k-means on a sample, F shows how round they
are: l = 1 / d for round clusters in d features. At the smallest such m no cluster is cut, however
many centers it gets, while distinct clusters are separated. Memberships are then close to posterior
probabilities of normal clusters, for which m = 1 + 2 / d: u_ij ~ |x_i - c_j|^-d is the density of a
normal cluster of unknown scale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics import seeding
from ...numerics.eigen import leading_eigenvectors


class Tuning(NamedTuple):
    """Constants for the choice of a fuzzifier, and for the warning about coinciding centers."""

    classical: float = 2.0  # the usual value, and the largest one that is chosen
    sample: int = 2000  # number of objects to look at, as in the structure test
    most_clusters: int = 100  # largest number of clusters for k-means
    n_starts: int = 3  # a start that joins two clusters gives too large a value
    n_steps: int = 10
    screened: int = 5  # steps with links after which only the best start continues
    # Relative difference of the memberships from two centers below which they count as one. For one
    # normal cluster in 5 to 50 features, all differences are below 0.05.
    alike: float = 0.1


TUNING = Tuning()


def fuzzifier_of(largest: float) -> float:
    """The fuzzifier for the largest eigenvalue of F."""
    if largest >= 0.5:
        return TUNING.classical
    return min(TUNING.classical, 1.0 / (1.0 - 2.0 * largest))


def least(width: int) -> float:
    """Smallest fuzzifier that ``choose`` may return for rows of length ``width``."""
    return fuzzifier_of(1.0 / max(width, 1))  # the largest eigenvalue is at least the mean


def choose(
    X: np.ndarray,
    weights: np.ndarray,
    k: int,
    *,
    ellipsoids: bool = False,
    cap: float = np.inf,
) -> float:
    """The fuzzifier for ``k`` clusters of sorted objects ``X`` (n, d) with their mean at zero.

    Values may be missing; k-means clips squared distances at ``cap``.
    """
    there = ~np.isnan(X)
    whole = np.where(there, X, 0.0)
    R, w = _residuals(whole, weights, min(k, TUNING.most_clusters), cap) * there, weights
    if ellipsoids:
        R = seeding.whiten(R, w)
    squares = np.einsum("ij,ij->i", R, R)
    # The direction between an object and an equal center is only rounding error.
    away = (w > 0) & (squares > 1e-20 * squares.max(initial=0.0))
    if not away.any():
        return TUNING.classical
    share = w[away] / w[away].sum()
    return fuzzifier_of(_largest(R[away] * np.sqrt(share / squares[away])[:, None]))


def _residuals(X: np.ndarray, weights: np.ndarray, k: int, cap: float) -> np.ndarray:
    """Differences (n, d) between objects and their centers in the best of several k-means runs."""
    rng, found = np.random.default_rng(0), []
    for _ in range(TUNING.n_starts if k > 1 else 1):
        centers = seeding.kmeans_plus_plus(X, weights, k, rng, cap=cap)
        labels = seeding.lloyd(X, weights, centers, TUNING.n_steps)
        share = (labels == np.arange(k)[:, None]) * weights
        mass = share.sum(axis=1)[:, None]
        R = X - ((share @ X) / np.where(mass > 0, mass, 1.0))[labels]
        found.append((float(weights @ np.einsum("ij,ij->i", R, R)), R))
    return min(found, key=lambda each: each[0])[1]


def _largest(Y: np.ndarray) -> float:
    """The largest eigenvalue of Y'Y, whose trace is one."""
    F = Y.T @ Y if Y.shape[0] >= Y.shape[1] else Y @ Y.T
    if len(F) <= 64:  # LAPACK is fast enough here
        return float(np.linalg.eigvalsh(F)[-1])
    return float(leading_eigenvectors(F, 1, tol=1e-6).values[0])
