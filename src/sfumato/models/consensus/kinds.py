"""Kinds of evidence from features, or from membership matrices that were given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ...array.arrays import is_numpy
from ...array.rows import Rows
from ...engine.objects import distinct_sample
from ...numerics.axes import UNEQUAL, by_radius, fit_axes
from .ensemble import ClusteringEnsemble
from .evidence import CellColumns, GivenColumns, MixtureColumns
from .families import family_mixtures
from .graph import GraphColumns, fit_graph
from .mixtures import MixtureEnsemble, Stock
from .reading import Settings
from .tuning import TUNING

__all__ = ["FeatureEvidence", "GivenEvidence", "Request"]


class Request(NamedTuple):
    """What is asked for besides the number of clusters: weights of the members or None, solver
    settings, weights of the objects or None.
    """

    weights: np.ndarray | None
    settings: Settings
    mass: np.ndarray | None = None


class FeatureEvidence:
    """Kinds of evidence from a sample of objects with features, each made once.

    A search over numbers of clusters and the fit with the best one share what they have in common,
    and the fit is the same without the search.
    """

    def __init__(
        self, X: Any, ensemble: MixtureEnsemble | None, request: Request, k: Any, rng: Any
    ) -> None:
        self.alone = ensemble is not None  # members that the user chose are the only evidence
        self.mixtures = MixtureEnsemble() if ensemble is None else ensemble
        most = self.mixtures.max_objects
        self.rows = None
        if X.shape[0] > most:
            self.rows = Rows(X) if request.mass is None else Rows(X, request.mass)
        self.points, self.mass = distinct_sample(X, most, rng, request.mass, k)
        self.weights = request.weights
        self._made: dict[Any, Any] = {}
        if self.mixtures.members is not None:
            self.mixtures._fit_members(self.points, rng, self.mass)
            return
        self.axes = fit_axes(self.points, self.mixtures.n_axes, self.mass)
        self.stock = Stock.of(self.points, self.axes, self.mass)
        self.seeds = rng.integers(2**63, size=self.mixtures.n_members)
        self.cell_seed, self.family_seed, seed = (int(s) for s in rng.integers(2**31, size=3))
        self.graph_seed, self.graph = seed, None
        many = self.points.shape[0] >= TUNING.fewest_in_graph
        if many and self.points.shape[1] > self.mixtures.n_axes and not self.alone:
            self.graph = self._graph(1)

    def kinds(self, k: int | None) -> dict[str, Any]:
        """Kinds of evidence for ``k`` clusters, or for any number."""
        if self.mixtures.members is not None:
            return {"members": MixtureColumns(self.mixtures)}
        if self.graph is not None:
            return {"graph": self.graph}
        mixtures = self._small_mixtures(k)
        kinds: dict[str, Any] = {"mixtures": MixtureColumns(mixtures)}
        if self.alone or k == 1:
            return kinds
        if (cells := self._cells()) is not None:
            kinds["cells"] = CellColumns(cells, self.axes, mixtures)
        if k is not None and (families := self._families(k)) is not None:
            kinds["families"] = families
        if k is None and self.points.shape[1] > 2:  # in the plane cells see the same gaps
            graph = self._graph(max(1, -(-self.points.shape[0] // TUNING.compared)))
            kinds |= {} if graph is None else {"graph": graph}
        return kinds

    def _graph(self, step: int) -> GraphColumns | None:
        """Communities of every ``step``-th object, if the features have one unit."""
        if not _one_unit(self.points):
            return None
        mass = None if self.mass is None else self.mass[::step]
        return fit_graph(self.points[::step], np.random.default_rng(self.graph_seed), mass)

    def _families(self, k: int) -> MixtureColumns | None:
        """Mixtures of about ``k`` components, if any could be fitted."""
        found = family_mixtures(self.stock, k, self.family_seed)
        if not found:
            return None
        families = MixtureEnsemble(len(found))
        families._keep(found, self.axes)
        return MixtureColumns(families)

    def _small_mixtures(self, k: int | None) -> MixtureEnsemble:
        """Mixtures with at least as many components as there are clusters, unless their number is
        given.
        """
        low, high = self.mixtures._range(self.mixtures._n_fitted(len(self.stock.Y)))
        if k is not None and self.mixtures.n_clusters is None:
            low, high = max(low, k), max(high, 2 * k)
        if (low, high) not in self._made:
            mixtures = clone(self.mixtures).set_params(n_clusters=(low, high))
            mixtures._fit_stock(self.stock, self.axes, self.seeds)
            self._made[low, high] = mixtures
        return self._made[low, high]  # type: ignore[no-any-return]

    def _cells(self) -> ClusteringEnsemble | None:
        """Cells of the sample, in coordinates in which near neighbours spread evenly.

        They are made from objects without missing values; None if fewer than half are complete.
        """
        if "cells" not in self._made:
            Y, gaps = self.axes.seen(self.points)
            order = by_radius(Y)
            if gaps is not None:
                order = order[gaps.pattern[order] < 0]
            self._made["cells"] = None
            if 2 * len(order) >= len(Y):
                few = order[:: max(1, -(-len(order) // TUNING.most))]
                own = None if self.mass is None else self.mass[few]
                cells = ClusteringEnsemble(
                    TUNING.n_cells, n_neighbors=TUNING.n_neighbors, random_state=self.cell_seed
                )
                self._made["cells"] = cells.fit(Y[few] @ self.axes.near, sample_weight=own)
        return self._made["cells"]  # type: ignore[no-any-return]

    def member_weights(self, kind: Any) -> np.ndarray | None:
        """Weights (K,) of the columns of the members that could be fitted."""
        if self.weights is None:
            return None
        return np.repeat(self.weights[kind.ensemble._fitted], np.diff(kind.offsets))


def _one_unit(points: Any) -> bool:
    """Whether no feature has a far larger range than the others."""
    if not is_numpy(points):
        return True
    spread = points.max(axis=0) - points.min(axis=0)
    varies = spread[spread > 0]
    return bool(len(varies) and varies.max() <= UNEQUAL * np.median(varies))


class GivenEvidence:
    """Membership matrices (n, K) that were given, side by side; ``offsets`` say where each begins.

    The same interface as ``FeatureEvidence``.
    """

    rows = None

    def __init__(
        self, H: np.ndarray, offsets: np.ndarray, request: Request, k: Any, rng: Any
    ) -> None:
        self.kind, self.points, self.mass, self.weights = GivenColumns(offsets), H, None, None
        if request.mass is not None:
            self.points, self.mass = distinct_sample(H, len(H), rng, request.mass, k)
        if request.weights is not None:
            self.weights = np.repeat(request.weights, np.diff(offsets))

    def kinds(self, k: int | None) -> dict[str, Any]:
        """The one kind of evidence there is."""
        return {"given": self.kind}

    def member_weights(self, kind: Any) -> np.ndarray | None:
        """Weights (K,) of the columns."""
        return self.weights
