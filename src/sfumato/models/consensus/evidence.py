"""Soft evidence and its cluster kernel.

Columns H of soft partitions, and the factor Z of rank k that they lead to.

    c = mean_i h_i ,   d_i = h_i'c + t
            degrees, with the regularization t
    A = D^(-1/2) (H H' + t 1 1') D^(-1/2) / n  =  E diag(l) E'
            normalised expected co-association
    z_i = B'h_i / sqrt(d_i), scaled to length one,   B = H' D^(-1/2) E diag(1/l) / n

so that an object needs its own columns only, whether it was fitted or is new. H comes in parts, one
for each kind of evidence and each scaled to mean degree one: posteriors of mixtures (dense), cells
(sparse), or membership matrices that were given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import Weights
from ...numerics.axes import Axes
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors
from .ensemble import ClusteringEnsemble
from .mixtures import MixtureEnsemble

__all__ = [
    "REGULARIZATION",
    "CellColumns",
    "Factor",
    "GivenColumns",
    "MixtureColumns",
    "columns_factor",
    "factorize",
    "in_parts",
    "refine",
]

# t, in units of the mean degree: a few outliers that nothing joins to the others are no cluster
REGULARIZATION = 0.02
NULL = 1e-12  # eigenvalues below are zero
# Objects at one time on a GPU: their columns, a thousand or so, are the largest array
ROWS = 2**17
KEPT = 2**27  # bytes of columns that are kept between the two passes of the sums


class MixtureColumns(NamedTuple):
    """Posteriors of an ensemble of mixtures."""

    ensemble: MixtureEnsemble

    @property
    def n_members(self) -> int:
        """Number of members."""
        return len(self.ensemble.members_.offsets) - 1

    @property
    def offsets(self) -> np.ndarray:
        """Where the columns of each member begin."""
        return self.ensemble.members_.offsets

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K), where the objects are."""
        return self.ensemble._posteriors(block).T


class CellColumns(NamedTuple):
    """Indicators of the clusters of hard partitions, made in the coordinates of ``axes``.

    Where values are missing, every partition sees another guess of them: what a component of
    ``mixtures`` expects, drawn by its posterior.
    """

    ensemble: ClusteringEnsemble
    axes: Axes
    mixtures: MixtureEnsemble

    @property
    def n_members(self) -> int:
        """Number of members."""
        return self.ensemble.labelings_.shape[1]

    @property
    def offsets(self) -> np.ndarray:
        """Where the columns of each member begin."""
        return np.cumsum([0, *(self.ensemble.labelings_.max(axis=0) + 1)])

    def __call__(self, block: Any) -> sp.csr_array:
        """Columns (b, K), on the host."""
        Y, gaps = self.axes.seen(block)
        labels = self.ensemble.transform(Y @ self.axes.near)
        if gaps is not None:
            rows, guesses = self.mixtures.members_.guesses(Y, gaps, self.n_members)
            for member, guess in enumerate(guesses):
                labels[rows, member] = self.ensemble._label(guess @ self.axes.near, member)
        offsets = self.offsets
        n, m = labels.shape
        seen = labels >= 0
        columns = (labels + offsets[:-1])[seen]
        starts = np.concatenate([[0], np.cumsum(seen.sum(axis=1))])
        return sp.csr_array((np.ones(len(columns)), columns, starts), shape=(n, int(offsets[-1])))


class GivenColumns(NamedTuple):
    """Membership matrices that the user gave, side by side."""

    offsets: np.ndarray

    @property
    def n_members(self) -> int:
        """Number of members."""
        return len(self.offsets) - 1

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K)."""
        return np.asarray(block, dtype=np.float64)


class Factor(NamedTuple):
    """What makes rows of Z: the kinds of evidence with their scales, mean columns and projections
    B.
    """

    kinds: tuple[Any, ...]
    scales: tuple[Any, ...]  # of the columns of each kind: a number, or an array (K,)
    means: tuple[np.ndarray, ...]
    projections: tuple[np.ndarray, ...]
    constant: np.ndarray  # what the regularization adds to every row
    regularization: float
    values: np.ndarray  # eigenvalues, one more than the columns of Z

    def __call__(self, block: Any) -> Any:
        """Rows (b, k) of Z for a block of objects, in float64, where these are."""
        here = block
        if not is_numpy(block) and any(isinstance(kind, CellColumns) for kind in self.kinds):
            here = to_numpy(block)
        Z = in_parts(lambda few: self.rows([kind(few) for kind in self.kinds]), here)
        return Z if here is block else asarray_like(Z, block, namespace(block).float64)

    def rows(self, columns: list[Any]) -> Any:
        """Rows (b, k) of Z from the columns of each kind."""
        scaled = [_scaled(H, scale) for H, scale in zip(columns, self.scales, strict=True)]
        xp = namespace(*scaled)
        degree = self.regularization + _product(scaled, self.means)
        total = _product(scaled, self.projections)
        # An object without evidence from any member gets the mean direction.
        root = xp.sqrt(xp.clip(degree, min=float(np.finfo(float).tiny)))
        return unit_rows((total + asarray_like(self.constant, total)) / root[:, None])

    def columns(self, block: Any) -> np.ndarray:
        """Scaled columns (b, K) of all kinds side by side, whose products are similarities."""
        parts = [
            _scaled(kind(block), scale) for kind, scale in zip(self.kinds, self.scales, strict=True)
        ]
        return np.hstack([H.toarray() if sp.issparse(H) else H for H in parts])

    def cut(self, k: int) -> Factor:
        """The factor with the leading ``k`` columns only."""
        return self._replace(
            projections=tuple(B[:, :k] for B in self.projections),
            constant=self.constant[:k],
            values=self.values[: k + 1],
        )


def in_parts(function: Callable[[Any], Any], block: Any) -> Any:
    """Results of ``function`` for the rows of a block, one under the other.

    NumPy arrays come in small blocks; those of other libraries are cut into blocks of ``ROWS``.
    """
    n = block.shape[0]
    if is_numpy(block) or n <= ROWS:
        return function(block)
    parts = [function(block[low : min(low + ROWS, n), :]) for low in range(0, n, ROWS)]
    return namespace(block).concat(parts)


def _scaled(H: Any, scale: Any) -> Any:
    return H * float(scale) if np.ndim(scale) == 0 else H * asarray_like(scale, H)[None, :]


def _product(columns: list[Any], factors: tuple[Any, ...]) -> Any:
    """Sum of H @ B over the kinds of evidence, where H are."""
    return sum(H @ asarray_like(B, H) for H, B in zip(columns, factors, strict=True))


def _mean(H: Any, mass: Weights) -> np.ndarray:
    """Mean column entries (K,), objects weighted by ``mass``."""
    if mass is None:
        return np.asarray(H.sum(axis=0)).ravel() / H.shape[0]
    return np.asarray(H.T @ mass).ravel() / mass.sum()


def balance(H: Any, weights: Any = None, mass: Weights = None) -> Any:
    """Scale of columns (n, K) that gives them mean degree one.

    ``weights`` (K,) are those of the members, ``mass`` (n,) those of the objects.
    """
    root = 1.0 if weights is None else np.sqrt(weights)
    H = _scaled(H, root)
    mean = _mean(H, mass)
    return root / max(float(np.sqrt(mean @ mean)), np.finfo(float).tiny)


def factorize(
    kinds: tuple[Any, ...],
    columns: list[Any],
    k: int,
    regularization: float = REGULARIZATION,
    weights: list[Any] | None = None,
    mass: Weights = None,
) -> tuple[Factor, np.ndarray]:
    """Factor with ``k`` columns from the columns H (n, K) of a sample, one array for each kind, and
    its rows Z (n, k).

    ``weights`` are those of the columns of each kind, ``mass`` (n,) those of the objects.
    """
    n = columns[0].shape[0]
    total = float(n if mass is None else mass.sum())
    given = [None] * len(columns) if weights is None else weights
    scales = tuple(
        balance(H, w, mass) / np.sqrt(len(columns)) for H, w in zip(columns, given, strict=True)
    )
    parts = [_scaled(H, scale) for H, scale in zip(columns, scales, strict=True)]
    means = tuple(_mean(H, mass) for H in parts)
    degree = regularization + _product(parts, means)
    root = np.sqrt(np.maximum(degree, np.finfo(float).tiny))[:, None]
    if mass is not None:
        root = root / np.sqrt(mass)[:, None]

    def product(V: np.ndarray) -> np.ndarray:
        V = V / root
        everywhere = regularization * V.sum(axis=0, keepdims=True)
        return (everywhere + sum(H @ (H.T @ V) for H in parts)) / (total * root)

    k = min(k, n)
    found = leading_eigenvectors(_Normalized(n, product), k)
    values = np.where(found.values > NULL, found.values, np.inf)
    spread = found.vectors / root / (total * values)
    projections = tuple(np.asarray(H.T @ spread) for H in parts)
    constant = regularization * spread.sum(axis=0)
    following = found.following if np.isfinite(found.following) else 0.0
    spectrum = np.clip(np.append(found.values, following), 0.0, 1.0)
    factor = Factor(kinds, scales, means, projections, constant, regularization, spectrum)
    return factor, factor.rows(columns)


def columns_factor(kind: Any, H: np.ndarray, k: int, mass: Weights = None) -> Factor:
    """The same for one kind of few dense columns H (n, K), by sums of K x K numbers."""
    scale = balance(H, None, mass)
    none = np.empty(0)
    empty = Factor((kind,), (scale,), (np.empty(H.shape[1]),), (none,), none, REGULARIZATION, none)
    rows = Rows(H) if mass is None else Rows(H, mass)
    given = GivenColumns(np.array([0, H.shape[1]]))
    return refine(empty._replace(kinds=(given,)), rows, k)[0]._replace(kinds=(kind,))


class _Normalized(LinearOperator):
    def __init__(self, n: int, product: Any) -> None:
        super().__init__(np.dtype(np.float64), (n, n))
        self.product = product

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return self.product(V)

    def _matvec(self, v: np.ndarray) -> np.ndarray:
        return self.product(v.reshape(-1, 1))[:, 0]

    def _adjoint(self) -> _Normalized:
        return self

    _transpose = _adjoint


class Sums(NamedTuple):
    """Sums over objects that the factor follows from: their number, their columns, and h h' / d."""

    n: float
    total: np.ndarray
    gram: np.ndarray


def refine(factor: Factor, rows: Rows, k: int, past: Sums | None = None) -> tuple[Factor, Sums]:
    """The factor from sums over all rows in place of a sample.

    Two passes, nothing is kept but K x K numbers.

    For one kind of dense columns. ``past`` are the sums over earlier batches, which these are added
    to. A column of the rows holds the weights of the objects.
    """
    kind, scale, t = factor.kinds[0], factor.scales[0], factor.regularization
    columns = rows.through(lambda block: _scaled(kind(block), scale))
    if 8 * rows.shape[0] * len(factor.means[0]) <= KEPT:
        columns = columns.kept()

    def first(H: np.ndarray, mass: Weights = None) -> tuple[np.ndarray, float]:
        return (H.sum(axis=0), len(H)) if mass is None else (mass @ H, float(mass.sum()))

    total, count = columns.sum(first)
    n = count + (0.0 if past is None else past.n)
    total = np.append(total, np.sqrt(t) * count)
    total = total if past is None else total + past.total
    mean = total / n

    def gram(H: np.ndarray, mass: Weights = None) -> tuple[np.ndarray]:
        H = np.hstack([H, np.full((len(H), 1), np.sqrt(t))])
        share = 1.0 / (H @ mean) if mass is None else mass / (H @ mean)
        H *= np.sqrt(share)[:, None]
        return (H.T @ H,)

    (G,) = columns.sum(gram)
    sums = Sums(n, total, G if past is None else G + past.gram)
    values, vectors = np.linalg.eigh(sums.gram / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    vectors = vectors * np.where(np.sum(vectors, axis=0) < 0, -1.0, 1.0)
    spectrum = np.clip(np.append(values, 0.0)[: k + 1], 0.0, 1.0)
    constant = np.sqrt(t) * vectors[-1, :k]
    refined = factor._replace(
        means=(mean[:-1],), projections=(vectors[:-1, :k],), constant=constant, values=spectrum
    )
    return refined, sums
