"""Sweeps of the pairwise model by panels of rows, if single rows cannot be accessed: for arrays of
other libraries, blocks on a cluster, operators (one panel of all rows), and weights of pairs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...array.arrays import device, namespace
from ...array.types import Array
from ...numerics import simplex
from . import kernel
from .kernel import (
    Explicit,
    Implicit,
    Low,
    Problem,
    State,
    columns,
    gram,
    moments,
    on,
    own_slope,
    runs,
    times,
    weighted,
)


def step(problem: Problem, state: State) -> tuple[State, Any]:
    """A sweep by panels, or that of the evidence; runs that would rise stay, with more damping."""
    return kernel.coordinate_step(problem, state, descend)


def descend(problem: Problem, origin: Any, scale: Any, damping: Any) -> tuple[Any, Any]:
    """Memberships (n, r, k) after a sweep, and t and q (r,) before and after."""
    if hasattr(problem.W, "descend"):
        return problem.W.descend(origin, scale, damping, problem.exclude)
    xp = namespace(origin)
    U, weights = xp.asarray(origin, copy=True), problem.weights
    shape = U.shape
    S = gram(U, weights)
    S_old = xp.asarray(S, copy=True)
    scale, damping = on(U, scale), on(U, damping)

    def visit(rows: slice, product: Any) -> Any:
        nonlocal S
        old, part = U[rows, ...], None if weights is None else weights[rows]
        S_panel = gram(old, part)
        product = xp.reshape(product, old.shape)
        if problem.linked is not None:
            links = xp.reshape(problem.linked[rows, :] @ weighted(problem, U), old.shape)
            product = product + links / xp.clip(scale, min=1e-150)[None, :, None]
        new = _panel(problem, rows, old, product, S, S_panel, scale, damping)
        if problem.held is not None:
            new = xp.where(problem.held[rows][:, None, None], old, new)
        S += gram(new, part) - S_panel
        change = xp.reshape(new - old, (old.shape[0], -1))
        if part is None:
            return change
        U[rows, ...] = new
        return change * part[:, None]

    sweep = getattr(problem.W, "sweep", None)
    if sweep is None:
        forms: dict[type, Any] = {Low: _of_factor, Implicit: _of_operator}
        sweep = partial(forms.get(type(problem.W), _of_matrix), problem.W)
    t_old, t_new = (runs(t, shape) for t in sweep(weighted(problem, U), visit))
    U = simplex.normalize(xp.where(U > simplex.TINY, U, xp.zeros_like(U)))
    return U, (*moments(problem, origin, S_old, t_old), *moments(problem, U, S, t_new))


def _panel(
    problem: Problem, rows: slice, old: Any, product: Array, S: Array, S_panel: Any, *runs: Array
) -> Any:
    """New memberships of a panel after k / 2 pair steps.

    The terms within the panel are majorised; all others are exact. ``runs`` holds the scales and
    the damping.
    """
    xp = namespace(old)
    k, dtype = old.shape[2], old.dtype
    a, damping = (part[:, None, None] for part in runs)
    # The smallest safe factor for a panel; for all rows at once, the damping finds a smaller one.
    bound = 1.0 if old.shape[0] == problem.W.n else 3.0
    curvature = xp.max(xp.sum(S_panel, axis=2), axis=1)[:, None, None] * bound * a * damping
    identity = xp.eye(k, dtype=xp.float64, device=device(old))
    H = xp.astype(a * (S - S_panel) + curvature * identity, dtype)
    gradient = times(old, a * S) - product
    if problem.exclude:
        gradient += own_slope(problem, rows, old, xp.astype(runs[0], dtype)) * old
    new = xp.reshape(xp.asarray(old, copy=True), (-1, k))
    new = simplex.pair_steps(H, xp.reshape(gradient, (-1, k)), new, (k + 1) // 2)
    return xp.reshape(new, old.shape)


def _of_matrix(W: Explicit, V: Array, visit: Any) -> tuple[Any, Any]:
    """Visit the panels of ``V`` (n, c) in order, with the newest values; t (c,) before and after.

    ``visit(rows, product)`` gets the current (W V)[rows] and returns the change of V[rows], which
    is then applied.
    """
    t_old, t_change = 0.0, 0.0
    for rows in getattr(W, "panels", None) or panels(W.n):
        strip, old = W.W[rows, :], V[rows, ...]
        before, within, after = strip[:, : rows.start], strip[:, rows], strip[:, rows.stop :]
        forward, inside = after @ V[rows.stop :, ...], within @ old
        t_old = t_old + 2 * columns(old, forward) + columns(old, inside)
        product = forward + inside
        if rows.start:
            product += before @ V[: rows.start, ...]
        change = visit(rows, product)
        t_change = t_change + 2 * columns(change, product) + columns(change, within @ change)
        V[rows, ...] += change
    return t_old, t_old + t_change


def _of_factor(W: Low, V: Array, visit: Any) -> tuple[Any, Any]:
    """The same as ``_of_matrix``; t is |F'V|^2, and F'V is updated along the way."""
    M = W.factor.T @ V
    t_old = columns(M, M)
    for rows in panels(W.n):
        F = W.factor[rows, :]
        change = visit(rows, F @ M)
        V[rows, ...] += change
        M += F.T @ change
    return t_old, columns(M, M)


def _of_operator(W: Implicit, V: Array, visit: Any) -> tuple[Any, Any]:
    """The same for an operator, whose rows cannot be accessed: all rows are one panel."""
    product = W @ V
    t_old = columns(V, product)
    change = visit(slice(0, W.n), product)
    V += change
    return t_old, columns(V, W @ V)


def panels(n: int, n_panels: int = 16) -> list[slice]:
    """Rows of each of about ``n_panels`` panels."""
    # With fewer than 24 rows, calls cost more than arithmetic.
    size = max(-(-n // n_panels), min(n, 24))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class Pairs:
    """Similarities W (n, n) with weights Q (n, n), dense and symmetric; ``held`` rows are fixed."""

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
