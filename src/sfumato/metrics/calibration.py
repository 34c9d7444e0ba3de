"""Whether co-occurrences are calibrated.

Squared error, calibration, and agreement among repeated clusterings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ..array.docs import documented
from ..array.types import ArrayLike, RandomState
from ..memberships import cooccurrence
from ._pairs import adjusted_rand, brier, count_pairs
from ._sides import (
    Estimate,
    Side,
    as_side,
    as_sides,
    as_weights,
    bootstrap_weights,
    comparison,
    is_hard,
    measure,
)

__all__ = ["CalibrationCurve", "brier_score", "calibration_curve", "stability"]


class CalibrationCurve(NamedTuple):
    """Pairs binned by the chance the clustering gives them.

    Mean chance, mean truth, weight, and the interval of the truth.

    Arrays over the bins that hold pairs; ``low`` and ``high`` are ``None`` unless an interval was
    asked for.
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
    unseen: str = "ignore",
    interval: float | None = None,
    random_state: RandomState = 0,
) -> CalibrationCurve:
    """How often pairs that should be together with chance p are together in the reference.

    A calibrated clustering lies on the diagonal: of the pairs it gives p = 0.7, seven in ten are
    together.

    Parameters
    ----------
    %(sides)s
    n_bins : int
        Bins of equal width on [0, 1]; empty ones are left out.
    n_pairs : int
        Where there are more pairs than that, so many are drawn at random.
    %(pair_weight)s
    %(unseen)s
    interval : float, optional
        Level of bootstrap intervals over objects for the observed shares, such as 0.95.
    random_state : None, int or Generator
        Of the drawn pairs and the bootstrap.

    Returns
    -------
    curve : CalibrationCurve
        Arrays ``predicted``, ``observed``, ``weight``, ``low``, ``high`` over bins, and ``error``.

    Examples
    --------
    >>> from sfumato.metrics import calibration_curve
    >>> curve = calibration_curve([0, 0, 1, 1], [[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> round(curve.error, 3)
    0.097
    """
    left, right, sample_weight = as_sides(reference, clustering, sample_weight, unseen)
    n = left.shape[0]
    if n < 2:
        raise ValueError("calibration needs pairs: give at least two objects")
    rng = np.random.default_rng(random_state)
    pairs = _pairs(rng, n, n_pairs)
    truth, chance = _together(left, pairs), _together(right, pairs)
    # A chance of exactly 1 belongs to the last bin.
    bins = np.minimum((chance * n_bins).astype(int), n_bins - 1)
    weights = as_weights(sample_weight, n)

    def shares(weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pair_weight = (
            np.ones(len(pairs)) if weights is None else weights[pairs[:, 0]] * weights[pairs[:, 1]]
        )
        weight, predicted, observed = (
            np.bincount(bins, pair_weight * value, minlength=n_bins)
            for value in (1.0, chance, truth)
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
        draws = np.stack(
            [
                shares(resampled)[2][used]
                for resampled in bootstrap_weights(rng, n, weights, interval)
            ]
        )
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
    # Rounding may leave [0, 1] by a bit or two.
    return np.clip(cooccurrence(side, pairs), 0.0, 1.0)


@comparison
def brier_score(left: Side, right: Side, weights: np.ndarray | None) -> float:
    """Mean squared difference of co-occurrences,  mean over pairs of (p_ij - q_ij)^2.

     0 is perfect.

    Against labels it is a proper score of the probabilities that two objects belong together: its
    expected value is least for the true probabilities. Nothing n x n is made.

    Parameters
    ----------
    %(sides)s
    %(pair_weight)s
    %(unseen)s
    %(bootstrap)s

    Returns
    -------
    score : float or Estimate
        On labels, one minus the Rand index.

    Examples
    --------
    >>> from sfumato.metrics import brier_score
    >>> brier_score([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    0.25
    """
    return brier(count_pairs(left, right, weights, squares=True))


@documented
def stability(
    clusterings: Sequence[Any] | np.ndarray,
    *,
    sample_weight: ArrayLike | None = None,
    interval: float | None = None,
    random_state: RandomState = 0,
) -> float | Estimate:
    """Mean adjusted Rand index over all pairs of clusterings of the same objects.

    Parameters
    ----------
    clusterings : sequence of labels (n,) or memberships (n, k), at least two
        For an array of labelings (n, m) pass its transpose.
    sample_weight : array of shape (n,), optional
        A pair of objects counts as often as the product of its two weights.
    %(bootstrap)s

    Returns
    -------
    stability : float or Estimate
        1 if all agree, 0 if they agree as much as chance would have it.

    Examples
    --------
    >>> from sfumato.metrics import stability
    >>> stability([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
    1.0
    """
    sides = [as_side(clustering) for clustering in clusterings]
    if len(sides) < 2 or len({side.shape[0] for side in sides}) != 1:
        raise ValueError(
            "clusterings must be at least two clusterings of the same objects, got numbers of "
            f"objects {[s.shape[0] for s in sides]}"
        )

    def mean_agreement(weights: np.ndarray | None) -> float:
        return float(
            np.mean(
                [
                    adjusted_rand(count_pairs(a, b, weights, squares=True))
                    for a, b in combinations(sides, 2)
                ]
            )
        )

    return measure(mean_agreement, sides[0].shape[0], sample_weight, interval, random_state)
