"""Pairwise probabilistic clustering (Rota Bulo and Pelillo 2010).

    f(U, a) = sum_ij m_ij (w_ij - a u_i'u_j)^2      rows u_i on the simplex, a > 0, m_ii = 1 or 0, m_ij = 1

With S = U'U, t = <U, W U> and q = |S|^2 (each without its diagonal terms if m_ii = 0):  f = |W|^2 - 2 a t + a^2 q.

Several runs share every pass over W: U is (n, r, k), scalars are (r,). A similarity comes as one of

* ``Explicit``: rows of a matrix, dense or sparse;   * ``Low``: W = F F', only F is kept;   * ``Implicit``: anything that multiplies.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...core.arrays import device, namespace, to_numpy
from ...numerics import simplex

__all__ = [
    "Explicit",
    "Implicit",
    "Low",
    "Problem",
    "State",
    "baum_eagon_step",
    "combine",
    "coordinate_step",
    "kkt_residual",
    "panels",
    "select",
    "start",
]

N_PANELS = 16
SMALLEST = 24  # rows of a panel: below it, calls cost more than arithmetic


class Problem(NamedTuple):
    """A similarity and how it is fitted: ``exclude`` leaves out the diagonal, ``scale`` is a number or None to fit it."""

    W: Any
    exclude: bool
    scale: float | None


class State(NamedTuple):
    """Memberships (n, r, k), the scale (r,), the factor by which a panel's curvature is raised (r,) and, where kept, W U."""

    U: Any
    scale: Any
    damping: Any
    product: Any = None


# ---- similarities as the sweeps want them ------------------------------------------------------------------------------


class Explicit:
    """Rows of a matrix in panels; each panel knows its columns before, within and after itself."""

    def __init__(self, W: Any, n_panels: int = N_PANELS) -> None:
        self.W, self.n, self.dtype = W, W.shape[0], W.dtype
        xp = namespace(W)
        sparse = sp.issparse(W)
        self.diagonal = W.diagonal() if sparse else xp.linalg.diagonal(W)
        self.norm = (
            float(W.data @ W.data)
            if sparse
            else sum(_dot(W[rows, :], W[rows, :]) for rows in panels(self.n, n_panels))
        )
        self.diagonal_norm = _dot(self.diagonal, self.diagonal)
        self.panels = panels(self.n, n_panels)
        self.parts = [self._split(rows) for rows in self.panels]

    def _split(self, rows: slice) -> tuple[Any, Any, Any]:
        W = self.W[rows, :]
        return W[:, : rows.start], W[:, rows], W[:, rows.stop :]

    def __matmul__(self, V: Any) -> Any:
        return self.W @ V

    def sweep(self, V: Any, visit: Any) -> tuple[Any, Any]:
        """Visit the panels of ``V`` (n, c) in order, newest values first; t before and after, a column each.

        ``visit(rows, product)`` returns the change of V[rows], given (W V)[rows] at this moment, and the change is made.
        """
        t_old, t_change = 0.0, 0.0
        for rows, (before, within, after) in zip(self.panels, self.parts, strict=True):
            old = V[rows, ...]
            forward, inside = after @ V[rows.stop :, ...], within @ old
            t_old = t_old + 2 * _columns(old, forward) + _columns(old, inside)
            product = forward + inside
            if rows.start:
                product += before @ V[: rows.start, ...]
            change = visit(rows, product)
            t_change = t_change + 2 * _columns(change, product) + _columns(change, within @ change)
            V[rows, ...] += change
        return t_old, t_old + t_change


class Low:
    """W = F F' through its factor F (n, d), dense or CSR; M = F'V is kept up to date, so a panel costs its own rows only."""

    def __init__(self, factor: Any, n_panels: int = N_PANELS) -> None:
        self.factor, self.n, self.dtype = factor, factor.shape[0], factor.dtype
        self.panels = panels(self.n, n_panels)
        self.parts = [factor[rows, :] for rows in self.panels]
        if sp.issparse(factor):
            self.diagonal = np.asarray(factor.multiply(factor).sum(axis=1)).ravel()
            gram = (factor.T @ factor).data
        else:
            xp = namespace(factor)
            self.diagonal = xp.sum(factor * factor, axis=1)
            gram = factor.T @ factor
        self.norm, self.diagonal_norm = _dot(gram, gram), _dot(self.diagonal, self.diagonal)

    def __matmul__(self, V: Any) -> Any:
        return self.factor @ (self.factor.T @ V)

    def sweep(self, V: Any, visit: Any) -> tuple[Any, Any]:
        """As ``Explicit.sweep``; t is |F'V|^2."""
        M = self.factor.T @ V
        t_old = _columns(M, M)
        for rows, F in zip(self.panels, self.parts, strict=True):
            change = visit(rows, F @ M)
            V[rows, ...] += change
            M += F.T @ change
        return t_old, _columns(M, M)


class Implicit:
    """Anything that multiplies. Its diagonal and norm are asked for, or else read off products with blocks of the identity."""

    def __init__(self, W: Any, block: int = 256) -> None:
        self.W, self.n, self.dtype = (
            W,
            W.shape[0],
            np.dtype(getattr(W, "dtype", None) or np.float64),
        )
        diagonal, norm = np.empty(self.n), 0.0
        for start in range(0, self.n, block):
            stop = min(start + block, self.n)
            columns = np.asarray(W @ np.eye(self.n, stop - start, -start, dtype=self.dtype))
            diagonal[start:stop] = columns[np.arange(start, stop), np.arange(stop - start)]
            norm += _dot(columns, columns)
        self.diagonal, self.norm, self.diagonal_norm = (
            diagonal.astype(self.dtype),
            norm,
            float(diagonal @ diagonal),
        )

    def __matmul__(self, V: Any) -> Any:
        return np.asarray(self.W @ V)


def panels(n: int, n_panels: int) -> list[slice]:
    """Rows of each of about ``n_panels`` panels."""
    size = max(-(-n // n_panels), min(n, SMALLEST))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _dot(A: Any, B: Any) -> float:
    """<A, B> added up in float64."""
    xp = namespace(A, B)
    return float(xp.sum(xp.sum(A * B, axis=-1), dtype=xp.float64))


def _columns(A: Any, B: Any) -> Any:
    """Column-wise <A, B> added up in float64, as NumPy: (n, c) and (n, c) give (c,)."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->j", A, B, dtype=np.float64)
    xp = namespace(A, B)
    return to_numpy(xp.sum(xp.astype(A, xp.float64) * xp.astype(B, xp.float64), axis=0))


# ---- the objective -----------------------------------------------------------------------------------------------------


def gram(U: Any) -> Any:
    """S = U'U of every run, (r, k, k) in float64."""
    xp = namespace(U)
    V = xp.permute_dims(U, (1, 0, 2))
    return xp.astype(xp.matrix_transpose(V) @ V, xp.float64)


def _times(U: Any, S: Any) -> Any:
    """U_r S_r for every run r, (n, r, k)."""
    xp = namespace(U)
    return xp.permute_dims(xp.permute_dims(U, (1, 0, 2)) @ xp.astype(S, U.dtype), (1, 0, 2))


def fitted_scale(problem: Problem, t: Any, q: Any) -> Any:
    """a = t / q, or the fixed scale, for every run."""
    if problem.scale is not None:
        return np.full_like(t, problem.scale)
    return np.maximum(t / np.maximum(q, np.finfo(float).tiny), 0.0)


def moments(problem: Problem, U: Any, S: Any, t: Any) -> tuple[Any, Any]:
    """t and q with the diagonal terms taken off if the problem excludes them; ``t`` counts every pair."""
    xp = namespace(U)
    q = to_numpy(xp.sum(S * S, axis=(1, 2)))
    if problem.exclude:
        square = xp.astype(xp.sum(U * U, axis=2), xp.float64)
        t = t - to_numpy(xp.astype(problem.W.diagonal, xp.float64) @ square)
        q = q - to_numpy(xp.sum(square * square, axis=0))
    return t, np.maximum(q, 0.0)


def squared_norm(problem: Problem) -> float:
    """|W|^2, without the diagonal if the problem excludes it."""
    return problem.W.norm - (problem.W.diagonal_norm if problem.exclude else 0.0)


def objective(t: Any, q: Any, norm: float, scale: Any) -> Any:
    """f = |W|^2 - 2 a t + a^2 q for every run."""
    return np.maximum(norm - 2 * scale * t + scale**2 * q, 0.0)


def start(problem: Problem, U: Any) -> State:
    """The state of memberships (n, r, k), by one product."""
    P = namespace(U).reshape(problem.W @ _flat(U), U.shape)
    t = _runs(_columns(_flat(U), _flat(P)), U.shape)
    t, q = moments(problem, U, gram(U), t)
    return State(U, fitted_scale(problem, t, q), np.ones(U.shape[1]), P)


def _on(U: Any, values: Any) -> Any:
    """Numbers of the runs in the library and on the device of ``U``."""
    return namespace(U).asarray(np.array(values), device=device(U))


def _flat(U: Any) -> Any:
    return namespace(U).reshape(U, (U.shape[0], -1))


def _runs(values: Any, shape: tuple[int, ...]) -> Any:
    """Sums over the columns of each run."""
    return values.reshape(shape[1], shape[2]).sum(axis=1)


# ---- coordinate descent by panels --------------------------------------------------------------------------------------


def coordinate_step(problem: Problem, state: State) -> tuple[State, Any]:
    """One panel Gauss-Seidel sweep; a run whose objective would rise stays where it was, with more damping."""
    origin, scale, damping, _ = state
    descend = problem.W.descend if hasattr(problem.W, "descend") else partial(_descend, problem)
    U, (t_old, q_old, t_new, q_new) = descend(origin, scale, damping, problem.exclude)
    norm = squared_norm(problem)
    scale_old, scale_new = fitted_scale(problem, t_old, q_old), fitted_scale(problem, t_new, q_new)
    f_old, f_new = (
        objective(t_old, q_old, norm, scale_old),
        objective(t_new, q_new, norm, scale_new),
    )
    good = f_new <= f_old
    moved = State(U, scale_new, np.maximum(1.0, damping / 1.5))
    if good.all():
        return moved, f_new
    stayed = State(origin, scale_old, damping * 2)
    return select(good, moved, stayed), np.where(good, f_new, f_old)


def _descend(
    problem: Problem, origin: Any, scale: Any, damping: Any, exclude: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Memberships (n, r, k) after a sweep, and t and q (r,) before and after it."""
    xp = namespace(origin)
    U = xp.asarray(origin, copy=True)
    shape = U.shape
    S = gram(U)
    S_old = xp.asarray(S, copy=True)
    scale, damping = _on(U, scale), _on(U, damping)

    def visit(rows: slice, product: Any) -> Any:
        nonlocal S
        old = U[rows, ...]
        S_panel = gram(old)
        new = _panel(problem, rows, old, xp.reshape(product, old.shape), S, S_panel, scale, damping)
        S += gram(new) - S_panel
        return xp.reshape(new - old, product.shape)

    t_old, t_new = (_runs(t, shape) for t in problem.W.sweep(_flat(U), visit))
    U = simplex.normalize(xp.where(U > simplex.TINY, U, xp.zeros_like(U)))
    return U, (*moments(problem, origin, S_old, t_old), *moments(problem, U, S, t_new))


def _panel(
    problem: Problem,
    rows: slice,
    old: Any,
    product: Any,
    S: Any,
    S_panel: Any,
    scale: Any,
    damping: Any,
) -> Any:
    """New memberships of a panel: a majoriser of its own terms, an exact quadratic for all others, k / 2 pair steps."""
    xp = namespace(old)
    k, dtype = old.shape[2], old.dtype
    a, damping = scale[:, None, None], damping[:, None, None]
    curvature = xp.max(xp.sum(S_panel, axis=2), axis=1)[:, None, None] * 3.0 * a * damping
    H = xp.astype(
        a * (S - S_panel) + curvature * xp.eye(k, dtype=xp.float64, device=device(old)), dtype
    )
    gradient = _times(old, a * S) - product
    if problem.exclude:
        own = problem.W.diagonal[rows][:, None] - xp.astype(scale, dtype)[None, :] * xp.sum(
            old * old, axis=2
        )
        gradient += own[:, :, None] * old
    new = xp.reshape(xp.asarray(old, copy=True), (-1, k))
    return xp.reshape(
        simplex.pair_steps(H, xp.reshape(gradient, (-1, k)), new, (k + 1) // 2), old.shape
    )


def combine(current: State, previous: State, momentum: Any) -> State:
    """Extrapolated memberships, clipped to the simplex."""
    xp = namespace(current.U)
    beta = xp.astype(
        _on(current.U, np.broadcast_to(momentum, current.U.shape[1:2])), current.U.dtype
    )[None, :, None]
    U = current.U + beta * (current.U - previous.U)
    return current._replace(U=simplex.normalize(xp.clip(U, min=0.0)), product=None)


def select(mask: Any, one: State, other: State) -> State:
    """Runs of ``one`` where the mask holds, of ``other`` elsewhere."""
    xp = namespace(one.U)
    where = _on(one.U, mask)
    return State(
        xp.where(where[None, :, None], one.U, other.U),
        np.where(mask, one.scale, other.scale),
        np.where(mask, one.damping, other.damping),
    )


# ---- the published rule ------------------------------------------------------------------------------------------------


def baum_eagon_step(problem: Problem, state: State) -> tuple[State, Any]:
    """u_ir <- u_ir (a n + [W U - a U S]_ir), each row divided by its actual sum (Baum and Eagon 1967)."""
    xp = namespace(state.U)
    U, n = state.U, state.U.shape[0]
    a = xp.astype(_on(U, state.scale), U.dtype)[None, :, None]
    R = state.product - a * _times(U, gram(U))
    if problem.exclude:
        own = problem.W.diagonal[:, None, None] - a * xp.sum(U * U, axis=2, keepdims=True)
        R = R - own * U
    U = simplex.normalize(U * xp.clip(a * (n - problem.exclude) + R, min=0.0))
    moved = start(problem, U)
    t, q = moments(problem, U, gram(U), _runs(_columns(_flat(U), _flat(moved.product)), U.shape))
    return moved, objective(t, q, squared_norm(problem), moved.scale)


def kkt_residual(problem: Problem, state: State) -> Any:
    """Largest  max_{used} g - min g  over the rows of each run, relative to the largest |W U|; zero at a stationary point."""
    xp = namespace(state.U)
    U = state.U
    P = start(problem, U).product if state.product is None else state.product
    a = xp.astype(_on(U, state.scale), U.dtype)[None, :, None]
    gradient = a * _times(U, gram(U)) - P
    if problem.exclude:
        gradient += (
            problem.W.diagonal[:, None, None] - a * xp.sum(U * U, axis=2, keepdims=True)
        ) * U
    slack = xp.sum(U * (gradient - xp.min(gradient, axis=2, keepdims=True)), axis=2)
    size = xp.max(xp.abs(P))
    return to_numpy(xp.max(slack, axis=0)) / max(float(size), np.finfo(float).tiny)
