"""Fuzzy c-means of linked rows.

    J = sum_ij w_i u_ij^m d_ij  +  sum over pairs apart of  q sum_j u_ij^m u_lj^m
                                +  sum over pairs together of  q sum_{j != h} u_ij^m u_lh^m

Must-linked rows share one row of memberships, whose distances are their mean. For other links, a
pair adds q u_lj^m (or, together, q times the sum of u_lh^m, h != j) to the distance of i from
center j, so updating rows in turn never raises J. With the entropy rule, u replaces u^m.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data.constraints import matching
from ...engine.linked import Linked
from .kernel import Distances, Rule, State, Stats, memberships, share, squared_distances


class LinkedRows(NamedTuple):
    """Linked rows, given by features z(x) (q, m) and weights (m,)."""

    links: Linked
    Z: Any
    weights: np.ndarray
    unit: float  # distance that corresponds to a link of weight one

    @property
    def labelled(self) -> bool:
        """Whether labels determine the order of the clusters."""
        return bool((self.links.labels >= 0).any())

    def numbered(self, state: State, ready: Distances) -> State:
        """The centers in the order that best matches the labelled rows."""
        if not self.labelled:
            return state
        k, own = len(state.centers), self.links.labels[self.links.unit]
        return State(state.centers[matching(memberships(self.Z, ready)[:, :k], own)])

    def summarize(self, state: State, ready: Distances) -> tuple[np.ndarray, Stats]:
        """Memberships (m, k), noise last, continued from those of the state, and their sums."""
        rule, k = ready.rule, len(state.centers)
        D = np.asarray(squared_distances(self.Z, ready), dtype=np.float64).T
        U, value = _linked(self, D, rule, state.linked)
        # The kernel uses power means of distances and, unless m = 2, u^m scaled by the same factor.
        factor = rule.factor(D.shape[1])
        A = self.weights[:, None] * power(U[:, :k], rule)
        A /= 1.0 if rule.fuzzifier == 2.0 else factor
        return U, Stats(A.T @ self.Z.T, value / factor)


def power(U: np.ndarray, rule: Rule) -> np.ndarray:
    """u^m, or u under the entropy rule."""
    return U if rule.temperature is not None else U**rule.fuzzifier


def _share(D: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Best memberships for distances (n, k), and the cost of each object."""
    # A floor for each row, since links may dominate; its reciprocal must be finite.
    floor = np.maximum(1e-15 * D.max(axis=1, keepdims=True, initial=0.0), 1e-290)
    U, costs = share(np.ascontiguousarray((D + floor).T), rule)
    return U.T, costs * rule.factor(D.shape[1])


def _linked(
    rows: LinkedRows, D: np.ndarray, rule: Rule, start: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """Memberships of the linked rows, and their cost."""
    links, w = rows.links, rows.weights
    # Must-linked rows have one row of memberships, for their mean distance.
    mass = np.maximum(np.bincount(links.unit, w), np.finfo(float).tiny)
    mean = links.of_units(w[:, None] * D) / mass[:, None]
    U, costs = _share(mean, rule)
    labelled = np.flatnonzero(links.labels >= 0)
    own = links.labels[labelled]
    U[labelled] = np.eye(U.shape[1])[own]
    costs[labelled] = mean[labelled, own]
    if start is not None:
        start = start[np.unique(links.unit, return_index=True)[1]]
    penalty = 0.0
    for at, own_pull in links.pieces:  # all connected groups of one size at once
        with np.errstate(over="ignore"):  # rows without weight only follow their links
            pull = np.clip(own_pull * rows.unit / mass[at][:, :, None], -1e150, 1e150)
        begin = None if start is None else start[at]
        U[at], costs[at] = _of_pieces(mean[at], pull, rule, links.labels[at] >= 0, U[at], begin)
        P = power(U[at], rule)
        # Every pair is counted at both ends.
        penalty += 0.5 * float(np.sum(_extra(P, pull) * P * mass[at][:, :, None]))
    return U[links.unit], float(mass @ costs) + penalty


def _extra(P: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Distances (g, s, k) that links add to units, given the powers (g, s, k) of the others."""
    apart, together = np.maximum(-pull, 0.0), np.maximum(pull, 0.0)
    return apart @ P + together @ (P.sum(axis=2, keepdims=True) - P)


def _of_pieces(
    D: np.ndarray,
    pull: np.ndarray,
    rule: Rule,
    held: np.ndarray,
    U: np.ndarray,
    start: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Memberships (g, s, k) of the linked units in g groups, and their costs without links.

    Units are updated in turn: once from ``start``, or until convergence from a greedy labelling.
    """
    g, s, columns = U.shape
    U = np.where(held[:, :, None], U, 0.0 if start is None else start)
    each = np.arange(g)

    def distances(a: np.ndarray) -> np.ndarray:
        """Distances (g,) of unit ``a`` of every group, including what its links add."""
        return D[each, a] + _extra(power(U, rule), pull[each, a][:, None])[:, 0]

    if start is None:
        two = np.partition(D, min(1, columns - 1), axis=2)
        margin = two[:, :, min(1, columns - 1)] - two[:, :, 0]
        # Units with a clearly nearest center come first: they decide for the units linked to them.
        for a in np.argsort(-margin, axis=1, kind="stable").T:
            free = ~held[each, a]
            U[each[free], a[free], distances(a).argmin(axis=1)[free]] = 1.0
    for _ in range(50 if start is None else 1):
        before = U.copy()
        for number in range(s):
            a = np.full(g, number)
            new = _share(distances(a), rule)[0]
            U[:, number] = np.where(held[:, number, None], U[:, number], new)
        if np.abs(U - before).max() <= 1e-10:
            break
    costs = np.sum(power(U, rule) * D, axis=2)
    if rule.temperature is not None:
        costs += rule.temperature * np.sum(U * np.log(np.maximum(U, np.finfo(float).tiny)), axis=2)
    return U, costs
