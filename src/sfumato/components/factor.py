"""Mixture of factor analyzers (Ghahramani and Hinton 1996; McLachlan and Peel 2000).

    maximise  sum_i w_i log sum_j pi_j N(x_i | mu_j, L_j L_j' + Psi_j),   Psi_j diagonal, L_j (d, q)

No d x d matrix is formed. With  A_j = Psi_j^-1 L_j,  M_j = I + L_j' A_j  (q x q),  y = x - mu_j:

    y' Sigma_j^-1 y = y' Psi_j^-1 y - p' M_j^-1 p,   p = A_j' y           (Woodbury)
    log det Sigma_j = log det Psi_j + log det M_j
    E[f | x, j] = M_j^-1 p,   Cov[f | x, j] = M_j^-1

Given the memberships, x is a regression on (f, 1): loadings and mean of a cluster are updated
together from the sums of  y, y * y  and  y f',  which add up over rows. A pass costs three products
of the rows with matrices of k (q + 2) columns altogether, and one back.

With missing values, the density of an object is that of its observed values. With the observed
features o of row i, and y = x - mu_j there:

    M_ij = I + sum over o of l l' / psi,   p_ij = sum over o of l y / psi        (l a row of L_j)
    y' Sigma_joo^-1 y = sum over o of y^2 / psi - p' M^-1 p
    log det Sigma_joo = sum over o of log psi + log det M
    E[f | x_o, j] = M^-1 p,   Cov[f | x_o, j] = M^-1

Given the factors, features are independent: each one is a regression on (f, 1) over the rows where
it was observed, so missing values need no expectations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import as_dense
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..engine.component import Component
from ..engine.search import Objects
from ..numerics import seeding
from ..numerics.distances import Coordinates, weighted_columns
from ..numerics.seeding import SCREEN, Sample

LEAN = 2.0  # weight of the pooled uniquenesses in those of each cluster, in objects
LOG_2PI = float(np.log(2.0 * np.pi))


class State(NamedTuple):
    """Weights (k,), means (k, d), loadings (k, d, q), uniquenesses (k, d)."""

    weights: np.ndarray
    means: np.ndarray
    loadings: np.ndarray
    uniquenesses: np.ndarray


class Stats(NamedTuple):
    """N (k,), sums of y (k, d), y * y (k, d) and y f' (k, d, q) about the means of the current
    state, and its log-likelihood.
    """

    mass: np.ndarray
    first: np.ndarray
    squares: np.ndarray
    cross: np.ndarray
    objective: float


class Ready(NamedTuple):
    """Quantities of a state for a pass: A (d, k q), A' mu (k q,), inverses of M, constants."""

    state: State
    A: np.ndarray
    shift: np.ndarray
    inverse: np.ndarray
    constant: np.ndarray


def ready(state: State) -> Ready:
    """Quantities of a state needed in a pass."""
    k, d, q = state.loadings.shape
    A = state.loadings / state.uniquenesses[:, :, None]
    M = np.eye(q) + np.swapaxes(state.loadings, 1, 2) @ A
    log_det = np.log(state.uniquenesses).sum(axis=1) + np.linalg.slogdet(M)[1]
    constant = np.log(state.weights) - 0.5 * (d * LOG_2PI + log_det)
    shift = (state.means[:, None] @ A)[:, 0]
    flat = np.ascontiguousarray(np.moveaxis(A, 0, 1).reshape(d, k * q))
    return Ready(state, flat, shift.ravel(), np.linalg.inv(M), constant)


def expect(X: np.ndarray, at: Ready) -> tuple[np.ndarray, np.ndarray]:
    """log( pi_j N(x_i) ) (k, b) and expected factors (k, b, q)."""
    k, _, q = at.state.loadings.shape
    precision = 1.0 / at.state.uniquenesses
    pull = at.state.means * precision
    P = np.moveaxis((X @ at.A - at.shift).reshape(len(X), k, q), 1, 0)
    F = P @ at.inverse
    distance = precision @ (X * X).T - 2.0 * (pull @ X.T)
    distance += np.sum(at.state.means * pull, axis=1)[:, None] - np.sum(P * F, axis=2)
    return at.constant[:, None] - 0.5 * distance, F


def summarize_complete(
    X: np.ndarray, weights: np.ndarray | None, at: Ready, given: np.ndarray | None = None
) -> Stats:
    """Sums over a block of rows (b, d), for ``given`` memberships (b, k) if passed."""
    joint, F = expect(X, at)
    R, level = weighted_columns(joint, weights, given)
    k, d, q = at.state.loadings.shape
    means, mass = at.state.means, R.sum(axis=1)
    total = R @ X
    squares = R @ (X * X) - 2.0 * means * total + mass[:, None] * means**2
    F = F * R[:, :, None]
    flat = np.moveaxis(F, 0, 1).reshape(len(X), k * q)
    cross = np.moveaxis((X.T @ flat).reshape(d, k, q), 1, 0)
    cross = cross - means[:, :, None] * F.sum(axis=1)[:, None]
    return Stats(mass, total - mass[:, None] * means, squares, cross, float(level.sum()))


def update_complete(stats: Stats, state: State, floor: float, *, shared: bool) -> State:
    """The next state, from regressions of the rows on the expected factors and a constant."""
    q = state.loadings.shape[2]
    mass = np.maximum(stats.mass, 1e-300)
    A = state.loadings / state.uniquenesses[:, :, None]
    inverse = np.linalg.inv(np.eye(q) + np.swapaxes(state.loadings, 1, 2) @ A)
    B = inverse @ np.swapaxes(A, 1, 2)  # expected factors are B y
    first, cross = stats.first / mass[:, None], stats.cross / mass[:, None, None]
    factors = (B @ first[:, :, None])[:, :, 0]
    G = np.empty((len(mass), q + 1, q + 1))
    G[:, :q, :q] = B @ cross + inverse
    G[:, :q, q] = G[:, q, :q] = factors
    G[:, q, q] = 1.0
    H = np.concatenate([cross, first[:, :, None]], axis=2)
    solution = np.swapaxes(np.linalg.solve(G, np.swapaxes(H, 1, 2)), 1, 2)
    noise = stats.squares / mass[:, None] - np.sum(solution * H, axis=2)
    if shared:
        noise = np.broadcast_to((mass @ noise) / mass.sum(), noise.shape)
    return State(
        mass / mass.sum(),
        state.means + solution[:, :, q],
        np.ascontiguousarray(solution[:, :, :q]),
        np.maximum(noise, floor),
    )


@dataclass(frozen=True, eq=False)
class Factors(Component):
    """Normal clusters of ``n_factors`` factors in ``coordinates`` of unit variances."""

    n_clusters: int
    n_factors: int
    coordinates: Coordinates
    floor: float
    shared: bool
    missing: bool

    @property
    def setting(self) -> dict[str, Any]:
        return {"n_clusters": self.n_clusters, "n_factors": self.n_factors}

    def rows(self, X: Array, *columns: Any) -> Rows:
        inner = self.coordinates.inner
        return Rows(X, *columns, view=lambda block: inner(as_dense(block, np.float64)))

    def log_volumes(self, block: Array) -> np.ndarray:
        """Change of log-densities by the change of coordinates, for observed features only."""
        return ~np.isnan(block) @ np.log(self.coordinates.scale)

    def in_batches(self) -> Factors:
        return replace(self, missing=True)  # whose sums are not about the means of one state

    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> State:
        """State with the means of the groups, their principal axes as loadings, and the rest."""
        state = from_groups(X, R, unit, self.n_factors, self.floor)
        if not self.shared:
            return state
        pooled = np.broadcast_to(state.weights @ state.uniquenesses, state.uniquenesses.shape)
        return state._replace(uniquenesses=pooled)

    def ready(self, state: State) -> Ready:
        return ready(state)

    def logits(self, block: Array, ready: Ready) -> np.ndarray:
        X = np.asarray(block)
        return seen_logits(X, ready.state) if np.isnan(X).any() else expect(X, ready)[0]

    def summarize(self, block: Array, weights: Weights, ready: Ready, given: Weights = None) -> Any:
        if self.missing:
            return summarize_seen(np.asarray(block), weights, ready.state, given)
        return summarize_complete(np.asarray(block), weights, ready, given)

    def update(self, stats: Any, state: State) -> State:
        update = update_seen if self.missing else update_complete
        return update(stats, state, self.floor, shared=self.shared)

    def n_parameters(self) -> int:
        """Number of free, identified parameters.

        Loadings are determined up to a rotation of the factors, and a covariance has only d (d + 1)
        / 2 different entries.
        """
        k, q, d = self.n_clusters, self.n_factors, len(self.coordinates.scale)
        loadings = d * q - q * (q - 1) // 2
        covariances = k * loadings + (d if self.shared else k * d)
        return k - 1 + k * d + min(covariances, k * d * (d + 1) // 2)

    def failure(self, state: State, count: float) -> str:
        """Reason to give up: a cluster has fewer objects than its factors and mean need."""
        k, few = self.n_clusters, self.n_factors + 2.0
        if state.weights.min() * count < min(few, 0.5 * count / k):
            return f"a cluster holds too few objects for {self.n_factors} factors"
        return ""

    @staticmethod
    def pack(state: State) -> np.ndarray:
        parts = (np.log(state.weights), state.means, state.loadings, np.log(state.uniquenesses))
        return np.concatenate([part.ravel() for part in parts])

    def unpack(self, vector: np.ndarray, like: State) -> State:
        parts = np.split(vector, np.cumsum([part.size for part in like])[:-1])
        weights, means, loadings, rest = (
            part.reshape(shape.shape) for part, shape in zip(parts, like, strict=True)
        )
        weights = np.maximum(np.exp(weights - weights.max()), 1e-300)  # its logarithm is needed
        rest = np.maximum(np.exp(np.clip(rest, -300, 300)), self.floor)
        return State(weights / weights.sum(), means, loadings, rest)

    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        X = rng.standard_normal((len(labels), len(self.coordinates.scale)))
        X *= np.sqrt(state.uniquenesses)[labels]
        X += state.means[labels]
        factors = rng.standard_normal((len(labels), self.n_factors))
        for j, loadings in enumerate(state.loadings):
            X[labels == j] += factors[labels == j] @ loadings.T
        return self.coordinates.outer(X)


def most_factors(d: int) -> int:
    """The bound of Ledermann (1937), at least one: with more factors, Sigma = L L' + Psi has at
    least as many free parameters as a full covariance.
    """
    return max(1, int((2 * d + 1 - (8 * d + 1) ** 0.5) / 2 + 1e-9))


class SeenStats(NamedTuple):
    """N (k,), and over the rows where a feature was seen sums of x (k, d), x * x (k, d), x f'
    (k, d, q) and (f, 1)(f, 1)' (k, d, q + 1, q + 1), and the log-likelihood."""

    mass: np.ndarray
    first: np.ndarray
    squares: np.ndarray
    cross: np.ndarray
    gram: np.ndarray
    objective: float


def _expect_seen(X: np.ndarray, state: State, j: int) -> tuple[np.ndarray, ...]:
    """log( pi_j N ) (b,), expected factors (b, q) and their covariances (b, q, q)."""
    L, noise, seen = state.loadings[j], state.uniquenesses[j], (~np.isnan(X)).astype(np.float64)
    d, q = L.shape
    A, Y = L / noise[:, None], np.nan_to_num(X - state.means[j])
    outer = (L[:, :, None] * A[:, None, :]).reshape(d, q * q)
    M = np.eye(q) + (seen @ outer).reshape(-1, q, q)
    C, P = np.linalg.inv(M), Y @ A
    F = np.einsum("bqr,br->bq", C, P)
    log_det = seen @ (np.log(noise) + LOG_2PI) + np.linalg.slogdet(M)[1]
    distance = (Y * Y) @ (1.0 / noise) - np.sum(P * F, axis=1)
    return np.log(state.weights[j]) - 0.5 * (log_det + distance), F, C


def seen_logits(X: np.ndarray, state: State) -> np.ndarray:
    """log( pi_j N(x_i) ) (k, b) of the observed values of rows (b, d)."""
    return np.stack([_expect_seen(X, state, j)[0] for j in range(len(state.weights))])


def summarize_seen(
    X: np.ndarray, weights: np.ndarray | None, state: State, given: np.ndarray | None = None
) -> SeenStats:
    """Sums over a block of rows (b, d), with memberships (b, k) if they are ``given``."""
    seen, (b, d), Y = (~np.isnan(X)).astype(np.float64), X.shape, np.nan_to_num(X)
    joint, *each = zip(*(_expect_seen(X, state, j) for j in range(len(state.weights))), strict=True)
    R, level = weighted_columns(np.stack(joint), weights, given)
    sums = []
    for r, F, C in zip(R, *each, strict=True):
        weighted = Y * r[:, None]
        with_one = np.hstack([F, np.ones((b, 1))])
        T = with_one[:, :, None] * with_one[:, None, :]
        T[:, :-1, :-1] += C
        gram = (seen.T @ (T * r[:, None, None]).reshape(b, -1)).reshape(d, *T.shape[1:])
        sums.append((weighted.sum(axis=0), np.sum(weighted * Y, axis=0), weighted.T @ F, gram))
    first, squares, cross, gram = (np.stack(part) for part in zip(*sums, strict=True))
    return SeenStats(R.sum(axis=1), first, squares, cross, gram, float(level.sum()))


def update_seen(stats: SeenStats, state: State, floor: float, *, shared: bool) -> State:
    """The next state: every feature is regressed on factors, over the rows that have it."""
    q = state.loadings.shape[2]
    mass = np.maximum(stats.mass, 1e-300)
    own = stats.gram[:, :, q, q]
    known = own > 1e-10 * mass.sum()  # features of less weight keep their parameters
    own = np.where(known, own, 1.0)
    H = np.concatenate([stats.cross, stats.first[:, :, None]], axis=2) / own[:, :, None]
    G = np.where(known[..., None, None], stats.gram / own[:, :, None, None], np.eye(q + 1))
    solution = np.linalg.solve(G, H[..., None])[..., 0]
    noise = stats.squares / own - np.sum(solution * H, axis=2)
    if shared:
        own = np.where(known, own, 0.0)
        total = own.sum(axis=0)
        pooled = np.sum(own * noise, axis=0) / np.where(total > 0, total, 1.0)
        noise = np.broadcast_to(np.where(total > 0, pooled, state.uniquenesses[0]), noise.shape)
    else:
        noise = np.where(known, noise, state.uniquenesses)
    return State(
        mass / mass.sum(),
        np.where(known, solution[:, :, q], state.means),
        np.where(known[..., None], solution[:, :, :q], state.loadings),
        np.maximum(noise, floor),
    )


def factor_sample(data: Objects, coordinates: Coordinates) -> Sample:
    """Sample of standardised objects, missing values at the means. Its k-means uses leading
    principal axes, alternately in the units of the data and of every feature.
    """
    view = coordinates.inner
    rows = Rows(data.X, data.weights, view=lambda X: view(as_dense(X, np.float64)))
    rng = np.random.default_rng(0)
    X, weights, _ = seeding.sorted_sample(rows, SCREEN, rng, features=np.nan_to_num)
    scale = coordinates.scale
    return Sample(X, weights, [_leading(Y, weights) for Y in (X * (scale.min() / scale), X)])


def _leading(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Objects on at most twenty leading principal axes."""
    share = weights / weights.sum()
    centred = X - share @ X
    if centred.shape[1] <= 20:
        return centred
    return centred @ _principal(centred * np.sqrt(share)[:, None], 20)[1].T


def _principal(X: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``q`` largest singular values of a matrix and their right vectors (q, d), zero beyond its
    rank, computed from the smaller Gram matrix.
    """
    n, d = X.shape
    values, vectors = np.linalg.eigh(X @ X.T if n < d else X.T @ X)
    values, vectors = np.maximum(values[::-1][:q], 0.0), vectors[:, ::-1][:, :q]
    roots = np.sqrt(values)
    good = roots > 1e-9 * max(float(roots.max(initial=0.0)), 1e-300)
    right = (vectors.T @ X) / np.where(good, roots, 1.0)[:, None] if n < d else vectors.T
    found, axes = np.zeros(q), np.zeros((q, d))
    found[: len(roots)] = np.where(good, roots, 0.0)
    axes[: len(roots)] = right * good[:, None]
    return found, axes


def from_groups(X: np.ndarray, R: np.ndarray, unit: float, q: int, floor: float) -> State:
    """State of groups ``R`` (k, n): principal axes as loadings, the rest as uniquenesses."""
    k, d = len(R), X.shape[1]
    mass = R.sum(axis=1) + 1e-6 * unit
    means = (R @ X) / mass[:, None]
    loadings, noise = np.zeros((k, d, q)), np.zeros((k, d))
    for j in range(k):
        inside = R[j] > 0
        E = (X[inside] - means[j]) * np.sqrt(R[j, inside] / (mass[j] + LEAN * unit))[:, None]
        roots, axes = _principal(E, q)
        variances = np.sum(E * E, axis=0)
        # The variance beyond the axes is spread evenly, as in probabilistic principal components.
        rest = max(float(variances.sum() - np.sum(roots**2)), 0.0) / max(d - q, 1)
        loadings[j] = (axes * np.sqrt(np.maximum(roots**2 - rest, 0.0))[:, None]).T
        noise[j] = np.maximum(variances - np.sum(loadings[j] ** 2, axis=1), 0.0)
    pooled = (mass @ noise) / mass.sum()
    share = (mass / (mass + LEAN * unit))[:, None]
    noise = np.maximum(share * noise + (1.0 - share) * pooled, max(floor, 1e-2))
    return State(mass / mass.sum(), means, loadings, noise)
