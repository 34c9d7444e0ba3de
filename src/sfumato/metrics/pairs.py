"""Agreement about pairs of objects, for labels and memberships alike; formulas in ``_pairs``."""

from __future__ import annotations

import numpy as np

from ..core.types import ArrayLike, RandomState
from ._pairs import adjusted_rand, count_pairs, f1, precision, rand, recall, score
from ._sides import Estimate, as_sides, as_weights

__all__ = [
    "adjusted_rand_index",
    "pair_confusion",
    "pair_f1",
    "pair_precision",
    "pair_recall",
    "rand_index",
]


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
    return score(rand, reference, clustering, sample_weight, unseen, interval, random_state)


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
    return score(precision, reference, clustering, sample_weight, unseen, interval, random_state)


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
    return score(recall, reference, clustering, sample_weight, unseen, interval, random_state)


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
    return score(f1, reference, clustering, sample_weight, unseen, interval, random_state)
