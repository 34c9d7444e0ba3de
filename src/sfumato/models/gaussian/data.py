"""The data of a fit, a sample of them for the starts, and partitions of that sample.

Coordinates are found once and rows made for every family. A partition comes from agglomeration or
k-means (``hierarchy``, ``numerics.seeding``). Where its clusters are clear no other start is tried:
no move (merging two groups and cutting a third) could raise the likelihood, which the partition
alone shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ...array.arrays import is_numpy, to_numpy
from ...array.rows import Rows, has_holes
from ...engine.linked import Linked
from ...numerics import distances, families, seeding
from ...numerics.clear_groups import best_move
from ...numerics.coordinates import Coordinates, measure
from .hierarchy import hierarchy
from .likelihood import (
    AFFINE,
    MOST_KEPT,
    Likelihood,
    LinkedRows,
    View,
    coordinates_for,
    layout_for,
)
from .missing import complete
from .prior import Prior

__all__ = ["MixtureData", "Sample", "clear_partition", "match", "partitions"]

_T = TypeVar("_T")
SAMPLE = 4096  # size of the sample for the starts
KINDS = ("whitened", "standardized", "units", "objects")  # of starts after the first, in turn
CLEAR_MOVES = 4  # of a partition that is not clear yet
LLOYD_STEPS = 5  # after each of them


class _Reach(NamedTuple):
    """Least and largest values (d,); the sum of two is that of both together."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, block: np.ndarray) -> _Reach:
        return cls(np.fmin.reduce(block, initial=np.inf), np.fmax.reduce(block, initial=-np.inf))

    def __add__(self, other: Any) -> _Reach:
        return _Reach(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


class Sample(NamedTuple):
    """Objects (n, d) that starts look at, standardised and sorted, with weights and known labels.

    ``units`` (d,) are the factors that give all features the same units again.
    """

    X: np.ndarray
    weights: np.ndarray
    labels: np.ndarray | None
    units: np.ndarray


@dataclass(frozen=True)
class MixtureData:
    """Features with weights and known labels, in the coordinates of every family.

    ``holes`` says whether values are missing; ``total`` is the weight of all objects, ``count``
    their number (copies where weights are whole numbers). ``linked`` are rows that the user
    linked, with their features, weights and labels, and whether they are among those of ``X``.
    """

    X: Any
    weights: np.ndarray | None
    labels: np.ndarray | None
    holes: bool
    measured: Coordinates
    total: float
    count: float
    n_jobs: int | None
    linked: tuple[Linked, Any, np.ndarray, Any, bool] | None = None
    _rows: dict[Any, Rows] = field(default_factory=dict, compare=False)
    _made: dict[Any, Any] = field(default_factory=dict, compare=False)  # what families share

    @classmethod
    def measure(
        cls,
        X: Any,
        weights: np.ndarray | None,
        labels: np.ndarray | None,
        names: tuple[str, ...],
        n_jobs: int | None,
    ) -> MixtureData:
        """Find the coordinates that the families ``names`` need."""
        plain = Rows(X, weights, n_jobs=n_jobs)
        holes = has_holes(plain)
        kinds = {families.kind_of(name) for name in names}
        mix = not holes and "full" in kinds
        measured = measure(plain, per_feature=kinds != {"spherical"}, mix=mix)
        total = float(X.shape[0] if weights is None else weights.sum())
        positive = float(X.shape[0] if weights is None else (weights > 0).sum())
        return cls(X, weights, labels, holes, measured, total, max(total, positive), n_jobs)

    def coordinates(self, family: str) -> Coordinates:
        """Coordinates in which the family works."""
        return self._shared("coordinates", family, self._coordinates)

    def _coordinates(self, family: str) -> Coordinates:
        return coordinates_for(family, self.measured, self.holes)

    def _shared(self, what: str, family: str, make: Callable[[str], _T]) -> _T:
        """What families with equal coordinates share, made once."""
        key = (what, family in AFFINE, families.kind_of(family) == "diag")
        if key not in self._made:
            self._made[key] = make(family)
        return self._made[key]  # type: ignore[no-any-return]

    def likelihood(
        self, family: str, frozen: tuple[str, ...] = (), prior: Prior | None = None
    ) -> Likelihood:
        """The likelihood of the family on these data.

        Families with equal coordinates share rows.
        """
        d = self.X.shape[1]
        layout = layout_for(family, d, self.holes)
        kind = families.kind_of(family)
        small = self.X.shape[0] * distances.width(d, kind) <= MOST_KEPT
        expanded = small and kind == "full" and is_numpy(self.X)
        view = View(family, self.coordinates(family), layout, expanded)
        key = (kind, layout, family in AFFINE)
        if key not in self._rows:
            rows = view.rows(self.X, self.weights, self.labels, n_jobs=self.n_jobs)
            self._rows[key] = rows.kept()
        rows, linked = self._rows[key], None
        if self.linked is not None:
            links, X, *others = self.linked
            block = view.rows(X).map(lambda block: block)
            linked = LinkedRows(links, block, *others)
        return Likelihood(view, rows, self.total, self.count, frozen, prior, linked)

    def with_links(self, links: Linked | None) -> MixtureData:
        """The same data, some rows of which are linked."""
        if links is None:
            return self
        if not is_numpy(self.X):
            raise ValueError("must_link and cannot_link need X as a NumPy array")
        chosen = links.rows
        weights = np.ones(chosen.size) if self.weights is None else self.weights[chosen]
        labels = None if self.labels is None else self.labels[chosen]
        rows = self.X[chosen]
        X = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
        return replace(self, linked=(links, X, weights, labels, True))

    def screen(self, size: int, rng: np.random.Generator) -> MixtureData:
        """A sample of ``size`` objects, drawn by weight, in the same coordinates."""
        rows = Rows(self.X, self.weights, self.labels, n_jobs=self.n_jobs).sample(size, rng)
        return replace(
            self,
            X=rows.X,
            weights=None,
            labels=rows.columns[1],
            total=float(size),
            count=float(size),
            linked=None if self.linked is None else (*self.linked[:-1], False),
            _rows={},
            _made={},
        )

    def sample(self, rng: np.random.Generator) -> Sample:
        """Objects that starts look at: few, without holes, in an order of their own."""
        feature = self.measured.unmixed()
        rows = Rows(self.X, self.weights, self.labels, n_jobs=self.n_jobs, view=feature.inner)
        X, weights, (labels,) = seeding.sorted_sample(rows, SAMPLE, rng)
        X = complete(X, weights) if self.holes else X
        return Sample(X, weights, labels, self.measured.isotropic().scale / feature.scale)

    def inner(self, sample: Sample, family: str) -> np.ndarray:
        """Objects of a sample in the coordinates of the family."""
        held, X = self._shared("inner", family, lambda name: (sample, self._inner(sample, name)))
        return X if held is sample else self._inner(sample, family)

    def _inner(self, sample: Sample, family: str) -> np.ndarray:
        coordinates = self.coordinates(family)
        factors = coordinates.scale / self.measured.scale
        X = sample.X if np.all(factors == 1.0) else sample.X * factors
        return X if coordinates.mix is None else X @ coordinates.mix

    def covariance(self, family: str) -> np.ndarray:
        """Covariance (d, d) of the data in the coordinates of the family, divided by n - 1."""
        return self._shared("covariance", family, self._covariance)

    def _covariance(self, family: str) -> np.ndarray:
        coordinates = self.coordinates(family)
        unbiased = self.count / max(self.count - 1.0, 1.0)
        if coordinates.mix is not None:
            return unbiased * np.eye(self.X.shape[1])
        if self.measured.mix is None:
            return unbiased * np.diag(np.maximum(coordinates.variances, 1e-12))
        # Beside tiny features, a constant one has a factor whose square is no number.
        factors = np.minimum(coordinates.scale / self.measured.scale, 1e100)
        return unbiased * self.measured.covariance() * np.outer(factors, factors)

    def prior_scale(self, family: str, k: int) -> np.ndarray:
        """Scale (d, d) of mclust's prior of ``k`` covariances: that of the data / k^(2/d)."""
        return self.covariance(family) / k ** (2.0 / self.X.shape[1])

    def noise_density(self, family: str) -> np.ndarray:
        """Logarithms (d,) that sum to the uniform density over the box around the data."""
        feature = self.measured.unmixed()
        rows = Rows(self.X, self.weights, n_jobs=self.n_jobs, view=feature.inner)
        if self.weights is None or (self.weights > 0).all():
            low, high = rows.extremes().astype(np.float64)
        else:
            low, high = rows.sum(lambda block, w: (_Reach.of(to_numpy(block)[w > 0]),))[0]
        box = -np.log(np.maximum(high - low, 1e-3))
        coordinates = self.coordinates(family)
        if coordinates.mix is None:
            return box - np.log(coordinates.scale / feature.scale)
        mixed = float(np.linalg.slogdet(coordinates.mix)[1])
        return box - mixed / len(box)


def partitions(
    sample: Sample, sizes: Sequence[int], n_starts: int, rng: np.random.Generator, nested: bool
) -> dict[int, np.ndarray]:
    """Labels (n_starts, n) for every number of groups in ``sizes``.

    Where ``nested``, the first partitions of all sizes come from one hierarchy and the others from
    k-means in different coordinates; otherwise all come from k-means on standardised features.
    """
    X, weights, index = seeding.distinct(sample.X, sample.weights)
    possible = sorted({min(k, len(X)) for k in sizes})
    tree = hierarchy(X, weights, possible, rng) if nested and possible[-1] > 1 else {}
    spaces = {
        "whitened": seeding.whiten(X, weights),
        "standardized": seeding.standardize(X, weights),
        "units": X * sample.units,
    }
    found = {}
    for size in sizes:
        k = min(size, len(X))
        kinds = KINDS if nested else ("standardized",)
        groups = [tree[k]] if k in tree else []
        if k == 1:
            groups = [np.zeros(len(X), dtype=np.int64)]
        elif n_starts > len(groups):
            rngs = rng.spawn(n_starts - len(groups))
            groups += [
                _groups(spaces, weights, k, kinds[i % len(kinds)], r) for i, r in enumerate(rngs)
            ]
        found[size] = np.stack(groups)[:, index]
    return found


def _groups(
    spaces: dict[str, np.ndarray],
    weights: np.ndarray,
    k: int,
    kind: str,
    rng: np.random.Generator,
) -> np.ndarray:
    """One partition (n,): by k-means, or by the nearest of ``k`` objects."""
    if kind != "objects":
        return seeding.kmeans(spaces[kind], weights, k, rng)
    X = spaces["whitened"]
    return seeding.nearest(
        X, X[rng.choice(len(X), size=k, replace=False, p=weights / weights.sum())]
    )


def match(groups: np.ndarray, labels: np.ndarray, weights: np.ndarray, k: int) -> np.ndarray:
    """Groups renumbered to agree best with the known labels (-1: unknown), which take their
    place.
    """
    known = labels >= 0
    table = np.zeros((k, k))
    np.add.at(table, (groups[known], labels[known]), weights[known])
    order = np.empty(k, dtype=np.int64)
    rows, columns = linear_sum_assignment(-table)
    order[rows] = columns
    return np.where(known, labels, order[groups])


def clear_partition(sample: Sample, k: int, rng: np.random.Generator) -> np.ndarray | None:
    """Labels (n,) of ``k`` clusters so clear that no other partition need be tried, or None."""
    X, weights = sample.X, sample.weights
    if k < 2 or len(X) < 2 * k * (X.shape[1] + 1):
        return None
    white = seeding.whiten(X, weights)
    if white.shape[1] < X.shape[1]:
        return None
    counts = weights / seeding.unit(weights)
    for space in (seeding.standardize(X, weights), white):
        labels = seeding.kmeans(space, weights, k, rng)
        for _ in range(CLEAR_MOVES):
            trial = best_move(white, counts, labels, k)
            if trial.clear:
                return labels
            if not 0.0 < trial.gain < np.inf:
                break
            centers = [np.average(space[trial.labels == j], axis=0) for j in range(k)]
            labels = seeding.lloyd(space, weights, np.stack(centers), LLOYD_STEPS)
    return None
