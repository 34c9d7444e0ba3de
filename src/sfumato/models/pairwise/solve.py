"""The pairwise model by the best of several starts: given, random, spectral, or from a sample."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.arrays import device, is_numpy, namespace, to_numpy
from ...array.rows import one_blas_thread
from ...array.types import Array, Weights
from ...array.validation import as_generator
from ...data.constraints import match_columns
from ...engine import loop
from ...numerics import simplex
from ...numerics.eigen import soft_assignment, spectral_start
from ...numerics.operators import degrees, dtype_of, magnitudes, normalized_operator
from . import kernel, panels

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
    """The best run over all starts, for the similarity ``W`` of the problem.

    With many objects, the starts compete on a sample, and the best one continues with all objects.
    Without a sample, or if the similarity has a factor, the spectral start uses all objects.
    ``init`` are memberships of rows, ``group`` (n,) the object of each row, and ``labels`` known
    labels.
    """
    rng, n, n_init = as_generator(settings.random_state), problem.W.n, settings.n_init
    factored = isinstance(problem.W, kernel.Low)
    solve: Solve = partial(descend, settings, solver)

    def solved(U: np.ndarray) -> loop.Run:
        return kernel.best_run(solve(problem, on_device(_matched(U, labels), W)))

    def others() -> loop.Run:
        extended = sampled() if factored else None
        if extended is None:
            return solved(simplex.draw(rng, (n, n_init - 1, k)))
        return kernel.best_run(solve(problem, extended))

    with one_blas_thread() if factored else nullcontext():  # for thin products, threads only wait
        if init is not None:
            U = given(init, n if group is None else group.size, k)
            return solved(U if group is None else of_objects(U, group, n))
        if k >= n:
            return solved(simplex.draw(rng, (n, n_init, k)))
        sampled = partial(on_a_sample, problem, k, n_init, rng, solve)
        extended = None if factored or n_init == 1 else sampled()
        if extended is not None:
            return kernel.best_run(solve(problem, extended))
        first = solved(spectral(W, problem.weights, k, rng)[:, None])
        return contest(problem, first, others, n_init)


def run_of_factor(
    Z: np.ndarray, settings: Settings, exclude: bool, init: Any = None, weights: Weights = None
) -> loop.Run:
    """The best run in k clusters for the similarity Z Z' of objects with rows Z (n, k)."""
    problem = kernel.Problem(kernel.Low(Z), exclude, None, weights)
    return best_of_starts(problem, problem.W, Z.shape[1], settings, init)


def descend(settings: Settings, solver: str, problem: kernel.Problem, U: Any) -> loop.Run:
    """The run from memberships (n, r, k), for all starts at once."""
    floor = 1e-2 * problem.W.norm
    # float32 cannot resolve smaller changes.
    tol = max(settings.tol, 2e-5) if dtype_of(problem.W) == np.float32 else settings.tol
    # A start that needs more than fifty sweeps to catch up is given up.
    limits: Any = {"max_iter": settings.max_iter, "tol": tol, "horizon": 50}
    limits["relative_to"] = lambda f: np.maximum(f, floor)
    iterate: Any = partial(loop.iterate, **limits)
    if solver == "baum-eagon":
        return iterate(partial(kernel.baum_eagon_step, problem), kernel.start(problem, U))
    step = kernel.coordinate_step if kernel.takes(problem.W) else panels.step
    accelerated = loop.Extrapolation.accelerate(
        partial(step, problem), kernel.combine, kernel.select
    )
    run = iterate(accelerated, loop.Extrapolation(kernel.start(problem, U)))
    return run._replace(state=run.state.settled)


def _matched(U: np.ndarray, labels: Any) -> np.ndarray:
    """Starts (n, runs, k) with columns matched to the known labels."""
    if labels is not None:
        for start in range(U.shape[1]):
            U[:, start] = match_columns(U[:, start], labels)
    return U


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
    """The best of several starts on a sample of the objects, extended to all, (n, 1, k).

    None for few objects, sparse rows (which a sample would empty), held objects or links, or if the
    sample shows only noise.
    """
    size = SAMPLE + PER_CLUSTER * k
    if problem.W.n < 2 * size or not _can_be_sampled(problem):
        return None
    rows = np.sort(rng.choice(problem.W.n, size, replace=False))
    weights = None if problem.weights is None else problem.weights[rows]
    part = kernel.Problem(problem.W.part(rows), problem.exclude, problem.scale, weights)

    def solved(U: np.ndarray) -> loop.Run:
        return kernel.best_run(solve(part, on_device(U, part.W)))

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


def _can_be_sampled(problem: kernel.Problem) -> bool:
    """Whether a part of the similarity is a similarity of the same form."""
    plain = problem.held is None and problem.linked is None and problem.left is None
    if isinstance(problem.W, kernel.Low):
        return plain and isinstance(problem.W.factor, np.ndarray)
    return plain and hasattr(problem.W, "part") and not sp.issparse(problem.W.W)


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
