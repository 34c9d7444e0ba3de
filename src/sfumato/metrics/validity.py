"""How crisp and how well separated a clustering is, without any reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.labels import encode
from ..array.types import ArrayLike, RandomState
from ..array.validation import refuse_overflow
from ..memberships import entropy, margin
from ._sides import Estimate, Side, as_side, as_weights, is_hard, measure

__all__ = [
    "fuzzy_silhouette",
    "partition_coefficient",
    "partition_entropy",
    "silhouette",
    "xie_beni",
]


FEW = 256  # clusters for which a dense product beats a sparse one


def _dense(side: Side) -> np.ndarray:
    """Memberships (n, k), one-hot for labels."""
    return side.toarray() if is_hard(side) else side


def _mean(
    values: np.ndarray, sample_weight: ArrayLike | None, interval: float | None, random_state: Any
) -> float | Estimate:
    def mean(weights: np.ndarray | None) -> float:
        return np.average(values, weights=weights)

    return measure(mean, len(values), sample_weight, interval, random_state)


@documented
def partition_coefficient(
    clustering: ArrayLike,
    *,
    normalized: bool = False,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean of |u_i|^2, between 1/k (equal memberships) and 1 (every object is certain) (Bezdek
    1981).

    Parameters
    ----------
    clustering : memberships of shape (n, k), or labels of shape (n,)
    normalized : bool
        Stretch to [0, 1]:  1 - k/(k-1) (1 - coefficient)  (Dave 1996), which does not favour small
        k.
    %(sample_weight)s
    %(bootstrap)s

    Returns
    -------
    coefficient : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import partition_coefficient
    >>> partition_coefficient([[1.0, 0.0], [0.5, 0.5]])
    0.75
    """
    U = _dense(as_side(clustering))
    values, k = np.einsum("ij,ij->i", U, U), U.shape[1]
    if normalized and k > 1:
        values = 1 - k / (k - 1) * (1 - values)
    return _mean(values, sample_weight, interval, random_state)


@documented
def partition_entropy(
    clustering: ArrayLike,
    *,
    normalized: bool = False,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean entropy of the memberships in nats, between 0 (every object is certain) and log k
    (Bezdek 1981).

    Parameters
    ----------
    clustering : memberships of shape (n, k), or labels of shape (n,)
    normalized : bool
        Divide by log k.
    %(sample_weight)s
    %(bootstrap)s

    Returns
    -------
    entropy : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import partition_entropy
    >>> partition_entropy([[1.0, 0.0], [0.5, 0.5]], normalized=True)
    0.5
    """
    values = entropy(_dense(as_side(clustering)), relative=normalized)
    return _mean(values, sample_weight, interval, random_state)


def _features(X: Any, n: int) -> np.ndarray:
    """Checked features (n, p)."""
    X = to_numpy(X.toarray() if sp.issparse(X) else X)
    if X.ndim != 2 or X.shape[0] != n:
        raise ValueError(f"X must hold the features (n, p) of the {n} objects, got shape {X.shape}")
    X = X.astype(np.float64)
    if not np.isfinite(X).all():
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    refuse_overflow(X, "X")
    return X


def _unit_power(X: np.ndarray) -> int:
    """The power of two that brings features to one: their squares neither overflow nor vanish."""
    return -int(np.frexp(np.abs(X).max(initial=0.0))[1])


@documented
def xie_beni(
    X: ArrayLike,
    clustering: ArrayLike,
    *,
    centers: ArrayLike | None = None,
    fuzzifier: float = 2.0,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Compactness over separation.

     sum_i sum_r u_ir^m |x_i - c_r|^2 / (n min_{r != s} |c_r - c_s|^2),  small is good.

    Infinite where two centers coincide, so that copies of a center never look like the best
    clustering. Xie and Beni (1991).

    Parameters
    ----------
    X : array of shape (n, p)
        Features.
    clustering : memberships of shape (n, k), or labels of shape (n,); at least two clusters
    centers : array of shape (k, p), optional
        By default the means with weights u^m.
    fuzzifier : float
        The exponent m.
    %(sample_weight)s
    %(bootstrap)s

    Returns
    -------
    index : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import xie_beni
    >>> xie_beni([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    0.015625
    """
    U = _dense(as_side(clustering))
    if U.shape[1] < 2:
        raise ValueError("xie_beni compares clusters and needs at least two, got one")
    features = _features(X, len(U))
    power = _unit_power(features)
    scaled = np.ldexp(features, power)
    middle = scaled.mean(axis=0)
    fixed = None if centers is None else np.ldexp(np.asarray(centers, float), power) - middle

    def index(weights: np.ndarray | None) -> float:
        return _xie_beni(scaled - middle, U**fuzzifier, fixed, weights)

    return measure(index, len(U), sample_weight, interval, random_state)


def _xie_beni(
    X: np.ndarray, powers: np.ndarray, centers: np.ndarray | None, weights: np.ndarray | None
) -> float:
    from scipy.spatial.distance import cdist, pdist

    powers = powers if weights is None else powers * weights[:, None]
    mass = powers.sum(axis=0)
    if centers is None:
        powers, mass = powers[:, mass > 0], mass[mass > 0]
        centers = powers.T @ X / mass[:, None]
    gap = pdist(centers, "sqeuclidean").min() if len(centers) > 1 else 0.0
    spread = float(np.sum(powers * cdist(X, centers, "sqeuclidean")))
    total = len(X) if weights is None else weights.sum()
    return spread / (total * gap) if gap > 1e-24 * max(1e-300, np.square(centers).sum()) else np.inf


@documented
def silhouette(
    X: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean silhouette of the labels: how much nearer objects are to their own cluster than to the
    next one.

    The mean of s_i = (b_i - a_i) / max(a_i, b_i), a_i the mean distance to the own cluster and b_i
    to the nearest other one (Rousseeuw 1987); ``fuzzy_silhouette`` weighs it by the margins of
    memberships, whose largest entries are the labels here.

    Parameters
    ----------
    X : array of shape (n, p)
        Features.
    clustering : labels of shape (n,), or memberships of shape (n, k)
    %(sample_weight)s
    %(bootstrap)s

    Returns
    -------
    silhouette : float or Estimate
        Between -1 and 1, as ``silhouette_score`` in scikit-learn.

    Examples
    --------
    >>> from sfumato.metrics import silhouette
    >>> round(silhouette([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]), 3)
    0.746
    """
    return fuzzy_silhouette(
        X,
        clustering,
        exponent=0.0,
        sample_weight=sample_weight,
        interval=interval,
        random_state=random_state,
    )


@documented
def fuzzy_silhouette(
    X: ArrayLike,
    clustering: ArrayLike,
    *,
    exponent: float = 1.0,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean silhouette, in which an object counts by the margin of its membership: sum_i margin_i^a
    s_i / sum_i margin_i^a.

    s_i = (b_i - a_i) / max(a_i, b_i), a_i the mean distance to the own (most likely) cluster and
    b_i to the nearest other one. Distances are Euclidean, made block by block: O(n^2 p) time, no n
    x n memory. Campello and Hruschka (2006).

    Parameters
    ----------
    X : array of shape (n, p)
        Features.
    clustering : memberships of shape (n, k), or labels of shape (n,)
    exponent : float
        The power a; 0 counts all objects alike.
    %(sample_weight)s
    interval : float, optional
        Level of a bootstrap interval over objects, such as 0.95 (the silhouettes of the objects are
        kept, their mean is resampled); the answer is then an ``Estimate(value, low, high)``.
    random_state : None, int or Generator
        Of the bootstrap.

    Returns
    -------
    silhouette : float or Estimate
        Between -1 and 1. On labels equal to ``silhouette_score`` in scikit-learn.

    Examples
    --------
    >>> from sfumato.metrics import fuzzy_silhouette
    >>> round(fuzzy_silhouette([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]), 3)
    0.746
    """
    side = as_side(clustering)
    X = _features(X, side.shape[0])
    labels, certainty = _harden(side)
    given = as_weights(sample_weight, len(X))
    base = np.ones(len(X)) if given is None else given
    values = _silhouettes(np.ldexp(X, _unit_power(X)), labels, base)
    certainty = certainty**exponent

    def mean(weights: np.ndarray | None) -> float:
        share = certainty if weights is None else certainty * weights
        return float(np.average(values, weights=share)) if share.sum() > 0 else 0.0

    return measure(mean, len(X), sample_weight, interval, random_state)


def _harden(side: Side) -> tuple[np.ndarray, np.ndarray]:
    if is_hard(side):
        return side.indices, np.ones(side.shape[0])
    return encode(side.argmax(axis=1)), margin(side).astype(np.float64)


def _silhouettes(X: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    from sklearn.metrics import pairwise_distances_chunked

    k = int(labels.max()) + 1
    mass = np.bincount(labels, weights, minlength=k)
    if np.count_nonzero(mass) < 2:  # no other cluster to compare with, or none that counts
        return np.zeros(len(X))
    inside: Any = sp.csr_array((weights, labels, np.arange(len(X) + 1)), shape=(len(X), k))
    inside = inside.toarray() if k <= FEW else inside

    def reduce(distances: np.ndarray, start: int) -> np.ndarray:
        sums = distances @ inside
        own = labels[start : start + len(sums)]
        rows = np.arange(len(sums))
        rest = mass[own] - 1
        near = np.where(rest > 0, sums[rows, own] / np.where(rest > 0, rest, 1), 0.0)
        means = sums / np.where(mass > 0, mass, np.inf)
        means[:, mass <= 0] = np.inf
        means[rows, own] = np.inf
        far = means.min(axis=1)
        widest = np.maximum(near, far)
        return np.where(
            (rest > 0) & (widest > 0), (far - near) / np.where(widest > 0, widest, 1), 0.0
        )

    return np.concatenate(
        list(pairwise_distances_chunked(X, reduce_func=reduce, working_memory=64))
    )
