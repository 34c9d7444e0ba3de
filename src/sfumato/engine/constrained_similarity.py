"""Models of a similarity that take what the user knows of some objects and pairs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ..array.docs import documented
from ..array.types import ArrayLike, Similarity
from ..data.constraints import Known
from .kept import publish_kept
from .similarity_base import SimilarityClusterer
from .similarity_evidence import Evidence

__all__ = ["ConstrainedSimilarityClusterer", "LinkedSimilarityClusterer"]


class LinkedSimilarityClusterer(SimilarityClusterer):
    """Models whose ``fit`` takes links and labels of some objects.

    A model writes ``_fit``, and says in its docstring what weights of links do.
    """

    @documented
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Learn memberships.

        Parameters
        ----------
        X : array, sparse array or operator
            A similarity (n, n) if ``similarity="precomputed"``, distances (n, n) if ``"distance"``;
            else features (n, p), where nearest neighbours leave NaN out.
        %(partial_labels)s
        sample_weight : array of shape (n,), optional
            A weight of w counts as w copies of the object, 0 as if it were not there.
        %(similarity_links)s

        Returns
        -------
        self
        """
        return self._fit_known(X, y, sample_weight, must_link, cannot_link)

    def _fit_known(
        self,
        X: Any,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        must_link: ArrayLike | None,
        cannot_link: ArrayLike | None,
        pair_weight: ArrayLike | Similarity | None = None,
    ) -> Any:
        self._forget()
        if isinstance(self.n_clusters, str) and hasattr(self, "_fit_automatic"):
            if pair_weight is not None:
                raise ValueError(
                    "n_clusters='auto' takes no pair_weight: give the number of clusters"
                )
            links = {"must_link": must_link, "cannot_link": cannot_link}
            return self._fit_automatic(X, sample_weight, y, **links)
        self._check_parameters()
        known = Known.of(must_link, cannot_link, y, X, self.n_clusters)
        self._fit(self._evidence(X, sample_weight, known, pair_weight), known, X)
        publish_kept(self, known)
        return self

    @abstractmethod
    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        """Learn from the similarity among objects and what is known of them."""


class ConstrainedSimilarityClusterer(LinkedSimilarityClusterer):
    """Models whose ``fit`` also takes weights of pairs."""

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
        %(similarity_links)s

        Returns
        -------
        self
        """
        return self._fit_known(X, y, sample_weight, must_link, cannot_link, pair_weight)
