"""Criteria for a number of clusters, each defined once: arrays in, scores out.

No model is imported here, so every model may call these functions. Those of a spectrum are written
in ``engine.numbers``. Other formulas:

    gap statistic       mean log W*_k - log W_k,   W_k the dispersion within clusters,
                        W*_k that of structureless draws
    lifetime            length of the interval of thresholds at which a linkage tree has k clusters
    PAC                 share of the pairs that 10 to 90 % of the resampled clusterings join
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.types import Array, ArrayLike
from ..engine.numbers import eigengap, misfit, misfit_of_sums, penalized_eigengap
from ..engine.structure import LEVEL, SEARCH_TESTS, Structure

__all__ = ["eigengap", "misfit", "misfit_of_sums", "penalized_eigengap"]  # defined elsewhere


def structure_score(structure: Structure) -> float:
    """- log10 of the p value of the structure test where it supports all clusters, else 0."""
    return -float(np.log10(max(structure.p_value, 1e-12))) if structure.supported else 0.0


def supported_numbers(scores: dict[int, float]) -> list[int]:
    """Numbers of clusters that the structure test supports by their scores, the largest first.

    Clusters may contain clusters, so the largest supported number is the most informative. Many
    numbers were tried: to keep false alarms of the whole search at 5 %, p must be at most 0.05 / 3
    (``engine.structure``).

    Examples
    --------
    >>> from sfumato.selection.criteria import supported_numbers
    >>> supported_numbers({2: 5.0, 3: 6.0, 4: 1.4, 5: 0.0})
    [3, 2]
    """
    least = -np.log10(LEVEL / SEARCH_TESTS)
    return sorted((k for k, score in scores.items() if score >= least), reverse=True)


def criterion_weights(information: Any) -> np.ndarray:
    """Posterior over candidates from BIC or ICL: exp(-value / 2), normalised; NaN is impossible."""
    values = np.asarray(information, dtype=np.float64)
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(values), np.nan)
    weights = np.exp(-0.5 * (np.where(known, values, np.inf) - values[known].min()))
    return weights / weights.sum()


def prediction_strength(own: Any, predicted: Any) -> float:
    """Least share, over clusters of ``own``, of its pairs that ``predicted`` keeps together.

    ``own`` are labels of held-out objects by a fit to themselves, ``predicted`` those by a fit to
    others. Tibshirani and Walther (2005).

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
    return float((kept[pairs > 0] / pairs[pairs > 0]).min(initial=1.0))


def dispersion(X: Array, labels: ArrayLike) -> float:
    """Sum over clusters of the squared distances to their means."""
    X, codes = np.asarray(X, dtype=np.float64), np.unique(labels, return_inverse=True)[1]
    X = X - X.mean(axis=0)
    sums = np.zeros((codes.max() + 1, X.shape[1]))
    np.add.at(sums, codes, X)
    sizes = np.bincount(codes)
    return float(max(0.0, np.square(X).sum() - (np.square(sums).sum(axis=1) / sizes).sum()))


def gap_statistic(dispersions: Any, references: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gap of each of m numbers of clusters and its standard error (Tibshirani, Walther, Hastie
    2001), from the dispersions (m,) on the evidence and those (b, m) on b structureless draws.
    """
    tiny = np.finfo(float).tiny
    own, drawn = (np.log(np.maximum(values, tiny)) for values in (dispersions, references))
    return drawn.mean(axis=0) - own, drawn.std(axis=0) * np.sqrt(1 + 1 / len(drawn))


def lifetime(heights: Array, n_clusters: object) -> np.ndarray:
    """Length of the interval of thresholds that leaves k clusters of a tree, for every k asked for.

    ``heights`` (n - 1,) are those at which clusters of the tree merge. NaN for one cluster, whose
    interval is unbounded, and for more clusters than objects.

    Examples
    --------
    >>> from sfumato.selection.criteria import lifetime
    >>> lifetime([0.1, 0.15, 0.2, 0.9, 0.95], [2, 3, 4]).round(2)
    array([0.05, 0.7 , 0.05])
    """
    steps = np.concatenate([[0.0], np.sort(np.asarray(heights, dtype=np.float64))])
    sizes = np.asarray(n_clusters, dtype=int)
    inside = (sizes >= 2) & (sizes <= len(steps))
    k = np.where(inside, sizes, 1)
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


def pac(shares: np.ndarray) -> float:
    """Proportion of ambiguous clustering: pairs that 10 to 90 % of the clusterings join.

    Lower is better. It drifts to the largest k, because most pairs are then always apart
    (Senbabaoglu et al. 2014).
    """
    return float(np.mean((shares > 0.1) & (shares < 0.9)))
