"""Features with known memberships, and small real data sets as scikit-learn ships them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..array.docs import documented
from ..array.types import RandomState, Weights
from ..array.validation import check_number
from ..memberships import one_hot
from ..numerics.simplex import softmax


class Simulated(NamedTuple):
    """Evidence with its truth: features (n, p), similarity (n, n) or labelings (n, m); memberships
    (n, k), the best possible ones given the evidence; labels (n,), the clusters drawn from.
    """

    evidence: np.ndarray
    memberships: np.ndarray
    labels: np.ndarray


def check_counts(**given: int) -> None:
    """Refuse what is not a whole number of at least 1, by name."""
    for name, value in given.items():
        check_number(value, name, low=1, high=math.inf, integer=True)


def check_numbers(low: float = 0.0, high: float = 1e100, **given: float) -> None:
    """Refuse what is not a number from ``low`` to ``high``, by name."""
    for name, value in given.items():
        check_number(value, name, low=low, high=high)


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
    """Features from overlapping Gaussians, with the true posterior as memberships.

    Features (n_objects, n_features), posterior, and the cluster each object was drawn from.

    Parameters
    ----------
    n_objects, n_clusters, n_features : int
    separation : float
        Mahalanobis distance between the two closest centers, in the mean of their covariances:
        clusters overlap strongly at 1, partly at 3, and not at 6.
    elongation : float
        Longest over shortest axis of every cluster: 1 gives spheres; at 5, k-means fails.
    weights : array of shape (n_clusters,), optional
        Chance of each cluster, equal by default.
    random_state : None, int or Generator

    Examples
    --------
    >>> from sfumato.datasets import make_gaussians
    >>> X, memberships, labels = make_gaussians(100, 3, random_state=0)
    >>> X.shape, memberships.shape
    ((100, 2), (100, 3))
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters, n_features=n_features)
    check_numbers(separation=separation)
    # Squared, it is still the condition of a covariance that can be inverted.
    check_numbers(1e-6, 1e6, elongation=elongation)
    rng = np.random.default_rng(random_state)
    shares = np.full(n_clusters, 1.0) if weights is None else np.asarray(weights, dtype=float)
    if shares.shape != (n_clusters,) or shares.min() < 0 or not 0 < shares.sum() < np.inf:
        raise ValueError(f"weights must be {n_clusters} numbers that are not negative, nor all 0")
    shares = shares / shares.sum()
    # Square roots of covariances of determinant one, turned at random.
    axes = elongation ** np.linspace(0.5, -0.5, n_features) if n_features > 1 else np.ones(1)
    turns = [rng.standard_normal((n_features, n_features)) for _ in range(n_clusters)]
    factors = np.linalg.qr(np.stack(turns))[0] * axes
    centers = _centers(rng, factors, separation)
    labels = rng.choice(n_clusters, size=n_objects, p=shares)
    noise = rng.standard_normal((n_objects, n_features))
    X = centers[labels] + np.einsum("nij,nj->ni", factors[labels], noise)
    return Simulated(X, _posterior(X, centers, factors, shares), labels)


def _posterior(
    X: np.ndarray, centers: np.ndarray, factors: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    whitened = np.linalg.solve(factors[:, None], (X[None] - centers[:, None])[..., None])[..., 0]
    with np.errstate(divide="ignore"):
        return softmax(np.log(shares) - np.square(whitened).sum(axis=2).T / 2)[0]


def _centers(rng: np.random.Generator, factors: np.ndarray, separation: float) -> np.ndarray:
    """The most even of 50 random layouts, its closest pair ``separation`` apart."""
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
    """Features on concentric rings of radius 1, 2, ..., objects in proportion to the radius.

    Parameters
    ----------
    n_objects, n_clusters : int
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_rings
    >>> make_rings(100, 2, random_state=0).evidence.shape
    (100, 2)
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters)
    check_numbers(noise=noise)
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
    n_objects, n_clusters : int
    turns : float
        How often an arm goes round; neighbouring arms lie 1 apart.
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_spirals
    >>> make_spirals(100, 3, random_state=0).memberships.shape
    (100, 3)
    """
    check_counts(n_objects=n_objects, n_clusters=n_clusters)
    check_numbers(turns=turns, noise=noise)
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
    n_objects : int
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_moons
    >>> make_moons(100, random_state=0).evidence.shape
    (100, 2)
    """
    check_counts(n_objects=n_objects)
    check_numbers(noise=noise)
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.arange(n_objects) % 2)
    angle = rng.uniform(0, np.pi, n_objects)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = np.where(labels[:, None] == 0, upper, np.array([1.0, 0.5]) - upper)
    return Simulated(X + rng.normal(scale=noise, size=X.shape), one_hot(labels, 2), labels)


@documented
def make_circles(
    n_objects: int = 300,
    *,
    factor: float = 0.5,
    noise: float = 0.05,
    random_state: RandomState = None,
) -> Simulated:
    """Features on two circles, the inner one of radius ``factor``, with as many objects on each.

    Parameters
    ----------
    n_objects : int
    factor : float
        Radius of the inner circle; the outer one has radius 1.
    %(simulated)s

    Examples
    --------
    >>> from sfumato.datasets import make_circles
    >>> make_circles(100, random_state=0).evidence.shape
    (100, 2)
    """
    check_counts(n_objects=n_objects)
    check_numbers(factor=factor, noise=noise)
    rng = np.random.default_rng(random_state)
    labels = rng.permutation(np.arange(n_objects) % 2)
    angle = rng.uniform(0, 2 * np.pi, n_objects)
    return _curve(rng, np.array([1.0, factor])[labels], angle, labels, 2, noise)


def make_noise(
    n_objects: int = 300, *, n_features: int = 2, random_state: RandomState = None
) -> Simulated:
    """Features without any clusters: one uniform cloud in [0, 1], one cluster of everything.

    Parameters
    ----------
    n_objects, n_features : int
    random_state : None, int or Generator

    Examples
    --------
    >>> from sfumato.datasets import make_noise
    >>> make_noise(100, random_state=0).memberships.shape
    (100, 1)
    """
    check_counts(n_objects=n_objects, n_features=n_features)
    X = np.random.default_rng(random_state).random((n_objects, n_features))
    return Simulated(X, np.ones((n_objects, 1)), np.zeros(n_objects, dtype=int))


class Loaded(NamedTuple):
    """A real data set: features (n, p) and known classes (n,)."""

    X: np.ndarray
    labels: np.ndarray


def _load(name: str) -> Loaded:
    import sklearn.datasets

    return Loaded(*getattr(sklearn.datasets, f"load_{name}")(return_X_y=True))


def load_iris() -> Loaded:
    """Fisher's irises, as in scikit-learn: 150 flowers, 4 lengths and widths, 3 species of 50.

    Examples
    --------
    >>> from sfumato.datasets import load_iris
    >>> load_iris().X.shape
    (150, 4)
    """
    return _load("iris")


def load_wine() -> Loaded:
    """178 wines of three growers, 13 measurements of very different scale, as in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_wine
    >>> load_wine().X.shape
    (178, 13)
    """
    return _load("wine")


def load_digits() -> Loaded:
    """1797 images of handwritten digits, 8 x 8 pixels with 17 grey levels, as in scikit-learn.

    Examples
    --------
    >>> from sfumato.datasets import load_digits
    >>> load_digits().X.shape
    (1797, 64)
    """
    return _load("digits")


def load_breast_cancer() -> Loaded:
    """569 tumours, 30 measurements, malignant (0) or benign (1), as in scikit-learn (Wisconsin).

    Examples
    --------
    >>> from sfumato.datasets import load_breast_cancer
    >>> load_breast_cancer().X.shape
    (569, 30)
    """
    return _load("breast_cancer")
