"""Fuzzy c-means in other geometries and with linked rows.

    J = sum_ij w_i u_ij^m d_ij  +  sum over pairs apart of  q sum_j u_ij^m u_lj^m
                                +  sum over pairs together of  q sum_{j != h} u_ij^m u_lh^m

Must-linked rows share one row of memberships, whose distances are their mean. For other links, a
pair adds q u_lj^m (or, together, q times the sum of u_lh^m, h != j) to the distance of i from
center j, so updating rows in turn never raises J. With the entropy rule, u replaces u^m.

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
    """Squared distances over the values that are not missing."""

    def __init__(self, X: np.ndarray) -> None:
        there = ~np.isnan(X)
        # Partial distances are rescaled to all p features; objects without any value have distance
        # 0.
        share = X.shape[1] / np.maximum(there.sum(axis=1), 1)
        whole = np.where(there, X, 0.0)
        self.there, self.heavy = there * share[:, None], whole * share[:, None]
        self.squares = np.einsum("ip,ip->i", self.heavy, whole)

    def distances(self, centers: np.ndarray) -> np.ndarray:
        """Squared distances (n, k), never negative."""
        D = self.there @ (centers * centers).T - 2.0 * (self.heavy @ centers.T)
        return np.maximum(D + self.squares[:, None], 0.0)

    def update(self, A: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """Best centers for weights ``A`` (n, k); centers without weight do not move."""
        mass = A.T @ self.there
        known = mass > 0
        return np.where(known, (A.T @ self.heavy) / np.where(known, mass, 1.0), centers)


class Cosine:
    """One minus the cosine of the angle; objects of length zero are equally far from all."""

    def __init__(self, X: np.ndarray) -> None:
        self.X = unit_rows(X)

    def distances(self, centers: np.ndarray) -> np.ndarray:
        """Distances (n, k) from 0 to 2."""
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
        """Distances (n, k)."""
        return np.stack([np.abs(self.X - center).sum(axis=1) for center in centers], axis=1)

    def update(self, A: np.ndarray, centers: np.ndarray) -> np.ndarray:
        """Weighted medians of every feature; centers without weight do not move."""
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
    """Centers (k, p), and the last memberships of linked rows, where the next update starts."""

    centers: np.ndarray
    linked: np.ndarray | None = None


class Problem(NamedTuple):
    """A geometry, weights (n,), the rule of memberships, and linked rows or None."""

    geometry: Any
    weights: np.ndarray
    rule: Rule
    links: Linked | None = None
    unit: float = 1.0  # distance that corresponds to a link of weight one

    @property
    def labelled(self) -> bool:
        """Whether labels determine the order of the clusters."""
        return self.links is not None and bool((self.links.labels >= 0).any())

    def memberships(self, solution: Solution) -> tuple[np.ndarray, float]:
        """Memberships (n, k), noise cluster last, and the objective."""
        return memberships(self, self.geometry.distances(solution.centers), solution.linked)

    def run(self, centers: np.ndarray, max_iter: int, tol: float) -> loop.Run:
        """Alternating minimisation until a step lowers the objective by less than ``tol`` of it."""

        def step(solution: Solution) -> tuple[Solution, float]:
            U, cost = self.memberships(solution)
            A = self.weights[:, None] * power(U[:, : len(centers)], self.rule)
            linked = None if self.links is None else U[self.links.rows]
            return Solution(self.geometry.update(A, solution.centers), linked), cost

        return loop.iterate(step, Solution(centers), max_iter=max_iter, tol=tol)


def power(U: np.ndarray, rule: Rule) -> np.ndarray:
    """u^m, or u under the entropy rule."""
    return U if rule.temperature is not None else U**rule.fuzzifier


def memberships(problem: Problem, D: np.ndarray, start: Any = None) -> tuple[np.ndarray, float]:
    """Memberships (n, k), noise last, and the objective; linked rows start from ``start``."""
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
    """Best memberships (n, k + noise) for distances (n, k), and the cost (n,) of each object."""
    if rule.noise is not None:
        D = np.hstack([D, np.full((len(D), 1), rule.noise)])
    # A floor for each row, since links may dominate; its reciprocal must be finite.
    floor = np.maximum(1e-15 * D.max(axis=1, keepdims=True, initial=0.0), 1e-290)
    U, costs = share(np.ascontiguousarray((D + floor).T), rule)
    # The rule works with power means of the distances, which are larger by this factor.
    return U.T, costs * rule.factor(D.shape[1])


def _linked(
    problem: Problem, D: np.ndarray, w: np.ndarray, start: np.ndarray | None
) -> tuple[np.ndarray, float]:
    """Memberships of the linked rows, and their cost."""
    links, rule = problem.links, problem.rule
    assert links is not None
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
            pull = np.clip(own_pull * problem.unit / mass[at][:, :, None], -1e150, 1e150)
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
    noise = np.full((g, s, columns - D.shape[2]), rule.noise or 0.0)
    whole, plain = np.concatenate([D, noise], axis=2), rule._replace(noise=None)
    U = np.where(held[:, :, None], U, 0.0 if start is None else start)
    each = np.arange(g)

    def distances(a: np.ndarray) -> np.ndarray:
        """Distances (g,) of unit ``a`` of every group, including what its links add."""
        return whole[each, a] + _extra(power(U, rule), pull[each, a][:, None])[:, 0]

    if start is None:
        two = np.partition(whole, min(1, columns - 1), axis=2)
        margin = two[:, :, min(1, columns - 1)] - two[:, :, 0]
        # Units with a clearly nearest center come first: they decide for the units linked to them.
        for a in np.argsort(-margin, axis=1, kind="stable").T:
            free = ~held[each, a]
            U[each[free], a[free], distances(a).argmin(axis=1)[free]] = 1.0
    for _ in range(50 if start is None else 1):
        before = U.copy()
        for number in range(s):
            a = np.full(g, number)
            new = _share(distances(a), plain)[0]
            U[:, number] = np.where(held[:, number, None], U[:, number], new)
        if np.abs(U - before).max() <= 1e-10:
            break
    costs = np.sum(power(U, rule) * whole, axis=2)
    if rule.temperature is not None:
        costs += rule.temperature * np.sum(U * np.log(np.maximum(U, np.finfo(float).tiny)), axis=2)
    return U, costs
