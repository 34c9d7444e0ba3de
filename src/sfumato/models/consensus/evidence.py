"""Soft evidence and its cluster kernel.

Columns H of soft partitions, and the factor Z of rank k that they lead to.

    c = mean_i h_i ,   d_i = h_i'c + t
            degrees, with the regularization t
    A = D^(-1/2) (H H' + t 1 1') D^(-1/2) / n  =  E diag(l) E'
            normalised expected co-association
    z_i = B'h_i / sqrt(d_i), scaled to length one,   B = H' D^(-1/2) E diag(1/l) / n

so that an object needs its own columns only, whether it was fitted or is new. H, scaled to mean
degree one, is one kind of evidence: posteriors of mixtures (dense), cells (sparse), or membership
matrices that were given.
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
from .tuning import TUNING

__all__ = ["CellColumns", "Factor", "GivenColumns", "MixtureColumns", "Sums", "factorize", "refine"]

NULL = 1e-12  # eigenvalues below are zero
# Objects at one time on a GPU: their columns, a thousand or so, are the largest array
ROWS = 2**17
KEPT = 2**27  # bytes of columns that are kept between the two passes of the sums


class MixtureColumns(NamedTuple):
    """Posteriors of an ensemble of mixtures."""

    ensemble: MixtureEnsemble
    regularization: float = TUNING.soft_regularization
    on_host: bool = False

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
    regularization: float = TUNING.hard_regularization
    on_host: bool = True

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
    regularization: float = TUNING.soft_regularization
    on_host: bool = False

    @property
    def n_members(self) -> int:
        """Number of members."""
        return len(self.offsets) - 1

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K)."""
        return np.asarray(block, dtype=np.float64)


class Factor(NamedTuple):
    """What makes rows of Z: the kind of evidence with the scale, mean and projection B of its
    columns.
    """

    kind: Any
    scale: Any  # of the columns: a number, or an array (K,)
    mean: np.ndarray
    projection: np.ndarray
    constant: np.ndarray  # what the regularization adds to every row
    values: np.ndarray  # eigenvalues, one more than the columns of Z

    def __call__(self, block: Any) -> Any:
        """Rows (b, k) of Z for a block of objects, in float64, where these are."""
        here = to_numpy(block) if self.kind.on_host and not is_numpy(block) else block
        Z = unit_rows(in_parts(lambda few: self.coordinates(self.kind(few)), here))
        return Z if here is block else asarray_like(Z, block, namespace(block).float64)

    def coordinates(self, columns: Any) -> Any:
        """Rows (b, k) of Z before they are scaled to length one, from the columns of objects."""
        H = _scaled(columns, self.scale)
        xp = namespace(H)
        degree = self.kind.regularization + H @ asarray_like(self.mean, H)
        total = H @ asarray_like(self.projection, H)
        # An object without evidence from any member gets the mean direction.
        root = xp.sqrt(xp.clip(degree, min=float(np.finfo(float).tiny)))
        return (total + asarray_like(self.constant, total)) / root[:, None]

    def columns(self, block: Any) -> np.ndarray:
        """Scaled columns (b, K), whose products are similarities."""
        H = _scaled(self.kind(block), self.scale)
        return H.toarray() if sp.issparse(H) else H


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
    mean = _mean(_scaled(H, root), mass)
    return root / max(float(np.sqrt(mean @ mean)), np.finfo(float).tiny)


def factorize(
    kind: Any, columns: Any, k: int, weights: np.ndarray | None = None, mass: Weights = None
) -> Factor:
    """Factor with ``k`` columns from the columns H (n, K) of a sample.

    ``weights`` (K,) are those of the columns, ``mass`` (n,) those of the objects.
    """
    n, regularization = columns.shape[0], kind.regularization
    total = float(n if mass is None else mass.sum())
    scale = balance(columns, weights, mass)
    H = _scaled(columns, scale)
    mean = _mean(H, mass)
    root = np.sqrt(np.maximum(regularization + H @ mean, np.finfo(float).tiny))[:, None]
    if mass is not None:
        root = root / np.sqrt(mass)[:, None]

    def product(V: np.ndarray) -> np.ndarray:
        V = V / root
        everywhere = regularization * V.sum(axis=0, keepdims=True)
        return (everywhere + H @ (H.T @ V)) / (total * root)

    k = min(k, n)
    found = leading_eigenvectors(_Normalized(n, product), k)
    values = np.where(found.values > NULL, found.values, np.inf)
    spread = found.vectors / root / (total * values)
    following = found.following if np.isfinite(found.following) else 0.0
    spectrum = np.clip(np.append(found.values, following), 0.0, 1.0)
    constant = regularization * spread.sum(axis=0)
    return Factor(kind, scale, mean, np.asarray(H.T @ spread), constant, spectrum)


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

    For dense columns. ``past`` are the sums over earlier batches, which these are added
    to. A column of the rows holds the weights of the objects.
    """
    kind, scale, t = factor.kind, factor.scale, factor.kind.regularization
    columns = rows.through(lambda block: _scaled(kind(block), scale))
    if 8 * rows.shape[0] * len(factor.mean) <= KEPT:
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
        mean=mean[:-1], projection=vectors[:-1, :k], constant=constant, values=spectrum
    )
    return refined, sums
