"""How sure a fitted model is that two objects belong together, from memberships of resamples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from ..array.types import ArrayLike
from ..array.validation import check_number
from ..memberships import cooccurrence
from .clusterer import Clusterer

__all__ = ["CooccurrenceIntervals"]


class CooccurrenceIntervals(Clusterer):
    """Models that can be fitted again to resampled evidence."""

    @abstractmethod
    def _membership_draws(self, n_draws: int) -> Iterable[np.ndarray]:
        """Memberships (n, k) of the fitted objects, learnt from resampled evidence."""

    def cooccurrence_interval(
        self, pairs: ArrayLike, *, n_draws: int = 100, level: float = 0.9
    ) -> np.ndarray:
        """Intervals for the chance that two objects belong together, by bootstrap.

        A consensus resamples its partitions. A pairwise model draws similarities from the fitted
        model, Gaussian around scale * u_i'u_j with variance ``noise_variance_``, and is fitted to
        them again; it forms all pairs of objects.

        Parameters
        ----------
        pairs : array of shape (n_pairs, 2)
            Indices of fitted objects.
        n_draws : int
            Number of resamples.
        level : float
            Share of the resamples that the interval holds.

        Returns
        -------
        interval : array of shape (n_pairs, 2)
            Lower and upper end of u_i'u_j.
        """
        self._check_fitted()
        check_number(n_draws, "n_draws", low=2, integer=True)
        check_number(level, "level", low=0, high=1, strict=True)
        values = [cooccurrence(draw, pairs) for draw in self._membership_draws(n_draws)]
        return np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0).T
