"""Models of a similarity that take what the user knows of some objects and pairs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .constraints import Known, refuse_constraints
from .docs import documented
from .similarity_base import SimilarityClusterer
from .similarity_evidence import Evidence
from .types import ArrayLike, Similarity

__all__ = ["ConstrainedSimilarityClusterer"]


class ConstrainedSimilarityClusterer(SimilarityClusterer):
    """Models whose ``fit`` takes weights of pairs, links and labels of some objects.

    A model writes ``_fit``, and says in its docstring what links and weights of pairs do.
    """

    @documented
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        pair_weight: ArrayLike | Similarity | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Learn memberships.

        Parameters
        ----------
        X : array, sparse array or operator
            A similarity (n, n) if ``similarity="precomputed"``, where NaN means "not measured";
            distances (n, n) if ``"distance"``; else features (n, p), where nearest neighbours leave
            NaN out.
        %(partial_labels)s
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object, 0 as if it were not there.
        pair_weight : array, sparse array or operator of shape (n, n), optional
            Confidence in each similarity; 0 means not measured. Makes the problem dense.
        must_link : array of shape (m, 2) or (m, 3), optional
            Pairs of rows that belong together: they share one row of memberships. With a third
            column of weights they are only drawn together, as the notes on the class say.
        cannot_link : array of shape (m, 2) or (m, 3), optional
            Pairs of rows that belong apart, with weights in a third column or without. A warning
            counts the pairs that labels do not honour.

        Returns
        -------
        self
        """
        self._forget()
        if isinstance(self.n_clusters, str) and hasattr(self, "_fit_automatic"):
            refuse_constraints(y, pair_weight, must_link, cannot_link)
            return self._fit_automatic(X, sample_weight)
        self._check_parameters()
        known = Known.of(must_link, cannot_link, y, X, self.n_clusters)
        self._fit(self._evidence(X, sample_weight, known, pair_weight), known, X)
        known.warn_of_broken(self.labels_)
        return self

    @abstractmethod
    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        """Learn from the similarity among objects and what is known of them."""
