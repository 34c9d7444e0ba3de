"""Forms of a similarity that the pairwise sweeps can use.

* ``Explicit``: rows of a matrix, dense or sparse;   * ``Low``: W = F F', only F is kept;
* ``Implicit``: anything that multiplies;            * ``Pairs``: a weight for every pair.

Each has a ``diagonal`` (n,) and a ``norm``, sum_ij w_ij^2. ``descend`` visits rows one by one if
the form gives access to them, otherwise in panels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import device, is_numpy, namespace, native, to_numpy
from ...array.types import Array, Similarity
from ...numerics import simplex
from ...numerics.operators import diagonal_of, dtype_of, squared_norm


class Explicit:
    """Rows of a dense or sparse matrix, in panels."""

    def __init__(self, W: Any, n_panels: int = 16) -> None:
        self.W, self.n, self.dtype = W, W.shape[0], W.dtype
        self.diagonal, self.norm = diagonal_of(W), squared_norm(W)
        self.panels = panels(self.n, n_panels)

    def part(self, rows: np.ndarray) -> Explicit:
        """The similarities among the given objects."""
        if isinstance(self.W, np.ndarray):
            return Explicit(self.W[np.ix_(rows, rows)])
        xp = namespace(self.W)
        chosen = xp.asarray(rows, device=device(self.W))
        return Explicit(xp.take(xp.take(self.W, chosen, axis=0), chosen, axis=1))

    def __matmul__(self, V: Array) -> Any:
        return self.W @ V

    def sweep(self, V: Array, visit: Any) -> tuple[Any, Any]:
        """Visit the panels of ``V`` (n, c) in order, with the newest values; t (c,) before and
        after.

        ``visit(rows, product)`` gets the current (W V)[rows] and returns the change of V[rows],
        which is then applied.
        """
        t_old, t_change = 0.0, 0.0
        for rows in self.panels:
            W, old = self.W[rows, :], V[rows, ...]
            before, within, after = W[:, : rows.start], W[:, rows], W[:, rows.stop :]
            forward, inside = after @ V[rows.stop :, ...], within @ old
            t_old = t_old + 2 * columns(old, forward) + columns(old, inside)
            product = forward + inside
            if rows.start:
                product += before @ V[: rows.start, ...]
            change = visit(rows, product)
            t_change = t_change + 2 * columns(change, product) + columns(change, within @ change)
            V[rows, ...] += change
        return t_old, t_old + t_change


class Low:
    """W = F F', represented by its factor F (n, d), dense or CSR."""

    def __init__(self, factor: Any) -> None:
        self.factor, self.n, self.dtype = factor, factor.shape[0], factor.dtype
        if sp.issparse(factor):
            self.diagonal = np.asarray(factor.multiply(factor).sum(axis=1)).ravel()
        else:
            self.diagonal = namespace(factor).sum(factor * factor, axis=1)
        self.norm = squared_norm(self)

    def part(self, rows: np.ndarray) -> Low:
        """The similarities among the given objects."""
        return Low(np.asarray(self.factor)[rows, :])

    def __matmul__(self, V: Array) -> Any:
        return self.factor @ (self.factor.T @ V)

    def sweep(self, V: Array, visit: Any) -> tuple[Any, Any]:
        """Same as ``Explicit.sweep``; t is |F'V|^2, and F'V is updated along the way."""
        M = self.factor.T @ V
        t_old = columns(M, M)
        for rows in panels(self.n):
            F = self.factor[rows, :]
            change = visit(rows, F @ M)
            V[rows, ...] += change
            M += F.T @ change
        return t_old, columns(M, M)


class Implicit:
    """Any operator that multiplies."""

    def __init__(self, W: Similarity) -> None:
        self.W, self.n, self.dtype = W, W.shape[0], dtype_of(W)
        self.diagonal, self.norm = diagonal_of(W).astype(self.dtype), squared_norm(W)

    def __matmul__(self, V: Array) -> Any:
        return np.asarray(self.W @ V)


def panels(n: int, n_panels: int = 16) -> list[slice]:
    """Rows of each of about ``n_panels`` panels."""
    # With fewer than 24 rows, calls cost more than arithmetic.
    size = max(-(-n // n_panels), min(n, 24))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def columns(A: Array, B: Array) -> Any:
    """Column-wise <A, B> in float64, as a NumPy array: (n, c) and (n, c) give (c,)."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->j", A, B, dtype=np.float64)
    xp = namespace(A, B)
    return to_numpy(xp.sum(xp.astype(A, xp.float64) * xp.astype(B, xp.float64), axis=0))


def takes(W: Any) -> bool:
    """Whether single rows of a similarity can be accessed."""
    matrix = getattr(W, "factor", getattr(W, "W", None))
    return isinstance(W, (Explicit, Low)) and (sp.issparse(matrix) or is_numpy(matrix))


def descend(problem: Any, origin: np.ndarray, scale: Array, damping: Array) -> tuple[Any, Any]:
    """Memberships (n, r, k) after a sweep row by row, and t and q (r,) before and after."""
    own = own_terms(problem) if problem.own is None else problem.own
    held = np.zeros(len(origin), dtype=bool) if problem.held is None else problem.held
    links, U = problem.linked, np.array(origin, dtype=np.float64, order="C")
    links = None if links is None else (links.data, links.indices, links.indptr)
    rows = native("sweep").Rows(U, own, held, links, scale, damping)
    left, q = rows.moments()
    t = _walk(problem.W, rows)
    rows.normalize()
    left_new, q_new = rows.moments()
    return U.astype(origin.dtype, copy=False), (t - left, q, t + rows.gained - left_new, q_new)


def _walk(W: Any, rows: Any) -> np.ndarray:
    """Visit every row; returns t over all pairs before the sweep, for every run."""
    sweep = native("sweep")
    if isinstance(W, Explicit):
        if sp.issparse(W.W):
            return sweep.walk_entries(*_entries(W.W), rows)
        row_wise = W.W.strides[1] == W.W.itemsize and W.W.dtype in (np.float32, np.float64)
        return sweep.walk_matrix(W.W if row_wise else np.ascontiguousarray(W.W, float), rows)
    M = np.ascontiguousarray(W.factor.T @ rows.weighted, dtype=np.float64)
    t = np.einsum("ij,ij->j", M, M).reshape(len(rows.gained), -1).sum(axis=1)
    if sp.issparse(W.factor):
        sweep.walk_sparse_factor(*_entries(W.factor), M, rows)
    else:
        single = W.factor.dtype == np.float32
        sweep.walk_factor(np.ascontiguousarray(W.factor, None if single else float), M, rows)
    return t


def _entries(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of the rows, their column indices, and row pointers."""
    matrix = matrix.tocsr()
    single = matrix.data.dtype == np.float32
    return np.asarray(matrix.data, None if single else float), matrix.indices, matrix.indptr


def own_terms(problem: Any) -> np.ndarray:
    """Numbers (n, 6) per object that a sweep by rows needs: weight, self pairs and their
    similarity, diagonal entry, excluded self pairs and their similarity.
    """
    n, full = problem.W.n, problem.W.diagonal
    v = np.ones(n) if problem.weights is None else np.asarray(problem.weights, dtype=np.float64)
    left, similarity = problem.self_pairs() if problem.exclude else (np.zeros(n), np.zeros(n))
    terms = (v, v - left, v * full - similarity, full, v * left, v * similarity)
    return np.stack(terms, axis=1).astype(np.float64)


class Pairs:
    """Similarities W (n, n) with weights Q (n, n), both dense and symmetric; ``held`` rows are
    fixed.
    """

    def __init__(self, W: np.ndarray, Q: np.ndarray, held: Any = None) -> None:
        self.n, self.dtype, self.held = W.shape[0], W.dtype, held
        self.Q, self.W = Q, Q * W
        self.diagonal = self.W.diagonal()
        self.norm = float(np.einsum("ij,ij->", self.W, W, dtype=np.float64))

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.W @ V

    def curvature(self, U: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """sum_j q_ij u_j u_j' of every row, (rows, k, k); ``U`` is (n, k)."""
        k = U.shape[1]
        products = (U[:, :, None] * U[:, None, :]).reshape(self.n, k * k)
        return (self.Q[rows] @ products).reshape(-1, k, k)

    def bent(self, U: np.ndarray) -> np.ndarray:
        """sum_j q_ij (u_i'u_j) u_j of every row of every run, (n, r, k)."""
        return np.stack([(self.Q * (V @ V.T)) @ V for V in np.moveaxis(U, 1, 0)], axis=1)

    def squares_of(self, U: np.ndarray) -> np.ndarray:
        """q = sum_ij q_ij (u_i'u_j)^2 of every run (r,)."""
        return np.einsum("nrk,nrk->r", U, self.bent(U), dtype=np.float64)

    def descend(self, origin: Any, scale: Any, damping: Any, exclude: bool) -> tuple[Any, Any]:
        """Memberships (n, r, k) after a sweep by panels, and t and q (r,) before and after it."""
        U = origin.copy()
        for run in range(U.shape[1]):
            self._sweep(U, run, float(scale[run]), float(damping[run]))
        U = simplex.normalize(np.where(U > simplex.TINY, U, 0.0))
        return U, (*self._moments(origin), *self._moments(U))

    def _moments(self, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        P = (self.W @ U.reshape(self.n, -1)).reshape(U.shape)
        return np.einsum("nrk,nrk->r", U, P, dtype=np.float64), self.squares_of(U)

    def _sweep(self, memberships: np.ndarray, run: int, a: float, damping: float) -> None:
        U = np.ascontiguousarray(memberships[:, run], dtype=np.float64)
        for rows in panels(self.n):
            old = U[rows]
            # The rows of a panel are updated together; a multiple of the identity bounds their own
            # terms.
            within = self.Q[rows, rows] @ np.einsum("ir,ir->i", old, old)
            bend = 3.0 * a * damping * float(within.max(initial=0.0))
            H = a * self.curvature(U, rows) + bend * np.eye(U.shape[1])
            new = simplex.quadratic_program(H, self.W[rows] @ U + bend * old)
            U[rows] = new if self.held is None else np.where(self.held[rows, None], old, new)
        memberships[:, run] = U
