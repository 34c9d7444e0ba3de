"""What is known about objects: pairs that belong together or apart, and some labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from ..array.arrays import asarray_like, namespace, to_numpy
from ..array.labels import check_labelings, warn_of_ignored
from ..array.types import Array, ArrayLike, Weights
from ..array.warn import warn


class Tuning(NamedTuple):
    """Strength of links in a graph, as shares of its mean degree (of .05 to .5 the best)."""

    together: float = 0.3
    apart: float = 0.1
    next: int = 3  # labelled rows that each labelled row is linked to in a graph


TUNING = Tuning()


class Known(NamedTuple):
    """Constraints on n rows, checked and combined.

    ``component`` (n,): rows with the same number share one row of memberships; None if there are
    none. ``pairs`` (m, 2) with ``weights`` (m,): rows whose similarity is raised (positive weight)
    or lowered; NaN means apart with the default strength. ``labels`` (n,): cluster of each row, -1
    where unknown. ``links`` (q, 2) with ``signs`` (q,): the same constraints as edges of a graph: a
    weight, +inf for together, NaN for apart.
    """

    component: np.ndarray | None = None
    pairs: np.ndarray | None = None
    weights: Weights = None
    labels: np.ndarray | None = None
    links: np.ndarray | None = None
    signs: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        must_link: ArrayLike | None,
        cannot_link: ArrayLike | None,
        y: ArrayLike | None,
        X: Any,
        n_clusters: int,
    ) -> Known:
        """Constraints checked against each other; contradictions name the rows."""
        if must_link is None and cannot_link is None and y is None:
            return cls()
        n = X.shape[0] if hasattr(X, "shape") else np.asarray(X).shape[0]
        labels = given = known_labels(y, n, n_clusters)
        joined, weights = check_pairs(() if must_link is None else must_link, n, "must_link")
        firm = np.isnan(weights)
        hard, soft, weights = joined[firm], joined[~firm], weights[~firm]
        linked = _components(hard, None, n)
        component = linked if len(hard) else None
        if labels is not None:
            component, labels = _components(hard, labels, n), _carry(labels, linked)
        apart, strength = check_pairs(() if cannot_link is None else cannot_link, n, "cannot_link")
        _refuse_contradiction(apart, linked, "must_link (directly or through others)")
        links, signs = [hard, soft, apart], [np.full(len(hard), np.inf), weights, -strength]
        if given is not None and labels is not None:
            more, sides = _label_links(given)
            links, signs = [*links, more], [*signs, sides]
            of = np.where(labels >= 0, labels, -1 - np.arange(n))
            _refuse_contradiction(apart, of, "the labels in y")
            # One more pair for every two labels, between a row of each.
            rows = [int(np.argmax(labels == c)) for c in range(int(labels.max()) + 1)]
            more = np.array([(a, b) for a in rows for b in rows if a < b], dtype=np.intp)
            apart = np.vstack([apart, more.reshape(-1, 2)])
            strength = np.concatenate([strength, np.full(len(more), np.nan)])
        edges = np.vstack(links)
        if not len(edges):
            return cls()
        pairs, weights = np.vstack([soft, apart]), np.concatenate([weights, -strength])
        if not len(pairs):
            pairs = weights = None  # type: ignore[assignment]
        return cls(component, pairs, weights, labels, edges, np.concatenate(signs))

    @property
    def fewest_clusters(self) -> int:
        """Number of clusters that the labels need, and at least two if a pair must be apart."""
        apart = self.weights is not None and np.isnan(self.weights).any()
        return max(2 * int(apart), 0 if self.labels is None else int(self.labels.max()) + 1)

    def similarities(self, group: np.ndarray | None, size: int, default: float, unit: float) -> Any:
        """Sparse changes (size, size) of a similarity of objects by links, in ``unit``;
        -``default`` for pairs that must be apart. ``group`` is the object of each row; None without
        weighted pairs.
        """
        if self.pairs is None or self.weights is None:
            return None
        value = np.where(np.isnan(self.weights), -default, self.weights) * unit
        return symmetric(self.pairs, value, group, size)

    def edges(self, group: np.ndarray | None, size: int, degree: float) -> Any:
        """Sparse edges (size, size) to add to a graph of mean ``degree``; None without links."""
        if self.links is None or self.signs is None:
            return None
        value = np.where(np.isposinf(self.signs), TUNING.together * degree, self.signs)
        value = np.where(np.isnan(value), -TUNING.apart * degree, value)
        return symmetric(self.links, value, group, size)

    def held(self, group: np.ndarray | None, size: int) -> np.ndarray | None:
        """Cluster (size,) of each labelled object, -1 for others; None without labels."""
        if self.labels is None:
            return None
        labels = np.full(size, -1)
        group = np.arange(self.labels.size) if group is None else group
        rows = np.flatnonzero((group >= 0) & (self.labels >= 0))
        labels[group[rows]] = self.labels[rows]
        return labels

    def warn_of_broken(self, labels: Array) -> None:
        """Warn if ``labels`` (n,) put rows together that ``cannot_link`` separates."""
        if self.pairs is None or self.weights is None:
            return
        apart = ~(self.weights > 0)
        pairs, of = self.pairs[apart], to_numpy(labels)
        together = of[pairs[:, 0]] == of[pairs[:, 1]]
        broken = pairs[together]
        if len(broken):
            fix = "give a larger weight (a third column)"
            if np.isnan(self.weights[apart][together]).all():
                fix = "no labels were found that keep all pairs, so drop some of them"
            warn(
                f"the labels do not honour cannot_link for {len(broken)} "
                f"pair{'s' if len(broken) > 1 else ''}, such as rows {broken[0, 0]} and "
                f"{broken[0, 1]}: {fix}, or ask for more clusters"
            )


def symmetric(pairs: np.ndarray, value: np.ndarray, group: Any, size: int) -> Any:
    """Symmetric sparse matrix with ``value`` at ``pairs`` of rows, indexed by their objects."""
    at = pairs if group is None else group[pairs]
    kept = (at >= 0).all(axis=1) & (at[:, 0] != at[:, 1])
    at, value = at[kept], value[kept]
    both = np.concatenate([at, at[:, ::-1]]).T
    return sp.csr_array(sp.coo_array((np.tile(value, 2), tuple(both)), shape=(size, size)))


def _label_links(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Links from each labelled row to a few others, +inf for rows with the same label, else NaN."""
    rows = np.flatnonzero(labels >= 0)
    links, signs = [np.empty((0, 2), dtype=np.intp)], [np.empty(0)]
    for label in np.unique(labels[rows]):
        own, other = rows[labels[rows] == label], rows[labels[rows] != label]
        for step in range(1, TUNING.next + 1):
            if step < own.size:
                links.append(np.stack([own, np.roll(own, -step)], axis=1))
                signs.append(np.full(own.size, np.inf))
            if step <= other.size:
                links.append(np.stack([own, np.resize(np.roll(other, -step), own.size)], axis=1))
                signs.append(np.full(own.size, np.nan))
    return np.concatenate(links), np.concatenate(signs)


def match_columns(U: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Memberships (g, k) with columns matched to the known ``labels``, which are set exactly."""
    known = labels >= 0
    U = U[:, matching(U, labels)]
    U[known] = np.eye(U.shape[1], dtype=U.dtype)[labels[known]]
    return U


def largest_first(U: Any, weights: Any = None) -> np.ndarray:
    """Order (k,) of the clusters by soft size in ``U`` (n, k), largest first."""
    U = to_numpy(U)
    sizes = U.sum(axis=0, dtype=np.float64) if weights is None else weights @ U
    return np.argsort(-sizes, kind="stable")


def reordered(A: Any, order: np.ndarray, axis: int) -> Any:
    """The entries along ``axis`` in the given order, for arrays of any library."""
    xp = namespace(A)
    return xp.take(A, asarray_like(order, A, xp.int64), axis=axis)


def matching(U: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Column of ``U`` for each cluster 0, 1, ..., matched to the known ``labels``."""
    known = labels >= 0
    votes = np.zeros((U.shape[1], U.shape[1]))
    np.add.at(votes, labels[known], U[known])
    return linear_sum_assignment(-votes)[1]


def _components(hard: np.ndarray, labels: np.ndarray | None, n: int) -> np.ndarray:
    """Component number of each row; linked rows and rows with the same label share one."""
    links = [hard]
    if labels is not None:
        for label in range(int(labels.max()) + 1):
            rows = np.flatnonzero(labels == label)
            links.append(np.stack([rows[:-1], rows[1:]], axis=1))
    both = np.concatenate(links)
    graph = sp.coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def check_pairs(pairs: Any, n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of different rows (m, 2) and their weights (m,), NaN if not given."""
    try:
        given = np.asarray(pairs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold pairs of row numbers, (m, 2): {error}") from error
    given = given.reshape(0, 2) if given.size == 0 else given
    if given.ndim != 2 or given.shape[1] not in (2, 3):
        raise ValueError(f"{name} must hold pairs (m, 2), with weights (m, 3); got {given.shape}")
    index = given[:, :2]
    if not (np.isfinite(index).all() and (index == np.rint(index)).all()):
        raise ValueError(f"{name} must hold whole row numbers in its first two columns")
    if index.size and (index.min() < 0 or index.max() >= n):
        wrong = index[(index < 0) | (index >= n)][0]
        raise ValueError(f"{name} has row number {wrong:g}, but rows are numbered 0 to {n - 1}")
    rows = index.astype(np.intp)
    if (rows[:, 0] == rows[:, 1]).any():
        same = rows[rows[:, 0] == rows[:, 1]][0, 0]
        raise ValueError(f"{name} pairs row {same} with itself: drop that pair")
    weights = given[:, 2] if given.shape[1] == 3 else np.full(len(rows), np.nan)
    # Bounded, so that products of weights and similarities stay finite.
    if given.shape[1] == 3 and not ((weights <= 1e100) & (weights > 0)).all():
        raise ValueError(f"weights of {name} (its third column) must be positive, at most 1e+100")
    return rows, weights


def known_labels(y: ArrayLike | None, n: int, n_clusters: int) -> np.ndarray | None:
    """Cluster of each row (n,), in the order of labels, -1 if unknown; None without such labels."""
    if y is None:
        return None
    y = np.asarray(y)
    if y.ndim != 1 or y.dtype.kind not in "biufOUST":
        return None
    if y.dtype.kind == "f" and (y[~np.isnan(y)] != np.rint(y[~np.isnan(y)])).any():
        return None  # y holds something other than labels
    labels = check_labelings(y, "y")[:, 0].astype(np.intp)
    if labels.min() >= 0 or labels.max() < 0:
        warn_of_ignored(y)
        return None
    if labels.size != n:
        raise ValueError(f"y must hold one label for each of the {n} objects, got {labels.size}")
    if labels.max() >= n_clusters:
        raise ValueError(f"y has {labels.max() + 1} labels: raise n_clusters={n_clusters}")
    return labels


def _carry(labels: np.ndarray, component: np.ndarray) -> np.ndarray:
    """Labels carried over to all rows that must_link joins with a labelled row."""
    known = np.flatnonzero(labels >= 0)
    of_component = np.full(component.max() + 1, -1)
    of_component[component[known]] = labels[known]
    clash = known[of_component[component[known]] != labels[known]]
    if clash.size:
        same = component[known] == component[clash[0]]
        other = known[same & (labels[known] != labels[clash[0]])][0]
        raise ValueError(f"must_link joins rows {clash[0]} and {other}, whose labels in y differ")
    return of_component[component]


def _refuse_contradiction(apart: np.ndarray, same: np.ndarray, by: str) -> None:
    clash = apart[same[apart[:, 0]] == same[apart[:, 1]]]
    if len(clash):
        raise ValueError(
            f"cannot_link separates rows {clash[0, 0]} and {clash[0, 1]}, which are together by "
            f"{by}: {len(clash)} contradictions; drop one side"
        )
