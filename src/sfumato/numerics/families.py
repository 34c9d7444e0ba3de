"""The fourteen covariance families of Celeux and Govaert (1995), by the names of R's mclust.

    Sigma_j = lambda_j D_j A_j D_j'
            volume lambda_j, shape A_j (diagonal, det 1), orientation D_j

The three letters of a name say whether volume, shape and orientation are equal (E), varying (V) or
the identity (I). The M step minimises, over the covariances of the family,

    sum_j  N_j log det Sigma_j + tr(W_j Sigma_j^-1)

for masses N_j and scatter matrices W_j = sum_i r_ij (x_i - mu_j)(x_i - mu_j)'. Common axes of
varying shapes (EVE, VVE) come from planar rotations: for two axes, the minimum over the angle has a
closed form, so a sweep over all pairs lowers the criterion however badly conditioned it is.
"""

from functools import lru_cache, partial

import numpy as np

from ..array.arrays import native

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


def covariances(
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
    smallest variance in any direction. All arrays may have further leading axes for separate
    mixtures.
    """
    if scatter.ndim == mass.ndim + 2:
        scatter = reduced(scatter, family)
    kind, k = kind_of(family), mass.shape[-1]
    d = 1 if kind == "spherical" else scatter.shape[-1]
    form = (k, d if kind == "full" else 1, d)
    given = scatter.reshape(-1, *form), mass.reshape(-1, k)
    before = [None] * len(given[1]) if previous is None else previous.reshape(-1, *form)
    each = zip(*given, before, strict=True)
    found = [_of_one_mixture(family, d, *one, floor, n_steps) for one in each]
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
