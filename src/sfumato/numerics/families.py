"""The fourteen covariance families of Celeux and Govaert (1995), by the names of R's mclust.

    Sigma_j = lambda_j D_j A_j D_j'
            volume lambda_j, shape A_j (diagonal, det 1), orientation D_j

The three letters of a name say whether volume, shape and orientation are equal (E), varying (V) or
the identity (I). The M step minimises, over the covariances of the family,

    sum_j  N_j log det Sigma_j + tr(W_j Sigma_j^-1)

for masses N_j and scatter matrices W_j = sum_i r_ij (x_i - mu_j)(x_i - mu_j)'. Once the axes D_j
are known, only the sums of squares along them count (the diagonals of D_j' W_j D_j), and volume and
shape follow from these. Common axes of varying shapes (EVE, VVE) come from planar rotations: for
two axes the minimum over the angle has a closed form, so that a sweep over all pairs lowers the
criterion whatever the conditioning (the majorization of Browne and McNicholas needs steps in
proportion to the ratio of the eigenvalues).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

FAMILIES = (
    *("EII", "VII", "EEI", "VEI", "EVI", "VVI", "EEE"),
    *("VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VVV"),
)
ALIASES = {"full": "VVV", "tied": "EEE", "diag": "VVI", "spherical": "VII"}
# Families that keep their form under a change of units of single features; the others hold in
# units that all features share.
UNIT_FREE = ("EEI", "VEI", "EVI", "VVI", "EEE", "VEE", "EVV", "VVV")
AXIS_PARALLEL = ("EII", "VII", "EEI", "VEI", "EVI", "VVI")
INNER_TOL = 1e-9  # relative change of the variances at which they stop
SMALLEST = 1e-300  # keeps logarithms of sums of squares finite


def family_of(covariance_type: str) -> str:
    """Name of the family: one of the fourteen, or what scikit-learn's name stands for."""
    return ALIASES.get(covariance_type, covariance_type)


def suited(n: int, d: int) -> tuple[str, ...]:
    """Families that ``n`` objects of ``d`` features allow, the simplest first."""
    if n <= d or d > 96:  # steps of one common matrix cost d^2 for every object, too
        return AXIS_PARALLEL
    if d > 48:  # matrices for every component cost too much
        return (*AXIS_PARALLEL, "EEE")
    # The common axes of EVE and VVE converge slowly.
    return tuple(name for name in FAMILIES if d <= 10 or name not in ("EVE", "VVE"))


def kind_of(family: str) -> str:
    """What the M step needs of the scatter: "spherical" (traces), "diag" (diagonals) or "full"."""
    return "spherical" if family[1] == "I" else "diag" if family[2] == "I" else "full"


def is_unit_free(covariance_type: str) -> bool:
    """Whether a mixture of the family, or of one of "auto", is the same in any units."""
    return covariance_type == "auto" or family_of(covariance_type) in UNIT_FREE


def has_one_covariance(family: str) -> bool:
    """Whether all components share one covariance: EII, EEI and EEE."""
    return "V" not in family


@lru_cache
def lies_within(name: str, other: str) -> bool:
    """Whether every covariance of a family belongs to the other: no letter of its name is freer."""
    pairs = zip(family_of(name), family_of(other), strict=True)
    return all("IEV".index(a) <= "IEV".index(b) for a, b in pairs)  # the strictest letter first


def n_covariance_parameters(family: str, k: int, d: int) -> int:
    """Free parameters of ``k`` covariances in ``d`` dimensions, as mclust counts them."""
    times = {"E": 1, "V": k, "I": 0}
    volume, shape, orientation = (times[letter] for letter in family)
    return volume + shape * (d - 1) + orientation * (d * (d - 1) // 2)


@lru_cache(maxsize=1024)
def n_parameters(family: str, k: int, d: int, noise: bool = False) -> int:
    """Free parameters of a mixture: weights, means, covariances, and the share of the noise."""
    return k - 1 + k * d + n_covariance_parameters(family, k, d) + int(noise)


def covariances(
    family: str,
    scatter: np.ndarray,
    mass: np.ndarray,
    previous: np.ndarray | None = None,
    floor: float = 0.0,
    n_steps: int = 200,
) -> np.ndarray:
    """Covariances (k, d, d), (k, d) or (k,), by the kind of the family, of largest likelihood.

    ``scatter`` (k, d, d) are weighted sums of squares about the means, or what ``reduced`` makes of
    them; ``mass`` (k,) the sums of the responsibilities. Iterative families (VEI, VEE, VEV, EVE,
    VVE) begin at ``previous``, shaped like the result, and take ``n_steps`` at most: every step
    improves the criterion, so a few are enough inside EM. ``floor`` is the least variance in any
    direction. All arrays may have further axes in front: several mixtures, each for itself.
    """
    kind = kind_of(family)
    if scatter.ndim == mass.ndim + 2:
        scatter = reduced(scatter, family)
    step = _Step(mass, previous, floor, n_steps)
    if kind == "spherical":  # one variance, of unit volume
        return _variances(2 * family[0], scatter[..., None], step)[..., 0]
    if kind == "diag":
        return _variances(family[:2], scatter, step)
    if family == "EEE":
        pooled = scatter.sum(axis=-3, keepdims=True) / mass.sum(axis=-1)[..., None, None, None]
        return np.broadcast_to(raised(pooled, floor), scatter.shape)
    if family == "VVV":
        return raised(scatter / mass[..., None, None], floor)
    if family == "VEE":
        return _proportional(scatter, step)
    if family[2] == "V":
        return _own_axes(family[:2], scatter, step)
    return _common_axes(family[:2], scatter, step)


def reduced(matrices: np.ndarray, family: str) -> np.ndarray:
    """What the family needs of matrices (..., k, d, d): all, their diagonals, or mean variances."""
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
    """Symmetric matrices (..., d, d) with eigenvalues below ``floor`` raised to it."""
    try:
        np.linalg.cholesky(matrices - floor * np.eye(matrices.shape[-1]))
        return matrices
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(matrices)
        return _composed(axes, np.maximum(values, floor))


class _Step(NamedTuple):
    """What every family is updated with; see ``covariances``."""

    mass: np.ndarray
    previous: np.ndarray | None
    floor: float
    n_steps: int


def _diagonals(matrices: np.ndarray) -> np.ndarray:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _variances(letters: str, spread: np.ndarray, step: _Step) -> np.ndarray:
    """Variances (k, d) from the sums of squares along known axes, by volume and shape."""
    mass, previous, floor, n_steps = step
    total = mass.sum(axis=-1)[..., None]
    if letters == "EE":
        pooled = np.maximum(spread.sum(axis=-2) / total, floor)
        return np.broadcast_to(pooled[..., None, :], spread.shape)
    means = np.maximum(spread / mass[..., None], max(floor, SMALLEST))
    if letters == "VV":
        return means
    if letters == "EV":
        sizes = _volumes(means)
        volume = (mass * sizes).sum(axis=-1)[..., None, None] / total[..., None]
        return np.maximum(volume * means / sizes[..., None], floor)
    volumes = _volumes(means if previous is None else np.maximum(previous, max(floor, SMALLEST)))
    for _ in range(n_steps):
        shape = ((mass / volumes)[..., None, :] @ means)[..., 0, :]
        shape = shape / _volumes(shape)[..., None]
        before, volumes = volumes, np.mean(means / shape[..., None, :], axis=-1)
        if np.all(np.abs(volumes - before) <= INNER_TOL * before):
            break
    return np.maximum(volumes[..., None] * shape[..., None, :], floor)


def _volumes(variances: np.ndarray) -> np.ndarray:
    """Geometric means along the last axis."""
    return np.exp(np.mean(np.log(variances), axis=-1))


def _composed(axes: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Symmetric matrices (..., d, d) of variances (..., d) along axes (..., d, d)."""
    matrices = (axes * variances[..., None, :]) @ np.swapaxes(axes, -1, -2)
    return (matrices + np.swapaxes(matrices, -1, -2)) / 2.0


def _own_axes(letters: str, scatter: np.ndarray, step: _Step) -> np.ndarray:
    """EEV, VEV and EVV: every component has the principal axes of its own scatter."""
    spread, axes = np.linalg.eigh(scatter)
    if step.previous is not None and letters == "VE":
        step = step._replace(previous=np.linalg.eigvalsh(step.previous))
    return _composed(axes, _variances(letters, np.maximum(spread, 0.0), step))


def _proportional(scatter: np.ndarray, step: _Step) -> np.ndarray:
    """VEE: multiples of one matrix, which is updated in turn with the multiples."""
    mass, previous, floor, n_steps = step
    d = scatter.shape[-1]
    least = max(floor, SMALLEST)
    means = scatter / mass[..., None, None]
    flat = means.reshape(*means.shape[:-2], d * d)
    start = raised(means if previous is None else previous, least)
    volumes = np.maximum(np.exp(np.linalg.slogdet(start)[1] / d), least)  # rounding left one at 0
    share = mass / mass.sum(axis=-1)[..., None]
    for _ in range(n_steps):
        matrix = ((share / volumes)[..., None, :] @ flat).reshape(*mass.shape[:-1], d, d)
        # The sum is of unit volume, but for flat scatter: a small ridge keeps that invertible.
        ridge = 1e-12 * (1.0 + np.abs(np.trace(matrix, axis1=-2, axis2=-1)) / d)
        matrix = matrix + ridge[..., None, None] * np.eye(d)
        matrix = matrix / np.exp(np.linalg.slogdet(matrix)[1] / d)[..., None, None]
        inverse = np.linalg.inv(matrix).reshape(*mass.shape[:-1], d * d, 1)
        before, volumes = volumes, np.maximum((flat @ inverse)[..., 0] / d, least)
        if np.all(np.abs(volumes - before) <= INNER_TOL * before):
            break
    return raised(volumes[..., None, None] * matrix[..., None, :, :], floor)


def _common_axes(letters: str, scatter: np.ndarray, step: _Step) -> np.ndarray:
    """EVE and VVE: one set of axes, turned in pairs, in turn with the variances along them.

    There may be several minima: without a previous solution, the axes of every component are tried.
    """
    if step.previous is not None:
        starts = [_principal_axes(step.previous)]
    else:
        own = np.linalg.eigh(scatter)[1]
        starts = [_principal_axes(scatter), *np.moveaxis(own, -3, 0)]
    ends = [_turned(axes, letters, scatter, step) for axes in starts]
    axes, variances, value = (np.stack(part) for part in zip(*ends, strict=True))
    best = np.argmin(value, axis=0)[None, ..., None, None]
    axes, variances = (np.take_along_axis(part, best, axis=0)[0] for part in (axes, variances))
    return _composed(axes[..., None, :, :], variances)


def _turned(
    axes: np.ndarray, letters: str, scatter: np.ndarray, step: _Step
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Common axes, the variances (k, d) along them and the criterion, from a first set of axes."""
    axes, step = axes.copy(), step._replace(previous=None)
    rotated = np.swapaxes(axes, -1, -2)[..., None, :, :] @ scatter @ axes[..., None, :, :]
    variances = _variances(letters, _diagonals(rotated), step)
    for _ in range(step.n_steps):
        angle = _sweep(axes, rotated, 1.0 / variances)
        variances = _variances(letters, _diagonals(rotated), step)
        if angle <= 1e-7:
            break
    spread = np.sum(_diagonals(rotated) / variances, axis=-1)
    value = np.sum(step.mass * np.log(variances).sum(axis=-1) + spread, axis=-1)
    return axes, variances, value


def _principal_axes(matrices: np.ndarray) -> np.ndarray:
    """Principal axes (d, d) of the sum of the matrices over their traces.

    Uneven weights make it unlikely that the shapes of covariances with common axes cancel.
    """
    k = matrices.shape[-3]
    sizes = np.maximum(np.trace(matrices, axis1=-2, axis2=-1), SMALLEST)
    uneven = (1.0 + np.arange(k) / k) / sizes
    return np.linalg.eigh(np.sum(uneven[..., None, None] * matrices, axis=-3))[1]


def _sweep(axes: np.ndarray, rotated: np.ndarray, precisions: np.ndarray) -> float:
    """Turn every pair of axes to its best angle, in place; the largest angle.

    ``rotated`` (k, d, d) are the scatter matrices in the coordinates of the axes. The criterion of
    two axes is  a cos 2t + b sin 2t  up to a constant, t the angle. Disjoint pairs turn together.
    """
    largest = 0.0
    for one, other in rounds(axes.shape[-1]):
        gap = precisions[..., one] - precisions[..., other]
        difference = rotated[..., one, one] - rotated[..., other, other]
        a = 0.5 * np.sum(gap * difference, axis=-2)
        b = np.sum(gap * rotated[..., one, other], axis=-2)
        # The criterion is least half a turn from where it is largest.
        angle = np.where((a == 0.0) & (b == 0.0), 0.0, 0.5 * np.arctan2(-b, -a))
        largest = max(largest, float(np.abs(angle).max(initial=0.0)))
        c, s = np.cos(angle)[..., None, :], np.sin(angle)[..., None, :]
        _turn(axes, one, other, c, s)
        c, s = c[..., None, :, :], s[..., None, :, :]
        _turn(rotated, one, other, c, s)
        _turn(np.swapaxes(rotated, -1, -2), one, other, c, s)
    return largest


def _turn(
    columns: np.ndarray, one: np.ndarray, other: np.ndarray, c: np.ndarray, s: np.ndarray
) -> None:
    """Rotate pairs of columns by angles of cosine ``c`` and sine ``s``, in place."""
    first, second = columns[..., one], columns[..., other]
    columns[..., one] = c * first + s * second
    columns[..., other] = c * second - s * first


@lru_cache(maxsize=64)
def rounds(d: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """All pairs of ``d`` axes in rounds of disjoint pairs, as in a tournament."""
    if d < 2:
        return ()
    places = np.append(np.arange(d), [-1] * (d % 2)).astype(np.intp)
    half, rounds = len(places) // 2, []
    for _ in range(len(places) - 1):
        pairs = np.sort([places[:half], places[::-1][:half]], axis=0)
        one, other = pairs[:, pairs[0] >= 0]
        rounds.append((one, other))
        places = np.concatenate([places[:1], places[-1:], places[1:-1]])
    return tuple(rounds)
