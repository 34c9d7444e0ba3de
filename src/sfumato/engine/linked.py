"""Memberships of linked rows, in models whose rows are independent given the parameters.

Must-linked rows form a unit with one label. The label z of a unit has the log-probability

    log p(z) = sum of log p(x_i, z) over its rows  +  sum over linked units of pull [z = z']  + c

where a positive pull means together and a negative one apart. Units connected by pulls form a
piece. Marginals of a piece are exact if its labels have few joint states; otherwise they are a
mean-field approximation from a greedy labelling, most certain unit first.

``keep_links`` gives memberships that satisfy every link without a weight, if labels can: the labels
z of every connected piece maximise

    sum over units of log u_a(z_a)     subject to  z_a != z_b  for neighbours a and b

by a search that takes the unit with the fewest possible labels first (Brelaz 1979), of several the
most certain one, tries its labels in the order of its memberships, and backtracks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array.arrays import namespace, native, to_numpy
from ..array.rows import Rows
from ..array.types import Weights
from ..data.constraints import Known, symmetric
from ..numerics.operators import like
from ..numerics.simplex import softmax

HARD = 1e6  # pull, in nats, of a link without a weight; outweighs the likelihood of a few objects
MOST_STATES = 4096  # largest number of joint states of a piece to enumerate
MOST_TRIALS = 20_000  # labels tried in the search of one connected piece
LEAST = 1e-300  # smaller memberships count as none; its logarithm is finite


class Linked(NamedTuple):
    """Rows (m,) that are linked or labelled.

    ``unit`` (m,) is the unit of each, ``labels`` (u,) the known cluster of each unit or -1.
    ``pull`` (u, u) holds pulls between units, sparse; ``pieces`` are the units that these join.
    """

    rows: np.ndarray
    unit: np.ndarray
    labels: np.ndarray
    pull: Any
    pieces: list[np.ndarray]
    units: Any

    @classmethod
    def of(cls, known: Known, hard: float = HARD) -> Linked | None:
        """The linked rows of the constraints, or None; ``hard`` is the default pull."""
        if known.links is None:
            return None
        n = known.component.size if known.component is not None else int(known.links.max()) + 1
        component = np.arange(n) if known.component is None else known.component
        labels = np.full(n, -1) if known.labels is None else known.labels
        several = np.bincount(component)[component] > 1
        touched = np.zeros(n, dtype=bool)
        pairs = np.empty((0, 2), dtype=np.intp) if known.pairs is None else known.pairs
        touched[pairs.ravel()] = True
        rows = np.flatnonzero(several | touched | (labels >= 0))
        _, unit = np.unique(component[rows], return_inverse=True)
        of_unit = np.full(unit.max() + 1, -1)
        np.maximum.at(of_unit, unit, labels[rows])
        at = np.searchsorted(rows, pairs)
        pull = np.nan_to_num(np.empty(0) if known.weights is None else known.weights, nan=-hard)
        ends = unit[at]
        first = of_unit[ends[:, 0]] < 0  # the pulled end; either one if both labels are known
        here, there = np.where(first, *ends.T), np.where(first, *ends.T[::-1])
        known_end = of_unit[there] >= 0
        fixed = (here[known_end], of_unit[there[known_end]], pull[known_end])
        matrix = symmetric(ends[~known_end], pull[~known_end], None, of_unit.size)
        _, piece = connected_components(matrix, directed=False)
        order = np.argsort(piece, kind="stable")
        pieces = np.split(order, np.flatnonzero(np.diff(piece[order])) + 1)
        pieces = [units for units in pieces if units.size > 1]
        each = [(units, _dense(matrix, units)) for units in pieces]
        units = native("linked").Units(of_unit, fixed, each, MOST_STATES)
        return cls(rows, unit, of_unit, matrix, pieces, units)

    def of_units(self, values: np.ndarray) -> np.ndarray:
        """Sums (u, k) of the values (m, k) over the rows of every unit."""
        total = np.zeros((self.labels.size, values.shape[1]))
        np.add.at(total, self.unit, values)
        return total

    def couple(self, logits: np.ndarray, weights: Weights = None) -> tuple[np.ndarray, float]:
        """Memberships (m, k) of the rows, and the log-likelihood of all their labelings, from log
        p(x_i, z) (m, k), times weights, since copies of a linked row share its label.
        """
        A = self.of_units(logits if weights is None else weights[:, None] * logits)
        R, value = self.units.couple(A)
        for units in self.pieces:
            if not self.enumerable(R.shape[1], units.size):
                R[units], part = _mean_field(R[units], _dense(self.pull, units))
                value += part
        return R[self.unit], value

    def enumerable(self, k: int, size: int | None = None) -> bool:
        """Whether all labellings of ``size`` units (by default the largest piece) can be tried."""
        most = max((units.size for units in self.pieces), default=0) if size is None else size
        return k ** int(most) <= MOST_STATES


class LinkedRows(NamedTuple):
    """Linked rows of the data in the form of a model, with their weights as the only column."""

    links: Linked
    rows: Rows

    @classmethod
    def of(cls, known: Known, X: Any, weights: Weights) -> LinkedRows | None:
        """The linked rows of ``X`` with weights (n,); None if there are none."""
        links = Linked.of(known)
        if links is None:
            return None
        if not (isinstance(X, np.ndarray) or sp.issparse(X)):
            raise ValueError(
                "must_link, cannot_link and labels of some objects need X as a NumPy array or a "
                "data frame in memory"
            )
        own = np.ones(links.rows.size) if weights is None else weights[links.rows]
        return cls(links, Rows(X[links.rows], own))

    @property
    def weights(self) -> np.ndarray:
        """Weights (m,) of the linked rows."""
        return self.rows.columns[0]

    @property
    def labels(self) -> np.ndarray:
        """Known clusters (m,), -1 if unknown."""
        return self.links.labels[self.links.unit]

    def free(self, n: int) -> np.ndarray:
        """Indicator (n,): 0 for linked rows, 1 for the others."""
        found = np.ones(n)
        found[self.links.rows] = 0.0
        return found

    def sums(self) -> np.ndarray:
        """Weighted sums (u, q) of what a model sees of the rows of every unit."""
        seen = self.rows.map(lambda block, _: to_numpy(block))
        return self.links.of_units(self.weights[:, None] * seen)

    def couple(self, logits: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, float]:
        """``Linked.couple``, with ``logits`` given as a function of blocks."""
        return self.links.couple(self.rows.map(lambda block, _: logits(block)), self.weights)

    def sum(self, U: np.ndarray, function: Callable[..., Any]) -> Any:
        """Sum over blocks of ``function(block, weights, memberships)``."""
        return self.rows.with_columns(self.weights, U).sum(function)


def free_weights(n: int, weights: Weights, free: Weights) -> np.ndarray:
    """Weights (n,) of rows that are ``free`` of links; zero for linked rows."""
    w = np.ones(n) if weights is None else weights
    return w if free is None else w * free


def _dense(pull: Any, units: np.ndarray) -> np.ndarray:
    """Pulls (s, s) among the ``units`` (s,) of one piece, in ascending order."""
    ends, found = pull.indptr, np.zeros((units.size, units.size))
    for a, unit in enumerate(units.tolist()):
        own = slice(ends[unit], ends[unit + 1])
        found[a, np.searchsorted(units, pull.indices[own])] = pull.data[own]
    return found


def _mean_field(A: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean-field memberships (s, k) of one piece, and the bound that they give."""
    s, k = A.shape
    R = np.zeros((s, k))
    two = np.partition(A, -2, axis=1)[:, -2:] if k > 1 else np.zeros((s, 2))
    for a in np.argsort(two[:, 0] - two[:, 1], kind="stable"):
        R[a, np.argmax(A[a] + pull[a] @ R)] = 1.0
    for _ in range(100):
        before = R.copy()
        for a in range(s):
            R[a] = softmax(A[a] + pull[a] @ R)[0]
        if np.abs(R - before).max() <= 1e-9:
            break
    entropy = -np.sum(R * np.log(np.maximum(R, np.finfo(float).tiny)))
    value = float(np.sum(R * A) + 0.5 * np.sum(pull * (R @ R.T)) + entropy)
    return R, value


def keep_links(known: Known, U: np.ndarray) -> np.ndarray:
    """Memberships (n, k) nearest to ``U`` whose labels satisfy all links; ``U`` itself if it does.
    Pieces for which no such labels were found keep those of ``U``.
    """
    if known.links is None:
        return U
    n, k = U.shape
    component = np.arange(n) if known.component is None else known.component
    _, first, unit = np.unique(component, return_index=True, return_inverse=True)
    V = U[first]
    if (V[unit] != U).any():  # a model without links gave the rows of a unit different memberships
        V = np.zeros_like(V)
        np.add.at(V, unit, U)
        V /= V.sum(axis=1, keepdims=True)
    labels = np.full(len(V), -1)
    if known.labels is not None:
        labels[unit] = known.labels
    for units, adjacent in _broken_pieces(known, unit, V.argmax(axis=1)):
        found = colouring(np.log(np.maximum(V[units], LEAST)), adjacent, labels[units])
        if found is not None:
            V[units] = _given_neighbours(V[units], adjacent, found)
    return U if (V[unit] == U).all() else V[unit]


def _broken_pieces(
    known: Known, unit: np.ndarray, labels: np.ndarray
) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Pieces in which neighbours share a label, each with the neighbours of its units."""
    if known.pairs is None or known.weights is None:
        return []
    apart = unit[known.pairs[np.isnan(known.weights)]]
    broken = apart[labels[apart[:, 0]] == labels[apart[:, 1]], 0]
    if not broken.size:
        return []
    size, both = labels.size, np.vstack([apart, apart[:, ::-1]])
    graph = sp.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(size, size))
    piece, pieces = connected_components(graph, directed=False)[1], []
    for number in np.unique(piece[broken]):
        units = np.flatnonzero(piece == number)
        rows = graph[units][:, units]
        pieces.append((units, np.split(rows.indices, rows.indptr[1:-1])))
    return pieces


def colouring(
    preference: np.ndarray, adjacent: list[np.ndarray], labels: np.ndarray
) -> np.ndarray | None:
    """Labels (s,) under which neighbours differ, with a large sum of ``preference`` (s, k); None if
    none were found. ``labels`` (s,) are known labels or -1.
    """
    preference = preference.copy()
    known = np.flatnonzero(labels >= 0)
    kept = preference[known, labels[known]]
    preference[known] = -np.inf
    preference[known, labels[known]] = np.maximum(kept, np.log(LEAST))
    s, k = preference.shape
    ranked = np.argsort(-preference, axis=1, kind="stable")
    two = np.sort(preference, axis=1)[:, -2:]
    margin = two[:, -1] - two[:, 0]  # infinite if the label is known
    z = np.full(s, -1)
    taken = np.zeros((s, k), dtype=np.intp) + np.isneginf(preference)
    stack: list[tuple[int, int]] = []  # labelled units, each with the rank of its label
    a, place = _next(z, taken, margin), 0
    for _ in range(MOST_TRIALS + s):
        while place < k and taken[a, ranked[a, place]]:
            place += 1
        if place < k:
            z[a] = ranked[a, place]
            taken[adjacent[a], z[a]] += 1
            stack.append((a, place))
            if len(stack) == s:
                return z
            a, place = _next(z, taken, margin), 0
        elif stack:
            a, place = stack.pop()
            taken[adjacent[a], z[a]] -= 1
            z[a], place = -1, place + 1
        else:
            return None
    return None


def _next(z: np.ndarray, taken: np.ndarray, margin: np.ndarray) -> int:
    """The unlabelled unit with the fewest possible labels; the most certain one in a tie."""
    free = np.flatnonzero(z < 0)
    left = (taken[free] == 0).sum(axis=1)
    few = free[left == left.min()]
    return int(few[np.argmax(margin[few])])


def _given_neighbours(V: np.ndarray, adjacent: list[np.ndarray], z: np.ndarray) -> np.ndarray:
    """Memberships in which no unit keeps a share in the labels ``z`` of its neighbours."""
    V = V.copy()
    for a, near in enumerate(adjacent):
        V[a, z[near]] = 0.0
    # If another label is now the most likely, or none is left, the unit keeps its label z alone.
    other = (V.argmax(axis=1) != z) | (V.sum(axis=1) < LEAST)
    V[other] = np.eye(V.shape[1], dtype=V.dtype)[z[other]]
    return V / V.sum(axis=1, keepdims=True)


def publish_kept(model: Any, known: Known) -> None:
    """Give a fitted ``model`` memberships that satisfy the links, and warn of broken ones."""
    U = model.memberships_
    if known.links is not None:
        kept = keep_links(known, given := to_numpy(U))
        if kept is not given:
            model.memberships_ = U = like(U, kept)
            model.labels_ = namespace(U).argmax(U, axis=1)
    known.warn_of_broken(model.labels_)
