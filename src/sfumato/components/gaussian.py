"""Gaussian mixtures of the fourteen covariance families, by EM (Dempster, Laird and Rubin 1977).

    maximise  sum_i w_i log sum_j pi_j N(x_i | mu_j, Sigma_j)     subject to  Sigma_j >= floor * I
    E:  r_ij ~ pi_j N(x_i | mu_j, Sigma_j)
    M:  N_j = sum_i w_i r_ij,   pi_j = N_j / sum N,   mu_j = sum_i w_i r_ij x_i / N_j,
        Sigma_j from  W_j = sum_i w_i r_ij (x_i - mu_j)(x_i - mu_j)'  by its family

The logarithm of pi_j N(x | mu_j, Sigma_j) is linear in z(x) (see ``numerics.distances``): E and M
are one product each. A noise component (one more row) has the same density everywhere (Banfield and
Raftery 1993). With missing values or known errors, expected sums are used (``incomplete``).

The families (Celeux and Govaert 1995, by the names of R's mclust) are

    Sigma_j = lambda_j D_j A_j D_j'    volume lambda_j, shape A_j (diagonal, det 1), axes D_j

The three letters of a name say whether volume, shape and orientation are equal (E), varying (V) or
the identity (I). The M step minimises  sum_j  N_j log det Sigma_j + tr(W_j Sigma_j^-1)  over the
covariances of the family. Once the axes D_j are known, volume and shape depend only on the
diagonals of D_j' W_j D_j. Common axes of varying shapes (EVE, VVE) come from planar rotations: for
two axes, the minimum over the angle has a closed form, so a sweep over all pairs lowers the
criterion however badly conditioned the problem is.

A family determines the coordinates of EM. Families that are invariant under linear maps use
whitened data, axis-parallel ones standardised data; the others depend on the units of the features,
which are only centred and scaled by one factor.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import device, inplace, is_numpy, namespace, native, to_numpy
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..conjugate import NormalInverseWishart
from ..conjugate.normal import LOG_2PI
from ..engine import loop
from ..engine.component import Component, Ready
from ..engine.linked import LinkedRows, free_weights
from ..numerics import distances, seeding
from ..numerics.distances import Coordinates, weighted_columns
from .incomplete import deconvolved, expected_sums, marginals, with_errors

FAMILIES = (
    *("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE"),
    *("VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"),
)
ALIASES = {"full": "VVV", "tied": "EEE", "diag": "VVI", "spherical": "VII"}
# Families that keep their form when single features change units; the others only keep it if all
# features change alike.
UNIT_FREE = ("EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVV", "VVV")
AXIS_PARALLEL = ("EII", "VII", "EEI", "VEI", "EVI", "VVI")


def family_of(covariance_type: str) -> str:
    """Name of the family: one of the fourteen, or the meaning of scikit-learn's name."""
    return ALIASES.get(covariance_type, covariance_type)


def suited(n: int, d: int) -> tuple[str, ...]:
    """Families that ``n`` objects with ``d`` features allow, simplest first."""
    if n <= d or d > 96:  # a common matrix also costs d^2 per object
        return AXIS_PARALLEL
    if d > 48:  # matrices for every component cost too much
        return (*AXIS_PARALLEL, "EEE")
    # The common axes of EVE and VVE converge slowly.
    return tuple(name for name in FAMILIES if d <= 10 or name not in ("EVE", "VVE"))


def kind_of(family: str) -> str:
    """Form of scatter that the M step needs: "spherical" (traces), "diag" (diagonals) or "full"."""
    return "spherical" if family[1] == "I" else "diag" if family[2] == "I" else "full"


def is_unit_free(covariance_type: str) -> bool:
    """Whether a mixture of this family (or of "auto") does not depend on units."""
    return covariance_type == "auto" or family_of(covariance_type) in UNIT_FREE


def has_one_covariance(family: str) -> bool:
    """Whether all components share one covariance: EII, EEI and EEE."""
    return "V" not in family


@lru_cache
def lies_within(name: str, other: str) -> bool:
    """Whether every covariance of a family belongs to the other, by comparing their letters."""
    pairs = zip(family_of(name), family_of(other), strict=True)
    return all("IEV".index(a) <= "IEV".index(b) for a, b in pairs)  # strictest letter first


def n_covariance_parameters(family: str, k: int, d: int) -> int:
    """Number of free parameters of ``k`` covariances in ``d`` dimensions, as in mclust."""
    times = {"E": 1, "V": k, "I": 0}
    volume, shape, orientation = (times[letter] for letter in family)
    return volume + shape * (d - 1) + orientation * (d * (d - 1) // 2)


@lru_cache(maxsize=1024)
def n_parameters(family: str, k: int, d: int, noise: bool = False) -> int:
    """Number of parameters of a mixture: weights, means, covariances, and share of the noise."""
    return k - 1 + k * d + n_covariance_parameters(family, k, d) + int(noise)


def fitted_covariances(
    family: str,
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None = None,
    floor: float = 0.0,
    n_steps: int = 200,
) -> np.ndarray:
    """Maximum-likelihood covariances (k, d, d), (k, d) or (k,), depending on the family.
    ``scatter`` (k, d, d) are weighted sums of squares about the means (or their ``reduced`` form),
    ``mass`` (k,) sums of responsibilities. Iterative families (VEI, VEE, VEV, EVE, VVE) start at
    ``previous``; every step improves the criterion, so a few are enough inside EM. ``floor`` is the
    smallest variance in any direction. Leading axes are separate mixtures."""
    if scatter.ndim == mass.ndim + 2:
        scatter = reduced(scatter, family)
    kind, k = kind_of(family), mass.shape[-1]
    d = 1 if kind == "spherical" else scatter.shape[-1]
    form = (k, d if kind == "full" else 1, d)
    given = scatter.reshape(-1, *form), mass.reshape(-1, k)
    before = [None] * len(given[1]) if previous is None else previous.reshape(-1, *form)
    found = [
        _of_one_mixture(family, d, *one, floor, n_steps) for one in zip(*given, before, strict=True)
    ]
    return np.stack(found).reshape(scatter.shape)


def _of_one_mixture(
    family: str,
    d: int,
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None,
    floor: float,
    n_steps: int,
) -> np.ndarray:
    """Covariances of one mixture, from the best of several starts; all arrays are (k, p, w)."""
    starts = [previous]
    if previous is None:
        starts = [scatter / mass[:, None, None]]
        if family in ("EVE", "VVE"):
            # Common axes may have several minima, so those of every component are tried as well.
            starts = [scatter, *(np.broadcast_to(one, scatter.shape) for one in scatter)]
    step = partial(native("families").fitted, letters(family), turns(d), d, scatter, mass)
    ends = [step(start, floor, n_steps) for start in starts]
    return min(ends, key=lambda end: _criterion(end, scatter, mass)) if len(ends) > 1 else ends[0]


def _criterion(matrices: np.ndarray, scatter: np.ndarray, mass: np.ndarray) -> float:
    """sum_j  N_j log det Sigma_j + tr(W_j Sigma_j^-1),  for flat matrices as far as possible."""
    values, axes = np.linalg.eigh(matrices)
    values = np.maximum(values, 1e-300)
    spread = _diagonals(np.swapaxes(axes, 1, 2) @ scatter @ axes)
    return float(np.sum(mass * np.log(values).sum(axis=1) + np.sum(spread / values, axis=1)))


@lru_cache(maxsize=14)
def letters(family: str) -> tuple[int, ...]:
    """Numbers of the letters; a multiple of the identity counts as a one-entry diagonal."""
    family = family if family[1] != "I" else 2 * family[0] + "I"
    return tuple("EVI".index(letter) for letter in family)


@lru_cache(maxsize=64)
def turns(d: int) -> np.ndarray:
    """All pairs of ``d`` axes (n, 2), in the order of a round-robin tournament."""
    if d < 2:
        return np.empty((0, 2), dtype=np.intp)
    places = np.append(np.arange(d), [-1] * (d % 2)).astype(np.intp)
    half, rounds = len(places) // 2, []
    for _ in range(len(places) - 1):
        pairs = np.sort([places[:half], places[::-1][:half]], axis=0)
        rounds.append(pairs[:, pairs[0] >= 0].T)
        places = np.concatenate([places[:1], places[-1:], places[1:-1]])
    return np.concatenate(rounds)


def reduced(matrices: np.ndarray, family: str) -> np.ndarray:
    """The part of matrices (..., k, d, d) that a family needs: all, diagonals or traces / d."""
    kind = kind_of(family)
    if kind == "full":
        return matrices
    diagonals = _diagonals(matrices)
    return diagonals if kind == "diag" else diagonals.mean(axis=-1)


def as_matrices(values: np.ndarray, family: str, d: int) -> np.ndarray:
    """Covariances of the family as matrices (..., k, d, d)."""
    kind = kind_of(family)
    if kind == "full":
        return values
    variances = values[..., None] if kind == "spherical" else values
    return variances[..., None] * np.eye(d)


def raised(matrices: np.ndarray, floor: float) -> np.ndarray:
    """Symmetric matrices (..., d, d), with eigenvalues below ``floor`` raised to it."""
    try:
        np.linalg.cholesky(matrices - floor * np.eye(matrices.shape[-1]))
        return matrices
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(matrices)
        lifted = (axes * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(axes, -1, -2)
        return (lifted + np.swapaxes(lifted, -1, -2)) / 2.0


def _diagonals(matrices: np.ndarray) -> np.ndarray:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


INNER_STEPS = 2  # steps of an iterative family per M step; the next M step continues from there
LEAST_MASS = 1e-12  # share of all objects below which a component keeps its parameters


class State(NamedTuple):
    """Parameters of a mixture: those that EM changes, and constants that it needs. Weights (k,), or
    (k + 1,) with noise last; means (k, d); covariances (k, d, d), (k, d) or (k,) by the kind of the
    family. The sum of ``noise`` (d,) is the log density of the noise component; ``floor`` is the
    smallest variance in any direction. Clusters with heavy tails have degrees of freedom (k,)."""

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
    prior S once."""

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
        share = 1.0 / k if has_one_covariance(family) else 1.0
        return share, 1.0 + share * (self.degrees + len(self.mean) + 1.0)

    def scatter(
        self, scatter: np.ndarray, mass: np.ndarray, means: np.ndarray, family: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scatter about the posterior means and masses, including the prior."""
        share, powers = self.share_and_powers(len(means), family)
        gap = means - self.mean
        outer = self.strength * gap[:, :, None] * gap[:, None, :] + share * self.scale
        return scatter + reduced(outer, family), mass + powers

    def log_density(self, means: np.ndarray, covariances: np.ndarray, family: str) -> float:
        """Logarithm of the prior density at means (k, d) and covariances, up to a constant."""
        share, powers = self.share_and_powers(len(means), family)
        full = as_matrices(covariances, family, means.shape[1])
        inverse, gap = np.linalg.inv(full), means - self.mean
        near = self.strength * np.einsum("ka,kab,kb->k", gap, inverse, gap)
        trace = np.sum(inverse * self.scale, axis=(1, 2))
        return -0.5 * float(np.sum(powers * np.linalg.slogdet(full)[1] + near + share * trace))


def matrices(state: State) -> np.ndarray:
    """Covariances as matrices (k, d, d), for every family."""
    return as_matrices(state.covariances, state.family, state.means.shape[-1])


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
    return Densities(rows, peak, kind_of(state.family), d)


def incomplete_logits(X: np.ndarray, state: State) -> tuple[np.ndarray, list[Any]]:
    """log pi_j N (k, b) of the observed values of rows, noise last, and the evaluated clusters."""
    parts, k = marginals(X, state.means, state.covariances), len(state.means)
    L = np.empty((len(state.weights), len(X)))
    constants = log_weights(state.weights)
    for j, part in enumerate(parts):
        L[j] = constants[j] + part.log_density()
    if state.noise is not None:
        L[k] = constants[k] + ~np.isnan(X) @ state.noise
    return L, parts


def squares(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances as coefficients (k, q) of z(x), and log-determinants of precisions (k,)."""
    kind, d = kind_of(state.family), state.means.shape[1]
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
        return np.linalg.cholesky(raised(C, max(floor, 1e-14 * largest)))


def log_weights(weights: Array) -> Any:
    """Logarithms of weights that may be zero."""
    return np.log(np.maximum(weights, np.finfo(float).tiny))


def logits(Z: Array, densities: Densities) -> tuple[Any, Any]:
    """log pi_j N(x) - peak (k, b) for the columns of ``Z`` = z(x), and ``Z``, recomputed in float64
    if float32 is not accurate enough."""
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
    """Weighted densities (k, b) relative to a level, their sums (b,), the levels, and ``Z``. The
    level is the peak, which saves two passes, unless all densities of an object underflow."""
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
    memberships (b, k) replace those of the densities."""
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
    """The M step; ``kind`` is the form of the sums, if not that of the family. Components without
    mass do not change. Statistics of heavy tails have separate masses (``mass``), since their sums
    weight objects by distance."""
    k, d = state.means.shape
    kind = kind or kind_of(state.family)
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
            scatter = reduced(scatter, state.family)
        elif kind == "diag" and kind_of(state.family) == "spherical":
            scatter = scatter.mean(axis=-1)
        scatter = np.where(spread(alive, scatter), scatter, state.covariances)
        scatter = scatter * spread(safe, scatter)
        mass = np.maximum(masses[:k], LEAST_MASS * total)
        if prior is not None:
            scatter, mass = prior.scatter(scatter, mass, means, state.family)
        covariances = fitted_covariances(
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
    if has_one_covariance(state.family):
        covariances = covariances[:1]
    if kind_of(state.family) == "full":
        least = max(state.floor, 1e-14 * float(np.abs(covariances).max()))
        shape = distances.cholesky_coordinates(raised(covariances, 0.5 * least))
    else:
        shape = 0.5 * np.log(covariances)
    return np.concatenate([log_weights(state.weights), state.means.ravel(), shape.ravel()])


def unpack(vector: np.ndarray, like: State) -> State:
    """The state that ``pack`` turned into a vector. Extrapolated covariances need not belong to the
    family, so they are projected as in an M step."""
    n, (k, d), family = len(like.weights), like.means.shape, like.family
    weights = np.exp(vector[:n] - vector[:n].max())
    shape = vector[n + k * d :]
    m = 1 if has_one_covariance(family) else k
    if kind_of(family) == "full":
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
        covariances=fitted_covariances(
            family, scatter, mass, like.covariances, like.floor, INNER_STEPS
        ),
    )


class Whole:
    """Whole runs in one native loop, for few features in one block, with the same steps,
    extrapolation and tolerance as ``engine.component.Likelihood``. Quadratic features ``Z`` (q, n)
    of the kind of a family, weights (n,), a prior or None, and linked rows or None, of weight
    zero."""

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
                letters(family),
                turns(d),
                state.floor,
                noise,
                belief,
                self.linked,
            )
        self._mixture.put(*state[:3])
        return self._mixture


AFFINE = ("EEE", "VEE", "EVV", "VVV")  # families that are invariant under linear maps
MOST_KEPT = 2**22  # most quadratic features to keep in memory


class Start(NamedTuple):
    """Starting parameters of a Gaussian mixture, in the units of the data.

    Parameters
    ----------
    weights : array of shape (k,), optional
    means : array of shape (k, p), optional
    covariances : array shaped as ``covariances_``, optional
    frozen : tuple of {"weights", "means", "covariances"}
        Parameters that keep these values.

    Examples
    --------
    >>> from sfumato import GaussianMixture, Start
    >>> start = Start(means=[[0.0], [5.0]], frozen=("means",))
    >>> model = GaussianMixture(2, init=start).fit([[-0.5], [0.6], [0.1], [4.0], [5.5], [5.2]])
    >>> model.means_.tolist()
    [[0.0], [5.0]]
    """

    weights: Any = None
    means: Any = None
    covariances: Any = None
    frozen: tuple[str, ...] = ()


class Measured(NamedTuple):
    """Coordinates of the data, their number of objects, and whether values are missing."""

    coordinates: Coordinates
    n_objects: float
    missing: bool

    def coordinates_of(self, family: str) -> Coordinates:
        """Coordinates used by the family; with missing values, features are not mixed."""
        if family in AFFINE and not self.missing:
            return self.coordinates
        if family in AFFINE or kind_of(family) == "diag":
            return self.coordinates.unmixed()
        return self.coordinates.isotropic()

    def covariance(self, family: str) -> np.ndarray:
        """Covariance (d, d) of the data in the coordinates of the family, divided by n - 1."""
        own, measured = self.coordinates_of(family), self.coordinates
        unbiased = self.n_objects / max(self.n_objects - 1.0, 1.0)
        if own.mix is not None:
            return unbiased * np.eye(len(own.scale))
        if measured.mix is None:
            return unbiased * np.diag(np.maximum(own.variances, 1e-12))
        # With very small features, the factor of a constant one might overflow when squared.
        factors = np.minimum(own.scale / measured.scale, 1e100)
        return unbiased * measured.covariance() * np.outer(factors, factors)


_NOTHING = Start()


@dataclass(frozen=True, eq=False)
class Gaussian(Component):
    """Normal clusters whose covariances belong to one family. ``noise`` is the starting share of a
    uniform component, ``box`` (d,) its log density along every unmixed feature."""

    n_clusters: int
    covariance_type: str
    measured: Measured
    floor: float
    noise: float | None = None
    box: np.ndarray | None = None
    belief: str | NormalInverseWishart | None = None
    given: Start = _NOTHING
    errors: bool = False
    pack = staticmethod(pack)

    @cached_property
    def family(self) -> str:
        """One of the fourteen families."""
        return family_of(self.covariance_type)

    @property
    def kind(self) -> str:
        """Form of scatter that the family needs."""
        return kind_of(self.family)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates used by the family."""
        return self.measured.coordinates_of(self.family)

    @property
    def missing(self) -> bool:  # type: ignore[override]
        """Whether rows may miss values."""
        return self.measured.missing

    @property
    def n_features(self) -> int:
        return len(self.coordinates.scale)

    @property
    def setting(self) -> dict[str, Any]:
        return {"n_clusters": self.n_clusters, "covariance_type": self.covariance_type}

    @property
    def leads(self) -> bool:
        return self.family in ("EEE", "VVI", "VVV")

    def within(self, other: Component) -> bool:
        return isinstance(other, Gaussian) and lies_within(self.family, other.family)

    @cached_property
    def prior(self) -> Prior | None:
        """The prior in the coordinates of the family."""
        if self.belief is None:
            return None
        if isinstance(self.belief, str):  # as in mclust: kappa 0.01, df d + 2
            d = self.n_features
            return Prior(np.zeros(d), 0.01, d + 2.0, self._prior_scale())
        mean = self.coordinates.inner(np.array(self.belief.mean, dtype=np.float64)[None])[0]
        M = self.coordinates.inner_matrix()
        scale = M.T @ np.asarray(self.belief.scale, dtype=np.float64) @ M
        return Prior(mean, float(self.belief.kappa), float(self.belief.df), scale)

    def _prior_scale(self) -> np.ndarray:
        """Scale (d, d) of mclust's prior: the covariance of the data / k^(2/d)."""
        return self.measured.covariance(self.family) / self.n_clusters ** (2.0 / self.n_features)

    @property
    def apart(self) -> bool:
        """Whether rows are kept unchanged, because values are missing or have errors."""
        return self.measured.missing or self.errors

    @property
    def key(self) -> Hashable:
        return self.kind, self.family in AFFINE, self.apart

    def rows(self, X: Array, *columns: Any) -> Rows:
        rows, kind = Rows(X, *columns, view=self.view), self.kind
        fits = X.shape[0] * distances.width(self.n_features, kind) <= MOST_KEPT
        whole = is_numpy(X) and fits and len(rows.slices) == 1
        # Otherwise every pass makes z(x) of x, a tile at a time, which reads less memory.
        if self.apart or (not whole and (kind == "full" or (kind == "diag" and is_numpy(X)))):
            return rows
        return rows.through(lambda block: distances.features(block.T, kind).T)

    def view(self, block: Array) -> Any:
        """A block of rows in the coordinates of the family."""
        return self.coordinates.inner(block)

    def log_volumes(self, block: Array) -> Any:
        if not self.measured.missing or block.shape[1] != self.n_features:
            return self.coordinates.log_volume()
        return ~np.isnan(block) @ np.log(self.coordinates.scale)

    def place(self, X: np.ndarray) -> np.ndarray:
        """Objects in the coordinates of the family, as z(x) if that is small."""
        X = X * (self.coordinates.scale / self.measured.coordinates.scale)
        X = X if self.coordinates.mix is None else X @ self.coordinates.mix
        small = len(X) * distances.width(self.n_features, self.kind) <= MOST_KEPT
        return distances.features(X.T, self.kind).T if small and not self.apart else X

    def start(self, X: np.ndarray, R: np.ndarray, unit: float, shrink: bool = True) -> State:
        return self.starts(X, R[None], unit, [shrink])[0]

    def starts(
        self, X: np.ndarray, R: np.ndarray, unit: float, shrink: Sequence[bool]
    ) -> list[State]:
        """States with the moments of groups. The scatter of small groups is shrunk to the pooled
        one; parameters that the user gave keep their values."""
        (s, k, n), d, kind = R.shape, self.n_features, self.kind
        Z = distances.features(X.T, kind).T if X.shape[1] == d else X
        if self.given.means is not None:
            means = self.coordinates.inner(np.array(self.given.means))
            nearest = seeding.nearest(Z[:, 1 : d + 1], means)
            R = (nearest == np.arange(k)[:, None]) * R.sum(axis=1, keepdims=True)
        sums = distances.moments(R.reshape(s * k, n) @ Z, d, kind)
        mass, first, second = (part.reshape(s, k, *part.shape[1:]) for part in sums)
        mass = np.maximum(mass, 1e-6 * unit)
        means = first / mass[..., None]
        scatter = about(second, first, mass, means, kind)
        shares = mass / mass.sum(axis=1, keepdims=True)
        pooled = np.sum(spread(shares, scatter) * scatter, axis=1, keepdims=True)
        more = np.array(shrink)[:, None] * unit * (d + 1 if kind == "full" else 2)
        part = spread(mass / (mass + more), scatter)
        # The mean scatter replaces a previous solution; EM refines iterative families.
        before = part * scatter + (1.0 - part) * pooled
        scatter = before * spread(mass, scatter)
        covariances = fitted_covariances(self.family, scatter, mass, before, self.floor, 1)
        box = None
        if self.noise is not None:
            noise = np.full((s, 1), self.noise)
            shares, box = np.hstack([shares * (1.0 - noise), noise]), self._noise_density()
        each = zip(shares, means, covariances, strict=True)
        return [self._with_given(State(*own, self.family, self.floor, box)) for own in each]

    def _noise_density(self) -> np.ndarray:
        """Logarithms (d,) whose sum is the log density of the noise in the family's coordinates."""
        assert self.box is not None
        own, feature = self.coordinates, self.measured.coordinates.unmixed()
        if own.mix is None:
            return self.box - np.log(own.scale / feature.scale)
        return self.box - float(np.linalg.slogdet(own.mix)[1]) / len(self.box)

    def _with_given(self, state: State) -> State:
        weights, means, covariances, frozen = self.given
        if weights is not None:
            state = state._replace(weights=weights)
        if means is not None:
            inner = np.asarray(self.coordinates.inner(means.copy()), dtype=np.float64)
            state = state._replace(means=inner)
        if covariances is not None:
            inner = self._inner_covariances(covariances)
            if "covariances" not in frozen:
                mass = np.full(len(inner), 1.0 / len(inner))
                scatter = inner * spread(mass, inner)
                inner = fitted_covariances(self.family, scatter, mass, None, self.floor)
            state = state._replace(covariances=inner)
        return state

    def _inner_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances in the form that the family needs, in inner coordinates."""
        if self.covariance_type in ("diag", "spherical"):
            scale = self._own_scale()
            return covariances * scale * scale
        M = self.coordinates.inner_matrix()
        inner = M.T @ covariances @ M
        return reduced(np.broadcast_to(inner, (self.n_clusters, *inner.shape[-2:])), self.family)

    def _own_scale(self) -> Any:
        """Units of the coordinates: one for every feature, or one for all."""
        scale = self.coordinates.scale
        return scale if self.covariance_type == "diag" else scale[0]

    def ready(self, state: State) -> Any:
        return state if self.apart else ready(state)

    def logits(self, block: Array, ready: Ready) -> Any:
        if not isinstance(ready, State):
            Z = expanded(block.T, ready)
            return logits(Z, ready)[0] + ready.peak
        return incomplete_logits(np.asarray(block, dtype=np.float64), ready)[0]

    def posterior(self, block: Array, ready: Ready, errors: Weights = None) -> tuple[Any, Any]:
        if not isinstance(ready, State):
            return memberships(block.T, ready)
        if errors is not None:
            X = np.asarray(block, dtype=np.float64)
            M = self.coordinates.inner_matrix()
            U, level, _ = with_errors(X, M.T @ errors @ M, *ready[:2], matrices(ready))
        else:
            U, level = distances.softmax_columns(self.logits(block, ready))
        return U.T.astype(block.dtype), level.astype(block.dtype)

    def summarize(
        self,
        block: Array,
        weights: Weights,
        ready: Ready,
        given: Weights = None,
        errors: Weights = None,
    ) -> Stats:
        if not isinstance(ready, State):
            return summarize(block.T, weights, ready, given)
        X = np.asarray(block, dtype=np.float64)
        if errors is not None:
            M = self.coordinates.inner_matrix()
            inner = M.T @ errors @ M
            return Stats(*deconvolved(X, inner, weights, *ready[:2], matrices(ready)))
        L, parts = incomplete_logits(X, ready)
        R, level = weighted_columns(L, weights, given)
        return Stats(expected_sums(X, parts, R), float(level.sum()))

    def update(self, stats: Any, state: State) -> State:
        kind = self.kind
        if self.apart:
            kind = "full" if self.errors or kind == "full" else "diag"
        return update(stats, state, self.given.frozen, kind, self.prior)

    def log_prior(self, state: State) -> float:
        if self.prior is None:
            return 0.0
        return self.prior.log_density(state.means, state.covariances, self.family)

    def uncounted(self, state: State) -> float:
        # The density of a prior depends on the parametrisation, and is highest for clusters that
        # shrink to a few objects; it would prefer such maxima.
        return self.log_prior(state)

    def unpack(self, vector: np.ndarray, like: State) -> State:
        state = unpack(vector, like)
        return state._replace(**{name: getattr(like, name) for name in self.given.frozen})

    def whole(self, rows: Rows, linked: LinkedRows | None) -> Whole | None:
        """The native loop, for few features in one block of z(x)."""
        if self.apart or self.given.frozen or rows.only_block is None:
            return None
        block, (weights, *free) = rows.only_block[0], rows.columns or (None,)
        if (
            block.shape[1] != distances.width(self.n_features, self.kind)
            or block.dtype != np.float64
            or rows.shape[1] > 16  # plain loops over large matrices are slower than BLAS
            or self.coordinates.thinnest < 1e-8  # for flat data less accurate than LAPACK
        ):
            return None
        if linked is not None:
            if not linked.links.enumerable(self.n_clusters + (self.noise is not None)):
                return None
            weights = free_weights(rows.shape[0], weights, free[0])
        return Whole(block.T, weights, self.prior, linked)

    def n_parameters(self) -> int:
        noise = self.noise is not None
        return n_parameters(self.family, self.n_clusters, self.n_features, noise)

    @cached_property
    def _needed(self) -> float:
        """Number of objects that a component needs: d + 1 for a separate covariance, two for
        separate variances, more than one for a separate volume."""
        d, (volume, shape, orientation) = self.n_features, tuple(self.family)
        if orientation == "V" and shape == "V":
            return d + 1.0
        if shape == "V" or orientation == "V":
            return 2.0
        return 1.0 + 1.0 / d if volume == "V" else 0.0

    def failure(self, state: State, count: float) -> str:
        if self.prior is not None:
            return ""
        spikes = self._collapsed(state, count)
        if not spikes.any():
            return ""
        return f"component {np.flatnonzero(spikes)[0]} of {self.n_clusters} collapsed"

    def is_sound(self, state: State, count: float) -> bool:
        return self.prior is not None or not self._collapsed(state, count).any()

    def _collapsed(self, state: State, count: float) -> np.ndarray:
        """Mask (k,) of components with too few objects or without width."""
        held = state.weights[: self.n_clusters] * count
        return (held < self._needed * (1.0 - 1e-6)) | self._flat(state)

    def _flat(self, state: State) -> np.ndarray:
        """Mask (k,) of components that are flat in a direction in which the data vary."""
        k, flat_data = len(state.means), self.coordinates.thinnest <= 100.0 * state.floor
        if flat_data or has_one_covariance(self.family):
            return np.zeros(k, dtype=bool)
        if not np.isfinite(state.covariances).all():  # all components are degenerate
            return np.ones(k, dtype=bool)
        widths = self._variances(state)
        if widths is None:
            widths = np.linalg.eigvalsh(state.covariances)
        return widths.min(axis=1) <= 1.5 * state.floor

    def _variances(self, state: State) -> np.ndarray | None:
        """Variances (k, d) along the axes; None for covariances with free axes."""
        if self.kind == "full":
            return None
        return np.broadcast_to(state.covariances.reshape(len(state.means), -1), state.means.shape)

    def has_small(self, state: State, count: float) -> bool:
        """Whether a component has too few objects for a shape (d + 1, or 3 if spherical, at most
        half of n / k), as components of a few outliers have."""
        k, d = state.means.shape
        wanted = min(3.0 if self.family[1] == "I" else d + 1.0, 0.5 * count / k)
        return bool((state.weights[:k] * count < wanted * (1.0 - 1e-6)).any())

    def doubt(self, state: State, count: float) -> float:
        """The loss in log-likelihood when the scale of mclust's prior is added to the scatter of
        every component: almost zero for many objects, about ten for seven objects near a line."""
        if self.apart or self.prior is not None:
            return 0.0
        counts, scale = state.weights[: self.n_clusters] * count, self._prior_scale()
        one = has_one_covariance(self.family)
        counts = counts.sum(keepdims=True) if one else counts
        if (variances := self._variances(state)) is not None:
            own = reduced(scale[None], self.family).reshape(1, -1)
            wider = own / variances[: len(counts)]
        else:
            factor = np.linalg.inv(cholesky(state.covariances[: len(counts)], state.floor))
            wider = np.linalg.eigvalsh(factor @ scale @ np.swapaxes(factor, 1, 2))
        wider = np.maximum(wider, 0.0) / np.maximum(counts, 1e-100)[:, None]
        return float(np.sum(counts[:, None] * (np.log1p(wider) - wider / (1.0 + wider))))

    def permuted(self, state: State, order: np.ndarray) -> State:
        weights = np.concatenate([state.weights[order], state.weights[len(order) :]])
        freedom = None if state.freedom is None else state.freedom[order]
        return state._replace(
            weights=weights,
            means=state.means[order],
            covariances=state.covariances[order],
            freedom=freedom,
        )

    def ordered(self, state: State) -> State:
        sizes = np.round(state.weights[: len(state.means)], 6)  # float32 gives the same
        return self.permuted(state, np.lexsort((*state.means.T[::-1], -sizes)))

    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        factors = cholesky(matrices(state), state.floor)
        normal = rng.standard_normal((len(labels), self.n_features))
        deviations = np.einsum("nij,nj->ni", factors[labels], normal)
        return self.coordinates.outer(state.means[labels] + deviations)

    def outer_covariances(self, state: State) -> np.ndarray:
        """Covariances in the units of the data, in the form of their type, exactly symmetric."""
        if self.covariance_type in ("diag", "spherical"):
            scale = self._own_scale()
            return state.covariances / scale / scale
        A = self.coordinates.outer_matrix()
        inner = matrices(state)
        back = A.T @ (inner[0] if self.covariance_type == "tied" else inner) @ A
        return (back + np.swapaxes(back, -1, -2)) / 2.0

    def precision_factors(self, state: State) -> np.ndarray:
        """Upper triangular C such that C C' is the inverse of a covariance of the data."""
        if self.covariance_type in ("diag", "spherical"):
            return self._own_scale() / np.sqrt(state.covariances)
        full = matrices(state)
        full = full[0] if self.covariance_type == "tied" else full
        inner = np.swapaxes(np.linalg.inv(cholesky(full, state.floor)), -1, -2)
        largest = np.finfo(np.float64).max ** 0.99
        with np.errstate(over="ignore", invalid="ignore"):  # e.g. features of size 1e-300
            factor = np.nan_to_num(self.coordinates.inner_matrix() @ inner, posinf=largest)
        factor = np.swapaxes(np.clip(factor, -largest, largest), -1, -2)[..., ::-1]
        upper = np.swapaxes(np.linalg.qr(factor)[1], -1, -2)[..., ::-1, ::-1]
        return upper * np.sign(np.diagonal(upper, axis1=-2, axis2=-1))[..., None, :]

    def for_missing(self, state: State) -> tuple[Gaussian, State]:
        """The same mixture in coordinates that do not mix features, as missing values require."""
        measured, mix = self.measured._replace(missing=True), self.coordinates.mix
        if self.measured.missing or mix is None:
            return replace(self, measured=measured), state
        A, noise = np.linalg.inv(mix), state.noise
        if noise is not None:
            noise = np.full_like(noise, (noise.sum() - np.linalg.slogdet(A)[1]) / len(noise))
        apart = state._replace(
            means=state.means @ A, covariances=A.T @ state.covariances @ A, noise=noise
        )
        return replace(self, measured=measured), apart
