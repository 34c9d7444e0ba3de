"""Mixture of multivariate t distributions (Peel and McLachlan 2000).

    maximise  sum_i w_i log sum_j pi_j t(x_i | mu_j, Sigma_j, nu_j)

    d_ij = (x_i - mu_j)' Sigma_j^-1 (x_i - mu_j),   o_i = number of observed features of object i
    r_ij ~ pi_j t(x_i | ...),   u_ij = (nu_j + o_i) / (nu_j + d_ij),   v_ij = w_i r_ij u_ij

    mu_j = sum_i v_ij x_i / sum_i v_ij,   Sigma_j from  N_j = sum_i w_i r_ij  and
    the scatter  sum_i v_ij (x_i - mu_j)(x_i - mu_j)'  by the M step of its covariance family,
    nu_j solves  log(nu/2) - psi(nu/2) + 1 + G_j / N_j = 0,
    G_j = sum_i w_i r_ij ( psi((nu_j + o_i)/2) - log((nu_j + d_ij)/2) - u_ij ),  old nu_j inside.

The marginal of a t distribution is one with the same nu, so missing values are integrated out: they
are replaced by their conditional means, and their conditional covariance (the Gaussian one, without
u) is added to the scatter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln

from ...numerics import distances, families

__all__ = [
    "BOUNDS",
    "Ready",
    "Rule",
    "State",
    "Stats",
    "logits",
    "matrices",
    "n_parameters",
    "ordered",
    "pack",
    "projected",
    "ready",
    "summarize",
    "unpack",
    "update",
]

# Degrees of freedom that are looked for: one is a Cauchy distribution; at 200 (where R's teigen
# stops too) the density is within samples' reach of the normal one, and the likelihood is flat.
BOUNDS = (1.0, 200.0)


INNER_STEPS = 2  # of an iterative family in one M step: the next step goes on from there
THIN = 1e-4  # variance, in units of the data's, below which expanded squares lose too many digits


class Rule(NamedTuple):
    """Covariance family, degrees of freedom ("common", "each" or a number), least variance, and
    the units (d,) in which the family holds, relative to those of the state.
    """

    family: str
    freedom: str | float
    floor: float
    units: np.ndarray

    @property
    def full(self) -> bool:
        """Whether scale matrices are full."""
        return families.kind_of(self.family) == "full"


class State(NamedTuple):
    """Weights (k,), means (k, d), scale matrices (k, d, d) or their diagonals (k, d), nu (k,)."""

    weights: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    freedom: np.ndarray


class Stats(NamedTuple):
    """N (k,), sums of v (k,), of v (x - mu) (k, d), their scatter, G (k,), and the log-
    likelihood.
    """

    mass: np.ndarray
    pull: np.ndarray
    first: np.ndarray
    scatter: np.ndarray
    freedom: np.ndarray
    objective: float


class Ready(NamedTuple):
    """A state as a pass needs it: inverse factors of the scales and logarithms of determinants."""

    state: State
    factors: np.ndarray
    log_det: np.ndarray


class _Look(NamedTuple):
    """Deviations (k, b, d), distances (k, b), log-determinants (k, b or 1), and observed features
    (b,), or (1,) where nothing is missing. Diagonal scales that are not thin have the rows (b, d)
    for deviations.

    ``unseen`` are pairs (rows, conditional covariances (k, d, d)), of every pattern of holes.
    """

    D: np.ndarray
    delta: np.ndarray
    log_det: np.ndarray
    seen: np.ndarray
    unseen: list[tuple[np.ndarray, np.ndarray]]


def matrices(state: State) -> np.ndarray:
    """Scale matrices (k, d, d), whatever the family."""
    if state.scales.ndim == 3:
        return state.scales
    return state.scales[:, :, None] * np.eye(state.scales.shape[1])


def ready(state: State) -> Ready:
    """What a pass over the rows needs of a state, computed once."""
    if state.scales.ndim == 2:
        return Ready(state, 1.0 / np.sqrt(state.scales), np.log(state.scales).sum(axis=1))
    try:
        lower = np.linalg.cholesky(state.scales)
    except np.linalg.LinAlgError:  # a cluster of two objects is flat but for rounding
        state = state._replace(scales=_with_width(state.scales))
        lower = np.linalg.cholesky(state.scales)
    factors = np.linalg.inv(lower)
    return Ready(state, factors, -2.0 * _log_diagonal(factors))


def _with_width(scales: np.ndarray) -> np.ndarray:
    """The matrices (k, d, d) with no eigenvalue lost in the rounding of the largest."""
    values, vectors = np.linalg.eigh(scales)
    least = 100 * np.finfo(float).eps * values[:, -1:]
    return (vectors * np.maximum(values, least)[:, None]) @ np.swapaxes(vectors, 1, 2)


def _log_diagonal(factors: np.ndarray) -> np.ndarray:
    return np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(axis=-1)


def _look(X: np.ndarray, at: Ready) -> _Look:
    holes = np.isnan(X)
    if at.factors.ndim == 2:
        return _look_apart(X, holes, at)
    D = X[None] - at.state.means[:, None]
    if not holes.any():
        Y = D @ np.swapaxes(at.factors, 1, 2)
        seen = np.array([float(X.shape[1])])
        return _Look(D, np.einsum("kbd,kbd->kb", Y, Y), at.log_det[:, None], seen, [])
    seen = (~holes).sum(axis=1).astype(np.float64)
    return _look_by_pattern(D, holes, seen, at.state.scales)


def _look_apart(X: np.ndarray, holes: np.ndarray, at: Ready) -> _Look:
    """As ``_look``, for diagonal scales: distances are products, and deviations are needed only
    where a component is so thin that the products would cancel."""
    precision = at.factors**2
    pull, means = precision * at.state.means, at.state.means
    some = holes.any()
    if at.state.scales.min() < THIN:
        D = X[None] - means[:, None]
        D[:, holes] = 0.0
        seen = (~holes).sum(axis=1).astype(np.float64)
        delta = np.einsum("kbd,kbd,kd->kb", D, D, precision)
        return _Look(D, delta, np.log(at.state.scales) @ ~holes.T, seen, [])
    X = np.where(holes, 0.0, X) if some else X
    delta = precision @ (X * X).T - 2.0 * (pull @ X.T)
    if not some:
        delta += np.sum(pull * means, axis=1)[:, None]
        seen, log_det = np.array([float(X.shape[1])]), at.log_det[:, None]
    else:
        there = (~holes).T.astype(np.float64)
        delta += (pull * means) @ there
        seen, log_det = there.sum(axis=0), np.log(at.state.scales) @ there
    # The expansion of the square may come out below zero by rounding.
    return _Look(X, np.maximum(delta, 0.0), log_det, seen, [])


def _look_by_pattern(
    D: np.ndarray, holes: np.ndarray, seen: np.ndarray, scales: np.ndarray
) -> _Look:
    """As ``_look``, for full scale matrices: objects with the same holes share their inverses."""
    delta, log_det = np.zeros(D.shape[:2]), np.zeros(D.shape[:2])
    patterns, place = np.unique(holes, axis=0, return_inverse=True)
    unseen = []
    for p, pattern in enumerate(patterns):
        rows = np.flatnonzero(place.ravel() == p)
        o, m = np.flatnonzero(~pattern), np.flatnonzero(pattern)
        factor = np.linalg.inv(distances.roots(scales[:, o[:, None], o]))
        Y = D[:, rows[:, None], o] @ np.swapaxes(factor, 1, 2)
        delta[:, rows] = np.sum(Y * Y, axis=2)
        log_det[:, rows] = -2.0 * _log_diagonal(factor)[:, None]
        slope = factor @ scales[:, o[:, None], m]
        D[:, rows[:, None], m] = Y @ slope
        left = np.zeros_like(scales)
        left[:, m[:, None], m] = scales[:, m[:, None], m] - np.swapaxes(slope, 1, 2) @ slope
        unseen.append((rows, left))
    return _Look(D, delta, log_det, seen, unseen)


def _log_density(look: _Look, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log t (k, b) and log(1 + d / nu); betaln stays exact where nu is large and gammas cancel."""
    nu, o = freedom[:, None], np.maximum(look.seen, 1e-300)
    constant = gammaln(o / 2) - betaln(nu / 2, o / 2) - 0.5 * o * np.log(np.pi * nu)
    tail = np.log1p(look.delta / nu)
    value = (constant - 0.5 * look.log_det) - (0.5 * (nu + o)) * tail
    return (value if look.seen.all() else np.where(look.seen > 0, value, 0.0)), tail


def logits(X: np.ndarray, at: Ready) -> np.ndarray:
    """log( pi_j t(x_i) ) (k, b) of rows (b, d)."""
    joint, _ = _log_density(_look(X, at), at.state.freedom)
    return joint + np.log(at.state.weights)[:, None]


def summarize(
    X: np.ndarray, weights: np.ndarray | None, at: Ready, given: np.ndarray | None = None
) -> Stats:
    """Sums over a block of rows (b, d); NaN is missing.

    ``given`` are memberships (b, k) instead of those of the state, whose log-likelihood stays out.
    """
    look, state = _look(X, at), at.state
    joint, tail = _log_density(look, state.freedom)
    R, level = distances.columns_or_given(joint + np.log(state.weights)[:, None], given)
    if weights is not None:
        R, level = R * weights, level * weights
    nu = state.freedom[:, None]
    u = (nu + look.seen) / (nu + look.delta)
    V = R * u
    expected = digamma((nu + look.seen) / 2) - np.log(nu / 2) - tail - u
    G = np.einsum("kb,kb->k", R, expected)
    sums = _sums_apart if state.scales.ndim == 2 else _sums
    return Stats(R.sum(axis=1), V.sum(axis=1), *sums(X, look, R, V, state), G, float(level.sum()))


def _sums(
    X: np.ndarray, look: _Look, R: np.ndarray, V: np.ndarray, state: State
) -> tuple[np.ndarray, np.ndarray]:
    """Sums (k, d) and squares (k, d, d) about the present means; missing values add theirs."""
    weighted = look.D * V[:, :, None]
    scatter = np.swapaxes(weighted, 1, 2) @ look.D
    for rows, left in look.unseen:
        scatter += R[:, rows].sum(axis=1)[:, None, None] * left
    return weighted.sum(axis=1), scatter


def _sums_apart(
    X: np.ndarray, look: _Look, R: np.ndarray, V: np.ndarray, state: State
) -> tuple[np.ndarray, np.ndarray]:
    """The same for diagonal scales, squares (k, d); a missing value lies at the mean."""
    filled, means, holes = look.D, state.means, np.isnan(X)
    if filled.ndim == 3:
        scatter = np.einsum("kb,kbd,kbd->kd", V, filled, filled) + (R @ holes) * state.scales
        return np.einsum("kb,kbd->kd", V, filled), scatter
    total, squares = V @ filled, V @ (filled * filled)
    there = V @ ~holes if holes.any() else V.sum(axis=1)[:, None]
    scatter = squares - 2.0 * means * total + there * means**2
    if holes.any():
        scatter += (R @ holes) * state.scales
    return total - there * means, scatter


def update(stats: Stats, state: State, rule: Rule) -> State:
    """The next state: means and scales given the old u, then the degrees of freedom."""
    pull = np.maximum(stats.pull, 1e-300)
    step = stats.first / pull[:, None]
    mass = np.maximum(stats.mass, 1e-300)
    if rule.full:
        scatter = stats.scatter - pull[:, None, None] * step[:, :, None] * step[:, None, :]
        scatter = (scatter + np.swapaxes(scatter, 1, 2)) / 2
    else:
        scatter = np.maximum(stats.scatter - pull[:, None] * step**2, 0.0)
    scales = _family(rule, scatter, mass, state.scales)
    weights = mass / mass.sum()
    return State(weights, state.means + step, scales, _freedom(stats, mass, state.freedom, rule))


def _family(rule: Rule, scatter: np.ndarray, mass: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The M step of the family, which holds in its own units; spherical scales as diagonals."""
    units = np.outer(rule.units, rule.units) if rule.full else rule.units**2
    scatter = scatter * units
    if families.kind_of(rule.family) == "spherical":
        one = families.covariances(rule.family, scatter.mean(axis=1), mass, None, rule.floor)
        return np.repeat(one[:, None], scatter.shape[1], axis=1) / units
    found = families.covariances(
        rule.family, scatter, mass, before * units, rule.floor, INNER_STEPS
    )
    return found / units


def projected(state: State, rule: Rule) -> State:
    """The state with its scales brought back into the family, as an M step would."""
    mass = state.weights
    scatter = state.scales * mass.reshape(-1, *[1] * (state.scales.ndim - 1))
    return state._replace(scales=_family(rule, scatter, mass, state.scales))


def _freedom(stats: Stats, mass: np.ndarray, before: np.ndarray, rule: Rule) -> np.ndarray:
    if not isinstance(rule.freedom, str):
        return before
    if rule.freedom == "common":
        return np.full(len(before), _root(stats.freedom.sum() / mass.sum()))
    return np.array([_root(g / n) for g, n in zip(stats.freedom, mass, strict=True)])


def _root(level: float) -> float:
    """nu within the bounds with log(nu/2) - psi(nu/2) + 1 + level = 0.

    The left side falls in nu.
    """

    def left(log_nu: float) -> float:
        half = 0.5 * np.exp(log_nu)
        return float(np.log(half) - digamma(half) + 1.0 + level)

    low, high = np.log(BOUNDS)
    if left(low) <= 0:
        return BOUNDS[0]
    if left(high) >= 0:
        return BOUNDS[1]
    return float(np.exp(brentq(left, low, high, xtol=1e-12)))


def n_parameters(k: int, d: int, rule: Rule) -> int:
    """Number of free parameters: those of the Gaussian mixture and the degrees of freedom."""
    more = {"common": 1, "each": k}.get(rule.freedom, 0) if isinstance(rule.freedom, str) else 0
    return families.n_parameters(rule.family, k, d) + more


def ordered(state: State) -> State:
    """The same clusters, the largest first."""
    order = np.argsort(-state.weights, kind="stable")
    return State(*(part[order] for part in state))


def pack(state: State) -> np.ndarray:
    """The state as one vector without constraints."""
    scales = (
        np.log(state.scales)
        if state.scales.ndim == 2
        else distances.cholesky_coordinates(ready(state).state.scales)
    )
    return np.concatenate(
        [np.log(state.weights), state.means.ravel(), scales.ravel(), 1.0 / state.freedom]
    )


def unpack(vector: np.ndarray, like: State) -> State:
    """The state that ``pack`` would make this vector of."""
    k, d = like.means.shape
    weights, means, rest = np.split(vector, [k, k + k * d])
    scales, freedom = np.split(rest, [len(rest) - k])
    weights = np.maximum(np.exp(weights - weights.max()), 1e-300)  # its logarithm is needed
    matrices = (
        np.exp(np.clip(scales.reshape(k, d), -300, 300))
        if like.scales.ndim == 2
        else distances.from_cholesky_coordinates(scales.reshape(k, -1), d)
    )
    # The likelihood is nearly linear in 1 / nu where nu is large. Fixed degrees of freedom may lie
    # outside the bounds and come back as they are.
    nu = 1.0 / np.clip(freedom, 1.0 / BOUNDS[1], 1.0 / BOUNDS[0])
    nu = np.where(freedom == 1.0 / like.freedom, like.freedom, nu)
    return State(weights / weights.sum(), means.reshape(k, d), matrices, nu)
