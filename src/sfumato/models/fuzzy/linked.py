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
from ...engine.linked import LEAST, Linked
from .kernel import Distances, Rule, State, Stats, memberships, share, squared_distances


class Turn(NamedTuple):
    """Units (t,) that do not pull each other: units (m,) that these are linked to, their pulls
    (m, 1) and the first one (t,) of every unit."""

    units: np.ndarray
    others: np.ndarray
    pull: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, units: np.ndarray, pull: Any) -> Turn:
        """Some units of a sparse matrix (u, u) of pulls, none of them without any."""
        rows = pull[units]
        return cls(units, rows.indices, rows.data[:, None], rows.indptr[:-1])

    def extra(self, P: np.ndarray) -> np.ndarray:
        """What pairs add to the distances (t, k) of these units; ``P`` (u, k) are powers of all."""
        near = P[self.others]
        added = -self.pull * near
        if self.pull.max() > 0.0:
            added += np.maximum(self.pull, 0.0) * near.sum(axis=1, keepdims=True)
        return np.add.reduceat(added, self.first)


class LinkedUnits(NamedTuple):
    """Units of linked rows: mean features z(x) (q, u), weights (u,), those ``alone`` (no pulls),
    all others, and the turns that these take so that no step raises J."""

    links: Linked
    Z: np.ndarray
    mass: np.ndarray
    alone: np.ndarray
    joined: Turn
    turns: list[Turn]

    @classmethod
    def of(cls, links: Linked, Z: np.ndarray, w: np.ndarray, unit: float) -> LinkedUnits:
        """Units of rows z(x) (m, q), weights ``w`` (m,); a pull of one is the distance ``unit``."""
        mass = np.maximum(np.bincount(links.unit, w), np.finfo(float).tiny)
        mean = links.of_units(w[:, None] * Z) / mass[:, None]
        pull, ends, turn = links.pull.copy(), links.pull.indptr, np.full(mass.size, -1)
        with np.errstate(over="ignore"):  # rows without weight go where their links pull
            each = pull.data * unit / np.repeat(mass, np.diff(ends))
        pull.data = np.clip(each, -1e150, 1e150)
        alone, joined = (np.flatnonzero((np.diff(ends) > 0) == pulled) for pulled in (False, True))
        for a in joined:
            taken = set(turn[pull.indices[ends[a] : ends[a + 1]]].tolist())
            turn[a] = next(t for t in range(len(taken) + 1) if t not in taken)
        units = [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]
        every, *turns = (Turn.of(at, pull) for at in (joined, *units))
        return cls(links, np.ascontiguousarray(mean.T), mass, alone, every, turns)

    @property
    def labelled(self) -> bool:
        """Whether labels determine the order of the clusters."""
        return bool((self.links.labels >= 0).any())

    def numbered(self, state: State, ready: Distances) -> State:
        """The centers in the order that best matches the labelled units."""
        if not self.labelled:
            return state
        U = memberships(self.Z, ready)[:, : len(state.centers)]
        return State(state.centers[matching(U, self.links.labels)])

    def summarize(self, state: State, ready: Distances) -> tuple[np.ndarray, Stats]:
        """Memberships (u, k), noise last, continued from those of the state, and their sums."""
        rule, k = ready.rule, len(state.centers)
        # Must-linked rows have one row of memberships, for their mean distance.
        D = squared_distances(self.Z, ready).T
        U, value = self._memberships(D, rule, state.linked)
        # The kernel uses power means of distances and, unless m = 2, u^m scaled by the same factor.
        factor = rule.factor(D.shape[1])
        A = self.mass[:, None] * power(U[:, :k], rule)
        A /= 1.0 if rule.fuzzifier == 2.0 else factor
        return U, Stats(A.T @ self.Z.T, value / factor)

    def _memberships(
        self, D: np.ndarray, rule: Rule, start: np.ndarray | None
    ) -> tuple[np.ndarray, float]:
        """Memberships of units at distances ``D`` (u, k), and their cost.

        Units of pairs are updated in turn, from ``start`` or from a greedy labelling.
        """
        U = np.zeros(D.shape) if start is None else start.copy()
        U[self.alone] = _share(D[self.alone], rule)[0]
        if self.labelled:
            held = self.links.labels >= 0
            U[held] = np.eye(U.shape[1])[self.links.labels[held]]
        if start is None:
            _label(U, D, self.joined)
        for turn in self.turns:
            U[turn.units] = _share(D[turn.units] + turn.extra(power(U, rule)), rule)[0]
        P, joined = power(U, rule), self.joined.units
        each = np.sum(P * D, axis=1)
        if joined.size:  # every pair is counted at both ends
            each[joined] += 0.5 * np.sum(self.joined.extra(P) * P[joined], axis=1)
        if rule.temperature is not None:
            each += rule.temperature * np.sum(U * np.log(np.maximum(U, LEAST)), axis=1)
        return U, float(self.mass @ each)


def power(U: np.ndarray, rule: Rule) -> np.ndarray:
    """u^m, or u under the entropy rule."""
    return U if rule.temperature is not None else U**rule.fuzzifier


def _share(D: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Best memberships for distances (n, k), and the cost of each object."""
    # A floor for each row, since links may dominate; its reciprocal must be finite.
    floor = np.maximum(1e-15 * D.max(axis=1, keepdims=True, initial=0.0), 1e-290)
    U, costs = share(np.ascontiguousarray((D + floor).T), rule)
    return U.T, costs * rule.factor(D.shape[1])


def _label(U: np.ndarray, D: np.ndarray, joined: Turn) -> None:
    """The ``joined`` units at one center each, in place: those with a clear nearest one first
    decide for those that they are linked to."""
    units, others, pull, first = joined
    second = min(1, D.shape[1] - 1)
    two = np.partition(D[units], second, axis=1)
    ends = np.append(first, len(others))
    for a in np.argsort(two[:, 0] - two[:, second], kind="stable"):
        # That a pair together costs the sum of the other columns only adds a constant here.
        own = slice(ends[a], ends[a + 1])
        U[units[a], np.argmin(D[units[a]] - pull[own, 0] @ U[others[own]])] = 1.0
