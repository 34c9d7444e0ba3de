"""Starts of the pairwise model: given, random, spectral, or chosen on a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import device, is_numpy, namespace, to_numpy
from ...array.types import Array
from ...engine import loop
from ...numerics import simplex
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors, normalized_operator
from ...numerics.kmeans import orthogonal_rows
from ...numerics.operators import degrees, magnitudes
from . import kernel

__all__ = ["contest", "given", "like", "on_a_sample", "spectral"]

# If the squared error of the spectral start is below this share of the squared similarities, no
# other start is tried: none could explain more than this share in addition.
CERTIFIED = 0.03
# Objects of the sample on which starts are compared: a fixed number, and more for every cluster. A
# sample is used where there are at least TIMES as many objects.
SAMPLE, PER_CLUSTER, TIMES = 1000, 100, 2
# A sample is used if its clusters explain this many times what clusters of noise would.
BEYOND_NOISE = 4.0

Solve = Callable[[kernel.Problem, Any], loop.Run]


def given(init: Any, n: int, k: int) -> np.ndarray:
    """Memberships that the user gives, (n, runs, k), checked."""
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
            "init gives every object the same memberships, from which no step leads away: "
            "make them differ"
        )
    return U.transpose(1, 0, 2).copy()


def spectral(W: Any, weights: Any, k: int, rng: np.random.Generator) -> np.ndarray:
    """Soft assignment to k nearly orthogonal rows of the leading eigenvectors, the first one drawn
    (Bach and Jordan 2006).
    """
    Z = to_numpy(W.factor) if hasattr(W, "factor") and W.factor.shape[1] == k else None
    if Z is None:
        E = leading_eigenvectors(
            normalized_operator(W, degrees(magnitudes(W), weights), weights), k, tol=1e-3
        ).vectors
        Z = to_numpy(unit_rows(E))
    chosen = orthogonal_rows(Z, k, int(rng.integers(Z.shape[0])))
    return simplex.normalize(np.clip(Z @ Z[chosen].T, 0, None) ** 2 + 1e-3)


def like(U: np.ndarray, W: Any) -> Any:
    """Memberships in the precision, the library and on the device of the similarity ``W``."""
    U = U.astype(np.dtype(str(getattr(W, "dtype", np.float64)).rpartition(".")[2]))
    inner = getattr(W, "factor", getattr(W, "W", W))
    if is_numpy(inner) or sp.issparse(inner):
        return U
    return namespace(inner).asarray(U, device=inner.device)


def contest(
    problem: kernel.Problem, first: loop.Run, others: Callable[[], loop.Run], n_init: int
) -> loop.Run:
    """The better of the ``first`` run and that of the ``others``, which are not run where there is
    one start or where none could be much better.
    """
    certified = first.objective <= CERTIFIED * kernel.squared_norm(problem)
    if n_init == 1 or (first.converged and certified):
        return first
    return loop.best([first, others()], larger=False)


def on_a_sample(
    problem: kernel.Problem, k: int, n_init: int, rng: np.random.Generator, solve: Solve
) -> Array | None:
    """The best of several starts on a sample of the objects, extended to all, (n, 1, k): a spectral
    one where the similarity is a matrix, and random ones.

    None where there is no sample: few objects, rows that a sample would empty (sparse ones), held
    objects or links; or where the sample shows no more than noise.
    """
    size = SAMPLE + PER_CLUSTER * k
    if problem.W.n < TIMES * size or not _can_be_sampled(problem):
        return None
    rows = np.sort(rng.choice(problem.W.n, size, replace=False))
    part = _part(problem, rows)

    def solved(U: np.ndarray) -> loop.Run:
        return kernel.best_run(solve(part, like(U, part.W)))

    def random() -> loop.Run:
        return solved(simplex.draw(rng, (size, n_init - 1, k)))

    if isinstance(part.W, kernel.Low):
        run = random()
    else:
        first = solved(spectral(part.W.W, part.weights, k, rng)[:, None])
        run = contest(part, first, random, n_init)
    explained, noise = kernel.explained(part, float(run.objective), k)
    if explained <= BEYOND_NOISE * noise:
        return None
    return _extended(problem, rows, run.state)


def _can_be_sampled(problem: kernel.Problem) -> bool:
    """Whether a few rows and columns of the similarity are a similarity of the same kind."""
    plain = problem.held is None and problem.linked is None and problem.left is None
    if isinstance(problem.W, kernel.Low):
        return plain and isinstance(problem.W.factor, np.ndarray)
    return plain and hasattr(problem.W, "part") and not sp.issparse(problem.W.W)


def _part(problem: kernel.Problem, rows: np.ndarray) -> kernel.Problem:
    weights = None if problem.weights is None else problem.weights[rows]
    return problem._replace(W=problem.W.part(rows), weights=weights)


def _extended(problem: kernel.Problem, rows: np.ndarray, state: kernel.State) -> Array:
    """Memberships of all objects (n, 1, k): those outside the sample by their mean similarity to
    its clusters.
    """
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
