"""Three iterations of EM on a mixture of three Gaussians, drawn as the chapter's figure is."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from .. import datasets, plot
from .shelf import Outcome, Shelf


def figures(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """The start and the mixture after each iteration, with ellipses at one and two deviations."""
    import matplotlib.pyplot as plt

    X, _, _ = datasets.make_gaussians(300, 3, separation=4.0, random_state=2)
    rng = np.random.default_rng(1)
    means = X[rng.choice(len(X), 3, replace=False)]
    covariances = np.stack([np.cov(X.T) / 4] * 3)
    weights = np.full(3, 1 / 3)
    figure, axes = plt.subplots(
        1, 4, figsize=(18, 4.6), sharex=True, sharey=True, layout="constrained"
    )
    titles = ("start", "after 1 iteration", "after 2 iterations", "after 3 iterations")
    for title, axis in zip(titles, axes, strict=True):
        responsibilities = posterior(X, weights, means, covariances)
        plot.scatter(X, responsibilities, ax=axis)
        for mean, covariance in zip(means, covariances, strict=True):
            axis.plot(*ellipse(mean, covariance, 1.0), color="black", linewidth=1.5)
            axis.plot(*ellipse(mean, covariance, 2.0), color="black", linewidth=0.8)
        axis.get_legend().remove()
        axis.set_title(title)
        weights, means, covariances = maximized(X, responsibilities)
    return Outcome(figures={"mixture-steps.png": figure})


def posterior(
    X: np.ndarray, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> np.ndarray:
    """Chance of each component for each point: the E step."""
    parts = zip(weights, means, covariances, strict=True)
    density = np.stack([w * multivariate_normal(m, c).pdf(X) for w, m, c in parts], axis=1)
    return density / density.sum(axis=1, keepdims=True)


def maximized(X: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances from responsibilities: the M step."""
    mass = R.sum(axis=0)
    means = R.T @ X / mass[:, None]
    centred = X[None] - means[:, None]
    scatter = np.einsum("ir,rij,rik->rjk", R, centred, centred)
    return mass / len(X), means, scatter / mass[:, None, None]


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points (2, 100) at ``radius`` standard deviations."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return mean[:, None] + radius * np.linalg.cholesky(covariance) @ circle
