"""Memberships of rows that the user linked, in models whose rows are independent given parameters.

Rows that must be together are a unit with one label; the label z of a unit has the log-probability

    log p(z) = sum of log p(x_i, z) over its rows  +  sum over linked units of pull [z = z']  + c

with a pull above zero together and below zero apart. Units joined by pulls are a piece; a unit of
known label only adds to the log-probabilities of those that it pulls. The marginals of a piece are
exact as long as its labels have few joint states; beyond, mean field from a greedy labelling, the
surest unit first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array.arrays import is_numpy
from ..array.rows import Rows
from ..array.types import Weights
from ..data.constraints import Known

__all__ = ["HARD", "Linked", "LinkedRows", "Pieces", "free_weights"]

HARD = 1e6  # pull, in nats, of a pair without a weight: no likelihood of a few objects outweighs it
MOST_STATES = 4096  # joint states of a piece that are enumerated
N_SWEEPS = 100
SETTLED = 1e-9  # largest change of a membership at which mean field stops


class Pieces(NamedTuple):
    """All pieces of one size: units (g, s) joined by pulls (g, s, s), symmetric with zero diagonal.

    They are worked on together: most pieces are pairs, and each takes microseconds by itself.
    """

    units: np.ndarray
    pull: np.ndarray


class Linked(NamedTuple):
    """Rows (m,) that are linked or labelled.

    ``unit`` (m,) is the unit of each, ``labels`` (u,) the known cluster of each unit or -1.
    ``told`` are pulls (t,) on units (t,) towards clusters (t,), by units of known label.
    """

    rows: np.ndarray
    unit: np.ndarray
    labels: np.ndarray
    pieces: tuple[Pieces, ...]
    told: tuple[np.ndarray, np.ndarray, np.ndarray]

    @classmethod
    def of(cls, known: Known, hard: float = HARD) -> Linked | None:
        """The linked rows of what is known; None without any. ``hard`` pulls where no weight is."""
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
        first = of_unit[ends[:, 0]] < 0  # the end that is pulled; either one if both are known
        here, there = np.where(first, *ends.T), np.where(first, *ends.T[::-1])
        known_end = of_unit[there] >= 0
        told = (here[known_end], of_unit[there[known_end]], pull[known_end])
        pieces = _pieces(ends[~known_end], pull[~known_end], of_unit.size)
        return cls(rows, unit, of_unit, pieces, told)

    def of_units(self, values: np.ndarray) -> np.ndarray:
        """Sums (u, k) of the values (m, k) of the rows of every unit."""
        total = np.zeros((self.labels.size, values.shape[1]))
        np.add.at(total, self.unit, values)
        return total

    def couple(self, logits: np.ndarray, weights: Weights = None) -> tuple[np.ndarray, float]:
        """Memberships (m, k) of the rows, and the logarithm of the sum over all their labels.

        ``logits`` (m, k) are log p(x_i, z); weights (m,) multiply them: copies of a linked row
        share its label.
        """
        A = self.of_units(logits if weights is None else weights[:, None] * logits)
        units, clusters, pulls = self.told
        np.add.at(A, (units, clusters), pulls)
        known = np.flatnonzero(self.labels >= 0)
        own = self.labels[known]
        kept = A[known, own]
        A[known] = -10.0 * HARD * self.labels.size
        A[known, own] = kept
        R, value = _softmax(A), 0.0
        alone = np.ones(len(A), dtype=bool)
        for same in self.pieces:
            alone[same.units] = False
            R[same.units], part = _of_pieces(A[same.units], same.pull)
            value += part
        return R[self.unit], value + float(_log_sums(A[alone]).sum())


class LinkedRows(NamedTuple):
    """Linked rows of the data as a model sees them, with their weights as only column."""

    links: Linked
    rows: Rows

    @classmethod
    def of(cls, known: Known, rows: Rows) -> LinkedRows | None:
        """The linked ones of ``rows``, whose first column holds weights; None without any."""
        links = Linked.of(known)
        if links is None:
            return None
        if not is_numpy(rows.X) or sp.issparse(rows.X):
            raise ValueError(
                "must_link, cannot_link and labels of some objects need X as a NumPy array or a "
                "data frame in memory"
            )
        given = rows.columns[0]
        weights = np.ones(links.rows.size) if given is None else given[links.rows]
        own = Rows(rows.X[links.rows], weights, n_jobs=rows.n_jobs, view=rows.view)
        return cls(links, own.kept())

    @property
    def weights(self) -> np.ndarray:
        """Weights (m,)."""
        return self.rows.columns[0]

    @property
    def labels(self) -> np.ndarray:
        """Known clusters (m,), -1 where unknown."""
        return self.links.labels[self.links.unit]

    def apart(self, rows: Rows) -> Rows:
        """All rows with one more column (n,): 0 for the linked ones, 1 for the others."""
        free = np.ones(rows.shape[0])
        free[self.links.rows] = 0.0
        return rows.beside(*rows.columns, free)

    def couple(self, logits: Callable[[Any], np.ndarray]) -> tuple[np.ndarray, float]:
        """``Linked.couple`` with ``logits`` of blocks."""
        return self.links.couple(self.rows.map(lambda block, _: logits(block)), self.weights)

    def sum(self, U: np.ndarray, function: Callable[..., Any]) -> Any:
        """Sum over blocks of ``function(block, weights, memberships)``."""
        return self.rows.beside(self.weights, U).sum(function)


def free_weights(n: int, weights: Weights, free: Weights) -> np.ndarray:
    """Weights (n,) of the rows that are ``free`` (1) of links, zero for the others (0)."""
    w = np.ones(n) if weights is None else weights
    return w if free is None else w * free


def _pieces(ends: np.ndarray, pull: np.ndarray, size: int) -> tuple[Pieces, ...]:
    """Units that pulls between their ``ends`` (q, 2) join, directly or through others."""
    apart = ends[:, 0] != ends[:, 1]
    ends, pull = ends[apart], pull[apart]
    one_way = sp.coo_array((pull, (ends[:, 0], ends[:, 1])), shape=(size, size)).tocsr()
    matrix = one_way + one_way.T
    piece = connected_components(matrix != 0, directed=False)[1]
    by_size: dict[int, list[np.ndarray]] = {}
    for number in np.unique(piece[ends.ravel()]):
        units = np.flatnonzero(piece == number)
        by_size.setdefault(units.size, []).append(units)
    return tuple(
        Pieces(np.stack(same), np.stack([matrix[units][:, units].toarray() for units in same]))
        for same in by_size.values()
    )


def _softmax(A: np.ndarray) -> np.ndarray:
    """Shares exp(A) of every row; SciPy's takes ten times as long for the few rows of a link."""
    E = np.exp(A - A.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def _log_sums(A: np.ndarray) -> np.ndarray:
    """Logarithms (s,) of the sums of exp(A) over every row."""
    top = A.max(axis=1)
    return np.log(np.exp(A - top[:, None]).sum(axis=1)) + top


def _of_pieces(A: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, float]:
    _, s, k = A.shape
    if s * np.log(k) <= np.log(MOST_STATES):
        return _exact(A, pull)
    found = [_mean_field(*one) for one in zip(A, pull, strict=True)]
    return np.stack([R for R, _ in found]), sum(value for _, value in found)


def _exact(A: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, float]:
    """Marginals (g, s, k) over all k^s labellings of each piece, and the logarithm of the product
    of their sums.
    """
    g, s, k = A.shape
    T: Any = np.zeros((g,) + (k,) * s)
    for a in range(s):
        T = T + A[:, a].reshape((g,) + (1,) * a + (k,) + (1,) * (s - 1 - a))
        for b in range(a + 1, s):
            if pull[:, a, b].any():
                both = pull[:, a, b, None, None] * np.eye(k)
                shape = (1,) * a + (k,) + (1,) * (b - a - 1) + (k,) + (1,) * (s - 1 - b)
                T = T + both.reshape((g, *shape))
    values = _log_sums(T.reshape(g, -1))
    P = np.exp(T - values.reshape((g,) + (1,) * s))
    marginals = [P.sum(axis=tuple(c + 1 for c in range(s) if c != a)) for a in range(s)]
    return np.stack(marginals, axis=1), float(values.sum())


def _mean_field(A: np.ndarray, pull: np.ndarray) -> tuple[np.ndarray, float]:
    """Independent memberships (s, k) nearest to the joint labels, and the bound that they give."""
    s, k = A.shape
    R = np.zeros((s, k))
    two = np.partition(A, -2, axis=1)[:, -2:] if k > 1 else np.zeros((s, 2))
    for a in np.argsort(two[:, 0] - two[:, 1], kind="stable"):
        R[a, np.argmax(A[a] + pull[a] @ R)] = 1.0
    for _ in range(N_SWEEPS):
        before = R.copy()
        for a in range(s):
            R[a] = _softmax((A[a] + pull[a] @ R)[None])[0]
        if np.abs(R - before).max() <= SETTLED:
            break
    entropy = -np.sum(R * np.log(np.maximum(R, np.finfo(float).tiny)))
    value = float(np.sum(R * A) + 0.5 * np.sum(pull * (R @ R.T)) + entropy)
    return R, value
