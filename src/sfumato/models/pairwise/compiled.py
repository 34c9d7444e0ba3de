"""Compiled sweeps of the pairwise model over short rows.

Needs Numba (``pip install 'sfumato[fast]'``).

Every row in turn moves towards the minimum of its own quadratic program, newest values of all
others first:

    min over the simplex of  a/2 u'Hu - b'u,  H = sum_{j != i} v_j u_j u_j',  b = sum_{j != i} v_j
    w_ij u_j

Where a row meets itself (copies of it, or the diagonal) the term is quartic, and a quadratic with
its curvature at the present row stands for it, raised by ``damping``. Import at call time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from ...core.types import Array
from ...numerics.compiled_simplex import EPS, FREE, minimise, pair_steps

__all__ = ["descend", "extrapolated", "own_terms"]

# Memberships above zero up to which a row's program is solved exactly; k / 2 pair steps cost less
# beyond
EXACT = 6


def descend(problem: Any, origin: np.ndarray, scale: Array, damping: Array) -> tuple[Any, Any]:
    """Memberships (n, r, k) after a sweep row by row, and the moments t and q (r,) of
    ``kernel.moments`` before and after.
    """
    n, r, _ = origin.shape
    own = own_terms(problem) if problem.own is None else problem.own
    v = np.ascontiguousarray(own[:, 0])
    held = np.zeros(n, dtype=bool) if problem.held is None else problem.held
    U, found = np.empty_like(origin), np.empty((4, r))
    for run in range(r):
        one = np.array(origin[:, run], dtype=np.float64, order="C")
        S = gram(one, v)
        t, q = own_moments(one, own, S)
        graph = _linked(problem.linked, n, float(scale[run]))
        arguments = (own, held, one, S, float(scale[run]), float(damping[run]))
        before, after = _sweep(problem.W, v, graph, arguments)
        t_new, q_new = normalized(one, own, S)
        found[:, run] = before - t, q, after - t_new, q_new
        U[:, run] = one
    return U, found


def own_terms(problem: Any) -> np.ndarray:
    """The weight of every object, its pairs with itself and their similarity, (n, 6)."""
    n = problem.W.n
    v = np.ones(n) if problem.weights is None else np.asarray(problem.weights, dtype=np.float64)
    left, similarity = problem.self_pairs() if problem.exclude else (np.zeros(n), np.zeros(n))
    full = problem.W.diagonal
    own = np.empty((n, 6))
    columns = (v, v - left, v * full - similarity, full, v * left, v * similarity)
    for c, column in enumerate(columns):
        own[:, c] = column
    return own


def _linked(linked: Any, n: int, scale: float) -> tuple[np.ndarray, ...]:
    """Pulls between linked objects as the rows of a sparse matrix, divided by the scale."""
    if linked is None:  # in the form that SciPy would give it
        return np.empty(0), np.empty(0, dtype=np.int32), np.zeros(n + 1, dtype=np.int32)
    return linked.data / max(scale, np.finfo(float).tiny ** 0.5), linked.indices, linked.indptr


def _sweep(W: Any, v: np.ndarray, graph: Any, arguments: tuple[Any, ...]) -> tuple[float, float]:
    """Sweep over one run in place; t before and after."""
    matrix = W.factor if hasattr(W, "factor") else W.W
    one = arguments[2]
    if not hasattr(W, "factor"):
        t = float(np.vdot(one * v[:, None], matrix @ (one * v[:, None])))
        return t, t + _graph(matrix.data, matrix.indices, matrix.indptr, *graph, *arguments)
    M = np.ascontiguousarray(matrix.T @ (one * v[:, None]), dtype=np.float64)
    t = float(np.vdot(M, M))
    if sp.issparse(matrix):
        _sparse_factor(matrix.data, matrix.indices, matrix.indptr, M, *graph, *arguments)
    else:
        _factor(np.ascontiguousarray(matrix), M, *graph, *arguments)
    return t, float(np.vdot(M, M))


@njit(cache=True, nogil=True)
def extrapolated(U, previous, momentum):
    """Memberships (n, r, k) beyond those of this step and the one before, with nothing negative and
    rows that sum to one.
    """
    n, runs, k = U.shape
    beyond = np.empty((n, runs, k))
    for i in range(n):
        for run in range(runs):
            total = 0.0
            for r in range(k):
                value = U[i, run, r] + momentum[run] * (U[i, run, r] - previous[i, run, r])
                beyond[i, run, r] = max(value, 0.0)
                total += beyond[i, run, r]
            for r in range(k):
                beyond[i, run, r] = beyond[i, run, r] / total if total > 0 else 1.0 / k
    return beyond


@njit(cache=True, nogil=True, fastmath=FREE)
def gram(U, v):
    """S = U'VU, (k, k)."""
    n, k = U.shape
    S = np.zeros((k, k))
    for i in range(n):
        for r in range(k):
            share = v[i] * U[i, r]
            if share != 0.0:
                for s in range(k):
                    S[r, s] += share * U[i, s]
    return S


@njit(cache=True, nogil=True, fastmath=FREE)
def own_moments(U, own, S):
    """What the self pairs left out take off t, and q without them."""
    n, k = U.shape
    t, q = 0.0, 0.0
    for r in range(k):
        for s in range(k):
            q += S[r, s] * S[r, s]
    for i in range(n):
        square = 0.0
        for r in range(k):
            square += U[i, r] * U[i, r]
        t += own[i, 5] * square
        q -= own[i, 4] * square * square
    return t, max(q, 0.0)


@njit(cache=True, nogil=True, fastmath=FREE)
def normalized(U, own, S):
    """Rows divided by their sums, in place; then as ``own_moments``."""
    n, k = U.shape
    for i in range(n):
        total = 0.0
        for r in range(k):
            total += U[i, r]
        for r in range(k):
            U[i, r] /= total
    return own_moments(U, own, S)


@njit(cache=True, nogil=True)
def _scratch(k):
    """Room for the program of one row: H, its factor, the free coordinates, and vectors."""
    return np.empty((k, k)), np.empty((k, k)), np.empty(k, np.int64), np.empty((5, k))


@njit(cache=True, nogil=True, fastmath=FREE)
def _factor(F, M, more, at, starts, own, held, U, S, a, damping):
    (n, k), d = U.shape, F.shape[1]
    b, change, scratch = np.empty(k), np.empty(k), _scratch(k)
    for i in range(n):
        if held[i]:
            continue
        b[:] = 0.0
        for c in range(d):
            share = F[i, c]
            for r in range(k):
                b[r] += share * M[c, r]
        _add(i, more, at, starts, own, U, b)
        _move(own[i], U[i], b, change, S, a, damping, scratch)
        for c in range(d):
            share = F[i, c] * own[i, 0]
            for r in range(k):
                M[c, r] += share * change[r]


@njit(cache=True, nogil=True, fastmath=FREE)
def _sparse_factor(data, indices, indptr, M, more, at, starts, own, held, U, S, a, damping):
    n, k = U.shape
    b, change, scratch = np.empty(k), np.empty(k), _scratch(k)
    for i in range(n):
        if held[i]:
            continue
        b[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            row, share = M[indices[e]], data[e]
            for r in range(k):
                b[r] += share * row[r]
        _add(i, more, at, starts, own, U, b)
        _move(own[i], U[i], b, change, S, a, damping, scratch)
        for e in range(indptr[i], indptr[i + 1]):
            row, share = M[indices[e]], data[e] * own[i, 0]
            for r in range(k):
                row[r] += share * change[r]


@njit(cache=True, nogil=True, fastmath=FREE)
def _graph(data, indices, indptr, more, at, starts, own, held, U, S, a, damping):
    """The change of t."""
    n, k = U.shape
    b, change, scratch = np.empty(k), np.empty(k), _scratch(k)
    along, gained = np.empty(k), 0.0
    for i in range(n):
        if held[i]:
            continue
        b[:] = 0.0
        _add(i, data, indices, indptr, own, U, b)
        along[:] = b
        _add(i, more, at, starts, own, U, b)
        _move(own[i], U[i], b, change, S, a, damping, scratch)
        for r in range(k):
            gained += own[i, 0] * change[r] * (2 * along[r] + own[i, 0] * own[i, 3] * change[r])
    return gained


@njit(cache=True, nogil=True, fastmath=FREE)
def _add(i, data, indices, indptr, own, U, b):
    """Add sum_j v_j g_ij u_j of a sparse matrix to ``b``."""
    for e in range(indptr[i], indptr[i + 1]):
        row, share = U[indices[e]], data[e] * own[indices[e], 0]
        for r in range(len(b)):
            b[r] += share * row[r]


@njit(cache=True, nogil=True, fastmath=FREE)
def _stays(top, height, b, S, a, toward, across, along):
    """Whether a row with one membership, ``height`` in cluster ``top``, is at the minimum.

    As ``minimise`` would find, from one column of H = a S + across u u' + along I.
    """
    level = (a * S[top, top] + across * height * height + along - toward) * height - b[top]
    size, lowest = 0.0, np.inf
    for r in range(len(b)):
        diagonal = a * S[r, r] + along
        if r == top:
            diagonal += across * height * height
        else:
            lowest = min(lowest, a * S[r, top] * height - b[r])
        size = max(size, abs(diagonal))
    return not lowest < level - 8 * EPS * max(size, abs(b[top] + toward * height))


@njit(cache=True, nogil=True, fastmath=FREE)
def _move(own, u, b, change, S, a, damping, scratch):
    """Move row ``u`` down its program and carry it into S; ``b`` = sum_j v_j w_ij u_j is
    overwritten.
    """
    k, (H, factor, free, work) = len(u), scratch
    weight, pairs, similarity, full = own[0], own[1], own[2], own[3]
    square, used, top = 0.0, 0, 0
    for r in range(k):
        square += u[r] * u[r]
        used += u[r] > 0.0
        top = r if u[r] > u[top] else top
    bend = a * pairs * damping
    toward = similarity - weight * full - a * pairs * square + 3 * bend * square
    if used == 1 and _stays(top, u[top], b, S, a, toward, 2 * bend - a * weight, bend * square):
        change[:] = 0.0
        return
    for r in range(k):
        for s in range(k):
            H[r, s] = a * S[r, s] + (2 * bend - a * weight) * u[r] * u[s]
        H[r, r] += bend * square
        b[r] += toward * u[r]
        change[r] = u[r]
    if used > EXACT:
        pair_steps(H, b, u, work[0], (k + 1) // 2)
    else:
        minimise(H, b, u, factor, free, work)
    for r in range(k):
        if change[r] != 0.0 or u[r] != 0.0:
            for s in range(k):
                S[r, s] += weight * (u[r] * u[s] - change[r] * change[s])
    for r in range(k):
        change[r] = u[r] - change[r]
