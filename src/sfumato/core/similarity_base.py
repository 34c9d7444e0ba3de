"""The base of every model that reads a similarity.

``similarity=`` becomes W, and new objects become rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_feature_names

from ..numerics.eigen import krylov_columns
from ..similarity import Factored, cluster_kernel, cosine, gaussian, knn, self_tuning
from .arrays import is_numpy, reader
from .base import Clusterer, most_clusters
from .matrices import check_rows, check_similarity
from .memory import InputSize
from .validation import check_features, check_n_clusters, refuse_underflow

__all__ = ["SimilarityClusterer"]

NAMED: dict[str, Callable[..., Any]] = {
    "knn": knn,
    "self-tuning": self_tuning,
    "gaussian": gaussian,
    "cosine": cosine,
}


class SimilarityClusterer(Clusterer):
    """Models of a similarity W (n, n), given or made from features by ``similarity``.

    ``similarity`` is ``"precomputed"``, a name, or a function ``f(X, Y=None)``: similarities among
    the rows of X, or of new objects X to known objects Y (scikit-learn's kernels have this form).
    ``_similarities(X)`` gives W; ``_new_similarities(X)`` the rows of new objects.
    """

    similarity: Any

    def _similarities(self, X: Any) -> Any:
        """W of the evidence, and what is needed for new objects."""
        self._check_room(X)
        if self._precomputed():
            W = check_similarity(X)
            self.n_features_in_ = W.shape[0]
            if hasattr(X, "columns"):
                _check_feature_names(self, X, reset=True)
            return W
        function = self._function()
        X = check_features(self, X, reset=True)
        if is_numpy(X) or sp.issparse(X):
            refuse_underflow(X, "X")
        check_n_clusters(self.n_clusters, X.shape[0])
        if self.similarity == "cluster-kernel":
            W = cluster_kernel(knn(X), self.n_clusters)
        else:
            W = function(X)
            W = W if isinstance(W, Factored) else check_similarity(W, "the result of similarity(X)")
        if W.shape != (X.shape[0], X.shape[0]):
            raise ValueError(
                f"similarity(X) must return an ({X.shape[0]}, {X.shape[0]}) similarity, got shape "
                f"{tuple(W.shape)}"
            )
        self._known, self._W = X, W
        return W

    def _judged(self, evidence: Any) -> tuple[Any, str]:
        if not self._precomputed():
            return super()._judged(evidence)
        if reader(evidence) is not None or isinstance(evidence, Factored):
            return None, ""  # a kernel made for k clusters has the eigenvectors of its maker
        if sp.issparse(evidence):
            return sp.csr_array(evidence), "similarity"
        plain = isinstance(evidence, np.ndarray) or not hasattr(evidence, "shape")
        return (np.asarray(evidence) if plain else evidence), "similarity"

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        named = isinstance(self.similarity, str) and not self._precomputed()
        dense = (
            size.n**2 * size.itemsize
            if named and self.similarity in ("gaussian", "self-tuning")
            else 0
        )
        sparse = size.sparse if self._precomputed() else not dense
        vectors = (
            krylov_columns(most_clusters(self.n_clusters), size.n, sparse=sparse)
            if named or self._precomputed()
            else 0
        )
        return super()._memory_needed(size) | {
            "the dense similarity": dense,
            "eigenvectors": vectors * size.n * size.itemsize,
        }

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        def changed(size: InputSize = size, **parameters: Any) -> float:
            return sum(
                type(self)(**self.get_params(deep=False) | parameters)._memory_needed(size).values()
            )

        if self._memory_needed(size)["the dense similarity"]:
            yield (
                "set similarity='cluster-kernel' or 'knn', which stay sparse",
                changed(similarity="cluster-kernel"),
            )
        if self._precomputed() and not size.sparse:
            yield (
                "give a sparse graph (sfumato.similarity.knn)",
                changed(size._replace(stored=0, sparse=True)),
            )
        if self.n_init > 1:
            yield "set n_init=1", changed(n_init=1)
        yield from super()._smaller_alternatives(size)

    def _new_similarities(self, X: Any) -> Any:
        """Similarities (n_new, n) of new objects to the fitted ones.

        An array, sparse array or operator.
        """
        if self._precomputed():
            if hasattr(X, "columns"):
                _check_feature_names(self, X, reset=False)
            return check_rows(X, self.n_features_in_)
        X = check_features(self, X, reset=False)
        if sp.issparse(X) != sp.issparse(self._known):
            X = X.toarray() if sp.issparse(X) else sp.csr_array(X)
        if self.similarity == "cluster-kernel":
            return Factored(self._W.extend(knn(X, self._known)), self._W.factor)
        try:
            rows = self._function()(X, self._known)
        except TypeError as error:
            raise TypeError(
                "similarity must accept (X, Y) to place new objects X beside known objects Y: "
                f"{error}"
            ) from error
        return (
            rows
            if isinstance(rows, Factored)
            else check_rows(rows, self._known.shape[0], "the result of similarity(X, Y)")
        )

    def _precomputed(self) -> bool:
        return isinstance(self.similarity, str) and self.similarity == "precomputed"

    def _function(self) -> Any:
        if callable(self.similarity):
            return self.similarity
        if self.similarity == "cluster-kernel":
            return knn
        if isinstance(self.similarity, str) and self.similarity in NAMED:
            return NAMED[self.similarity]
        names = ", ".join(map(repr, ("precomputed", "cluster-kernel", *NAMED)))
        raise ValueError(
            f"similarity must be one of {names} or a function f(X, Y=None), got {self.similarity!r}"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed()
        tags.input_tags.sparse = True
        return tags


def as_dense(product: Any, dtype: Any) -> Any:
    """The result of a product with an operator as a plain array."""
    if sp.issparse(product):
        product = product.toarray()
    return np.asarray(product, dtype=dtype) if is_numpy(product) else product
