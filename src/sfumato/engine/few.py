"""The number of clusters for few objects, too few to compare densities.

    z_k = ( mean log W_k - log W_k ) / deviation

W_k is the scatter within k clusters of Ward's tree relative to the total scatter; mean and
deviation are those of uniform objects in the box around the principal axes (the gap statistic of
Tibshirani, Walther and Hastie 2001, standardised). There are clusters if the largest z exceeds that
of 95 of 100 uniform clouds, and also of 95 of 100 skewed clouds of one group, whose axes have gamma
distributions: the long tail of a single group is also far from the rest. The number of clusters is
the one whose last split lowers log W most beyond uniform clouds (the largest z would split 45
flowers, a third of iris, into 9; this rule into 2). With 12 to 49 objects in 1 to 5 dimensions, it
split 0.2 % of normal, 1.5 % of uniform, 4 % of exponential and 24 % of log-normal noise (480 draws
each; without the skewed clouds 10 % and 45 % of the latter two). ``skewed`` was chosen on other
draws of exponential noise, of groups eight deviations apart and of iris; the rule for the number of
clusters only on such groups and on iris.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage

from ..array.warn import warn
from .structure import LEVEL


class Tuning(NamedTuple):
    """Constants of the comparison of few objects (docs/thresholds.md)."""

    draws: int = 99  # clouds, for a level of exactly 0.05
    # Factor on the skewness of few objects, which underestimates that of their distribution; at
    # least nearly normal, at most exponential.
    skewed: float = 1.5
    least_skewed: float = 0.1
    most_skewed: float = 2.0
    objects: int = 5  # smallest mean number of objects in a cluster
    most: int = 20  # largest number of clusters


TUNING = Tuning()


def few_scores(X: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """Scores of 1, 2, ... clusters: how much more the last split lowers log W than in noise.

    One cluster has score zero; if nothing is beyond noise, only this score is returned.
    """
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    if weights is not None:
        copies = np.rint(weights) if np.all(weights == np.rint(weights)) else weights > 0
        X = np.repeat(X, np.minimum(copies, len(X)).astype(int), axis=0)
    S = _principal(X)
    largest = min(max(2, min(len(S) // TUNING.objects, TUNING.most)), len(np.unique(S, axis=0)))
    if largest < 2 or len(S) < 3:
        return np.zeros(1)
    low, high = S.min(axis=0), S.max(axis=0)
    below, clustered = _against_draws(S, largest, lambda rng: rng.uniform(low, high, S.shape))
    if not clustered or not _against_draws(S, largest, _skewed_clouds(S))[1]:
        return np.zeros(1)
    return np.append(0.0, np.diff(below, prepend=0.0))


def _against_draws(
    S: np.ndarray, largest: int, draw: Callable[[np.random.Generator], np.ndarray]
) -> tuple[np.ndarray, bool]:
    """Difference of log W to that of drawn clouds, and whether it exceeds 95 of 100 of them."""
    rng = np.random.default_rng(0)
    null = np.array([_scatter(draw(rng), largest) for _ in range(TUNING.draws)])
    mean, deviation = null.mean(axis=0), np.maximum(null.std(axis=0, ddof=1), 1e-12)
    highest = ((mean - null) / deviation).max(axis=1)
    below = mean - _scatter(S, largest)
    bound = np.quantile(highest, 1 - LEVEL, method="higher")
    return below, bool((below / deviation).max() > bound)


def _skewed_clouds(S: np.ndarray) -> Callable[[np.random.Generator], np.ndarray]:
    """A function that draws one-group clouds with the deviations and skewness of the axes."""
    deviation = S.std(axis=0)
    unit = S / np.maximum(deviation, np.finfo(float).tiny)
    skewness = np.abs(np.mean(unit**3, axis=0))
    # The gamma distribution of shape 4 / g^2 has skewness g; the sign does not affect scatter.
    wider = np.clip(TUNING.skewed * skewness, TUNING.least_skewed, TUNING.most_skewed)
    shape = 4.0 / wider**2
    scale = deviation / np.sqrt(shape)
    return lambda rng: rng.gamma(shape, scale, S.shape)


def number_of_few(X: Any, weights: np.ndarray | None = None) -> int:
    """The number of clusters of a few objects; warns if it is one."""
    step = max(1, X.shape[0] // 1000)  # many objects must be copies here
    scores = few_scores(X[::step], None if weights is None else weights[::step])
    found = int(np.argmax(scores)) + 1
    if found == 1 < X.shape[0]:
        warn(
            f"{X.shape[0]} objects are no closer to each other in clusters than noise would be: "
            "one cluster is the answer"
        )
    return found


def _principal(X: np.ndarray) -> np.ndarray:
    """Objects on their principal axes, scaled to the largest extent; missing values are set to the
    mean.
    """
    seen = ~np.isnan(X)
    X = X / max(float(np.abs(X[seen]).max(initial=0.0)), np.finfo(float).tiny)
    mean = np.where(seen, X, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    X = np.where(seen, X - mean, 0.0)
    X = X[:, (X[:1] != X).any(axis=0)]
    if not X.size:
        return X
    reach = float(np.abs(X).max())
    return X / reach @ np.linalg.svd(X / reach, full_matrices=False)[2].T


def _scatter(S: np.ndarray, largest: int) -> np.ndarray:
    """Log shares of the scatter within 2, ..., ``largest`` clusters."""
    within = np.append(np.cumsum(linkage(S, "ward")[:, 2] ** 2)[::-1], 0.0)
    return np.log(np.maximum(within[1:largest] / within[0], 1e-12))
