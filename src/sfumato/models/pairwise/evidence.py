"""Forms of a similarity that the pairwise sweeps read.

* ``Explicit``: rows of a matrix, dense or sparse;   * ``Low``: W = F F', only F is kept;
* ``Implicit``: anything that multiplies.

Each knows its ``diagonal`` (n,) and ``squares(weights)``, sum_ij v_i v_j w_ij^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import device, namespace, to_numpy
from ...array.types import Array, Similarity

__all__ = ["Explicit", "Implicit", "Low", "columns", "dot", "panels"]

N_PANELS = 16
SMALLEST = 24  # rows of a panel: below it, calls cost more than arithmetic


class Explicit:
    """Rows of a matrix, dense or sparse, in panels."""

    def __init__(self, W: Any, n_panels: int = N_PANELS) -> None:
        self.W, self.n, self.dtype = W, W.shape[0], W.dtype
        xp = namespace(W)
        sparse = sp.issparse(W)
        self.diagonal = W.diagonal() if sparse else xp.linalg.diagonal(W)
        self.norm = (
            float(W.data @ W.data)
            if sparse
            else sum(dot(W[rows, :], W[rows, :]) for rows in panels(self.n, n_panels))
        )
        self.diagonal_norm = dot(self.diagonal, self.diagonal)
        self.panels = panels(self.n, n_panels)

    def squares(self, weights: Any) -> float:
        """sum_ij v_i v_j w_ij^2."""
        if sp.issparse(self.W):
            return float(weights @ (self.W.multiply(self.W) @ weights))
        return sum(float(weights[rows] @ (self.W[rows, :] ** 2 @ weights)) for rows in self.panels)

    def part(self, rows: np.ndarray) -> Explicit:
        """The similarities among some of the objects."""
        if isinstance(self.W, np.ndarray):
            return Explicit(self.W[np.ix_(rows, rows)])
        xp = namespace(self.W)
        chosen = xp.asarray(rows, device=device(self.W))
        return Explicit(xp.take(xp.take(self.W, chosen, axis=0), chosen, axis=1))

    def __matmul__(self, V: Array) -> Any:
        return self.W @ V

    def sweep(self, V: Array, visit: Any) -> tuple[Any, Any]:
        """Visit the panels of ``V`` (n, c) in order, newest values first; t before and after, per
        column.

        ``visit(rows, product)`` returns the change of V[rows], given (W V)[rows] at this moment,
        and the change is made.
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
    """W = F F' through its factor F (n, d), dense or CSR.

    M = F'V is kept up to date, so a panel costs its own rows only.
    """

    def __init__(self, factor: Any, n_panels: int = N_PANELS) -> None:
        self.factor, self.n, self.dtype = factor, factor.shape[0], factor.dtype
        self.panels = panels(self.n, n_panels)
        if sp.issparse(factor):
            self.diagonal = np.asarray(factor.multiply(factor).sum(axis=1)).ravel()
            gram = (factor.T @ factor).data
        else:
            xp = namespace(factor)
            self.diagonal = xp.sum(factor * factor, axis=1)
            gram = factor.T @ factor
        self.norm, self.diagonal_norm = dot(gram, gram), dot(self.diagonal, self.diagonal)

    def squares(self, weights: Array) -> float:
        """sum_ij v_i v_j w_ij^2 = |F' diag(v) F|^2."""
        if sp.issparse(self.factor):
            gram = (self.factor.T @ sp.diags_array(weights) @ self.factor).data
        else:
            gram = (self.factor * weights[:, None]).T @ self.factor
        return dot(gram, gram)

    def part(self, rows: np.ndarray) -> Low:
        """The similarities among some of the objects."""
        return Low(np.asarray(self.factor)[rows, :])

    def __matmul__(self, V: Array) -> Any:
        return self.factor @ (self.factor.T @ V)

    def sweep(self, V: Array, visit: Any) -> tuple[Any, Any]:
        """As ``Explicit.sweep``; t is |F'V|^2."""
        M = self.factor.T @ V
        t_old = columns(M, M)
        for rows in self.panels:
            F = self.factor[rows, :]
            change = visit(rows, F @ M)
            V[rows, ...] += change
            M += F.T @ change
        return t_old, columns(M, M)


class Implicit:
    """Anything that multiplies.

    Its diagonal and norm are asked for, or else read off products with blocks of the identity.
    """

    def __init__(self, W: Similarity, block: int = 256) -> None:
        self.W, self.n, self.dtype = (
            W,
            W.shape[0],
            np.dtype(getattr(W, "dtype", None) or np.float64),
        )
        diagonal, norm = np.empty(self.n), 0.0
        for start in range(0, self.n, block):
            stop = min(start + block, self.n)
            part = np.asarray(W @ np.eye(self.n, stop - start, -start, dtype=self.dtype))
            diagonal[start:stop] = part[np.arange(start, stop), np.arange(stop - start)]
            norm += dot(part, part)
        self.diagonal, self.norm, self.diagonal_norm = (
            diagonal.astype(self.dtype),
            norm,
            float(diagonal @ diagonal),
        )

    def squares(self, weights: Array) -> float:
        """sum_ij v_i v_j w_ij^2, by blocks of columns."""
        total, block = 0.0, 256
        for start in range(0, self.n, block):
            stop = min(start + block, self.n)
            W = np.asarray(self.W @ np.eye(self.n, stop - start, -start, dtype=self.dtype))
            total += float(weights @ (W**2 @ weights[start:stop]))
        return total

    def __matmul__(self, V: Array) -> Any:
        return np.asarray(self.W @ V)


def panels(n: int, n_panels: int) -> list[slice]:
    """Rows of each of about ``n_panels`` panels."""
    size = max(-(-n // n_panels), min(n, SMALLEST))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def dot(A: Array, B: Array) -> float:
    """<A, B> added up in float64."""
    xp = namespace(A, B)
    return float(xp.sum(xp.sum(A * B, axis=-1), dtype=xp.float64))


def columns(A: Array, B: Array) -> Any:
    """Column-wise <A, B> added up in float64, as NumPy: (n, c) and (n, c) give (c,)."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->j", A, B, dtype=np.float64)
    xp = namespace(A, B)
    return to_numpy(xp.sum(xp.astype(A, xp.float64) * xp.astype(B, xp.float64), axis=0))
