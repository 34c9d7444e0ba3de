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


class Turn(NamedTuple):
    """Units (t,) that do not pull each other, and those (m,) that they are linked to, in turn,
    with pulls (m, 1) and the place (t,) where those of each unit begin."""

    units: np.ndarray
    others: np.ndarray
    pull: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, units: np.ndarray, pull: Any) -> Turn:
        """Some units of a sparse matrix (u, u) of pulls; each has at least one pull."""
        rows = pull[units]
        return cls(units, rows.indices, rows.data[:, None], rows.indptr[:-1])

    def extra(self, P: np.ndarray) -> np.ndarray:
        """What pairs add to the distances (t, k) of these units; ``P`` (u, k) are powers of all."""
        near = P[self.others]
        together = np.maximum(self.pull, 0.0) * near.sum(axis=1, keepdims=True)
        return np.add.reduceat(together - self.pull * near, self.first)


class Pairs(NamedTuple):
    """Weights (u,) of linked units, their pulls (u, u) as distances, and the turns they take so
    that no step raises J."""

    mass: np.ndarray
    pull: Any
    turns: list[Turn]

    @classmethod
    def of(cls, links: Linked, w: np.ndarray, unit: float) -> Pairs:
        """Pairs of rows of weights ``w`` (m,); a pull of one is the distance ``unit``."""
        mass = np.maximum(np.bincount(links.unit, w), np.finfo(float).tiny)
        pull, ends, turn = links.pull.copy(), links.pull.indptr, np.full(mass.size, -1)
        with np.errstate(over="ignore"):  # rows without weight go where their links pull
            each = pull.data * unit / np.repeat(mass, np.diff(ends))
        pull.data = np.clip(each, -1e150, 1e150)
        for a in np.flatnonzero(np.diff(ends)):
            taken = set(turn[pull.indices[ends[a] : ends[a + 1]]].tolist())
            turn[a] = next(t for t in range(len(taken) + 1) if t not in taken)
        units = [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]
        return cls(mass, pull, [Turn.of(at, pull) for at in units])


class LinkedRows(NamedTuple):
    """Linked rows, given by features z(x) (q, m) and weights (m,)."""

    links: Linked
    Z: Any
    weights: np.ndarray
    pairs: Pairs

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
    """Memberships of the linked rows, and their cost.

    Units of pairs are updated in turn, from ``start`` or from a greedy labelling.
    """
    links, (mass, pull, turns) = rows.links, rows.pairs
    # Must-linked rows have one row of memberships, for their mean distance.
    mean = links.of_units(rows.weights[:, None] * D) / mass[:, None]
    U, held, joined = _share(mean, rule)[0], links.labels >= 0, np.flatnonzero(np.diff(pull.indptr))
    U[held] = np.eye(U.shape[1])[links.labels[held]]
    if start is not None:
        U[joined] = start[np.unique(links.unit, return_index=True)[1]][joined]
    else:
        U[joined] = 0.0
        _label(U, mean, pull, joined)
    for turn in turns:
        U[turn.units] = _share(mean[turn.units] + turn.extra(power(U, rule)), rule)[0]
    P = power(U, rule)
    cost = float(mass @ np.sum(P * mean, axis=1))
    if rule.temperature is not None:
        logs = np.log(np.maximum(U, np.finfo(float).tiny))
        cost += rule.temperature * float(mass @ np.sum(U * logs, axis=1))
    for turn in turns:  # every pair is counted at both ends
        cost += 0.5 * float(np.sum(turn.extra(P) * P[turn.units] * mass[turn.units, None]))
    return U[links.unit], cost


def _label(U: np.ndarray, D: np.ndarray, pull: Any, joined: np.ndarray) -> None:
    """Assign each of the ``joined`` units to one center, in place; those with a clear nearest
    center come first, and pull those that they are linked to."""
    two = np.partition(D, min(1, D.shape[1] - 1), axis=1)
    margin = two[:, min(1, D.shape[1] - 1)] - two[:, 0]
    ends, none = pull.indptr, np.zeros(1, dtype=np.intp)
    for a in joined[np.argsort(-margin[joined], kind="stable")]:
        own = slice(ends[a], ends[a + 1])
        turn = Turn(none, pull.indices[own], pull.data[own, None], none)
        U[a, np.argmin(D[a] + turn.extra(U)[0])] = 1.0
