"""Criteria for a number of clusters, each defined once: arrays in, scores out.

No model is imported here, so every model may call these functions. Formulas (Z the factor of the
rank-k cluster kernel with rows of length one, U the memberships, lambda the eigenvalues of the
normalised similarity in descending order):

    misfit              e_k = |Z Z' - U U'|^2 / |Z Z'|^2
    relative eigengap   g_k = (lambda_k - lambda_{k+1}) / (1 - lambda_{k+1})
    penalized eigengap  g_k max(0, 1 - 10 e_k)
    BIC, AIC, ICL       -2 log L + p log n,   -2 log L + 2 p,   BIC - 2 sum_i log max_r u_ir
    gap statistic       mean log W*_k - log W_k,   W_k the dispersion within clusters,
                        W*_k that of structureless draws
    lifetime            length of the interval of thresholds at which a linkage tree has k clusters
    PAC                 share of the pairs that 10 to 90 % of the resampled clusterings join
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..array.types import Array, ArrayLike
from ..engine.numbers import eigengap, misfit, misfit_of_sums, penalized_eigengap
from ..engine.structure import LEVEL, SEARCH_TESTS, Structure
from ..metrics import adjusted_rand_index

__all__ = [
    "GapStatistic",
    "aic",
    "bic",
    "criterion_weights",
    "dispersion",
    "eigengap",
    "gap_statistic",
    "held_out_agreement",
    "icl",
    "lifetime",
    "longest_lifetime",
    "mean_agreement",
    "misfit",
    "misfit_of_sums",
    "pac",
    "penalized_eigengap",
    "prediction_strength",
    "structure_score",
    "supported_numbers",
]


def structure_score(structure: Structure) -> float:
    """- log10 of the p value of the structure test where it supports all clusters, else 0."""
    return -float(np.log10(max(structure.p_value, 1e-12))) if structure.supported else 0.0


def supported_numbers(n_clusters: Any, scores: Any) -> list[int]:
    """Numbers of clusters that the structure test supports, the largest first.

    Clusters may contain clusters, so the largest supported number is the most informative. Many
    numbers were tried: to keep false alarms of the whole search at 5 %, p must be at most 0.05 / 3
    (``engine.structure``).

    Examples
    --------
    >>> from sfumato.selection.criteria import supported_numbers
    >>> supported_numbers([2, 3, 4, 5], [5.0, 6.0, 1.4, 0.0])
    [3, 2]
    """
    numbers = zip(n_clusters, scores, strict=True)
    least = -np.log10(LEVEL / SEARCH_TESTS)
    return sorted({int(k) for k, score in numbers if score >= least}, reverse=True)


def bic(log_likelihood: float, n_parameters: float, n_objects: float) -> float:
    """Bayesian information criterion, lower is better; R's mclust gives the negative of it."""
    return float(-2.0 * log_likelihood + n_parameters * np.log(n_objects))


def aic(log_likelihood: float, n_parameters: float) -> float:
    """Akaike's information criterion, lower is better."""
    return float(-2.0 * log_likelihood + 2.0 * n_parameters)


def icl(bic: float, memberships: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """BIC plus what the memberships leave open, - 2 sum_i w_i log max_r u_ir; lower is better."""
    largest = np.asarray(memberships, dtype=np.float64).max(axis=1)
    sure = np.log(np.maximum(largest, np.finfo(float).tiny))
    return float(bic - 2.0 * (sure.sum() if sample_weight is None else sure @ sample_weight))


def criterion_weights(information: Any) -> np.ndarray:
    """Posterior over candidates from BIC or ICL: exp(-value / 2), normalised; NaN is impossible."""
    values = np.asarray(information, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(values), np.nan)
    weights = np.exp(-0.5 * (np.where(known, values, np.inf) - values[known].min()))
    return weights / weights.sum()


def held_out_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Adjusted Rand index of two labelings made by fits that share no evidence."""
    return float(adjusted_rand_index(first, second))


def mean_agreement(
    partitions: np.ndarray, labels: np.ndarray, weights: np.ndarray, mass: np.ndarray
) -> float:
    """Mean adjusted Rand index of labels (n,) to partitions (n, m), each on the objects that it saw
    (those with labels other than -1); 0 at least.

    ``weights`` (m,) are those of the partitions, ``mass`` (n,) those of the objects.
    """
    seen = partitions >= 0
    indices = [
        adjusted_rand_index(partitions[own, b], labels[own], sample_weight=mass[own])
        for b, own in enumerate(seen.T)
        if own.any()
    ]
    return max(0.0, float(np.average(indices, weights=weights[seen.any(axis=0)])))


def prediction_strength(own: Any, predicted: Any) -> float:
    """Least share, over clusters of ``own``, of its pairs that ``predicted`` keeps together.

    Tibshirani and Walther (2005).

    Parameters
    ----------
    own : labels of shape (n,)
        Of held-out objects, by a fit to themselves.
    predicted : labels of shape (n,)
        Of the same objects, by a fit to others.

    Examples
    --------
    >>> from sfumato.selection.criteria import prediction_strength
    >>> round(prediction_strength([0, 0, 0, 1, 1], [0, 0, 1, 2, 2]), 3)
    0.333
    """
    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (own, predicted))
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1.0)
    sizes = table.sum(axis=1)
    pairs = sizes * (sizes - 1)
    kept = (table * (table - 1)).sum(axis=1)
    shares = kept[pairs > 0] / pairs[pairs > 0]
    return float(shares.min()) if len(shares) else 1.0


def dispersion(X: Array, labels: ArrayLike) -> float:
    """Sum over clusters of the squared distances to their means."""
    X, codes = np.asarray(X, dtype=np.float64), np.unique(labels, return_inverse=True)[1]
    X = X - X.mean(axis=0)
    sums = np.zeros((codes.max() + 1, X.shape[1]))
    np.add.at(sums, codes, X)
    sizes = np.bincount(codes)
    return float(max(0.0, np.square(X).sum() - (np.square(sums).sum(axis=1) / sizes).sum()))


class GapStatistic(NamedTuple):
    """Gap and its standard error, arrays with an entry for each number of clusters."""

    gap: np.ndarray
    standard_error: np.ndarray

    def first(self) -> int:
        """Position of the first gap that is at least the next one less its standard error."""
        enough = self.gap[:-1] >= (self.gap - self.standard_error)[1:]
        return int(np.argmax(enough)) if enough.any() else len(self.gap) - 1


def gap_statistic(dispersions: Any, references: Any) -> GapStatistic:
    """Gap statistic of Tibshirani, Walther and Hastie (2001).

    Parameters
    ----------
    dispersions : array of shape (m,)
        Of m numbers of clusters on the evidence.
    references : array of shape (b, m)
        The same on b draws without structure.
    """
    tiny = np.finfo(float).tiny
    own = np.log(np.maximum(np.asarray(dispersions, dtype=np.float64), tiny))
    drawn = np.log(np.maximum(np.atleast_2d(np.asarray(references, dtype=np.float64)), tiny))
    spread = drawn.std(axis=0) * np.sqrt(1 + 1 / len(drawn))
    return GapStatistic(drawn.mean(axis=0) - own, spread)


def lifetime(heights: Array, n_clusters: object) -> np.ndarray:
    """Length of the interval of thresholds that leaves k clusters of a tree, for every k asked for.

    Parameters
    ----------
    heights : array of shape (n - 1,)
        At which clusters of the linkage tree merge.
    n_clusters : array of int

    Returns
    -------
    lifetimes : array
        NaN for one cluster, whose interval is unbounded, and for more clusters than objects.

    Examples
    --------
    >>> from sfumato.selection.criteria import lifetime
    >>> lifetime([0.1, 0.15, 0.2, 0.9, 0.95], [2, 3, 4]).round(2)
    array([0.05, 0.7 , 0.05])
    """
    steps = np.concatenate([[0.0], np.sort(np.asarray(heights, dtype=np.float64))])
    sizes = np.asarray(n_clusters, dtype=int)
    inside = (sizes >= 2) & (sizes <= len(steps))
    k = np.where(inside, sizes, 2 if len(steps) > 1 else 1)
    upper, lower = steps[np.minimum(len(steps) - k + 1, len(steps) - 1)], steps[len(steps) - k]
    return np.where(inside, upper - lower, np.nan)


def longest_lifetime(heights: ArrayLike, max_clusters: int | None = None) -> int:
    """Number of clusters with the longest lifetime (Fred and Jain 2005).

    One cluster if the longest lifetime is under twice the shortest that is not zero.
    """
    sorted_heights = np.sort(np.asarray(heights, dtype=np.float64))
    gaps = np.diff(sorted_heights)
    positive = gaps[gaps > 1e-12]
    if len(positive) == 0 or (len(positive) > 1 and positive.max() < 2 * positive.min()):
        return 1
    largest = len(sorted_heights) if max_clusters is None else max_clusters
    sizes = np.arange(2, max(2, min(largest, len(sorted_heights))) + 1)
    return int(sizes[np.argmax(lifetime(sorted_heights, sizes))])


def pac(shares: ArrayLike, low: float = 0.1, high: float = 0.9) -> float:
    """Proportion of ambiguous clustering, pairs that ``low`` to ``high`` of the clusterings join.

    Lower is better. It drifts to the largest k, because most pairs are then always apart
    (Senbabaoglu et al. 2014).
    """
    values = np.asarray(shares, dtype=np.float64)
    return float(np.mean((values > low) & (values < high)))
