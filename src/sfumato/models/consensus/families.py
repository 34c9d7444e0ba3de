"""Mixtures of about as many Gaussians as there are clusters, their families chosen by BIC.

They see ellipses, and few objects in many features, which small mixtures with full covariances do
not. The mixtures are ordinary fits of ``GaussianMixture`` in whitened coordinates; written as
coefficients of z(y) = (1, y, y_a y_b) they are evidence of the same form as small mixtures.
"""

from __future__ import annotations

import warnings

import numpy as np

from ...numerics import distances
from ..gaussian import GaussianMixture
from .mixtures import Stock
from .tuning import TUNING

__all__ = ["family_mixtures"]


def family_mixtures(stock: Stock, k: int, seed: int) -> list[np.ndarray]:
    """Coefficients (q, Q) of mixtures of k, 1.5 k and 2 k components; empty where all fail."""
    few = stock.take(np.arange(0, len(stock.Y), -(-len(stock.Y) // TUNING.most_in_families)))
    sizes = sorted({int(np.ceil(times * k)) for times in TUNING.multiples})
    found = []
    for size in [size for size in sizes if size <= max(k, len(few.Y) // 5)]:
        model = GaussianMixture(size, n_init=2, max_iter=200, tol=1e-4, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the misfit says what a candidate is worth
            try:
                model.fit(few.Y, sample_weight=few.mass)
            except (ValueError, ArithmeticError, np.linalg.LinAlgError):
                continue
        found.append(_coefficients(model))
    return found


def _coefficients(model: GaussianMixture) -> np.ndarray:
    """log pi_j N(y) as coefficients (k, Q) of z(y)."""
    mu = np.asarray(model.means_)
    d = mu.shape[1]
    covariances = np.asarray(model.covariances_)  # (k, d, d) for families by name
    precisions = np.linalg.inv(covariances)
    linear = np.einsum("jab,jb->ja", precisions, mu)
    level = np.linalg.slogdet(covariances)[1] + np.sum(linear * mu, axis=1) + d * np.log(2 * np.pi)
    constant = np.log(np.maximum(model.weights_, np.finfo(float).tiny)) - 0.5 * level
    square = -precisions
    square[:, np.arange(d), np.arange(d)] *= 0.5
    return np.hstack([constant[:, None], linear, distances.pack(square)])
