"""Completely positive factorization: a nonnegative factor of a doubly stochastic similarity.

    f(G) = 1/2 sum_{i != j} (F_ij - g_i'g_j)^2,    G >= 0  (n x k)      (Zass and Shashua 2005)

As a function of one row, all others fixed, f = const - 2 b'g + g'Hg with b = sum_{j != i} F_ij g_j
and H = sum_{j != i} g_j g_j'. Row by row, with the newest values of all others, the published rule
multiplies g_r <- g_r b_r / (H g)_r; the exact one minimises each entry in turn, g_r <- max(0, g_r +
(b_r - (H g)_r) / H_rr). The gain of a row follows from b and H, so the objective needs no further
product.

An object of weight v stands for v copies that share a row. With h = sqrt(v) g and E_ij = sqrt(v_i
v_j) F_ij the objective keeps its form, and pairs among copies add 1/2 sum_i c_i (E_ii - |h_i|^2)^2,
c_i = 1 - 1/v_i (0 up to a weight of one): an entry is then the root of a cubic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.arrays import as_dense, is_numpy, native, to_numpy
from ..array.docs import documented
from ..array.types import ArrayLike, RandomState, Similarity
from ..array.validation import (
    InputSize,
    as_generator,
    check_choice,
    check_n_clusters,
    reserve,
)
from ..array.warn import warn
from ..data.constraints import Known, largest_first, match_columns, matching
from ..engine import loop
from ..engine.similarity_base import SimilarityClusterer
from ..engine.similarity_evidence import Evidence, largest_entry
from ..numerics import operators
from ..numerics.eigen import spectral_start
from ..numerics.operators import Factored, dtype_of, normalized_operator, squared_norm
from ..numerics.simplex import normalize
from ..selection.automatic import AutomaticSimilarity
from ..similarity.doubly_stochastic import (
    doubly_stochastic,
    least_squares_shifts,
    named,
    shifted_rows,
)


class Problem(NamedTuple):
    """A similarity in the form that the sweep needs: dense, CSR, or its factor if ``low``.
    ``copies`` (n,) are the c of pairs among copies, ``weights`` (n,) those of the objects."""

    F: Any
    low: bool
    diagonal: np.ndarray
    norm: float
    copies: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, F: Any, low: bool = False, weights: np.ndarray | None = None) -> Problem:
        """The problem of a similarity (of its factor if ``low``); with weights, that of E."""
        squares = squared_norm(Factored(F) if low else F)
        diagonal = Factored(F).diagonal() if low else F.diagonal()
        weights = np.ones(len(diagonal)) if weights is None else weights
        # Of the v^2 pairs among v copies of an object, v pair a copy with itself.
        copies = 1.0 - 1.0 / np.maximum(weights, 1.0)
        norm = squares - float(((1.0 - copies) * diagonal.astype(np.float64)) @ diagonal)
        return cls(F, low, diagonal, norm, copies, weights)


class State(NamedTuple):
    """The factor G (n, k), and the value of its objective."""

    G: np.ndarray
    objective: float


def objective(problem: Problem, G: np.ndarray) -> float:
    """f(G), computed with one product."""
    t, q = _terms(problem, G)
    # Rounding may make the difference of large sums negative.
    return max(0.0, 0.5 * (problem.norm - 2 * t + q))


def _terms(problem: Problem, G: np.ndarray) -> tuple[float, float]:
    """sum_{i != j} F_ij g_i'g_j  and  sum_{i != j} (g_i'g_j)^2."""
    P = problem.F @ (problem.F.T @ G) if problem.low else problem.F @ G
    lengths = np.einsum("ir,ir->i", G, G, dtype=np.float64)
    S = (G.T @ G).astype(np.float64)
    left = (1.0 - problem.copies) * lengths
    t = float(np.einsum("ir,ir->", G, P, dtype=np.float64)) - float(problem.diagonal @ left)
    return t, float(np.vdot(S, S)) - float(lengths @ left)


def is_constant(problem: Problem) -> bool:
    """Whether all F_ij, i != j, are equal: then  (sum F_ij)^2 = n (n - 1) sum F_ij^2."""
    root = np.sqrt(problem.weights)
    rows = problem.F @ (problem.F.T @ root) if problem.low else problem.F @ root
    own = (1.0 - problem.copies) * problem.weights
    total = float(root @ rows) - float(problem.diagonal @ own)
    pairs = float(problem.weights.sum()) ** 2 - float(own @ problem.weights)
    # Equality in the Cauchy-Schwarz inequality, up to rounding.
    return total**2 >= (1 - 1e-9) * pairs * problem.norm


def scaled_start(problem: Problem, G: np.ndarray) -> State:
    """``G``, scaled to fit F best."""
    t, q = _terms(problem, G)
    G = (G * (t / q) ** 0.5).astype(G.dtype) if t > 0 and q > 0 else G
    return State(G, objective(problem, G))


def combine(problem: Problem, current: State, previous: State, momentum: float) -> State:
    """The extrapolated factor, clipped at zero."""
    G = np.maximum(0, current.G + momentum * (current.G - previous.G)).astype(current.G.dtype)
    return State(G, objective(problem, G))


def sweep(problem: Problem, exact: bool, state: State) -> tuple[State, float]:
    """One update of every row, using the newest values, by the exact or the published rule."""
    G, F = np.array(state.G, order="C"), problem.F
    # G'G and, with a factor, F'G are updated along the way.
    S = np.ascontiguousarray(G.astype(np.float64).T @ G)
    M = np.array(F.T @ G, dtype=G.dtype, order="C") if problem.low else G
    rows = native("factorization").Sweep(G, S, problem.diagonal, problem.copies, exact)
    if sp.issparse(F):
        entries = F.data.astype(G.dtype, copy=False), F.indices, F.indptr
        gained = rows.sparse(*entries, G, M, problem.low)
    else:
        gained = rows.dense(np.ascontiguousarray(F, dtype=G.dtype), G, M, problem.low)
    value = max(0.0, state.objective - gained)
    return State(G, value), value


def fold_in(B: np.ndarray, H: np.ndarray, *, max_iter: int = 500, tol: float = 1e-10) -> np.ndarray:
    """The g >= 0 that minimises  g'Hg - 2 b'g,  for every row b of ``B``, by coordinate descent."""
    G = np.zeros_like(B)
    size = float(np.abs(B).max(initial=0.0))
    slope = B.copy()
    for _ in range(max_iter):
        largest = 0.0
        for r in range(B.shape[1]):
            if H[r, r] <= 0:
                continue
            change = np.maximum(-G[:, r], slope[:, r] / H[r, r])
            G[:, r] += change
            slope -= change[:, None] * H[r]
            # In units of the gradient, so that the tolerance is relative to the size of B.
            largest = max(largest, float(np.abs(change).max(initial=0.0)) * float(H[r, r]))
        if largest <= tol * size:
            break
    return G


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

    %(filled)s

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
        W = self._linked_similarity(_on_host(evidence.filled()), known)
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
        if self.n_clusters > 1 and is_constant(problem):
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
            return doubly_stochastic(W, sample_weight=self._object_weights).scaling
        except ValueError as error:
            if self._square():
                raise
            reason = str(error).partition(". Leave")[0].replace("W cannot", "it cannot")
            raise ValueError(
                f"the similarity of X does not suit normalization='relative-entropy', {reason}: "
                "set normalization=None"
            ) from error

    def _check_parameters(self) -> None:
        super()._check_parameters()
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

    def _run(self, problem: Problem, G: np.ndarray) -> loop.Run:
        """Iterate from one start, after scaling it to fit F best."""
        start = scaled_start(problem, G)
        settings: Any = {"max_iter": self.max_iter, "tol": self.tol}
        size = 1e-4 * problem.norm
        settings["relative_to"] = lambda f: max(float(f), size)
        iterate: Any = partial(loop.iterate, **settings)
        step = partial(sweep, problem, self.solver == "coordinate")
        if self.solver == "multiplicative":
            return iterate(step, start)
        accelerated = loop.Extrapolation.accelerate(
            step, partial(combine, problem), lambda mask, one, other: one if mask else other
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
        """Normalised g >= 0 of new objects that minimise sum_j (F_j - g'g_j)^2."""
        return normalize(self._fold_in(self._normalized_rows(rows))[0])

    def _normalized_rows(self, rows: Any) -> Any:
        """Similarities of new objects, changed like the fitted ones except for ``scaling_``."""
        rows = _on_host(rows)
        if self.normalization != "frobenius":
            return rows
        return shifted_rows(_written_out(rows), self.shift_, self._object_weights)

    def _fold_in(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Factors of new objects, and their scaled similarities times the factors."""
        G = self.factor_
        weighted = (self._object_weights[:, None] * G).astype(G.dtype)
        B = as_dense(rows @ (self.scaling_[:, None] * weighted), G.dtype)
        return fold_in(B, weighted.T @ G), B

    def _explained(self, rows: Any, weights: np.ndarray) -> float:
        rows = self._normalized_rows(rows)
        g, B = (part.astype(np.float64) for part in self._fold_in(rows))
        G, v = self.factor_.astype(np.float64), self._object_weights
        square = squared_norm(rows, weights, v * self.scaling_.astype(np.float64) ** 2)
        wg = weights[:, None] * g
        explained = 2 * float((B * wg).sum()) - float(((wg.T @ g) * ((v * G.T) @ G)).sum())
        return explained / square if square > 0 else 0.0


def _on_host(W: ArrayLike | Similarity) -> Any:
    """The similarity on the host, since rows are visited one by one on the CPU."""
    return W if is_numpy(W) else to_numpy(W)


def _scaled_problem(W: Similarity, x: np.ndarray, weights: np.ndarray) -> Problem:
    """diag(x) W diag(x), times root weights, in a form with accessible rows. An operator is
    converted to a dense matrix, if that fits into memory."""
    x = (x * np.sqrt(weights)).astype(x.dtype)
    if hasattr(W, "factor"):
        B = W.factor
        F = sp.csr_array(sp.diags_array(x) @ B) if sp.issparse(B) else x[:, None] * B
    elif sp.issparse(W):
        F = sp.csr_array(sp.diags_array(x) @ W @ sp.diags_array(x))
    else:
        F = x[:, None] * _written_out(W)
        F *= x  # in place, so that two matrices are enough
    return Problem.of(F, hasattr(W, "factor"), weights)


def _written_out(W: Any) -> np.ndarray:
    """The dense matrix of an operator, if it fits into memory."""
    if not isinstance(W, np.ndarray):
        what = "the explicit similarity matrix"
        fix = "give a sparse matrix or an operator with a factor"
        reserve(W.shape, dtype_of(W), what, fix)
    return operators.as_dense(W)
