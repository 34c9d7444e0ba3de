"""First states of mixtures of factor analyzers: a partition, then principal axes in every part."""

from __future__ import annotations

import numpy as np

from ...numerics import seeding
from .kernel import State

__all__ = ["collapsed", "from_labels", "partition"]

AXES = 20  # principal axes on which k-means looks for groups in many features
LEAN = 2.0  # weight, in objects, of the pooled noise in the noise of each part


def partition(X: np.ndarray, weights: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Labels (n,) of sorted objects by k-means on their leading principal axes."""
    different, mass, index = seeding.distinct(X, weights)
    k = min(k, len(different))
    if k == 1:
        return np.zeros(len(X), dtype=np.int64)
    share = mass / mass.sum()
    centred = different - share @ different
    if centred.shape[1] > AXES:
        axes = _principal(centred * np.sqrt(share)[:, None], AXES)[1]
        centred = centred @ axes.T
    return seeding.kmeans(centred, mass, k, rng)[index]


def _principal(X: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``q`` largest singular values of a matrix and their right vectors (q, d), zero beyond
    its rank, from the smaller of its two products."""
    n, d = X.shape
    values, vectors = np.linalg.eigh(X @ X.T if n < d else X.T @ X)
    values, vectors = np.maximum(values[::-1][:q], 0.0), vectors[:, ::-1][:, :q]
    roots = np.sqrt(values)
    good = roots > 1e-9 * max(float(roots.max(initial=0.0)), 1e-300)
    right = (vectors.T @ X) / np.where(good, roots, 1.0)[:, None] if n < d else vectors.T
    found, axes = np.zeros(q), np.zeros((q, d))
    found[: len(roots)] = np.where(good, roots, 0.0)
    axes[: len(roots)] = right * good[:, None]
    return found, axes


def from_labels(
    X: np.ndarray, weights: np.ndarray, labels: np.ndarray, k: int, q: int, floor: float
) -> State:
    """Means of the parts, their principal axes as loadings, and what these leave as noise."""
    d, unit = X.shape[1], seeding.unit(weights)
    R = (labels == np.arange(k)[:, None]) * weights
    mass = R.sum(axis=1) + 1e-6 * unit
    means = (R @ X) / mass[:, None]
    loadings, noise = np.zeros((k, d, q)), np.zeros((k, d))
    for j in range(k):
        inside = R[j] > 0
        E = (X[inside] - means[j]) * np.sqrt(R[j, inside] / (mass[j] + LEAN * unit))[:, None]
        roots, axes = _principal(E, q)
        variances = np.sum(E * E, axis=0)
        # What is left beyond the axes is shared out evenly, as in probabilistic components.
        rest = max(float(variances.sum() - np.sum(roots**2)), 0.0) / max(d - q, 1)
        loadings[j] = (axes * np.sqrt(np.maximum(roots**2 - rest, 0.0))[:, None]).T
        noise[j] = np.maximum(variances - np.sum(loadings[j] ** 2, axis=1), 0.0)
    pooled = (mass @ noise) / mass.sum()
    share = (mass / (mass + LEAN * unit))[:, None]
    noise = np.maximum(share * noise + (1.0 - share) * pooled, max(floor, 1e-2))
    return State(mass / mass.sum(), means, loadings, noise)


def collapsed(state: State, total: float) -> bool:
    """Whether a cluster holds fewer objects than its factors and mean need."""
    k, _, q = state.loadings.shape
    return bool(state.weights.min() * total < min(q + 2.0, 0.5 * total / k))
