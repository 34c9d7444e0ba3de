"""Pairwise probabilistic clustering: memberships straight from similarities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

from ...array.arrays import as_dense, namespace, to_numpy
from ...array.docs import documented
from ...array.memory import InputSize, reserve
from ...array.rows import one_blas_thread
from ...array.types import ArrayLike, RandomState, Weights
from ...array.validation import as_generator, check_choice, check_number
from ...array.warn import warn
from ...data.constraints import Known, largest_first, match_columns, reordered
from ...engine import acceleration, loop
from ...engine.clusterer import CooccurrenceIntervals
from ...engine.similarity_base import PairWeightingClusterer
from ...engine.similarity_evidence import Evidence
from ...numerics import simplex
from ...numerics.operators import dtype_of, squared_norm
from ...selection.automatic import AutomaticSimilarity
from ...similarity.operators import Factored
from . import gradient, kernel, setup
from .evidence import Pairs, own_terms, takes

# Largest membership that some object of every cluster should have. Rows with entries of at most 2 /
# k lie in the ball inside the simplex, where rotations do not change u_i'u_j. Three clusters have 2
# / 3; the rest is a margin.
IDENTIFIED = 0.75


@documented
class PairwiseProbabilisticClustering(
    AutomaticSimilarity, CooccurrenceIntervals, PairWeightingClusterer
):
    """Memberships U with W ~ scale * U U'.

    The similarity of two objects is taken as proportional to the probability that they belong
    together.

    Minimises sum_ij (w_ij - scale * u_i'u_j)^2 over rows u_i on the simplex, by default without the
    pairs i = j.

    Parameters
    ----------
    %(spectrum)s
    similarity : "precomputed", "cluster-kernel", "knn", "self-tuning", "gaussian", "cosine" or
    function, default "cluster-kernel"
    %(similarity)s
        ``"cluster-kernel"`` is the rank-k cluster kernel of the nearest-neighbour graph, which is
        nearly block diagonal, as the model assumes.
    solver : {"coordinate", "baum-eagon"}
        "coordinate": exact descent row by row (projected gradients for operators). "baum-eagon":
        the published rule.
    diagonal : {"exclude", "include"}
        Whether the similarities of objects to themselves count.
    scale : "fit" or float
        Factor between co-occurrence and similarity; use 1.0 if similarities are probabilities.
    init : array of shape (n, n_clusters) or (n_init, n, n_clusters), optional
        Memberships to start from, instead of random ones.
    n_init : int
        Number of starts (one from the spectrum, the others random), of which the best is kept; they
        share each pass over W. After the best has converged, starts that would need more than fifty
        further passes to reach it are given up.
    %(descent)s

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
    labels_ : array of shape (n,)
    scale_ : float
    objective_ : float
        The squared error.
    lower_bound_ : float
        Lower bound of the squared error for any memberships: the sum of squared eigenvalues beyond
        the k largest positive ones (diagonal included), or of singular values between halves of the
        objects (diagonal excluded; unweighted, at most 2000 objects). 0 if not computed.
    gap_ : float
        ``objective_`` minus ``lower_bound_``, as a share of the squared norm of the similarity.
    noise_variance_ : float
        Variance of the similarities around scale * u_i'u_j by maximum likelihood (the mean squared
        error).
    log_likelihood_ : float
        Log-likelihood of all measured pairs, each Gaussian with that variance.
    bic_ : float
        -2 ``log_likelihood_`` plus the number of free parameters times the logarithm of the number
        of pairs; lower is better.
    kkt_residual_ : float
        Residual of the optimality conditions relative to the largest entry of W U; zero at a
        stationary point.
    history_, n_iter_, converged_, n_clusters_ : array, int, bool, int

    Notes
    -----
    With weights w in a third column of ``must_link``, linked objects are pulled together by -4 c w
    u_i'u_j in the objective, where c is the largest similarity. ``cannot_link`` adds 4 c w u_i'u_j
    for each pair, where w is its weight (by default the number of objects).

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
        n_clusters: int | str = "auto",
        *,
        max_clusters: int = 20,
        similarity: str | Callable[..., Any] = "cluster-kernel",
        solver: str = "coordinate",
        diagonal: str = "exclude",
        scale: float | str = "fit",
        init: ArrayLike | None = None,
        n_init: int = 4,
        max_iter: int = 500,
        tol: float = 1e-8,
        random_state: RandomState = None,
    ) -> None:
        self.max_clusters = max_clusters
        self.similarity, self.diagonal, self.scale = similarity, diagonal, scale
        self.solver, self.init = solver, init
        super().__init__(n_clusters, n_init, max_iter, tol, random_state)

    def _fit(self, evidence: Evidence, known: Known, X: Any) -> None:
        evidence = setup.with_links(evidence, known, self._group)
        W = setup.similarity(evidence, self.n_clusters)
        labels = known.held(self._group, W.shape[0])
        exclude = self.diagonal == "exclude"
        scale = None if self.scale == "fit" else float(self.scale)
        if evidence.extra is not None and self.solver == "baum-eagon":
            raise ValueError(
                "cannot_link, labels and weights of must_link need solver='coordinate'"
            )
        problem = setup.problem(W, evidence, exclude, scale, labels)
        if problem.W.norm == 0:
            raise ValueError(
                "W is zero everywhere: no object is similar to any other, so there is nothing to "
                "cluster"
            )
        small = isinstance(problem.W, kernel.Low)  # for thin products, threads would only wait
        with one_blas_thread() if small else nullcontext():
            run = self._best_of_starts(problem, W, labels, self._group)
        self._finish(problem, run, X)

    def _run_of_factor(self, Z: np.ndarray, weights: Weights) -> loop.Run:
        """The best run for the similarity Z Z' of weighted objects; the model itself is not
        changed.
        """
        problem = kernel.Problem(kernel.Low(Z), self.diagonal == "exclude", None, weights)
        with one_blas_thread():
            return self._best_of_starts(problem, Factored(Z))

    def _streams(self) -> bool:
        return self._is("precomputed")

    def _best_of_starts(
        self, problem: kernel.Problem, W: Any, labels: Any = None, group: Any = None
    ) -> loop.Run:
        """The best run over all starts.

        With many objects, the starts compete on a sample, and the best one continues with all
        objects. Without a sample, or if the similarity has a factor, the spectral start uses all
        objects.
        """
        rng, k, n = as_generator(self.random_state), self.n_clusters, W.shape[0]

        def solved(U: np.ndarray) -> loop.Run:
            return kernel.best_run(self._solve(problem, setup.on_device(_matched(U, labels), W)))

        if self.init is not None:
            U = setup.given(self.init, n if group is None else group.size, k)
            return solved(U if group is None else setup.of_objects(U, group, n))
        if k >= n:
            return solved(simplex.draw(rng, (n, self.n_init, k)))
        sampled = partial(setup.on_a_sample, problem, k, self.n_init, rng, self._solve)
        factored = isinstance(problem.W, kernel.Low)
        extended = None if factored or self.n_init == 1 else sampled()
        if extended is not None:
            return kernel.best_run(self._solve(problem, extended))

        def others() -> loop.Run:
            extended = sampled() if factored else None
            if extended is None:
                return solved(simplex.draw(rng, (n, self.n_init - 1, k)))
            return kernel.best_run(self._solve(problem, extended))

        first = solved(setup.spectral(W, problem.weights, k, rng)[:, None])
        return setup.contest(problem, first, others, self.n_init)

    def _check_parameters(self) -> None:
        self._check_loop_parameters()
        check_number(self.n_clusters, "n_clusters", low=1, integer=True)
        check_choice(self.solver, "solver", ("coordinate", "baum-eagon"))
        check_choice(self.diagonal, "diagonal", ("exclude", "include"))
        self._signed = self.solver == "coordinate"
        if not (isinstance(self.scale, str) and self.scale == "fit"):
            check_number(self.scale, "scale (a number or 'fit')", low=1e-100, high=1e100)

    def _memory_needed(self, size: InputSize) -> dict[str, float]:
        needed = super()._memory_needed(size)
        runs = self.n_init if self.init is None else 1
        # Current, previous and extrapolated memberships, products, gradients.
        starts = 5 * runs * needed["memberships"]
        left = max(0, needed["eigenvectors"] - starts)
        return needed | {"memberships": starts, "eigenvectors": left}

    def _solve(self, problem: kernel.Problem, U: Any) -> loop.Run:
        floor = 1e-2 * problem.W.norm
        # float32 cannot resolve smaller changes.
        tol = max(self.tol, 2e-5) if dtype_of(problem.W) == np.float32 else self.tol
        # A start that needs more than fifty sweeps to catch up is given up.
        settings: Any = {"max_iter": self.max_iter, "tol": tol, "horizon": 50}
        settings["relative_to"] = lambda f: np.maximum(f, floor)
        iterate: Any = partial(loop.iterate, **settings)
        if self.solver == "baum-eagon":
            return iterate(partial(kernel.baum_eagon_step, problem), kernel.start(problem, U))
        if isinstance(problem.W, kernel.Implicit):
            return iterate(partial(gradient.gradient_step, problem), gradient.start(problem, U))
        if takes(problem.W):
            problem = problem._replace(own=own_terms(problem))
        step = acceleration.Extrapolation.accelerate(
            partial(kernel.coordinate_step, problem), kernel.combine, kernel.select
        )
        run = iterate(step, acceleration.Extrapolation(kernel.start(problem, U)))
        return run._replace(state=run.state.settled)

    def _finish(self, problem: kernel.Problem, run: loop.Run, X: Any) -> None:
        state = run.state
        self.scale_ = float(state.scale[0])
        if problem.held is None:
            order = largest_first(state.U[:, 0, :], problem.weights)
            state = state._replace(U=reordered(state.U, order, 2), product=None)
        memberships = simplex.normalize(state.U[:, 0, :])
        self._co_occurrence = kernel.gram(state.U, problem.weights)[0]
        self._members, self._weights = memberships, problem.weights
        if problem.weights is not None:
            weights = problem.weights.astype(memberships.dtype)
            self._members = memberships * weights[:, None]
        self.kkt_residual_ = float(kernel.kkt_residual(problem, state)[0])
        bounded = not problem.exclude and problem.weights is None
        bounded = bounded and not isinstance(problem.W, Pairs)
        self.lower_bound_ = self._bound(problem, bounded)
        self.gap_ = (float(run.objective) - self.lower_bound_) / problem.W.norm
        self._set_likelihood(problem, float(run.objective))
        if bounded or problem.exclude:
            self._warn_if_noise(problem, float(run.objective))
        self._warn_if_unidentified(memberships)
        self._publish(self._spread(memberships, X), run)

    def _bound(self, problem: kernel.Problem, bounded: bool) -> float:
        """Lower bound of the objective, from eigenvalues or from off-diagonal singular values."""
        if bounded:
            return setup.lower_bound(problem.W, self.n_clusters)
        plain = problem.weights is None and problem.linked is None
        W: Any = getattr(problem.W, "W", None)
        dense = isinstance(W, np.ndarray) or sp.issparse(W)
        if not plain or isinstance(problem.W, Pairs) or not dense or problem.W.n > 2000:
            return 0.0
        return setup.split_bound(as_dense(W, np.float64), self.n_clusters)

    def _set_likelihood(self, problem: kernel.Problem, objective: float) -> None:
        """Set the likelihood and BIC of Gaussian w_ij, i < j, around scale * u_i'u_j."""
        if isinstance(problem.W, Pairs):
            pairs = float(problem.W.Q.sum())
        else:
            own = 0.0
            if problem.exclude:
                left = to_numpy(problem.self_pairs()[0])
                own = float(left.sum() if problem.weights is None else left @ problem.weights)
            pairs = problem.total**2 - own
        pairs = max(pairs / 2, 1.0)
        variance = max(objective / 2 / pairs, np.finfo(float).tiny)
        self.noise_variance_ = variance
        self.log_likelihood_ = -0.5 * pairs * (np.log(2 * np.pi * variance) + 1.0)
        free = problem.W.n * (self.n_clusters - 1) + (problem.scale is None) + 1
        self.bic_ = -2.0 * self.log_likelihood_ + free * np.log(pairs)

    def _warn_if_noise(self, problem: kernel.Problem, objective: float) -> None:
        """Warn if k clusters explain no more of W beyond its mean than of noise."""
        explained, noise = kernel.explained(problem, objective, self.n_clusters)
        norm = kernel.squared_norm(problem)
        asked = problem.scale is None and 1 < self.n_clusters < problem.W.n / 2
        if asked and explained <= max(noise, 1e-9 * norm):
            share = max(0.0, explained) / max(norm, 1e-300)
            warn(
                f"the similarities hold no more structure than noise would: {self.n_clusters} "
                f"clusters explain {share:.1%} of them beyond their mean"
            )

    def _warn_if_unidentified(self, memberships: ArrayLike) -> None:
        highest = namespace(memberships).max(memberships, axis=0)
        if self.n_clusters > 1 and float(highest.min()) < IDENTIFIED:
            warn(
                "one of the clusters is the main cluster of no object (its largest membership is "
                f"{float(highest.min()):.2f}): the memberships are not identified; use fewer "
                "clusters or a more block-like similarity"
            )

    def _place(self, rows: Any) -> Any:
        """Memberships u of new objects that minimise  sum_j (w_j - scale * u'u_j)^2."""
        U = self._members
        xp = namespace(U)
        # Dividing by the square of the scale might underflow.
        B = as_dense(rows @ U, U.dtype) * (1.0 / self.scale_ if self.scale_ > 0 else 0.0)
        H = xp.astype(self._co_occurrence, U.dtype)
        found = simplex.quadratic_program(H, B)
        # Without any similarity, the solution would be the smallest cluster; uniform is honest.
        nothing = ~xp.any(B != 0, axis=1, keepdims=True)
        return xp.where(nothing, xp.full_like(found, 1.0 / found.shape[1]), found)

    def _membership_draws(self, n_draws: int) -> Iterator[np.ndarray]:
        U = to_numpy(self.memberships_).astype(np.float64)
        rng = np.random.default_rng(0)
        plain = clone(self).set_params(n_clusters=U.shape[1])
        return drawn_memberships(plain, U, self.scale_, self.noise_variance_, n_draws, rng)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Share of the squared similarities between new and fitted objects that is explained by the
        memberships; higher is better.

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
        rows, U, a = self._new_similarities(X), self._members, self.scale_
        fitted = float((as_dense(rows @ U, U.dtype) * U_new).sum())
        square = squared_norm(rows, right=self._weights)
        modelled = float((self._co_occurrence * (U_new.T @ U_new)).sum())
        error = square - 2 * a * fitted + a**2 * modelled
        return 1.0 - error / square if square > 0 else 0.0


def _matched(U: np.ndarray, labels: Any) -> np.ndarray:
    """Starts (n, runs, k) with columns matched to the known labels."""
    if labels is not None:
        for start in range(U.shape[1]):
            U[:, start] = match_columns(U[:, start], labels)
    return U


def drawn_memberships(
    model: BaseEstimator,
    U: np.ndarray,
    scale: float,
    variance: float,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Memberships (n, k) refitted to similarities drawn around scale * U U', starting from U.

    ``model`` must take signed similarities, since noise may make them negative.
    """
    n = len(U)
    why = "a similarity drawn from the fitted model"
    reserve((n, 2 * n), np.dtype(np.float64), why, "fit a sample of the objects")
    mean = scale * (U @ U.T)
    for _ in range(n_draws):
        noise = np.triu(rng.normal(scale=np.sqrt(variance), size=(n, n)), 1)
        W = mean + noise + noise.T
        # A row on an edge of the simplex would leave it only slowly.
        start = simplex.normalize(U + 1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model).set_params(
                similarity="precomputed", solver="coordinate", init=start, n_init=1
            )
            yield np.asarray(fitted.fit(W).memberships_, dtype=np.float64)
