"""Agreement about pairs of objects, for labels and memberships alike.

p_ij = u_i'u_j is the chance that the clustering under test puts i and j together, q_ij = v_i'v_j
that of the reference; sums run over
pairs i < j, each counted w_i w_j times. With  T = V'WU:

    sum p q = (|T|^2 - sum_i w_i^2 |u_i|^2 |v_i|^2) / 2
            sum p = (|U'w|^2 - sum_i w_i^2 |u_i|^2) / 2

so that nothing n x n is needed: O(n k k'). On labels the measures are the classical ones; on
memberships the counts are expectations over labels drawn independently from both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.types import ArrayLike, RandomState
from ._sides import (
    Estimate,
    Side,
    as_sides,
    as_weights,
    compare,
    is_hard,
    overlap,
    self_overlap,
    squared_norms,
    total,
)

__all__ = [
    "adjusted_rand_index",
    "pair_confusion",
    "pair_f1",
    "pair_precision",
    "pair_recall",
    "rand_index",
]


class Pairs(NamedTuple):
    """Expected numbers of pairs.

    Apart in both, together in the clustering only, in the reference only, in both; Sum p(1-p) +
    q(1-q).
    """

    tn: float
    fp: float
    fn: float
    tp: float
    vagueness: float

    @property
    def all(self) -> float:
        return self.tn + self.fp + self.fn + self.tp


def count_pairs(
    reference: Side, clustering: Side, weights: np.ndarray | None, *, squares: bool = False
) -> Pairs:
    """Expected pair counts; with ``squares`` also the vagueness, which costs two more tables on
    memberships.
    """
    w2 = np.ones(reference.shape[0]) if weights is None else weights**2
    mass = float(reference.shape[0] if weights is None else weights.sum())
    v2, u2 = squared_norms(reference), squared_norms(clustering)
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
            vagueness += together - (self_overlap(side, weights) - np.sum(w2 * norm**2)) / 2
    return Pairs(
        *(max(0.0, float(count)) for count in (pairs - p - q + tp, p - tp, q - tp, tp, vagueness))
    )


def _rand(c: Pairs) -> float:
    return (c.tp + c.tn) / c.all if c.all > 0 else 1.0


def adjusted_rand(c: Pairs) -> float:
    p, q = c.tp + c.fp, c.tp + c.fn
    above = c.tp * c.tn - c.fp * c.fn
    below = (p * (c.all - q) + q * (c.all - p) - c.all * c.vagueness) / 2
    if below <= 1e-14 * c.all**2:
        return 1.0 if brier(c) <= 1e-14 else 0.0
    return above / below


def brier(c: Pairs) -> float:
    return max(0.0, c.fp + c.fn - c.vagueness) / c.all if c.all > 0 else 0.0


def _precision(c: Pairs) -> float:
    return c.tp / (c.tp + c.fp) if c.tp + c.fp > 0 else 1.0


def _recall(c: Pairs) -> float:
    return c.tp / (c.tp + c.fn) if c.tp + c.fn > 0 else 1.0


def _f1(c: Pairs) -> float:
    return 2 * c.tp / (2 * c.tp + c.fp + c.fn) if c.tp + c.fp + c.fn > 0 else 1.0


def score(
    formula: Callable[[Pairs], float],
    reference: ArrayLike,
    clustering: ArrayLike,
    sample_weight: ArrayLike | None,
    unseen: str,
    interval: float | None,
    random_state: RandomState,
    squares: bool = False,
) -> float | Estimate:
    """A formula of the pair counts of two clusterings, with its interval if asked for."""

    def value(left: Side, right: Side, weights: np.ndarray | None) -> float:
        return formula(count_pairs(left, right, weights, squares=squares))

    return compare(value, reference, clustering, sample_weight, unseen, interval, random_state)


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
    reference, clustering : labels of shape (n,) or memberships of shape (n, k)
    sample_weight : array of shape (n,), optional
        A pair counts as often as the product of its two weights.
    unseen : {"ignore", "cluster"}
        Labels of -1 mean that a clustering did not see the object: it is left out, or such
        objects count as one more cluster.

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


def rand_index(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    unseen: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Share of pairs on which the two clusterings agree: together in both or apart in both.

    On memberships the expectation over independently drawn labels, so a soft clustering agrees with
    itself less than perfectly (``1 - brier_score`` is the form that does).

    Parameters
    ----------
    reference, clustering : labels of shape (n,) or memberships of shape (n, k)
    sample_weight : array of shape (n,), optional
        A pair counts as often as the product of its two weights.
    unseen : {"ignore", "cluster"}
        Labels of -1 mean that a clustering did not see the object: it is left out, or such
        objects count as one more cluster.
    interval : float, optional
        Level of a bootstrap interval over objects, such as 0.95; the answer is then an
        ``Estimate(value, low, high)``.
    random_state : None, int or Generator
        Of the bootstrap.

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
    return score(_rand, reference, clustering, sample_weight, unseen, interval, random_state)


def adjusted_rand_index(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    unseen: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Agreement of co-occurrences above chance.

     (sum pq - E) / ((sum p^2 + sum q^2)/2 - E),  E = sum p sum q / pairs.

    The index of Hubert and Arabie (1985) on labels; on memberships 1 for a soft clustering against
    itself.

    Parameters
    ----------
    reference, clustering : labels of shape (n,) or memberships of shape (n, k)
    sample_weight : array of shape (n,), optional
        A pair counts as often as the product of its two weights.
    unseen : {"ignore", "cluster"}
        Labels of -1 mean that a clustering did not see the object: it is left out, or such
        objects count as one more cluster.
    interval : float, optional
        Level of a bootstrap interval over objects, such as 0.95; the answer is then an
        ``Estimate(value, low, high)``.
    random_state : None, int or Generator
        Of the bootstrap.

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
    return score(
        adjusted_rand,
        reference,
        clustering,
        sample_weight,
        unseen,
        interval,
        random_state,
        squares=True,
    )


def pair_precision(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    unseen: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Of the pairs the clustering puts together, the share the reference puts together too (1 if it
    puts none together).

    Parameters
    ----------
    reference, clustering : labels of shape (n,) or memberships of shape (n, k)
    sample_weight : array of shape (n,), optional
        A pair counts as often as the product of its two weights.
    unseen : {"ignore", "cluster"}
        Labels of -1 mean that a clustering did not see the object: it is left out, or such
        objects count as one more cluster.
    interval : float, optional
        Level of a bootstrap interval over objects, such as 0.95; the answer is then an
        ``Estimate(value, low, high)``.
    random_state : None, int or Generator
        Of the bootstrap.

    Returns
    -------
    precision : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import pair_precision
    >>> pair_precision([0, 0, 1, 1], [0, 0, 1, 2])
    1.0
    """
    return score(_precision, reference, clustering, sample_weight, unseen, interval, random_state)


def pair_recall(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    unseen: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Of the pairs the reference puts together, the share the clustering puts together too (1 if
    there are none).

    Parameters
    ----------
    reference, clustering : labels of shape (n,) or memberships of shape (n, k)
    sample_weight : array of shape (n,), optional
        A pair counts as often as the product of its two weights.
    unseen : {"ignore", "cluster"}
        Labels of -1 mean that a clustering did not see the object: it is left out, or such
        objects count as one more cluster.
    interval : float, optional
        Level of a bootstrap interval over objects, such as 0.95; the answer is then an
        ``Estimate(value, low, high)``.
    random_state : None, int or Generator
        Of the bootstrap.

    Returns
    -------
    recall : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import pair_recall
    >>> pair_recall([0, 0, 1, 1], [0, 0, 1, 2])
    0.5
    """
    return score(_recall, reference, clustering, sample_weight, unseen, interval, random_state)


def pair_f1(
    reference: ArrayLike,
    clustering: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    unseen: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Harmonic mean of pair precision and pair recall:  2 TP / (2 TP + FP + FN).

    Parameters
    ----------
    reference, clustering : labels of shape (n,) or memberships of shape (n, k)
    sample_weight : array of shape (n,), optional
        A pair counts as often as the product of its two weights.
    unseen : {"ignore", "cluster"}
        Labels of -1 mean that a clustering did not see the object: it is left out, or such
        objects count as one more cluster.
    interval : float, optional
        Level of a bootstrap interval over objects, such as 0.95; the answer is then an
        ``Estimate(value, low, high)``.
    random_state : None, int or Generator
        Of the bootstrap.

    Returns
    -------
    f1 : float or Estimate

    Examples
    --------
    >>> from sfumato.metrics import pair_f1
    >>> round(pair_f1([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    return score(_f1, reference, clustering, sample_weight, unseen, interval, random_state)
