"""Three EM iterations for a mixture of three Gaussians, drawn like the figure of the chapter."""

import warnings
from typing import Any

import numpy as np

from .. import datasets, plot
from ..components.gaussian import Start
from ..models.gaussian import GaussianMixture
from .shelf import Outcome, Shelf


def figures(shelf: Shelf, *, n_seeds: int = 10) -> Outcome:
    """The start and the mixture after each iteration, with ellipses at one and two deviations."""
    import matplotlib.pyplot as plt

    X, _, _ = datasets.make_gaussians(300, 3, separation=4.0, random_state=2)
    means = X[np.random.default_rng(1).choice(len(X), 3, replace=False)]
    start = Start(np.full(3, 1 / 3), means, np.stack([np.cov(X.T) / 4] * 3))
    still = start._replace(frozen=("weights", "means", "covariances"))
    layout: Any = {"figsize": (18, 4.6), "sharex": True, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(1, 4, **layout)
    titles = ("start", "after 1 iteration", "after 2 iterations", "after 3 iterations")
    for steps, (title, axis) in enumerate(zip(titles, axes, strict=True)):
        given: Any = {"init": start if steps else still, "max_iter": max(steps, 1), "tol": 0.0}
        model = GaussianMixture(3, covariance_type="full", n_init=1, **given)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # cut short
            model.fit(X)
        plot.scatter(X, model.memberships_, ax=axis)
        for mean, covariance in zip(model.means_, model.covariances_, strict=True):
            for radius, width in ((1.0, 1.5), (2.0, 0.8)):
                axis.plot(*ellipse(mean, covariance, radius), color="black", linewidth=width)
        axis.get_legend().remove()
        axis.set_title(title)
    return Outcome(figures={"mixture-steps.png": figure})


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float) -> np.ndarray:
    """Points (2, 100) at ``radius`` standard deviations."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return mean[:, None] + radius * np.linalg.cholesky(covariance) @ circle
