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

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ._sides import Side, is_hard, overlap, self_overlap, squared_norms, total

__all__ = ["Pairs", "adjusted_rand", "brier", "count_pairs"]


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
    """Expected pair counts; with ``squares`` also the sum of p(1-p) + q(1-q), which costs two more
    tables on memberships.
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


def adjusted_rand(c: Pairs) -> float:
    p, q = c.tp + c.fp, c.tp + c.fn
    above = c.tp * c.tn - c.fp * c.fn
    below = (p * (c.all - q) + q * (c.all - p) - c.all * c.vagueness) / 2
    if below <= 1e-14 * c.all**2:
        return 1.0 if brier(c) <= 1e-14 else 0.0
    return above / below


def brier(c: Pairs) -> float:
    return max(0.0, c.fp + c.fn - c.vagueness) / c.all if c.all > 0 else 0.0
