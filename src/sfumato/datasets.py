"""Data whose truth is known: features, similarities and labelings with the memberships behind them, and small real data sets.

Generators give a ``Simulated`` record ``(evidence, memberships, labels)``; loaders give ``(X, labels)``. Everything is a plain array,
drawn from ``random_state`` alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .kernels.simplex import draw, softmax
from .memberships import check_memberships, one_hot

__all__ = [
    "Loaded",
    "Simulated",
    "load_breast_cancer",
    "load_digits",
    "load_iris",
    "load_wine",
    "make_block_similarity",
    "make_circles",
    "make_gaussians",
    "make_labelings",
    "make_memberships",
    "make_moons",
    "make_noise",
    "make_rings",
    "make_similarity",
    "make_spirals",
]


class Simulated(NamedTuple):
    """Evidence with its truth: features (n, p), similarity (n, n) or labelings (n, m); memberships (n, k); labels (n,).

    ``memberships`` are what a perfect method could know from the evidence; ``labels`` are the clusters the objects were drawn from.
    """

    evidence: np.ndarray
    memberships: np.ndarray
    labels: np.ndarray


class Loaded(NamedTuple):
    """A real data set: features (n, p) and the classes (n,) somebody gave to its objects."""

    X: np.ndarray
    labels: np.ndarray


def make_gaussians(
    n_objects: int = 500,
    n_clusters: int = 3,
    *,
    n_features: int = 2,
    separation: float = 4.0,
    elongation: float = 1.0,
    weights: Any = None,
    random_state: Any = None,
) -> Simulated:
    """Features from overlapping Gaussians, with the true posterior as memberships.

    Parameters
    ----------
    n_objects, n_clusters, n_features : int
    separation : float
        Mahalanobis distance between the two closest centers, in the mean of their covariances: 1 is a blur, 3 overlaps, 6 does not.
    elongation : float
        Longest over shortest axis of every cluster, each turned its own way: 1 gives round clusters, 5 defeats k-means.
    weights : array of shape (n_clusters,), optional
        Chance of each cluster, equal by default.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Features (n_objects, n_features), posterior, and the cluster each object was drawn from.

    Examples
    --------
    >>> from sfumato.datasets import make_gaussians
    >>> X, memberships, labels = make_gaussians(100, 3, random_state=0)
    >>> X.shape, memberships.shape
    ((100, 2), (100, 3))
    """
    rng = np.random.default_rng(random_state)
    shares = np.full(n_clusters, 1 / n_clusters) if weights is None else np.asarray(weights, dtype=float) / np.sum(weights)
    factors = np.stack([_factor(rng, n_features, elongation) for _ in range(n_clusters)])
    centers = _centers(rng, factors, separation)
    labels = rng.choice(n_clusters, size=n_objects, p=shares)
    noise = rng.standard_normal((n_objects, n_features))
    X = centers[labels] + np.einsum("nij,nj->ni", factors[labels], noise)
    return Simulated(X, _posterior(X, centers, factors, shares), labels)


def _factor(rng: np.random.Generator, p: int, elongation: float) -> np.ndarray:
    """A square root of a covariance of determinant one, turned at random."""
    rotation = np.linalg.qr(rng.standard_normal((p, p)))[0]
    axes = elongation ** np.linspace(0.5, -0.5, p) if p > 1 else np.ones(1)
    return rotation * axes


def _centers(rng: np.random.Generator, factors: np.ndarray, separation: float) -> np.ndarray:
    """Of 50 random layouts the most even one, scaled so that its closest pair lies ``separation`` apart."""
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


def _posterior(X: np.ndarray, centers: np.ndarray, factors: np.ndarray, shares: np.ndarray) -> np.ndarray:
    whitened = np.linalg.solve(factors[:, None], (X[None] - centers[:, None])[..., None])[..., 0]
    with np.errstate(divide="ignore"):
        return softmax(np.log(shares) - np.square(whitened).sum(axis=2).T / 2)[0]


def make_memberships(n_objects: int = 300, n_clusters: int = 3, *, concentration: float = 0.3, random_state: Any = None) -> np.ndarray:
    """Memberships drawn from a symmetric Dirichlet distribution.

    Parameters
    ----------
    n_objects, n_clusters : int
    concentration : float
        Near 0 almost every object is sure, 1 is uniform on the simplex, large values blur everything.
    random_state : None, int or Generator

    Returns
    -------
    memberships : array of shape (n_objects, n_clusters)

    Examples
    --------
    >>> from sfumato.datasets import make_memberships
    >>> make_memberships(10, 4, random_state=0).shape
    (10, 4)
    """
    return draw(np.random.default_rng(random_state), (n_objects, n_clusters), concentration)


def make_similarity(
    n_objects: int = 300, n_clusters: int = 3, *, memberships: Any = None, scale: float = 1.0, noise: float = 0.05, random_state: Any = None
) -> Simulated:
    """A similarity  scale * u_i'u_j  with Gaussian noise, cut at zero: what the pairwise model assumes.

    Parameters
    ----------
    n_objects, n_clusters : int
        Used where ``memberships`` is not given.
    memberships : array of shape (n, k), optional
        The truth; by default drawn by ``make_memberships``.
    scale : float
    noise : float
        Standard deviation of the noise, in units of ``scale``.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Symmetric similarity (n, n), its diagonal at ``scale``; the memberships; a label drawn from each row of them.

    Examples
    --------
    >>> from sfumato.datasets import make_similarity
    >>> W, memberships, labels = make_similarity(50, 3, random_state=0)
    >>> W.shape, bool((W == W.T).all())
    ((50, 50), True)
    """
    rng = np.random.default_rng(random_state)
    U = draw(rng, (n_objects, n_clusters), 0.3) if memberships is None else check_memberships(memberships)
    error = np.triu(rng.normal(scale=noise, size=(len(U), len(U))), 1)
    W = scale * np.clip(U @ U.T + error + error.T, 0, None)
    np.fill_diagonal(W, scale)
    return Simulated(W, U, _draw_labels(rng, U))


def _draw_labels(rng: np.random.Generator, U: np.ndarray, size: int | None = None) -> np.ndarray:
    """A label from each row of U, or ``size`` of them, side by side."""
    points = rng.random((len(U), size or 1))
    drawn = (np.cumsum(U, axis=1)[:, None, :-1] <= points[:, :, None]).sum(axis=2)
    return drawn[:, 0] if size is None else drawn


def make_block_similarity(
    n_objects: int = 100, n_clusters: int = 5, *, stay: float = 0.45, spread: float = 1.5, noise: float = 0.5, random_state: Any = None
) -> Simulated:
    """A similarity whose random walk is block stochastic, after the S100 set of Verma and Meila (2003).

    The chance to step from an object into cluster b depends only on the object's own cluster; the similarities themselves vary over
    orders of magnitude within each block, mostly because the degrees do. The defaults give a spectrum like that of S100.

    Parameters
    ----------
    n_objects, n_clusters : int
    stay : float
        Chance that a step stays in its cluster; 1 / n_clusters would be no structure.
    spread : float
        Standard deviation of the logarithms of the degrees.
    noise : float
        Standard deviation of the logarithms of the similarities around what the degrees and clusters expect.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Symmetric similarity (n, n), one-hot memberships, labels; the cluster sizes differ by up to a factor of three.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.datasets import make_block_similarity
    >>> W, memberships, labels = make_block_similarity(60, 3, random_state=0)
    >>> steps = (W / W.sum(axis=1, keepdims=True)) @ memberships
    >>> bool(np.ptp(steps[labels == 0], axis=0).max() < 1e-6)
    True
    """
    rng = np.random.default_rng(random_state)
    sizes = np.linspace(1, 3, n_clusters)
    edges = np.round(np.cumsum(rng.permutation(sizes)) / sizes.sum() * n_objects).astype(int)
    labels = np.searchsorted(edges, np.arange(n_objects), side="right")
    mass = np.full((n_clusters, n_clusters), (1 - stay) / max(1, n_clusters - 1))
    np.fill_diagonal(mass, stay)
    inside = one_hot(labels, n_clusters)
    degrees = np.exp(rng.normal(scale=spread, size=n_objects))
    shares = degrees / (inside @ (inside.T @ degrees))
    W = np.exp(rng.normal(scale=noise * 2**0.5, size=(n_objects, n_objects)))
    W = _scale_blocks(np.sqrt(W * W.T), inside, shares, mass)
    return Simulated(W * (n_objects / W.sum()), inside, labels)


def _scale_blocks(W: np.ndarray, inside: np.ndarray, shares: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Symmetric scaling  x_i W_ij x_j, one x for each block, until row i has  shares_i mass_ab  in block b."""
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
    n_partitions: int = 50,
    memberships: Any = None,
    noise: float = 0.2,
    missing: float = 0.0,
    random_state: Any = None,
) -> Simulated:
    """An ensemble of noisy clusterings of the same objects, each with names of its own.

    In every partition each object draws its label from its row of ``memberships``, so the expected co-association of two objects is
    exactly u_i'u_j.

    Parameters
    ----------
    n_objects, n_clusters : int
        Used where ``memberships`` is not given.
    n_partitions : int
    memberships : array of shape (n, k), optional
        The truth; by default one cluster each, with a share of ``noise`` spread over all clusters.
    noise : float
        Chance that a label is drawn at random; used where ``memberships`` is not given.
    missing : float
        Chance that a partition did not see an object (label -1).
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Labelings (n, n_partitions), memberships, and the most likely label of each object.

    Examples
    --------
    >>> from sfumato.datasets import make_labelings
    >>> L, memberships, labels = make_labelings(50, 3, n_partitions=20, missing=0.1, random_state=0)
    >>> L.shape, int(L.min())
    ((50, 20), -1)
    """
    rng = np.random.default_rng(random_state)
    if memberships is None:
        pure = one_hot(rng.permutation(np.arange(n_objects) % n_clusters), n_clusters)
        U = (1 - noise) * pure + noise / n_clusters
    else:
        U = check_memberships(memberships)
    L = np.stack([rng.permutation(U.shape[1])[_draw_labels(rng, U)] for _ in range(n_partitions)], axis=1)
    L[rng.random(L.shape) < missing] = -1
    return Simulated(L, U, U.argmax(axis=1))


def make_rings(n_objects: int = 300, n_clusters: int = 3, *, noise: float = 0.08, random_state: Any = None) -> Simulated:
    """Features on concentric rings of radius 1, 2, ..., objects in proportion to the radius.

    Parameters
    ----------
    n_objects, n_clusters : int
    noise : float
        Standard deviation of the noise in both coordinates.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Features (n_objects, 2), one-hot memberships, labels.

    Examples
    --------
    >>> from sfumato.datasets import make_rings
    >>> make_rings(100, 2, random_state=0).evidence.shape
    (100, 2)
    """
    rng = np.random.default_rng(random_state)
    radii = np.arange(1.0, n_clusters + 1)
    labels = rng.choice(n_clusters, size=n_objects, p=radii / radii.sum())
    return _curve(rng, radii[labels], rng.uniform(0, 2 * np.pi, n_objects), labels, n_clusters, noise)


def make_spirals(
    n_objects: int = 300, n_clusters: int = 2, *, turns: float = 1.0, noise: float = 0.05, random_state: Any = None
) -> Simulated:
    """Features on spiral arms that wind around each other, spread evenly along each arm.

    Parameters
    ----------
    n_objects, n_clusters : int
    turns : float
        How often an arm goes round.
    noise : float
        Standard deviation of the noise in both coordinates; neighbouring arms lie 1 apart.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Features (n_objects, 2), one-hot memberships, labels.

    Examples
    --------
    >>> from sfumato.datasets import make_spirals
    >>> make_spirals(100, 3, random_state=0).memberships.shape
    (100, 3)
    """
    rng = np.random.default_rng(random_state)
    labels = rng.integers(n_clusters, size=n_objects)
    start, end = 0.25 * n_clusters, (0.25 + turns) * n_clusters
    radius = np.sqrt(rng.uniform(start**2, end**2, n_objects))
    angle = 2 * np.pi * (radius + labels) / n_clusters
    return _curve(rng, radius, angle, labels, n_clusters, noise)


def _curve(rng: Any, radius: np.ndarray, angle: np.ndarray, labels: np.ndarray, n_clusters: int, noise: float) -> Simulated:
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return Simulated(X + rng.normal(scale=noise, size=X.shape), one_hot(labels, n_clusters), labels)


def make_moons(n_objects: int = 300, *, noise: float = 0.08, random_state: Any = None) -> Simulated:
    """Features on two interleaving half circles.

    Parameters
    ----------
    n_objects : int
    noise : float
        Standard deviation of the noise in both coordinates.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Features (n_objects, 2), one-hot memberships, labels.

    Examples
    --------
    >>> from sfumato.datasets import make_moons
    >>> make_moons(100, random_state=0).evidence.shape
    (100, 2)
    """
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.arange(n_objects) % 2)
    angle = rng.uniform(0, np.pi, n_objects)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = np.where(labels[:, None] == 0, upper, np.array([1.0, 0.5]) - upper)
    return Simulated(X + rng.normal(scale=noise, size=X.shape), one_hot(labels, 2), labels)


def make_circles(n_objects: int = 300, *, factor: float = 0.5, noise: float = 0.05, random_state: Any = None) -> Simulated:
    """Features on two circles, the inner one of radius ``factor``, with as many objects on each.

    Parameters
    ----------
    n_objects : int
    factor : float
        Radius of the inner circle; the outer one has radius 1.
    noise : float
        Standard deviation of the noise in both coordinates.
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Features (n_objects, 2), one-hot memberships, labels.

    Examples
    --------
    >>> from sfumato.datasets import make_circles
    >>> make_circles(100, random_state=0).evidence.shape
    (100, 2)
    """
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.arange(n_objects) % 2)
    return _curve(rng, np.where(labels == 0, 1.0, factor), rng.uniform(0, 2 * np.pi, n_objects), labels, 2, noise)


def make_noise(n_objects: int = 300, *, n_features: int = 2, random_state: Any = None) -> Simulated:
    """Features without any clusters: one uniform cloud, one cluster of everything.

    Parameters
    ----------
    n_objects, n_features : int
    random_state : None, int or Generator

    Returns
    -------
    simulated : Simulated
        Features (n_objects, n_features) uniform in [0, 1], memberships (n_objects, 1) of ones, labels of zeros.

    Examples
    --------
    >>> from sfumato.datasets import make_noise
    >>> make_noise(100, random_state=0).memberships.shape
    (100, 1)
    """
    rng = np.random.default_rng(random_state)
    return Simulated(rng.random((n_objects, n_features)), np.ones((n_objects, 1)), np.zeros(n_objects, dtype=int))


def _load(name: str) -> Loaded:
    import sklearn.datasets

    X, labels = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return Loaded(X, labels)


def load_iris() -> Loaded:
    """Fisher's irises: 150 flowers, 4 lengths and widths in cm, 3 species of 50. As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_iris
    >>> load_iris().X.shape
    (150, 4)
    """
    return _load("iris")


def load_wine() -> Loaded:
    """Wines of three growers: 178 wines, 13 chemical measurements of very different scale. As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_wine
    >>> load_wine().X.shape
    (178, 13)
    """
    return _load("wine")


def load_digits() -> Loaded:
    """Handwritten digits: 1797 images of 8 x 8 pixels with 17 grey levels, 10 digits. As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_digits
    >>> load_digits().X.shape
    (1797, 64)
    """
    return _load("digits")


def load_breast_cancer() -> Loaded:
    """Wisconsin breast cancer, diagnostic: 569 tumours, 30 measurements, malignant (0) or benign (1). As in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_breast_cancer
    >>> load_breast_cancer().X.shape
    (569, 30)
    """
    return _load("breast_cancer")
