"""Three iterations of EM on a mixture of three Gaussians, drawn.

What the chapter's figure shows.
"""

from __future__ import annotations

import warnings

import numpy as np

from .. import datasets, plot
from ..components.gaussian import Start
from ..models.gaussian.estimator import GaussianMixture
from .outcome import Outcome
from .shelf import Shelf

__all__ = ["figures"]


def figures(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """The start and the mixture after one, two and three iterations, with ellipses at one and two
    standard deviations.
    """
    import matplotlib.pyplot as plt

    X, _, _ = datasets.make_gaussians(300, 3, separation=4.0, random_state=2)
    rng = np.random.default_rng(1)
    means = X[rng.choice(len(X), 3, replace=False)]
    covariances = np.stack([np.cov(X.T) / 4] * 3)
    weights = np.full(3, 1 / 3)
    figure, axes = plt.subplots(
        1, 4, figsize=(18, 4.6), sharex=True, sharey=True, layout="constrained"
    )
    for iteration, axis in enumerate(axes):
        responsibilities = posterior(X, weights, means, covariances)
        plot.scatter(X, responsibilities, ax=axis)
        for mean, covariance in zip(means, covariances, strict=True):
            axis.plot(*ellipse(mean, covariance, 1.0), color="black", linewidth=1.5)
            axis.plot(*ellipse(mean, covariance, 2.0), color="black", linewidth=0.8)
        axis.get_legend().remove()
        axis.set_title(
            "start"
            if iteration == 0
            else f"after {iteration} iteration{'s' if iteration > 1 else ''}"
        )
        weights, means, covariances = one_iteration(X, weights, means, covariances)
    return Outcome(figures={"mixture-steps.png": figure})


def one_iteration(
    X: np.ndarray, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One E and M step of the estimator from given parameters."""
    model = GaussianMixture(
        len(weights),
        covariance_type="full",
        init=Start(weights, means, covariances),
        n_init=1,
        max_iter=1,
        tol=0.0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X)
    return model.weights_, model.means_, model.covariances_


def posterior(
    X: np.ndarray, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray
) -> np.ndarray:
    """Chance of each component for each point."""
    from scipy.stats import multivariate_normal

    density = np.stack(
        [
            w * multivariate_normal(m, c).pdf(X)
            for w, m, c in zip(weights, means, covariances, strict=True)
        ],
        axis=1,
    )
    return density / density.sum(axis=1, keepdims=True)


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points (2, 100) at ``radius`` standard deviations."""
    angle = np.linspace(0, 2 * np.pi, 100)
    return mean[:, None] + radius * np.linalg.cholesky(covariance) @ np.stack(
        [np.cos(angle), np.sin(angle)]
    )
