"""Agreement on pairs of objects, for labels and memberships alike.

p_ij = u_i'u_j is the chance that the tested clustering puts i and j together, and q_ij = v_i'v_j
the same for the reference. Sums run over pairs i < j with weights w_i w_j. With T = V'WU:

    sum p q = (|T|^2 - sum_i w_i^2 |u_i|^2 |v_i|^2) / 2
            sum p = (|U'w|^2 - sum_i w_i^2 |u_i|^2) / 2

so no n x n matrix is needed: O(n k k'). For labels these are the classical measures; for
memberships the counts are expectations over labels drawn independently from both sides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.docs import documented
from ..array.types import ArrayLike, RandomState
from ..array.validation import check_weights
from ..memberships import cooccurrence
from ._sides import Side, as_sides, bootstrap_weights, comparison, is_hard, overlap, total


class Pairs(NamedTuple):
    """Expected numbers of pairs that are together in neither clustering, only in the tested one,
    only in the reference, in both; then the sum of p(1-p) + q(1-q).
    """

    tn: float
    fp: float
    fn: float
    tp: float
    vagueness: float

    @property
    def all(self) -> float:
        """Number of pairs."""
        return self.tn + self.fp + self.fn + self.tp

    @property
    def brier(self) -> float:
        """Mean of (p - q)^2."""
        return max(0.0, self.fp + self.fn - self.vagueness) / self.all if self.all > 0 else 0.0


def count_pairs(
    reference: Side, clustering: Side, weights: np.ndarray | None, *, squares: bool = False
) -> Pairs:
    """Expected pair counts; ``vagueness``, which needs two more tables, only with ``squares``."""
    w2 = np.ones(reference.shape[0]) if weights is None else weights**2
    mass = float(reference.shape[0] if weights is None else weights.sum())
    v2, u2 = (
        1.0 if is_hard(side) else np.einsum("ij,ij->i", side, side, dtype=np.float64)
        for side in (reference, clustering)
    )
    table = overlap(reference, clustering, weights)
    entries = table.data if sp.issparse(table) else table
    tp = (np.square(entries).sum() - np.sum(w2 * v2 * u2)) / 2
    q, p = (
        (np.square(total(side, weights)).sum() - np.sum(w2 * norm)) / 2
        for side, norm in ((reference, v2), (clustering, u2))
    )
    pairs = (mass**2 - w2.sum()) / 2
    vagueness = 0.0
    for side, norm, together in ((reference, v2, q), (clustering, u2, p)):
        if squares and not is_hard(side):
            squared = np.square(overlap(side, side, weights)).sum() - np.sum(w2 * norm**2)
            vagueness += together - squared / 2
    counts = (pairs - p - q + tp, p - tp, q - tp, tp, vagueness)
    return Pairs(*(max(0.0, float(count)) for count in counts))


@documented
def pair_confusion(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    missing: str = "ignore",
) -> np.ndarray:
    """Expected numbers of pairs ``[[TN, FP], [FN, TP]]``: rows apart or together in the reference,
    columns in the clustering.

    Pairs are counted once, i < j; scikit-learn's ``pair_confusion_matrix`` counts them twice.

    Parameters
    ----------
    reference, clustering, sample_weight, missing
        As for ``rand_index``.

    Examples
    --------
    >>> from sfumato.metrics import pair_confusion
    >>> pair_confusion([0, 0, 1, 1], ["a", "a", "a", "b"])
    array([[2., 2.],
           [1., 1.]])
    """
    left, right, sample_weight = as_sides(reference, clustering, sample_weight, missing)
    counts = count_pairs(left, right, check_weights(sample_weight, left))
    return np.array([[counts.tn, counts.fp], [counts.fn, counts.tp]])


@comparison
def rand_index(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Share of pairs on which the two clusterings agree: together in both or apart in both.

    For memberships, the expectation over independently drawn labels: a soft clustering then scores
    below 1 against itself (use ``1 - brier_score`` for an index that gives 1). 1 is perfect.
    ``rand_score`` in scikit-learn.

    %(pairs)s

    Examples
    --------
    >>> from sfumato.metrics import rand_index
    >>> rand_index([0, 0, 1, 1], [[1, 0], [1, 0], [0.5, 0.5], [0, 1]])
    0.75
    """
    c = count_pairs(left, right, weights)
    return (c.tp + c.tn) / c.all if c.all > 0 else 1.0


@comparison
def adjusted_rand_index(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Rand index corrected for chance: (sum pq - E) / ((sum p^2 + sum q^2)/2 - E).

    E = sum p sum q / pairs. For labels this is the index of Hubert and Arabie (1985); a soft
    clustering scores 1 against itself. 1 is perfect, 0 is chance, at least -1/2.
    ``adjusted_rand_score`` in scikit-learn.

    %(pairs)s

    Examples
    --------
    >>> from sfumato.metrics import adjusted_rand_index
    >>> adjusted_rand_index([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    c = count_pairs(left, right, weights, squares=True)
    p, q = c.tp + c.fp, c.tp + c.fn
    below = (p * (c.all - q) + q * (c.all - p) - c.all * c.vagueness) / 2
    if below <= 1e-14 * c.all**2:
        return 1.0 if c.brier <= 1e-14 else 0.0
    return (c.tp * c.tn - c.fp * c.fn) / below


@comparison
def pair_precision(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Share of the clustering's pairs that are together in the reference; 1 if it has none.

    %(pairs)s

    Examples
    --------
    >>> from sfumato.metrics import pair_precision
    >>> pair_precision([0, 0, 1, 1], [0, 0, 1, 2])
    1.0
    """
    c = count_pairs(left, right, weights)
    return c.tp / (c.tp + c.fp) if c.tp + c.fp > 0 else 1.0


@comparison
def pair_recall(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Share of the reference's pairs that are together in the clustering; 1 if it has none.

    %(pairs)s

    Examples
    --------
    >>> from sfumato.metrics import pair_recall
    >>> pair_recall([0, 0, 1, 1], [0, 0, 1, 2])
    0.5
    """
    c = count_pairs(left, right, weights)
    return c.tp / (c.tp + c.fn) if c.tp + c.fn > 0 else 1.0


@comparison
def pair_f1(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Harmonic mean of pair precision and pair recall:  2 TP / (2 TP + FP + FN).

    %(pairs)s

    Examples
    --------
    >>> from sfumato.metrics import pair_f1
    >>> round(pair_f1([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    c = count_pairs(left, right, weights)
    return 2 * c.tp / (2 * c.tp + c.fp + c.fn) if c.tp + c.fp + c.fn > 0 else 1.0


@comparison
def brier_score(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Mean squared difference (p_ij - q_ij)^2 of co-occurrences over pairs; 0 is perfect.

    Against labels it is a proper score for the probabilities of belonging together: the true
    probabilities have the smallest expected value. For two sets of labels it is one minus the Rand
    index.

    %(pairs)s

    Examples
    --------
    >>> from sfumato.metrics import brier_score
    >>> brier_score([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    0.25
    """
    return count_pairs(left, right, weights, squares=True).brier


class CalibrationCurve(NamedTuple):
    """Pairs binned by predicted chance: mean prediction, observed share, weight and interval.

    Arrays over the bins that hold pairs; ``low`` and ``high`` are ``None`` unless asked for.
    """

    predicted: np.ndarray
    observed: np.ndarray
    weight: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None

    @property
    def error(self) -> float:
        """Expected calibration error: mean of |predicted - observed| over pairs."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.weight))


@documented
def calibration_curve(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    n_bins: int = 10,
    n_pairs: int = 1_000_000,
    sample_weight: ArrayLike | None = None,
    missing: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> CalibrationCurve:
    """How often pairs that should be together with chance p are together in the reference.

    Of the pairs that a calibrated clustering gives p = 0.7, seven in ten are together.

    Parameters
    ----------
    reference, clustering, sample_weight, missing
        As for ``rand_index``.
    n_bins : int
        Bins of equal width on [0, 1]; empty ones are left out.
    n_pairs : int
        If there are more pairs than this, this many are drawn at random.
    interval : float, optional
        Level of bootstrap intervals over objects for the observed shares, such as 0.95.
    random_state : None, int or Generator
        Seed for drawing pairs and for the bootstrap.

    Examples
    --------
    >>> from sfumato.metrics import calibration_curve
    >>> curve = calibration_curve([0, 0, 1, 1], [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> round(curve.error, 3)
    0.097
    """
    left, right, sample_weight = as_sides(reference, clustering, sample_weight, missing)
    n = left.shape[0]
    if n < 2:
        raise ValueError("calibration needs pairs: give at least two objects")
    rng = np.random.default_rng(random_state)
    pairs = _pairs(rng, n, n_pairs)
    truth, chance = _together(left, pairs), _together(right, pairs)
    # A chance of exactly 1 belongs to the last bin.
    bins = np.minimum((chance * n_bins).astype(int), n_bins - 1)
    weights = check_weights(sample_weight, left)

    def shares(weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pair_weight = 1.0 if weights is None else weights[pairs].prod(axis=1)
        weight, predicted, observed = (
            np.bincount(bins, pair_weight * value, minlength=n_bins)
            for value in (np.ones(len(pairs)), chance, truth)
        )
        # NaN in empty bins, which are dropped below.
        filled = np.where(weight > 0, weight, np.nan)
        return weight, predicted / filled, observed / filled

    weight, predicted, observed = shares(weights)
    used = weight > 0
    if not used.any():
        raise ValueError(
            "calibration needs pairs: give at least two objects a sample_weight above 0"
        )
    low = high = None
    if interval is not None:
        resamples = bootstrap_weights(rng, n, weights, interval)
        draws = [shares(resampled)[2][used] for resampled in resamples]
        low, high = np.nanquantile(draws, [(1 - interval) / 2, (1 + interval) / 2], axis=0)
    return CalibrationCurve(predicted[used], observed[used], weight[used], low, high)


def _pairs(rng: np.random.Generator, n: int, n_pairs: int) -> np.ndarray:
    """All pairs i < j, or ``n_pairs`` of them at random."""
    if n * (n - 1) // 2 <= n_pairs:
        return np.stack(np.triu_indices(n, 1), axis=1)
    first = rng.integers(n, size=n_pairs)
    # An offset of 1 to n - 1 never pairs an object with itself.
    return np.stack([first, (first + rng.integers(1, n, size=n_pairs)) % n], axis=1)


def _together(side: Side, pairs: np.ndarray) -> np.ndarray:
    if is_hard(side):
        return (side.indices[pairs[:, 0]] == side.indices[pairs[:, 1]]).astype(np.float64)
    # Rounding may leave values slightly outside [0, 1].
    return np.clip(cooccurrence(side, pairs), 0.0, 1.0)
