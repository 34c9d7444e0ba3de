"""Fuzzy c-means in any geometry, and with linked rows.

    J = sum_ij w_i u_ij^m d_ij  +  sum over pairs apart of  q sum_j u_ij^m u_lj^m
                                +  sum over pairs together of  q sum_{j != h} u_ij^m u_lh^m

Rows that must be together share one row of memberships, whose distances are their mean. For the
others a pair adds  q u_lj^m  (or, together, q times the sum of u_lh^m, h != j) to the distance of i
from center j, so that rows in turn never raise J. With the entropy rule u takes the place of u^m.

    euclidean   |x - c|^2            weighted means; missing values are left out, and the sum over
                                     the p' others is raised by p / p' (partial distances)
    cosine      1 - cos(x, c)        means scaled to length one
    manhattan   sum |x - c|          weighted medians

Partial distances: Hathaway and Bezdek (2001). A kernel is Euclidean in coordinates F with F F' = K.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...engine import loop
from ...engine.linked import Linked
from ...numerics.distances import unit_rows
from .kernel import Rule, share


class Euclidean:
    """Squared distances, over the values that are there."""

    def __init__(self, X: np.ndarray) -> None:
        there = ~np.isnan(X)
        # Partial distances are raised to all p features; objects without any value have distance
        # zero.
        share = X.shape[1] / np.maximum(there.sum(axis=1), 1)
        whole = np.where(there, X, 0.0)
        self.there, self.heavy = there * share[:, None], whole * share[:, None]
        self.squares = np.einsum("ip,ip->i", self.heavy, whole)

    def distances(self, centers: np.ndarray) -> np.ndarray:
        """(n, k), never negative."""
        D = self.there @ (centers * centers).T - 2.0 * (self.heavy @ centers.T)
        return np.maximum(D + self.squares[:, None], 0.0)

    def update(self, A: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """The best centers for weights ``A`` (n, k); a center without any weight stays."""
        mass = A.T @ self.there
        known = mass > 0
        return np.where(known, (A.T @ self.heavy) / np.where(known, mass, 1.0), centers)


class Cosine:
    """One less the cosine of the angle; an object without direction is as far from every center."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = unit_rows(X)

    def distances(self, centers: np.ndarray) -> np.ndarray:
        """(n, k), from 0 to 2."""
        return np.maximum(1.0 - self.X @ unit_rows(centers).T, 0.0)

    def update(self, A: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """Directions of the weighted sums."""
        total = A.T @ self.X
        return np.where(total.any(axis=1, keepdims=True), unit_rows(total), unit_rows(centers))


class Manhattan:
    """Sums of absolute differences."""

    def __init__(self, X: np.ndarray) -> None:
        self.X, self.order = X, np.argsort(X, axis=0, kind="stable")

    def distances(self, centers: np.ndarray) -> np.ndarray:
        """(n, k)."""
        return np.stack([np.abs(self.X - center).sum(axis=1) for center in centers], axis=1)

    def update(self, A: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """Weighted medians of every feature; a cluster without weight stays."""
        centers, alive = centers.copy(), A.sum(axis=0) > 0
        for feature, order in enumerate(self.order.T):
            upto = np.cumsum(A[order], axis=0)
            # Lower weighted median: the first value at which half of the weight is reached.
            middle = (upto < 0.5 * upto[-1]).sum(axis=0)
            values = self.X[order[np.minimum(middle, len(order) - 1)], feature]
            centers[alive, feature] = values[alive]
        return centers


GEOMETRIES: dict[str, Any] = {"euclidean": Euclidean, "cosine": Cosine, "manhattan": Manhattan}


class Solution(NamedTuple):
    """Centers (k, p), and the last memberships of linked rows, from which the next ones begin."""

    centers: np.ndarray
    linked: np.ndarray | None = None


class Problem(NamedTuple):
    """A geometry, weights (n,) of the objects, the rule of memberships and linked rows or None."""

    geometry: Any
    weights: np.ndarray
    rule: Rule
    links: Linked | None = None
    pairs: Pairs | None = None

    @property
    def labelled(self) -> bool:
        """Whether clusters are numbered by labels."""
        return self.links is not None and bool((self.links.labels >= 0).any())

    def memberships(self, solution: Solution) -> tuple[np.ndarray, float]:
        """Memberships (n, k), the noise cluster last, and the objective."""
        return memberships(self, self.geometry.distances(solution.centers), solution.linked)

    def run(self, start: Solution, max_iter: int, tol: float) -> loop.Run:
        """Alternate until a step lowers the objective by less than ``tol`` of it."""

        def step(solution: Solution) -> tuple[Solution, float]:
            U, cost = self.memberships(solution)
            A = self.weights[:, None] * power(U[:, : len(start.centers)], self.rule)
            linked = None if self.links is None else U[self.links.rows]
            return Solution(self.geometry.update(A, solution.centers), linked), cost

        return loop.iterate(step, start, max_iter=max_iter, tol=tol)


def power(U: np.ndarray, rule: Rule) -> np.ndarray:
    """u^m, or u with the entropy rule."""
    return U if rule.temperature is not None else U**rule.fuzzifier


def memberships(problem: Problem, D: np.ndarray, start: Any = None) -> tuple[np.ndarray, float]:
    """Memberships (n, k), the noise last, and the objective; linked rows go on from ``start``."""
    rule, w = problem.rule, problem.weights
    U, costs = _share(D, rule)
    if problem.links is None:
        return U, float(w @ costs)
    rows = problem.links.rows
    free = np.ones(len(D), dtype=bool)
    free[rows] = False
    value = float(w[free] @ costs[free])
    U[rows], part = _linked(problem, D[rows], w[rows], start)
    return U, value + part


def _share(D: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Best memberships (n, k + noise) for distances (n, k), and what each object costs."""
    if rule.noise is not None:
        D = np.hstack([D, np.full((len(D), 1), rule.noise)])
    # Of every row by itself, for pulls may be large; one over it is still a number.
    floor = np.maximum(1e-15 * D.max(axis=1, keepdims=True, initial=0.0), 1e-290)
    U, costs = share(np.ascontiguousarray((D + floor).T), rule)
    # The rule works with power means of the distances, which are larger by this factor.
    return U.T, costs * rule.factor(D.shape[1])


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
        """A pull of one stands for the distance ``unit``."""
        mass = np.maximum(np.bincount(links.unit, w[links.rows]), np.finfo(float).tiny)
        pull, ends, turn = links.pull.copy(), links.pull.indptr, np.full(mass.size, -1)
        with np.errstate(over="ignore"):  # rows without weight go where their links pull
            each = pull.data * unit / np.repeat(mass, np.diff(ends))
        pull.data = np.clip(each, -1e150, 1e150)
        for a in np.flatnonzero(np.diff(ends)):
            taken = set(turn[pull.indices[ends[a] : ends[a + 1]]].tolist())
            turn[a] = next(t for t in range(len(taken) + 1) if t not in taken)
        units = [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]
        return cls(mass, pull, [Turn.of(at, pull) for at in units])


def _linked(
    problem: Problem, D: np.ndarray, w: np.ndarray, start: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """Memberships of the linked rows, and what they cost.

    Units of pairs take turns, from ``start`` or from a greedy labelling.
    """
    links, pairs, rule = problem.links, problem.pairs, problem.rule
    assert links is not None
    assert pairs is not None
    mass, pull, turns = pairs
    # Rows that must be together have one row of memberships, for their mean distance.
    mean = links.of_units(w[:, None] * D) / mass[:, None]
    U = _share(mean, rule)[0]
    held = links.labels >= 0
    U[held] = np.eye(U.shape[1])[links.labels[held]]
    noise = np.full((len(mean), U.shape[1] - mean.shape[1]), rule.noise or 0.0)
    whole, plain = np.hstack([mean, noise]), rule._replace(noise=None)
    joined = np.flatnonzero(np.diff(pull.indptr))
    if start is not None:
        U[joined] = start[np.unique(links.unit, return_index=True)[1]][joined]
    else:
        U[joined] = 0.0
        _label(U, whole, pull, joined)
    for turn in turns:
        U[turn.units] = _share(whole[turn.units] + turn.extra(power(U, rule)), plain)[0]
    P = power(U, rule)
    cost = float(mass @ np.sum(P * whole, axis=1))
    if rule.temperature is not None:
        logs = np.log(np.maximum(U, np.finfo(float).tiny))
        cost += rule.temperature * float(mass @ np.sum(U * logs, axis=1))
    for turn in turns:  # every pair is counted from both of its ends
        cost += 0.5 * float(np.sum(turn.extra(P) * P[turn.units] * mass[turn.units, None]))
    return U[links.unit], cost


def _label(U: np.ndarray, whole: np.ndarray, pull: Any, joined: np.ndarray) -> None:
    """The ``joined`` units at one center each, in place: those with a clear nearest one first
    decide for those that they are linked to."""
    two = np.partition(whole, min(1, whole.shape[1] - 1), axis=1)
    margin = two[:, min(1, whole.shape[1] - 1)] - two[:, 0]
    ends, none = pull.indptr, np.zeros(1, dtype=np.intp)
    for a in joined[np.argsort(-margin[joined], kind="stable")]:
        own = slice(ends[a], ends[a + 1])
        turn = Turn(none, pull.indices[own], pull.data[own, None], none)
        U[a, np.argmin(whole[a] + turn.extra(U)[0])] = 1.0
