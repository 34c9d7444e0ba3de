"""The consensus by the cluster kernel: the pairwise model on a smoothed co-association."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...engine import loop
from ...numerics import label_table as tables
from ...numerics.distances import unit_rows
from ...similarity.cluster_kernel import ClusterKernel
from ...similarity.coassociation import Rows
from ...similarity.operators import Factored
from ..pairwise.estimator import PairwiseProbabilisticClustering
from .reading import Settings

__all__ = ["SCREEN", "ByKernel"]

SCREEN = 20_000  # objects among which the starts are compared


class ByKernel:
    """The pairwise model on the rank-k cluster kernel of the implicit co-association."""

    def __init__(
        self, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
    ) -> None:
        bare, _ = tables.spectrum(table, k)
        self.table, self.eigenvalues, self.following = table, bare.values, bare.following
        self.regularization = tables.regularization(table, bare)
        spectrum, scaling = tables.spectrum(table, k, self.regularization, bare.vectors)
        values = np.where(spectrum.values > 1e-12, spectrum.values, np.inf)
        self.projection = (scaling * table.root)[:, None] * (spectrum.vectors / values)
        self.kernel = ClusterKernel(
            self._factor(table), self.projection, spectrum.values, spectrum.following
        )
        self.model = self._model(k, settings, start)
        self.memberships = self.model.memberships_
        self.run = loop.Run(
            None,
            self.model.objective_,
            self.model.history_,
            self.model.n_iter_,
            self.model.converged_,
        )

    def _model(
        self, k: int, settings: Settings, start: np.ndarray | None
    ) -> PairwiseProbabilisticClustering:
        model = PairwiseProbabilisticClustering(k, similarity="precomputed", **settings._asdict())
        Z, mass = self.kernel.factor, self.table.mass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # The consensus itself warns about groups that no partition connects.
            warnings.filterwarnings("ignore", message=".*similar to no other")
            if start is None and len(Z) > SCREEN:
                chosen = np.random.default_rng(settings.random_state).permutation(len(Z))[:SCREEN]
                own = None if mass is None else mass[chosen]
                first = clone(model).fit(Factored(Z[chosen]), sample_weight=own)
                start = first.predict_proba(Factored(Z, Z[chosen]))
            return model.set_params(init=start).fit(self.kernel, sample_weight=mass)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects: their rows of the cluster kernel, then one quadratic problem
        each.
        """
        return self.model.predict_proba(Factored(self._factor(new), self.kernel.factor))

    def _factor(self, objects: tables.Table) -> np.ndarray:
        """Rows of the kernel's factor from the rows of the co-association.

        For the objects of the fit and for others in the same way.
        """
        return unit_rows(
            Rows(objects, self.table, constant=self.regularization / self.table.total)
            @ self.projection
        )
