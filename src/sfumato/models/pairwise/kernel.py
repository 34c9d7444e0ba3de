"""Pairwise probabilistic clustering (Rota Bulo and Pelillo 2010).

    f(U, a) = sum_ij m_ij (w_ij - a u_i'u_j)^2
            rows u_i on the simplex, a > 0, m_ii = 1 or 0, m_ij = 1

With S = U'U, t = <U, W U> and q = |S|^2 (each without its diagonal terms if m_ii = 0): f = |W|^2 -
2 a t + a^2 q. An object of weight v counts as v copies: m_ij = v_i v_j and, without the diagonal,
m_ii = v_i (v_i - 1) for the pairs among its copies (0 if v_i < 1). Then S = U'VU and t = <VU, W
VU>.

Several runs share every pass over W: U is (n, r, k), and scalars are (r,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.arrays import device, is_numpy, namespace, native, to_numpy
from ...array.types import Array, ArrayLike, Similarity, Weights
from ...engine import loop
from ...numerics import operators, simplex
from ...numerics.operators import diagonal_of, dtype_of


class Explicit:
    """A matrix, dense or sparse."""

    def __init__(self, W: Any) -> None:
        self.W, self.n, self.dtype = W, W.shape[0], W.dtype
        self.diagonal, self.norm = diagonal_of(W), operators.squared_norm(W)

    def part(self, rows: np.ndarray) -> Explicit:
        """The similarities among the given objects."""
        if isinstance(self.W, np.ndarray):
            return Explicit(self.W[np.ix_(rows, rows)])
        xp = namespace(self.W)
        chosen = xp.asarray(rows, device=device(self.W))
        return Explicit(xp.take(xp.take(self.W, chosen, axis=0), chosen, axis=1))

    def __matmul__(self, V: Array) -> Any:
        return self.W @ V


class Low:
    """W = F F', represented by its factor F (n, d), dense or CSR."""

    def __init__(self, factor: Any) -> None:
        self.factor, self.n, self.dtype = factor, factor.shape[0], factor.dtype
        if sp.issparse(factor):
            self.diagonal = np.asarray(factor.multiply(factor).sum(axis=1)).ravel()
        else:
            self.diagonal = namespace(factor).sum(factor * factor, axis=1)
        self.norm = operators.squared_norm(self)

    def part(self, rows: np.ndarray) -> Low:
        """The similarities among the given objects."""
        return Low(np.asarray(self.factor)[rows, :])

    def __matmul__(self, V: Array) -> Any:
        return self.factor @ (self.factor.T @ V)


class Implicit:
    """Any operator that multiplies."""

    def __init__(self, W: Similarity) -> None:
        self.W, self.n, self.dtype = W, W.shape[0], dtype_of(W)
        self.diagonal, self.norm = diagonal_of(W).astype(self.dtype), operators.squared_norm(W)

    def __matmul__(self, V: Array) -> Any:
        return np.asarray(self.W @ V)


@dataclass(frozen=True, eq=False)
class Problem:
    """A similarity, and the settings of the fit. ``exclude`` leaves out the diagonal, ``scale`` is
    a number or None to fit it. ``weights`` (n,) belong to the objects; rows where ``held`` (n,) is
    True keep their memberships. For merged objects, whose members share one row, ``left`` holds the
    excluded self pairs per unit of weight (n,), and their similarities (n,). The sparse matrix
    ``linked`` (n, n) pulls objects together (positive) or apart: the objective is f - 2 <VU, linked
    VU>, so that links do not change the scale."""

    W: Any
    exclude: bool
    scale: float | None
    weights: Any = None
    held: Any = None
    left: tuple[Any, Any] | None = None
    linked: Any = None

    @property
    def total(self) -> float:
        """Total weight of the objects."""
        return float(self.W.n if self.weights is None else self.weights.sum())

    def self_pairs(self) -> tuple[Any, Any]:
        """Excluded self pairs per unit of weight (n,), and their similarities (n,)."""
        if self.left is not None:
            return self.left
        diagonal = self.W.diagonal
        if self.weights is None:
            return namespace(diagonal).ones_like(diagonal), diagonal
        left = namespace(diagonal).clip(self.weights, max=1.0)
        return left, left * diagonal

    @cached_property
    def square(self) -> float:
        """|W|^2 weighted by pairs, without the diagonal if the problem excludes it."""
        W, v = self.W, self.weights
        total = W.norm if v is None else operators.squared_norm(getattr(W, "W", W), v, v)
        if self.exclude:
            xp, similarity = namespace(W.diagonal), self.self_pairs()[1]
            own = (W.diagonal if v is None else v * similarity) * W.diagonal
            total -= float(xp.sum(own, dtype=xp.float64))
        return max(0.0, total)

    @cached_property
    def own(self) -> np.ndarray:
        """Numbers (n, 6) per object that a sweep by rows needs: weight, self pairs and their
        similarity, diagonal entry, excluded self pairs and their similarity."""
        n, full = self.W.n, self.W.diagonal
        v = np.ones(n) if self.weights is None else np.asarray(self.weights, dtype=np.float64)
        left, similarity = self.self_pairs() if self.exclude else (np.zeros(n), np.zeros(n))
        terms = (v, v - left, v * full - similarity, full, v * left, v * similarity)
        return np.stack(terms, axis=1).astype(np.float64)


class State(NamedTuple):
    """Memberships (n, r, k), scale (r,), damping of panel steps (r,), and W U if kept."""

    U: Any
    scale: Any
    damping: Any
    product: Any = None


def as_evidence(W: Any) -> Any:
    """The similarity in the form that its solver needs."""
    if hasattr(W, "panels"):
        return W
    if hasattr(W, "factor"):
        return Low(W.factor)
    if isinstance(W, np.ndarray) or sp.issparse(W) or not is_numpy(W):
        return Explicit(W)
    return Implicit(W)


def gram(U: Array, weights: Weights = None) -> Any:
    """S = U'VU of every run, (r, k, k) in float64."""
    xp = namespace(U)
    V = xp.permute_dims(U, (1, 0, 2))
    right = V if weights is None else V * weights[None, :, None]
    return xp.astype(xp.matrix_transpose(V) @ right, xp.float64)


def times(U: Array, S: Array) -> Any:
    """U_r S_r for every run r, (n, r, k)."""
    xp = namespace(U)
    return xp.permute_dims(xp.permute_dims(U, (1, 0, 2)) @ xp.astype(S, U.dtype), (1, 0, 2))


def weighted(problem: Problem, U: Array) -> Any:
    """V U with all runs side by side, (n, r k), ready for products with similarities."""
    flat = _flat(U)
    return flat if problem.weights is None else flat * problem.weights[:, None]


def fitted_scale(problem: Problem, t: Array, q: Array) -> Any:
    """The scale of every run: a = t / q, or the fixed one. If no two objects share a cluster, every
    scale fits equally well; then it is the root mean square similarity."""
    if problem.scale is not None:
        return np.full_like(t, problem.scale)
    shared = q > 1e-24 * problem.total**2  # smaller mean squares are rounding errors
    fitted = np.maximum(t / np.where(shared, q, 1.0), 0.0)
    if shared.all():
        return fitted
    return np.where(shared, fitted, problem.square**0.5 / max(problem.total, 1.0))


def moments(problem: Problem, U: Array, S: Array, t: Array) -> tuple[Any, Any]:
    """The sums t and q over the pairs that count: ``t`` is given over all pairs, and terms of the
    diagonal are subtracted if the problem excludes them."""
    xp = namespace(U)
    if hasattr(problem.W, "squares_of"):
        return t, problem.W.squares_of(U)
    q = to_numpy(xp.sum(S * S, axis=(1, 2)))
    if problem.exclude:
        square = xp.astype(xp.sum(U * U, axis=2), xp.float64)
        left, similarity = (xp.astype(part, xp.float64) for part in problem.self_pairs())
        if problem.weights is not None:
            left, similarity = left * problem.weights, similarity * problem.weights
        t = t - to_numpy(similarity @ square)
        q = q - to_numpy(left @ (square * square))
    return t, np.maximum(q, 0.0)


def explained(problem: Problem, objective: float, k: int) -> tuple[float, float]:
    """Sum of squares explained by k clusters beyond the mean similarity, and the sum they would
    explain in noise: (k - 1) eigenvalues of 2 sigma sqrt(n)."""
    diagonal = problem.W.diagonal
    xp = namespace(diagonal)
    v = xp.ones_like(diagonal) if problem.weights is None else problem.weights
    left, similarity = problem.self_pairs() if problem.exclude else (0 * diagonal, 0 * diagonal)
    total = float(xp.sum(v * (problem.W @ v))) - float(xp.sum(v * similarity))
    pairs = float(xp.sum(v)) ** 2 - float(xp.sum(v * left))
    spread = problem.square - total * (total / max(pairs, 1.0))
    return spread - objective, 4 * (k - 1) * objective / problem.W.n


def objective(t: Array, q: Array, norm: float, scale: Array) -> Any:
    """f = |W|^2 - 2 a t + a^2 q for every run."""
    # If q nearly vanishes, the square of the scale alone may overflow.
    return np.maximum(norm + scale * (scale * q - 2 * t), 0.0)


def pull(problem: Problem, U: Array) -> Any:
    """Reduction (r,) of the objective of every run by links."""
    if problem.linked is None:
        return 0.0
    V = weighted(problem, U)
    return 2 * runs(columns(V, problem.linked @ V), U.shape)


def evaluated(problem: Problem, U: Array) -> tuple[State, Any]:
    """The state for memberships (n, r, k), computed with one product, and f of every run."""
    V = weighted(problem, U)
    P = problem.W @ V
    t = runs(columns(V, P), U.shape)
    t, q = moments(problem, U, gram(U, problem.weights), t)
    scale = fitted_scale(problem, t, q)
    state = State(U, scale, np.ones(U.shape[1]), namespace(U).reshape(P, U.shape))
    return state, objective(t, q, problem.square, scale)


def start(problem: Problem, U: Array) -> State:
    """The state for memberships (n, r, k), computed with one product."""
    return evaluated(problem, U)[0]


def on(U: Array, values: ArrayLike) -> Any:
    """One number per run, in the library and on the device of ``U``."""
    return namespace(U).asarray(np.array(values), device=device(U))


def _flat(U: Array) -> Any:
    return namespace(U).reshape(U, (U.shape[0], -1))


def runs(values: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Sums over the columns of each run."""
    return values.reshape(shape[1], shape[2]).sum(axis=1)


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


def by_rows(problem: Problem, origin: Any, scale: Array, damping: Array) -> tuple[Any, Any]:
    """Memberships (n, r, k) after a sweep row by row, and t and q (r,) before and after."""
    held = np.zeros(len(origin), dtype=bool) if problem.held is None else problem.held
    links, U = problem.linked, np.array(origin, dtype=np.float64, order="C")
    links = None if links is None else (links.data, links.indices, links.indptr)
    rows = native("sweep").Rows(U, problem.own, held, links, scale, damping)
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


def coordinate_step(
    problem: Problem, state: State, descend: Callable[..., Any] = by_rows
) -> tuple[State, Any]:
    """One Gauss-Seidel sweep; runs whose objective would rise stay, with more damping."""
    origin, scale, damping, _ = state
    U, (t_old, q_old, t_new, q_new) = descend(problem, origin, scale, damping)
    norm = problem.square
    scale_old, scale_new = fitted_scale(problem, t_old, q_old), fitted_scale(problem, t_new, q_new)
    f_old = objective(t_old, q_old, norm, scale_old) - pull(problem, origin)
    f_new = objective(t_new, q_new, norm, scale_new) - pull(problem, U)
    good = f_new <= f_old
    moved = State(U, scale_new, np.maximum(1.0, damping / 1.5))
    if good.all():
        return moved, f_new
    stayed = State(origin, scale_old, damping * 2)
    return select(good, moved, stayed), np.where(good, f_new, f_old)


def own_slope(problem: Problem, rows: slice, U: Array, scale: Array) -> Any:
    """Factor (rows, r, 1) on U by which excluded self pairs change the slope of each row."""
    xp = namespace(U)
    left, similarity = (xp.astype(part[rows], U.dtype) for part in problem.self_pairs())
    square = xp.sum(U * U, axis=2, keepdims=True)
    return similarity[:, None, None] - scale[None, :, None] * left[:, None, None] * square


def combine(current: State, previous: State, momentum: float | np.ndarray) -> State:
    """Extrapolated memberships, clipped to the simplex."""
    xp = namespace(current.U)
    runs = np.array(np.broadcast_to(momentum, current.U.shape[1:2]), dtype=np.float64)
    if xp is np:
        pair = (np.ascontiguousarray(U) for U in (current.U, previous.U))
        return current._replace(U=native("sweep").extrapolated(*pair, runs), product=None)
    beta = xp.astype(on(current.U, runs), current.U.dtype)[None, :, None]
    U = current.U + beta * (current.U - previous.U)
    return current._replace(U=simplex.normalize(xp.clip(U, min=0.0)), product=None)


def select(mask: Array, one: State, other: State) -> State:
    """Runs of ``one`` where the mask holds, of ``other`` elsewhere."""
    xp = namespace(one.U)
    where = on(one.U, mask)
    U = xp.where(where[None, :, None], one.U, other.U)
    pairs = (one.scale, other.scale), (one.damping, other.damping)
    return State(U, *(np.where(mask, *pair) for pair in pairs))


def best_run(run: loop.Run) -> loop.Run:
    """The best of several runs that shared their passes, as a single run."""
    best = loop.earliest_best(run.objective, larger=False)
    state = State(run.state.U[:, best : best + 1], run.state.scale[best : best + 1], np.ones(1))
    return run._replace(state=state, objective=run.objective[best], history=run.history[:, best])


def baum_eagon_step(problem: Problem, state: State) -> tuple[State, Any]:
    """Update u_ir <- u_ir (a n + [W U - a U S]_ir), normalised by row (Baum and Eagon 1967)."""
    xp, U = namespace(state.U), state.U
    a = xp.astype(on(U, state.scale), U.dtype)
    offset = a[None, :, None] * (problem.total - problem.exclude)
    moved = simplex.normalize(U * xp.clip(offset - slopes(problem, state), min=0.0))
    if problem.held is not None:
        moved = xp.where(problem.held[:, None, None], U, moved)
    return evaluated(problem, moved)


def slopes(problem: Problem, state: State) -> Any:
    """Half the gradient (n, r, k) of f / (a v_i) by rows: a U S - W U, less excluded self pairs."""
    xp, U = namespace(state.U), state.U
    a = xp.astype(on(U, state.scale), U.dtype)
    if hasattr(problem.W, "bent"):
        return a[None, :, None] * problem.W.bent(U) - state.product
    found = a[None, :, None] * times(U, gram(U, problem.weights)) - state.product
    if problem.linked is not None:
        links = xp.reshape(problem.linked @ weighted(problem, U), U.shape)
        found -= links / xp.clip(a, min=1e-150)[None, :, None]
    if problem.exclude:
        found += own_slope(problem, slice(None), U, a) * U
    return found


def kkt_residual(problem: Problem, state: State) -> Any:
    """Largest slack of the optimality conditions over rows, relative to |W U|; 0 if stationary."""
    xp, U = namespace(state.U), state.U
    if state.product is None:
        state = state._replace(product=start(problem, U).product)
    gradient = slopes(problem, state)
    slack = xp.sum(U * (gradient - xp.min(gradient, axis=2, keepdims=True)), axis=2)
    if problem.held is not None:
        slack = xp.where(problem.held[:, None], xp.zeros_like(slack), slack)
    size = xp.max(xp.abs(state.product))
    return to_numpy(xp.max(slack, axis=0)) / max(float(size), np.finfo(float).tiny)


def panel_step(problem: Problem, state: State) -> tuple[State, Any]:
    """A sweep by panels, or that of the evidence; runs that would rise stay, with more damping."""
    return coordinate_step(problem, state, by_panels)


def by_panels(problem: Problem, origin: Any, scale: Any, damping: Any) -> tuple[Any, Any]:
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
    """New memberships of a panel after k / 2 pair steps. The terms within the panel are majorised;
    all others are exact. ``runs`` holds the scales and the damping."""
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
    ``visit(rows, product)`` gets the current (W V)[rows] and returns the change of V[rows]."""
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
