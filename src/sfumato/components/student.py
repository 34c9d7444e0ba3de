"""Clusters with heavy tails: multivariate t distributions (Peel and McLachlan 2000).

    maximise  sum_i w_i log sum_j pi_j t(x_i | mu_j, Sigma_j, nu_j)

    d_ij = (x_i - mu_j)' Sigma_j^-1 (x_i - mu_j),   o_i = number of observed features of object i
    r_ij ~ pi_j t(x_i | ...),   u_ij = (nu_j + o_i) / (nu_j + d_ij),   v_ij = w_i r_ij u_ij

    mu_j = sum_i v_ij x_i / sum_i v_ij,   Sigma_j from  N_j = sum_i w_i r_ij  and
    the scatter  sum_i v_ij (x_i - mu_j)(x_i - mu_j)'  by the M step of its covariance family,
    nu_j solves  log(nu/2) - psi(nu/2) + 1 + G_j / N_j = 0,
    G_j = sum_i w_i r_ij ( psi((nu_j + o_i)/2) - log((nu_j + d_ij)/2) - u_ij ), at the old nu_j.

Marginals of a t distribution are t distributions with the same nu, so missing values are integrated
out: they are replaced by their conditional means, and their conditional covariance (the Gaussian
one, without u) is added to the scatter. Everything else is as for normal clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, chdtri, digamma, gammaln, zeta

from ..array.arrays import as_dense
from ..array.rows import Rows
from ..array.types import Array, Weights
from ..engine.component import Component
from ..numerics import distances
from ..numerics.distances import weighted_columns
from . import gaussian as kernel
from .gaussian import Gaussian, State, matrices
from .incomplete import expected_sums, marginals

# Range of the degrees of freedom: one is a Cauchy distribution; at 200 (where R's teigen stops too)
# data can hardly distinguish the density from a normal one, and the likelihood is flat.
BOUNDS = (1.0, 200.0)
FREEDOM = 5.0  # degrees of freedom at the start of a run, unless given
# A cluster of outliers: its 90 % ellipse contains the mean of a cluster with at most a quarter of
# its mean variance. Set on three groups with a uniform background; two touching groups with
# standard deviations 1 and 2 are far from it.
INSIDE, WIDE = 0.9, 4.0


class Stats(NamedTuple):
    """Sums of z(x) weighted by v (k, q), N (k,), G (k,), and the log-likelihood."""

    sums: np.ndarray
    mass: np.ndarray
    tails: np.ndarray
    objective: float


class Ready(NamedTuple):
    """Quantities needed in a pass over complete rows: coefficients (k, q) of z(x) for squared
    distances, and log-determinants (k,) of the inverse scale matrices."""

    state: State
    rows: np.ndarray
    log_det: np.ndarray


@dataclass(frozen=True, eq=False)
class Student(Gaussian):
    """Clusters with heavy tails; ``tails`` are degrees of freedom: "common", "each" or a number."""

    tails: str | float = "common"

    @staticmethod
    def pack(state: State) -> np.ndarray:
        # The likelihood is nearly linear in 1 / nu if that is small.
        return np.concatenate([kernel.pack(state), 1.0 / state.freedom])

    def unpack(self, vector: np.ndarray, like: State) -> State:
        state = kernel.unpack(vector[: -self.n_clusters], like)
        if not isinstance(self.tails, str):
            return state
        inverse = np.clip(vector[-self.n_clusters :], 1.0 / BOUNDS[1], 1.0 / BOUNDS[0])
        return state._replace(freedom=1.0 / inverse)

    @property
    def leads(self) -> bool:
        return self.family in ("EEE", "VVV")

    def view(self, block: Array) -> np.ndarray:
        """Rows in float64."""
        return super().view(as_dense(block, np.float64))

    def starts(
        self, X: np.ndarray, R: np.ndarray, unit: float, shrink: Sequence[bool]
    ) -> list[State]:
        """States of groups, all with the same starting degrees of freedom."""
        nu = np.full(self.n_clusters, FREEDOM if isinstance(self.tails, str) else self.tails)
        return [one._replace(freedom=nu) for one in super().starts(X, R, unit, shrink)]

    def ready(self, state: State) -> Any:
        return state if self.apart else Ready(state, *kernel.squares(state))

    def whole(self, rows: Rows, linked: object) -> None:
        return None

    def _look(
        self, block: Array, ready: Ready | State
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Evaluated clusters (z(x) for complete rows), log( pi_j t ) (k, b), squared distances (k,
        b), and numbers of observed features (b,) or (1,)."""
        if isinstance(ready, Ready):
            state, d = ready.state, self.n_features
            parts = distances.features(block.T, self.kind) if block.shape[1] == d else block.T
            delta, seen = ready.rows @ parts, np.array([float(d)])
            level = 0.5 * ready.log_det[:, None]
        else:
            state, parts = ready, marginals(np.asarray(block, dtype=np.float64), *ready[1:3])
            delta = np.stack([part.distance for part in parts])
            seen = parts[0].n_seen.astype(np.float64)
            level = 0.5 * np.stack([part.level for part in parts])
        delta = np.maximum(delta, 0.0)
        nu, o = state.freedom[:, None], np.maximum(seen, 1e-300)
        # betaln stays accurate for large nu, where the gamma functions cancel.
        constant = gammaln(o / 2) - betaln(nu / 2, o / 2) - 0.5 * o * np.log(np.pi * nu)
        value = constant + level - 0.5 * (nu + o) * np.log1p(delta / nu)
        value = np.where(seen > 0, value, 0.0)
        return parts, value + kernel.log_weights(state.weights)[:, None], delta, seen

    def logits(self, block: Array, ready: Ready | State) -> np.ndarray:
        return self._look(block, ready)[1]

    def posterior(self, block: Array, ready: Ready, errors: Weights = None) -> tuple[Any, Any]:
        return Component.posterior(self, block, ready)

    def summarize(
        self,
        block: Array,
        weights: Weights,
        ready: Ready | State,
        given: Weights = None,
        errors: Weights = None,
    ) -> Any:
        parts, joint, delta, seen = self._look(block, ready)
        R, level = weighted_columns(joint, weights, given)
        nu = (ready.state if isinstance(ready, Ready) else ready).freedom[:, None]
        u = (nu + seen) / (nu + delta)
        expected = digamma((nu + seen) / 2) - np.log((nu + delta) / 2) - u
        if isinstance(ready, Ready):
            sums = (R * u) @ parts.T
        else:
            sums = expected_sums(np.asarray(block, dtype=np.float64), parts, R * u, R)
        tails = np.einsum("kb,kb->k", R, expected)
        return Stats(sums, R.sum(axis=1), tails, float(level.sum()))

    def update(self, stats: Any, state: State) -> State:
        state = super().update(stats, state)
        if not isinstance(self.tails, str):
            return state
        mass = np.maximum(stats.mass, 1e-300)
        if self.tails == "common":
            common = _root(float(stats.tails.sum() / mass.sum()))
            return state._replace(freedom=np.full(len(mass), common))
        return state._replace(freedom=np.array([_root(float(g)) for g in stats.tails / mass]))

    def n_parameters(self) -> int:
        more = {"common": 1, "each": self.n_clusters} if isinstance(self.tails, str) else {}
        return super().n_parameters() + more.get(str(self.tails), 0)

    def has_small(self, state: State, count: float) -> bool:
        return False  # small clusters make the candidate fail, not the run

    def doubt(self, state: State, count: float) -> float:
        return 0.0

    def failure(self, state: State, count: float) -> str:
        # Outliers are left to the tails, also if the number is given, so that a search and the
        # number it finds give the same answer.
        (k, d), tails = state.means.shape, "outliers are left to the tails"
        if self._collapsed(state, count).any():
            return "a cluster holds too few objects for its shape, or has no width"
        if (found := around(state)) is not None:
            return f"cluster {found[0]} lies around cluster {found[1]}: {tails}"
        least = int(np.argmin(state.weights))
        # Twice as many as a shape needs, but at most half of n / k.
        if state.weights[least] * count < min(2.0 * (d + 1), 0.5 * count / k) * (1.0 - 1e-6):
            return f"cluster {least} holds few objects for a shape of its own: {tails}"
        return ""

    def draw(self, state: State, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        nu, d = state.freedom[labels], self.n_features
        factors = distances.roots(matrices(state))
        deviations = np.einsum("nij,nj->ni", factors[labels], rng.standard_normal((len(nu), d)))
        spread = np.sqrt(nu / rng.chisquare(nu))
        return self.coordinates.outer(state.means[labels] + deviations * spread[:, None])


def _root(level: float) -> float:
    """nu within the bounds such that log(nu/2) - psi(nu/2) + 1 + level = 0."""
    half, inverse = 2.5, 1.0 / max(-1.0 - level, 1e-100)
    for _ in range(6):  # Newton steps for 1 / (log h - psi(h)), which is nearly linear in h
        gap = float(np.log(half) - digamma(half))
        step = (inverse - 1.0 / gap) * gap**2 / (float(zeta(2, half)) - 1.0 / half)
        half = min(max(half + step, BOUNDS[0] / 2), BOUNDS[1] / 2)
    return 2.0 * half


def around(state: State) -> tuple[int, int] | None:
    """The first wide cluster that contains the mean of another one, and that other; or None."""
    k, d = state.means.shape
    full = matrices(state)
    volume = np.linalg.slogdet(full)[1] / d
    for wide in np.flatnonzero(np.isfinite(volume)):  # a flat cluster contains no others
        gaps = state.means - state.means[wide]
        squares = np.einsum("ij,ij->i", gaps, np.linalg.solve(full[wide], gaps.T).T)
        inside = (squares < chdtri(d, 1 - INSIDE)) & (volume[wide] - volume > np.log(WIDE))
        if inside.any():
            return int(wide), int(np.argmax(inside))
    return None
