"""Evidence accumulation without an n x n matrix: the table of labels and what is done with it.

m partitions; h_b(i) is the label that partition b gave to object i, w_b its weight, O_b the objects it saw. With H the one-hot
matrix of all labels, one column a cluster, and  s_i = (sum of w_b over the partitions that saw i)^(-1/2):

    C = diag(s) H diag(w) H' diag(s)        coverage-scaled co-association: unit diagonal, exact without missing labels
    f(U) = sum_b w_b  sum_{i != j in O_b} (x_ij^b - u_i'u_j)^2                  squared loss over the raw observations
         = const - 2 sum_b w_b (|H_b'U|^2 - sum_{O_b} |u_i|^2) + sum_b w_b (|U_b'U_b|^2 - sum_{O_b} |u_i|^4)

where x_ij^b says whether partition b put i and j together. Pairs that no partition saw together drop out of f by themselves.
Every partition owns one column more than it has clusters: the unseen objects are there, and that column weighs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .._rows import threads
from . import simplex
from .spectral import Spectrum, leading_eigenvectors

__all__ = ["Moments", "Table", "encode", "gather", "moments", "objective", "pair_counts", "recode", "scatter", "spectrum", "sweep"]

N_PANELS = 16


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """The compiled twins, where Numba is installed."""
    try:
        from . import compiled
    except ImportError:
        return None
    return compiled


class Table(NamedTuple):
    """Labels of n objects in m partitions.

    ``codes`` (n, m) in the smallest integers that hold them; ``offsets`` (m + 1,) where the columns of each partition begin;
    ``column_weight`` (columns,) the weight of the partition, 0 in its column of unseen objects; ``coverage`` (n,) the
    weight of the partitions that saw each object.
    """

    codes: np.ndarray
    offsets: np.ndarray
    column_weight: np.ndarray
    coverage: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Weight of every partition."""
        return self.column_weight[self.offsets[:-1]]

    @property
    def unseen(self) -> np.ndarray:
        """Column of the unseen objects in every partition."""
        return self.offsets[1:] - 1

    @property
    def scale(self) -> np.ndarray:
        """s: one over the root of the coverage, 0 for an object that nobody saw."""
        return np.where(self.coverage > 0, self.coverage, np.inf) ** -0.5

    def columns(self, rows: slice = slice(None)) -> np.ndarray:
        """Columns of H in which the objects stand, (rows, m)."""
        return self.codes[rows] + self.offsets[:-1].astype(np.int32)

    def seen(self, rows: slice = slice(None)) -> np.ndarray:
        """Whether a partition saw an object, (rows, m)."""
        return self.codes[rows] != (self.unseen - self.offsets[:-1]).astype(self.codes.dtype)

    def partitions(self, chosen: np.ndarray) -> Table:
        """The table of some of the partitions."""
        labels = np.where(self.seen()[:, chosen], self.codes[:, chosen].astype(np.int32), -1)
        return encode(labels, self.weights[chosen], np.diff(self.offsets)[chosen] - 1)


def encode(labels: np.ndarray, weights: np.ndarray | None = None, sizes: np.ndarray | None = None) -> Table:
    """Table of integer labels (n, m), 0, 1, ... in every column and -1 for unseen; ``sizes`` says how many each column may hold."""
    sizes = labels.max(axis=0).astype(np.int64) + 1 if sizes is None else np.asarray(sizes, dtype=np.int64)
    weights = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=np.float64)
    largest = int(sizes.max())
    codes = np.empty(labels.shape, dtype=np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32)
    coverage = np.zeros(len(labels))
    for column, (size, weight) in enumerate(zip(sizes, weights)):
        missing = labels[:, column] < 0
        codes[:, column] = np.where(missing, size, labels[:, column])
        coverage += weight * ~missing
    offsets = np.concatenate([[0], np.cumsum(sizes + 1)])
    column_weight = np.repeat(weights, sizes + 1)
    column_weight[offsets[1:] - 1] = 0.0
    return Table(codes, offsets, column_weight, coverage)


def recode(table: Table, labels: np.ndarray) -> Table:
    """New objects in the columns of ``table``; a label it does not know counts as unseen."""
    sizes = np.diff(table.offsets) - 1
    return encode(np.where(labels < sizes, labels, -1), table.weights, sizes)


def scatter(table: Table, U: np.ndarray) -> np.ndarray:
    """H'U (columns, k): the rows of U summed over every cluster of every partition."""
    total = np.zeros((int(table.offsets[-1]), U.shape[1]), dtype=U.dtype)
    for part in _each(table, lambda rows: _one_hot(table, rows, U.dtype).T @ U[rows]):
        total += part
    return total


def gather(table: Table, V: np.ndarray) -> np.ndarray:
    """H diag(w) V (n, k): the rows of V summed over the clusters of every object."""
    weighted = V * table.column_weight[:, None].astype(V.dtype)
    out = np.empty((table.codes.shape[0], V.shape[1]), dtype=V.dtype)

    def fill(rows: slice) -> None:
        out[rows] = _one_hot(table, rows, V.dtype) @ weighted

    for _ in _each(table, fill):
        pass
    return out


def _one_hot(table: Table, rows: slice, dtype: Any) -> sp.csr_array:
    columns = table.columns(rows)
    n, m = columns.shape
    starts = np.arange(0, n * m + 1, m, dtype=np.int32)
    return sp.csr_array((np.ones(n * m, dtype=dtype), columns.reshape(-1), starts), shape=(n, int(table.offsets[-1])))


def _each(table: Table, function: Callable[[slice], Any]) -> Iterator[Any]:
    """``function`` of blocks of rows, on every core; blocks and order do not depend on the number of cores."""
    n, m = table.codes.shape
    size = max(1, max(2**20, 4 * int(table.offsets[-1])) // m)
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    n_threads = min(threads(None), len(blocks))
    if n_threads <= 1:
        yield from map(function, blocks)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(function, blocks)


def spectrum(table: Table, k: int) -> tuple[Spectrum, np.ndarray]:
    """Leading eigenpairs of D^-1/2 C D^-1/2, and D^-1/2; worked out among the objects or among the clusters, whichever are fewer."""
    n, n_columns = table.codes.shape[0], int(table.offsets[-1])
    s = table.scale
    degree = s * gather(table, scatter(table, s[:, None]))[:, 0]
    scaling = np.where(degree > 0, degree, np.inf) ** -0.5
    t = (s * scaling)[:, None]
    if n <= n_columns or k >= n_columns:
        objects = LinearOperator((n, n), matvec=None, matmat=lambda V: t * gather(table, scatter(table, t * V)), dtype=np.float64)
        return leading_eigenvectors(objects, k), scaling
    root = np.sqrt(table.column_weight)[:, None]
    inverse = np.where(root > 0, 1.0 / np.where(root > 0, root, 1.0), 0.0)

    def columns(V: np.ndarray) -> np.ndarray:
        return root * scatter(table, t**2 * gather(table, inverse * V))

    small = leading_eigenvectors(LinearOperator((n_columns, n_columns), matvec=None, matmat=columns, dtype=np.float64), k)
    vectors = t * gather(table, inverse * small.vectors)
    return small._replace(vectors=vectors / np.maximum(np.linalg.norm(vectors, axis=0), np.finfo(float).tiny)), scaling


def pair_counts(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """How often (by weight) every two objects were put together, and were seen together: two n x n matrices."""
    seen = table.seen() * np.sqrt(table.weights)
    seen_together = seen @ seen.T
    compiled = _compiled()
    if compiled is not None and np.all(table.weights == 1.0):
        together = np.empty(seen_together.shape)
        compiled.equal_labels(table.codes, together)
        unseen = (~table.seen()).astype(np.float32)
        together -= unseen @ unseen.T
        return together, seen_together
    H = _one_hot(table, slice(None), np.float64)
    H.data = np.sqrt(table.column_weight)[H.indices]
    return (H @ H.T).toarray(), seen_together


class Moments(NamedTuple):
    """Sums that a sweep keeps: M = H'U, S = U'U, and for each partition the part of S from the objects it did not see."""

    M: np.ndarray
    S: np.ndarray
    absent: np.ndarray


def moments(table: Table, U: np.ndarray) -> Moments:
    """Sums of U over clusters, over objects, and over the objects unseen by each partition (of size 0 if there are none)."""
    k = U.shape[1]
    absent = np.zeros((table.codes.shape[1] if _gaps(table) else 0, k, k))
    for part in _each(table, lambda rows: _absent(table, rows, U[rows])) if len(absent) else ():
        absent += part
    return Moments(scatter(table, U), U.T @ U, absent)


def _gaps(table: Table) -> bool:
    return bool(np.any(table.coverage < table.weights.sum() * (1 - 1e-14)))


def _absent(table: Table, rows: slice, U: np.ndarray) -> np.ndarray:
    """Sum of u u' over the objects of a block that each partition did not see, (m, k, k)."""
    k = U.shape[1]
    outer = (U[:, :, None] * U[:, None, :]).reshape(len(U), k * k)
    return ((~table.seen(rows)).T.astype(U.dtype) @ outer).reshape(-1, k, k)


def objective(table: Table, U: np.ndarray, sums: Moments | None = None) -> float:
    """f(U), the squared loss over all raw observations, from sums over clusters."""
    M, S, absent = moments(table, U) if sums is None else sums
    norms = np.einsum("ir,ir->i", U, U)
    cluster_sizes = scatter(table, np.ones((len(U), 1)))[:, 0]
    constant = table.column_weight @ cluster_sizes**2 - table.coverage.sum()
    together = table.column_weight @ np.einsum("cr,cr->c", M, M) - table.coverage @ norms
    squares = np.sum((S - absent) ** 2, axis=(1, 2)) if len(absent) else np.full(len(table.weights), np.sum(S**2))
    return float(constant - 2.0 * together + table.weights @ squares - table.coverage @ norms**2)


def sweep(table: Table, U: np.ndarray) -> tuple[np.ndarray, float]:
    """One Gauss-Seidel pass over the objects, and f afterwards. ``U`` stays as it is."""
    U = U.copy()
    sums = moments(table, U)
    compiled = _compiled()
    if compiled is not None:
        compiled.table_sweep(table.codes, table.offsets, table.weights, table.coverage, U, *sums)
    else:
        size = -(-len(U) // N_PANELS)
        for start in range(0, len(U), size):
            sums = _panel(table, slice(start, min(start + size, len(U))), U, sums)
    np.copyto(U, simplex.normalize(np.where(U < simplex.TINY, 0.0, U)))
    return U, objective(table, U, sums)


def _panel(table: Table, rows: slice, U: np.ndarray, sums: Moments) -> Moments:
    """Move the objects of a panel at once, downhill on a quadratic that lies above f/4 near U."""
    part, old = table._replace(codes=table.codes[rows], coverage=table.coverage[rows]), U[rows].copy()
    M, S, absent = sums
    k, total, coverage = U.shape[1], table.weights.sum(), part.coverage[:, None]
    norms = np.einsum("ir,ir->i", old, old)[:, None]
    gradient = coverage * (old @ S) - coverage * norms * old - gather(part, M) + coverage * old
    curvature = total * S
    if len(absent):
        seen = part.seen() * table.weights
        gradient -= np.einsum("ib,ibr->ir", seen, np.einsum("is,bsr->ibr", old, absent, optimize=True))
        curvature = curvature - np.einsum("b,brs->rs", table.weights, absent)
    inside = np.linalg.eigvalsh(old.T @ old)[-1]
    curvature = curvature + total * (2.0 * inside + 1.0) * np.eye(k)
    new = simplex.normalize(np.clip(simplex.pair_steps(curvature, gradient, old.copy(), max(1, k // 2)), 0.0, None))
    U[rows] = new
    if len(absent):
        absent = absent + _absent(part, slice(None), new) - _absent(part, slice(None), old)
    return Moments(M + scatter(part, new - old), S + new.T @ new - old.T @ old, absent)
