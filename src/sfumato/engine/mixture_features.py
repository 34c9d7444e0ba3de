"""Mixtures of features that work in coordinates of their own: every feature of variance one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.rows import Rows
from ..array.types import Array, ArrayLike
from ..array.validation import check_weights
from ..data.features import refuse_unseen
from ..numerics.coordinates import Coordinates, measure
from .mixture_base import DensityMixture

__all__ = ["FeatureMixture"]


class FeatureMixture(DensityMixture):
    """Mixtures of features, NaN where a value is missing; ``_holes`` says whether the fit has any.

    In inner coordinates the means are zero: missing values begin there.
    """

    _coordinates: Coordinates
    _holes: bool
    _n_objects: int

    def _prepare(self, X: Array, sample_weight: ArrayLike | None) -> Rows:
        X = self._read(X, reset=True)
        plain = Rows(X, check_weights(sample_weight, X), n_jobs=self.n_jobs)
        refuse_unseen(plain.extremes()[:1], getattr(self, "feature_names_in_", None))
        self._coordinates = measure(plain, per_feature=True, mix=False)
        rows = self._rows(X, *plain.columns).kept()
        self._n_objects = rows.shape[0]
        self._holes = rows.sum(lambda block, *_: (int(np.isnan(block).sum()),))[0] > 0
        return rows

    def _rows(self, X: ArrayLike, *columns: Any) -> Rows:
        coordinates = self._coordinates
        return Rows(X, *columns, n_jobs=self.n_jobs, view=lambda block: _inner(block, coordinates))

    def _log_volumes(self, block: Array) -> np.ndarray:
        return ~np.isnan(block) @ np.log(self._coordinates.scale)


def _inner(block: Array, coordinates: Coordinates) -> np.ndarray:
    return coordinates.inner(to_numpy(block).astype(np.float64))
