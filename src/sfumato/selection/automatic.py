"""``n_clusters="auto"``: the answer of ``choose_n_clusters``, and the table of candidates."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..core.arrays import is_numpy, reader
from ..core.constraints import known_labels
from ..core.types import ArrayLike
from ..core.validation import check_choice, check_number
from .choose import Choice, choose_n_clusters, reported
from .own import of_mixture

__all__ = ["AutomaticClusters", "AutomaticMixture"]


class AutomaticMixture:
    """A mixture that chooses among candidates by its ``criterion``, and keeps ``selection_``."""

    n_clusters: Any
    selection_: Choice

    def _tabulate(self) -> None:
        if not isinstance(self.n_clusters, Integral):
            self.selection_ = reported(of_mixture(self))._replace(estimator=None)

    def _finest(self) -> int:
        """The largest number that the criterion finds better than one cluster."""
        rows = self.selection_.table if hasattr(self, "selection_") else ()
        one = {row.n_clusters: row.score for row in rows}.get(1, np.nan)
        better = [row.n_clusters for row in rows if row.score > one]
        return max([super()._finest(), *better])  # type: ignore[misc]


class AutomaticClusters:
    """A clusterer whose ``n_clusters`` may be "auto": what ``choose_n_clusters`` finds.

    ``selection_`` is the table of candidates with the distribution over their numbers.
    """

    n_clusters: Any
    max_clusters: Any
    selection_: Choice

    def _fit_automatic(
        self,
        X: ArrayLike,
        sample_weight: ArrayLike | None = None,
        y: ArrayLike | None = None,
        **links: ArrayLike | None,
    ) -> Any:
        """Fit with the number that is found without links, and at least that of the labels."""
        check_choice(self.n_clusters, "n_clusters (an integer or 'auto')", ("auto",))
        check_number(self.max_clusters, "max_clusters", low=2, integer=True)
        if reader(X) is not None:
            raise TypeError(
                f"{type(self).__name__} with n_clusters='auto' does not read dask arrays: choose "
                "on a sample, sfumato.selection.choose_n_clusters(model, X[:5000].compute()), "
                "and give the number; EvidenceAccumulation('auto') streams"
            )
        _refuse_without_rows(X)
        choice = choose_n_clusters(
            clone(self).set_params(n_clusters=2),
            X,
            max_clusters=self.max_clusters,
            sample_weight=sample_weight,
            random_state=0,
        )
        n = 0 if y is None else len(np.asarray(y))
        fitted, labels = choice.estimator, known_labels(y, n, n + 1)
        links = {name: pairs for name, pairs in links.items() if pairs is not None}
        if labels is not None or links:
            k = choice.n_clusters if labels is None else max(choice.n_clusters, labels.max() + 1)
            fitted = clone(self).set_params(n_clusters=int(k)).fit(X, y, sample_weight, **links)
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        learnt = {k: v for k, v in vars(fitted).items() if k not in parameters}
        self.__dict__.update(learnt)
        self.selection_ = choice._replace(estimator=None)
        return self


def _refuse_without_rows(X: Any) -> None:
    """Refuse evidence whose rows cannot be taken: candidates are fitted and tested in memory."""
    plain = isinstance(X, (np.ndarray, list, tuple)) or sp.issparse(X) or hasattr(X, "columns")
    if not (plain or (hasattr(X, "__array__") and is_numpy(X))):
        raise TypeError(
            "n_clusters='auto' reads arrays and sparse arrays in memory, got "
            f"{type(X).__name__}: give the number of clusters"
        )
