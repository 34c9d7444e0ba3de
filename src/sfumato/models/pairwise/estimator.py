"""Pairwise probabilistic clustering: memberships straight from similarities."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ...core import loop
from ...core.arrays import is_numpy, namespace, reader, to_numpy
from ...core.memory import InputSize
from ...core.optional import optional_module
from ...core.rows import one_blas_thread
from ...core.similarity_base import SimilarityClusterer, as_dense
from ...core.validation import as_generator, check_choice, check_n_clusters, check_number
from ...core.warn import warn
from ...numerics import simplex
from ...numerics.eigen import dtype_of, leading_eigenvectors, normalized_operator, unit_rows
from ...numerics.kmeans import orthogonal_rows
from ...numerics.operators import like
from ...selection.automatic import AutomaticClusters
from . import gradient, kernel

__all__ = ["PairwiseProbabilisticClustering"]

# Squared error, as a share of the squared similarities, at which the first start is not challenged:
# no memberships
# have less than 0, so no other start can explain more than this share besides.
CERTIFIED = 0.03
HORIZON = 50  # sweeps; a start that would need more to catch up with the best one is given up
# Of the memberships of all starts: now, before, extrapolated, products, gradients, differences
COPIES = 8


class PairwiseProbabilisticClustering(AutomaticClusters, SimilarityClusterer):
    """Memberships U with W ~ scale * U U'.

    How similar two objects are is how likely they fall together.

    Minimises  sum_ij (w_ij - scale * u_i'u_j)^2  over rows u_i of the simplex, by default without the pairs i = j.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters. ``"auto"``: the number that ``selection.choose_n_clusters`` finds.
    max_clusters : int
        Largest number that ``"auto"`` tries at first; more while the best is the largest one tried.
    similarity : "precomputed", "cluster-kernel", "knn", "self-tuning", "gaussian", "cosine" or
    function, default "cluster-kernel"
        What the rows given to ``fit`` are. ``"precomputed"``: a similarity matrix (n, n), dense,
        sparse or an operator. Otherwise features, from which the named function, or a function
        ``f(X, Y=None)``, makes the similarity. ``"cluster-kernel"`` is the rank-k cluster kernel of
        the graph of nearest neighbours: the model wants blocks, and this makes them.
    solver : {"coordinate", "baum-eagon"}
        Exact descent by panels of rows (an operator that only multiplies gets projected gradients),
        or the published rule.
    diagonal : {"exclude", "include"}
        Whether the similarities of objects to themselves count.
    scale : "fit" or float
        Factor between co-occurrence and similarity; 1.0 where similarities are probabilities.
    init : array of shape (n, n_clusters) or (n_init, n, n_clusters), optional
        Memberships to start from, in place of drawing them.
    n_init : int
        Starts (one from the spectrum, the others random); they share each pass over W, and the best
        is kept. Once it has settled, a start that would need more than fifty further passes to
        catch up, at its present pace, is not waited for.
    max_iter, tol : int, float
        Sweeps at most, and the relative decrease of the objective at which to stop.
    random_state : int, Generator, RandomState or None

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
    labels_ : array of shape (n,)
    scale_ : float
    objective_ : float
        The squared error.
    lower_bound_ : float
        No memberships can have a smaller squared error: the eigenvalues beyond the k largest
        positive ones, squared, if the diagonal is included, else 0.
    gap_ : float
        ``objective_`` less ``lower_bound_``, as a share of the squared norm of the similarity.
    kkt_residual_ : float
        Zero at a stationary point, relative to the largest entry of W U.
    history_ : array of shape (n_iter,)
    n_iter_ : int
    converged_ : bool
    n_clusters_ : int

    References
    ----------
    Rota Bulo and Pelillo (2010). Probabilistic clustering using the Baum-Eagon inequality. ICPR.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import PairwiseProbabilisticClustering
    >>> W = np.kron(np.eye(2), np.ones((3, 3)))
    >>> model = PairwiseProbabilisticClustering(2, similarity="precomputed", random_state=0).fit(W)
    >>> model.memberships_.round(2)[[0, 5]].max(axis=1)
    array([1., 1.])
    >>> bool(model.labels_[0] == model.labels_[2] != model.labels_[3])
    True
    """

    def __init__(
        self,
        n_clusters=8,
        *,
        max_clusters=20,
        similarity="cluster-kernel",
        solver="coordinate",
        diagonal="exclude",
        scale="fit",
        init=None,
        n_init=4,
        max_iter=500,
        tol=1e-8,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.max_clusters = max_clusters
        self.similarity = similarity
        self.solver = solver
        self.diagonal = diagonal
        self.scale = scale
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PairwiseProbabilisticClustering:
        """Learn memberships.

        Parameters
        ----------
        X : array, sparse array or operator
            A similarity (n, n) if ``similarity="precomputed"``, else features (n, p).
        y : ignored

        Returns
        -------
        self
        """
        self._forget()
        if isinstance(self.n_clusters, str):
            return self._fit_automatic(X)
        self._check_parameters()
        W = _on_device(self._similarities(X), self.n_clusters)
        check_n_clusters(self.n_clusters, W.shape[0])
        problem = kernel.Problem(
            _as_evidence(W),
            self.diagonal == "exclude",
            None if self.scale == "fit" else float(self.scale),
        )
        if problem.W.norm == 0:
            raise ValueError(
                "W is zero everywhere: no object is similar to any other, so there is nothing to "
                "cluster"
            )
        small = isinstance(
            problem.W, kernel.Low
        )  # products of n x k with k x k: threads would only wait for each other
        with one_blas_thread() if small else nullcontext():
            run = self._contest(problem, self._starts(W, as_generator(self.random_state)))
        self._finish(problem, run.state, run)
        return self

    def _contest(self, problem: kernel.Problem, U: Any) -> loop.Run:
        """The best of the starts (n, n_init, k).

        The first decides alone where no other could be much better.
        """
        if U.shape[1] == 1 or self.init is not None:
            return _best(self._solve(problem, U))
        first = _best(self._solve(problem, U[:, :1]))
        if not first.converged:
            return _best(self._solve(problem, U))
        if first.objective <= CERTIFIED * kernel.squared_norm(problem):
            return first
        return loop.best([first, _best(self._solve(problem, U[:, 1:]))], larger=False)

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_number(self.n_clusters, "n_clusters", low=1, integer=True)
        check_choice(self.solver, "solver", ("coordinate", "baum-eagon"))
        check_choice(self.diagonal, "diagonal", ("exclude", "include"))
        if not (isinstance(self.scale, str) and self.scale == "fit"):
            check_number(self.scale, "scale (a number or 'fit')", low=1e-100, high=1e100)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        needed = super()._memory_needed(size)
        runs = self.n_init if self.init is None else 1
        panels = size.stored * (size.itemsize + 4) if self._precomputed() and size.sparse else 0
        starts = COPIES * runs * needed["memberships"]
        return needed | {
            "rows of the graph": panels,
            "memberships": starts,
            "eigenvectors": max(0, needed["eigenvectors"] - starts),
        }

    def _starts(self, W: Any, rng: np.random.Generator) -> Any:
        """Starting memberships (n, n_init, k)."""
        n, k = W.shape[0], self.n_clusters
        dtype = np.dtype(str(getattr(W, "dtype", np.float64)).rpartition(".")[2])
        if self.init is not None:
            U = self._given_start(n, k)
        else:
            U = simplex.draw(rng, (n, self.n_init, k))
            if k < n:
                U[:, 0] = _spectral_start(W, k, rng)
        U = U.astype(dtype)
        inner = getattr(W, "factor", getattr(W, "W", W))
        return (
            U
            if is_numpy(inner) or sp.issparse(inner)
            else namespace(inner).asarray(U, device=inner.device)
        )

    def _given_start(self, n: int, k: int) -> np.ndarray:
        try:
            U = np.asarray(self.init, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"init must hold memberships, an array of numbers: {error}") from error
        U = U[None] if U.ndim == 2 else U
        if U.ndim != 3 or U.shape[1:] != (n, k):
            raise ValueError(
                f"init must have shape ({n}, {k}) or (n_init, {n}, {k}), got {np.shape(self.init)}"
            )
        if not np.isfinite(U).all() or U.min() < 0 or (U.sum(axis=2) <= 0).any():
            raise ValueError(
                "init must hold memberships: finite, nonnegative, every row with a positive sum"
            )
        U = simplex.normalize(U)
        if k > 1 and n > 1 and (U[:, :1] == U).all():
            raise ValueError(
                "init gives every object the same memberships, from which no step leads away: "
                "make them differ"
            )
        return U.transpose(1, 0, 2).copy()

    def _solve(self, problem: kernel.Problem, U: Any) -> loop.Run:
        floor = 1e-2 * problem.W.norm
        tol = (
            max(self.tol, 2e-5) if dtype_of(problem.W) == np.float32 else self.tol
        )  # float32 does not show smaller changes
        limits = {
            "max_iter": self.max_iter,
            "tol": tol,
            "relative_to": lambda f: np.maximum(f, floor),
            "horizon": HORIZON,
        }
        if self.solver == "baum-eagon":
            return loop.iterate(
                partial(kernel.baum_eagon_step, problem), kernel.start(problem, U), **limits
            )
        if isinstance(problem.W, kernel.Implicit):
            return loop.iterate(
                partial(gradient.gradient_step, problem), gradient.start(problem, U), **limits
            )
        step = loop.Extrapolation.accelerate(
            partial(kernel.coordinate_step, problem), kernel.combine, kernel.select
        )
        run = loop.iterate(step, loop.Extrapolation(kernel.start(problem, U)), **limits)
        return run._replace(state=run.state.settled)

    def _finish(self, problem: kernel.Problem, state: kernel.State, run: loop.Run) -> None:
        self.scale_ = float(state.scale[0])
        self._co_occurrence = kernel.gram(state.U)[0]
        self.kkt_residual_ = float(kernel.kkt_residual(problem, state)[0])
        self.lower_bound_ = 0.0 if problem.exclude else _lower_bound(problem.W, self.n_clusters)
        self.gap_ = (float(run.objective) - self.lower_bound_) / problem.W.norm
        memberships = simplex.normalize(state.U[:, 0, :])
        self._question_structure(problem, float(run.objective))
        self._question_vertices(memberships)
        self._publish(memberships, run)

    def _question_structure(self, problem: kernel.Problem, objective: float) -> None:
        """Warn where k clusters explain no more of W beyond its mean than they would of noise.

        (k - 1) eigenvalues of 2 sigma sqrt(n).
        """
        n = problem.W.n
        total = float(
            (problem.W @ namespace(problem.W.diagonal).ones_like(problem.W.diagonal)).sum()
        )
        trace = float(problem.W.diagonal.sum()) if problem.exclude else 0.0
        square = float((problem.W.diagonal**2).sum()) if problem.exclude else 0.0
        pairs = n * (n - 1) if problem.exclude else n * n
        spread = problem.W.norm - square - (total - trace) ** 2 / max(pairs, 1)
        noise = 4 * (self.n_clusters - 1) * objective / n
        if (
            problem.scale is None
            and 1 < self.n_clusters < n / 2
            and spread - objective <= max(noise, 1e-9 * problem.W.norm)
        ):
            warn(
                f"the similarities hold no more structure than noise would: {self.n_clusters} "
                "clusters explain "
                f"{max(0.0, spread - objective) / problem.W.norm:.1%} of them beyond their mean"
            )

    def _question_vertices(self, memberships: Any) -> None:
        highest = namespace(memberships).max(memberships, axis=0)
        if self.n_clusters > 1 and float(highest.min()) < 0.75:
            warn(
                "no object belongs mainly to some cluster (largest membership "
                f"{float(highest.min()):.2f}): "
                "the memberships are not identified; use fewer clusters or a more block-like "
                "similarity"
            )

    def predict_proba(self, X: Any) -> Any:
        """Memberships of new objects, each by itself beside the fitted ones.

        Parameters
        ----------
        X : array of shape (n_new, p), or similarities (n_new, n) to the fitted objects if
        ``similarity="precomputed"``

        Returns
        -------
        memberships : array of shape (n_new, n_clusters)
            The u that minimises  sum_j (w_j - scale * u'u_j)^2.
        """
        self._check_fitted()
        rows = self._new_similarities(X)
        U = self.memberships_
        xp = namespace(U)
        B = as_dense(rows @ U, U.dtype) * self.scale_
        H = xp.astype(self.scale_**2 * self._co_occurrence, U.dtype)
        return simplex.quadratic_program(H, B)

    def score(self, X: Any, y: Any = None) -> float:
        """Share of the squared similarities between new and fitted objects that the memberships
        explain; higher is better.

        Parameters
        ----------
        X : as for ``predict_proba``
        y : ignored

        Returns
        -------
        score : float
            1 - sum_ij (w_ij - scale * u_i'u_j)^2 / sum_ij w_ij^2, at most 1.
        """
        U_new = self.predict_proba(X)
        rows, U, a = self._new_similarities(X), self.memberships_, self.scale_
        fitted = float((as_dense(rows @ U, U.dtype) * U_new).sum())
        square = _squared_norm(rows)
        error = (
            square - 2 * a * fitted + a**2 * float((self._co_occurrence * (U_new.T @ U_new)).sum())
        )
        return 1.0 - error / square if square > 0 else 0.0


def _best(run: loop.Run) -> loop.Run:
    """The best of several runs that shared their passes, as one."""
    best = loop.earliest_best(run.objective, larger=False)
    state = kernel.State(
        run.state.U[:, best : best + 1], run.state.scale[best : best + 1], np.ones(1)
    )
    return run._replace(state=state, objective=run.objective[best], history=run.history[:, best])


def _squared_norm(rows: Any) -> float:
    """|rows|^2 of an array, a sparse array, a factored operator or anything that multiplies."""
    if hasattr(rows, "factor"):
        return float(((rows.factor.T @ rows.factor) * (rows.right.T @ rows.right)).sum())
    if sp.issparse(rows):
        return float(rows.data @ rows.data)
    if hasattr(rows, "__array__") or not is_numpy(rows):
        return float((rows * rows).sum())
    return float(np.square(rows @ np.eye(rows.shape[1])).sum())


def _on_device(W: Any, k: int) -> Any:
    """A dask array on its cluster, a dense CUDA array in the form of its own sweep where it has
    one; anything else as it is.
    """
    foreign = reader(W)
    if foreign is not None:
        return foreign.Similarity(W)
    if not getattr(W, "is_cuda", False):
        return W
    gpu = optional_module(__package__, "cuda")
    return gpu.Panels(W) if gpu is not None and gpu.Panels.fits(W, k) else W


def _as_evidence(W: Any) -> Any:
    """The similarity in the form its solver wants."""
    if hasattr(W, "panels"):
        return W
    if hasattr(W, "factor"):
        return kernel.Low(W.factor)
    if isinstance(W, np.ndarray) or sp.issparse(W) or not is_numpy(W):
        return kernel.Explicit(W)
    return kernel.Implicit(W)


def _spectral_start(W: Any, k: int, rng: np.random.Generator) -> np.ndarray:
    """Soft assignment to k nearly orthogonal rows of the leading eigenvectors, the first one drawn
    (Bach and Jordan 2006).
    """
    Z = to_numpy(W.factor) if hasattr(W, "factor") and W.factor.shape[1] == k else None
    if Z is None:
        E = leading_eigenvectors(normalized_operator(W), k, tol=1e-3).vectors
        Z = to_numpy(unit_rows(E))
    chosen = orthogonal_rows(Z, k, int(rng.integers(Z.shape[0])))
    return simplex.normalize(np.clip(Z @ Z[chosen].T, 0, None) ** 2 + 1e-3)


def _lower_bound(W: Any, k: int) -> float:
    """|W|^2 less the squares of its k largest positive eigenvalues."""
    size = W.norm**0.5
    values = to_numpy(leading_eigenvectors(_Normed(W, size), k, tol=1e-6).values) * size
    return max(0.0, W.norm - float(np.square(np.clip(values, 0, None)).sum()))


class _Normed(LinearOperator):
    """W / size: an operator of norm at most one.

    ``W`` is what tells on which device vectors belong.
    """

    def __init__(self, evidence: Any, size: float) -> None:
        super().__init__(dtype_of(evidence), (evidence.n, evidence.n))
        self.evidence, self.size, self.W = evidence, size, getattr(evidence, "W", evidence)

    def __matmul__(self, V: Any) -> Any:
        return (self.evidence @ V) / self.size

    def _matmat(self, V: Any) -> Any:
        return self @ V

    def toarray(self) -> Any:
        return self @ like(self.W, np.eye(self.shape[0], dtype=self.dtype))
