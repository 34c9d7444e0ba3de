"""The base class of models of a similarity: it turns ``similarity=`` into W, adds constraints on
objects and pairs, and compares new objects with the fitted ones.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_feature_names

from ..array.arrays import is_numpy, reader
from ..array.docs import documented
from ..array.types import ArrayLike, Similarity
from ..array.validation import (
    InputSize,
    check_n_clusters,
    check_number,
    check_weights,
    refuse_underflow,
)
from ..data.constraints import Known
from ..data.features import check_features, empty_rows
from ..data.matrices import check_rows, check_similarity
from ..numerics.eigen import krylov_columns
from ..numerics.operators import magnitudes
from ..similarity import Factored, cluster_kernel, cosine, gaussian, knn, self_tuning
from .base import Clusterer
from .clusterer import most_clusters
from .linked import publish_kept
from .objects import ABSENT, UNKNOWN, Objects, chained, distinct_rows, joined, merged, present_rows
from .similarity_evidence import (
    Evidence,
    averaged,
    has_missing,
    measured,
    set_apart,
    shared,
    similarity_of_distances,
    take_rows,
    zeros_for_missing,
)

NAMED: dict[str, Callable[..., Any]]
NAMED = {"knn": knn, "self-tuning": self_tuning, "gaussian": gaussian, "cosine": cosine}


class SimilarityClusterer(Clusterer):
    """Models of a similarity W (n, n): ``"precomputed"``, made from ``"distance"`` or from
    features, by name or by a function ``f(X, Y=None)`` of new objects X and known objects Y.
    """

    _sparse = True
    _any_library = True  # arrays of every library that follows the array API standard

    similarity: Any
    _signed = False  # whether similarities may be negative
    _copies: np.ndarray | None = None  # which rows are equal, if clusters outnumber distinct rows

    @documented
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        pair_weight: ArrayLike | Similarity | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Any:
        """Learn memberships.

        Parameters
        ----------
        X : array, sparse array or operator
            A similarity (n, n) if ``similarity="precomputed"``, where NaN means "not measured";
            distances (n, n) if ``"distance"``; else features (n, p); nearest neighbours ignore
            missing values.
        pair_weight : array, sparse array or operator of shape (n, n), optional
            Confidence in each similarity; 0 means not measured. Makes the problem dense.
        %(partial_labels)s
        %(sample_weight)s
        must_link : array of shape (m, 2) or (m, 3), optional
            Pairs of rows that belong together: they share one row of memberships. With a third
            column of weights they are only pulled together; see the notes of the class.
        cannot_link : array of shape (m, 2) or (m, 3), optional
            Pairs of rows that belong apart: their labels differ if that is possible for all pairs.
            With a third column of weights they are only pushed apart. A warning gives the number of
            broken links.

        Returns
        -------
        self
        """
        if not isinstance(self.n_clusters, Integral):
            if pair_weight is not None:
                raise ValueError(f"n_clusters={self.n_clusters!r} takes no pair_weight: give one")
            links = {"must_link": must_link, "cannot_link": cannot_link}
            return self._fit_automatic(X, sample_weight, y, **links)
        self._check_parameters()
        known = Known.of(must_link, cannot_link, y, X, int(self.n_clusters))
        evidence = self._prepared(*self._objects(X, sample_weight, pair_weight), known)
        self._fit(evidence, known, X)
        publish_kept(self, known)
        return self

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_number(self.n_clusters, "n_clusters", low=1, integer=True)

    @abstractmethod
    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        """Fit to the similarity among objects and the constraints."""

    def _objects(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        pair_weight: ArrayLike | Similarity | None = None,
    ) -> tuple[Evidence, Objects]:
        """The similarity among objects, for any number of clusters, and the object of each row."""
        self._check_memory(X)
        for name in ("_W", "_joint_factor", "_copies"):
            self.__dict__.pop(name, None)
        if self._square():
            W, pairs = self._given(X, pair_weight)
            rows = present_rows(W.shape[0], check_weights(sample_weight, W))
            if rows.weights is not None and rows.weights.sum() < rows.size:  # not numbers of copies
                rows = rows.in_units()
            pairs = pairs if pairs is None or rows.group is None else rows.average(pairs)
            return Evidence(rows.average(W), rows.weights, pairs), rows
        if pair_weight is not None:
            raise ValueError("pair_weight needs similarity='precomputed': features have none")
        rows, W = self._from_features(X, sample_weight)
        return Evidence(W, rows.weights), rows

    def _prepared(self, evidence: Evidence, rows: Objects, known: Known) -> Evidence:
        """The evidence for ``n_clusters`` clusters, without objects that are set apart."""
        group = rows.group
        columns = None if group is None or not self._square() else rows.averages()
        if self.n_clusters > rows.size:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the {rows.size} of {rows.n} rows that "
                f"have a positive sample_weight: ask for at most {rows.size}"
            )
        dropped = set_apart(evidence, self.n_clusters)
        if dropped.any():
            codes = np.where(dropped, UNKNOWN, np.cumsum(~dropped) - 1)
            evidence, group = evidence.take(~dropped), chained(group, codes)
            T = sp.csr_array(sp.eye_array(dropped.size, format="csc")[:, np.flatnonzero(~dropped)])
            columns = T if columns is None else columns @ T
        self._group, self._columns = group, columns
        evidence = self._linked(evidence, known)
        return evidence if known.component is None else self._join(evidence, known)

    def _linked(self, evidence: Evidence, known: Known) -> Evidence:
        """The cluster kernel of a graph with links as edges, if a cluster kernel is used."""
        if not self._is("cluster-kernel"):
            return evidence
        graph = evidence.W
        size = graph.shape[0]
        edges = known.edges(self._group, size, float(abs(graph).sum()) / size)
        graph = graph if edges is None else sp.csr_array(graph + edges)
        self._W = cluster_kernel(graph, self.n_clusters, sample_weight=evidence.weights)
        return evidence._replace(W=self._W)

    def _join(self, evidence: Evidence, known: Known) -> Evidence:
        """The evidence with must-linked rows merged into one object."""
        assert known.component is not None
        size = evidence.W.shape[0]
        group = np.arange(known.component.size) if self._group is None else self._group
        joints = merged(evidence.weights, joined(group, size, known.component))
        assert joints.group is not None
        if joints.size < most_clusters(self.n_clusters):
            raise ValueError(
                f"must_link and y leave {joints.size} objects for n_clusters={self.n_clusters}: "
                "ask for fewer clusters"
            )
        self._group = chained(group, joints.group)
        if not hasattr(self, "_W"):
            T = joints.averages()
            self._columns = T if self._columns is None else self._columns @ T
        evidence = evidence.merge(joints)
        self._joint_factor = getattr(evidence.W, "factor", None)
        return evidence

    def _given(self, X: Any, pair_weight: ArrayLike | Similarity | None) -> tuple[Any, Any]:
        """A precomputed similarity, and the weights of its pairs (None if all are one)."""
        names = X if hasattr(X, "columns") else None
        foreign = reader(X)
        X = X if foreign is None else foreign.check_array(X, "W")
        if self.similarity == "distance":
            X, self._distance_scales = similarity_of_distances(X)
        W, pairs = measured(X, pair_weight)
        W = check_similarity(W, signed=self._signed, features="set similarity='cluster-kernel'")
        # Evidence for the structure test: not if pairs are missing or similarities negative.
        self._evidence_ = W if pairs is None and magnitudes(W) is W else None
        self.n_features_in_ = W.shape[0]
        if names is not None:
            _check_feature_names(self, names, reset=True)
        check_n_clusters(self.n_clusters, W.shape[0])
        return W, pairs

    def _from_features(self, X: Any, sample_weight: ArrayLike | None) -> tuple[Objects, Any]:
        """Objects and their similarity; for a cluster kernel, the graph behind it."""
        function = self._function()
        X = check_features(self, X, reset=True, missing=function is knn)
        host = is_numpy(X) or sp.issparse(X)
        if host:
            refuse_underflow(X, "X")
            empty = empty_rows(X)
            if empty is not None:
                n = int(empty.sum())
                raise ValueError(
                    f"X has no measured value in {n} row{'s' * (n > 1)} (first: row "
                    f"{empty.argmax()}): drop {'them' if n > 1 else 'it'}"
                )
        check_n_clusters(self.n_clusters, X.shape[0])
        weights = check_weights(sample_weight, X)
        rows = distinct_rows(X, weights) if host else present_rows(X.shape[0], weights)
        if rows.size < most_clusters(self.n_clusters):
            self._copies = rows.group
            rows = present_rows(X.shape[0], weights)
        rows = rows.in_units()
        # A copy, so that later changes of X by the user have no effect.
        known = X if not host else X.copy() if rows.group is None else X[rows.first()]
        counts = function in (knn, self_tuning, gaussian) and rows.weights is not None
        counted = {"sample_weight": rows.weights} if counts else {}
        W = function(known, **counted)
        known_good = isinstance(W, Factored) or (function is knn and not counted)
        if not known_good:
            W = check_similarity(W, "the result of similarity(X)", signed=self._signed)
        if W.shape != (rows.size, rows.size):
            raise ValueError(f"similarity(X) must be ({rows.size}, {rows.size}), got {W.shape}")
        self._known = known
        self._counted: dict[str, Any] = counted
        return rows, W

    def _spread(self, memberships: Any, X: Any) -> Any:
        """Memberships (n, k) of all rows, from those of the objects; equal rows get equal ones."""
        U, group, k = memberships, self._group, memberships.shape[1]
        if group is not None:
            U = np.full((group.size, k), 1.0 / k, dtype=memberships.dtype)
            U[group >= 0] = memberships[group[group >= 0]]
            absent = np.flatnonzero(group == ABSENT)
            if absent.size:
                U[absent] = self._place(self._new_similarities(take_rows(X, absent)))
        return U if self._copies is None else shared(U, self._copies)

    @abstractmethod
    def _place(self, rows: Any) -> Any:
        """Memberships of new objects from their similarities (n_new, g) to the objects."""

    def _placed(self, X: Any) -> Any:
        return self._place(self._new_similarities(X))

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of the new data that the model explains, 1 - error / total; higher is better.

        Factorizations: of the squared similarities w_ij to fitted objects, with the error
        sum_ij (w_ij - scale * u_i'u_j)^2 (for ``CompletelyPositiveFactorization``, of scaled
        similarities f_ij around g_i'g_j). Spectral clustering: of the spread
        sum_i |z_i - c|^2 of the embedded objects z around the mean of the fitted ones, with the
        error sum_i min_r |z_i - c_r|^2 to the means of the fitted clusters; 0 for one cluster.

        Parameters
        ----------
        X : as for ``predict_proba``
            For objects that were not fitted, this is a held-out score.
        y : ignored
        sample_weight : array of shape (n_new,), optional

        Returns
        -------
        score : float
            At most 1.
        """
        self._check_fitted()
        rows = self._new_similarities(X)
        w = check_weights(sample_weight, rows)
        return self._explained(rows, np.ones(rows.shape[0]) if w is None else w)

    @abstractmethod
    def _explained(self, rows: Any, weights: np.ndarray) -> float:
        """The score of new objects with these similarities and weights."""

    def _structure_evidence(self, evidence: Any) -> tuple[Any, str]:
        if not self._square():
            return super()._structure_evidence(evidence)
        if reader(evidence) is not None or isinstance(evidence, Factored):
            return None, ""  # the kernel was made for k clusters and already has their eigenvectors
        if sp.issparse(evidence):
            return sp.csr_array(evidence), "similarity"
        plain = isinstance(evidence, np.ndarray) or not hasattr(evidence, "shape")
        return (np.asarray(evidence) if plain else evidence), "similarity"

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        given = self._is("precomputed")
        dense = size.n**2 * size.itemsize if self._is("gaussian", "self-tuning") else 0
        sparse, vectors = size.sparse if given else not dense, 0
        if isinstance(self.similarity, str):
            vectors = krylov_columns(most_clusters(self.n_clusters), size.n, sparse=sparse)
        more = {"the dense similarity": dense, "eigenvectors": vectors * size.n * size.itemsize}
        return super()._memory_needed(size) | more

    def _smaller_alternatives(self, size: InputSize) -> Iterator[tuple[str, float]]:
        def changed(size: InputSize = size, **parameters: Any) -> float:
            other = type(self)(**self.get_params(deep=False) | parameters)
            return sum(other._memory_needed(size).values())

        if self._memory_needed(size)["the dense similarity"]:
            instead = "set similarity='cluster-kernel' or 'knn', which stay sparse"
            yield instead, changed(similarity="cluster-kernel")
        if self._is("precomputed") and not size.sparse:
            sparse = size._replace(stored=0, sparse=True)
            yield "give a sparse graph (sfumato.similarity.knn)", changed(sparse)
        if self.n_init > 1:
            yield "set n_init=1", changed(n_init=1)
        yield from super()._smaller_alternatives(size)

    def _new_similarities(self, X: Any) -> Any:
        """Similarities (n_new, g) of new objects to the fitted ones."""
        if self._square():
            if hasattr(X, "columns"):
                _check_feature_names(self, X, reset=False)
            if self.similarity == "distance":
                X = similarity_of_distances(X, self._distance_scales)[0]
            X = zeros_for_missing(X) if has_missing(X) else X
            return averaged(self._columns, check_rows(X, self.n_features_in_, signed=self._signed))
        X = check_features(self, X, reset=False, missing=self._function() is knn)
        if sp.issparse(X) != sp.issparse(self._known):
            X = X.toarray() if sp.issparse(X) else sp.csr_array(X)
        if self.similarity == "cluster-kernel":
            rows = averaged(self._columns, knn(X, self._known, **self._counted))
            factor = getattr(self, "_joint_factor", None)
            return Factored(self._W.extend(rows), self._W.factor if factor is None else factor)
        try:
            rows = self._function()(X, self._known, **self._counted)
        except TypeError as error:
            raise TypeError(f"similarity must accept new and known (X, Y): {error}") from error
        if not isinstance(rows, Factored):
            name = "the result of similarity(X, Y)"
            rows = check_rows(rows, self._known.shape[0], name, signed=self._signed)
        return averaged(self._columns, rows)

    def _square(self) -> bool:
        """Whether the data are (n, n): similarities or distances."""
        return self._is("precomputed", "distance")

    def _is(self, *names: str) -> bool:
        return isinstance(self.similarity, str) and self.similarity in names

    def _function(self) -> Any:
        if callable(self.similarity):
            return self.similarity
        if self._is("cluster-kernel", *NAMED):
            return NAMED.get(self.similarity, knn)
        names = ", ".join(map(repr, ("precomputed", "distance", "cluster-kernel", *NAMED)))
        raise ValueError(f"similarity must be a function or one of {names}: {self.similarity!r}")

    @property
    def _missing(self) -> bool:
        return self._is("knn", "cluster-kernel", "precomputed")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._square()
        return tags
