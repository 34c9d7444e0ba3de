"""Completely positive factorization: a nonnegative factor of a doubly stochastic similarity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import as_dense, is_numpy, to_numpy
from ...array.docs import documented
from ...array.memory import InputSize, reserve
from ...array.types import ArrayLike, RandomState, Similarity, Weights
from ...array.validation import (
    as_generator,
    check_choice,
    check_n_clusters,
    check_number,
    check_weights,
)
from ...array.warn import warn
from ...data.constraints import Known, largest_first, match_columns, matching
from ...engine import acceleration, loop
from ...engine.similarity_base import SimilarityClusterer
from ...engine.similarity_evidence import Evidence, largest_entry
from ...numerics.distances import unit_rows
from ...numerics.eigen import dtype_of, leading_eigenvectors, normalized_operator
from ...numerics.kmeans import orthogonal_rows
from ...numerics.simplex import normalize
from ...selection.automatic import AutomaticSimilarity
from ...similarity.doubly_stochastic import (
    doubly_stochastic,
    least_squares_shifts,
    shifted_rows,
)
from . import kernel

__all__ = ["CompletelyPositiveFactorization"]

NORMALIZATIONS = ("relative-entropy", "frobenius", "l1")


@documented
class CompletelyPositiveFactorization(AutomaticSimilarity, SimilarityClusterer):
    """Memberships from a nonnegative factor G of the similarity, F ~ G G'.

    Minimises  1/2 sum_{i != j} (F_ij - g_i'g_j)^2  over G >= 0, F the doubly stochastic scaling of
    the similarity or the similarity itself. Memberships are the rows of G divided by their sums.

    Parameters
    ----------
    %(spectrum)s
    similarity : "precomputed", "knn", "gaussian", "self-tuning", "cosine", "cluster-kernel" or
    function, default "knn"
    %(similarity)s
    normalization : {"relative-entropy", "frobenius", "l1"} or None
        How F is made of the similarity W: the doubly stochastic matrix nearest to it, as in
        ``similarity.doubly_stochastic``, or W itself. The nearest one in the L1 norm only moves the
        diagonal, which the model leaves out, so that the answer is the same as with None.
    solver : {"coordinate", "multiplicative"}
        Every entry in turn at its minimum, with extrapolation; or the published multiplicative
        rule.
    n_init : int
        Starts (one from the spectrum, the others random); the best is kept.
    %(descent)s

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
        Uniform for an object whose row of G is zero, with a warning.
    factor_ : array of shape (n, n_clusters)
        G.
    vanished_ : array of int
        Objects whose row of G is zero.
    scaling_ : array of shape (n,)
        x with F = diag(x) W diag(x) for the relative entropy; else ones.
    shift_ : array of shape (n,)
        y with F_ij = max(0, W_ij + y_i + y_j) for the Frobenius norm.
    labels_, objective_, history_, n_iter_, converged_, n_clusters_

    Notes
    -----
    With weights w in a third column of ``must_link``, the similarity of a pair is raised by w times
    the largest one; that of ``cannot_link`` is lowered by as much, or to zero without weights.

    References
    ----------
    Zass and Shashua (2005). A unifying approach to hard and probabilistic clustering. ICCV.
    Zass and Shashua (2006). Doubly stochastic normalization for spectral clustering. NIPS 19.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import CompletelyPositiveFactorization
    >>> W = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    >>> model = CompletelyPositiveFactorization(2, similarity="precomputed", random_state=0).fit(W)
    >>> bool(model.labels_[0] == model.labels_[2] != model.labels_[3])
    True
    """

    def __init__(
        self,
        n_clusters: int | str = "auto",
        *,
        max_clusters: int = 20,
        similarity: str | Callable[..., Any] = "knn",
        normalization: str | None = "relative-entropy",
        solver: str = "coordinate",
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-7,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.similarity, self.normalization = similarity, normalization
        self.solver = solver
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        W, v = self._linked_similarity(_on_host(evidence.W), known), evidence.weights
        check_n_clusters(self.n_clusters, W.shape[0])
        ones = np.ones(W.shape[0], dtype=dtype_of(W))
        scaled = self.normalization == "relative-entropy"
        self.scaling_ = self._doubly_stochastic(W, v) if scaled else ones
        if self.normalization == "frobenius":
            W = W if isinstance(W, np.ndarray) else _written_out(W)
            self.shift_ = y = least_squares_shifts(W, v)
            W = np.maximum(0, W + y[:, None] + y)
        self._object_weights = v
        problem = _scaled_problem(W, self.scaling_, v)
        if problem.norm <= 0 and self.n_clusters > 1:
            raise ValueError(
                "W is zero off the diagonal: no object is similar to any other, so there is "
                "nothing to cluster"
            )
        if self.n_clusters > 1 and kernel.is_constant(problem):
            warn(
                "all objects are equally similar (after scaling): every object belongs to all "
                "clusters alike"
            )
            root = np.ones(W.shape[0]) if v is None else np.sqrt(v)
            # Equal rows fit equal similarities exactly; any other factor would invent groups.
            starts = [np.outer(root, np.ones(self.n_clusters)).astype(dtype_of(W))]
        else:
            starts = self._starts(W, v, as_generator(self.random_state))
        runs = [self._run(problem, G) for G in starts]
        self._finish(loop.best(runs, larger=False), known.held(self._group, W.shape[0]), X)

    def _linked_similarity(self, W: Any, known: Known) -> Any:
        """The similarity with soft links added and without that of pairs apart."""
        extra = known.similarities(self._group, W.shape[0], 1.0, largest_entry(W))
        if extra is None:
            return W
        W = W if isinstance(W, np.ndarray) or sp.issparse(W) else _written_out(W)
        linked = W + extra
        if sp.issparse(linked):
            return sp.csr_array(linked.maximum(0)).astype(W.dtype)
        return np.maximum(np.asarray(linked), 0).astype(W.dtype)

    def _doubly_stochastic(self, W: Similarity, weights: Weights) -> np.ndarray:
        """The scaling that makes W doubly stochastic; an error speaks of what the user gave."""
        try:
            return doubly_stochastic(W, weights=weights).scaling
        except ValueError as error:
            if self._square():
                raise
            reason = str(error).partition(". Leave")[0].replace("W cannot", "it cannot")
            raise ValueError(
                f"the similarity of X does not suit normalization='relative-entropy', {reason}: "
                "set normalization=None"
            ) from error

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_number(self.n_clusters, "n_clusters", low=1, integer=True)
        check_choice(self.solver, "solver", ("coordinate", "multiplicative"))
        if self.normalization is not None:
            check_choice(self.normalization, "normalization (or None)", NORMALIZATIONS)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        needed = super()._memory_needed(size)
        given = self._is("precomputed") and not size.sparse and size.stored
        if not given and not needed["the dense similarity"]:
            return needed
        return needed | {
            "the scaled similarity": size.n**2 * size.itemsize,
            "eigenvectors": 0,
        }

    def _starts(
        self, W: Similarity, weights: Weights, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Nonnegative (n, k): soft assignment to nearly orthogonal rows of the eigenvectors, then
        uniform draws; times the root of the weights.
        """
        n, k = W.shape[0], self.n_clusters
        draws = [rng.random((n, k)) for _ in range(self.n_init)]
        Z = unit_rows(
            leading_eigenvectors(normalized_operator(W, weights=weights), k, tol=1e-3).vectors
        )
        chosen = orthogonal_rows(Z, k, int(rng.integers(n)))
        draws[0] = normalize(np.clip(Z @ Z[chosen].T, 0, None) ** 2 + 1e-2)
        root = 1.0 if weights is None else np.sqrt(weights)[:, None]
        return [(root * G).astype(dtype_of(W)) for G in draws]

    def _run(self, problem: kernel.Problem, G: np.ndarray) -> loop.Run:
        """Iterate from one start, first scaled to fit F best."""
        start = kernel.scaled_start(problem, G)
        iterate = partial(
            loop.iterate,
            max_iter=self.max_iter,
            tol=self.tol,
            relative_to=lambda f: max(float(f), 1e-4 * problem.norm),
        )
        step = partial(kernel.sweep, problem, self.solver == "coordinate")
        if self.solver == "multiplicative":
            return iterate(step, start)
        accelerated = acceleration.Extrapolation.accelerate(
            step, partial(kernel.combine, problem), lambda mask, one, other: one if mask else other
        )
        run = iterate(accelerated, acceleration.Extrapolation(start))
        return run._replace(state=run.state.settled)

    def _finish(self, run: loop.Run, labels: np.ndarray | None, X: Any) -> None:
        G, v = run.state.G, self._object_weights
        U = normalize(G)
        G = G[:, largest_first(U, v) if labels is None else matching(U, labels)]
        self.factor_ = G if v is None else (G / np.sqrt(v)[:, None]).astype(G.dtype)
        self.vanished_ = np.flatnonzero(self.factor_.sum(axis=1) <= 0)
        if self.vanished_.size:
            named = ", ".join(map(str, self.vanished_[:5])) + (
                ", ..." if self.vanished_.size > 5 else ""
            )
            warn(
                f"{self.vanished_.size} objects ({named}) share nothing with any cluster: they "
                "get equal memberships in all"
            )
        memberships = normalize(self.factor_)
        if labels is not None:
            memberships = match_columns(memberships, labels)
        self._publish(self._spread(memberships, X), run)

    def _place(self, rows: Any) -> Any:
        """The g >= 0 that minimises  sum_j (F_j - g'g_j)^2,  divided by its sum."""
        return normalize(self._fold_in(self._normalized_rows(rows))[0])

    def _normalized_rows(self, rows: Any) -> Any:
        """Similarities of new objects, changed as those of the fitted ones but for ``scaling_``."""
        rows = _on_host(rows)
        if self.normalization != "frobenius":
            return rows
        rows = rows if isinstance(rows, np.ndarray) else _written_out(rows)
        return shifted_rows(rows, self.shift_, self._object_weights)

    def _fold_in(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Factors of new objects, and the products of their scaled similarities with the
        factors.
        """
        G, v = self.factor_, self._object_weights
        weighted = G if v is None else (v[:, None] * G).astype(G.dtype)
        B = as_dense(rows @ (self.scaling_[:, None] * weighted), G.dtype)
        return kernel.fold_in(B, weighted.T @ G), B

    def score(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Share of the squared scaled similarities to the fitted objects that the factors explain.

        Parameters
        ----------
        X : as for ``predict_proba``
            Objects that were not fitted make it a held-out score.
        y : ignored
        sample_weight : array of shape (n_new,), optional

        Returns
        -------
        score : float
            1 - sum_ij (f_ij - g_i'g_j)^2 / sum_ij f_ij^2 over new objects i and fitted objects j,
            both by weight; at most 1, higher is better.
        """
        self._check_fitted()
        rows = self._normalized_rows(self._new_similarities(X))
        w = check_weights(sample_weight, rows)
        w = np.ones(rows.shape[0]) if w is None else w
        g, B = (part.astype(np.float64) for part in self._fold_in(rows))
        G, v = self.factor_.astype(np.float64), self._object_weights
        scaling = self.scaling_.astype(np.float64) * (1.0 if v is None else np.sqrt(v))
        right = G if v is None else v[:, None] * G
        square = _squared_norm(rows, scaling, np.sqrt(w))
        wg = w[:, None] * g
        explained = 2 * float((B * wg).sum()) - float(((wg.T @ g) * (right.T @ G)).sum())
        return explained / square if square > 0 else 0.0


def _squared_norm(rows: Any, scaling: np.ndarray, root: np.ndarray) -> float:
    """|diag(root) rows diag(scaling)|^2 of an array, sparse or not, or of an operator."""
    if hasattr(rows, "factor"):
        left, right = root[:, None] * rows.factor, scaling[:, None] * rows.right
        return float(((left.T @ left) * (right.T @ right)).sum())
    if sp.issparse(rows):
        return float(root**2 @ (rows.power(2).astype(np.float64) @ scaling**2))
    if isinstance(rows, np.ndarray):
        return float(root**2 @ (np.square(rows).astype(np.float64) @ scaling**2))
    return float(root**2 @ np.square(rows @ np.diag(scaling)).sum(axis=1))


def _on_host(W: ArrayLike | Similarity) -> Any:
    """Rows are visited one by one, which is work for the CPU."""
    return W if is_numpy(W) else to_numpy(W)


def _scaled_problem(W: Similarity, x: np.ndarray, weights: Weights) -> kernel.Problem:
    """diag(x) W diag(x) with rows that can be visited one by one, times the roots of the weights.

    What only multiplies is written out, if it fits.
    """
    if weights is not None:
        x = (x * np.sqrt(weights)).astype(x.dtype)
    if hasattr(W, "factor"):
        B = W.factor
        F = sp.csr_array(sp.diags_array(x) @ B) if sp.issparse(B) else x[:, None] * B
        return kernel.Problem.of(F, True, weights)
    if sp.issparse(W):
        F = sp.csr_array(sp.diags_array(x) @ W @ sp.diags_array(x))
        return kernel.Problem.of(F, False, weights)
    W = W if isinstance(W, np.ndarray) else _written_out(W)
    F = x[:, None] * W
    F *= x  # in place: two matrices are enough
    return kernel.Problem.of(F, False, weights)


def _written_out(W: Any) -> np.ndarray:
    """The matrix of what only multiplies, if it fits."""
    reserve(
        W.shape,
        dtype_of(W),
        "the explicit similarity matrix",
        "give a sparse matrix or an operator with a factor",
    )
    if hasattr(W, "toarray"):
        return W.toarray()
    return np.asarray(W @ np.eye(W.shape[1], dtype=dtype_of(W)))
