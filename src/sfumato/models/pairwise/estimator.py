"""Pairwise probabilistic clustering: memberships straight from similarities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, clone

from ...array.arrays import (
    as_dense,
    asarray_like,
    device,
    is_numpy,
    namespace,
    optional_module,
    reader,
    to_numpy,
)
from ...array.docs import documented
from ...array.rows import one_blas_thread
from ...array.types import Array, ArrayLike, RandomState, Weights
from ...array.validation import InputSize, as_generator, check_choice, check_number, reserve
from ...array.warn import warn
from ...data.constraints import Known, largest_first, match_columns, reordered
from ...engine import loop
from ...engine.clusterer import CooccurrenceIntervals
from ...engine.similarity_base import SimilarityClusterer
from ...engine.similarity_evidence import Evidence, largest_entry
from ...numerics import simplex
from ...numerics.eigen import leading_eigenvectors, soft_assignment, spectral_start
from ...numerics.operators import (
    Factored,
    Scaled,
    degrees,
    dtype_of,
    like,
    magnitudes,
    normalized_operator,
    squared_norm,
)
from ...selection.automatic import AutomaticSimilarity
from . import kernel

# Size of the sample on which starts are compared: a fixed number plus a number per cluster
SAMPLE, PER_CLUSTER = 1000, 100

Solve = Callable[[Any, Any], loop.Run]  # for a problem and memberships (n, r, k)


class Settings(NamedTuple):
    """Number of starts, largest number of sweeps, relative decrease at which to stop, and seed."""

    n_init: int
    max_iter: int
    tol: float
    random_state: Any


def best_of_starts(
    problem: kernel.Problem,
    W: Any,
    k: int,
    settings: Settings,
    init: Any = None,
    labels: Any = None,
    group: Any = None,
    solver: str = "coordinate",
) -> loop.Run:
    """The best run over all starts, for the similarity ``W`` of the problem. With many objects, the
    starts compete on a sample, and the best one continues with all objects. Without a sample, or if
    the similarity has a factor, the spectral start uses all objects. ``init`` are memberships of
    rows, ``group`` (n,) the object of each row, and ``labels`` known labels."""
    rng, n, n_init = as_generator(settings.random_state), problem.W.n, settings.n_init
    factored = isinstance(problem.W, kernel.Low)
    solve: Solve = partial(descend, settings, solver)

    def solved(U: np.ndarray) -> loop.Run:
        for start in range(U.shape[1] if labels is not None else 0):
            U[:, start] = match_columns(U[:, start], labels)
        return solve(problem, on_device(U, W))

    def others() -> loop.Run:
        if factored and (extended := sampled()) is not None:
            return solve(problem, extended)
        return solved(simplex.draw(rng, (n, n_init - 1, k)))

    with one_blas_thread() if factored else nullcontext():  # for thin products, threads only wait
        if init is not None:
            U = given(init, n if group is None else group.size, k)
            return solved(U if group is None else of_objects(U, group, n))
        if k >= n:
            return solved(simplex.draw(rng, (n, n_init, k)))
        sampled = partial(on_a_sample, problem, k, n_init, rng, solve)
        if not factored and n_init > 1 and (extended := sampled()) is not None:
            return solve(problem, extended)
        first = solved(spectral(W, problem.weights, k, rng)[:, None])
        return contest(problem, first, others, n_init)


def run_of_factor(
    Z: np.ndarray, settings: Settings, exclude: bool, init: Any = None, weights: Weights = None
) -> loop.Run:
    """The best run in k clusters for the similarity Z Z' of objects with rows Z (n, k)."""
    problem = kernel.Problem(kernel.Low(Z), exclude, None, weights)
    return best_of_starts(problem, problem.W, Z.shape[1], settings, init)


def descend(settings: Settings, solver: str, problem: kernel.Problem, U: Any) -> loop.Run:
    """The best run from memberships (n, r, k), found for all starts at once."""
    floor = 1e-2 * problem.W.norm
    # float32 cannot resolve smaller changes.
    tol = max(settings.tol, 2e-5) if dtype_of(problem.W) == np.float32 else settings.tol
    # A start that needs more than fifty sweeps to catch up is given up.
    limits: Any = {"max_iter": settings.max_iter, "tol": tol, "horizon": 50}
    limits["relative_to"] = lambda f: np.maximum(f, floor)
    iterate: Any = partial(loop.iterate, **limits)
    if solver == "baum-eagon":
        rule = partial(kernel.baum_eagon_step, problem)
        return kernel.best_run(iterate(rule, kernel.start(problem, U)))
    step: Any = kernel.coordinate_step if kernel.takes(problem.W) else kernel.panel_step
    step = partial(step, problem)
    accelerated = loop.Extrapolation.accelerate(step, kernel.combine, kernel.select)
    run = iterate(accelerated, loop.Extrapolation(kernel.start(problem, U)))
    return kernel.best_run(run._replace(state=run.state.settled))


def of_objects(U: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Starting memberships (g, r, k) of objects: means over their rows (n, r, k)."""
    total = np.zeros((size, *U.shape[1:]))
    np.add.at(total, group[group >= 0], U[group >= 0])
    return simplex.normalize(total)


def given(init: Any, n: int, k: int) -> np.ndarray:
    """Checked memberships given by the user, (n, runs, k)."""
    try:
        U = np.asarray(init, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"init must hold memberships, an array of numbers: {error}") from error
    U = U[None] if U.ndim == 2 else U
    if U.ndim != 3 or U.shape[1:] != (n, k):
        raise ValueError(
            f"init must have shape ({n}, {k}) or (n_init, {n}, {k}), got {np.shape(init)}"
        )
    if not np.isfinite(U).all() or U.min() < 0 or (U.sum(axis=2) <= 0).any():
        raise ValueError(
            "init must hold memberships: finite, nonnegative, every row with a positive sum"
        )
    U = simplex.normalize(U)
    if k > 1 and n > 1 and (U[:, :1] == U).all():
        raise ValueError(
            "init gives every object the same memberships, which no step can change: make "
            "them differ"
        )
    return U.transpose(1, 0, 2).copy()


def spectral(W: Any, weights: Any, k: int, rng: np.random.Generator) -> np.ndarray:
    """Soft assignment to k nearly orthogonal rows of the eigenvectors (Bach and Jordan 2006)."""
    if hasattr(W, "factor") and W.factor.shape[1] == k:
        return soft_assignment(to_numpy(W.factor), k, rng, 1e-3)
    A = normalized_operator(W, degrees(magnitudes(W), weights), weights)
    return spectral_start(A, k, rng, 1e-3)


def on_device(U: np.ndarray, W: Any) -> Any:
    """Memberships in the dtype, library and on the device of the similarity ``W``."""
    U = U.astype(dtype_of(W))
    inner = getattr(W, "factor", getattr(W, "W", W))
    if is_numpy(inner) or sp.issparse(inner):
        return U
    return namespace(inner).asarray(U, device=inner.device)


def contest(
    problem: kernel.Problem, first: loop.Run, others: Callable[[], loop.Run], n_init: int
) -> loop.Run:
    """The better of the ``first`` run and the ``others``, which run only if worthwhile."""
    # No other start could explain more than this additional share of the squared similarities.
    certified = first.objective <= 0.03 * problem.square
    if n_init == 1 or (first.converged and certified):
        return first
    return loop.best([first, others()], larger=False)


def on_a_sample(
    problem: kernel.Problem, k: int, n_init: int, rng: np.random.Generator, solve: Solve
) -> Array | None:
    """The best of several starts on a sample of the objects, extended to all, (n, 1, k). None for
    few objects, sparse rows (which a sample would empty), held objects or links, or noise."""
    size = SAMPLE + PER_CLUSTER * k
    plain = problem.held is None and problem.linked is None and problem.left is None
    if isinstance(problem.W, kernel.Low):
        plain &= isinstance(problem.W.factor, np.ndarray)
    elif plain:
        plain = hasattr(problem.W, "part") and not sp.issparse(problem.W.W)
    if problem.W.n < 2 * size or not plain:
        return None
    rows = np.sort(rng.choice(problem.W.n, size, replace=False))
    weights = None if problem.weights is None else problem.weights[rows]
    part = kernel.Problem(problem.W.part(rows), problem.exclude, problem.scale, weights)

    def solved(U: np.ndarray) -> loop.Run:
        return solve(part, on_device(U, part.W))

    def random() -> loop.Run:
        return solved(simplex.draw(rng, (size, n_init - 1, k)))

    if isinstance(part.W, kernel.Low):
        run = random()
    else:
        first = solved(spectral(part.W.W, part.weights, k, rng)[:, None])
        run = contest(part, first, random, n_init)
    explained, noise = kernel.explained(part, float(run.objective), k)
    if explained <= 4.0 * noise:  # no more than four times what clusters of noise explain
        return None
    return _extended(problem, rows, run.state)


def _extended(problem: kernel.Problem, rows: np.ndarray, state: kernel.State) -> Array:
    """Memberships (n, 1, k) of all objects; those not sampled are placed by mean similarity."""
    xp, known = namespace(state.U), state.U[:, 0, :]
    place = np.full(problem.W.n, rows.size)
    place[rows] = np.arange(rows.size)
    place = xp.asarray(place, device=device(known))
    padded = xp.concat([known, xp.zeros_like(known[:1, :])])
    V = xp.take(padded, place, axis=0)
    weighted = V if problem.weights is None else V * problem.weights[:, None]
    sums = xp.clip(xp.sum(weighted, axis=0), min=1e-30)
    means = xp.clip((problem.W @ weighted) / sums, min=0.0)
    highest = xp.clip(xp.max(means, axis=1, keepdims=True), min=1e-30)
    U = simplex.normalize((means / highest) ** 2 + 1e-3)
    return xp.where((place < rows.size)[:, None], V, U)[:, None, :]


__all__ = ["PairwiseProbabilisticClustering", "Settings", "run_of_factor"]

# Largest membership that some object of every cluster should have. Rows with entries of at most 2 /
# k lie in the ball inside the simplex, where rotations do not change u_i'u_j. Three clusters have 2
# / 3; the rest is a margin.
IDENTIFIED = 0.75


@documented
class PairwiseProbabilisticClustering(
    AutomaticSimilarity, CooccurrenceIntervals, SimilarityClusterer
):
    """Memberships U straight from a similarity, W ~ scale * U U'.

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
        "coordinate": exact descent row by row (all rows at once for operators). "baum-eagon": the
        published rule.
    diagonal : {"exclude", "include"}
        Whether the similarities of objects to themselves count.
    scale : "fit" or float
        Factor between co-occurrence and similarity; use 1.0 if similarities are probabilities.
    init : array of shape (n, n_clusters) or (n_init, n, n_clusters), optional
        Memberships to start from, instead of random ones.
    n_init : int
        Number of starts (one from the spectrum, the others random), of which the best is kept; they
        share each pass over W.
    %(descent)s

    Attributes
    ----------
    memberships_ : array of shape (n, n_clusters)
    labels_ : array of shape (n,)
    scale_ : float
    objective_ : float
        The squared error.
    lower_bound_ : float
        Lower bound of the squared error for any memberships, from eigenvalues (diagonal included)
        or singular values (excluded; unweighted, at most 2000 objects). 0 if not computed.
    gap_ : float
        ``objective_`` minus ``lower_bound_``, as a share of the squared norm of the similarity.
    noise_variance_ : float
        Variance of the similarities around scale * u_i'u_j (the mean squared error).
    log_likelihood_, bic_ : float
        Log-likelihood of all measured pairs, each Gaussian with that variance, and the Bayesian
        information criterion (lower is better).
    kkt_residual_ : float
        Residual of the optimality conditions, zero at a stationary point.
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
        n = evidence.W.shape[0]
        if known.pairs is not None:  # by default, a link has the weight of n similarities
            links = known.similarities(self._group, n, float(n), largest_entry(evidence.W))
            evidence = evidence._replace(extra=links)
        W = on_its_device(evidence, self.n_clusters)
        labels = known.held(self._group, n)
        exclude = self.diagonal == "exclude"
        scale = None if self.scale == "fit" else float(self.scale)
        if evidence.extra is not None and self.solver == "baum-eagon":
            raise ValueError(
                "cannot_link, labels and weights of must_link need solver='coordinate'"
            )
        problem = problem_of(W, evidence, exclude, scale, labels)
        if problem.W.norm == 0:
            raise ValueError(
                "W is zero everywhere: no object is similar to any other, so there is nothing to "
                "cluster"
            )
        settings = Settings(self.n_init, self.max_iter, self.tol, self.random_state)
        given = self.init, labels, self._group, self.solver
        run = best_of_starts(problem, W, self.n_clusters, settings, *given)
        self._finish(problem, run, X)

    @property
    def _streams(self) -> bool:  # type: ignore[override]
        return self._is("precomputed")

    def _check_parameters(self) -> None:
        super()._check_parameters()
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
        bounded = bounded and not isinstance(problem.W, kernel.Pairs)
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
            return lower_bound(problem.W, self.n_clusters)
        plain = problem.weights is None and problem.linked is None
        W: Any = getattr(problem.W, "W", None)
        dense = isinstance(W, np.ndarray) or sp.issparse(W)
        if not plain or isinstance(problem.W, kernel.Pairs) or not dense or problem.W.n > 2000:
            return 0.0
        return split_bound(as_dense(W, np.float64), self.n_clusters)

    def _set_likelihood(self, problem: kernel.Problem, objective: float) -> None:
        """Set the likelihood and BIC of Gaussian w_ij, i < j, around scale * u_i'u_j."""
        if isinstance(problem.W, kernel.Pairs):
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
        self.log_likelihood_ = float(-0.5 * pairs * (np.log(2 * np.pi * variance) + 1.0))
        free = problem.W.n * (self.n_clusters - 1) + (problem.scale is None) + 1
        self.bic_ = float(-2.0 * self.log_likelihood_ + free * np.log(pairs))

    def _warn_if_noise(self, problem: kernel.Problem, objective: float) -> None:
        explained, noise = kernel.explained(problem, objective, self.n_clusters)
        norm = problem.square
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

    def _explained(self, rows: Any, weights: np.ndarray) -> float:
        U_new, U, a = self._place(rows), self._members, self.scale_
        weighted = asarray_like(weights, U_new)[:, None] * U_new
        fitted = float((as_dense(rows @ U, U.dtype) * weighted).sum())
        square = squared_norm(rows, weights, self._weights)
        modelled = float((self._co_occurrence * (U_new.T @ weighted)).sum())
        error = square - 2 * a * fitted + a**2 * modelled
        return 1.0 - error / square if square > 0 else 0.0


def drawn_memberships(
    model: BaseEstimator,
    U: np.ndarray,
    scale: float,
    variance: float,
    n_draws: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Memberships (n, k) refitted to similarities drawn around scale * U U', starting from U.
    ``model`` must take signed similarities, since noise may make them negative."""
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


def on_its_device(evidence: Evidence, k: int) -> Any:
    """A dask array on its cluster, a dense CUDA array in panels; others are unchanged."""
    W, plain = evidence.W, evidence.weights is None and evidence.extra is None
    foreign = reader(W)
    if foreign is not None:
        if not plain:
            raise ValueError(
                "a dask similarity takes no sample_weight and no constraints: give an array, or "
                "drop them"
            )
        return foreign.Similarity(W)
    if not getattr(W, "is_cuda", False) or not plain:
        return W
    gpu = optional_module(__package__, "cuda")
    return gpu.Panels(W) if gpu is not None and gpu.Panels.fits(W, k) else W


def problem_of(
    W: Any, evidence: Evidence, exclude: bool, scale: float | None, labels: Any
) -> kernel.Problem:
    """The problem for this evidence; objects with known ``labels`` (g,) keep their memberships."""
    v, held = evidence.weights, None if labels is None else labels >= 0
    if evidence.pairs is not None:
        if evidence.extra is not None:
            evidence = _as_pairs(evidence)
            W = evidence.W
        Q = evidence.pairs if v is None else evidence.pairs * (v[:, None] * v)
        if exclude:
            # Of v^2 pairs of an object of weight v with itself, v pair a copy with itself.
            own = np.ones(len(Q)) if v is None else v * np.minimum(v, 1.0)
            left = own if evidence.self_pairs is None or v is None else v * evidence.self_pairs[0]
            Q = Q - np.diag(np.minimum(left * evidence.pairs.diagonal(), Q.diagonal()))
        return kernel.Problem(kernel.Pairs(np.asarray(W), Q, held), False, scale, held=held)
    left, form = evidence.self_pairs if exclude else None, kernel.as_evidence(W)
    return kernel.Problem(form, exclude, scale, v, held, left, evidence.extra)


def _as_pairs(evidence: Evidence) -> Evidence:
    """Links as measured pairs: the largest similarity, or 0, weighted by the link."""
    links, unit = evidence.extra.toarray(), largest_entry(evidence.W)
    W = np.where(links > 0, unit, np.where(links < 0, 0.0, evidence.W))
    pairs = np.where(links != 0, np.abs(links) / unit, evidence.pairs)
    return evidence._replace(W=W, pairs=pairs, extra=None)


def lower_bound(W: Any, k: int) -> float:
    """|W|^2 minus the squares of the k largest positive eigenvalues."""
    A = Factored(W.factor) if isinstance(W, kernel.Low) else W
    A = A if isinstance(A, LinearOperator) else A.W
    half = like(A, np.full(W.n, W.norm**-0.25, dtype=dtype_of(A)))  # of norm at most one
    values = to_numpy(leading_eigenvectors(Scaled(A, half), k, tol=1e-6).values) * W.norm**0.5
    return max(0.0, W.norm - float(np.square(np.clip(values, 0, None)).sum()))


def split_bound(W: np.ndarray, k: int) -> float:
    """Lower bound of  sum_{i != j} (w_ij - a u_i'u_j)^2  over all memberships. The block between
    two halves of the objects has no diagonal, and a U_A U_B' has rank k, so the squared singular
    values of W_AB beyond the k largest remain. Pairs within a half are bounded in the same way."""

    def tail(rows: np.ndarray) -> float:
        # Every second object, since consecutive ones may be in one cluster, with a low-rank block.
        first, second = rows[::2], rows[1::2]
        if second.size <= k:
            return 0.0
        values = np.linalg.svd(W[np.ix_(first, second)], compute_uv=False)
        return float(np.square(values[k:]).sum()) + tail(first) + tail(second)

    # W is symmetric, so the block between the halves counts twice.
    return 2.0 * tail(np.arange(len(W)))
