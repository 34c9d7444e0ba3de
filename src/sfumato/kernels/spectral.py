"""Leading eigenvectors of a symmetric similarity, which is only ever multiplied.

    A = D^-1/2 W D^-1/2,  d = W 1,    A E = E diag(lambda),    E'E = I,    lambda_1 >= ... >= lambda_k

by a block Krylov space with Rayleigh-Ritz and then Chebyshev filters: every pass over W serves a whole block of vectors, from a fixed
start, so that the answer is the same each time. ``Scaled`` is diag(s) W diag(s), never formed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._arrays import is_numpy, namespace
from .._memory import reserve

__all__ = [
    "Scaled",
    "Shifted",
    "Spectrum",
    "degrees",
    "diagonal_of",
    "dtype_of",
    "leading_eigenvectors",
    "normalized_operator",
    "unit_rows",
]

DIRECT = 400  # up to so many objects all eigenvectors cost less than the detour
EXTRA = 10  # columns beyond those asked for: they decide how fast the block converges
DEPTH = 8  # products between restarts


class Spectrum(NamedTuple):
    """Leading eigenpairs: ``values`` (k,) descending, ``vectors`` (n, k), the eigenvalue that follows, and the worst residual."""

    values: Any
    vectors: Any
    following: float
    residual: float


class Scaled(LinearOperator):
    """diag(s) W diag(s) for any W that multiplies: an array, a sparse array, an operator, an array on another device."""

    def __init__(self, W: Any, scaling: Any) -> None:
        super().__init__(dtype_of(W), W.shape)
        self.W, self.scaling = W, scaling

    def __matmul__(self, X: Any) -> Any:
        s = self.scaling if X.ndim == 1 else self.scaling[:, None]
        return s * (self.W @ (s * X))

    def _matvec(self, x: Any) -> Any:
        return self @ x.reshape(-1)

    def _matmat(self, X: Any) -> Any:
        return self @ X

    def _adjoint(self) -> Scaled:
        return self

    def diagonal(self) -> Any:
        """The diagonal, (n,)."""
        return self.scaling**2 * diagonal_of(self.W)

    def toarray(self) -> Any:
        """The matrix itself, (n, n)."""
        return self.scaling[:, None] * _dense(self.W) * self.scaling[None, :]


class Shifted(LinearOperator):
    """W + diag(s) for any W that multiplies."""

    def __init__(self, W: Any, shift: Any) -> None:
        super().__init__(dtype_of(W), W.shape)
        self.W, self.shift = W, shift

    def __matmul__(self, X: Any) -> Any:
        return self.W @ X + (self.shift if X.ndim == 1 else self.shift[:, None]) * X

    def _matvec(self, x: Any) -> Any:
        return self @ x.reshape(-1)

    def _matmat(self, X: Any) -> Any:
        return self @ X

    def _adjoint(self) -> Shifted:
        return self

    def diagonal(self) -> Any:
        """The diagonal, (n,)."""
        return diagonal_of(self.W) + self.shift

    def toarray(self) -> Any:
        """The matrix itself, (n, n)."""
        n = self.shape[0]
        return self @ _on(self.W, np.eye(n, dtype=self.dtype))


def diagonal_of(W: Any) -> Any:
    """The diagonal of ``W``, asked for or, where there is only a product, read off products with blocks of the identity."""
    if not is_numpy(W):
        return namespace(W).linalg.diagonal(W)
    if hasattr(W, "diagonal"):
        return W.diagonal()
    n, entries = W.shape[0], []
    for start in range(0, n, 256):
        block = np.eye(n, min(256, n - start), -start, dtype=dtype_of(W))
        entries.append(np.sum(np.asarray(W @ block) * block, axis=0))
    return np.concatenate(entries)


def dtype_of(W: Any) -> np.dtype:
    """NumPy's name for the precision of ``W``; float64 where it has none."""
    dtype = getattr(W, "dtype", None)
    return np.dtype(np.float64) if dtype is None else np.dtype(str(dtype).rpartition(".")[2])


def degrees(W: Any) -> Any:
    """Row sums W 1, (n,)."""
    return W @ _on(W, np.ones(W.shape[0], dtype=dtype_of(W)))


def normalized_operator(W: Any, degree: Any = None) -> Scaled:
    """D^-1/2 W D^-1/2; an object without any similarity keeps a row of zeros."""
    degree = degrees(W) if degree is None else degree
    xp = namespace(degree)
    positive = degree > 0
    return Scaled(W, xp.where(positive, xp.where(positive, degree, xp.ones_like(degree)) ** -0.5, xp.zeros_like(degree)))


def unit_rows(Z: Any) -> Any:
    """Rows scaled to length one; a row of zeros stays."""
    xp = namespace(Z)
    Z = Z / _positive(xp.max(xp.abs(Z), axis=1, keepdims=True))
    return Z / _positive(xp.sum(Z * Z, axis=1, keepdims=True) ** 0.5)


def leading_eigenvectors(A: Any, k: int, *, tol: float | None = None, max_products: int = 4000) -> Spectrum:
    """Eigenvectors of the ``k`` largest eigenvalues of a symmetric ``A``.

    Parameters
    ----------
    A : array, sparse array, operator or anything with ``shape`` and ``@``, of shape (n, n)
        Symmetric, of norm about one (the tolerance is absolute).
    k : int
        Between 1 and n.
    tol : float, optional
        Largest residual |A v - lambda v| of an accepted vector; by default 1e-8 (float64) or 1e-4 (float32).
    max_products : int
        Passes over A at most (about); the residual reached is in the answer.

    Returns
    -------
    Spectrum
        Vectors have length one, and their largest entry is positive.
    """
    n, dtype = A.shape[0], dtype_of(A)
    tol = (1e-4 if dtype == np.float32 else 1e-8) if tol is None else tol
    depth = min(DEPTH, n // (2 * (k + EXTRA)))
    if n <= DIRECT or depth < 2:
        return _direct(A, k)
    start = _on(A, np.random.default_rng(0).standard_normal((n, k + EXTRA)).astype(dtype))
    values, X, residuals, lowest = _rayleigh_ritz(A, namespace(start).linalg.qr(start)[0], depth)
    while float(residuals[:k].max()) > tol and max_products > 0:
        degree = _degree(values, k, lowest)
        X = _filter(A, X, degree, lowest, float(values[-1]))
        values, X, residuals, _ = _rayleigh_ritz(A, X, 2)
        max_products -= degree + 2
    return Spectrum(values[:k], _canonical(X[:, :k]), float(values[k]), float(residuals[:k].max()))


def _degree(values: Any, k: int, lowest: float) -> int:
    """Degree of the filter that makes a residual of the k-th vector a hundred times smaller, unless the first one would drown the rest."""
    edge = float(values[-1])
    stretch = [np.arccosh(max(1 + 1e-7, (2 * float(values[j]) - edge - lowest) / (edge - lowest))) for j in (0, k - 1)]
    return int(np.clip(min(np.log(200) / stretch[1], np.log(1e9) / stretch[0]), 4, 400))


def _filter(A: Any, X: Any, degree: int, lowest: float, edge: float) -> Any:
    """Chebyshev polynomial of A times X, columns orthonormal: small on [lowest, edge], growing fast above (Zhou and Saad 2007)."""
    xp = namespace(X)
    center, half = (edge + lowest) / 2, (edge - lowest) / 2
    previous, current = X, (A @ X - center * X) / half
    for _ in range(degree - 1):
        following = A @ current
        following -= center * current
        following *= 2 / half
        following -= previous
        previous, current = current, following
    current /= xp.sum(current * current, axis=0) ** 0.5
    return xp.linalg.qr(current)[0]


def _rayleigh_ritz(A: Any, X: Any, depth: int) -> tuple[Any, Any, Any, float]:
    """Rayleigh-Ritz on the span of X, A X, ..., A^(depth - 1) X: as many Ritz pairs as X has columns, their residuals,
    and a bound from below on the spectrum (of a matrix whose norm is about one).
    """
    xp = namespace(X)
    Q, p, columns = X, X.shape[1], []
    for j in range(depth):
        Y = A @ X
        columns.append(Q.T @ Y)
        Y = Y - Q @ (Q.T @ Y)
        following = _new_directions(Y, Q) if j + 1 < depth else Y[:, :0]
        if following.shape[1] == 0:
            break
        Q, X = xp.concat([Q, following], axis=1), following
    m = Q.shape[1]
    T = xp.concat([xp.concat([C, xp.zeros((m - C.shape[0], C.shape[1]), dtype=C.dtype, device=C.device)]) for C in columns], axis=1)
    values, S = xp.linalg.eigh(xp.triu(T) + xp.triu(T, k=1).T)
    lowest = min(-1.0, 1.05 * float(values[0]))
    values, S = xp.flip(values, axis=0)[:p], xp.flip(S, axis=1)[:, :p]
    outside = Y @ S[m - X.shape[1] :, :]
    return values, Q @ S, xp.sum(outside**2, axis=0) ** 0.5, lowest


def _new_directions(Y: Any, Q: Any) -> Any:
    """Orthonormal columns that span ``Y``, orthogonal to ``Q``; directions at rounding level are dropped."""
    xp = namespace(Y)
    X, R = xp.linalg.qr(Y)
    U, lengths, _ = xp.linalg.svd(R)
    X = X @ U[:, lengths > 100 * xp.finfo(Y.dtype).eps]
    return xp.linalg.qr(X - Q @ (Q.T @ X))[0]


def _direct(A: Any, k: int) -> Spectrum:
    """All of A, by LAPACK."""
    n = A.shape[0]
    reserve((n, n), dtype_of(A), "the similarity as a dense matrix", "ask for fewer eigenvectors")
    M = _dense(A)
    xp = namespace(M)
    values, vectors = xp.linalg.eigh(M)
    values, vectors = xp.flip(values, axis=0), xp.flip(vectors, axis=1)
    return Spectrum(values[:k], _canonical(vectors[:, :k]), float(values[k]) if k < n else -np.inf, 0.0)


def _canonical(V: Any) -> Any:
    """Columns with the sign that makes their first entry of (nearly) largest size positive."""
    xp = namespace(V)
    size = xp.abs(V)
    first = xp.argmax(xp.astype(size >= 0.999 * xp.max(size, axis=0), xp.int8), axis=0)
    return V * xp.sign(xp.take_along_axis(V, first[None, :], axis=0))


def _dense(W: Any) -> Any:
    if isinstance(W, np.ndarray) or not is_numpy(W):
        return W
    return W.toarray() if hasattr(W, "toarray") else np.asarray(W @ np.eye(W.shape[0], dtype=dtype_of(W)))


def _on(W: Any, array: np.ndarray) -> Any:
    """``array`` in the library and on the device of ``W``."""
    inner = W
    while isinstance(inner, LinearOperator) and hasattr(inner, "W"):
        inner = inner.W
    return array if is_numpy(inner) else namespace(inner).asarray(array, device=inner.device)


def _positive(x: Any) -> Any:
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))
