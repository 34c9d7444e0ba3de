"""Completely positive factorization (Zass and Shashua 2005).

    f(G) = 1/2 sum_{i != j} (F_ij - g_i'g_j)^2,    G >= 0  (n x k)

As a function of one row, all others fixed, f = const - 2 b'g + g'Hg with b = sum_{j != i} F_ij g_j
and H = sum_{j != i} g_j g_j'. Row by row, with the newest values of all others, the published rule
multiplies g_r <- g_r b_r / (H g)_r; the exact one minimises each entry in turn, g_r <- max(0, g_r +
(b_r - (H g)_r) / H_rr). The gain of a row follows from b and H, so the objective needs no further
product.

An object of weight v stands for v copies that share a row. With h = sqrt(v) g and E_ij = sqrt(v_i
v_j) F_ij the objective keeps its form, and pairs among copies add 1/2 sum_i c_i (E_ii - |h_i|^2)^2,
c_i = 1 - 1/v_i (0 up to a weight of one): an entry is then the root of a cubic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...array.arrays import native
from ...numerics.operators import Factored, squared_norm


class Problem(NamedTuple):
    """A similarity in the form that the sweep needs: dense, CSR, or its factor if ``low``.

    ``copies`` (n,) are the weights c of pairs among copies, ``weights`` (n,) those of the objects.
    """

    F: Any
    low: bool
    diagonal: np.ndarray
    norm: float
    copies: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, F: Any, low: bool = False, weights: np.ndarray | None = None) -> Problem:
        """The problem of a similarity (of its factor if ``low``); with weights, that of E."""
        squares = squared_norm(Factored(F) if low else F)
        diagonal = Factored(F).diagonal() if low else F.diagonal()
        weights = np.ones(len(diagonal)) if weights is None else weights
        # Of the v^2 pairs among v copies of an object, v pair a copy with itself.
        copies = 1.0 - 1.0 / np.maximum(weights, 1.0)
        norm = squares - float(((1.0 - copies) * diagonal.astype(np.float64)) @ diagonal)
        return cls(F, low, diagonal, norm, copies, weights)


class State(NamedTuple):
    """The factor G (n, k), and the value of its objective."""

    G: np.ndarray
    objective: float


def objective(problem: Problem, G: np.ndarray) -> float:
    """f(G), computed with one product."""
    t, q = _terms(problem, G)
    # Rounding may make the difference of large sums negative.
    return max(0.0, 0.5 * (problem.norm - 2 * t + q))


def _terms(problem: Problem, G: np.ndarray) -> tuple[float, float]:
    """sum_{i != j} F_ij g_i'g_j  and  sum_{i != j} (g_i'g_j)^2."""
    P = problem.F @ (problem.F.T @ G) if problem.low else problem.F @ G
    lengths = np.einsum("ir,ir->i", G, G, dtype=np.float64)
    S = (G.T @ G).astype(np.float64)
    left = (1.0 - problem.copies) * lengths
    t = float(np.einsum("ir,ir->", G, P, dtype=np.float64)) - float(problem.diagonal @ left)
    return t, float(np.vdot(S, S)) - float(lengths @ left)


def is_constant(problem: Problem) -> bool:
    """Whether all F_ij, i != j, are equal: then  (sum F_ij)^2 = n (n - 1) sum F_ij^2."""
    root = np.sqrt(problem.weights)
    rows = problem.F @ (problem.F.T @ root) if problem.low else problem.F @ root
    own = (1.0 - problem.copies) * problem.weights
    total = float(root @ rows) - float(problem.diagonal @ own)
    pairs = float(problem.weights.sum()) ** 2 - float(own @ problem.weights)
    # Equality in the Cauchy-Schwarz inequality, up to rounding.
    return total**2 >= (1 - 1e-9) * pairs * problem.norm


def scaled_start(problem: Problem, G: np.ndarray) -> State:
    """``G``, scaled to fit F best."""
    t, q = _terms(problem, G)
    G = (G * (t / q) ** 0.5).astype(G.dtype) if t > 0 and q > 0 else G
    return State(G, objective(problem, G))


def combine(problem: Problem, current: State, previous: State, momentum: float) -> State:
    """The extrapolated factor, clipped at zero."""
    G = np.maximum(0, current.G + momentum * (current.G - previous.G)).astype(current.G.dtype)
    return State(G, objective(problem, G))


def sweep(problem: Problem, exact: bool, state: State) -> tuple[State, float]:
    """One update of every row, using the newest values, by the exact or the published rule."""
    G, F = np.array(state.G, order="C"), problem.F
    # G'G and, with a factor, F'G are updated along the way.
    S = np.ascontiguousarray(G.astype(np.float64).T @ G)
    M = np.array(F.T @ G, dtype=G.dtype, order="C") if problem.low else G
    rows = native("factorization").Sweep(G, S, problem.diagonal, problem.copies, exact)
    if sp.issparse(F):
        entries = F.data.astype(G.dtype, copy=False), F.indices, F.indptr
        gained = rows.sparse(*entries, G, M, problem.low)
    else:
        gained = rows.dense(np.ascontiguousarray(F, dtype=G.dtype), G, M, problem.low)
    value = max(0.0, state.objective - gained)
    return State(G, value), value


def fold_in(B: np.ndarray, H: np.ndarray, *, max_iter: int = 500, tol: float = 1e-10) -> np.ndarray:
    """The g >= 0 that minimises  g'Hg - 2 b'g,  for every row b of ``B``, by coordinate descent."""
    G = np.zeros_like(B)
    size = float(np.abs(B).max(initial=0.0))
    slope = B.copy()
    for _ in range(max_iter):
        largest = 0.0
        for r in range(B.shape[1]):
            if H[r, r] <= 0:
                continue
            change = np.maximum(-G[:, r], slope[:, r] / H[r, r])
            G[:, r] += change
            slope -= change[:, None] * H[r]
            # In units of the gradient, so that the tolerance is relative to the size of B.
            largest = max(largest, float(np.abs(change).max(initial=0.0)) * float(H[r, r]))
        if largest <= tol * size:
            break
    return G
