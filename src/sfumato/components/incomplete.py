"""Expected sums for normal clusters with missing values or known measurement errors.

With missing values, the density of an object is that of its observed values (Ghahramani and Jordan
1994), and expectations replace missing values (``numerics.missing``). Errors with known covariance
S_i (extreme deconvolution, Bovy, Hogg and Roweis 2011) widen the density of an object, and the
expectations are those of the object without its error:

    r_ij ~ pi_j N(x_i | mu_j, T_ij),      T_ij = Sigma_j + S_i
    E[v_i | x_i, j] = mu_j + Sigma_j T_ij^-1 (x_i - mu_j),
            Cov[v_i | x_i, j] = Sigma_j - Sigma_j T_ij^-1 Sigma_j
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.types import ArrayLike, Weights
from ..array.validation import check_array
from ..conjugate.normal import LOG_2PI
from ..numerics import distances
from ..numerics.missing import Independent, Marginal, Patterns


def marginals(X: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> list[Any]:
    """Every cluster evaluated at rows (b, d), with NaN for missing values. Covariances are
    matrices (k, d, d), or variances (k, d) or (k,)."""
    if covariances.ndim < 3:
        variances = np.broadcast_to(covariances.reshape(len(means), -1), means.shape)
        return [Independent.of(X, *each) for each in zip(means, variances, strict=True)]
    patterns = Patterns.of(X)
    return [Marginal.of(X, patterns, *each) for each in zip(means, covariances, strict=True)]


def expected_sums(
    X: np.ndarray, parts: list[Any], R: np.ndarray, spread: np.ndarray | None = None
) -> np.ndarray:
    """Expected sums (k, q) of z(x) with weights ``R`` (k, b), noise last. ``spread`` (k, b) are
    separate weights for the missing part of a row."""
    found = np.zeros((len(R), 0))
    for j, part in enumerate(parts):
        first, second = part.moments(X, R[j], None if spread is None else spread[j])
        second = distances.pack(second[None])[0] if second.ndim == 2 else second
        if not found.shape[1]:
            found = np.zeros((len(R), 1 + len(first) + len(second)))
        found[j, 1:] = np.concatenate([first, second])
    found[:, 0] = R.sum(axis=1)
    return found


def with_errors(
    X: np.ndarray, errors: np.ndarray, weights: np.ndarray, means: np.ndarray, spreads: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Posterior probabilities (k, b) and log-densities (b,) of objects with errors, and for every
    component, of covariance ``spreads``, Sigma_j T^-1 (x - mu_j) (b, d) and Sigma_j T^-1 (b, d,
    d)."""
    d = X.shape[1]
    L, gains = np.empty((len(means), len(X))), []
    shares = np.log(np.maximum(weights, np.finfo(float).tiny))
    for j, covariance in enumerate(spreads):
        T = covariance + errors
        factor = distances.roots(T)
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        gap = X - means[j]
        gain = np.swapaxes(np.linalg.solve(T, np.broadcast_to(covariance, T.shape)), 1, 2)
        white = np.linalg.solve(factor, gap[:, :, None])[:, :, 0]
        L[j] = shares[j] - 0.5 * (np.sum(white * white, axis=1) + log_det + d * LOG_2PI)
        gains.append(((gain @ gap[:, :, None])[:, :, 0], gain))
    return *distances.softmax_columns(L), gains


def deconvolved(
    X: np.ndarray, errors: np.ndarray, own: Weights, *parameters: np.ndarray
) -> tuple[np.ndarray, float]:
    """Expected sums of (1, v, v v'), and the log-likelihood of objects of weight ``own`` with
    errors; ``parameters`` are the last arguments of ``with_errors``."""
    R, level, gains = with_errors(X, errors, *parameters)
    if own is not None:
        R, level = R * own, level * own
    sums = np.zeros((len(R), distances.width(X.shape[1], "full")))
    for j, (mean, covariance) in enumerate(zip(*parameters[1:], strict=True)):
        shift, gain = gains[j]
        v, mass = mean + shift, R[j].sum()
        spread = mass * covariance - np.tensordot(R[j], gain, 1) @ covariance
        second = (v.T * R[j]) @ v + (spread + spread.T) / 2.0
        sums[j] = np.concatenate([[mass], R[j] @ v, distances.pack(second[None])[0]])
    return sums, float(level.sum())


def check_errors(value: ArrayLike, X: Any, d: int) -> np.ndarray:
    """Error covariances (n, d, d) of the rows of ``X``, from variances (n, d) or covariances."""
    if not isinstance(X, np.ndarray) or np.isnan(X).any():
        raise ValueError("measurement_error needs X as a NumPy array without missing values")
    errors = check_array(value, "measurement_error", (len(X), d), (len(X), d, d))
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
