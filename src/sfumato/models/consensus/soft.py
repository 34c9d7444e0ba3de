"""The default for features.

Candidates of soft evidence, of which the one that shows its clusters best is kept.

    mixtures    posteriors of small Gaussian mixtures: density and orientation
    cells       fine connected k-means partitions: gaps and thin curves
    both        the columns of both, each kind scaled to the same mean degree
    components  posteriors of mixtures with one Gaussian for each cluster, where these give objects
                left out as much density as the small mixtures do: the others are then not asked

The misfit  e_k = |Z Z' - U U'|^2 / |Z Z'|^2  compares the cluster kernel with what memberships can
express. The candidate with the largest relative eigengap times (1 - 7 e_k) is kept; where the
number of clusters is open, it is chosen in the same way. The constants below were chosen on the
half of the quality table that says so (``benchmarks/quality_sets.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...core import loop
from ...core.rows import Rows
from ...core.structure import assess
from ...core.types import Array, ArrayLike, Weights
from ...core.warn import warn
from ...memberships import align, check_memberships
from ...numerics.axes import Axes, by_radius, fit_axes
from ...selection.criteria import (
    eigengap,
    misfit,
    misfit_of_sums,
    structure_score,
    supported_numbers,
)
from ...similarity.coassociation import check_partition_weight
from .components import N_MEMBERS, Average, fit_components, matching
from .ensemble import ClusteringEnsemble
from .evidence import (
    CellColumns,
    Factor,
    GivenColumns,
    MixtureColumns,
    Sums,
    columns_factor,
    factorize,
    refine,
)
from .mixtures import MOST, MixtureEnsemble, Stock
from .reading import Reader, Settings, fit_reader
from .sample import distinct_sample, sample_objects

__all__ = ["SoftConsensus", "fit_soft", "warn_if_noise"]

N_PARTITIONS = 40  # of cells: as many as the choice needs, see the page on evidence accumulation
# Of the graph that takes cells apart: with ten, rings of the dartboard are joined now and then
N_NEIGHBORS = 7
CLEAR = 0.8  # score of mixtures from which on cells are not asked
SUMMED = 50_000  # objects that the sums are taken over at most
COMPARED = 1500  # objects that candidates are compared on
GROWTH = 4  # times ``max_clusters`` may be tried while the best number is the largest one tried
PENALTY = 7.0  # times the misfit, which takes that share from the eigengap
# Of n / k objects: a candidate with a smaller cluster cuts off strays, and is taken only if all do
SMALLEST = 0.1
# Times 1 - (k + 1)-th eigenvalue: regularization for chains of small steps, which must not get
# shortcuts
WEAK = 0.04
TINY = 1e-5  # regularization that only keeps the problem well posed
# Penalized eigengap that structureless data reach: at most .27 in 15 of 16 draws of 300 normal,
# uniform, exponential and t objects
# in 2 to 20 dimensions, where k was free too. An eigengap of STANDS is far above theirs (.41 at
# most).
NOISE = 0.27
STANDS = 0.5
FEWEST = 50  # objects from which on noise can be told from clusters


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


class Candidate(NamedTuple):
    """One kind of evidence with one number of clusters."""

    evidence: str
    n_clusters: int
    factor: Factor
    reader: Reader | Average
    score: float

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, k) of a block of objects."""
        return self.reader(block if isinstance(self.reader, Average) else self.factor(block))


class SoftConsensus(NamedTuple):
    """A fitted consensus of soft evidence.

    The candidate chosen, the objects it was compared on, all (k, score). ``order`` are numbers of
    clusters, best first, of a search that leaves the last word to fits with these numbers.
    """

    chosen: Candidate
    points: Any
    request: Request
    scores: tuple[tuple[int, float], ...]
    sums: Sums | None = None
    order: tuple[int, ...] = ()

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, k) of a block of objects."""
        return self.chosen(block)

    def tried(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of clusters, each with its best score over the kinds of evidence."""
        numbers = np.unique([k for k, _ in self.scores])
        return numbers, np.array([max(s for k, s in self.scores if k == n) for n in numbers])

    def misfit(self, rows: Rows) -> float:
        """Misfit of the cluster kernel of any objects."""

        def sums(block: Array, mass: Weights = None) -> tuple[np.ndarray, ...]:
            Z, U = self.chosen.factor(block), self.chosen(block)
            if mass is not None:
                Z, U = (np.sqrt(mass)[:, None] * part for part in (Z, U))
            return Z.T @ Z, Z.T @ U, U.T @ U

        return misfit_of_sums(*rows.sum(sums))

    def absorb(self, rows: Rows) -> SoftConsensus:
        """The consensus with a further batch in its sums.

        The members and the objects compared stay.
        """
        if len(self.chosen.factor.kinds) > 1 or self.chosen.evidence != "mixtures":
            return self
        factor, sums = refine(self.chosen.factor, rows, self.chosen.n_clusters, self.sums)
        start = self(self.points)
        reader = fit_reader(factor(self.points), self.request.settings, start, self.request.mass)
        chosen = self.chosen._replace(factor=factor, reader=reader)
        return self._replace(chosen=chosen, sums=sums)

    def draws(self, rows: Rows, memberships: np.ndarray, n_draws: int) -> Iterator[np.ndarray]:
        """Memberships of the rows from resampled members, matched to the fit."""
        kinds, settings = self.chosen.factor.kinds, self.request.settings._replace(n_init=1)
        rng = np.random.default_rng(settings.random_state)
        average = self.chosen.reader
        if isinstance(average, Average):
            for _ in range(n_draws):
                yield rows.map(average.resampled(rng).__call__)
            return
        columns, start = [kind(self.points) for kind in kinds], self(self.points)
        own = _member_weights(kinds, self.request.weights)
        for _ in range(n_draws):
            weights = [
                w
                * np.repeat(
                    rng.multinomial(kind.n_members, np.full(kind.n_members, 1 / kind.n_members)),
                    np.diff(kind.offsets),
                )
                for kind, w in zip(kinds, own, strict=True)
            ]
            mass = self.request.mass
            factor, Z = factorize(
                kinds, columns, self.chosen.n_clusters, weights=weights, mass=mass
            )
            reader = fit_reader(Z, settings, start, mass)
            U = rows.map(lambda block, f=factor, r=reader: r(f(block)))
            yield align(U, memberships)[:, : memberships.shape[1]]


def fit_soft(
    X: Any, ensemble: MixtureEnsemble | None, request: Request, rng: np.random.Generator
) -> SoftConsensus:
    """Choose the evidence, and the number of clusters if it is "auto", on a sample.

    Then take the sums over all rows.
    """
    mixtures = MixtureEnsemble() if ensemble is None else ensemble
    rows = None
    if X.shape[0] > mixtures.max_objects:
        rows = Rows(X) if request.mass is None else Rows(X, request.mass)
    points, mass = distinct_sample(X, mixtures.max_objects, rng, request.mass, request.n_clusters)
    request = request._replace(mass=mass)
    axes = fit_axes(points, mixtures.n_axes, mass)
    stock, seeds = Stock.of(points, axes, mass), rng.integers(2**63, size=mixtures.n_members)
    _set_sizes(mixtures, request.n_clusters, points.shape[0])
    first = mixtures._members(stock, seeds[:N_MEMBERS])
    simple = _Simple(stock, first, seeds[:N_MEMBERS], axes, points)
    if ensemble is None and request.n_clusters != "auto":
        found = simple(request.n_clusters, mass)
        if found is not None:
            return SoftConsensus(found, points, request, ((found.n_clusters, found.score),))
    mixtures._keep(first + mixtures._members(stock, seeds[N_MEMBERS:]), axes)
    kinds: dict[str, tuple[Any, ...]] = {"mixtures": (MixtureColumns(mixtures),)}
    candidates = _candidates(kinds, points, request)
    if ensemble is None and max(each.score for each in candidates) < CLEAR:
        cells = _cells(points, axes, mass, rng)
        more = {"cells": cells, "both": kinds["mixtures"] + cells}
        candidates += _candidates(more, points, request)
        kinds |= more
    if request.n_clusters == "auto":
        return _searched(kinds, points, candidates, request)
    return _settle(rows, points, candidates, request, rng)


class _Simple(NamedTuple):
    """One Gaussian for each cluster, tried beside fine mixtures (``fine``, by ``seeds``)."""

    stock: Stock
    fine: list[Any]
    seeds: np.ndarray
    axes: Axes
    points: Any

    def __call__(self, k: int, mass: Weights) -> Candidate | None:
        """The candidate, or None where fine mixtures know more."""
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


def fit_given(H: np.ndarray, offsets: np.ndarray, request: Request) -> SoftConsensus:
    """The same for membership matrices (n, K) that were given, side by side.

    ``offsets`` says where each begins.
    """
    kinds = {"given": (GivenColumns(offsets),)}
    rng = np.random.default_rng(request.settings.random_state)
    points = H
    if request.mass is not None:
        points, mass = distinct_sample(H, len(H), rng, request.mass, request.n_clusters)
        request = request._replace(mass=mass)
    candidates = _candidates(kinds, points, request)
    if request.n_clusters == "auto":
        return _searched(kinds, points, candidates, request)
    return _settle(None, points, candidates, request, rng)


def is_list_of_memberships(X: Any) -> bool:
    """Whether the evidence is a list or tuple of matrices, not one table of labels."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(np.ndim(each) == 2 for each in X)


def check_given(
    matrices: Any, partition_weight: ArrayLike | None, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Membership matrices side by side, where each begins, and their weights.

    ``offsets`` are those of the fit.
    """
    checked = [np.asarray(check_memberships(each), dtype=np.float64) for each in matrices]
    if len({len(each) for each in checked}) != 1:
        raise ValueError(
            "all membership matrices must describe the same objects, got "
            f"{[len(e) for e in checked]} rows"
        )
    begins = np.cumsum([0, *(each.shape[1] for each in checked)])
    if offsets is not None and not np.array_equal(begins, offsets):
        raise ValueError(
            f"give the same {len(offsets) - 1} membership matrices as in fit, with "
            f"{np.diff(offsets).tolist()} "
            f"columns; got {np.diff(begins).tolist()}"
        )
    weights = check_partition_weight(partition_weight, len(checked))
    return np.hstack(checked), begins, weights


def check_weights(
    partition_weight: ArrayLike | None, ensemble: MixtureEnsemble | None
) -> np.ndarray | None:
    """Weights of the members of one ensemble."""
    if partition_weight is None:
        return None
    if ensemble is None:
        raise ValueError(
            "partition_weight goes with one ensemble: give ensemble=MixtureEnsemble(...), "
            "ClusteringEnsemble(...) or 'precomputed'"
        )
    return check_partition_weight(partition_weight, ensemble.n_members)


def _member_weights(kinds: tuple[Any, ...], weights: np.ndarray | None) -> list[Any]:
    """Weights (K,) of the columns of each kind."""
    if weights is None:
        return [np.ones(int(kind.offsets[-1])) for kind in kinds]
    return [np.repeat(weights, np.diff(kinds[0].offsets))]


def _set_sizes(mixtures: MixtureEnsemble, k: Any, n_objects: int) -> None:
    """At least as many components as there are clusters, unless their number is given."""
    if mixtures.n_components is None and k != "auto":
        low, high = mixtures._range(mixtures._n_fitted(n_objects))
        mixtures.set_params(n_components=(max(low, k), max(high, 2 * k)))


def _cells(
    points: Array, axes: Axes, mass: Weights, rng: np.random.Generator
) -> tuple[CellColumns]:
    """Cells of the sample, in coordinates in which near neighbours spread evenly."""
    Y = axes(points)
    few = by_radius(Y)[:: max(1, -(-len(Y) // MOST))]
    Y, own = Y[few], None if mass is None else mass[few]
    ensemble = ClusteringEnsemble(
        N_PARTITIONS, n_neighbors=N_NEIGHBORS, random_state=int(rng.integers(2**31))
    )
    return (CellColumns(ensemble.fit(Y @ axes.near, sample_weight=own), axes),)


def _candidates(
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

    ``weak`` takes the regularization back where clusters are chains of small steps.
    """
    weights = None if request.weights is None else _member_weights(group, request.weights)

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


def _searched(
    kinds: dict[str, tuple[Any, ...]], points: Array, candidates: list[Candidate], request: Request
) -> SoftConsensus:
    """A search over numbers of clusters, which goes on while the best is the largest one tried."""
    most, cap = request.max_clusters, min(GROWTH * request.max_clusters, points.shape[0] - 1)
    while True:
        scores = _structure_scores(points, candidates) if request.by_structure else None
        if scores is None:
            best = max(candidates, key=lambda each: (each.score, -each.reader.misfit))
            scores, order = [each.score for each in candidates], [best.n_clusters]
        else:
            order = supported_numbers([each.n_clusters for each in candidates], scores)
        if not order or order[0] < most or most >= cap:
            break
        most = min(2 * most, cap)
        candidates = _candidates(kinds, points, request._replace(max_clusters=most))
    if order and order[0] == most == GROWTH * request.max_clusters:
        warn(
            f"the best number of clusters is the largest one tried, {most}: there may be more; "
            "raise max_clusters"
        )
    tried = tuple((each.n_clusters, s) for each, s in zip(candidates, scores, strict=True))
    return SoftConsensus(candidates[0], points, request, tried, order=tuple(order))


def _settle(
    rows: Rows | None,
    points: Array,
    candidates: list[Candidate],
    request: Request,
    rng: np.random.Generator,
) -> SoftConsensus:
    """The best candidate, fitted again to the whole sample and to sums over all rows.

    ``rows`` are None where the sample is all there is.
    """
    best = max(candidates, key=lambda each: (each.score, -each.reader.misfit))
    sums = None
    mass = request.mass
    if rows is not None and best.evidence == "mixtures":
        factor, sums = refine(best.factor, _several(rows, rng), best.n_clusters)
        best = best._replace(factor=factor)
    if points.shape[0] > COMPARED or sums is not None:
        reader = fit_reader(best.factor(points), request.settings, None, mass)
        best = best._replace(reader=reader)
    tried = tuple((each.n_clusters, each.score) for each in candidates)
    return SoftConsensus(best, points, request, tried, sums)


def _several(rows: Rows, rng: np.random.Generator) -> Rows:
    """The rows, or at most ``SUMMED`` of them."""
    if rows.shape[0] <= SUMMED:
        return rows
    if not rows.columns:
        return Rows(sample_objects(rows.X, SUMMED, rng))
    return Rows(rows.sample(SUMMED, rng).X)


def _structure_scores(points: Array, candidates: list[Candidate]) -> list[float] | None:
    """Score of every candidate by the structure test; None where it does not apply."""
    few = points[:: max(1, -(-points.shape[0] // COMPARED))]
    found = [
        None if each.n_clusters < 2 else assess(few, each(few), kind="features")
        for each in candidates
    ]
    if all(each is None for each in found):
        return None
    return [0.0 if each is None else structure_score(each) for each in found]


def warn_if_noise(chosen: Candidate, n_objects: int) -> None:
    """Warn when the evidence for the clusters, or for the last of them, is no stronger than in
    noise.
    """
    k, values = chosen.n_clusters, chosen.factor.values
    if k < 2 or chosen.score >= NOISE or n_objects < FEWEST:
        return
    gaps = eigengap(values)[1:]
    if (
        chosen.evidence != "components"
        and k > 2
        and gaps.max() >= STANDS
        and np.argmax(gaps) + 2 < k
    ):
        warn(
            f"the evidence does not single out {k} clusters: eigenvalues {k} and {k + 1} of the "
            f"co-association are close ({values[k - 1]:.3f}, {values[k]:.3f}), so that where the "
            "last cut "
            f"goes is hardly more than chance; {int(np.argmax(gaps)) + 2} clusters stand apart most"
        )
        return
    warn(
        "mixtures and cells show no clusters: the eigengap less the misfit is "
        f"{max(chosen.score, 0):.3f} "
        f"for k = {k}, which noise reaches too (up to {NOISE:g}); the memberships may cut a "
        "continuum"
    )
