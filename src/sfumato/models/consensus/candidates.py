"""Candidates of soft evidence: each kind with a number of clusters, and how it scores.

    mixtures    posteriors of small Gaussian mixtures: density and orientation cells       fine
    connected k-means partitions: gaps and thin curves both        the columns of both, each kind
    scaled to the same mean degree components  posteriors of mixtures with one Gaussian for each
    cluster; used alone where held-out objects are as likely under these as under the small mixtures

The misfit  e_k = |Z Z' - U U'|^2 / |Z Z'|^2  compares the cluster kernel with what memberships can
express. The score is the relative eigengap times (1 - 7 e_k). The constants below were chosen on
the half of the quality table that says so (``benchmarks/quality_sets.py``).

Components: mixtures of exactly k components are fitted beside some of the fine mixtures, to the
same objects. Where held-out objects are as likely under them as under the fine mixtures, the data
show no further structure, and the memberships are the posteriors of these mixtures, matched and
averaged:

    u_i = (1/m) sum_b P_b' t_b(i)               P_b a permutation of the k components of member b

The covariances of a mixture share ``s`` objects (``em``): where clusters overlap, separate
covariances overfit. The largest ``s`` is taken that is within one standard error of the best
(Breiman, Friedman, Olshen and Stone 1984). Where fine mixtures have more parameters than there are
objects, this comparison says little. The mixtures of k components must then also have a higher
held-out density than a single Gaussian, which has -d (1 + log 2 pi) / 2 in whitened coordinates,
and must agree with each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...core import loop
from ...core.arrays import asarray_like, is_numpy, namespace
from ...core.rows import in_threads
from ...core.types import Array, Weights
from ...numerics import distances, seeding
from ...numerics.axes import Axes, by_radius
from ...selection.criteria import eigengap, misfit
from .em import Fitted, Seen, climb, expect, join, n_axes, starting_sums
from .ensemble import ClusteringEnsemble
from .evidence import CellColumns, Factor, MixtureColumns, columns_factor, factorize, in_parts
from .mixtures import MOST, Judged, MixtureEnsemble, Stock
from .reading import Reader, Settings, fit_reader

__all__ = [
    "COMPARED",
    "N_MEMBERS",
    "Average",
    "Candidate",
    "Request",
    "Simple",
    "candidates_of",
    "cells_of",
    "fit_components",
    "matching",
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

# Of the components.
N_MEMBERS = 8  # mixtures of k components, beside as many fine ones
# Objects that the covariances share, s above. Chosen on iris, digits, crossing streaks and on three
# Gaussians 2.5 and 3.5 apart (seeds 100 to 107).
SHRINKAGES = (1e6, 50.0, 10.0)
FREE = 10  # objects per parameter of a covariance above which s = 0 is tried too
# A component counts as a cluster if its posterior at its own center is at least this: two that
# cross in one point have a half each
OWN_CENTER = 0.3
# Share of the labels by mixtures of k components that must agree where fine ones have more
# parameters than there are objects. Digits reach .88; clusters six standard deviations apart exceed
# .99.
AGREEMENT = 0.95
MAX_STEPS = 100
TOLERANCE = 1e-5


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


def fit_components(stock: Stock, n: int, fine: list[Any], seeds: np.ndarray, k: int) -> list[Any]:
    """Mixtures of ``k`` components, or none where fine mixtures fit held-out objects better.

    ``fine`` are fitted mixtures, or failures, by the same ``seeds``.
    """
    good = [(each, int(seed)) for each, seed in zip(fine, seeds, strict=True) if _judged(each)]
    if not good:
        return []
    level = _level([each for each, _ in good])
    d = stock.Y.shape[1]
    vague = bool(np.mean([each.rows.size for each, _ in good]) > n)
    if vague and level < -0.5 * d * (1.0 + np.log(2.0 * np.pi)):
        return []
    free = (0.0,) if n >= FREE * k * d * (d + 3) / 2 else ()
    families = [_family(stock, n, k, s, good, vague) for s in SHRINKAGES + free]
    best = max((each for each in families if each), key=_level, default=[])
    if not best or _level(best) < level:
        return []
    return next(each for each in families if each and _no_worse(each, best))


def _level(members: list[Judged]) -> float:
    return float(np.mean([each.held_out for each in members]))


def _no_worse(members: list[Judged], best: list[Judged]) -> bool:
    """Whether the loss against the best is within one standard error of its mean."""
    loss = np.array([b.held_out - m.held_out for m, b in zip(members, best, strict=True)])
    return bool(loss.mean() <= loss.std() / np.sqrt(len(loss)))


def _family(
    stock: Stock, n: int, k: int, shrinkage: float, fine: list[tuple[Judged, int]], vague: bool
) -> list[Judged]:
    """Mixtures of ``k`` components with one shrinkage, or none where one of them failed.

    ``vague`` asks that they agree, each from its own starts.
    """
    tasks = [(stock, n, k, shrinkage, seed, each.fitted.sums) for each, seed in fine]
    found = [each for each in in_threads(_attempt, tasks, None) if each is not None]
    if len(found) < len(tasks) or (vague and _agreement(stock, found, k) < AGREEMENT):
        return []
    best = max(found, key=lambda each: stock.log_density(each.rows)).rows
    again = [(*task, best, each) for task, each in zip(tasks, found, strict=True)]
    return list(in_threads(_attempt, again, None))


def _agreement(stock: Stock, members: list[Judged], k: int) -> float:
    """Mean share of the members, matched to the first, that give an object its usual label."""
    H = join([each.rows for each in members], stock.Y.shape[1]).posteriors(stock.Y, stock.gaps).T
    hard = np.zeros_like(H)
    for first in range(0, H.shape[1], k):
        labels = first + H[:, first : first + k].argmax(axis=1)
        hard[np.arange(len(H)), labels] = 1.0
    usual = (hard @ matching(hard, k, 0)).max(axis=1)
    return float(np.average(usual, weights=stock.mass))


def _judged(each: Any) -> bool:
    return isinstance(each, Judged) and bool(np.isfinite(each.held_out))


def _attempt(
    stock: Stock,
    n: int,
    k: int,
    shrinkage: float,
    seed: int,
    fine: np.ndarray,
    best: np.ndarray | None = None,
    before: Judged | None = None,
) -> Judged | None:
    """The likeliest mixture of several starts, or None.

    First from k-means and from the fine mixture merged to k components; then from the ``best`` of
    all members, where that is likelier than ``before``.
    """
    rng = np.random.default_rng(seed)
    own, others = stock.split(n, rng)
    seen = Seen.of(own.Y, own.mass, own.gaps)
    if best is None:
        starts = [starting_sums(seen, own.R, k, rng, 10), _merged(fine, k, own.Y.shape[1])]
    else:
        starts = [expect(seen, best)[0]]
    runs = [] if before is None else [before.fitted]
    for start in starts:
        try:
            run = climb(seen, start, shrinkage=shrinkage, max_steps=MAX_STEPS, tol=TOLERANCE)
        except (ArithmeticError, np.linalg.LinAlgError):
            continue
        if len(start) == k and _own_centers(run):
            runs.append(run)
    if not runs:
        return None
    likeliest = max(runs, key=lambda each: each.value)
    return Judged(likeliest, others.log_density(likeliest.rows))


def _own_centers(run: Fitted) -> bool:
    """Whether each component has a posterior of at least a threshold at its own center.

    A wide component around another one is the tail of that cluster, not a cluster.
    """
    d = n_axes(run.rows.shape[1])
    centers = run.sums[:, 1 : d + 1] / np.maximum(run.sums[:, :1], 1e-10)
    Z = distances.features(np.ascontiguousarray(centers.T), "full")
    return bool(np.diag(distances.softmax_columns(run.rows @ Z)[0]).min() >= OWN_CENTER)


def _merged(sums: np.ndarray, k: int, d: int) -> np.ndarray:
    """Sums (k, q) of the components of a fine mixture, merged as agglomeration would."""
    sums = sums[sums[:, 0] > 1e-8]
    if len(sums) <= k:
        return sums
    mass, first, second = distances.moments(sums, d, "full")
    mean = first / mass[:, None]
    scatter = second - mass[:, None, None] * mean[:, :, None] * mean[:, None, :]
    prior = 0.1 * (d + 1) * np.eye(d)

    def cost(N: np.ndarray, W: np.ndarray) -> np.ndarray:
        return N * np.linalg.slogdet((W + prior) / (N + d + 1)[..., None, None])[1]

    group = seeding.merge(mass.copy(), mean, scatter, cost, {k})[k]
    return (group == np.arange(k)[:, None]) @ sums


def matching(H: np.ndarray, k: int, first: int) -> np.ndarray:
    """Matrix (m k, k) that averages posteriors (n, m k) of m mixtures, matched to one of them."""
    reference = H[:, first * k : (first + 1) * k]
    m = H.shape[1] // k
    bridge = np.zeros((m * k, k))
    for member in range(m):
        columns = slice(member * k, (member + 1) * k)
        rows, matched = linear_sum_assignment(-(H[:, columns].T @ reference))
        bridge[member * k + rows, matched] = 1.0 / m
    return bridge


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
