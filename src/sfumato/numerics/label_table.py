"""Evidence accumulation without an n x n matrix: the table of labels and its products.

For m partitions, h_b(i) is the label that partition b gave to object i, and w_b the weight of b.
With the one-hot matrix H of all labels, one column per cluster (and one of weight zero for unseen
objects), and s_i = (sum of w_b over the partitions that saw i)^(-1/2):

    C = diag(s) H diag(w) H' diag(s)
            coverage-scaled co-association: unit diagonal, exact without missing labels

The published consensus model on the raw observations, by sweeps over this table: O_b are the
objects that partition b saw; x_ij^b says whether it put i and j together:

    f(U) = sum_b w_b  sum_{i != j in O_b} (x_ij^b - u_i'u_j)^2
            rows u_i on the simplex
         = const - 2 sum_b w_b (|H_b'U|^2 - sum_{O_b} |u_i|^2) + sum_b w_b (|U_b'U_b|^2 - sum_{O_b}
         |u_i|^4)

A pair counts as often as it was seen. An object of weight v counts as v copies: v min(v, 1) of its
v^2 pairs with itself are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..array.arrays import native
from ..array.rows import in_threads
from ..array.types import Array, Weights
from . import simplex
from .eigen import Spectrum, leading_eigenvectors

# Smallest total similarity of every object to all others, so that no degree is zero
SMALLEST_REGULARIZATION = 1e-6
# Relative to the mean; small enough for clusters of two objects in a hundred.
REGULARIZATION = 0.04
FEW_PAIRS = 2000  # largest number of objects whose matrix of all pairs is formed


class Table(NamedTuple):
    """Labels of n objects in m partitions.

    ``codes`` (n, m) use the smallest integer dtype; ``offsets`` (m + 1,) are the first columns of
    each partition; ``column_weight`` (columns,) is 0 for unseen objects; ``coverage`` (n,) is the
    weight of the partitions that saw each object; a ``mass`` (n,) of v counts as v copies.
    """

    codes: np.ndarray
    offsets: np.ndarray
    column_weight: np.ndarray
    coverage: np.ndarray
    mass: Weights = None

    @property
    def weights(self) -> np.ndarray:
        """Weight of every partition."""
        return self.column_weight[self.offsets[:-1]]

    @property
    def total(self) -> float:
        """Total weight of the objects."""
        return float(len(self.codes) if self.mass is None else self.mass.sum())

    @property
    def root(self) -> Any:
        """Square roots (n,) of the weights of the objects."""
        return np.ones(len(self.codes)) if self.mass is None else np.sqrt(self.mass)

    @property
    def own(self) -> Any:
        """Self pairs of each object per unit of its weight, which are not evidence (n,)."""
        return np.ones(len(self.codes)) if self.mass is None else np.minimum(self.mass, 1.0)

    @property
    def unseen(self) -> np.ndarray:
        """Column for unseen objects, of every partition."""
        return self.offsets[1:] - 1

    @property
    def scale(self) -> np.ndarray:
        """The scale s: inverse root of the coverage, 0 for objects that no partition saw."""
        return np.where(self.coverage > 0, self.coverage, np.inf) ** -0.5

    def columns(self, rows: slice = slice(None)) -> np.ndarray:
        """Columns of H that the objects belong to, (rows, m)."""
        return self.codes[rows] + self.offsets[:-1].astype(np.int32)

    def seen(self, rows: slice = slice(None)) -> np.ndarray:
        """Whether a partition saw an object, (rows, m)."""
        return self.codes[rows] != (self.unseen - self.offsets[:-1]).astype(self.codes.dtype)

    def labels(self) -> np.ndarray:
        """Labels (n, m), -1 if a partition did not see an object; codes are unsigned."""
        return np.where(self.seen(), self.codes.astype(np.int32), -1)

    def objects(self, chosen: Any) -> Table:
        """The table restricted to some objects."""
        mass = None if self.mass is None else self.mass[chosen]
        return self._replace(codes=self.codes[chosen], coverage=self.coverage[chosen], mass=mass)

    def partitions(self, chosen: np.ndarray) -> Table:
        """The table restricted to some partitions."""
        sizes = np.diff(self.offsets)[chosen] - 1
        found = encode(self.labels()[:, chosen], self.weights[chosen], sizes)
        return found._replace(mass=self.mass)


def encode(labels: np.ndarray, weights: Weights = None, sizes: np.ndarray | None = None) -> Table:
    """Table of labels (n, m), -1 for unseen; ``sizes`` are the numbers of clusters per column."""
    sizes = np.asarray(labels.max(axis=0) + 1 if sizes is None else sizes, dtype=np.int64)
    weights = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=np.float64)
    largest = int(sizes.max())
    smallest = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32
    codes = np.empty(labels.shape, dtype=smallest)
    coverage = np.zeros(len(labels))
    for column, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        missing = labels[:, column] < 0
        codes[:, column] = np.where(missing, size, labels[:, column])
        coverage += weight * ~missing
    offsets = np.concatenate([[0], np.cumsum(sizes + 1)])
    column_weight = np.repeat(weights, sizes + 1)
    column_weight[offsets[1:] - 1] = 0.0
    return Table(codes, offsets, column_weight, coverage)


def has_missing(table: Table) -> bool:
    """Whether a partition with positive weight did not see some object."""
    return bool(np.any(table.coverage < table.weights.sum() * (1 - 1e-14)))


def reweight(table: Table, weights: np.ndarray) -> Table:
    """The same labels with other weights of the partitions."""
    column_weight = np.repeat(np.asarray(weights, dtype=np.float64), np.diff(table.offsets))
    column_weight[table.unseen] = 0.0
    coverage = np.concatenate(list(each_block(table, lambda rows: table.seen(rows) @ weights)))
    return table._replace(column_weight=column_weight, coverage=coverage)


def recode(table: Table, labels: np.ndarray) -> Table:
    """New objects in the columns of ``table``; labels it does not have count as unseen."""
    sizes = np.diff(table.offsets) - 1
    return encode(np.where(labels < sizes, labels, -1), table.weights, sizes)


def scatter(table: Table, U: Array, scale: Weights = None) -> Any:
    """H'U (columns, k): rows of U, times ``scale`` (n,), summed over every cluster."""
    if in_torch(U):
        return _scatter_in_torch(table, U if scale is None else scale[:, None] * U)
    total = np.zeros((int(table.offsets[-1]), U.shape[1]), dtype=_real(U))

    def part(rows: slice) -> np.ndarray:
        sums, own = np.zeros_like(total), None if scale is None else scale[rows]
        native("labels").scatter(table.codes[rows], table.offsets, U[rows], own, sums)
        return sums

    for sums in each_block(table, part):
        total += sums
    return total


def gather(table: Table, V: Array, scale: Weights = None) -> Any:
    """H diag(w) V (n, k): rows of V, summed over the clusters of an object, times ``scale``."""
    if in_torch(V):
        out = _gather_in_torch(table, V)
        return out if scale is None else scale[:, None] * out
    weighted = V * table.column_weight[:, None].astype(_real(V))
    out = np.empty((table.codes.shape[0], V.shape[1]), dtype=_real(V))

    def fill(rows: slice) -> None:
        own = None if scale is None else scale[rows]
        native("labels").gather(table.codes[rows], table.offsets, weighted, own, out[rows])

    for _ in each_block(table, fill):
        pass
    return out


def _real(V: Array) -> Any:
    """dtype of the sums."""
    return np.float32 if V.dtype == np.float32 else np.float64


def one_hot(table: Table, rows: slice, dtype: npt.DTypeLike) -> sp.csr_array:
    """H (rows, columns) for some objects."""
    columns = table.columns(rows)
    n, m = columns.shape
    starts = np.arange(0, n * m + 1, m, dtype=np.int32 if n * m < 2**31 else np.int64)
    entries = np.ones(n * m, dtype=dtype), columns.reshape(-1), starts
    return sp.csr_array(entries, shape=(n, int(table.offsets[-1])))


def each_block(table: Table, function: Callable[[slice], Any]) -> Iterator[Any]:
    """``function`` applied to blocks of rows on all cores; blocks do not depend on the cores."""
    n, m = table.codes.shape
    size = max(1, max(2**18, 4 * int(table.offsets[-1])) // m)
    blocks = [(slice(start, min(start + size, n)),) for start in range(0, n, size)]
    yield from in_threads(function, blocks, None)


def on_device(table: Table, device: Any) -> Table:
    """The table with its labels as a torch array on a device, where they are read in every pass."""
    import torch

    codes = table.codes if table.codes.dtype == np.uint8 else table.codes.astype(np.int32)
    there: Any = torch.from_numpy(np.ascontiguousarray(codes)).to(device)
    return table._replace(codes=there)


def in_torch(array: object) -> bool:
    """Whether this is a torch array (torch may not be installed)."""
    return type(array).__module__.startswith("torch")


def _blocks_in_torch(table: Table, entries: int, device: Any) -> Iterator[tuple[slice, Any]]:
    """Blocks of rows, small enough for ``entries`` numbers a row, and their labels on a device."""
    import torch

    n, size = table.codes.shape[0], max(1, 2**28 // entries)
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        codes: Any = table.codes[rows]
        if isinstance(codes, np.ndarray):
            codes = torch.from_numpy(codes.astype(np.int32)).to(device)
        yield rows, codes


def _scatter_in_torch(table: Table, U: Any) -> Any:
    """H'U by one-hot products, since the order of atomic additions is not reproducible."""
    import torch

    sizes = np.diff(table.offsets)
    m, widest = len(sizes), int(sizes.max())
    total = torch.zeros((m, widest, U.shape[1]), dtype=U.dtype, device=U.device)
    for rows, codes in _blocks_in_torch(table, m * widest, U.device):
        labels = torch.arange(widest, device=U.device, dtype=codes.dtype)
        total += (codes.T.contiguous()[:, None, :] == labels[:, None]).to(U.dtype) @ U[rows]
    return total[torch.from_numpy(np.arange(widest) < sizes[:, None]).to(U.device)]


def _gather_in_torch(table: Table, V: Any) -> Any:
    """H diag(w) V, computed by embedding bags of columns."""
    import torch

    weighted = V * torch.from_numpy(table.column_weight).to(V.device, V.dtype)[:, None]
    offsets = torch.from_numpy(table.offsets[:-1].astype(np.int32)).to(V.device)
    n, m = table.codes.shape
    out = torch.empty((n, V.shape[1]), dtype=V.dtype, device=V.device)
    for rows, codes in _blocks_in_torch(table, m, V.device):
        columns = codes.int() + offsets
        out[rows] = torch.nn.functional.embedding_bag(columns, weighted, mode="sum")
    return out


def spectrum(
    table: Table, k: int, regularization: float = 0.0, start: np.ndarray | None = None
) -> tuple[Spectrum, np.ndarray]:
    """Leading eigenpairs of D^-1/2 C0 D^-1/2, and D^-1/2.

    C0 is C without its diagonal (which would turn every isolated object into a cluster), plus
    (``regularization`` + SMALLEST_REGULARIZATION) / n. If there are more than k groups that no
    partition joins, the vectors indicate the k largest. ``start`` (n, k) are vectors close to the
    solution. With weights v, the matrix is V^1/2 D^-1/2 C0 D^-1/2 V^1/2, and n is their sum.
    """
    n, n_columns = table.codes.shape[0], int(table.offsets[-1])
    degree, together = degrees(table), regularization + SMALLEST_REGULARIZATION
    scaling = (degree + together) ** -0.5
    rooted = scaling * table.root
    t, column = table.scale * rooted, rooted[:, None]
    own = (table.own * (table.coverage > 0) * scaling**2)[:, None]

    def product(V: np.ndarray) -> np.ndarray:
        out = gather(table, scatter(table, V, t), t)
        out -= own * V
        out += column * (together / table.total * (rooted @ V))
        return out

    if start is None and k < n_columns < n:
        start = _among_columns(table, k, t)
    if start is not None:
        start = np.hstack([start, np.random.default_rng(0).standard_normal((n, 2))])
    found = leading_eigenvectors(_operator(n, product), k, start=start)
    if _is_apart(found.following):
        found = _of_groups(table, found, k, degree)
    return found, scaling


def _is_apart(eigenvalue: float) -> bool:
    """Whether only SMALLEST_REGULARIZATION joins a group to the others."""
    return bool(eigenvalue > 1.0 - 10 * SMALLEST_REGULARIZATION)


def _of_groups(table: Table, found: Spectrum, k: int, degree: np.ndarray) -> Spectrum:
    """Indicator vectors of the k largest groups, if there are more than k separate groups."""
    groups = separate_groups(table)
    sizes = np.bincount(groups, table.mass)
    if len(sizes) > k:
        length = table.root * np.sqrt(degree + 1.0)
        members = (groups[:, None] == np.argsort(-sizes, kind="stable")[:k]) * length[:, None]
        vectors = members / np.linalg.norm(members, axis=0)
        return found._replace(values=np.ones(k), vectors=vectors, following=1.0)
    return found


def degrees(table: Table) -> np.ndarray:
    """Total similarity (n,) of every object to all others, by the co-association."""
    s = table.scale
    heavy = s if table.mass is None else s * table.mass
    degree = gather(table, scatter(table, heavy[:, None]), s)[:, 0]
    return np.maximum(degree - table.own * (table.coverage > 0), 0.0)


def regularization(table: Table, plain: Spectrum) -> float:
    """Similarity to add for every object: a small share of the mean degree, times 1 - l.

    Without it, a few objects that coarse partitions isolate become clusters (Qin and Rohe 2013).
    The first eigenvalue left out, l, is close to 1 if clusters are long chains; similarities across
    clusters must then stay small. Clusters that no partition joins need none.
    """
    inside = 1.0 if _is_apart(plain.values[-1]) else min(max(plain.following, 0.0), 1.0)
    mean = float(np.average(degrees(table), weights=table.mass))
    return REGULARIZATION * mean * (1.0 - inside)


def separate_groups(table: Table) -> np.ndarray:
    """Group (n,) of every object; a chain of shared clusters joins the objects of a group."""
    first = np.arange(len(table.codes))
    while True:
        before = first.copy()
        for b in np.flatnonzero(table.weights > 0):
            codes, n_codes = table.codes[:, b], int(table.offsets[b + 1] - table.offsets[b])
            lowest = np.full(n_codes, len(first))
            np.minimum.at(lowest, codes, first)
            first = np.where(codes < n_codes - 1, np.minimum(first, lowest[codes]), first)
        if np.array_equal(first, before):
            return np.unique(first, return_inverse=True)[1]


def _among_columns(table: Table, k: int, t: np.ndarray) -> np.ndarray:
    """Leading eigenvectors of diag(t) C diag(t), by way of the clusters of all partitions."""
    root = np.sqrt(table.column_weight)[:, None]
    inverse = np.where(root > 0, 1.0 / np.where(root > 0, root, 1.0), 0.0)

    def columns(V: np.ndarray) -> np.ndarray:
        return root * scatter(table, gather(table, inverse * V, t), t)

    small = leading_eigenvectors(_operator(int(table.offsets[-1]), columns), k, tol=1e-6)
    return gather(table, inverse * small.vectors, t)


def _operator(n: int, product: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
    given: Any = {"matvec": lambda v: product(v.reshape(-1, 1))[:, 0], "matmat": product}
    return LinearOperator((n, n), dtype=np.float64, **given)


def chance_level(table: Table) -> float:
    """Expected second eigenvalue of independent partitions, (1 + sqrt(d / n))^2 / m, with d
    clusters minus m (Marchenko and Pastur 1967).
    """
    mass = np.ones(len(table.codes)) if table.mass is None else table.mass
    share = (mass @ table.coverage) / max(table.total * table.weights.sum(), np.finfo(float).tiny)
    m = share * table.weights.sum() ** 2 / np.sum(table.weights**2)
    d = float(np.sum((np.diff(table.offsets) - 2)[table.weights > 0]))
    return (1.0 + np.sqrt(d / max(1.0, float(mass[table.coverage > 0].sum())))) ** 2 / m


def pair_counts(table: Table, other: Table | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the partitions that join a pair, and that saw it, (n, n) or (n, n other)."""
    right = table if other is None else other
    seen_together = _seen_together(table, right)
    if other is None and np.all(table.weights == 1.0):
        together, columns = np.empty(seen_together.shape), np.ascontiguousarray(table.codes.T)
        blocks = [(slice(start, start + 256),) for start in range(0, len(together), 256)]
        count = native("labels").equal_labels
        for _ in in_threads(lambda rows: count(columns, rows, together), blocks, None):
            pass
        if has_missing(table):
            both_unseen = len(table.weights) - table.coverage[:, None] - table.coverage
            together -= both_unseen + seen_together
        return together, seen_together
    left, right_hot = (one_hot(side, slice(None), np.float64) for side in (table, right))
    left.data = table.column_weight[left.indices]
    return (left @ right_hot.T).toarray(), seen_together


def has_unseen_pairs(table: Table) -> bool:
    """Whether some of (at most ``FEW_PAIRS``) seen objects were never seen together."""
    if not has_missing(table):
        return False
    seen = np.flatnonzero(table.coverage > 0)
    few = seen[:: max(1, -(-len(seen) // FEW_PAIRS))]
    return bool(pair_counts(table.objects(few))[1].min() <= 0)


def pair_shares(table: Table, other: Table | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Times together over times seen together of every pair (NaN for 0 / 0), and the divisor."""
    shares, seen = pair_counts(table, other)
    if seen.min(initial=np.inf) > 0:
        return np.divide(shares, seen, out=shares), seen
    np.divide(shares, seen, out=shares, where=seen > 0)
    shares[seen <= 0] = np.nan
    return shares, seen


def _seen_together(left: Table, right: Table) -> np.ndarray:
    if not (has_missing(left) or has_missing(right)):
        return np.full((len(left.codes), len(right.codes)), left.weights.sum())
    root = np.sqrt(left.weights)
    return (left.seen() * root) @ (right.seen() * root).T


class Moments(NamedTuple):
    """M = H'U, S = U'U, and for each partition the part of S from objects it did not see."""

    M: np.ndarray
    S: np.ndarray
    absent: np.ndarray


def moments(table: Table, U: np.ndarray) -> Moments:
    """Sums of U over clusters, over objects, and over objects unseen by each partition."""
    k = U.shape[1]
    absent = np.zeros((table.codes.shape[1] if has_missing(table) else 0, k, k))
    if len(absent):
        for part in each_block(table, lambda rows: _absent(table, rows, U[rows])):
            absent += part
    heavy = _heavy(table, U)
    return Moments(scatter(table, heavy), U.T @ heavy, absent)


def _heavy(table: Table, U: np.ndarray) -> np.ndarray:
    """Rows of U times the weights of their objects."""
    return U if table.mass is None else table.mass[:, None] * U


def _left_out(table: Table) -> np.ndarray:
    """Excluded self pairs, times the partitions that saw the object, (n,)."""
    own = table.coverage * table.own
    return own if table.mass is None else own * table.mass


def _absent(table: Table, rows: slice, U: np.ndarray) -> np.ndarray:
    """Sums of u u' (m, k, k) over the objects of a block that each partition did not see."""
    k = U.shape[1]
    heavy = U if table.mass is None else table.mass[rows, None] * U
    outer = (U[:, :, None] * heavy[:, None, :]).reshape(len(U), k * k)
    return ((~table.seen(rows)).T.astype(U.dtype) @ outer).reshape(-1, k, k)


def constant(table: Table) -> float:
    """Value of f without memberships: sum_b w_b times the number of pairs i != j that b joined."""
    cluster_sizes = scatter(table, _heavy(table, np.ones((len(table.codes), 1))))[:, 0]
    return float(table.column_weight @ cluster_sizes**2 - _left_out(table).sum())


def objective(
    table: Table, U: np.ndarray, sums: Moments | None = None, offset: float | None = None
) -> float:
    """The squared loss f(U) over all observations; ``offset`` is ``constant(table)``, if known."""
    M, S, absent = moments(table, U) if sums is None else sums
    norms = np.einsum("ir,ir->i", U, U)
    own = _left_out(table)
    together = table.column_weight @ np.einsum("cr,cr->c", M, M) - own @ norms
    squares = np.sum((S - absent) ** 2, axis=(1, 2)) if len(absent) else np.sum(S**2)
    offset = constant(table) if offset is None else offset
    return float(offset - 2.0 * together + np.sum(table.weights * squares) - own @ norms**2)


def brier_score(table: Table, U: np.ndarray) -> float:
    """Mean of (x_ij^b - u_i'u_j)^2 over all observations."""
    mass = np.ones(len(table.codes)) if table.mass is None else table.mass
    pairs = 0.0
    for b, weight in enumerate(table.weights):
        seen = table.codes[:, b] != table.unseen[b] - table.offsets[b]
        pairs += weight * (float(mass[seen].sum()) ** 2 - float((mass * table.own)[seen].sum()))
    return objective(table, U) / max(pairs, np.finfo(float).tiny)


def sweep(table: Table, U: np.ndarray, offset: float | None = None) -> tuple[np.ndarray, float]:
    """U after one Gauss-Seidel pass over the objects, and f; the argument is not changed."""
    U = U.copy()
    sums = moments(table, U)
    if table.mass is None:
        given = table.codes, table.offsets, table.weights, table.coverage
        native("labels").table_sweep(*given, U, *sums)
    else:
        size = -(-len(U) // 16)
        for start in range(0, len(U), size):
            sums = _panel(table, slice(start, min(start + size, len(U))), U, sums)
    np.copyto(U, simplex.normalize(np.where(U < simplex.TINY, 0.0, U)))
    return U, objective(table, U, sums, offset)


def _panel(table: Table, rows: slice, U: np.ndarray, sums: Moments) -> Moments:
    """Update the objects of a panel at once, by a quadratic majoriser of f/4 near U."""
    part, old = table.objects(rows), U[rows].copy()
    M, S, absent = sums
    k, total, coverage = U.shape[1], table.weights.sum(), part.coverage[:, None]
    norms = np.einsum("ir,ir->i", old, old)[:, None]
    own = coverage * part.own[:, None]
    gradient = coverage * (old @ S) - own * norms * old - gather(part, M) + own * old
    curvature = total * S
    if len(absent):
        seen = part.seen() * table.weights
        gradient -= np.einsum("ib,is,bsr->ir", seen, old, absent, optimize=True)
        curvature = curvature - np.einsum("b,brs->rs", table.weights, absent)
    inside = np.linalg.eigvalsh(old.T @ _heavy(part, old))[-1]
    curvature = curvature + total * (2.0 * inside + 1.0) * np.eye(k)
    new = simplex.pair_steps(curvature, gradient, old.copy(), max(1, k // 2))
    U[rows] = new = simplex.normalize(np.clip(new, 0.0, None))
    if len(absent):
        absent = absent + _absent(part, slice(None), new) - _absent(part, slice(None), old)
    S = S + new.T @ _heavy(part, new) - old.T @ _heavy(part, old)
    return Moments(M + scatter(part, _heavy(part, new - old)), S, absent)


def place(new: Table, sums: Moments) -> np.ndarray:
    """Memberships of new objects that minimise f, with the fitted ones fixed."""
    M, S, absent = sums
    B = gather(new, M)
    if not len(absent):
        coverage = np.where(new.coverage > 0, new.coverage, 1.0)[:, None]
        return simplex.quadratic_program(S, B / coverage)
    k, seen = S.shape[0], new.seen() * new.weights
    U, size = np.empty_like(B), max(1, 2**20 // k**2)  # one matrix per object, so few at a time
    for start in range(0, len(B), size):
        rows = slice(start, start + size)
        H = new.coverage[rows, None, None] * S
        H -= (seen[rows] @ absent.reshape(len(absent), -1)).reshape(H.shape)
        U[rows] = simplex.quadratic_program(H, B[rows])
    return U
