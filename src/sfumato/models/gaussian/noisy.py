"""Objects measured with known errors: extreme deconvolution (Bovy, Hogg and Roweis 2011).

An object is seen as x_i = v_i + e_i with e_i ~ N(0, S_i), and the mixture is that of the v_i:

    r_ij ~ pi_j N(x_i | mu_j, T_ij),      T_ij = Sigma_j + S_i
    E[v_i | x_i, j] = mu_j + Sigma_j T_ij^-1 (x_i - mu_j),
            Cov[v_i | x_i, j] = Sigma_j - Sigma_j T_ij^-1 Sigma_j

The expected sums of (1, v, v v') take the place of those of the objects: the M step is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...array.types import ArrayLike
from ...numerics import distances
from ...numerics.coordinates import Coordinates
from . import kernel
from .kernel import LOG_2PI, State, Stats
from .likelihood import Likelihood

__all__ = ["NoisyLikelihood", "check_errors", "likelihood_of", "memberships"]

LARGEST = 1e100  # errors, in variances of the data, whose determinants are still numbers
PIECE = 4096  # objects whose matrices are held at once


def check_errors(value: ArrayLike, n: int, d: int) -> np.ndarray:
    """Error covariances (n, d, d) out of variances (n, d) or covariances."""
    try:
        errors = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"measurement_error must be an array of shape ({n}, {d}), variances, or ({n}, {d}, "
            f"{d}), covariances; got {value!r}"
        ) from error
    if errors.shape not in ((n, d), (n, d, d)):
        raise ValueError(
            f"measurement_error must have shape ({n}, {d}), variances, or ({n}, {d}, {d}), "
            f"covariances; got shape {errors.shape}"
        )
    if not np.isfinite(errors).all():
        raise ValueError(
            "measurement_error must be finite: leave out objects whose error is not known"
        )
    if errors.ndim == 2:
        errors = errors[:, :, None] * np.eye(d)
    largest = np.abs(errors).max(initial=0.0)
    if (np.abs(errors - np.swapaxes(errors, 1, 2)) > 1e-8 * largest).any():
        raise ValueError("measurement_error must hold symmetric covariances")
    errors = (errors + np.swapaxes(errors, 1, 2)) / 2.0
    least = np.linalg.eigvalsh(errors).min(initial=0.0)
    if least < -1e-10 * largest:
        raise ValueError(
            f"measurement_error must hold variances or covariances that are not negative, got "
            f"{least:g}"
        )
    return errors


def _expect(
    X: np.ndarray, errors: np.ndarray, state: State
) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Posterior probabilities (k, n), log-densities (n,), and Sigma_j T^-1 (x - mu_j) (n, d) with
    Sigma_j T^-1 (n, d, d) for every component.
    """
    d = X.shape[1]
    L, gains = np.empty((len(state.means), len(X))), []
    shares = np.log(np.maximum(state.weights, np.finfo(float).tiny))
    for j, covariance in enumerate(kernel.matrices(state)):
        T = covariance + errors
        factor = distances.roots(T)
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        gap = X - state.means[j]
        gain = np.swapaxes(np.linalg.solve(T, np.broadcast_to(covariance, T.shape)), 1, 2)
        white = np.linalg.solve(factor, gap[:, :, None])[:, :, 0]
        L[j] = shares[j] - 0.5 * (np.sum(white * white, axis=1) + log_det + d * LOG_2PI)
        gains.append(((gain @ gap[:, :, None])[:, :, 0], gain))
    R, level = distances.softmax_columns(L)
    return R, level, gains


def memberships(X: np.ndarray, errors: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities (n, k) and log-densities (n,) of inner objects with errors."""
    parts = [_expect(X[at], errors[at], state)[:2] for at in _pieces(len(X))]
    return np.concatenate([R.T for R, _ in parts]), np.concatenate([level for _, level in parts])


def _pieces(n: int) -> list[slice]:
    return [slice(start, start + PIECE) for start in range(0, n, PIECE)]


def _summarize(
    X: np.ndarray, errors: np.ndarray, weights: np.ndarray | None, state: State
) -> Stats:
    """Expected sums of (1, v, v v') and the log-likelihood of some objects."""
    R, level, gains = _expect(X, errors, state)
    if weights is not None:
        R, level = R * weights, level * weights
    sums = np.zeros((len(R), distances.width(X.shape[1], "full")))
    for j, covariance in enumerate(kernel.matrices(state)):
        shift, gain = gains[j]
        v, mass = state.means[j] + shift, R[j].sum()
        spread = mass * covariance - np.tensordot(R[j], gain, 1) @ covariance
        second = (v.T * R[j]) @ v + (spread + spread.T) / 2.0
        sums[j] = np.concatenate([[mass], R[j] @ v, distances.pack(second[None])[0]])
    return Stats(sums, float(level.sum()))


@dataclass(frozen=True)
class NoisyLikelihood(Likelihood):
    """Log-likelihood of objects (n, d) with error covariances (n, d, d), in inner coordinates."""

    objects: np.ndarray | None = None
    errors: np.ndarray | None = None
    weights: np.ndarray | None = None

    def sum(self, state: State) -> Stats:
        """Expected statistics of all objects at a state."""
        assert self.objects is not None  # both are set where it is made
        assert self.errors is not None
        parts = [
            _summarize(
                self.objects[at],
                self.errors[at],
                None if self.weights is None else self.weights[at],
                state,
            )
            for at in _pieces(len(self.objects))
        ]
        sums = np.sum([part.sums for part in parts], axis=0)
        return Stats(sums, float(np.sum([part.objective for part in parts])))

    def update(self, stats: Stats, state: State) -> State:
        """The M step on sums of kind "full", whatever the family."""
        return kernel.update(stats, state, self.frozen, "full", self.prior)

    def memberships(self, state: State) -> Any:
        """Memberships (n, k) of all objects, their errors known."""
        assert self.objects is not None
        assert self.errors is not None
        return memberships(self.objects, self.errors, state)[0]

    def rating(self, state: State) -> tuple[float, float]:
        """The log-likelihood, and the sum of the logarithms of every object's largest membership.

        Both weighted.
        """
        sure = np.log(self.memberships(state).max(axis=1))
        certain = sure.sum() if self.weights is None else sure @ self.weights
        return float(self.sum(state).objective), float(certain)

    def _small(self) -> None:
        return None


def inner_errors(errors: np.ndarray, coordinates: Coordinates) -> np.ndarray:
    """Covariances (n, d, d) of errors in the coordinates of a fit."""
    M = coordinates.inner_matrix()
    with np.errstate(over="ignore", invalid="ignore"):  # what is no number is refused
        inner = M.T @ errors @ M
    if not np.abs(inner).max(initial=0.0) <= LARGEST:
        raise ValueError(
            f"measurement_error is more than {LARGEST:g} times the variance of X: give variances, "
            "in the squared units of X"
        )
    return inner


def likelihood_of(
    X: np.ndarray, weights: np.ndarray | None, errors: np.ndarray, plain: Likelihood
) -> NoisyLikelihood:
    """The likelihood of objects with errors, in the coordinates of one that takes them as exact."""
    coordinates = plain.view.coordinates
    return NoisyLikelihood(
        view=plain.view,
        rows=plain.rows,
        total=plain.total,
        count=plain.count,
        frozen=plain.frozen,
        prior=plain.prior,
        objects=coordinates.inner(np.array(X, dtype=np.float64)),
        errors=inner_errors(errors, coordinates),
        weights=weights,
    )
