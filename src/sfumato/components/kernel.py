"""Gaussian mixtures by EM (Dempster, Laird and Rubin 1977).

    maximise  sum_i w_i log sum_j pi_j N(x_i | mu_j, Sigma_j)     subject to  Sigma_j >= floor * I
    E:  r_ij ~ pi_j N(x_i | mu_j, Sigma_j)
    M:  N_j = sum_i w_i r_ij,   pi_j = N_j / sum N,   mu_j = sum_i w_i r_ij x_i / N_j,
        Sigma_j from  W_j = sum_i w_i r_ij (x_i - mu_j)(x_i - mu_j)'  by its family (``families``)

The logarithm of pi_j N(x | mu_j, Sigma_j) is linear in z(x) (see ``numerics.distances``): E and M
are one product each. A noise component (one more row) has the same density everywhere (Banfield and
Raftery 1993).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import device, inplace, namespace, native, to_numpy
from ..array.types import Array, Weights
from ..engine import loop
from ..engine.linked import LinkedRows
from ..numerics import distances, families

LOG_2PI = float(np.log(2.0 * np.pi))
INNER_STEPS = 2  # steps of an iterative family per M step; the next M step continues from there
LEAST_MASS = 1e-12  # share of all objects below which a component keeps its parameters


class State(NamedTuple):
    """Parameters of a mixture: those that EM changes, and constants that it needs.

    Weights (k,), or (k + 1,) with noise last; means (k, d); covariances (k, d, d), (k, d) or (k,)
    by the kind of the family. The sum of ``noise`` (d,) is the log density of the noise component;
    ``floor`` is the smallest variance in any direction. Clusters with heavy tails have degrees of
    freedom (k,).
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    family: str
    floor: float
    noise: np.ndarray | None = None
    freedom: Any = None


class Stats(NamedTuple):
    """Weighted sums of z(x) (k, q), and the log-likelihood of the state behind them."""

    sums: np.ndarray
    objective: Any


class Densities(NamedTuple):
    """Coefficients (k, q) of log pi_j N(x | mu_j, Sigma_j) - peak, one more row for noise."""

    rows: np.ndarray
    peak: float
    kind: str
    n_features: int


class Prior(NamedTuple):
    """Normal-inverse-Wishart prior of the components (Fraley and Raftery 2007), for MAP by EM.

        mu_j | Sigma_j ~ N(mean, Sigma_j / strength),      Sigma_j ~ IW(degrees, scale)

    In the M step it acts like additional objects: the means are pulled towards m with mass kappa
    (the strength), and the scatter of a component gains kappa N_j / (kappa + N_j) (xbar_j -
    m)(xbar_j - m)' + S with mass degrees + d + 2. A covariance shared by all components gets the
    prior S once.
    """

    mean: np.ndarray
    strength: float
    degrees: float
    scale: np.ndarray

    def means(self, average: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """Posterior modes (k, d) of the means, from averages and masses."""
        part = (mass / (mass + self.strength))[..., None]
        return part * average + (1.0 - part) * self.mean

    def share_and_powers(self, k: int, family: str) -> tuple[float, float]:
        """Share of the prior scale that each component gets, and the corresponding mass."""
        share = 1.0 / k if families.has_one_covariance(family) else 1.0
        return share, 1.0 + share * (self.degrees + len(self.mean) + 1.0)

    def scatter(
        self, scatter: np.ndarray, mass: np.ndarray, means: np.ndarray, family: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scatter about the posterior means and masses, including the prior."""
        share, powers = self.share_and_powers(len(means), family)
        gap = means - self.mean
        outer = self.strength * gap[:, :, None] * gap[:, None, :] + share * self.scale
        return scatter + families.reduced(outer, family), mass + powers

    def log_density(self, means: np.ndarray, covariances: np.ndarray, family: str) -> float:
        """Logarithm of the prior density at means (k, d) and covariances, up to a constant."""
        share, powers = self.share_and_powers(len(means), family)
        full = families.as_matrices(covariances, family, means.shape[1])
        inverse, gap = np.linalg.inv(full), means - self.mean
        near = self.strength * np.einsum("ka,kab,kb->k", gap, inverse, gap)
        trace = np.sum(inverse * self.scale, axis=(1, 2))
        return -0.5 * float(np.sum(powers * np.linalg.slogdet(full)[1] + near + share * trace))


def matrices(state: State) -> np.ndarray:
    """Covariances as matrices (k, d, d), for every family."""
    return families.as_matrices(state.covariances, state.family, state.means.shape[-1])


def ready(state: State) -> Densities:
    """Coefficients of z(x) for the log weighted densities, relative to their ``peak``."""
    k, d = state.means.shape
    rows, log_det = squares(state)
    rows *= -0.5
    heights = log_weights(state.weights[:k]) + 0.5 * (log_det - d * LOG_2PI)
    rows[:, 0] += heights
    if state.noise is not None:
        last = np.zeros((1, rows.shape[1]))
        last[0, 0] = log_weights(state.weights[k]) + state.noise.sum()
        rows, heights = np.concatenate([rows, last]), np.append(heights, last[0, 0])
    peak = float(heights.max())
    rows[:, 0] -= peak
    return Densities(rows, peak, families.kind_of(state.family), d)


def squares(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances as coefficients (k, q) of z(x), and log-determinants of precisions (k,)."""
    kind, d = families.kind_of(state.family), state.means.shape[1]
    if kind == "full":
        C = state.covariances[:1] if state.family == "EEE" else state.covariances
        factor = np.linalg.inv(cholesky(C, state.floor))
        precisions = np.broadcast_to(np.swapaxes(factor, 1, 2) @ factor, state.covariances.shape)
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    else:
        precisions = 1.0 / state.covariances
        log_det = np.sum(np.log(precisions), axis=1) if kind == "diag" else d * np.log(precisions)
    return distances.coefficients(state.means, precisions, kind), log_det


def cholesky(C: np.ndarray, floor: float) -> np.ndarray:
    """Cholesky factors of covariances; those made indefinite by rounding are raised first."""
    try:
        return np.linalg.cholesky(C)
    except np.linalg.LinAlgError:
        largest = float(np.abs(C).max())
        return np.linalg.cholesky(families.raised(C, max(floor, 1e-14 * largest)))


def log_weights(weights: Array) -> Any:
    """Logarithms of weights that may be zero."""
    return np.log(np.maximum(weights, np.finfo(float).tiny))


def logits(Z: Array, densities: Densities) -> tuple[Any, Any]:
    """log pi_j N(x) - peak (k, b) for the columns of ``Z`` = z(x), and ``Z``, recomputed in float64
    if float32 is not accurate enough.
    """
    Z = precise(Z, densities)
    return namespace(Z).asarray(densities.rows, dtype=Z.dtype, device=device(Z)) @ Z, Z


def precise(Z: Array, densities: Densities) -> Any:
    """``Z``, z(x) or x, recomputed in float64 if float32 cannot distinguish densities."""
    xp, d = namespace(Z), densities.n_features
    if Z.dtype != xp.float32:
        return Z
    error = np.finfo(np.float32).eps * d * np.abs(densities.rows[:, 1:]).max()
    if error <= 1e-4:
        return Z
    if Z.shape[0] == d:
        return xp.astype(Z, xp.float64)
    return distances.features(xp.astype(Z[1 : d + 1, :], xp.float64), densities.kind)


def posterior(Z: Array, densities: Densities) -> tuple[Any, Any, Any, Any]:
    """Weighted densities (k, b) relative to a level, their sums (b,), the levels, and ``Z``.

    The common level is the peak, which saves two passes, unless all densities of an object
    underflow.
    """
    xp = namespace(Z)
    L, Z = logits(Z, densities)
    shift = 300.0 if Z.dtype == xp.float64 else 40.0
    L += shift
    E = inplace("exp", L)
    total = xp.sum(E, axis=0)
    level = densities.peak - shift
    if float(xp.min(total)) < float(xp.finfo(Z.dtype).smallest_normal) * 1e8:
        L = logits(Z, densities)[0]
        top = xp.max(L, axis=0)
        L -= top
        E = inplace("exp", L)
        total, level = xp.sum(E, axis=0), top + densities.peak
    return E, total, level, Z


def summarize(Z: Array, weights: Any, densities: Densities, given: Weights = None) -> Stats:
    """Statistics of a block. ``Z`` is z(x) (q, b) or x (d, b), ``weights`` (b,) or None; ``given``
    memberships (b, k) replace those of the densities.
    """
    xp = namespace(Z)
    if given is not None:
        R = given.T if weights is None else given.T * weights
        return Stats(R @ to_numpy(expanded(Z, densities)).T.astype(np.float64), 0.0)
    if weights is not None:
        weights = xp.asarray(weights, dtype=Z.dtype, device=device(Z))
    if xp is np or densities.kind != "full":
        Z = precise(Z, densities)
        fused = distances.fused_sums(Z, weights, densities.rows, densities.n_features)
        if fused is not None:
            count = float(Z.shape[1] if weights is None else xp.sum(weights, dtype=xp.float64))
            return Stats(fused[0], fused[1] + densities.peak * count)
    return _summarize(expanded(Z, densities), weights, densities)


def expanded(Z: Array, densities: Densities) -> Any:
    """z(x), computed from x if necessary."""
    return distances.features(Z, densities.kind) if Z.shape[0] == densities.n_features else Z


def _summarize(Z: Array, weights: Any, densities: Densities) -> Stats:
    xp = namespace(Z)
    E, total, level, Z = posterior(Z, densities)
    value = xp.log(total) + level
    scale = 1.0 / total
    if weights is not None:
        weights = xp.astype(weights, Z.dtype)
        scale *= weights
        value *= weights
    E *= scale
    if xp is np and E.shape[0] < Z.shape[0]:  # OpenBLAS is slow with a large transposed matrix
        sums = (Z @ np.ascontiguousarray(E.T)).T
    else:
        sums = E @ Z.T
    return Stats(to_numpy(sums).astype(np.float64), float(xp.sum(value, dtype=xp.float64)))


def memberships(Z: Array, densities: Densities) -> tuple[Any, Any]:
    """Memberships (b, k), noise last, and log-densities (b,) of the columns of ``Z``, z(x) or x."""
    xp = namespace(Z)
    E, total, level, _ = posterior(expanded(Z, densities), densities)
    E /= total
    return xp.astype(E.T, Z.dtype), xp.astype(xp.log(total) + level, Z.dtype)


def update(
    stats: Any,
    state: State,
    frozen: tuple[str, ...] = (),
    kind: str | None = None,
    prior: Prior | None = None,
) -> State:
    """The M step; ``kind`` is the form of the sums, if not that of the family.

    Components without mass do not change. Statistics of heavy tails have separate masses
    (``mass``), since their sums weight objects by distance.
    """
    k, d = state.means.shape
    kind = kind or families.kind_of(state.family)
    pull, first, second = distances.moments(stats.sums[:k], d, kind)
    masses = getattr(stats, "mass", stats.sums[:, 0])
    total = masses.sum()
    alive = pull > LEAST_MASS * total
    safe = np.where(alive, pull, LEAST_MASS * total)
    average = np.where(alive[:, None], first / safe[:, None], state.means)
    means = average if prior is None else prior.means(average, safe)
    means = state.means if "means" in frozen else means
    weights = state.weights if "weights" in frozen else masses / total
    covariances = state.covariances
    if "covariances" not in frozen:
        scatter = about(second, first, safe, means, kind)
        if kind == "full":
            scatter = families.reduced(scatter, state.family)
        elif kind == "diag" and families.kind_of(state.family) == "spherical":
            scatter = scatter.mean(axis=-1)
        scatter = np.where(spread(alive, scatter), scatter, state.covariances)
        scatter = scatter * spread(safe, scatter)
        mass = np.maximum(masses[:k], LEAST_MASS * total)
        if prior is not None:
            scatter, mass = prior.scatter(scatter, mass, means, state.family)
        covariances = families.covariances(
            state.family, scatter, mass, state.covariances, state.floor, INNER_STEPS
        )
    return state._replace(weights=weights, means=means, covariances=covariances)


def spread(values: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``values`` with trailing axes added, so that they broadcast with ``other``."""
    return values.reshape(*values.shape, *[1] * (other.ndim - values.ndim))


def about(
    second: np.ndarray, first: np.ndarray, mass: np.ndarray, means: np.ndarray, kind: str
) -> np.ndarray:
    """Mean squared deviations from ``means``, which may differ from the means of the sums."""
    average = first / mass[..., None]
    gap = average - means
    if kind == "full":
        outer = average[..., :, None] * average[..., None, :]
        outer -= gap[..., :, None] * gap[..., None, :]
        return second / mass[..., None, None] - outer
    if kind == "diag":
        return second / mass[..., None] - average**2 + gap**2
    return (second / mass - np.sum(average**2 - gap**2, axis=-1)) / means.shape[-1]


def pack(state: State) -> np.ndarray:
    """Log weights, means, and logarithms or Cholesky factors of covariances, as one vector."""
    covariances = state.covariances
    if families.has_one_covariance(state.family):
        covariances = covariances[:1]
    if families.kind_of(state.family) == "full":
        least = max(state.floor, 1e-14 * float(np.abs(covariances).max()))
        shape = distances.cholesky_coordinates(families.raised(covariances, 0.5 * least))
    else:
        shape = 0.5 * np.log(covariances)
    return np.concatenate([log_weights(state.weights), state.means.ravel(), shape.ravel()])


def unpack(vector: np.ndarray, like: State) -> State:
    """The state that ``pack`` turned into a vector.

    Extrapolated covariances need not belong to the family, so they are projected as in an M step.
    """
    n, (k, d), family = len(like.weights), like.means.shape, like.family
    weights = np.exp(vector[:n] - vector[:n].max())
    shape = vector[n + k * d :]
    m = 1 if families.has_one_covariance(family) else k
    if families.kind_of(family) == "full":
        covariances = distances.from_cholesky_coordinates(shape.reshape(m, -1), d)
    else:
        covariances = np.exp(2.0 * np.clip(shape, -300.0, 300.0))
        covariances = covariances.reshape(m, *like.covariances.shape[1:])
    covariances = np.broadcast_to(covariances, like.covariances.shape)
    mass = np.maximum(weights[:k] / weights.sum(), LEAST_MASS)
    scatter = covariances * spread(mass, covariances)
    return like._replace(
        weights=weights / weights.sum(),
        means=vector[n : n + k * d].reshape(k, d),
        covariances=families.covariances(
            family, scatter, mass, like.covariances, like.floor, INNER_STEPS
        ),
    )


class Whole:
    """Whole runs in one native loop, for few features in one block, with the same steps,
    extrapolation and tolerance as ``engine.component.Likelihood``.

    Quadratic features ``Z`` (q, n) of the kind of a family, weights (n,), a prior or None, and
    linked rows or None, whose weights are zero.
    """

    def __init__(
        self,
        Z: np.ndarray,
        weights: np.ndarray | None,
        prior: Prior | None,
        linked: LinkedRows | None = None,
    ) -> None:
        self.Z, self.weights, self.prior = Z, weights, prior
        self.linked = None if linked is None else (linked.links.units, linked.sums().T)
        self._mixture: Any = None

    def run(self, state: State, max_iter: int, least: float) -> loop.Run:
        """Accelerated EM until a step gains at most ``least``; plain steps if that is negative."""
        mixture = self._put(state)
        slot, history, done = mixture.run(max_iter, least)
        weights, means, shapes = mixture.state(slot)
        shapes = shapes.reshape(state.covariances.shape)
        end = state._replace(weights=weights, means=means, covariances=shapes)
        return loop.Run(end, history[-1], history, len(history), done)

    def levels(self, state: State) -> tuple[float, float]:
        """The log-likelihood, and the sum of the logarithms of the largest memberships."""
        return self._put(state).levels()  # type: ignore[no-any-return]

    def _put(self, state: State) -> Any:
        """The native mixture, set to this state."""
        if self._mixture is None:
            (k, d), family, prior = state.means.shape, state.family, self.prior
            rest = state.covariances.shape[1:]
            shape = (k, *([1] * (2 - len(rest))), *rest)
            noise = None if state.noise is None else float(state.noise.sum())
            belief = None
            if prior is not None:
                numbers = (prior.strength, *prior.share_and_powers(k, family))
                belief = (prior.mean, prior.scale, numbers)
            self._mixture = native("em").Mixture(
                self.Z,
                self.weights,
                d,
                shape,
                families.letters(family),
                families.turns(d),
                state.floor,
                noise,
                belief,
                self.linked,
            )
        self._mixture.put(*state[:3])
        return self._mixture
