"""Gaussian mixtures by expectation and maximisation (Dempster, Laird and Rubin 1977).

    maximise  sum_i w_i log sum_j pi_j N(x_i | mu_j, Sigma_j)     subject to  Sigma_j >= floor * I
    E:  r_ij ~ pi_j N(x_i | mu_j, Sigma_j)
    M:  N_j = sum_i w_i r_ij,   pi_j = N_j / sum N,   mu_j = sum_i w_i r_ij x_i / N_j,
        Sigma_j = sum_i w_i r_ij x_i x_i' / N_j - mu_j mu_j'

Raising the eigenvalues of Sigma_j to the floor is the exact maximum under that constraint (so is raising variances in the other
shapes), hence the log-likelihood never falls. The logarithm of pi_j N(x | mu_j, Sigma_j) is linear in z(x) (see ``distance``): E and M are
one product each. A noise component, one more row, has the same density everywhere (Banfield and Raftery 1993).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import inplace, is_numpy, namespace, to_numpy
from ...numerics import distances

__all__ = [
    "KINDS",
    "Densities",
    "State",
    "Stats",
    "full_covariances",
    "logits",
    "memberships",
    "n_parameters",
    "ordered",
    "pack",
]
__all__ += ["raise_to", "ready", "restrict", "summarize", "unpack", "update"]

KINDS = {
    "full": "full",
    "tied": "full",
    "diag": "diag",
    "spherical": "spherical",
}  # covariance type: kind of z(x)
LOG_2PI = float(np.log(2.0 * np.pi))
PIECE = 500  # objects whose quadratic features fit into the cache


class State(NamedTuple):
    """Weights (k,), or (k + 1,) with noise last; means (k, d); covariances (k, d, d), (d, d), (k, d) or (k,) by type.

    ``noise`` (d,) sums to the logarithm of the noise component's density; ``floor`` is the least variance in any direction.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    covariance_type: str
    floor: float
    noise: np.ndarray | None = None


class Stats(NamedTuple):
    """Weighted sums of z(x) (k, q), and the log-likelihood of the state they were taken at."""

    sums: np.ndarray
    objective: float


class Densities(NamedTuple):
    """A state as a pass needs it: coefficients (k, q) of log pi_j N(x | mu_j, Sigma_j) - peak, one more row for noise."""

    rows: np.ndarray
    peak: float
    kind: str
    n_features: int


def ready(state: State) -> Densities:
    """Logarithms of the weighted densities as coefficients of z(x); none exceeds ``peak`` anywhere."""
    k, d = state.means.shape
    kind = KINDS[state.covariance_type]
    if kind == "full":
        factor = np.linalg.inv(np.linalg.cholesky(np.broadcast_to(state.covariances, (k, d, d))))
        precisions = np.swapaxes(factor, 1, 2) @ factor
        log_det = 2.0 * np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    else:
        precisions = 1.0 / state.covariances
        log_det = np.sum(np.log(precisions), axis=1) if kind == "diag" else d * np.log(precisions)
    rows = -0.5 * distances.coefficients(state.means, precisions, kind)
    heights = _log(state.weights[:k]) + 0.5 * (log_det - d * LOG_2PI)
    rows[:, 0] += heights
    if state.noise is not None:
        rows = np.vstack([rows, np.zeros((1, rows.shape[1]))])
        rows[k, 0] = _log(state.weights[k]) + state.noise.sum()
        heights = np.append(heights, rows[k, 0])
    peak = float(heights.max())
    rows[:, 0] -= peak
    return Densities(rows, peak, kind, d)


def _log(weights: Any) -> Any:
    return np.log(np.maximum(weights, np.finfo(float).tiny))


def logits(Z: Any, densities: Densities) -> tuple[Any, Any]:
    """log pi_j N(x) - peak (k, b) of the columns of ``Z`` = z(x), and ``Z``, made again in float64 where float32 would not do."""
    Z = precise(Z, densities)
    return namespace(Z).asarray(densities.rows, dtype=Z.dtype, device=Z.device) @ Z, Z


def precise(Z: Any, densities: Densities) -> Any:
    """``Z``, z(x) or x, made again in float64 where float32 would not do."""
    xp, d = namespace(Z), densities.n_features
    if Z.dtype != xp.float32 or _single_will_do(densities):
        return Z
    if Z.shape[0] == d:
        return xp.astype(Z, xp.float64)
    return distances.features(xp.astype(Z[1 : d + 1, :], xp.float64), densities.kind)


def _single_will_do(densities: Densities) -> bool:
    """Whether float32 tells the densities apart."""
    return bool(
        np.finfo(np.float32).eps * densities.n_features * np.abs(densities.rows[:, 1:]).max()
        <= 1e-4
    )


def restrict(L: Any, labels: Any) -> Any:
    """Logits (k, b) with minus infinity in all components but its own for an object whose label is known (not -1)."""
    if labels is None:
        return L
    other = (labels >= 0) & (np.arange(len(L))[:, None] != labels)
    L[other] = -np.inf
    return L


def posterior(Z: Any, densities: Densities, labels: Any = None) -> tuple[Any, Any, Any, Any]:
    """Weighted densities (k, b) relative to a level, their sums (b,), the levels (b,) or number, and ``Z``.

    The peak of the mixture serves all objects as a level, which saves two passes, unless one is so far out that its densities vanish.
    """
    xp = namespace(Z)
    L, Z = logits(Z, densities)
    shift = 300.0 if Z.dtype == xp.float64 else 40.0
    L += shift
    E = inplace("exp", restrict(L, labels))
    total = xp.sum(E, axis=0)
    level = densities.peak - shift
    if float(xp.min(total)) < float(xp.finfo(Z.dtype).smallest_normal) * 1e8:
        L = restrict(logits(Z, densities)[0], labels)
        top = xp.max(L, axis=0)
        L -= top
        E = inplace("exp", L)
        total, level = xp.sum(E, axis=0), top + densities.peak
    return E, total, level, Z


def summarize(Z: Any, weights: Any, densities: Densities, labels: Any = None) -> Stats:
    """Statistics of a block; ``Z`` is z(x) (q, b) or x (d, b), ``weights`` (b,) or None, ``labels`` (b,), -1 for unknown, or None.

    Several blocks (blocks, q, b) will do as well where ``stackable`` says so.
    """
    xp = namespace(Z)
    if weights is not None:
        weights = xp.asarray(weights, dtype=Z.dtype, device=Z.device)
    if labels is None and (xp is np or densities.kind != "full"):
        Z = precise(Z, densities)
        fused = distances.fused_sums(Z, weights, densities.rows, densities.n_features, fuzzy=False)
        if fused is not None:
            count = float(Z.shape[1] if weights is None else xp.sum(weights, dtype=xp.float64))
            return Stats(
                fused[0],
                fused[1]
                + densities.peak * (count if Z.ndim == 2 or weights is not None else Z[:, 0].size),
            )
    if Z.shape[0] == densities.n_features:
        return _in_pieces(Z, weights, densities, labels)
    return _summarize(Z, weights, labels, densities)


def _summarize(Z: Any, weights: Any, labels: Any, densities: Densities) -> Stats:
    xp = namespace(Z)
    E, total, level, Z = posterior(Z, densities, labels)
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


def _in_pieces(X: Any, weights: Any, densities: Densities, labels: Any) -> Stats:
    """Statistics of objects (d, b) whose quadratic features are made a piece at a time."""
    b, parts, Z = X.shape[1], [], None
    size = PIECE if is_numpy(X) else b
    for start in range(0, b, size):
        piece = slice(start, min(start + size, b))
        Z = distances.features(
            X[:, piece], densities.kind, Z if piece.stop - start == size else None
        )
        w, y = (None if column is None else column[piece] for column in (weights, labels))
        parts.append(_summarize(Z, w, y, densities))
    return Stats(
        np.sum([part.sums for part in parts], axis=0), sum(part.objective for part in parts)
    )


def memberships(Z: Any, densities: Densities, labels: Any = None) -> tuple[Any, Any]:
    """Posterior probabilities (b, k), noise last, in the type of ``Z``, and log-densities (b,) of its columns, z(x) or x."""
    xp = namespace(Z)
    Z = distances.features(Z, densities.kind) if Z.shape[0] == densities.n_features else Z
    E, total, level, _ = posterior(Z, densities, labels)
    E /= total
    return xp.astype(E.T, Z.dtype), xp.astype(xp.log(total) + level, Z.dtype)


def update(
    stats: Stats, state: State, frozen: tuple[str, ...] = (), kind: str | None = None
) -> State:
    """The M step; ``kind`` of the sums, if it is not that of the covariance type. A component without mass stays as it is."""
    k, d = state.means.shape
    kind = kind or KINDS[state.covariance_type]
    mass, first, second = distances.moments(stats.sums[:k], d, kind)
    total = float(stats.sums[:, 0].sum())
    alive = mass > 1e-12 * total
    safe = np.where(alive, mass, 1.0)
    means = (
        state.means
        if "means" in frozen
        else np.where(alive[:, None], first / safe[:, None], state.means)
    )
    weights = state.weights if "weights" in frozen else stats.sums[:, 0] / total
    covariances = state.covariances
    if "covariances" not in frozen:
        scatter = _about(second, first, safe, means, kind)
        covariances = _shape(scatter, state, alive, mass, kind)
    return state._replace(weights=weights, means=means, covariances=covariances)


def _about(
    second: np.ndarray, first: np.ndarray, mass: np.ndarray, means: np.ndarray, kind: str
) -> np.ndarray:
    """Mean squared deviations from ``means``, which need not be those of the sums."""
    average = first / mass[:, None]
    gap = average - means
    if kind == "full":
        outer = average[:, :, None] * average[:, None, :] - gap[:, :, None] * gap[:, None, :]
        return second / mass[:, None, None] - outer
    if kind == "diag":
        return second / mass[:, None] - average**2 + gap**2
    return (second / mass - np.sum(average**2 - gap**2, axis=1)) / means.shape[1]


def _shape(
    scatter: np.ndarray, state: State, alive: np.ndarray, mass: np.ndarray, kind: str
) -> np.ndarray:
    """Covariances of the state's type out of scatter of some kind, raised to the floor."""
    wanted = state.covariance_type
    if kind == "full" and wanted == "diag":
        scatter = np.diagonal(scatter, axis1=1, axis2=2)
    elif kind == "full" and wanted == "spherical":
        scatter = np.trace(scatter, axis1=1, axis2=2) / scatter.shape[1]
    elif kind == "diag" and wanted == "spherical":
        scatter = scatter.mean(axis=1)
    if wanted == "tied":
        weights = np.where(alive, mass, 0.0)
        return raise_to(state.floor, np.tensordot(weights, scatter, 1)[None] / weights.sum())[0]
    if wanted == "full":
        return np.where(alive[:, None, None], raise_to(state.floor, scatter), state.covariances)
    keep = alive[:, None] if wanted == "diag" else alive
    return np.where(keep, np.maximum(scatter, state.floor), state.covariances)


def raise_to(floor: float, matrices: np.ndarray) -> np.ndarray:
    """Symmetric matrices (k, d, d) with their eigenvalues raised to ``floor`` where they are below."""
    try:
        np.linalg.cholesky(matrices - floor * np.eye(matrices.shape[-1]))
        return matrices
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrices)
        return (vectors * np.maximum(values, floor)[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def full_covariances(state: State) -> np.ndarray:
    """Covariances as matrices (k, d, d), whatever the type."""
    k, d = state.means.shape
    if KINDS[state.covariance_type] == "full":
        return np.broadcast_to(state.covariances, (k, d, d))
    diagonal = (
        state.covariances
        if state.covariance_type == "diag"
        else np.repeat(state.covariances[:, None], d, axis=1)
    )
    return diagonal[:, :, None] * np.eye(d)


def n_parameters(k: int, d: int, covariance_type: str, noise: bool = False) -> int:
    """Free parameters of a mixture of ``k`` components in ``d`` dimensions."""
    free = {"full": k * d * (d + 1) // 2, "tied": d * (d + 1) // 2, "diag": k * d, "spherical": k}[
        covariance_type
    ]
    return k * d + free + k - 1 + int(noise)


def ordered(state: State) -> State:
    """The same components in the order of their means, so that equal fits number them alike."""
    order = np.lexsort(state.means.T[::-1])
    weights = np.concatenate([state.weights[order], state.weights[len(order) :]])
    covariances = state.covariances if state.covariance_type == "tied" else state.covariances[order]
    return state._replace(weights=weights, means=state.means[order], covariances=covariances)


def pack(state: State) -> np.ndarray:
    """The state as one vector of unconstrained numbers: log weights, means, logarithms or Cholesky factors of covariances."""
    covariances = state.covariances
    if KINDS[state.covariance_type] == "full":
        shape = distances.cholesky_coordinates(covariances.reshape(-1, *covariances.shape[-2:]))
    else:
        shape = 0.5 * np.log(covariances)
    return np.concatenate([_log(state.weights), state.means.ravel(), shape.ravel()])


def unpack(vector: np.ndarray, like: State) -> State:
    """The state that ``pack`` made a vector of, brought back under its constraints."""
    n, (k, d) = len(like.weights), like.means.shape
    weights = np.exp(vector[:n] - vector[:n].max())
    shape = vector[n + k * d :]
    if KINDS[like.covariance_type] == "full":
        m = len(shape) // (d * (d + 1) // 2)
        covariances = raise_to(
            like.floor, distances.from_cholesky_coordinates(shape.reshape(m, -1), d)
        )
        covariances = covariances[0] if like.covariance_type == "tied" else covariances
    else:
        covariances = np.maximum(
            np.exp(2.0 * np.clip(shape, -300.0, 300.0)).reshape(like.covariances.shape), like.floor
        )
    return like._replace(
        weights=weights / weights.sum(),
        means=vector[n : n + k * d].reshape(k, d),
        covariances=covariances,
    )
