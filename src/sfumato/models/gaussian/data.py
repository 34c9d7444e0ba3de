"""The data of a fit: coordinates found once, rows for every family, and the sample of the
starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...core.arrays import is_numpy, to_numpy
from ...core.linked import Linked
from ...core.rows import Rows, has_holes
from ...numerics import distances, families, seeding
from ...numerics.coordinates import Coordinates, measure
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
from .starts import Sample

__all__ = ["MixtureData"]

SAMPLE = 4096  # objects that a start looks at


class _Reach(NamedTuple):
    """Least and largest values (d,); the sum of two is that of both together."""

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, block: np.ndarray) -> _Reach:
        return cls(np.fmin.reduce(block, initial=np.inf), np.fmax.reduce(block, initial=-np.inf))

    def __add__(self, other: Any) -> _Reach:
        return _Reach(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


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
        if holes and np.isnan(plain.extremes()).any():
            empty = np.flatnonzero(np.isnan(plain.extremes()[0]))
            raise ValueError(
                f"X has no value at all in feature {empty[0]}, only NaN: drop that feature"
            )
        kinds = {families.kind_of(name) for name in names}
        mix = not holes and "full" in kinds
        measured = measure(plain, per_feature=kinds != {"spherical"}, mix=mix)
        total = float(X.shape[0] if weights is None else weights.sum())
        positive = float(X.shape[0] if weights is None else (weights > 0).sum())
        return cls(X, weights, labels, holes, measured, total, max(total, positive), n_jobs)

    def coordinates(self, family: str) -> Coordinates:
        """Coordinates in which the family works."""
        return coordinates_for(family, self.measured, self.holes)

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
        """A sample of so many objects, drawn by weight, in the same coordinates."""
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
        coordinates = self.coordinates(family)
        factors = coordinates.scale / self.measured.scale
        X = sample.X if np.all(factors == 1.0) else sample.X * factors
        return X if coordinates.mix is None else X @ coordinates.mix

    def covariance(self, family: str) -> np.ndarray:
        """Covariance (d, d) of the data in the coordinates of the family, divided by n - 1."""
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
