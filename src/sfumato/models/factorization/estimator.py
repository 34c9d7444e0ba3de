"""Completely positive factorization: a nonnegative factor of a doubly stochastic similarity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import as_dense, is_numpy, to_numpy
from ...array.docs import documented
from ...array.types import ArrayLike, RandomState, Similarity
from ...array.validation import (
    InputSize,
    as_generator,
    check_choice,
    check_n_clusters,
    check_number,
    check_weights,
    reserve,
)
from ...array.warn import warn
from ...data.constraints import Known, largest_first, match_columns, matching
from ...engine import loop
from ...engine.similarity_base import SimilarityClusterer
from ...engine.similarity_evidence import Evidence, largest_entry
from ...numerics import operators
from ...numerics.kmeans import spectral_start
from ...numerics.operators import dtype_of, normalized_operator, squared_norm
from ...numerics.simplex import normalize
from ...selection.automatic import AutomaticSimilarity
from ...similarity.doubly_stochastic import (
    doubly_stochastic,
    least_squares_shifts,
    named,
    shifted_rows,
)
from . import kernel


@documented
class CompletelyPositiveFactorization(AutomaticSimilarity, SimilarityClusterer):
    """Memberships from a nonnegative factor G of the similarity, F ~ G G'.

    Minimises  1/2 sum_{i != j} (F_ij - g_i'g_j)^2  over G >= 0, where F is the doubly stochastic
    scaling of the similarity, or the similarity itself. Memberships are the rows of G divided by
    their sums.

    Parameters
    ----------
    %(spectrum)s
    similarity : "precomputed", "knn", "gaussian", "self-tuning", "cosine", "cluster-kernel" or
    function, default "knn"
    %(similarity)s
    normalization : {"relative-entropy", "frobenius", "l1"} or None
        How F is made from the similarity W: the nearest doubly stochastic matrix, as in
        ``similarity.doubly_stochastic``, or W itself. The nearest one in the L1 norm only changes
        the diagonal, which the model ignores, so the answer is the same as with None.
    solver : {"coordinate", "multiplicative"}
        "coordinate" minimises over every entry in turn, with extrapolation; "multiplicative" is the
        published rule.
    n_init : int
        Number of starts (one from the spectrum, the others random); the best is kept.
    %(descent)s

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
        Objects with a zero row of G get uniform memberships, with a warning.
    factor_ : array of shape (n, n_clusters)
        The factor G.
    vanished_ : array of int
        Objects whose row of G is zero.
    scaling_ : array of shape (n,)
        x in F = diag(x) W diag(x) for the relative entropy; otherwise ones.
    shift_ : array of shape (n,)
        y in F_ij = max(0, W_ij + y_i + y_j) for the Frobenius norm.
    labels_, objective_, history_, n_iter_, converged_, n_clusters_

    Notes
    -----
    With weights w in a third column, ``must_link`` raises the similarity of a pair by w times the
    largest similarity, and ``cannot_link`` lowers it by as much; without weights, ``cannot_link``
    sets it to zero.

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
        self.max_clusters, self.similarity = max_clusters, similarity
        self.normalization, self.solver = normalization, solver
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        W = self._linked_similarity(_on_host(evidence.W), known)
        n = W.shape[0]
        check_n_clusters(self.n_clusters, n)
        self._object_weights = v = np.ones(n) if evidence.weights is None else evidence.weights
        self.scaling_ = np.ones(n, dtype=dtype_of(W))
        if self.normalization == "relative-entropy":
            self.scaling_ = self._doubly_stochastic(W)
        if self.normalization == "frobenius":
            W = _written_out(W)
            self.shift_ = y = least_squares_shifts(W, v)
            W = np.maximum(0, W + y[:, None] + y)
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
            # Equal rows fit equal similarities exactly; any other factor would invent groups.
            starts = [np.outer(np.sqrt(v), np.ones(self.n_clusters)).astype(dtype_of(W))]
        else:
            starts = self._starts(W, as_generator(self.random_state))
        runs = [self._run(problem, G) for G in starts]
        self._finish(loop.best(runs, larger=False), known.held(self._group, n), X)

    def _linked_similarity(self, W: Any, known: Known) -> Any:
        """The similarity with weighted links added, and without those of cannot-links."""
        extra = known.similarities(self._group, W.shape[0], 1.0, largest_entry(W))
        if extra is None:
            return W
        linked = (W if sp.issparse(W) else _written_out(W)) + extra
        if sp.issparse(linked):
            return sp.csr_array(linked.maximum(0)).astype(W.dtype)
        return np.maximum(np.asarray(linked), 0).astype(W.dtype)

    def _doubly_stochastic(self, W: Similarity) -> np.ndarray:
        """The scaling that makes W doubly stochastic; errors refer to the input of the user."""
        try:
            return doubly_stochastic(W, weights=self._object_weights).scaling
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
            choices = ("relative-entropy", "frobenius", "l1")
            check_choice(self.normalization, "normalization (or None)", choices)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        needed = super()._memory_needed(size)
        given = self._is("precomputed") and not size.sparse and size.stored
        if not given and not needed["the dense similarity"]:
            return needed
        scaled = {"the scaled similarity": size.n**2 * size.itemsize, "eigenvectors": 0}
        return needed | scaled

    def _starts(self, W: Similarity, rng: np.random.Generator) -> list[np.ndarray]:
        """Starts (n, k), nonnegative, times root weights: one from the spectrum, others random."""
        shape, v = (W.shape[0], self.n_clusters), self._object_weights
        draws = [rng.random(shape) for _ in range(self.n_init)]
        draws[0] = spectral_start(normalized_operator(W, weights=v), self.n_clusters, rng, 1e-2)
        return [(np.sqrt(v)[:, None] * G).astype(dtype_of(W)) for G in draws]

    def _run(self, problem: kernel.Problem, G: np.ndarray) -> loop.Run:
        """Iterate from one start, after scaling it to fit F best."""
        start = kernel.scaled_start(problem, G)
        settings: Any = {"max_iter": self.max_iter, "tol": self.tol}
        size = 1e-4 * problem.norm
        settings["relative_to"] = lambda f: max(float(f), size)
        iterate: Any = partial(loop.iterate, **settings)
        step = partial(kernel.sweep, problem, self.solver == "coordinate")
        if self.solver == "multiplicative":
            return iterate(step, start)
        accelerated = loop.Extrapolation.accelerate(
            step, partial(kernel.combine, problem), lambda mask, one, other: one if mask else other
        )
        run = iterate(accelerated, loop.Extrapolation(start))
        return run._replace(state=run.state.settled)

    def _finish(self, run: loop.Run, labels: np.ndarray | None, X: Any) -> None:
        G, v = run.state.G, self._object_weights
        U = normalize(G)
        G = G[:, largest_first(U, v) if labels is None else matching(U, labels)]
        self.factor_ = (G / np.sqrt(v)[:, None]).astype(G.dtype)
        self.vanished_ = np.flatnonzero(self.factor_.sum(axis=1) <= 0)
        if self.vanished_.size:
            warn(
                f"{self.vanished_.size} objects ({named(self.vanished_)}) share nothing with any "
                "cluster: they get equal memberships in all"
            )
        memberships = normalize(self.factor_)
        if labels is not None:
            memberships = match_columns(memberships, labels)
        self._publish(self._spread(memberships, X), run)

    def _place(self, rows: Any) -> Any:
        """Memberships of new objects: the g >= 0 that minimises  sum_j (F_j - g'g_j)^2,
        normalised.
        """
        return normalize(self._fold_in(self._normalized_rows(rows))[0])

    def _normalized_rows(self, rows: Any) -> Any:
        """Similarities of new objects, changed like those of the fitted ones except for
        ``scaling_``.
        """
        rows = _on_host(rows)
        if self.normalization != "frobenius":
            return rows
        return shifted_rows(_written_out(rows), self.shift_, self._object_weights)

    def _fold_in(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Factors of new objects, and their scaled similarities times the factors."""
        G = self.factor_
        weighted = (self._object_weights[:, None] * G).astype(G.dtype)
        B = as_dense(rows @ (self.scaling_[:, None] * weighted), G.dtype)
        return kernel.fold_in(B, weighted.T @ G), B

    def score(
        self,
        X: ArrayLike | None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Share of the squared scaled similarities to fitted objects that the factors explain.

        Parameters
        ----------
        X : as for ``predict_proba``
            For objects that were not fitted, this is a held-out score.
        y : ignored
        sample_weight : array of shape (n_new,), optional

        Returns
        -------
        score : float
            1 - sum_ij (f_ij - g_i'g_j)^2 / sum_ij f_ij^2 over new objects i and fitted objects j,
            both weighted; at most 1, higher is better.
        """
        self._check_fitted()
        rows = self._normalized_rows(self._new_similarities(X))
        w = check_weights(sample_weight, rows)
        w = np.ones(rows.shape[0]) if w is None else w
        g, B = (part.astype(np.float64) for part in self._fold_in(rows))
        G, v = self.factor_.astype(np.float64), self._object_weights
        square = squared_norm(rows, w, v * self.scaling_.astype(np.float64) ** 2)
        wg = w[:, None] * g
        explained = 2 * float((B * wg).sum()) - float(((wg.T @ g) * ((v * G.T) @ G)).sum())
        return explained / square if square > 0 else 0.0


def _on_host(W: ArrayLike | Similarity) -> Any:
    """The similarity on the host, since rows are visited one by one on the CPU."""
    return W if is_numpy(W) else to_numpy(W)


def _scaled_problem(W: Similarity, x: np.ndarray, weights: np.ndarray) -> kernel.Problem:
    """diag(x) W diag(x), times root weights, in a form with accessible rows.

    An operator is converted to a dense matrix, if that fits into memory.
    """
    x = (x * np.sqrt(weights)).astype(x.dtype)
    if hasattr(W, "factor"):
        B = W.factor
        F = sp.csr_array(sp.diags_array(x) @ B) if sp.issparse(B) else x[:, None] * B
    elif sp.issparse(W):
        F = sp.csr_array(sp.diags_array(x) @ W @ sp.diags_array(x))
    else:
        F = x[:, None] * _written_out(W)
        F *= x  # in place, so that two matrices are enough
    return kernel.Problem.of(F, hasattr(W, "factor"), weights)


def _written_out(W: Any) -> np.ndarray:
    """The dense matrix of an operator, if it fits into memory."""
    if not isinstance(W, np.ndarray):
        what = "the explicit similarity matrix"
        fix = "give a sparse matrix or an operator with a factor"
        reserve(W.shape, dtype_of(W), what, fix)
    return operators.as_dense(W)
