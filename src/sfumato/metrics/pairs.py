"""Agreement about pairs of objects, for labels and memberships alike; formulas in ``_pairs``."""

from __future__ import annotations

import numpy as np

from ..array.docs import documented
from ..array.types import ArrayLike
from ._pairs import adjusted_rand, count_pairs
from ._sides import Side, as_sides, as_weights, comparison

__all__ = [
    "adjusted_rand_index",
    "pair_confusion",
    "pair_f1",
    "pair_precision",
    "pair_recall",
    "rand_index",
]


@documented
def pair_confusion(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    unseen: str = "ignore",
) -> np.ndarray:
    """Expected numbers of pairs apart or together in the reference (rows) and in the clustering
    (columns).

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s

    Returns
    -------
    counts : array of shape (2, 2)
        ``[[TN, FP], [FN, TP]]`` over pairs i < j: half of scikit-learn's ``pair_confusion_matrix``,
        which counts both orders.

    Examples
    --------
    >>> from sfumato.metrics import pair_confusion
    >>> pair_confusion([0, 0, 1, 1], ["a", "a", "a", "b"])
    array([[2., 2.],
           [1., 1.]])
    """
    left, right, sample_weight = as_sides(reference, clustering, sample_weight, unseen)
    counts = count_pairs(left, right, as_weights(sample_weight, left.shape[0]))
    return np.array([[counts.tn, counts.fp], [counts.fn, counts.tp]])


@comparison
def rand_index(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Share of pairs on which the two clusterings agree: together in both or apart in both.

    On memberships the expectation over independently drawn labels, so a soft clustering agrees with
    itself less than perfectly (``1 - brier_score`` is the form that does).

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s
    %(bootstrap)s

    Returns
    -------
    index : float or Estimate
        1 is perfect. ``rand_score`` in scikit-learn.

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
    """Agreement of co-occurrences above chance.

     (sum pq - E) / ((sum p^2 + sum q^2)/2 - E),  E = sum p sum q / pairs.

    The index of Hubert and Arabie (1985) on labels; on memberships 1 for a soft clustering against
    itself.

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s
    %(bootstrap)s

    Returns
    -------
    index : float or Estimate
        1 is perfect, 0 is chance, at least -1/2. ``adjusted_rand_score`` in scikit-learn.

    Examples
    --------
    >>> from sfumato.metrics import adjusted_rand_index
    >>> adjusted_rand_index([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return adjusted_rand(count_pairs(left, right, weights, squares=True))


@comparison
def pair_precision(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Of the pairs the clustering puts together, the share the reference puts together too (1 if it
    puts none together).

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s
    %(bootstrap)s

    Returns
    -------
    precision : float or Estimate

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
    """Of the pairs the reference puts together, the share the clustering puts together too (1 if
    there are none).

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s
    %(bootstrap)s

    Returns
    -------
    recall : float or Estimate

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

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s
    %(bootstrap)s

    Returns
    -------
    f1 : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import pair_f1
    >>> round(pair_f1([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    c = count_pairs(left, right, weights)
    return 2 * c.tp / (2 * c.tp + c.fp + c.fn) if c.tp + c.fp + c.fn > 0 else 1.0
