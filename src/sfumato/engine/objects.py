"""Which rows are one object, and samples of objects that do not depend on their order.

Copies are one object, and so are rows linked by the user; rows without weight are no object. Models
of similarities fit the objects; every row then takes the memberships of its object.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..array.arrays import is_numpy, to_numpy
from ..array.rows import Rows, has_missing, sorted_rows
from ..array.types import Array, ArrayLike, Weights
from ..array.validation import check_weights
from ..numerics.operators import Factored, Symmetric, dtype_of

ABSENT, UNKNOWN = -1, -2


class Objects(NamedTuple):
    """Objects behind ``n`` rows.

    ``group`` (n,) is the object of each row, negative for a row left out (``ABSENT``: weight zero,
    ``UNKNOWN``: no evidence); None if every row is its own object. ``weights`` (g,) belong to the
    objects (None if all are one), ``row_weights`` (n,) to the rows.
    """

    n: int
    group: np.ndarray | None = None
    weights: Weights = None
    row_weights: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Number of objects."""
        return self.n if self.group is None else int(self.group.max()) + 1

    def first(self) -> np.ndarray:
        """The first row of every object, (g,)."""
        assert self.group is not None
        rows = np.flatnonzero(self.group >= 0)
        return rows[np.unique(self.group[rows], return_index=True)[1]]

    def in_units(self) -> Objects:
        """The same objects with a median weight of one, so that copies do not change a graph."""
        if self.weights is None:
            return self
        unit = float(np.sort(self.weights)[len(self.weights) // 2])
        weights = self.weights / unit
        return self._replace(weights=None if (weights == 1.0).all() else weights)

    def averages(self) -> sp.csr_array:
        """Sparse T (n, g), whose columns average the rows of every object by weight."""
        assert self.group is not None
        rows = np.flatnonzero(self.group >= 0)
        own = np.ones(self.n) if self.row_weights is None else self.row_weights
        mass = np.bincount(self.group[rows], own[rows], minlength=self.size)
        shares = own[rows] / mass[self.group[rows]]
        return sp.csr_array((shares, (rows, self.group[rows])), shape=(self.n, self.size))

    def average(self, W: Any) -> Any:
        """T'WT for a similarity (n, n): the mean similarities of objects."""
        if self.group is None:
            return W
        T = self.averages().astype(dtype_of(W))
        if hasattr(W, "factor"):
            factor = T.T @ W.factor
            return Factored(sp.csr_array(factor) if sp.issparse(factor) else factor)
        if sp.issparse(W):
            return sp.csr_array(T.T @ W @ T)
        if isinstance(W, np.ndarray):
            return np.ascontiguousarray(T.T @ (T.T @ W).T)
        return Averaged(W, T)


class Averaged(Symmetric):
    """T'WT for an operator W."""

    def __init__(self, W: Any, T: Any) -> None:
        super().__init__(dtype_of(W), (T.shape[1], T.shape[1]))
        self.inner, self.T_rows = W, T

    def __matmul__(self, X: Any) -> Any:
        return self.T_rows.T @ np.asarray(self.inner @ (self.T_rows @ X))


def present_rows(n: int, weights: Weights) -> Objects:
    """Every row of positive weight as a separate object."""
    if weights is None:
        return Objects(n)
    if weights.min() > 0:
        return Objects(n, None, weights, weights)
    present = weights > 0
    group = np.where(present, np.cumsum(present) - 1, -1)
    return Objects(n, group, weights[present], weights)


def distinct_rows(X: Any, weights: Weights) -> Objects:
    """Equal rows as one object with their total weight, sorted by features."""
    n = X.shape[0]
    codes = _sparse_codes(X) if sp.issparse(X) else _dense_codes(X)
    if codes is None and weights is None:
        return Objects(n)
    codes = np.arange(n) if codes is None else codes
    own = np.ones(n) if weights is None else weights
    present = np.flatnonzero(own > 0)
    used, where = np.unique(codes[present], return_inverse=True)
    rank = np.empty(used.size, dtype=np.intp)
    different = X[used]
    if sp.issparse(X):
        order: Any = sorted(range(used.size), key=lambda i: _key(different, i))
    else:
        order = np.lexsort(different.T[::-1])
    rank[order] = np.arange(used.size)
    group = np.full(n, ABSENT)
    group[present] = rank[where]
    return Objects(n, group, np.bincount(group[present], own[present]), weights)


def _key(X: Any, i: int) -> bytes:
    """A hashable key of a CSR row, without stored zeros."""
    part = slice(X.indptr[i], X.indptr[i + 1])
    stored = X.data[part] != 0
    indices = X.indices[part][stored].astype(np.int64)
    return indices.tobytes() + b"|" + X.data[part][stored].tobytes()


def _dense_codes(X: np.ndarray) -> np.ndarray | None:
    """Codes (n,) shared by equal rows; None if all rows differ."""
    codes, tied = np.zeros(X.shape[0], dtype=np.intp), np.arange(X.shape[0])
    for column in range(X.shape[1]):
        values = X[tied, column]
        order = np.lexsort((values, codes[tied]))
        ranked = tied[order]
        new = np.ones(ranked.size, dtype=bool)
        new[1:] = (np.diff(codes[ranked]) != 0) | (np.diff(values[order]) != 0)
        starts = np.flatnonzero(new)
        sizes = np.diff(np.append(starts, ranked.size))
        codes[ranked] = np.repeat(ranked[starts], sizes)  # the number of one of the equal rows
        tied = ranked[np.repeat(sizes > 1, sizes)]
        if tied.size == 0:
            return None
    return codes


def _sparse_codes(X: Any) -> np.ndarray | None:
    """Same as ``_dense_codes``, for CSR rows."""
    X = X if X.has_canonical_format else X.copy()
    X.sum_duplicates()
    found: dict[bytes, int] = {}
    rows = range(X.shape[0])
    codes = np.array([found.setdefault(_key(X, i), i) for i in rows], dtype=np.intp)
    return None if len(found) == X.shape[0] else codes


def chained(first: np.ndarray | None, second: np.ndarray) -> np.ndarray:
    """Object of each row after the objects are renumbered by ``second``."""
    if first is None:
        return second
    return np.where(first >= 0, second[np.maximum(first, 0)], first)


def joined(group: np.ndarray, size: int, component: np.ndarray) -> np.ndarray:
    """Component of each of ``size`` objects; rows of one object or ``component`` (n,) share it."""
    rows = np.flatnonzero(group >= 0)
    whole = size + int(component.max()) + 1
    ends = group[rows], size + component[rows]
    links = sp.coo_array((np.ones(rows.size), ends), shape=(whole, whole))
    return connected_components(links, directed=False)[1][:size]


def merged(weights: Weights, component: np.ndarray) -> Objects:
    """Objects (g,) merged by equal ``component`` (g,), in order of first appearance."""
    _, first, inverse = np.unique(component, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    group = rank[inverse]
    own = np.ones(group.size) if weights is None else weights
    return Objects(group.size, group, np.bincount(group, own), own)


def objects_of(X: Any, weights: Weights, least: Any = 1) -> Objects:
    """Equal rows as one object, unless that leaves fewer than ``least`` objects."""
    objects = distinct_rows(X, weights)
    few = isinstance(least, Integral) and objects.size < int(least)
    return present_rows(X.shape[0], weights) if few else objects


def object_weights(sample_weight: ArrayLike | None, X: Any) -> np.ndarray | None:
    """Weights of the objects; None if all are one."""
    weights = check_weights(sample_weight, X)
    return None if weights is None or bool((weights == 1.0).all()) else weights


def distinct_sample(
    X: Any, size: int, rng: np.random.Generator, weights: Weights = None, least: Any = 1
) -> tuple[Any, Weights]:
    """At most ``size`` (but ``least``) different objects in canonical order, and their weights."""
    if weights is None:
        points = sample_objects(X, size, rng)
    else:
        seed, kept = rng.integers(2**63), np.flatnonzero(weights > 0)
        if isinstance(X, np.ndarray):
            if kept.size > size:
                kept = kept[_smallest_hashes(X[kept], size, seed)]
            points, weights = np.asarray(X[kept]), weights[kept]
        elif kept.size <= size:
            points, weights = _on_host(X[kept]), weights[kept]
        else:
            drawn = Rows(X, weights).sample(size, np.random.default_rng(seed))
            points, weights = _on_host(drawn.X), None
    comparable = points
    if has_missing(Rows(points)):  # NaN is not equal to itself
        comparable = np.hstack([np.nan_to_num(points), np.isnan(points)])
    objects = objects_of(comparable, weights, least)
    if objects.group is None:
        return points, objects.weights
    return points[objects.first()], objects.weights


def sample_objects(X: Array, size: int, rng: np.random.Generator) -> Any:
    """At most ``size`` rows of ``X``, drawn (from NumPy arrays) and sorted by their values."""
    seed = rng.integers(2**63)
    if X.shape[0] <= size:
        few = X[:] if isinstance(X, np.memmap) else X
    elif isinstance(X, np.ndarray):
        few = np.asarray(X[_smallest_hashes(X, size, seed)])
    else:
        few = Rows(X, None).sample(size, np.random.default_rng(seed)).X
    few = _on_host(few)
    return few[_canonical_order(few)]


def _on_host(few: Any) -> Any:
    return few if is_numpy(few) or sp.issparse(few) else to_numpy(few)


def _smallest_hashes(X: np.ndarray, size: int, seed: Any) -> np.ndarray:
    """Indices, ascending, of the rows with the smallest hashes of their bits and the seed."""
    odd = np.random.default_rng(seed).integers(2**63, size=X.shape[1], dtype=np.uint64) * 2 + 1

    def mix(block: np.ndarray) -> np.ndarray:
        # Adding zero turns -0.0 into 0.0, whose bits differ.
        bits = np.ascontiguousarray(block + 0.0, dtype=np.float64).view(np.uint64)
        total = np.bitwise_xor(bits >> np.uint64(29), bits) * odd
        total = np.sum(total ^ (total >> np.uint64(32)), axis=1, dtype=np.uint64)
        total *= np.uint64(0x9E3779B97F4A7C15)
        return total ^ (total >> np.uint64(31))

    return np.sort(np.argpartition(Rows(X).map(mix), size)[:size])


def _canonical_order(X: Array) -> np.ndarray:
    """Indices (n,) that sort the rows by their values."""
    if sp.issparse(X):
        # Two fixed projections sort sparse rows without densifying them.
        X = X @ np.random.default_rng(0).standard_normal((X.shape[1], 2))
    return sorted_rows(np.asarray(X))
