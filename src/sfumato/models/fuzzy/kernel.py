"""Fuzzy c-means (Dunn 1973, Bezdek 1981).

    minimise  J = sum_ij w_i u_ij^m d_ij,   d_ij = |x_i - c_j|^2,   rows of U on the simplex, m >= 1
    u_ij ~ d_ij^(-1/(m - 1)),     c_j = sum_i w_i u_ij^m x_i / sum_i w_i u_ij^m

With the best U, an object costs k^(1 - m) times the power mean of order -1/(m - 1) of its
distances. The code works with that mean, which neither overflows for m near 1 nor vanishes for
large m. For m = 1 it is the smallest distance: every object belongs to its nearest center, as in
k-means. Variants: Gustafson and Kessel (1979), d_ij = (x - c_j)' A_j (x - c_j) with det A_j = 1;
entropy (Li and Mukaidono 1995), sum w u d + t sum w u log u, so u = softmax(-d / t); noise (Dave
1991), one more cluster at the same distance from every object. With missing values (NaN), distances
use the p' other values and are multiplied by p / p' (Hathaway and Bezdek 2001), which is linear in

    z(x) = (|x|^2, x, which are there) p / p'                  kind "partial"

Links between units add to J

    sum over pairs apart of  q sum_j u_ij^m u_lj^m
    sum over pairs together of  q sum_{j != h} u_ij^m u_lh^m

Must-linked rows share one row of memberships, whose distances are their mean. For other links, a
pair adds q u_lj^m (or, together, q times the sum of u_lh^m, h != j) to the distance of i from
center j, so updating rows in turn never raises J. With the entropy rule, u replaces u^m.

The fuzzifier m may be chosen: the smallest one that does not cut a cluster in two. Let two centers
coincide at v, with weights a_i = w_i u_i^m. A step multiplies a small distance between them by at
most 2 m l / (m - 1), where l is the largest eigenvalue of

    F = sum_i a_i (x_i - v)(x_i - v)' / |x_i - v|^2 / sum_i a_i

so they stay together if and only if m >= 1 / (1 - 2 l) (Yu, Cheng and Huang 2004, for a center that
all clusters share). Computed within the clusters of k-means on a sample, F shows how round they
are: l = 1 / d for round clusters in d features. At the smallest such m no cluster is cut, however
many centers it gets, while distinct clusters are separated. Memberships are then close to posterior
probabilities of normal clusters, for which m = 1 + 2 / d: u_ij ~ |x_i - c_j|^-d is the density of a
normal cluster of unknown scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from ...array.arrays import inplace, namespace, native, to_numpy
from ...array.types import Array
from ...data.constraints import matching
from ...engine import loop
from ...engine.linked import LEAST, Linked
from ...numerics import distances, seeding
from ...numerics.eigen import leading_eigenvectors


class Tuning(NamedTuple):
    """Constants for the choice of a fuzzifier, and for the warning about coinciding centers."""

    classical: float = 2.0  # the usual value, and the largest one that is chosen
    sample: int = 2000  # number of objects to look at, as in the structure test
    most_clusters: int = 100  # largest number of clusters for k-means
    n_starts: int = 3  # a start that joins two clusters gives too large a value
    n_steps: int = 10
    screened: int = 5  # steps with links after which only the best start continues
    # Relative difference of the memberships from two centers below which they count as one. For one
    # normal cluster in 5 to 50 features, all differences are below 0.05.
    alike: float = 0.1


TUNING = Tuning()


def fuzzifier_of(largest: float) -> float:
    """The fuzzifier for the largest eigenvalue of F."""
    if largest >= 0.5:
        return TUNING.classical
    return min(TUNING.classical, 1.0 / (1.0 - 2.0 * largest))


def least(width: int) -> float:
    """Smallest fuzzifier that ``choose`` may return for rows of length ``width``."""
    return fuzzifier_of(1.0 / max(width, 1))  # the largest eigenvalue is at least the mean


def choose(
    X: np.ndarray,
    weights: np.ndarray,
    k: int,
    *,
    ellipsoids: bool = False,
    cap: float = np.inf,
) -> float:
    """The fuzzifier for ``k`` clusters of sorted objects ``X`` (n, d) with their mean at zero.
    Values may be missing; k-means clips squared distances at ``cap``."""
    there = ~np.isnan(X)
    whole = np.where(there, X, 0.0)
    R, w = _residuals(whole, weights, min(k, TUNING.most_clusters), cap) * there, weights
    if ellipsoids:
        R = seeding.whiten(R, w)
    squares = np.einsum("ij,ij->i", R, R)
    # The direction between an object and an equal center is only rounding error.
    away = (w > 0) & (squares > 1e-20 * squares.max(initial=0.0))
    if not away.any():
        return TUNING.classical
    share = w[away] / w[away].sum()
    return fuzzifier_of(_largest(R[away] * np.sqrt(share / squares[away])[:, None]))


def _residuals(X: np.ndarray, weights: np.ndarray, k: int, cap: float) -> np.ndarray:
    """Differences (n, d) between objects and their centers in the best of several k-means runs."""
    rng, found = np.random.default_rng(0), []
    for _ in range(TUNING.n_starts if k > 1 else 1):
        centers = seeding.kmeans_plus_plus(X, weights, k, rng, cap=cap)
        labels = seeding.lloyd(X, weights, centers, TUNING.n_steps)
        share = (labels == np.arange(k)[:, None]) * weights
        mass = share.sum(axis=1)[:, None]
        R = X - ((share @ X) / np.where(mass > 0, mass, 1.0))[labels]
        found.append((float(weights @ np.einsum("ij,ij->i", R, R)), R))
    return min(found, key=lambda each: each[0])[1]


def _largest(Y: np.ndarray) -> float:
    F = Y.T @ Y if Y.shape[0] >= Y.shape[1] else Y @ Y.T
    if len(F) <= 64:  # LAPACK is fast enough here
        return float(np.linalg.eigvalsh(F)[-1])
    return float(leading_eigenvectors(F, 1, tol=1e-6).values[0])


class State(NamedTuple):
    """Centers (k, d), for ellipsoids also matrices (k, d, d) of determinant one, and the last
    memberships of linked units, where the next update starts."""

    centers: np.ndarray
    metrics: np.ndarray | None = None
    linked: np.ndarray | None = None

    @property
    def kind(self) -> str:
        """Kind of features if none is missing."""
        return "spherical" if self.metrics is None else "full"


class Stats(NamedTuple):
    """Weighted sums of z(x) (k, q), and the objective of the state at which they were computed."""

    sums: np.ndarray
    objective: float


class Rule(NamedTuple):
    """Fuzzifier, temperature (replaces it if given), and squared distance of the noise cluster."""

    fuzzifier: float
    temperature: float | None = None
    noise: float | None = None

    @property
    def hard(self) -> bool:
        """Whether every object belongs only to its nearest center."""
        return self.temperature is None and self.fuzzifier == 1.0

    @property
    def powers(self) -> bool:
        """Whether memberships are powers of distances."""
        return self.temperature is None and not self.hard

    def factor(self, columns: int) -> float:
        """Ratio of the objective to the power means of distances, for this many clusters."""
        return 1.0 if self.temperature is not None else columns ** (1.0 - self.fuzzifier)


class Distances(NamedTuple):
    """Quantities of a state needed in a pass: coefficients (k, q) of the distances, noise last."""

    rows: np.ndarray
    centers: np.ndarray
    kind: str
    rule: Rule
    extent: float  # largest squared norm of a center

    def rounding(self, double: bool) -> float:
        """Bound on the rounding error of a squared distance near zero."""
        eps = float(np.finfo(np.float64 if double else np.float32).eps)
        return 4.0 * eps * self.rows.shape[1] * self.extent

    def fine(self, double: bool) -> bool:
        """Whether this precision distinguishes the nearest centers."""
        return double or self.rounding(False) < 1e-3 * least_gap(self.centers)


def features(X: Any, kind: str) -> Any:
    """z(x) (q, b) of every column of ``X`` (d, b); kind "partial" allows missing values."""
    if kind != "partial":
        return distances.features(X, kind)
    there = ~np.isnan(X)
    whole, share = np.where(there, X, 0.0), len(X) / np.maximum(there.sum(axis=0), 1)
    return np.concatenate([np.sum(whole * whole, axis=0)[None], whole, there]) * share


def ready(state: State, rule: Rule, kind: str = "") -> Distances:
    """Quantities of a state needed in a pass over features of this kind."""
    centers, metrics, _ = state
    k, kind = len(centers), kind or state.kind
    if kind == "partial":
        rows = np.hstack([np.ones((k, 1)), -2.0 * centers, centers * centers])
    else:
        rows = distances.coefficients(centers, np.ones(k) if metrics is None else metrics, kind)
    if rule.noise is not None:
        rows = np.vstack([rows, np.zeros((1, rows.shape[1]))])
        if kind == "partial":  # the shares of the features there sum to their number
            rows[k, -centers.shape[1] :] = rule.noise / centers.shape[1]
        else:
            rows[k, 0] = rule.noise
    stretch = 1.0 if metrics is None else max(1.0, float(np.abs(metrics).max()))
    extent = stretch * (1.0 + float(np.sum(centers**2, axis=1).max()))
    return Distances(rows, centers, kind, rule, extent)


def least_gap(centers: np.ndarray) -> float:
    """Smallest squared distance between two centers; infinite for one center."""
    return float(pdist(centers, "sqeuclidean").min(initial=np.inf))


def squared_distances(Z: Any, ready: Distances) -> Any:
    """Squared distances (k, b) of z(x), plus a bound on their rounding error; never zero."""
    xp = namespace(Z)
    rows, floor = ready.rows.copy(), ready.rounding(Z.dtype == xp.float64)
    rows[:, 0] += floor
    D = xp.asarray(rows, dtype=Z.dtype, device=getattr(Z, "device", None)) @ Z
    return D if ready.kind == "spherical" else xp.clip(D, min=floor)


def precise(Z: Array, ready: Distances) -> Any:
    """``Z``, recomputed in float64 if float32 cannot distinguish the nearest centers."""
    xp = namespace(Z)
    if ready.fine(Z.dtype == xp.float64):
        return Z
    X = Z[1 : ready.centers.shape[1] + 1, :]
    X = X.astype(np.float64) if sp.issparse(X) else xp.astype(X, xp.float64)
    return distances.features(X, ready.kind)


def share(D: Array, rule: Rule) -> tuple[Any, Any]:
    """Best memberships (k, b) and the cost (b,) of each object; may overwrite ``D``."""
    xp = namespace(D)
    k = D.shape[0]
    if rule.temperature is not None:
        U, level = distances.softmax_columns(D * (-1.0 / rule.temperature))
        return U, level * -rule.temperature
    least = xp.min(D, axis=0)
    if rule.hard:
        nearest = xp.argmin(D, axis=0)
        index = xp.arange(k, device=getattr(nearest, "device", None))
        return xp.astype(index[:, None] == nearest[None, :], D.dtype), least
    power = 1.0 / (rule.fuzzifier - 1.0)
    # Ratios of at most one, so that no power overflows.
    ratios = xp.clip(least / D, min=float(xp.finfo(D.dtype).smallest_normal))
    U = ratios if power == 1.0 else inplace("exp", power * xp.log(ratios))
    total = xp.sum(U, axis=0)
    U /= total
    return U, least * (k / total) ** (1.0 / power)


def pull(D: np.ndarray, weights: Array, rule: Rule) -> tuple[Any, Any]:
    """Weights w u^m (k, b) of the objects in the means, and their costs (b,); overwrites ``D``."""
    A, cost = share(D, rule)
    if rule.temperature is None:
        # For m = 2 without the number of clusters, as in the native kernel.
        A *= cost / A.shape[0] if rule.fuzzifier == 2.0 else cost
        A /= D
    if weights is not None:
        A *= weights
    return A, cost if weights is None else cost * weights


def summarize(Z: Any, weights: Any, ready: Distances) -> Stats:
    """Statistics of a block ``Z`` = z(x) (q, b)."""
    xp, Z = namespace(Z), precise(Z, ready)
    if weights is not None:
        weights = xp.asarray(weights, dtype=Z.dtype, device=getattr(Z, "device", None))
    if ready.kind == "spherical" and ready.rule.powers:  # a kernel that reads objects only once
        floor, d = ready.rounding(Z.dtype == xp.float64), ready.centers.shape[1]
        fuzzifier = ready.rule.fuzzifier
        fused = distances.fused_sums(Z, weights, ready.rows, d, fuzzifier=fuzzifier, floor=floor)
        if fused is not None:
            return Stats(fused[0][: len(ready.centers)], fused[1])
    A, cost = pull(squared_distances(Z, ready), weights, ready.rule)
    sums = A[: len(ready.centers), :] @ Z.T
    return Stats(to_numpy(sums).astype(np.float64), float(xp.sum(cost, dtype=xp.float64)))


def whole_run(
    Z: np.ndarray, weights: np.ndarray | None, state: State, rule: Rule, max_iter: int, tol: float
) -> Callable[[], loop.Run] | None:
    """A run in one native call, if there are few enough objects; else None."""
    q, n = Z.shape
    few = (
        n * q * len(state.centers) <= 2**19 and Z.dtype == np.float64
    )  # steps of less than a millisecond
    if not few or not rule.powers:
        return None
    noise = np.nan if rule.noise is None else rule.noise
    rounding = 4.0 * float(np.finfo(np.float64).eps) * q

    def compute() -> loop.Run:
        centers, history, done = native("fuzzy").fuzzy_run(
            Z, weights, state.centers, rule.fuzzifier, noise, rounding, max_iter, tol
        )
        return loop.Run(State(centers), history[-1], history, len(history), done)

    return compute


def memberships(Z: Any, ready: Distances) -> Any:
    """Memberships (b, k) of the columns of ``Z``, noise cluster last, in the dtype of ``Z``."""
    xp = namespace(Z)
    U, _ = share(squared_distances(precise(Z, ready), ready), ready.rule)
    return xp.astype(U.T, Z.dtype)


def update(stats: Stats, state: State, kind: str = "") -> State:
    """Best centers (and metrics); clusters without mass do not move."""
    d = state.centers.shape[1]
    form = "diag" if kind == "partial" else state.kind
    mass, first, second = distances.moments(stats.sums, d, form)
    # A separate mass for every feature if values are missing.
    mass = second if kind == "partial" else mass[:, None]
    alive = mass > 0
    mass = np.where(alive, mass, 1.0)
    centers = np.where(alive, first / mass, state.centers)
    if state.metrics is None:
        return State(centers)
    alive, mass = alive[:, 0], mass[:, 0]
    scatter = second / mass[:, None, None] - centers[:, :, None] * centers[:, None, :]
    rounding = 64.0 * float(np.finfo(float).eps) * (1.0 + np.sum(centers**2, axis=1, keepdims=True))
    metrics = np.where(alive[:, None, None], _metrics(scatter, rounding), state.metrics)
    return State(centers, metrics)


def _metrics(scatter: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """det(S)^(1/d) S^-1, with eigenvalues of at least ``rounding`` (k, 1)."""
    values, vectors = np.linalg.eigh(scatter)
    values = np.maximum(values, np.maximum(1e-9 * values[:, -1:], rounding))
    scaled = np.exp(np.mean(np.log(values), axis=1, keepdims=True) - np.log(values))
    return (vectors * scaled[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def pack(state: State) -> np.ndarray:
    """The state as one vector of unconstrained numbers."""
    if state.metrics is None:
        return state.centers.ravel()
    metrics = distances.cholesky_coordinates(state.metrics)
    return np.concatenate([state.centers.ravel(), metrics.ravel()])


def unpack(vector: np.ndarray, like: State) -> State:
    """The state that ``pack`` turned into a vector."""
    k, d = like.centers.shape
    centers = vector[: k * d].reshape(k, d)
    if like.metrics is None:
        return State(centers, None, like.linked)
    metrics = distances.from_cholesky_coordinates(vector[k * d :].reshape(k, -1), d)
    sign, logarithm = np.linalg.slogdet(metrics)
    if (sign <= 0).any() or not np.isfinite(logarithm).all():
        return like  # the step gave matrices that are numerically singular
    return State(centers, metrics / np.exp(logarithm / d)[:, None, None])


class Turn(NamedTuple):
    """Units (t,) that do not pull each other: units (m,) that these are linked to, their pulls
    (m, 1) and the first one (t,) of every unit."""

    units: np.ndarray
    others: np.ndarray
    pull: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, units: np.ndarray, pull: Any) -> Turn:
        """Some units of a sparse matrix (u, u) of pulls, none of them without any."""
        rows = pull[units]
        return cls(units, rows.indices, rows.data[:, None], rows.indptr[:-1])

    def extra(self, P: np.ndarray) -> np.ndarray:
        """What links add to the distances (t, k); ``P`` (u, k) are u^m of all units."""
        near = P[self.others]
        added = -self.pull * near
        if self.pull.max() > 0.0:
            added += np.maximum(self.pull, 0.0) * near.sum(axis=1, keepdims=True)
        return np.add.reduceat(added, self.first)


class LinkedUnits(NamedTuple):
    """Units of linked rows: mean features z(x) (q, u), weights (u,), those ``alone`` (no pulls),
    all others, and the turns that these take so that no step raises J."""

    links: Linked
    Z: np.ndarray
    mass: np.ndarray
    alone: np.ndarray
    joined: Turn
    turns: list[Turn]

    @classmethod
    def of(cls, links: Linked, Z: np.ndarray, w: np.ndarray, unit: float) -> LinkedUnits:
        """Units of linked rows ``Z`` = z(x) (m, q) with weights ``w`` (m,). ``unit`` is the squared
        distance that a link of weight one is worth."""
        mass = np.maximum(np.bincount(links.unit, w), np.finfo(float).tiny)
        mean = links.of_units(w[:, None] * Z) / mass[:, None]
        pull, ends, turn = links.pull.copy(), links.pull.indptr, np.full(mass.size, -1)
        with np.errstate(over="ignore"):  # a row without weight obeys its links alone
            each = pull.data * unit / np.repeat(mass, np.diff(ends))
        pull.data = np.clip(each, -1e150, 1e150)
        alone, joined = (np.flatnonzero((np.diff(ends) > 0) == pulled) for pulled in (False, True))
        for a in joined:
            taken = set(turn[pull.indices[ends[a] : ends[a + 1]]].tolist())
            turn[a] = next(t for t in range(len(taken) + 1) if t not in taken)
        units = [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]
        every, *turns = (Turn.of(at, pull) for at in (joined, *units))
        return cls(links, np.ascontiguousarray(mean.T), mass, alone, every, turns)

    @property
    def labelled(self) -> bool:
        """Whether labels determine the order of the clusters."""
        return bool((self.links.labels >= 0).any())

    def numbered(self, state: State, ready: Distances) -> State:
        """The centers in the order that best matches the labelled units."""
        if not self.labelled:
            return state
        U = memberships(self.Z, ready)[:, : len(state.centers)]
        return State(state.centers[matching(U, self.links.labels)])

    def summarize(self, state: State, ready: Distances) -> tuple[np.ndarray, Stats]:
        """Memberships (u, k), noise last, continued from those of the state, and their sums."""
        rule, k = ready.rule, len(state.centers)
        # Must-linked rows have one row of memberships, for their mean distance.
        D = squared_distances(self.Z, ready).T
        U, value = self._memberships(D, rule, state.linked)
        # The kernel uses power means of distances and, unless m = 2, u^m scaled by the same factor.
        factor = rule.factor(D.shape[1])
        A = self.mass[:, None] * power(U[:, :k], rule)
        A /= 1.0 if rule.fuzzifier == 2.0 else factor
        return U, Stats(A.T @ self.Z.T, value / factor)

    def _memberships(
        self, D: np.ndarray, rule: Rule, start: np.ndarray | None
    ) -> tuple[np.ndarray, float]:
        """Memberships of units at distances ``D`` (u, k), and their cost. Units of pairs are
        updated in turn, from ``start`` or from a greedy labelling."""
        U = np.zeros(D.shape) if start is None else start.copy()
        U[self.alone] = _share(D[self.alone], rule)[0]
        if self.labelled:
            held = self.links.labels >= 0
            U[held] = np.eye(U.shape[1])[self.links.labels[held]]
        if start is None:
            _label(U, D, self.joined)
        for turn in self.turns:
            U[turn.units] = _share(D[turn.units] + turn.extra(power(U, rule)), rule)[0]
        P, joined = power(U, rule), self.joined.units
        each = np.sum(P * D, axis=1)
        if joined.size:  # every pair is counted at both ends
            each[joined] += 0.5 * np.sum(self.joined.extra(P) * P[joined], axis=1)
        if rule.temperature is not None:
            each += rule.temperature * np.sum(U * np.log(np.maximum(U, LEAST)), axis=1)
        return U, float(self.mass @ each)


def power(U: np.ndarray, rule: Rule) -> np.ndarray:
    """u^m, or u under the entropy rule."""
    return U if rule.temperature is not None else U**rule.fuzzifier


def _share(D: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Best memberships for distances (n, k), and the cost of each object."""
    # A floor for each row, since links may dominate; its reciprocal must be finite.
    floor = np.maximum(1e-15 * D.max(axis=1, keepdims=True, initial=0.0), 1e-290)
    U, costs = share(np.ascontiguousarray((D + floor).T), rule)
    return U.T, costs * rule.factor(D.shape[1])


def _label(U: np.ndarray, D: np.ndarray, joined: Turn) -> None:
    """Assign each of the ``joined`` units to one center, in place. Those with a clearly nearest
    center come first, since linked units follow them."""
    units, others, pull, first = joined
    second = min(1, D.shape[1] - 1)
    two = np.partition(D[units], second, axis=1)
    ends = np.append(first, len(others))
    for a in np.argsort(two[:, 0] - two[:, second], kind="stable"):
        # Costs of pairs that do not depend on the chosen center are left out.
        own = slice(ends[a], ends[a + 1])
        U[units[a], np.argmin(D[units[a]] - pull[own, 0] @ U[others[own]])] = 1.0
