"""Starts of the variational form: small groups of near objects, merged while that raises the
evidence.

Many groups of a few objects each, and coordinate ascent from there, would spend dozens of passes on
emptying them. Merging them first costs no pass at all: what a group knows of its objects is a sum
of features, and for hard groups the log joint probability of objects and partition,

    log p = sum_k [ E(S_k) + log Gamma(N_k) + log alpha ] + constant,

needs nothing else. The pair that raises it most is merged again and again, down to one group, as in
Bayesian hierarchical clustering (Heller and Ghahramani 2005), and the best partition on the way is
kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from ...core.arrays import namespace, to_numpy
from ...core.rows import Rows
from ...core.types import Array, Weights
from ...numerics import seeding
from . import kernel
from .priors import embedding

__all__ = ["fuse", "start"]

SAMPLE = 5_000  # objects among which the centers of a start are sought
CELLS = 20  # small groups that a start begins with


def start(
    component: Any,
    rows: Rows,
    n_clusters: int,
    prior: kernel.Concentration,
    rng: np.random.Generator,
) -> kernel.State:
    """Merged groups of objects around some that are far from each other, at most ``n_clusters``."""
    n_cells = min(max(n_clusters, CELLS), rows.shape[0])
    sums, counts = _cells(component, rows, n_cells, rng)
    group = fuse(component, sums, counts, prior.mean, n_clusters)
    fused = np.zeros((n_clusters, sums.shape[1])), np.zeros(n_clusters)
    np.add.at(fused[0], group, sums)
    np.add.at(fused[1], group, counts)
    return kernel.update(component, *fused, prior, prior)


def _cells(
    component: Any, rows: Rows, n_cells: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of features (m, q) and weights (m,) of groups: every object goes to the nearest of some
    objects far from each other.
    """
    X, weights, _ = seeding.sorted_sample(
        rows, SAMPLE, rng, features=lambda block: embedding(component, block)
    )
    centers = seeding.kmeans_plus_plus(X, weights, n_cells, rng)

    def block(X: Array, weights: Weights) -> tuple[Any, Any]:
        labels = seeding.nearest(embedding(component, X), centers)
        R = (labels == np.arange(n_cells)[:, None]) * (
            1.0 if weights is None else to_numpy(weights)
        )
        Z = component.features(X)
        if isinstance(Z, np.ndarray) and np.isnan(Z).any():
            Z = np.nan_to_num(Z)  # missing values begin at the mean of the data
        R = namespace(Z).asarray(R, dtype=Z.dtype, device=getattr(Z, "device", None))
        return to_numpy(R @ Z.T), to_numpy(R.sum(axis=1))

    sums, counts = rows.sum(block)
    return sums[counts > 0], counts[counts > 0]


def fuse(
    component: Any, sums: np.ndarray, counts: np.ndarray, alpha: float, most: int
) -> np.ndarray:
    """Cluster (m,), from 0 on, of each of m groups with these sums (m, q) and weights (m,).

    The most probable of the partitions into at most ``most`` clusters that merging pairs passes
    through.
    """
    m, sums, counts = len(counts), sums.copy(), counts.copy()
    own = component.log_evidence(sums) + gammaln(counts)
    gains = np.full((m, m), -np.inf)  # of the union of a < b

    def rate(a: np.ndarray, b: np.ndarray) -> None:
        union = component.log_evidence(sums[a] + sums[b]) + gammaln(counts[a] + counts[b])
        gains[np.minimum(a, b), np.maximum(a, b)] = union - own[a] - own[b] - np.log(alpha)

    rate(*np.triu_indices(m, 1))
    group, alive = np.arange(m), np.ones(m, dtype=bool)
    gained, best, kept = 0.0, 0.0 if m <= most else -np.inf, group.copy()
    for left in range(m - 1, 0, -1):
        a, b = divmod(int(np.argmax(gains)), m)
        gained += gains[a, b]
        own[a] += own[b] + gains[a, b] + np.log(alpha)
        sums[a] += sums[b]
        counts[a] += counts[b]
        group[group == b] = a
        alive[b] = False
        gains[b] = gains[:, b] = -np.inf
        others = np.flatnonzero(alive & (np.arange(m) != a))
        if len(others):
            rate(np.full(len(others), a), others)
        if left <= most and gained > best:
            best, kept = gained, group.copy()
    return np.unique(kept, return_inverse=True)[1]
