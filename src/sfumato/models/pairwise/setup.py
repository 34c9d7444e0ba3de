"""Setup of the pairwise model: forms of the similarity, bounds, and starts (given, random,
spectral, or chosen on a sample).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ...array.arrays import device, is_numpy, namespace, optional_module, reader, to_numpy
from ...array.types import Array
from ...data.constraints import Known
from ...engine import loop
from ...engine.similarity_evidence import Evidence, largest_entry
from ...numerics import simplex
from ...numerics.eigen import leading_eigenvectors
from ...numerics.kmeans import soft_assignment, spectral_start
from ...numerics.operators import Scaled, degrees, dtype_of, like, magnitudes, normalized_operator
from ...similarity.operators import Factored
from . import kernel
from .evidence import Pairs

# Size of the sample on which starts are compared: a fixed number plus a number per cluster
SAMPLE, PER_CLUSTER = 1000, 100

Solve = Callable[[kernel.Problem, Any], loop.Run]


def similarity(evidence: Evidence, k: int) -> Any:
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


def with_links(evidence: Evidence, known: Known, group: Any) -> Evidence:
    """The evidence, with terms that pull linked objects together or apart.

    By default, a link has the weight of all similarities of an object.
    """
    if known.pairs is None:
        return evidence
    size, unit = evidence.W.shape[0], largest_entry(evidence.W)
    return evidence._replace(extra=known.similarities(group, size, float(size), unit))


def problem(
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
        return kernel.Problem(Pairs(np.asarray(W), Q, held), False, scale, held=held)
    left, form = evidence.self_pairs if exclude else None, kernel.as_evidence(W)
    if evidence.extra is not None and isinstance(form, kernel.Implicit):
        raise ValueError(
            "cannot_link, labels and weights of must_link need a similarity that is an array, "
            "sparse or factored"
        )
    fitted = kernel.Problem(form, exclude, scale, v, held, linked=evidence.extra)
    return fitted if left is None else fitted._replace(left=left[0], left_similarity=left[1])


def _as_pairs(evidence: Evidence) -> Evidence:
    """Links as measured pairs: the largest similarity, or 0, weighted by the link."""
    links, unit = evidence.extra.toarray(), largest_entry(evidence.W)
    W = np.where(links > 0, unit, np.where(links < 0, 0.0, evidence.W))
    pairs = np.where(links != 0, np.abs(links) / unit, evidence.pairs)
    return evidence._replace(W=W, pairs=pairs, extra=None)


def of_objects(U: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Starting memberships (g, r, k) of objects: means over their rows (n, r, k)."""
    total = np.zeros((size, *U.shape[1:]))
    np.add.at(total, group[group >= 0], U[group >= 0])
    return simplex.normalize(total)


def lower_bound(W: Any, k: int) -> float:
    """|W|^2 minus the squares of the k largest positive eigenvalues."""
    A = Factored(W.factor) if isinstance(W, kernel.Low) else W
    A = A if isinstance(A, LinearOperator) else A.W
    half = like(A, np.full(W.n, W.norm**-0.25, dtype=dtype_of(A)))  # of norm at most one
    values = to_numpy(leading_eigenvectors(Scaled(A, half), k, tol=1e-6).values) * W.norm**0.5
    return max(0.0, W.norm - float(np.square(np.clip(values, 0, None)).sum()))


def split_bound(W: np.ndarray, k: int) -> float:
    """Lower bound of  sum_{i != j} (w_ij - a u_i'u_j)^2  over all memberships.

    The block between two halves of the objects has no diagonal, and a U_A U_B' has rank k, so the
    squared singular values of W_AB beyond the k largest remain. Pairs within a half are bounded in
    the same way.
    """

    def tail(rows: np.ndarray) -> float:
        # Every second object, since consecutive ones may be in one cluster, with a low-rank block.
        first, second = rows[::2], rows[1::2]
        if second.size <= k:
            return 0.0
        values = np.linalg.svd(W[np.ix_(first, second)], compute_uv=False)
        return float(np.square(values[k:]).sum()) + tail(first) + tail(second)

    # W is symmetric, so the block between the halves counts twice.
    return 2.0 * tail(np.arange(len(W)))


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
            "init gives every object the same memberships, from which no step leads away: "
            "make them differ"
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
    certified = first.objective <= 0.03 * kernel.squared_norm(problem)
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
    part = problem._replace(W=problem.W.part(rows), weights=weights)

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
    if explained <= 4.0 * noise:  # explained by clusters of noise, with a margin
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
