"""Soft evidence and its cluster kernel.

Columns H of soft partitions, and the factor Z of rank k of their cluster kernel.

    c = mean_i h_i ,   d_i = h_i'c + t
            degrees, with the regularization t
    A = D^(-1/2) (H H' + t 1 1') D^(-1/2) / n  =  E diag(l) E'
            normalised expected co-association
    z_i = B'h_i / sqrt(d_i), scaled to length one,   B = H' D^(-1/2) E diag(1/l) / n

so an object, fitted or new, needs only its own columns. H is scaled to mean degree one. It holds
posteriors of mixtures (dense) or cells (sparse), both made from features, or given membership
matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from sklearn.base import clone

from ...array.arrays import asarray_like, is_numpy, namespace, to_numpy
from ...array.rows import Rows
from ...array.types import ArrayLike, Weights
from ...engine.objects import distinct_sample
from ...memberships import check_memberships
from ...numerics.axes import UNEQUAL, Axes, by_radius, fit_axes
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors
from ...similarity.coassociation import check_partition_weight
from .em import TUNING, Stock, family_mixtures
from .ensemble import ClusteringEnsemble
from .graph import GraphColumns, fit_graph
from .mixtures import MixtureEnsemble

NULL = 1e-12  # smaller eigenvalues count as zero
# Objects processed at a time on a GPU; their columns, a thousand or so, are the largest array
ROWS = 2**17
KEPT = 2**27  # bytes of columns kept between the two passes of the sums


class MixtureColumns(NamedTuple):
    """Posteriors of an ensemble of mixtures."""

    ensemble: MixtureEnsemble
    regularization: float = TUNING.soft_regularization
    on_host: bool = False

    @property
    def offsets(self) -> np.ndarray:
        """Start of the columns of each member."""
        return self.ensemble.members_.offsets

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K), on the device of the objects."""
        return self.ensemble._posteriors(block).T


class CellColumns(NamedTuple):
    """Indicators of the clusters of hard partitions, computed in the coordinates of ``axes``.

    For missing values, every partition gets a different guess by a component of ``mixtures``.
    """

    ensemble: ClusteringEnsemble
    axes: Axes
    mixtures: MixtureEnsemble
    regularization: float = TUNING.hard_regularization
    on_host: bool = True

    @property
    def offsets(self) -> np.ndarray:
        """Start of the columns of each member."""
        return np.cumsum([0, *(self.ensemble.labelings_.max(axis=0) + 1)])

    def __call__(self, block: Any) -> sp.csr_array:
        """Columns (b, K), on the host."""
        Y, missing = self.axes.seen(block)
        labels = self.ensemble.transform(Y @ self.axes.near)
        if missing is not None:
            rows, guesses = self.mixtures.members_.guesses(Y, missing, labels.shape[1])
            for member, guess in enumerate(guesses):
                labels[rows, member] = self.ensemble._label(guess @ self.axes.near, member)
        offsets, seen = self.offsets, labels >= 0
        columns = (labels + offsets[:-1])[seen]
        starts = np.concatenate([[0], np.cumsum(seen.sum(axis=1))])
        shape = len(labels), int(offsets[-1])
        return sp.csr_array((np.ones(len(columns)), columns, starts), shape=shape)


class GivenColumns(NamedTuple):
    """Given membership matrices, side by side."""

    offsets: np.ndarray
    regularization: float = TUNING.soft_regularization
    on_host: bool = False

    def __call__(self, block: Any) -> np.ndarray:
        """Columns (b, K)."""
        return np.asarray(block, dtype=np.float64)


class Factor(NamedTuple):
    """Map from one kind of evidence to rows of Z: scale, mean and projection B of its columns."""

    kind: Any
    scale: Any  # of the columns: a number, or an array (K,)
    mean: np.ndarray
    projection: np.ndarray
    constant: np.ndarray  # added to every row by the regularization
    values: np.ndarray  # eigenvalues, one more than Z has columns

    def __call__(self, block: Any) -> Any:
        """Rows (b, k) of Z for a block of objects, in float64, on their device."""
        here = to_numpy(block) if self.kind.on_host and not is_numpy(block) else block
        Z = unit_rows(_in_parts(lambda few: self.coordinates(self.kind(few)), here))
        return Z if here is block else asarray_like(Z, block, namespace(block).float64)

    def coordinates(self, columns: Any) -> Any:
        """Rows (b, k) of Z before scaling to length one, from the columns of objects."""
        H = _scaled(columns, self.scale)
        xp = namespace(H)
        degree = self.kind.regularization + H @ asarray_like(self.mean, H)
        total = H @ asarray_like(self.projection, H)
        # Objects without evidence from any member get the mean direction.
        root = xp.sqrt(xp.clip(degree, min=float(np.finfo(float).tiny)))
        return (total + asarray_like(self.constant, total)) / root[:, None]

    def columns(self, block: Any) -> np.ndarray:
        """Scaled columns (b, K), whose products are similarities."""
        H = _scaled(self.kind(block), self.scale)
        return H.toarray() if sp.issparse(H) else H


def _in_parts(function: Callable[[Any], Any], block: Any) -> Any:
    """Results of ``function`` for a block, in parts if another array library holds a large one."""
    n = block.shape[0]
    if is_numpy(block) or n <= ROWS:
        return function(block)
    parts = [function(block[low : min(low + ROWS, n), :]) for low in range(0, n, ROWS)]
    return namespace(block).concat(parts)


def _scaled(H: Any, scale: Any) -> Any:
    return H * float(scale) if np.ndim(scale) == 0 else H * asarray_like(scale, H)[None, :]


def _mean(H: Any, mass: Weights) -> np.ndarray:
    """Mean (K,) of the columns, with objects weighted by ``mass``."""
    if mass is None:
        return np.asarray(H.sum(axis=0)).ravel() / H.shape[0]
    return np.asarray(H.T @ mass).ravel() / mass.sum()


def _balance(H: Any, weights: Weights, mass: Weights) -> Any:
    """Scale of columns (n, K) that makes the mean degree one."""
    root = 1.0 if weights is None else np.sqrt(weights)
    mean = _mean(_scaled(H, root), mass)
    return root / max(float(np.sqrt(mean @ mean)), np.finfo(float).tiny)


def factorize(
    kind: Any, columns: Any, k: int, weights: np.ndarray | None = None, mass: Weights = None
) -> Factor:
    """Factor with ``k`` columns, from the columns H (n, K) of a sample.

    ``weights`` (K,) belong to the columns, ``mass`` (n,) to the objects.
    """
    n, regularization = columns.shape[0], kind.regularization
    total = float(n if mass is None else mass.sum())
    scale = _balance(columns, weights, mass)
    H = _scaled(columns, scale)
    mean = _mean(H, mass)
    root = np.sqrt(np.maximum(regularization + H @ mean, np.finfo(float).tiny))[:, None]
    if mass is not None:
        root = root / np.sqrt(mass)[:, None]

    def product(V: np.ndarray) -> np.ndarray:
        V = V.reshape(n, -1) / root
        everywhere = regularization * V.sum(axis=0, keepdims=True)
        return (everywhere + H @ (H.T @ V)) / (total * root)

    operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    found = leading_eigenvectors(operator, min(k, n))
    values = np.where(found.values > NULL, found.values, np.inf)
    spread = found.vectors / root / (total * values)
    following = found.following if np.isfinite(found.following) else 0.0
    spectrum = np.clip(np.append(found.values, following), 0.0, 1.0)
    constant = regularization * spread.sum(axis=0)
    return Factor(kind, scale, mean, np.asarray(H.T @ spread), constant, spectrum)


class Sums(NamedTuple):
    """Sums over objects that determine the factor: their number, their columns, and h h' / d."""

    n: float
    total: np.ndarray
    gram: np.ndarray


def refine(factor: Factor, rows: Rows, k: int, past: Sums | None = None) -> tuple[Factor, Sums]:
    """The factor from sums of dense columns over all rows instead of a sample, in two passes.

    ``past`` are the sums over earlier batches. The rows may have a column with the weights of the
    objects.
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


class FeatureEvidence:
    """Kinds of evidence from a sample of objects with features. Each is made once for all numbers
    of clusters, so that a fit is the same with and without a search.
    """

    def __init__(
        self,
        X: Any,
        ensemble: MixtureEnsemble | None,
        weights: Weights,
        mass: Weights,
        k: Any,
        rng: np.random.Generator,
    ) -> None:
        self.alone = ensemble is not None  # members given by the user are the only evidence
        self.mixtures = MixtureEnsemble() if ensemble is None else ensemble
        most = self.mixtures.max_objects
        self.rows = None
        if X.shape[0] > most:
            self.rows = Rows(X) if mass is None else Rows(X, mass)
        self.points, self.mass = distinct_sample(X, most, rng, mass, k)
        self.weights = weights
        self._made: dict[Any, Any] = {}
        if self.mixtures.members is not None:
            self.mixtures._fit_members(self.points, rng, self.mass)
            return
        self.axes = fit_axes(self.points, self.mixtures.n_axes, self.mass)
        self.stock = Stock.of(self.points, self.axes, self.mass)
        self.seeds = rng.integers(2**63, size=self.mixtures.n_members)
        self.cell_seed, self.family_seed, seed = (int(s) for s in rng.integers(2**31, size=3))
        self.graph_seed, self.graph = seed, None
        many = self.points.shape[0] >= TUNING.fewest_in_graph
        if many and self.points.shape[1] > self.mixtures.n_axes and not self.alone:
            self.graph = self._graph(1)

    def kinds(self, k: int | None) -> dict[str, Any]:
        """Kinds of evidence for ``k`` clusters, or (None) for choosing the number."""
        if self.mixtures.members is not None:
            return {"members": MixtureColumns(self.mixtures)}
        if self.graph is not None:
            return {"graph": self.graph}
        mixtures = self._small_mixtures(k)
        kinds: dict[str, Any] = {"mixtures": MixtureColumns(mixtures)}
        if self.alone or k == 1:
            return kinds
        if (cells := self._cells()) is not None:
            kinds["cells"] = CellColumns(cells, self.axes, mixtures)
        if k is not None and (families := self._families(k)) is not None:
            kinds["families"] = families
        if k is None and self.points.shape[1] > 2:  # in the plane, cells see the same gaps
            graph = self._graph(max(1, -(-self.points.shape[0] // TUNING.compared)))
            kinds |= {} if graph is None else {"graph": graph}
        return kinds

    def _graph(self, step: int) -> GraphColumns | None:
        """Communities of every ``step``-th object, if the features have similar ranges."""
        if not _one_unit(self.points):
            return None
        mass = None if self.mass is None else self.mass[::step]
        return fit_graph(self.points[::step], np.random.default_rng(self.graph_seed), mass)

    def _families(self, k: int) -> MixtureColumns | None:
        """Mixtures of about ``k`` components, if any could be fitted."""
        found = family_mixtures(self.stock, k, self.family_seed)
        if not found:
            return None
        families = MixtureEnsemble(len(found))
        families._keep(found, self.axes)
        return MixtureColumns(families)

    def _small_mixtures(self, k: int | None) -> MixtureEnsemble:
        """Mixtures with at least as many components as clusters, unless their number is given."""
        low, high = self.mixtures._range(self.mixtures._n_fitted(len(self.stock.Y)))
        if k is not None and self.mixtures.n_clusters is None:
            low, high = max(low, k), max(high, 2 * k)
        if (low, high) not in self._made:
            mixtures = clone(self.mixtures).set_params(n_clusters=(low, high))
            mixtures._fit_stock(self.stock, self.axes, self.seeds)
            self._made[low, high] = mixtures
        return self._made[low, high]  # type: ignore[no-any-return]

    def _cells(self) -> ClusteringEnsemble | None:
        """Cells of complete objects with evenly spread neighbours; None if fewer than half are
        complete.
        """
        if "cells" not in self._made:
            Y, missing = self.axes.seen(self.points)
            order = by_radius(Y)
            if missing is not None:
                order = order[missing.pattern[order] < 0]
            self._made["cells"] = None
            if 2 * len(order) >= len(Y):
                few = order[:: max(1, -(-len(order) // TUNING.most))]
                own = None if self.mass is None else self.mass[few]
                cells = ClusteringEnsemble(
                    TUNING.n_cells, n_neighbors=TUNING.n_neighbors, random_state=self.cell_seed
                )
                self._made["cells"] = cells.fit(Y[few] @ self.axes.near, sample_weight=own)
        return self._made["cells"]  # type: ignore[no-any-return]

    def member_weights(self, kind: Any) -> np.ndarray | None:
        """Weights (K,) of the columns of successfully fitted members."""
        if self.weights is None:
            return None
        return np.repeat(self.weights[kind.ensemble._fitted], np.diff(kind.offsets))


def _one_unit(points: Any) -> bool:
    """Whether all features have similar ranges."""
    if not is_numpy(points):
        return True
    spread = points.max(axis=0) - points.min(axis=0)
    varies = spread[spread > 0]
    return bool(len(varies) and varies.max() <= UNEQUAL * np.median(varies))


class GivenEvidence:
    """Given membership matrices (n, K), with the interface of ``FeatureEvidence``."""

    rows = None

    def __init__(
        self,
        H: np.ndarray,
        offsets: np.ndarray,
        weights: Weights,
        mass: Weights,
        k: Any,
        rng: np.random.Generator,
    ) -> None:
        self.points, self.mass, self.offsets, self.weights = H, None, offsets, weights
        if mass is not None:
            self.points, self.mass = distinct_sample(H, len(H), rng, mass, k)

    def kinds(self, k: int | None) -> dict[str, Any]:
        """The only kind of evidence."""
        return {"given": GivenColumns(self.offsets)}

    def member_weights(self, kind: Any) -> np.ndarray | None:
        """Weights (K,) of the columns."""
        return None if self.weights is None else np.repeat(self.weights, np.diff(self.offsets))


def is_list_of_memberships(X: Any) -> bool:
    """Whether the data are a list or tuple of matrices rather than a table of labels."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(np.ndim(each) == 2 for each in X)


def check_given(
    matrices: Any, partition_weight: ArrayLike | None, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Membership matrices side by side, start of each (``offsets`` in the fit), and weights."""
    checked = [np.asarray(check_memberships(each), dtype=np.float64) for each in matrices]
    if len({len(each) for each in checked}) != 1:
        raise ValueError(
            "all membership matrices must describe the same objects, got "
            f"{[len(e) for e in checked]} rows"
        )
    begins = np.cumsum([0, *(each.shape[1] for each in checked)])
    if offsets is not None and not np.array_equal(begins, offsets):
        raise ValueError(
            f"give the same {len(offsets) - 1} membership matrices as in fit, with "
            f"{np.diff(offsets).tolist()} columns; got {np.diff(begins).tolist()}"
        )
    weights = check_partition_weight(partition_weight, len(checked))
    return np.hstack(checked), begins, weights


def check_member_weights(
    partition_weight: ArrayLike | None, ensemble: MixtureEnsemble | None
) -> Weights:
    """Weights of the members of one ensemble."""
    if partition_weight is None:
        return None
    if ensemble is None:
        raise ValueError(
            "partition_weight goes with one ensemble: give ensemble=MixtureEnsemble(...), "
            "ClusteringEnsemble(...) or 'precomputed'"
        )
    n = ensemble.n_members if ensemble.members is None else len(ensemble.members)
    return check_partition_weight(partition_weight, n)
