"""The pairwise model with a weight for every pair (0: not measured).

    f(U, a) = sum_ij q_ij (w_ij - a u_i'u_j)^2

Every object then has a matrix of its own,  H_i = a sum_j q_ij u_j u_j',  made for a panel of rows
by one product of the weights with the k^2 products of memberships.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...numerics import simplex
from .evidence import N_PANELS, panels

__all__ = ["Pairs"]


class Pairs:
    """Similarities W (n, n) with weights Q (n, n), both dense and symmetric.

    Rows where ``held`` is True stay.
    """

    def __init__(self, W: np.ndarray, Q: np.ndarray, held: Any = None) -> None:
        self.n, self.dtype, self.held = W.shape[0], W.dtype, held
        self.Q, self.W = Q, Q * W
        self.diagonal = self.W.diagonal()
        self.norm = float(np.einsum("ij,ij->", self.W, W, dtype=np.float64))
        self.diagonal_norm = 0.0

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.W @ V

    def curvature(self, U: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """sum_j q_ij u_j u_j' of every row, (rows, k, k); ``U`` is (n, k)."""
        k = U.shape[1]
        products = (U[:, :, None] * U[:, None, :]).reshape(self.n, k * k)
        return (self.Q[rows] @ products).reshape(-1, k, k)

    def bent(self, U: np.ndarray) -> np.ndarray:
        """sum_j q_ij (u_i'u_j) u_j of every row of every run, (n, r, k)."""
        rows = [(self.Q * (V @ V.T)) @ V for V in np.moveaxis(U, 1, 0)]
        return np.stack(rows, axis=1)

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
        k = memberships.shape[2]
        U = np.ascontiguousarray(memberships[:, run], dtype=np.float64)
        for rows in panels(self.n, N_PANELS):
            old = U[rows]
            H = a * self.curvature(U, rows)
            # The rows of a panel move at once: their own terms are held by a multiple of the
            # identity.
            within = self.Q[rows, rows] @ np.einsum("ir,ir->i", old, old)
            bend = 3.0 * a * damping * float(within.max(initial=0.0))
            B = self.W[rows] @ U + bend * old
            new = simplex.quadratic_program(H + bend * np.eye(k), B)
            U[rows] = new if self.held is None else np.where(self.held[rows, None], old, new)
        memberships[:, run] = U
