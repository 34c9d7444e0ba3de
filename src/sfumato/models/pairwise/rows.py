"""Sweeps row by row, of similarities in NumPy or SciPy: a matrix, a sparse one, or a factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import is_numpy, native
from ...array.types import Array
from .evidence import Explicit, Low

__all__ = ["descend", "own_terms", "takes"]


def takes(W: Any) -> bool:
    """Whether the rows of a similarity are at hand."""
    if not isinstance(W, (Explicit, Low)):
        return False
    matrix = W.factor if isinstance(W, Low) else W.W
    return sp.issparse(matrix) or is_numpy(matrix)


def descend(problem: Any, origin: np.ndarray, scale: Array, damping: Array) -> tuple[Any, Any]:
    """Memberships (n, r, k) after a sweep row by row, and the moments t and q (r,) of
    ``kernel.moments`` before and after.
    """
    n = len(origin)
    own = own_terms(problem) if problem.own is None else problem.own
    held = np.zeros(n, dtype=bool) if problem.held is None else problem.held
    links, U = problem.linked, np.array(origin, dtype=np.float64, order="C")
    links = None if links is None else (links.data, links.indices, links.indptr)
    rows = native("sweep").Rows(U, own, held, links, scale, damping)
    left, q = rows.moments()
    t = _walk(problem.W, rows)
    rows.normalize()
    left_new, q_new = rows.moments()
    return U.astype(origin.dtype, copy=False), (t - left, q, t + rows.gained - left_new, q_new)


def _walk(W: Any, rows: Any) -> np.ndarray:
    """Visit every row; t of all pairs before, for every run."""
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
    """Entries of the rows, their columns, and where rows begin."""
    matrix = matrix.tocsr()
    single = matrix.data.dtype == np.float32
    return np.asarray(matrix.data, None if single else float), matrix.indices, matrix.indptr


def own_terms(problem: Any) -> np.ndarray:
    """The weight of every object, its pairs with itself and their similarity, the diagonal entry,
    and the weighted self pairs left out and their similarity, (n, 6).
    """
    n = problem.W.n
    v = np.ones(n) if problem.weights is None else np.asarray(problem.weights, dtype=np.float64)
    left, similarity = problem.self_pairs() if problem.exclude else (np.zeros(n), np.zeros(n))
    full = problem.W.diagonal
    own = np.empty((n, 6))
    columns = (v, v - left, v * full - similarity, full, v * left, v * similarity)
    for c, column in enumerate(columns):
        own[:, c] = column
    return own
