"""The published consensus model on the raw observations, by sweeps over the table of labels.

O_b are the objects that partition b saw; x_ij^b says whether it put i and j together:

    f(U) = sum_b w_b  sum_{i != j in O_b} (x_ij^b - u_i'u_j)^2
            rows u_i on the simplex
         = const - 2 sum_b w_b (|H_b'U|^2 - sum_{O_b} |u_i|^2) + sum_b w_b (|U_b'U_b|^2 - sum_{O_b}
         |u_i|^4)

A pair counts as often as it was seen, so pairs that no partition saw together drop out. An object
of weight v counts as v copies: sums over objects are weighted, and v min(v, 1) of its v^2 pairs
with itself are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..array.arrays import native
from . import simplex
from .label_table import Table, each_block, gather, has_missing, scatter


class Moments(NamedTuple):
    """M = H'U, S = U'U, and for each partition the part of S from objects it did not see."""

    M: np.ndarray
    S: np.ndarray
    absent: np.ndarray


def moments(table: Table, U: np.ndarray) -> Moments:
    """Sums of U over clusters, over objects, and over objects unseen by each partition."""
    k = U.shape[1]
    absent = np.zeros((table.codes.shape[1] if has_missing(table) else 0, k, k))
    if len(absent):
        for part in each_block(table, lambda rows: _absent(table, rows, U[rows])):
            absent += part
    heavy = _heavy(table, U)
    return Moments(scatter(table, heavy), U.T @ heavy, absent)


def _heavy(table: Table, U: np.ndarray) -> np.ndarray:
    """Rows of U times the weights of their objects."""
    return U if table.mass is None else table.mass[:, None] * U


def _left_out(table: Table) -> np.ndarray:
    """Excluded self pairs, times the partitions that saw the object, (n,)."""
    own = table.coverage * table.own
    return own if table.mass is None else own * table.mass


def _absent(table: Table, rows: slice, U: np.ndarray) -> np.ndarray:
    """Sums of u u' (m, k, k) over the objects of a block that each partition did not see."""
    k = U.shape[1]
    heavy = U if table.mass is None else table.mass[rows, None] * U
    outer = (U[:, :, None] * heavy[:, None, :]).reshape(len(U), k * k)
    return ((~table.seen(rows)).T.astype(U.dtype) @ outer).reshape(-1, k, k)


def constant(table: Table) -> float:
    """Value of f without memberships: sum_b w_b times the number of pairs i != j that b joined."""
    cluster_sizes = scatter(table, _heavy(table, np.ones((len(table.codes), 1))))[:, 0]
    return float(table.column_weight @ cluster_sizes**2 - _left_out(table).sum())


def objective(
    table: Table, U: np.ndarray, sums: Moments | None = None, offset: float | None = None
) -> float:
    """The squared loss f(U) over all observations; ``offset`` is ``constant(table)``, if known."""
    M, S, absent = moments(table, U) if sums is None else sums
    norms = np.einsum("ir,ir->i", U, U)
    own = _left_out(table)
    together = table.column_weight @ np.einsum("cr,cr->c", M, M) - own @ norms
    squares = np.sum((S - absent) ** 2, axis=(1, 2)) if len(absent) else np.sum(S**2)
    offset = constant(table) if offset is None else offset
    return float(offset - 2.0 * together + np.sum(table.weights * squares) - own @ norms**2)


def brier_score(table: Table, U: np.ndarray) -> float:
    """Mean of (x_ij^b - u_i'u_j)^2 over all observations."""
    mass = np.ones(len(table.codes)) if table.mass is None else table.mass
    pairs = 0.0
    for b, weight in enumerate(table.weights):
        seen = table.codes[:, b] != table.unseen[b] - table.offsets[b]
        pairs += weight * (float(mass[seen].sum()) ** 2 - float((mass * table.own)[seen].sum()))
    return objective(table, U) / max(pairs, np.finfo(float).tiny)


def sweep(table: Table, U: np.ndarray, offset: float | None = None) -> tuple[np.ndarray, float]:
    """U after one Gauss-Seidel pass over the objects, and f; the argument is not changed."""
    U = U.copy()
    sums = moments(table, U)
    if table.mass is None:
        given = table.codes, table.offsets, table.weights, table.coverage
        native("labels").table_sweep(*given, U, *sums)
    else:
        size = -(-len(U) // 16)
        for start in range(0, len(U), size):
            sums = _panel(table, slice(start, min(start + size, len(U))), U, sums)
    np.copyto(U, simplex.normalize(np.where(U < simplex.TINY, 0.0, U)))
    return U, objective(table, U, sums, offset)


def _panel(table: Table, rows: slice, U: np.ndarray, sums: Moments) -> Moments:
    """Update the objects of a panel at once, by a quadratic majoriser of f/4 near U."""
    part, old = table.objects(rows), U[rows].copy()
    M, S, absent = sums
    k, total, coverage = U.shape[1], table.weights.sum(), part.coverage[:, None]
    norms = np.einsum("ir,ir->i", old, old)[:, None]
    own = coverage * part.own[:, None]
    gradient = coverage * (old @ S) - own * norms * old - gather(part, M) + own * old
    curvature = total * S
    if len(absent):
        seen = part.seen() * table.weights
        gradient -= np.einsum("ib,is,bsr->ir", seen, old, absent, optimize=True)
        curvature = curvature - np.einsum("b,brs->rs", table.weights, absent)
    inside = np.linalg.eigvalsh(old.T @ _heavy(part, old))[-1]
    curvature = curvature + total * (2.0 * inside + 1.0) * np.eye(k)
    new = simplex.pair_steps(curvature, gradient, old.copy(), max(1, k // 2))
    U[rows] = new = simplex.normalize(np.clip(new, 0.0, None))
    if len(absent):
        absent = absent + _absent(part, slice(None), new) - _absent(part, slice(None), old)
    S = S + new.T @ _heavy(part, new) - old.T @ _heavy(part, old)
    return Moments(M + scatter(part, _heavy(part, new - old)), S, absent)


def place(new: Table, sums: Moments) -> np.ndarray:
    """Memberships of new objects that minimise f, with the fitted ones fixed."""
    M, S, absent = sums
    B = gather(new, M)
    if not len(absent):
        coverage = np.where(new.coverage > 0, new.coverage, 1.0)[:, None]
        return simplex.quadratic_program(S, B / coverage)
    k, seen = S.shape[0], new.seen() * new.weights
    U, size = np.empty_like(B), max(1, 2**20 // k**2)  # one matrix per object, so few at a time
    for start in range(0, len(B), size):
        rows = slice(start, start + size)
        H = new.coverage[rows, None, None] * S
        H -= (seen[rows] @ absent.reshape(len(absent), -1)).reshape(H.shape)
        U[rows] = simplex.quadratic_program(H, B[rows])
    return U
