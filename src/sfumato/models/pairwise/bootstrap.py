"""Parametric bootstrap of the pairwise model: similarities drawn from the fitted model, fitted
again.

Each w_ij is Gaussian around scale * u_i'u_j with the fitted variance (parametric bootstrap). Only
u_i'u_j of a draw is used, so clusters need not be matched.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.base import BaseEstimator, clone

from ...array.memory import reserve
from ...numerics.simplex import normalize

__all__ = ["drawn_memberships"]


def drawn_memberships(
    model: BaseEstimator,
    U: np.ndarray,
    scale: float,
    variance: float,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Memberships (n, k) fitted to similarities drawn around scale * U U', from U as a start.

    ``model`` takes a signed similarity matrix: noise may bring a similarity below zero.
    """
    n = len(U)
    why = "a similarity drawn from the fitted model"
    reserve((n, 2 * n), np.dtype(np.float64), why, "fit a sample of the objects")
    mean = scale * (U @ U.T)
    for _ in range(n_draws):
        noise = np.triu(rng.normal(scale=np.sqrt(variance), size=(n, n)), 1)
        W = mean + noise + noise.T
        # A row on an edge of the simplex would leave it slowly.
        start = normalize(U + 1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model).set_params(
                similarity="precomputed", solver="coordinate", init=start, n_init=1
            )
            yield np.asarray(fitted.fit(W).memberships_, dtype=np.float64)
