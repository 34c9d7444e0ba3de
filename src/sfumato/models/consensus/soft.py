"""The default for features.

Candidates of soft evidence (``candidates``), of which the one with the largest score is kept; where
the number of clusters is open, it is searched for among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...array.arrays import asarray_like, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import Array, Weights
from ...array.warn import warn
from ...data.features import empty_rows
from ...engine.growth import GROWTH
from ...engine.objects import distinct_sample, sample_objects
from ...engine.structure import assess
from ...memberships import align
from ...numerics.axes import fit_axes
from ...selection.criteria import eigengap, misfit_of_sums, structure_score, supported_numbers
from .candidates import (
    COMPARED,
    Average,
    Candidate,
    Request,
    Simple,
    candidates_of,
    cells_of,
    member_weights,
    set_sizes,
)
from .components import N_MEMBERS, gain
from .evidence import GivenColumns, MixtureColumns, Sums, factorize, refine
from .informative import informative
from .mixtures import MixtureEnsemble, Stock
from .reading import fit_reader

__all__ = ["Request", "SoftConsensus", "fit_soft", "warn_if_noise"]

CLEAR = 0.8  # score of mixtures above which cells are not tried
SUMMED = 50_000  # objects that the sums are taken over at most
SUMS = ("mixtures", "members")  # evidence whose sums over all rows are taken
# Penalized eigengap that structureless data reach: at most .27 in 15 of 16 draws of 300 normal,
# uniform, exponential and t objects
# in 2 to 20 dimensions, where k was free too. An eigengap of LARGE_GAP is far above theirs (.41 at
# most).
NOISE = 0.27
LARGE_GAP = 0.5
# Score above which the evidence alone supports a number of clusters in a search. Of 46 draws
# without clusters (the 16 above and 30 of 150 and 400 objects: normal, uniform, exponential, t and
# correlated, 2 to 20 dimensions) one had more; together with the structure test the rate of false
# alarms stays at about 5 %.
DECISIVE = 0.36
FEWEST = 50  # least number of objects to distinguish clusters from noise


class SoftConsensus(NamedTuple):
    """A fitted consensus of soft evidence.

    The candidate chosen, the objects it was compared on, all (k, score). ``order`` are the numbers
    of clusters of a search, best first; fits with these numbers are tested in turn, except for the
    number that ``stands``: its score is enough.
    """

    chosen: Candidate
    points: Any
    request: Request
    scores: tuple[tuple[int, float], ...]
    sums: Sums | None = None
    order: tuple[int, ...] = ()
    stands: int | None = None

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, k) of a block of objects; of one that nothing is known of, the mean."""
        U, empty = self.chosen(block), empty_rows(block)
        if empty is not None:
            U[empty] = np.average(self.chosen(self.points), axis=0, weights=self.request.mass)
        return U

    def tried(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of clusters, each with its best score over the kinds of evidence."""
        numbers = np.unique([k for k, _ in self.scores])
        return numbers, np.array([max(s for k, s in self.scores if k == n) for n in numbers])

    def misfit(self, rows: Rows) -> float:
        """Misfit of the cluster kernel of any objects."""

        def sums(block: Array, mass: Weights = None) -> tuple[np.ndarray, ...]:
            Z = self.chosen.factor(block)
            U = namespace(Z).astype(self.chosen(block), Z.dtype, copy=False)
            if mass is not None:
                root = asarray_like(mass, Z) ** 0.5
                Z, U = root[:, None] * Z, root[:, None] * U
            return tuple(to_numpy(part) for part in (Z.T @ Z, Z.T @ U, U.T @ U))

        return misfit_of_sums(*rows.sum(sums))

    def absorb(self, rows: Rows) -> SoftConsensus:
        """The consensus with a further batch in its sums.

        The members and the objects compared stay.
        """
        if len(self.chosen.factor.kinds) > 1 or self.chosen.evidence not in SUMS:
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
        own = member_weights(kinds, self.request.weights)
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
            k, little = self.chosen.n_clusters, self.chosen.factor.regularization
            factor, Z = factorize(kinds, columns, k, little, weights=weights, mass=mass)
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
    if mixtures.members is not None:
        mixtures._fit_members(points, rng, mass)
        own = {"members": (MixtureColumns(mixtures),)}
        request = _of_fitted(request, mixtures)
        candidates = candidates_of(own, points, request)
        if request.n_clusters == "auto":
            return _searched(own, points, candidates, request)
        return _settle(rows, points, candidates, request, rng)
    axes = fit_axes(points, mixtures.n_axes, mass)
    seeds = rng.integers(2**63, size=mixtures.n_members)
    set_sizes(mixtures, request.n_clusters, points.shape[0])
    stock = Stock.of(points, axes, mass)
    first = mixtures._members(stock, seeds[:N_MEMBERS])
    if stock.gaps is None and gain(first, stock.Y.shape[1]) < 0:
        known = axes, stock, first
        axes, stock, first = informative(mixtures, points, known, seeds[:N_MEMBERS], mass)
    simple = Simple(stock, first, seeds[:N_MEMBERS], axes, points)
    if ensemble is None and request.n_clusters != "auto":
        found = simple(request.n_clusters, mass)
        if found is not None:
            return SoftConsensus(found, points, request, ((found.n_clusters, found.score),))
    mixtures._keep(first + mixtures._members(stock, seeds[N_MEMBERS:]), axes)
    request = _of_fitted(request, mixtures)
    kinds: dict[str, tuple[Any, ...]] = {"mixtures": (MixtureColumns(mixtures),)}
    candidates = candidates_of(kinds, points, request)
    unclear = request.n_clusters != 1 and max(each.score for each in candidates) < CLEAR
    cells = cells_of(points, axes, mass, rng, mixtures) if ensemble is None and unclear else None
    if cells is not None:
        more = {"cells": cells, "both": kinds["mixtures"] + cells}
        candidates += candidates_of(more, points, request)
        kinds |= more
    if request.n_clusters == "auto":
        return _searched(kinds, points, candidates, request)
    return _settle(rows, points, candidates, request, rng)


def _of_fitted(request: Request, mixtures: MixtureEnsemble) -> Request:
    """The request with the weights of those members only that could be fitted."""
    if request.weights is None:
        return request
    return request._replace(weights=request.weights[mixtures._fitted])


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
    candidates = candidates_of(kinds, points, request)
    if request.n_clusters == "auto":
        return _searched(kinds, points, candidates, request)
    return _settle(None, points, candidates, request, rng)


def _searched(
    kinds: dict[str, tuple[Any, ...]], points: Array, candidates: list[Candidate], request: Request
) -> SoftConsensus:
    """A search over numbers of clusters, which goes on while the best is the largest one tried."""
    most, cap = request.max_clusters, min(GROWTH * request.max_clusters, points.shape[0] - 1)
    while True:
        best = max(candidates, key=lambda each: (each.score, -each.reader.misfit))
        stands = best.n_clusters if best.n_clusters > 1 and best.score > DECISIVE else None
        scores = None
        if request.by_structure and stands is None:
            scores = _structure_scores(points, candidates)
        if scores is None:
            scores, order = [each.score for each in candidates], [best.n_clusters]
        else:
            order = supported_numbers([each.n_clusters for each in candidates], scores)
        if not order or order[0] < most or most >= cap:
            break
        most = min(2 * most, cap)
        candidates = candidates_of(kinds, points, request._replace(max_clusters=most))
    if order and order[0] == most == GROWTH * request.max_clusters:
        warn(
            f"the best number of clusters is the largest one tried, {most}: there may be more; "
            "raise max_clusters"
        )
    tried = tuple((each.n_clusters, s) for each, s in zip(candidates, scores, strict=True))
    return SoftConsensus(candidates[0], points, request, tried, None, tuple(order), stands)


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
    if rows is not None and best.evidence in SUMS:
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
    noise. Not for members that the user gave: their behaviour on noise is not known.
    """
    k, values = chosen.n_clusters, chosen.factor.values
    if k < 2 or chosen.score >= NOISE or n_objects < FEWEST or chosen.evidence == "members":
        return
    gaps = eigengap(values)[1:]
    if (
        chosen.evidence != "components"
        and k > 2
        and gaps.max() >= LARGE_GAP
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
