"""Mixture of factor analyzers (Ghahramani and Hinton 1996; McLachlan and Peel 2000).

    maximise  sum_i w_i log sum_j pi_j N(x_i | mu_j, L_j L_j' + Psi_j),   Psi_j diagonal, L_j (d, q)

No d x d matrix is formed. With the observed features o of row i,  y = x - mu_j,  l a row of L_j:

    M_ij = I + sum over o of l l' / psi,   p_ij = sum over o of l y / psi
    y' Sigma_joo^-1 y = sum over o of y^2 / psi - p' M^-1 p               (Woodbury)
    log det Sigma_joo = sum over o of log psi + log det M
    E[f | x_o, j] = M^-1 p,   Cov[f | x_o, j] = M^-1

Rows without missing values share M_j. Given the factors, features are independent: each one is a
regression on (f, 1) over the rows where it was observed, so missing values need no expectations.
The sums add up over rows; the matrices of the regressions are the same for all features if no value
is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import as_dense
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..conjugate.normal import LOG_2PI
from ..engine.component import Component
from ..engine.search import Objects
from ..numerics import seeding
from ..numerics.distances import Coordinates, weighted_columns
from ..numerics.seeding import SCREEN, Sample

LEAN = 2.0  # weight of the pooled uniquenesses in those of each cluster, in objects


class State(NamedTuple):
    """Weights (k,), means (k, d), loadings (k, d, q), uniquenesses (k, d)."""

    weights: np.ndarray
    means: np.ndarray
    loadings: np.ndarray
    uniquenesses: np.ndarray


class Stats(NamedTuple):
    """N (k,), and over the rows where a feature was observed sums of x * x (k, d), x (f, 1)' (k, d,
    q + 1) and (f, 1)(f, 1)' (k, d, q + 1, q + 1), or (k, 1, q + 1, q + 1) if no value is missing,
    and the log-likelihood."""

    mass: np.ndarray
    squares: np.ndarray
    cross: np.ndarray
    gram: np.ndarray
    objective: float


class Ready(NamedTuple):
    """Quantities of a state for a pass: A = L / psi (d, k q), A * mu (d, k q), the products l l' /
    psi (d, k q q), and 1 / psi, mu / psi and log 2 pi psi + mu^2 / psi (d, k)."""

    state: State
    A: np.ndarray
    shift: np.ndarray
    outer: np.ndarray
    precision: np.ndarray
    pull: np.ndarray
    level: np.ndarray


def ready(state: State) -> Ready:
    """Quantities of a state needed in a pass."""
    _, means, L, noise = (np.swapaxes(part, 0, 1) if part.ndim > 1 else part for part in state)
    A = L / noise[:, :, None]
    outer = (L[:, :, :, None] * A[:, :, None, :]).reshape(len(L), -1)
    shift = (A * means[:, :, None]).reshape(len(L), -1)
    A, pull = A.reshape(len(L), -1), means / noise
    level = np.log(noise) + LOG_2PI + means * pull
    return Ready(state, A, shift, outer, 1.0 / noise, pull, level)


class Expected(NamedTuple):
    """log( pi_j N(x_i) ) (k, b), expected factors (k, b, q) and their covariances (k, b, q, q), the
    block with zeros for missing values, and what was observed (b, d), or None if no value is
    missing; the covariances then have one row for all objects."""

    joint: np.ndarray
    factors: np.ndarray
    covariances: np.ndarray
    filled: np.ndarray
    seen: np.ndarray | None


def expect(X: np.ndarray, at: Ready) -> Expected:
    """Densities and expected factors of the observed values of a block of rows (b, d)."""
    k, _, q = at.state.loadings.shape
    missing = np.isnan(X)
    complete = not missing.any()
    seen = np.ones((1, X.shape[1])) if complete else (~missing).astype(np.float64)
    Y = X if complete else np.where(missing, 0.0, X)
    M = np.eye(q) + np.moveaxis((seen @ at.outer).reshape(-1, k, q, q), 1, 0)
    C = np.linalg.inv(M)
    P = np.moveaxis((Y @ at.A - seen @ at.shift).reshape(-1, k, q), 1, 0)
    F = P @ C[:, 0] if complete else np.einsum("kbq,kbqr->kbr", P, C)
    distance = (Y * Y) @ at.precision - 2.0 * (Y @ at.pull) + seen @ at.level
    distance = distance.T - np.sum(P * F, axis=2) + np.linalg.slogdet(M)[1]
    joint = np.log(at.state.weights)[:, None] - 0.5 * distance
    return Expected(joint, F, C, Y, None if complete else seen)


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
        return replace(self, missing=True)

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
        return expect(np.asarray(block), ready).joint

    def summarize(self, block: Array, weights: Weights, ready: Ready, given: Weights = None) -> Any:
        """Sums over a block; with ``missing``, in the form for rows with missing values."""
        X = np.asarray(block)
        joint, F, C, Y, seen = expect(X, ready)
        R, level = weighted_columns(joint, weights, given)
        (k, b, q), d, mass = F.shape, X.shape[1], R.sum(axis=1)
        with_one = np.concatenate([F, np.ones((k, b, 1))], axis=2)
        weighted = with_one * R[:, :, None]
        flat = np.moveaxis(weighted, 0, 1).reshape(b, -1)
        cross = np.moveaxis((Y.T @ flat).reshape(d, k, q + 1), 1, 0)
        if seen is None:
            gram = (np.swapaxes(weighted, 1, 2) @ with_one)[:, None]
            gram[..., :q, :q] += mass[:, None, None, None] * C
            gram = np.broadcast_to(gram, (k, d, q + 1, q + 1)) if self.missing else gram
        else:
            gram = np.empty((k, d, q + 1, q + 1))
            for j, r in enumerate(R):
                products = weighted[j, :, :, None] * with_one[j, :, None, :]
                products[:, :q, :q] += r[:, None, None] * C[j]
                gram[j] = (seen.T @ products.reshape(b, -1)).reshape(gram.shape[1:])
        return Stats(mass, R @ (Y * Y), cross, gram, float(level.sum()))

    def update(self, stats: Any, state: State) -> State:
        """Every feature is regressed on factors, over the rows that have it."""
        q = state.loadings.shape[2]
        mass = np.maximum(stats.mass, 1e-300)
        own = stats.gram[:, :, q, q]
        known = own > 1e-10 * mass.sum()  # features of less weight keep their parameters
        own = np.where(known, own, 1.0)
        H = stats.cross / own[:, :, None]
        G = np.where(known[..., None, None], stats.gram / own[:, :, None, None], np.eye(q + 1))
        solution = np.linalg.solve(G, H[..., None])[..., 0]
        noise = stats.squares / own - np.sum(solution * H, axis=2)
        if self.shared:
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
            np.maximum(noise, self.floor),
        )

    def n_parameters(self) -> int:
        """Number of free, identified parameters. Loadings are determined up to a rotation of the
        factors, and a covariance has only d (d + 1) / 2 different entries."""
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
        weights = np.maximum(
            np.exp(weights - weights.max()), 1e-300
        )  # its logarithm must be finite
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
    least as many free parameters as a full covariance."""
    return max(1, int((2 * d + 1 - (8 * d + 1) ** 0.5) / 2 + 1e-9))


def factor_sample(data: Objects, coordinates: Coordinates) -> Sample:
    """Sample of standardised objects, missing values at the means. Its k-means uses leading
    principal axes, alternately in the units of the data and of every feature."""
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
    rank, computed from the smaller Gram matrix."""
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
