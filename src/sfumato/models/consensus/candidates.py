"""Candidates of soft evidence: each kind with a number of clusters, and how it scores.

    mixtures    posteriors of small Gaussian mixtures: density and orientation cells       fine
    connected k-means partitions: gaps and thin curves both        the columns of both, each kind
    scaled to the same mean degree components  posteriors of mixtures with one Gaussian for each
    cluster; used alone where held-out objects are as likely under these as under the small mixtures

The misfit  e_k = |Z Z' - U U'|^2 / |Z Z'|^2  compares the cluster kernel with what memberships can
express. The score is the relative eigengap times (1 - 7 e_k). The constants below were chosen on
the half of the quality table that says so (``benchmarks/quality_sets.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...array.arrays import asarray_like, is_numpy, namespace
from ...array.types import Array, Weights
from ...engine import loop
from ...numerics.axes import Axes, by_radius
from ...selection.criteria import eigengap, misfit
from .components import fit_components, matching
from .ensemble import ClusteringEnsemble
from .evidence import CellColumns, Factor, MixtureColumns, columns_factor, factorize, in_parts
from .mixtures import MOST, MixtureEnsemble, Stock
from .reading import Reader, Settings, fit_reader

__all__ = [
    "COMPARED",
    "Average",
    "Candidate",
    "Request",
    "Simple",
    "candidates_of",
    "cells_of",
    "member_weights",
    "set_sizes",
]

N_PARTITIONS = 40  # number of partitions into cells; see the page on evidence accumulation
# Neighbours in the graph that splits cells. With ten, rings of the dartboard data are sometimes
# joined.
N_NEIGHBORS = 7
COMPARED = 1500  # objects that candidates are compared on
PENALTY = 7.0  # weight of the misfit in the score
# As a share of n / k. A candidate with a smaller cluster has split off outliers, and is chosen only
# if all candidates have.
SMALLEST = 0.1
# Times 1 - (k + 1)-th eigenvalue: regularization for elongated clusters connected by short steps,
# in which similarities across the cluster must stay small
WEAK = 0.04
TINY = 1e-5  # regularization that only keeps the problem well posed


class Request(NamedTuple):
    """What is asked for: clusters (a number or "auto"), the most to try at first, weights of the
    members or None, solver settings; ``mass`` are the weights of the objects, first of all rows,
    then of the sample.
    """

    n_clusters: Any
    max_clusters: int
    weights: np.ndarray | None
    settings: Settings
    by_structure: bool = False
    mass: np.ndarray | None = None


class Average(NamedTuple):
    """Memberships as matched and averaged posteriors; what else is known of the model."""

    kind: Any
    bridge: np.ndarray
    misfit: float
    run: loop.Run

    def __call__(self, block: Any) -> Any:
        """Memberships (b, k) of a block of objects, where these are."""

        def averaged(few: Any) -> Any:
            H = self.kind(few)
            return H @ asarray_like(self.bridge, H)

        return in_parts(averaged, block)

    def resampled(self, rng: np.random.Generator) -> Average:
        """The same with members drawn anew, with replacement."""
        m = self.kind.n_members
        counts = rng.multinomial(m, np.full(m, 1.0 / m))
        return self._replace(bridge=self.bridge * np.repeat(counts, self.bridge.shape[1])[:, None])


class Candidate(NamedTuple):
    """One kind of evidence with one number of clusters."""

    evidence: str
    n_clusters: int
    factor: Factor
    reader: Reader | Average
    score: float

    def __call__(self, block: Any) -> Any:
        """Memberships (b, k) of a block of objects, where these are."""
        U = self.reader(block if isinstance(self.reader, Average) else self.factor(block))
        return U if is_numpy(block) else namespace(block).astype(U, block.dtype)


class Simple(NamedTuple):
    """One Gaussian for each cluster, tried beside fine mixtures (``fine``, by ``seeds``)."""

    stock: Stock
    fine: list[Any]
    seeds: np.ndarray
    axes: Axes
    points: Any

    def __call__(self, k: int, mass: Weights) -> Candidate | None:
        """The candidate, or None where fine mixtures fit held-out objects better."""
        if k < 2:
            return None
        members = MixtureEnsemble(len(self.seeds), n_components=k)
        n = members._n_fitted(len(self.stock.Y))
        results = fit_components(self.stock, n, self.fine, self.seeds, k)
        if not results:
            return None
        members._keep(results, self.axes)
        kind = MixtureColumns(members)
        H = kind(self.points)
        best = int(np.argmax([each.fitted.value for each in results]))
        bridge = matching(H if mass is None else H * np.sqrt(mass)[:, None], k, best)
        factor = columns_factor(kind, H, k, mass)
        Z, U = factor.rows([H]), H @ bridge
        if mass is not None:
            Z, U = np.sqrt(mass)[:, None] * Z, np.sqrt(mass)[:, None] * U
        e = misfit(Z, U)
        error = e * float(np.sum((Z.T @ Z) ** 2))
        run = loop.Run(None, error, np.array([error]), 1, True)
        score = float(eigengap(factor.values)[k - 1]) * max(0.0, 1.0 - PENALTY * e)
        return Candidate("components", k, factor, Average(kind, bridge, e, run), score)


def member_weights(kinds: tuple[Any, ...], weights: np.ndarray | None) -> list[Any]:
    """Weights (K,) of the columns of each kind."""
    if weights is None:
        return [np.ones(int(kind.offsets[-1])) for kind in kinds]
    return [np.repeat(weights, np.diff(kinds[0].offsets))]


def set_sizes(mixtures: MixtureEnsemble, k: Any, n_objects: int) -> None:
    """At least as many components as there are clusters, unless their number is given."""
    if mixtures.n_components is None and k != "auto":
        low, high = mixtures._range(mixtures._n_fitted(n_objects))
        mixtures.set_params(n_components=(max(low, k), max(high, 2 * k)))


def cells_of(
    points: Array, axes: Axes, mass: Weights, rng: np.random.Generator, mixtures: MixtureEnsemble
) -> tuple[CellColumns] | None:
    """Cells of the sample, in coordinates in which near neighbours spread evenly.

    They are made from objects without missing values; None if fewer than half are complete.
    """
    Y, gaps = axes.seen(points)
    order = by_radius(Y)
    if gaps is not None:
        order = order[gaps.pattern[order] < 0]
        if 2 * len(order) < len(Y):
            return None
    few = order[:: max(1, -(-len(order) // MOST))]
    Y, own = Y[few], None if mass is None else mass[few]
    ensemble = ClusteringEnsemble(
        N_PARTITIONS, n_neighbors=N_NEIGHBORS, random_state=int(rng.integers(2**31))
    )
    return (CellColumns(ensemble.fit(Y @ axes.near, sample_weight=own), axes, mixtures),)


def candidates_of(
    kinds: dict[str, tuple[Any, ...]], points: Array, request: Request
) -> list[Candidate]:
    """Every kind of evidence with every number of clusters that is asked for."""
    made = {id(kind): kind(points) for group in kinds.values() for kind in group}
    found = []
    for name, group in kinds.items():
        columns = [made[id(kind)] for kind in group]
        found += _of_one_kind(name, group, columns, request, weak=False)
        if name == "cells":
            found += _of_one_kind(name, group, columns, request, weak=True)
    return found


def _of_one_kind(
    name: str, group: tuple[Any, ...], columns: list[Any], request: Request, *, weak: bool
) -> list[Candidate]:
    """Candidates from one kind of evidence.

    ``weak`` reduces the regularization where clusters are elongated chains of short steps.
    """
    weights = None if request.weights is None else member_weights(group, request.weights)

    def factor(k: int) -> Factor:
        if not weak:
            return factorize(group, columns, k, weights=weights, mass=request.mass)[0]
        bare = factorize(group, columns, k, TINY, weights=weights, mass=request.mass)[0]
        little = WEAK * (1.0 - bare.values[-1]) + TINY
        return factorize(group, columns, k, little, weights=weights, mass=request.mass)[0]

    if request.n_clusters != "auto":
        whole = factor(request.n_clusters)
        return [_candidate(name, whole, whole.rows(columns), request.settings, request.mass)]
    few = request.settings._replace(n_init=1)
    most = max(1, min(columns[0].shape[0] - 1, request.max_clusters))
    whole = factor(most)
    cuts = [whole.cut(k) for k in range(min(2, most), most + 1)]
    return [_candidate(name, cut, cut.rows(columns), few, request.mass) for cut in cuts]


def _candidate(
    name: str, factor: Factor, Z: np.ndarray, settings: Settings, mass: Weights
) -> Candidate:
    """Memberships of at most ``COMPARED`` objects, evenly spread, and how they score."""
    step = max(1, -(-len(Z) // COMPARED))
    k, few, own = Z.shape[1], Z[::step], None if mass is None else mass[::step]
    reader = fit_reader(few, settings, None, own)
    gap = 0.0 if k == 1 else float(eigengap(factor.values)[k - 1])
    score = gap * max(0.0, 1.0 - PENALTY * reader.misfit)
    sizes = np.bincount(reader(few).argmax(axis=1), own, minlength=k)
    if sizes.min() < SMALLEST * sizes.sum() / k:
        score -= 1.0
    return Candidate(name, k, factor, reader, score)
