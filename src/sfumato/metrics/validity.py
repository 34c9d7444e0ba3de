"""How crisp and how well separated a clustering is, without any reference."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..array.docs import documented
from ..array.labels import encode
from ..array.types import ArrayLike, RandomState, Weights
from ..array.validation import check_weights, refuse_overflow
from ..memberships import entropy, margin
from .agreement import Estimate, Side, as_side, is_hard, measure


def _dense(side: Side) -> np.ndarray:
    """Memberships (n, k), one-hot for labels."""
    return side.toarray() if is_hard(side) else side


@documented
def partition_coefficient(
    clustering: ArrayLike,
    *,
    normalized: bool = False,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean of |u_i|^2, from 1/k (equal memberships) to 1 (every object is certain) (Bezdek 1981).

    Parameters
    ----------
    clustering : memberships of shape (n, k), or labels of shape (n,)
    normalized : bool
        Rescale to [0, 1]: 1 - k/(k-1) (1 - coefficient) (Dave 1996).
    %(sample_weight)s
    %(bootstrap)s

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
    mean = partial(np.average, values, None)
    return measure(mean, len(values), sample_weight, interval, random_state)


@documented
def partition_entropy(
    clustering: ArrayLike,
    *,
    normalized: bool = False,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean entropy of the memberships in nats, from 0 (all certain) to log k (Bezdek 1981).

    Parameters
    ----------
    clustering : memberships of shape (n, k), or labels of shape (n,)
    normalized : bool
        Divide by log k.
    %(sample_weight)s
    %(bootstrap)s

    Examples
    --------
    >>> from sfumato.metrics import partition_entropy
    >>> partition_entropy([[1.0, 0.0], [0.5, 0.5]], normalized=True)
    0.5
    """
    values = entropy(_dense(as_side(clustering)), relative=normalized)
    mean = partial(np.average, values, None)
    return measure(mean, len(values), sample_weight, interval, random_state)


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
    """Compactness divided by separation; smaller is better.

    sum_i sum_r u_ir^m |x_i - c_r|^2 / (n min_{r != s} |c_r - c_s|^2)

    Infinite if two centers coincide, so that duplicated centers never look best. Xie and Beni
    (1991).

    Parameters
    ----------
    X : array of shape (n, p)
    clustering : memberships of shape (n, k), or labels of shape (n,); at least two clusters
    centers : array of shape (k, p), optional
        By default, the means of the objects with weights u^m.
    fuzzifier : float
        The exponent m.
    %(sample_weight)s
    %(bootstrap)s

    Examples
    --------
    >>> from sfumato.metrics import xie_beni
    >>> xie_beni([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    0.015625
    """
    from scipy.spatial.distance import cdist, pdist

    U = _dense(as_side(clustering))
    if U.shape[1] < 2:
        raise ValueError("xie_beni compares clusters and needs at least two, got one")
    features = _features(X, len(U))
    middle = features.mean(axis=0)
    features = features - middle
    fixed = None if centers is None else np.asarray(centers, float) - middle

    def index(weights: Weights) -> float:
        powers = U**fuzzifier if weights is None else U**fuzzifier * weights[:, None]
        mass, found = powers.sum(axis=0), fixed
        if found is None:
            powers, mass = powers[:, mass > 0], mass[mass > 0]
            found = powers.T @ features / mass[:, None]
        gap = pdist(found, "sqeuclidean").min() if len(found) > 1 else 0.0
        if gap <= 1e-24 * np.square(found).sum():
            return np.inf
        spread = float(np.sum(powers * cdist(features, found, "sqeuclidean")))
        return spread / (gap * (len(U) if weights is None else weights.sum()))

    return measure(index, len(U), sample_weight, interval, random_state)


@documented
def silhouette(
    X: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean of (b_i - a_i) / max(a_i, b_i), where a_i is the mean distance of an object to its own
    cluster and b_i that to the nearest other one (Rousseeuw 1987); at most 1.

    Parameters
    ----------
    X : array of shape (n, p)
    clustering : labels of shape (n,), or memberships of shape (n, k)
    %(sample_weight)s
    %(bootstrap)s

    Examples
    --------
    >>> from sfumato.metrics import silhouette
    >>> round(silhouette([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]), 3)
    0.746
    """
    options: dict[str, Any] = {"interval": interval, "random_state": random_state}
    return fuzzy_silhouette(X, clustering, exponent=0.0, sample_weight=sample_weight, **options)


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
    """Mean silhouette of the labels, weighted by margin_i^a of the memberships.

    See ``silhouette``, and Campello and Hruschka (2006). Distances are Euclidean, computed block by
    block: O(n^2 p) time, no n x n memory. For labels, equal to scikit-learn's ``silhouette_score``.

    Parameters
    ----------
    X : array of shape (n, p)
    clustering : memberships of shape (n, k), or labels of shape (n,)
    exponent : float
        The power a; 0 weights all objects equally.
    %(sample_weight)s
    %(bootstrap)s

    Examples
    --------
    >>> from sfumato.metrics import fuzzy_silhouette
    >>> round(fuzzy_silhouette([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]), 3)
    0.746
    """
    side = as_side(clustering)
    X = _features(X, side.shape[0])
    if is_hard(side):
        labels, certainty = side.indices, np.ones(len(X))
    else:
        labels, certainty = encode(side.argmax(axis=1)), margin(side).astype(np.float64) ** exponent
    given = check_weights(sample_weight, X)
    values = _silhouettes(X, labels, np.ones(len(X)) if given is None else given)

    def mean(weights: Weights) -> float:
        share = certainty if weights is None else certainty * weights
        return float(np.average(values, weights=share)) if share.sum() > 0 else 0.0

    return measure(mean, len(X), sample_weight, interval, random_state)


def _silhouettes(X: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    from sklearn.metrics import pairwise_distances_chunked

    k = int(labels.max()) + 1
    mass = np.bincount(labels, weights, minlength=k)
    if np.count_nonzero(mass) < 2:  # nothing to compare with
        return np.zeros(len(X))
    inside: Any = sp.csr_array((weights, labels, np.arange(len(X) + 1)), shape=(len(X), k))
    inside = inside.toarray() if k <= 256 else inside  # products are faster

    def reduce(distances: np.ndarray, start: int) -> np.ndarray:
        sums = distances @ inside
        own = labels[start : start + len(sums)]
        rows = np.arange(len(sums))
        rest = mass[own] - 1
        near = np.where(rest > 0, sums[rows, own] / np.where(rest > 0, rest, 1), 0.0)
        means = sums / np.where(mass > 0, mass, np.nan)
        means[rows, own] = np.nan
        far = np.nanmin(means, axis=1)
        widest = np.maximum(near, far)
        values = (far - near) / np.where(widest > 0, widest, 1)
        return np.where((rest > 0) & (widest > 0), values, 0.0)

    blocks = pairwise_distances_chunked(X, reduce_func=reduce, working_memory=64)
    return np.concatenate(list(blocks))


class ConsensusDistribution(NamedTuple):
    """Distribution of the co-association values of pairs, one row per number of clusters."""

    n_clusters: np.ndarray  # (m,), ascending
    values: np.ndarray  # (g,), the distinct values of all matrices, ascending
    cdf: np.ndarray  # (m, g), share of the pairs at or below each value
    area: np.ndarray  # (m,), area under the curve
    change: np.ndarray  # (m,), relative change of the area; the first entry is the first area


def consensus_distribution(coassociations: Mapping[int, Any]) -> ConsensusDistribution:
    """Distribution of co-association values for every number of clusters, with its area.

    If clusters are clear, pairs are together nearly always or nearly never, and the curve is flat
    between 0 and 1. The number of clusters is the one after which the area hardly grows (Monti,
    Tamayo, Mesirov and Golub 2003).

    Parameters
    ----------
    coassociations : mapping from int to array or operator of shape (n, n)
        Made by ``similarity.coassociation`` from clusterings with this number of clusters; NaN for
        pairs that no clustering saw together.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.metrics import consensus_distribution
    >>> two = np.kron(np.eye(2), np.ones((3, 3)))
    >>> found = consensus_distribution({2: two, 3: 0.5 * two})
    >>> found.area.round(2)
    array([1. , 0.5])
    """
    if not isinstance(coassociations, Mapping) or not coassociations:
        raise TypeError(
            "coassociations must map numbers of clusters to matrices, such as {2: C2, 3: C3}, got "
            f"{type(coassociations).__name__}"
        )
    numbers = sorted(coassociations)
    pairs = [np.sort(_pair_values(coassociations[k], k)) for k in numbers]
    values = np.unique(np.concatenate(pairs))
    cdf = np.stack([np.searchsorted(own, values, side="right") / own.size for own in pairs])
    # sum_i (x_i - x_(i-1)) CDF(x_i) over the sorted values x of all pairs
    shares = [np.searchsorted(own, own, side="right") / own.size for own in pairs]
    area = np.array([np.diff(x) @ share[1:] for x, share in zip(pairs, shares, strict=True)])
    before = np.maximum(area[:-1], np.finfo(float).tiny)
    change = np.append(area[:1], np.diff(area) / before)
    return ConsensusDistribution(np.array(numbers), values, cdf, area, change)


def _pair_values(C: Any, k: int) -> np.ndarray:
    """Values of the pairs i < j that were seen together."""
    dense = to_numpy(C.toarray() if hasattr(C, "toarray") else C)
    if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or dense.dtype.kind not in "biuf":
        raise ValueError(
            f"coassociations[{k!r}] must be numbers (n, n), got shape {dense.shape} of "
            f"{dense.dtype}: make it by similarity.coassociation(labelings)"
        )
    values = dense[np.triu_indices(len(dense), 1)].astype(np.float64)
    values = values[~np.isnan(values)]
    if not values.size or values.min() < -1e-9 or values.max() > 1 + 1e-9:
        raise ValueError(
            f"coassociations[{k!r}] must hold shares from 0 to 1, of at least one pair: divide "
            "counts by the number of clusterings that saw both"
        )
    return values
