"""The fourteen covariance families of Celeux and Govaert (1995), by the names of R's mclust.

    Sigma_j = lambda_j D_j A_j D_j'      volume lambda_j, shape A_j (diagonal, det 1), orientation D_j

The three letters of a name say whether volume, shape and orientation are equal (E), varying (V) or
the identity (I). The M step minimises, over the covariances of the family,

    sum_j  N_j log det Sigma_j + tr(W_j Sigma_j^-1)

for masses N_j and scatter matrices W_j = sum_i r_ij (x_i - mu_j)(x_i - mu_j)'. Once the axes D_j are
known, only the sums of squares along them count (the diagonals of D_j' W_j D_j), and volume and
shape follow from these. Common axes of varying shapes (EVE, VVE) come from planar rotations: for two
axes the minimum over the angle has a closed form, so that a sweep over all pairs lowers the criterion
whatever the conditioning (the majorization of Browne and McNicholas needs steps in proportion to the
ratio of the eigenvalues).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = [
    "ALIASES",
    "FAMILIES",
    "as_matrices",
    "covariances",
    "family_of",
    "kind_of",
    "n_covariance_parameters",
    "n_parameters",
]

FAMILIES = (
    *("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE"),
    *("VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"),
)
ALIASES = {"full": "VVV", "tied": "EEE", "diag": "VVI", "spherical": "VII"}
INNER_STEPS = 200  # most steps of the iterative M steps; warm starts need a few of them
INNER_TOL = 1e-9  # relative change of the variances at which they stop
SMALLEST = 1e-300  # keeps logarithms of sums of squares finite


def family_of(covariance_type: str) -> str:
    """Name of the family: one of the fourteen, or what scikit-learn's name stands for."""
    return ALIASES.get(covariance_type, covariance_type)


def kind_of(family: str) -> str:
    """What the M step needs of the scatter: "spherical" (traces), "diag" (diagonals) or "full"."""
    return "spherical" if family[1] == "I" else "diag" if family[2] == "I" else "full"


def n_covariance_parameters(family: str, k: int, d: int) -> int:
    """Free parameters of ``k`` covariances in ``d`` dimensions, as mclust counts them."""
    times = {"E": 1, "V": k, "I": 0}
    volume, shape, orientation = (times[letter] for letter in family)
    return volume + shape * (d - 1) + orientation * (d * (d - 1) // 2)


def n_parameters(family: str, k: int, d: int, noise: bool = False) -> int:
    """Free parameters of a mixture: weights, means, covariances, and the share of the noise."""
    return k - 1 + k * d + n_covariance_parameters(family, k, d) + int(noise)


def covariances(
    family: str,
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None = None,
    floor: float = 0.0,
    n_steps: int = INNER_STEPS,
) -> np.ndarray:
    """Covariances of the family that maximise the expected log-likelihood.

    Parameters
    ----------
    family : str
        One of ``FAMILIES``.
    scatter : array of shape (k, d, d)
        Weighted sums of squares about the means. The families whose kind is "diag" also take their
        diagonals (k, d), and those whose kind is "spherical" their traces (k,) with ``mass`` counted
        once for each feature.
    mass : array of shape (k,)
        Sums of the responsibilities, all positive.
    previous : array, optional
        Covariances of the last step, shaped like the result: where iterative families begin.
    floor : float
        Least variance in any direction.
    n_steps : int
        Most steps of an iterative family (VEI, VEE, VEV, EVE, VVE). Every step improves the
        criterion, so a few are enough inside EM, where ``previous`` is close.

    Returns
    -------
    covariances : array of shape (k, d, d), (k, d) or (k,), by the kind of the family
    """
    kind = kind_of(family)
    if kind == "spherical":
        return _spherical(family, scatter, mass, floor)
    if kind == "diag":
        spread = _diagonals(scatter) if scatter.ndim == 3 else scatter
        return _variances(family[:2], spread, mass, previous, floor, n_steps)
    if family == "EEE":
        pooled = _raised(scatter.sum(axis=0)[None] / mass.sum(), floor)
        return np.broadcast_to(pooled, scatter.shape)
    if family == "VVV":
        return _raised(scatter / mass[:, None, None], floor)
    if family == "VEE":
        return _proportional(scatter, mass, previous, floor, n_steps)
    if family[2] == "V":
        return _own_axes(family[:2], scatter, mass, previous, floor, n_steps)
    return _common_axes(family[:2], scatter, mass, previous, floor, n_steps)


def as_matrices(values: np.ndarray, d: int) -> np.ndarray:
    """Covariances of any kind as matrices (k, d, d)."""
    if values.ndim == 3:
        return values
    variances = np.broadcast_to(values.reshape(len(values), -1), (len(values), d))
    return variances[:, :, None] * np.eye(d)


def _diagonals(matrices: np.ndarray) -> np.ndarray:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _spherical(family: str, scatter: np.ndarray, mass: np.ndarray, floor: float) -> np.ndarray:
    if scatter.ndim == 3:
        scatter, mass = np.trace(scatter, axis1=1, axis2=2), mass * scatter.shape[1]
    if family[0] == "E":
        return np.full(len(mass), max(float(scatter.sum() / mass.sum()), floor))
    return np.maximum(scatter / mass, floor)


def _variances(
    letters: str,
    spread: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None,
    floor: float,
    n_steps: int,
) -> np.ndarray:
    """Variances (k, d) along known axes from the sums of squares along them, by volume and shape."""
    if letters == "EE":
        pooled = np.maximum(spread.sum(axis=0) / mass.sum(), floor)
        return np.broadcast_to(pooled, spread.shape).copy()
    means = np.maximum(spread / mass[:, None], max(floor, SMALLEST))
    if letters == "VV":
        return means
    if letters == "EV":
        sizes = np.exp(np.mean(np.log(means), axis=1))
        volume = float(mass @ sizes / mass.sum())
        return np.maximum(volume * means / sizes[:, None], floor)
    start = means if previous is None else np.maximum(previous, SMALLEST)
    volumes = np.exp(np.mean(np.log(start), axis=1))
    for _ in range(n_steps):
        shape = _unit_volume(mass / volumes @ means)
        new = np.maximum(np.mean(means / shape, axis=1), SMALLEST)
        done = np.all(np.abs(new - volumes) <= INNER_TOL * volumes)
        volumes = new
        if done:
            break
    return np.maximum(volumes[:, None] * shape, floor)


def _unit_volume(values: np.ndarray) -> np.ndarray:
    """Positive values scaled so that their product is one."""
    return values / np.exp(np.mean(np.log(values), axis=-1, keepdims=True))


def _raised(matrices: np.ndarray, floor: float) -> np.ndarray:
    """Symmetric matrices (k, d, d) with eigenvalues below ``floor`` raised to it."""
    try:
        np.linalg.cholesky(matrices - floor * np.eye(matrices.shape[-1]))
        return matrices
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(matrices)
        return _composed(axes, np.maximum(values, floor))


def _composed(axes: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Covariances (k, d, d) of variances (k, d) along axes (d, d) or (k, d, d), symmetric."""
    matrices = (axes * variances[:, None, :]) @ np.swapaxes(axes, -1, -2)
    return (matrices + np.swapaxes(matrices, 1, 2)) / 2.0


def _own_axes(
    letters: str,
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None,
    floor: float,
    n_steps: int,
) -> np.ndarray:
    """EEV, VEV and EVV: every component has the principal axes of its own scatter."""
    spread, axes = np.linalg.eigh(scatter)
    before = None if previous is None else np.linalg.eigvalsh(previous)
    return _composed(
        axes, _variances(letters, np.maximum(spread, 0.0), mass, before, floor, n_steps)
    )


def _proportional(
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None,
    floor: float,
    n_steps: int,
) -> np.ndarray:
    """VEE: multiples of one matrix, which is updated in turn with the multiples."""
    d = scatter.shape[1]
    means = scatter / mass[:, None, None]
    start = means if previous is None else previous
    volumes = np.maximum(np.linalg.det(_raised(start, max(floor, SMALLEST))), SMALLEST) ** (1 / d)
    for _ in range(n_steps):
        matrix = np.tensordot(mass / volumes, means, 1)
        matrix = _raised(matrix[None] / mass.sum(), SMALLEST)[0]
        matrix = matrix / np.exp(np.linalg.slogdet(matrix)[1] / d)
        new = np.einsum("kab,ba->k", means, np.linalg.inv(matrix)) / d
        new = np.maximum(new, SMALLEST)
        done = np.all(np.abs(new - volumes) <= INNER_TOL * volumes)
        volumes = new
        if done:
            break
    return _raised(volumes[:, None, None] * matrix, floor)


def _common_axes(
    letters: str,
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None,
    floor: float,
    n_steps: int,
) -> np.ndarray:
    """EVE and VVE: one set of axes, turned in pairs, in turn with the variances along them.

    The criterion may have several minima: without a previous solution, the axes of every component
    are tried beside those of their sum.
    """
    if previous is not None:
        starts = [_first_axes(previous)]
    else:
        starts = [_first_axes(scatter), *np.linalg.eigh(scatter)[1]]
    ends = [_turned(axes, letters, scatter, mass, floor, n_steps) for axes in starts]
    axes, variances, _ = min(ends, key=lambda end: end[2])
    return _composed(axes, variances)


def _turned(
    axes: np.ndarray,
    letters: str,
    scatter: np.ndarray,
    mass: np.ndarray,
    floor: float,
    n_steps: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Common axes, the variances (k, d) along them and the criterion, from a first set of axes."""
    axes, rotated = axes.copy(), axes.T @ scatter @ axes
    variances = _variances(letters, _diagonals(rotated), mass, None, floor, n_steps)
    for _ in range(n_steps):
        angle = _sweep(axes, rotated, 1.0 / variances)
        variances = _variances(letters, _diagonals(rotated), mass, None, floor, n_steps)
        if angle <= 1e-7:
            break
    spread = np.sum(_diagonals(rotated) / variances, axis=1)
    return axes, variances, float(np.sum(mass * np.log(variances).sum(axis=1) + spread))


def _first_axes(matrices: np.ndarray) -> np.ndarray:
    """Principal axes (d, d) of the sum of the matrices, each divided by its trace.

    For covariances that have common axes these are the axes, unless shapes cancel; the weights
    1, 2, ... make that unlikely.
    """
    sizes = np.maximum(np.trace(matrices, axis1=1, axis2=2), SMALLEST)
    uneven = (1.0 + np.arange(len(matrices)) / len(matrices)) / sizes
    return np.linalg.eigh(np.tensordot(uneven, matrices, 1))[1]


def _sweep(axes: np.ndarray, rotated: np.ndarray, precisions: np.ndarray) -> float:
    """Turn every pair of axes to its best angle, in place; the largest angle.

    ``rotated`` (k, d, d) are the scatter matrices in the coordinates of the axes. The criterion of
    two axes is  a cos 2t + b sin 2t  up to a constant, t the angle.
    """
    largest = 0.0
    for one, other in _pairs(len(axes)):
        gap = precisions[:, one] - precisions[:, other]
        a = 0.5 * float(gap @ (rotated[:, one, one] - rotated[:, other, other]))
        b = float(gap @ rotated[:, one, other])
        if a == 0.0 and b == 0.0:
            continue
        # The minimum is half a turn from the maximum; b = 0 and a < 0 means the axes may stay.
        angle = 0.5 * np.arctan2(-b, -a)
        largest = max(largest, abs(angle))
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s], [s, c]])
        pair = [one, other]
        axes[:, pair] = axes[:, pair] @ turn
        rotated[:, :, pair] = rotated[:, :, pair] @ turn
        rotated[:, pair, :] = turn.T @ rotated[:, pair, :]
    return largest


def _pairs(d: int) -> Iterator[Any]:
    return ((a, b) for a in range(d) for b in range(a + 1, d))
