"""Generated data with known memberships, as ``Simulated`` records ``(evidence, memberships,
labels)`` of plain arrays, drawn from ``random_state`` (None, an int or a Generator) alone.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .array.docs import documented
from .array.types import ArrayLike, RandomState, Weights
from .array.validation import check_number
from .memberships import check_memberships, one_hot
from .numerics.simplex import draw, softmax

__all__ = [
    "Simulated", "make_block_similarity", "make_gaussians", "make_labelings", "make_memberships",
    "make_moons", "make_rings", "make_similarity", "make_spirals", "make_uniform",
]  # fmt: skip


class Simulated(NamedTuple):
    """Features (n, p), a similarity (n, n) or labelings (n, m) with their truth: the best possible
    memberships (n, k), and the labels (n,) of the clusters that objects were drawn from.
    """

    evidence: np.ndarray
    memberships: np.ndarray
    labels: np.ndarray


def _check(low: float = 0.0, high: float = 1e100, **given: float) -> None:
    """Refuse values that are not numbers from ``low`` to ``high``; ``n_...`` are at least 1."""
    for name, value in given.items():
        count = name.startswith("n_")
        limits = (1, math.inf) if count else (low, high)
        check_number(value, name, low=limits[0], high=limits[1], integer=count)


def make_gaussians(
    n_objects: int = 500,
    n_clusters: int = 3,
    *,
    n_features: int = 2,
    separation: float = 4.0,
    elongation: float = 1.0,
    weights: Weights = None,
    random_state: RandomState = None,
) -> Simulated:
    """Features (n_objects, n_features) from overlapping Gaussians, with the true posterior.

    Parameters
    ----------
    separation : float
        Mahalanobis distance between the two closest centers, for the mean of their covariances.
        Clusters overlap strongly at 1, partly at 3, and not at 6.
    elongation : float
        Ratio of the longest to the shortest axis of a cluster: 1 gives spheres; at 5, k-means
        fails.
    weights : array of shape (n_clusters,), optional
        Probability of each cluster, equal by default.

    Examples
    --------
    >>> from sfumato.datasets import make_gaussians
    >>> X, memberships, labels = make_gaussians(100, 3, random_state=0)
    >>> X.shape, memberships.shape
    ((100, 2), (100, 3))
    """
    _check(n_objects=n_objects, n_clusters=n_clusters, n_features=n_features, separation=separation)
    # The square is the condition number of a covariance, which must stay invertible.
    _check(1e-6, 1e6, elongation=elongation)
    rng = np.random.default_rng(random_state)
    shares = np.full(n_clusters, 1.0) if weights is None else np.asarray(weights, dtype=float)
    if shares.shape != (n_clusters,) or shares.min() < 0 or not 0 < shares.sum() < np.inf:
        raise ValueError(f"weights must be {n_clusters} numbers that are not negative, nor all 0")
    shares = shares / shares.sum()
    # Square roots of covariances with determinant one, randomly rotated.
    axes = elongation ** np.linspace(0.5, -0.5, n_features) if n_features > 1 else np.ones(1)
    factors = np.linalg.qr(rng.standard_normal((n_clusters, n_features, n_features)))[0] * axes
    centers = _centers(rng, factors, separation)
    labels = rng.choice(n_clusters, size=n_objects, p=shares)
    noise = rng.standard_normal((n_objects, n_features))
    X = centers[labels] + np.einsum("nij,nj->ni", factors[labels], noise)
    return Simulated(X, _posterior(X, centers, factors, shares), labels)


def _posterior(X: np.ndarray, centers: np.ndarray, factors: np.ndarray, shares: np.ndarray) -> Any:
    whitened = np.linalg.solve(factors[:, None], (X[None] - centers[:, None])[..., None])[..., 0]
    with np.errstate(divide="ignore"):
        return softmax(np.log(shares) - np.square(whitened).sum(axis=2).T / 2)[0]


def _centers(rng: np.random.Generator, factors: np.ndarray, separation: float) -> np.ndarray:
    """The most even of 50 random layouts, with the closest centers ``separation`` apart."""
    k, p = factors.shape[:2]
    layouts = rng.standard_normal((50, k, p))
    if k == 1:
        return layouts[0] * 0
    covariances = factors @ factors.transpose(0, 2, 1)
    first, second = np.triu_indices(k, 1)
    between = np.linalg.inv((covariances[first] + covariances[second]) / 2)
    steps = layouts[:, first] - layouts[:, second]
    distances = np.sqrt(np.einsum("lai,aij,laj->la", steps, between, steps))
    best = np.argmax(distances.min(axis=1) / distances.mean(axis=1))
    return layouts[best] * (separation / distances[best].min())


@documented
def make_rings(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    noise: float = 0.08,
    random_state: RandomState = None,
) -> Simulated:
    """Features on concentric rings of radius 1, 2, ..., with objects in proportion to the radius.

    Parameters
    ----------
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_rings
    >>> make_rings(100, 2, random_state=0).evidence.shape
    (100, 2)
    """
    _check(n_objects=n_objects, n_clusters=n_clusters, noise=noise)
    rng = np.random.default_rng(random_state)
    radii = np.arange(1.0, n_clusters + 1)
    labels = rng.choice(n_clusters, size=n_objects, p=radii / radii.sum())
    angle = rng.uniform(0, 2 * np.pi, n_objects)
    return _curve(rng, radii[labels], angle, labels, n_clusters, noise)


@documented
def make_spirals(
    n_objects: int = 300,
    n_clusters: int = 2,
    *,
    turns: float = 1.0,
    noise: float = 0.05,
    random_state: RandomState = None,
) -> Simulated:
    """Features on spiral arms that wind around each other, spread evenly along each arm.

    Parameters
    ----------
    turns : float
        How often an arm goes round; neighbouring arms lie 1 apart.
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_spirals
    >>> make_spirals(100, 3, random_state=0).memberships.shape
    (100, 3)
    """
    _check(n_objects=n_objects, n_clusters=n_clusters, turns=turns, noise=noise)
    rng = np.random.default_rng(random_state)
    labels = rng.integers(n_clusters, size=n_objects)
    start, end = 0.25 * n_clusters, (0.25 + turns) * n_clusters
    radius = np.sqrt(rng.uniform(start**2, end**2, n_objects))
    angle = 2 * np.pi * (radius + labels) / n_clusters
    return _curve(rng, radius, angle, labels, n_clusters, noise)


def _curve(
    rng: np.random.Generator,
    radius: np.ndarray,
    angle: np.ndarray,
    labels: np.ndarray,
    n_clusters: int,
    noise: float,
) -> Simulated:
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return Simulated(X + rng.normal(scale=noise, size=X.shape), one_hot(labels, n_clusters), labels)


@documented
def make_moons(
    n_objects: int = 300, *, noise: float = 0.08, random_state: RandomState = None
) -> Simulated:
    """Features on two interleaving half circles.

    Parameters
    ----------
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_moons
    >>> make_moons(100, random_state=0).evidence.shape
    (100, 2)
    """
    _check(n_objects=n_objects, noise=noise)
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.arange(n_objects) % 2)
    angle = rng.uniform(0, np.pi, n_objects)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = np.where(labels[:, None] == 0, upper, np.array([1.0, 0.5]) - upper)
    return Simulated(X + rng.normal(scale=noise, size=X.shape), one_hot(labels, 2), labels)


def make_uniform(
    n_objects: int = 300, *, n_features: int = 2, random_state: RandomState = None
) -> Simulated:
    """Features without any clusters: a uniform cloud in the unit cube, which is one cluster.

    Examples
    --------
    >>> from sfumato.datasets import make_uniform
    >>> make_uniform(100, random_state=0).memberships.shape
    (100, 1)
    """
    _check(n_objects=n_objects, n_features=n_features)
    X = np.random.default_rng(random_state).random((n_objects, n_features))
    return Simulated(X, np.ones((n_objects, 1)), np.zeros(n_objects, dtype=int))


def make_memberships(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    concentration: float = 0.3,
    random_state: RandomState = None,
) -> np.ndarray:
    """Memberships (n_objects, n_clusters) drawn from a symmetric Dirichlet distribution.

    Parameters
    ----------
    concentration : float
        Near 0 almost every object is certain; 1 is uniform on the simplex; large values give nearly
        equal memberships.

    Examples
    --------
    >>> from sfumato.datasets import make_memberships
    >>> make_memberships(10, 4, random_state=0).shape
    (10, 4)
    """
    _check(1e-300, n_objects=n_objects, n_clusters=n_clusters, concentration=concentration)
    return draw(np.random.default_rng(random_state), (n_objects, n_clusters), concentration)


def make_similarity(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    memberships: ArrayLike | None = None,
    scale: float = 1.0,
    noise: float = 0.05,
    random_state: RandomState = None,
) -> Simulated:
    """A similarity  scale * u_i'u_j  plus Gaussian noise, as the pairwise model assumes.

    It is symmetric with a diagonal of ``scale``; the labels are drawn from the memberships.

    Parameters
    ----------
    memberships : array of shape (n, k), optional
        The true memberships; by default drawn by ``make_memberships``.
    noise : float
        Standard deviation of the noise, in units of ``scale``.

    Examples
    --------
    >>> from sfumato.datasets import make_similarity
    >>> W, memberships, labels = make_similarity(50, 3, random_state=0)
    >>> W.shape, bool((W == W.T).all())
    ((50, 50), True)
    """
    _check(n_objects=n_objects, n_clusters=n_clusters, scale=scale, noise=noise)
    rng = np.random.default_rng(random_state)
    drawn = memberships is None
    U = draw(rng, (n_objects, n_clusters), 0.3) if drawn else check_memberships(memberships)
    error = np.triu(rng.normal(scale=noise, size=(len(U), len(U))), 1)
    W = scale * np.clip(U @ U.T + error + error.T, 0, None)
    np.fill_diagonal(W, scale)
    return Simulated(W, U, _draw_labels(rng, U))


def _draw_labels(rng: np.random.Generator, U: np.ndarray) -> np.ndarray:
    """A label from each row of U."""
    return (np.cumsum(U, axis=1)[:, :-1] <= rng.random((len(U), 1))).sum(axis=1)


def make_block_similarity(
    n_objects: int = 100,
    n_clusters: int = 5,
    *,
    stay: float = 0.45,
    spread: float = 1.5,
    noise: float = 0.5,
    random_state: RandomState = None,
) -> Simulated:
    """A similarity whose random walk is block stochastic, after S100 of Verma and Meila (2003).

    The probability of a step from an object into cluster b depends only on the object's own
    cluster, although similarities vary over orders of magnitude.

    Parameters
    ----------
    stay : float
        Probability that a step stays in its cluster; 1 / n_clusters means no structure.
    spread : float
        Standard deviation of the logarithms of the degrees.
    noise : float
        Standard deviation of the logarithms of the similarities, given the degrees.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.datasets import make_block_similarity
    >>> W, memberships, labels = make_block_similarity(60, 3, random_state=0)
    >>> steps = (W / W.sum(axis=1, keepdims=True)) @ memberships
    >>> bool(np.ptp(steps[labels == 0], axis=0).max() < 1e-6)
    True
    """
    _check(high=1.0, n_objects=n_objects, n_clusters=n_clusters, stay=stay)
    _check(high=10.0, spread=spread, noise=noise)  # of logarithms; exp(10) is already huge
    rng = np.random.default_rng(random_state)
    sizes = np.linspace(1, 3, n_clusters)
    edges = np.round(np.cumsum(rng.permutation(sizes)) / sizes.sum() * n_objects).astype(int)
    labels = np.searchsorted(edges, np.arange(n_objects), side="right")
    mass = np.full((n_clusters, n_clusters), (1 - stay) / max(1, n_clusters - 1))
    np.fill_diagonal(mass, stay)
    inside = one_hot(labels, n_clusters)
    if not inside.any(axis=0).all():
        raise ValueError(
            f"n_objects={n_objects} is too few for n_clusters={n_clusters} blocks, some thrice "
            "as large as others: ask for more objects"
        )
    degrees = np.exp(rng.normal(scale=spread, size=n_objects))
    shares = degrees / (inside @ (inside.T @ degrees))
    W = np.exp(rng.normal(scale=noise * 2**0.5, size=(n_objects, n_objects)))
    W = _scale_blocks(np.sqrt(W * W.T), inside, shares, mass)
    return Simulated(W * (n_objects / W.sum()), inside, labels)


def _scale_blocks(W: np.ndarray, inside: np.ndarray, shares: np.ndarray, mass: np.ndarray) -> Any:
    """W rescaled as x_ib W_ij x_ja, until the row sums in block b are shares_i mass_ab."""
    wanted = shares[:, None] * (inside @ mass)
    X = np.ones_like(wanted)
    for _ in range(2000):
        rows = X * ((W * (inside @ X.T)) @ inside)
        if np.abs(rows - wanted).max() <= 1e-9 * wanted.max():
            break
        X *= np.sqrt(wanted / rows)
    W = (W * (X @ inside.T)) * (inside @ X.T)
    return (W + W.T) / 2


def make_labelings(
    n_objects: int = 300,
    n_clusters: int = 3,
    *,
    n_members: int = 50,
    memberships: ArrayLike | None = None,
    label_noise: float = 0.2,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """An ensemble of noisy clusterings of the same objects, each with its own numbering.

    Every partition draws the label of each object from its row of ``memberships``, so the expected
    co-association of two objects is exactly u_i'u_j. ``labels`` are the most likely ones.

    Parameters
    ----------
    memberships : array of shape (n, k), optional
        The true memberships; by default one cluster per object, with a share of ``label_noise``
        spread over all clusters.
    missing : float
        Probability that a partition did not see an object (label -1).

    Examples
    --------
    >>> from sfumato.datasets import make_labelings
    >>> L, memberships, labels = make_labelings(50, 3, n_members=20, missing=0.1, random_state=0)
    >>> L.shape, int(L.min())
    ((50, 20), -1)
    """
    _check(n_objects=n_objects, n_clusters=n_clusters, n_members=n_members)
    _check(high=1.0, label_noise=label_noise, missing=missing)
    rng = np.random.default_rng(random_state)
    if memberships is None:
        pure = one_hot(rng.permutation(np.arange(n_objects) % n_clusters), n_clusters)
        U = (1 - label_noise) * pure + label_noise / n_clusters
    else:
        U = check_memberships(memberships)
    k = U.shape[1]
    L = np.stack([rng.permutation(k)[_draw_labels(rng, U)] for _ in range(n_members)], axis=1)
    L[rng.random(L.shape) < missing] = -1
    return Simulated(L, U, U.argmax(axis=1))
