"""The base of every model that reads a similarity.

``similarity=`` becomes W, and new objects become rows beside it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.utils.validation import _check_feature_names

from ..array.arrays import is_numpy, reader
from ..array.memory import InputSize
from ..array.types import ArrayLike, Similarity
from ..array.validation import check_n_clusters, check_weights, refuse_underflow
from ..array.warn import warn
from ..data.constraints import Known
from ..data.features import check_features, empty_rows
from ..data.matrices import check_rows, check_similarity
from ..numerics.eigen import krylov_columns
from ..numerics.operators import magnitudes
from ..similarity import Factored, cluster_kernel, cosine, gaussian, knn, self_tuning
from .base import Clusterer
from .clusterer import most_clusters
from .objects import (
    ABSENT,
    UNKNOWN,
    Objects,
    chained,
    distinct_rows,
    joined,
    merged,
    present_rows,
)
from .similarity_evidence import (
    Evidence,
    extreme_unit,
    has_gaps,
    in_units,
    isolated,
    measured,
    similarity_of_distances,
    smaller_pieces,
    take_rows,
    without_gaps,
)

__all__ = ["SimilarityClusterer"]

NAMED: dict[str, Callable[..., Any]] = {
    "knn": knn,
    "self-tuning": self_tuning,
    "gaussian": gaussian,
    "cosine": cosine,
}
COUNTS = (knn, self_tuning, gaussian)  # functions that count neighbours, and so need weights


class SimilarityClusterer(Clusterer):
    """Models of a similarity W (n, n), given or made from features by ``similarity``.

    ``similarity`` is ``"precomputed"``, a name, or a function ``f(X, Y=None)``: similarities among
    the rows of X, or of new objects X to known objects Y (scikit-learn's kernels have this form).
    ``_evidence(X)`` gives W among objects, of which rows may share one; ``_spread`` gives every row
    the memberships of its object; ``_new_similarities(X)`` are the rows of new objects.
    """

    _any_library = True  # arrays of every library that follows the array API standard

    similarity: Any
    _weighs_pairs = False  # whether NaN in W and ``pair_weight`` are understood
    _signed = False  # whether similarities may be negative
    _copies: np.ndarray | None = None  # which rows are equal, where clusters outnumber those

    def _evidence(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        known: Known | None = None,
        pair_weight: ArrayLike | Similarity | None = None,
    ) -> Evidence:
        """The similarity among objects, and what is needed for new ones."""
        objects = self._objects(X, sample_weight, pair_weight)
        return self._prepared(*objects, Known() if known is None else known)

    def _objects(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        pair_weight: ArrayLike | Similarity | None = None,
    ) -> tuple[Evidence, Objects]:
        """The similarity among objects, whatever the number of clusters, and rows as objects."""
        self._check_room(X)
        for name in ("_W", "_joint_factor", "_copies"):
            self.__dict__.pop(name, None)
        if self._square():
            W, pairs = self._given(X, pair_weight)
            rows = present_rows(W.shape[0], check_weights(sample_weight, W))
            if rows.weights is not None and rows.weights.sum() < rows.size:  # these are no copies
                rows = rows.in_units()
            pairs = pairs if pairs is None or rows.group is None else rows.average(pairs)
            return Evidence(rows.average(W), rows.weights, pairs), rows
        if pair_weight is not None:
            raise ValueError(
                "pair_weight needs similarity='precomputed': features measure all pairs alike"
            )
        rows, W = self._from_features(X, sample_weight)
        return Evidence(W, rows.weights), rows

    def _prepared(self, evidence: Evidence, rows: Objects, known: Known) -> Evidence:
        """The evidence for ``n_clusters`` clusters, and what is needed for new objects.

        Objects without evidence and, beyond ``n_clusters``, the smaller unconnected pieces are set
        apart: they get equal memberships.
        """
        group = rows.group
        columns = None if group is None or not self._square() else rows.averages()
        _check_enough(self.n_clusters, rows.size, rows.size if group is None else len(group))
        dropped = self._set_apart(evidence)
        if dropped.any():
            codes = np.where(dropped, UNKNOWN, np.cumsum(~dropped) - 1)
            evidence, group = evidence.take(~dropped), chained(group, codes)
            T = sp.csr_array(sp.eye_array(dropped.size, format="csc")[:, np.flatnonzero(~dropped)])
            columns = T if columns is None else columns @ T
        self._group, self._columns = group, columns
        evidence = self._linked(evidence, known)
        return evidence if known.component is None else self._join(evidence, known)

    @abstractmethod
    def _check_parameters(self) -> None:
        """Check what ``__init__`` stored."""

    def _linked(self, evidence: Evidence, known: Known) -> Evidence:
        """The cluster kernel of a graph, if that is the similarity asked for, with links as edges
        of the graph.
        """
        if not isinstance(self.similarity, str) or self.similarity != "cluster-kernel":
            return evidence
        graph = evidence.W
        size = graph.shape[0]
        edges = known.edges(self._group, size, float(abs(graph).sum()) / size)
        graph = graph if edges is None else sp.csr_array(graph + edges)
        self._W = cluster_kernel(graph, self.n_clusters, weights=evidence.weights)
        return evidence._replace(W=self._W)

    def _join(self, evidence: Evidence, known: Known) -> Evidence:
        """Rows that belong together as one object."""
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
        """A precomputed similarity, and the weights of its pairs where not all are one."""
        names = X if hasattr(X, "columns") else None
        foreign = reader(X)
        X = X if foreign is None else foreign.check_array(X, "W")
        if self.similarity == "distance":
            X, self._distance_scales = similarity_of_distances(X)
        W, pairs = measured(X, pair_weight) if self._weighs_pairs else (X, None)
        self._unit = extreme_unit(W)
        W = check_similarity(
            W if self._unit == 1.0 else in_units(W, self._unit),
            signed=self._signed,
            features="set similarity='cluster-kernel'",
        )
        # What the structure test may read: not where pairs are missing, or similarities negative.
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
            _refuse_empty(empty_rows(X))
        check_n_clusters(self.n_clusters, X.shape[0])
        weights = check_weights(sample_weight, X)
        rows = distinct_rows(X, weights) if host else present_rows(X.shape[0], weights)
        if rows.size < most_clusters(self.n_clusters):
            self._copies = rows.group
            rows = present_rows(X.shape[0], weights)
        rows = rows.in_units()
        # What is kept must not change when the user changes X.
        known = X if not host else X.copy() if rows.group is None else X[rows.first()]
        counted = (
            {"weights": rows.weights} if function in COUNTS and rows.weights is not None else {}
        )
        W = function(known, **counted)
        known_good = isinstance(W, Factored) or (function is knn and not counted)
        W = (
            W
            if known_good
            else check_similarity(W, "the result of similarity(X)", signed=self._signed)
        )
        if W.shape != (rows.size, rows.size):
            raise ValueError(
                f"similarity(X) must return an ({rows.size}, {rows.size}) similarity, got shape "
                f"{tuple(W.shape)}"
            )
        self._known = known
        self._counted: dict[str, Any] = counted
        return rows, W

    def _set_apart(self, evidence: Evidence) -> np.ndarray:
        """Objects (g,) similar to no other, and those of pieces beyond the ``n_clusters`` largest.

        Both are named.
        """
        dropped = isolated(evidence.W, evidence.pairs)
        if dropped.all():
            return np.zeros(dropped.size, dtype=bool)
        if dropped.any():
            warn(
                f"{int(dropped.sum())} of {dropped.size} objects are similar to no other: they "
                "get equal memberships "
                "in all clusters"
            )
        apart = smaller_pieces(
            evidence.W, evidence.weights, dropped, most_clusters(self.n_clusters)
        )
        if apart.any():
            warn(
                f"the similarity falls into more than n_clusters={self.n_clusters} unconnected "
                "pieces: the "
                f"{int(apart.sum())} objects of the smaller ones get equal memberships in all "
                "clusters"
            )
        return dropped | apart

    def _spread(self, memberships: Any, X: Any) -> Any:
        """Memberships (n, k) of all rows, from those of the objects; equal rows have equal ones."""
        U = self._spread_rows(memberships, X)
        if self._copies is None:
            return U
        place = self._copies - min(0, int(self._copies.min()))  # rows without weight are negative
        sums = np.zeros((int(place.max()) + 1, U.shape[1]), dtype=U.dtype)
        np.add.at(sums, place, U)
        return np.where(
            (self._copies >= 0)[:, None],
            (sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300))[place],
            U,
        )

    def _spread_rows(self, memberships: Any, X: Any) -> Any:
        group = self._group
        if group is None:
            return memberships
        k = memberships.shape[1]
        U = np.full((group.size, k), 1.0 / k, dtype=memberships.dtype)
        U[group >= 0] = memberships[group[group >= 0]]
        absent = np.flatnonzero(group == ABSENT)
        if absent.size:
            U[absent] = self._place(self._new_similarities(take_rows(X, absent)))
        return U

    @abstractmethod
    def _place(self, rows: Any) -> Any:
        """Memberships of new objects from their similarities (n_new, g) to the objects."""

    def predict_proba(self, X: Any, *, n_clusters: int | None = None) -> Any:
        """Memberships of new objects, each by itself beside the fitted ones.

        Parameters
        ----------
        X : array or operator
            Features of shape (n_new, p), or similarities (n_new, n) to the fitted objects if
            ``similarity="precomputed"``.
        n_clusters : int, optional
            Memberships at another level, a number in ``levels_``.

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
            Uniform for an object similar to nothing.
        """
        self._check_fitted()
        return self._new_at(self._place(self._new_similarities(X)), n_clusters, X)

    def _structure_evidence(self, evidence: Any) -> tuple[Any, str]:
        if not self._square():
            return super()._structure_evidence(evidence)
        if reader(evidence) is not None or isinstance(evidence, Factored):
            return None, ""  # the kernel was made for k clusters and has its eigenvectors already
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
        """Similarities (n_new, g) of new objects to the fitted ones: an array, sparse array or
        operator.
        """
        if self._square():
            if hasattr(X, "columns"):
                _check_feature_names(self, X, reset=False)
            if self.similarity == "distance":
                X = similarity_of_distances(X, self._distance_scales)[0]
            X = without_gaps(X) if self._weighs_pairs and has_gaps(X) else X
            X = X if self._unit == 1.0 else in_units(X, self._unit)
            return self._averaged(check_rows(X, self.n_features_in_, signed=self._signed))
        X = check_features(self, X, reset=False, missing=self._function() is knn)
        if sp.issparse(X) != sp.issparse(self._known):
            X = X.toarray() if sp.issparse(X) else sp.csr_array(X)
        if self.similarity == "cluster-kernel":
            rows = self._averaged(knn(X, self._known, **self._counted))
            factor = getattr(self, "_joint_factor", None)
            return Factored(self._W.extend(rows), self._W.factor if factor is None else factor)
        try:
            rows = self._function()(X, self._known, **self._counted)
        except TypeError as error:
            raise TypeError(
                "similarity must accept (X, Y) to place new objects X beside known objects Y: "
                f"{error}"
            ) from error
        if not isinstance(rows, Factored):
            name = "the result of similarity(X, Y)"
            rows = check_rows(rows, self._known.shape[0], name, signed=self._signed)
        return self._averaged(rows)

    def _averaged(self, rows: Any) -> Any:
        """Similarities to the rows of the evidence as similarities to the objects."""
        if self._columns is None:
            return rows
        if isinstance(rows, Factored):
            return Factored(rows.factor, self._columns.T @ rows.right)
        if isinstance(rows, LinearOperator):  # its product with a sparse array would be wrong
            return rows @ aslinearoperator(self._columns.astype(rows.dtype))
        return rows @ self._columns.astype(rows.dtype)

    def _square(self) -> bool:
        """Whether the evidence is (n, n): similarities or distances."""
        return isinstance(self.similarity, str) and self.similarity in ("precomputed", "distance")

    def _precomputed(self) -> bool:
        return isinstance(self.similarity, str) and self.similarity == "precomputed"

    def _function(self) -> Any:
        if callable(self.similarity):
            return self.similarity
        if self.similarity == "cluster-kernel":
            return knn
        if isinstance(self.similarity, str) and self.similarity in NAMED:
            return NAMED[self.similarity]
        names = ", ".join(map(repr, ("precomputed", "distance", "cluster-kernel", *NAMED)))
        raise ValueError(
            f"similarity must be one of {names} or a function f(X, Y=None), got {self.similarity!r}"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._square()
        named = isinstance(self.similarity, str)
        tags.input_tags.allow_nan = named and (
            self.similarity in ("knn", "cluster-kernel")
            or (self._weighs_pairs and self.similarity == "precomputed")
        )
        tags.input_tags.sparse = True
        return tags


def _refuse_empty(empty: np.ndarray | None) -> None:
    """Refuse objects of which nothing was observed."""
    if empty is not None:
        n = int(empty.sum())
        raise ValueError(
            f"X has no measured value in {n} row{'s' * (n > 1)} (first: row {empty.argmax()}): "
            f"drop {'them' if n > 1 else 'it'}"
        )


def _check_enough(n_clusters: int, n_present: int, n_rows: int) -> None:
    """Refuse more clusters than there are objects of positive weight."""
    if n_clusters > n_present:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {n_present} of {n_rows} rows that have a "
            f"positive sample_weight: ask for at most {n_present}"
        )
