"""Memberships from the factor Z of a cluster kernel.

The pairwise model, and every object read against its k x k sums.

min over the simplex of  (a^2 / 2) u'S u - a (M'z)'u ,     S = U'U ,  M = Z'U
        for fitted and new objects alike
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...array.arrays import asarray_like
from ...array.types import Weights
from ...array.warn import EvidenceWarning
from ...engine import loop
from ...numerics import simplex
from ...selection.criteria import misfit
from ...similarity.operators import Factored
from ..pairwise.estimator import PairwiseProbabilisticClustering

__all__ = ["Reader", "Settings", "fit_reader"]


class Settings(NamedTuple):
    """Solver settings: starts, sweeps at most, the relative decrease at which to stop, random
    seed.
    """

    n_init: int
    max_iter: int
    tol: float
    random_state: int


class Reader(NamedTuple):
    """The pairwise model as far as an object needs it: H = a^2 S (k, k), and a M (k, k)."""

    curvature: np.ndarray
    cross: np.ndarray
    misfit: float
    run: loop.Run

    def plain(self, Z: Any) -> Any:
        """Memberships (n, k) as the pairwise model has them."""
        H, cross = asarray_like(self.curvature, Z), asarray_like(self.cross, Z)
        return simplex.quadratic_program(H, Z @ cross)

    def __call__(self, Z: Any) -> Any:
        """Memberships (n, k) of rows of the factor.

        The misfit e, the share of the squared kernel that memberships do not express, is spread
        over all clusters: (1 - e) u + e / k. Without it, strongly overlapping clusters are told
        with too much confidence; labels stay as they are.
        """
        U = self.plain(Z)
        doubt = min(self.misfit, 1.0)
        return simplex.normalize((1.0 - doubt) * U + doubt / U.shape[1])


def fit_reader(
    Z: np.ndarray,
    settings: Settings,
    start: np.ndarray | None = None,
    mass: Weights = None,
) -> Reader:
    """The pairwise model on Z Z', Z (n, k) with rows of length one.

    ``start`` (n, k) are memberships to begin with, ``mass`` (n,) weights of the objects.
    """
    n, k = Z.shape
    # Objects that are alone in their clusters fix the scale by their own entries only.
    diagonal = "include" if n <= k else "exclude"
    model = PairwiseProbabilisticClustering(
        k, similarity="precomputed", diagonal=diagonal, init=start, **settings._asdict()
    )
    with warnings.catch_warnings():
        # The misfit decides whether the result is meaningful, so candidates give no warnings.
        warnings.simplefilter("ignore", EvidenceWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Factored(Z), sample_weight=mass)
    U, a = model.memberships_, model.scale_
    run = loop.Run(None, model.objective_, model.history_, model.n_iter_, model.converged_)
    if mass is None:
        return Reader(a * a * (U.T @ U), a * (Z.T @ U), misfit(Z, U), run)
    root = np.sqrt(mass)[:, None]
    heavy = mass[:, None] * U
    return Reader(a * a * (U.T @ heavy), a * (Z.T @ heavy), misfit(root * Z, root * U), run)
