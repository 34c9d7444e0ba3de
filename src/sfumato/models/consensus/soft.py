"""The default for features: several kinds of evidence, one answer.

    mixtures    posteriors of small Gaussian mixtures          density and orientation
    cells       fine connected k-means partitions              gaps and thin curves
    families    mixtures of k, 1.5 k and 2 k Gaussians         ellipses; few objects, many features
    graph       communities of the neighbour graph             many features, in their own scale

For many objects with more features than mixtures use, the graph is the only evidence; otherwise it
only helps to find the number of clusters. Each kind a has a cluster kernel Z_a Z_a' of rank k and
memberships U_a. Two numbers choose between them:

    E_ab = |Z_b Z_b' - U_a U_a'|^2 / |Z_b Z_b'|^2        what a leaves of the kernel of kind b
    I_a  = (H(mean of u_i) - mean of H(u_i)) / log k     information of the memberships

with the entropy H. The answer is that of the kind with the smallest mean of E_ab over the other
kinds, divided by I_a: it is informative, and the others agree with it. Splitting off a few objects
gives little information, however crisp the split is, and so do vague memberships.

The factor Z of rank k follows from the columns H of soft partitions, scaled to mean degree one:

    c = mean_i h_i ,   d_i = h_i'c + t          degrees, with the regularization t
    A = D^(-1/2) (H H' + t 1 1') D^(-1/2) / n  =  E diag(l) E'
    z_i = B'h_i / sqrt(d_i), scaled to length one,   B = H' D^(-1/2) E diag(1/l) / n

so an object, fitted or new, needs only its own columns: posteriors of mixtures (dense), cells
(sparse) or given memberships. The pairwise model on Z Z' gives memberships of the sample; those of
every object are then read from its row of Z (see ``Reader``).

The number of clusters is that with the largest mean, over mixtures, cells and the graph (for more
than two features with similar ranges), of the relative eigengap times (1 - 5 E_aa) I_a. Families
are fitted for a given number and always support it, so they do not take part. If this mean is no
larger than for noise, the answer is one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import Array, Weights
from ...array.warn import warn
from ...data.features import empty_rows
from ...engine import loop
from ...engine.mixture import GROWTH
from ...engine.numbers import reading
from ...engine.objects import sample_objects
from ...memberships import align, entropy
from ...numerics import simplex
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors
from ...selection.criteria import eigengap, misfit, misfit_of_sums
from ..pairwise.estimator import Settings, run_of_factor
from .mixtures import TUNING

NULL = 1e-12  # smaller eigenvalues count as zero
ROWS = 2**17  # objects processed at a time on a GPU
KEPT = 2**27  # bytes of columns kept between the two passes of the sums


class Factor(NamedTuple):
    """Map from one kind of evidence to rows of Z: scale, mean and projection B of its columns."""

    kind: Any
    scale: Any  # of the columns: a number, or an array (K,)
    mean: np.ndarray
    projection: np.ndarray
    constant: np.ndarray  # added to every row by the regularization
    values: np.ndarray  # eigenvalues, one more than Z has columns

    def __call__(self, block: Any) -> Any:
        """Rows (b, k) of Z for a block of objects, in float64, on their device."""
        if is_numpy(block):
            return unit_rows(self.coordinates(self.kind(block)))
        here, n = to_numpy(block) if self.kind.on_host else block, block.shape[0]
        size = max(n, 1) if self.kind.on_host else ROWS  # the columns are the largest array
        cuts = [here[low : min(low + size, n), :] for low in range(0, n, size)]
        Z = unit_rows(namespace(here).concat([self.coordinates(self.kind(few)) for few in cuts]))
        return Z if here is block else asarray_like(Z, block, namespace(block).float64)

    def coordinates(self, columns: Any) -> Any:
        """Rows (b, k) of Z before scaling to length one, from the columns of objects."""
        H = _scaled(columns, self.scale)
        xp = namespace(H)
        degree = self.kind.regularization + H @ asarray_like(self.mean, H)
        total = H @ asarray_like(self.projection, H)
        # Objects without evidence from any member get the mean direction.
        root = xp.sqrt(xp.clip(degree, min=float(np.finfo(float).tiny)))
        return (total + asarray_like(self.constant, total)) / root[:, None]

    def columns(self, block: Any) -> np.ndarray:
        """Scaled columns (b, K), whose products are similarities."""
        H = _scaled(self.kind(block), self.scale)
        return H.toarray() if sp.issparse(H) else H


def _scaled(H: Any, scale: Any) -> Any:
    return H * float(scale) if np.ndim(scale) == 0 else H * asarray_like(scale, H)[None, :]


def _mean(H: Any, mass: Weights) -> np.ndarray:
    """Mean (K,) of the columns, with objects weighted by ``mass``."""
    if mass is None:
        return np.asarray(H.sum(axis=0)).ravel() / H.shape[0]
    return np.asarray(H.T @ mass).ravel() / mass.sum()


def factorize(
    kind: Any, columns: Any, k: int, weights: np.ndarray | None = None, mass: Weights = None
) -> Factor:
    """Factor with ``k`` columns, from the columns H (n, K) of a sample. ``weights`` (K,) belong to
    the columns, ``mass`` (n,) to the objects."""
    n, regularization = columns.shape[0], kind.regularization
    total = float(n if mass is None else mass.sum())
    scale = 1.0 if weights is None else np.sqrt(weights)
    mean = _mean(_scaled(columns, scale), mass)
    scale = scale / max(float(np.sqrt(mean @ mean)), np.finfo(float).tiny)  # mean degree one
    H = _scaled(columns, scale)
    mean = _mean(H, mass)
    root = np.sqrt(np.maximum(regularization + H @ mean, np.finfo(float).tiny))[:, None]
    if mass is not None:
        root = root / np.sqrt(mass)[:, None]

    def product(V: np.ndarray) -> np.ndarray:
        V = V.reshape(n, -1) / root
        everywhere = regularization * V.sum(axis=0, keepdims=True)
        return (everywhere + H @ (H.T @ V)) / (total * root)

    operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    found = leading_eigenvectors(operator, min(k, n))
    values = np.where(found.values > NULL, found.values, np.inf)
    spread = found.vectors / root / (total * values)
    following = found.following if np.isfinite(found.following) else 0.0
    spectrum = np.clip(np.append(found.values, following), 0.0, 1.0)
    constant = regularization * spread.sum(axis=0)
    return Factor(kind, scale, mean, np.asarray(H.T @ spread), constant, spectrum)


class Sums(NamedTuple):
    """Sums over objects that determine the factor: their number, their columns, and h h' / d."""

    n: float
    total: np.ndarray
    gram: np.ndarray


def refine(factor: Factor, rows: Rows, k: int, past: Sums | None = None) -> tuple[Factor, Sums]:
    """The factor from sums of dense columns over all rows instead of a sample, in two passes.
    ``past`` are the sums over earlier batches. Rows may have a column of weights."""
    kind, scale, t = factor.kind, factor.scale, factor.kind.regularization
    columns = rows.through(lambda block: _scaled(kind(block), scale))
    if 8 * rows.shape[0] * len(factor.mean) <= KEPT:
        columns = columns.kept()

    def first(H: np.ndarray, mass: Weights = None) -> tuple[np.ndarray, float]:
        return (H.sum(axis=0), len(H)) if mass is None else (mass @ H, float(mass.sum()))

    total, count = columns.sum(first)
    n = count + (0.0 if past is None else past.n)
    total = np.append(total, np.sqrt(t) * count)
    total = total if past is None else total + past.total
    mean = total / n

    def gram(H: np.ndarray, mass: Weights = None) -> tuple[np.ndarray]:
        H = np.hstack([H, np.full((len(H), 1), np.sqrt(t))])
        share = 1.0 / (H @ mean) if mass is None else mass / (H @ mean)
        H *= np.sqrt(share)[:, None]
        return (H.T @ H,)

    (G,) = columns.sum(gram)
    sums = Sums(n, total, G if past is None else G + past.gram)
    values, vectors = np.linalg.eigh(sums.gram / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    vectors = vectors * np.where(np.sum(vectors, axis=0) < 0, -1.0, 1.0)
    spectrum = np.clip(np.append(values, 0.0)[: k + 1], 0.0, 1.0)
    constant = np.sqrt(t) * vectors[-1, :k]
    refined = factor._replace(
        mean=mean[:-1], projection=vectors[:-1, :k], constant=constant, values=spectrum
    )
    return refined, sums


class Reader(NamedTuple):
    """How memberships follow from rows of the factor: the directions (k, k) of the clusters.

    Rows z of the factor have length one, so their products are cosines between memberships. Every
    object, fitted or new, is projected on k orthogonal directions:

        u = max(z R, 0) / sum max(z R, 0) ,     R = P Q'  from the singular vectors of  Z'U = P s Q'
    """

    directions: np.ndarray
    misfit: float
    information: float
    run: loop.Run

    def plain(self, Z: Any) -> Any:
        """Memberships (n, k): shares of the lengths along the directions."""
        U = Z @ asarray_like(self.directions, Z)
        return simplex.normalize(namespace(U).clip(U, min=0.0))

    def __call__(self, Z: Any) -> Any:
        """Memberships (n, k) from rows of the factor, softened by the doubt. With the misfit e and
        the information I of the memberships, the doubt t = e / (e + I) is spread over all clusters:
        (1 - t) u + t / k. Without this, memberships in strongly overlapping clusters are too
        confident; labels do not change."""
        U = self.plain(Z)
        doubt = self.misfit / max(self.misfit + self.information, np.finfo(float).tiny)
        return simplex.normalize((1.0 - doubt) * U + doubt / U.shape[1])

    def worth(self, gap: float) -> float:
        """Score of a number of clusters: relative eigengap, less the misfit, times information."""
        return float(gap) * max(0.0, 1.0 - TUNING.penalty * self.misfit) * self.information


def fit_reader(
    Z: np.ndarray, settings: Settings, start: np.ndarray | None = None, mass: Weights = None
) -> Reader:
    """The pairwise model on Z Z', from ``start`` (n, k), for objects of weight ``mass`` (n,)."""
    n, k = Z.shape
    # If objects are alone in their clusters, only their diagonal entries fix the scale.
    run = run_of_factor(Z, settings, n > k, start, mass)
    return reader_of(Z, simplex.normalize(run.state.U[:, 0]), mass, run._replace(state=None))


def reader_of(Z: np.ndarray, U: np.ndarray, mass: Weights, run: Any = None) -> Reader:
    """Directions of the clusters of memberships U (n, k), and the misfit that they leave."""
    P, _, Q = np.linalg.svd(Z.T @ (U if mass is None else mass[:, None] * U))
    reader = Reader(P @ Q, 0.0, 0.0, run)
    root, plain = 1.0 if mass is None else np.sqrt(mass)[:, None], reader.plain(Z)
    information = _information(plain, mass)
    return reader._replace(misfit=misfit(root * Z, root * plain), information=information)


def common_similarity(W: np.ndarray, mass: Weights) -> tuple[float, float]:
    """Mean degree of a similarity (n, n), and the share of it that is added to every pair."""
    v = np.ones(len(W)) if mass is None else mass
    degree = float(v @ W @ v) / float(v.sum())
    return degree, TUNING.soft_regularization * degree / float(v.sum())


class Candidate(NamedTuple):
    """One kind of evidence with its memberships in k clusters."""

    evidence: str
    factor: Factor
    reader: Reader

    def __call__(self, block: Any) -> Any:
        """Memberships (b, k) of a block of objects, on their device."""
        U = self.reader(self.factor(block))
        return U if is_numpy(block) else namespace(block).astype(U, block.dtype)


class SoftConsensus(NamedTuple):
    """A fitted consensus of soft evidence: the chosen candidate, the evidence and the settings."""

    chosen: Candidate
    points: Any
    mass: Weights
    weights: np.ndarray | None  # of the columns of the evidence
    settings: Settings
    sums: Sums | None = None

    def __call__(self, block: Any) -> np.ndarray:
        """Memberships (b, k) of a block; objects without any value get the mean."""
        U, empty = self.chosen(block), empty_rows(block)
        if empty is not None:
            U[empty] = np.average(self.chosen(self.points), axis=0, weights=self.mass)
        return U

    @property
    def score(self) -> float:
        """Score of the number of clusters by the chosen evidence; 0 for one cluster."""
        values = self.chosen.factor.values
        return self.chosen.reader.worth(eigengap(values)[-1]) if len(values) > 2 else 0.0

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
        """The consensus with a further batch in its sums, and the same members."""
        if self.chosen.factor.kind.on_host or self.chosen.evidence == "given":
            return self
        k = len(self.chosen.factor.constant)
        factor, sums = refine(self.chosen.factor, rows, k, self.sums)
        reader = fit_reader(factor(self.points), self.settings, self(self.points), self.mass)
        return self._replace(chosen=self.chosen._replace(factor=factor, reader=reader), sums=sums)

    def draws(self, rows: Rows, memberships: np.ndarray, n_draws: int) -> Iterator[np.ndarray]:
        """Memberships of the rows from resampled members, matched to the fit."""
        factor, settings = self.chosen.factor, self.settings._replace(n_init=1)
        kind, rng = factor.kind, np.random.default_rng(settings.random_state)
        columns, start, k = kind(self.points), self(self.points), len(factor.constant)
        own, m = 1.0 if self.weights is None else self.weights, len(kind.offsets) - 1
        for _ in range(n_draws):
            drawn = np.repeat(rng.multinomial(m, np.full(m, 1 / m)), np.diff(kind.offsets))
            again = factorize(kind, columns, k, own * drawn, self.mass)
            reader = fit_reader(unit_rows(again.coordinates(columns)), settings, start, self.mass)
            U = rows.map(lambda block, f=again, r=reader: r(f(block)))
            yield align(U, memberships)[:, : memberships.shape[1]]


def fit_soft(evidence: Any, k: int, settings: Settings, rng: np.random.Generator) -> SoftConsensus:
    """Memberships by the kind of evidence that the others agree with most, from all rows."""
    points, mass = evidence.points, evidence.mass
    kinds = evidence.kinds(k)
    step = max(1, -(-points.shape[0] // TUNING.compared))
    own = None if mass is None else mass[::step]
    made = {name: kind(points) for name, kind in kinds.items()}
    candidates = []
    for name, kind in kinds.items():
        factor = factorize(kind, made[name], k, evidence.member_weights(kind), mass)
        Z = unit_rows(factor.coordinates(made[name][::step]))
        candidates.append((Candidate(name, factor, fit_reader(Z, settings, None, own)), Z))
    best = _most_agreeing(candidates, own)
    weights = evidence.member_weights(best.factor.kind)
    sums = None
    if evidence.rows is not None and not best.factor.kind.on_host:
        factor, sums = refine(best.factor, _several(evidence.rows, rng), k)
        best = best._replace(factor=factor)
    if step > 1 or sums is not None:
        best = best._replace(reader=fit_reader(best.factor(points), settings, None, mass))
    return SoftConsensus(best, points, mass, weights, settings, sums)


def _most_agreeing(candidates: list[tuple[Candidate, np.ndarray]], mass: Weights) -> Candidate:
    """The candidate whose mean misfit to the other kinds, divided by its information, is least."""
    if len(candidates) == 1:
        return candidates[0][0]
    root = 1.0 if mass is None else np.sqrt(mass)[:, None]
    costs = []
    for i, (each, own) in enumerate(candidates):
        U = each.reader(own)
        others = [misfit(root * Z, root * U) for j, (_, Z) in enumerate(candidates) if j != i]
        costs.append(float(np.mean(others)) / max(_information(U, mass), 1e-9))
    return candidates[int(np.argmin(costs))][0]


def _information(U: np.ndarray, mass: Weights) -> float:
    """Mutual information of objects and clusters, as a share of the largest possible value."""
    mean = np.average(U, axis=0, weights=mass)
    within = np.average(entropy(U), weights=mass)
    return float(entropy(mean[None])[0] - within) / float(np.log(max(U.shape[1], 2)))


def _several(rows: Rows, rng: np.random.Generator) -> Rows:
    """The rows, or a sample if there are very many."""
    if rows.shape[0] <= TUNING.summed:
        return rows
    if not rows.columns:
        return Rows(sample_objects(rows.X, TUNING.summed, rng))
    return Rows(rows.sample(TUNING.summed, rng).X)


def numbers(evidence: Any, asked: Any, max_clusters: int) -> dict[int, np.ndarray]:
    """Scores by number of clusters and kind of evidence: eigengap, misfit and information.
    ``asked`` are the numbers, or "auto" for 2, ..., ``max_clusters`` and for larger numbers (up to
    four times as many) whose eigengap alone exceeds the best mean over the kinds."""
    step = max(1, -(-evidence.points.shape[0] // TUNING.compared))
    few = evidence.points[::step]
    mass = np.ones(few.shape[0]) if evidence.mass is None else evidence.mass[::step]
    cap = GROWTH * max_clusters if isinstance(asked, str) else max(asked)
    largest = min(cap, few.shape[0] - 1)
    if largest < 2:
        return {}
    weights = None if evidence.mass is None else mass
    made = [(kind, kind(few)) for kind in evidence.kinds(None).values()]
    scores: dict[int, np.ndarray] = {}
    best = 0.0
    numbers = range(2, largest + 1) if isinstance(asked, str) else sorted(set(asked))
    for limit in sorted({largest, min(max_clusters, largest) if asked == "auto" else largest}):
        factors = [factorize(a, H, limit, evidence.member_weights(a), weights) for a, H in made]
        spectra = [
            (eigengap(factor.values), factor.coordinates(H))
            for factor, (_, H) in zip(factors, made, strict=True)
        ]
        gaps = np.mean([gap for gap, _ in spectra], axis=0)
        for k in numbers[len(scores) :]:
            if k > limit or (k > max_clusters and gaps[k - 1] <= best):
                continue
            each = ((gap[k - 1], unit_rows(E[:, :k])) for gap, E in spectra)
            own = [reader_of(Z, reading(Z, mass), mass).worth(gap) for gap, Z in each]
            scores[k] = np.array(own)
            best = max(best, float(scores[k].mean()))
        # No later gap is larger than the next eigenvalue.
        following = float(np.mean([factor.values[-1] for factor in factors]))
        if following <= best:
            break
    auto = isinstance(asked, str)
    if auto and scores and max(scores, key=lambda k: scores[k].mean()) == cap > largest - 1:
        warn(
            f"the best number of clusters is the largest one tried, {cap}: there may be more; "
            "raise max_clusters"
        )
    return scores


def noise_score(n_objects: int) -> float:
    """Score that noise with so many objects rarely exceeds; at most 0.5, for a few objects."""
    return min(TUNING.noise / float(np.sqrt(min(n_objects, TUNING.compared))), 0.5)
