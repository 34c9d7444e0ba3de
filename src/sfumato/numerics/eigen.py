"""Leading eigenvectors of a symmetric similarity that is only multiplied.

    A = D^-1/2 W D^-1/2,  d = W 1,    A E = E diag(lambda),    E'E = I,
            lambda_1 >= ... >= lambda_k

by a block Krylov space with Rayleigh-Ritz, then Chebyshev filters, from a fixed start. Random walks
on one- or two-dimensional graphs mix slowly, but such graphs have sparse triangular factors, so the
Krylov space of an inverse is used.

From the rows z_i of an embedding to clusters with centers c_r, by weighted k-means:

    distortion   sum_i w_i min_r |z_i - c_r|^2
    memberships  u_ir ~ (1 + |z_i - c_r|^2 / t)^(-(1 + q) / 2),    q = k - 1,

the posterior of k spherical Cauchy densities of equal weight, with the maximum-likelihood scale t:
embedded clusters are compact cores with thin bridges, for which Gaussian tails are too short. With
z_i = e_i / sqrt(d_i) and w_i = d_i the distortion is the spectral cost J = 1/2 |E E' - Pi|^2 of
Bach and Jordan (2006), where Pi is the projection onto the sqrt(d)-weighted cluster indicators.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, splu

from ..array.arrays import inplace, namespace, native, to_numpy
from ..array.rows import one_blas_thread
from ..array.types import Array, Similarity
from ..array.validation import reserve
from . import simplex
from .distances import unit_rows
from .operators import Scaled, as_dense, dtype_of, like

DENSE = 4000  # most objects of a dense matrix for which LAPACK may take over
DIRECT = 400  # largest number of objects for which all eigenvectors cost less than the iteration
EXTRA = 10  # extra columns, which determine how fast the block converges
T = TypeVar("T")


class Spectrum(NamedTuple):
    """``values`` (k,) descending, ``vectors`` (n, k), the following value, the worst residual."""

    values: Any
    vectors: Any
    following: float
    residual: float


def leading_eigenvectors(
    A: Any, k: int, *, tol: float | None = None, max_products: int = 4000, start: Any = None
) -> Spectrum:
    """Eigenvectors of the ``k`` largest eigenvalues of a symmetric operator with a norm of about
    one.

    They have length one, and their largest entry is positive. ``tol`` is the largest residual |A v
    - lambda v|, 1e-8 by default (float32: 2e-5). ``start`` (n, p) are p > k independent columns
    close to them, used instead of the Krylov space.
    """
    n, dtype = A.shape[0], dtype_of(A)
    tol = (2e-5 if dtype == np.float32 else 1e-8) if tol is None else tol
    if n <= DIRECT or n < 4 * (k + EXTRA):
        return _direct(A, k)
    largest = _largest(A)
    A, place = _compact(A)
    # Thin blocks gain nothing from threads.
    with one_blas_thread() if sp.issparse(A) else nullcontext():
        if start is None and 0 < largest < np.inf and _narrow(A):
            start = _inverted(A, k, largest, tol)
        values, X, residuals = _converge(A, k, dtype, tol, max_products, start)
    if residuals is None:
        return _direct(A, k)
    worst = float(residuals[:k].max())
    return Spectrum(values[:k], _canonical(X[place, :k]), float(values[k]), worst)


def krylov_columns(k: int, n: int, *, sparse: bool) -> int:
    """Columns (n,) kept at a time: the Krylov space, and its state before the last block."""
    p = k + EXTRA
    return 0 if n <= DIRECT or n < 4 * p else p * (2 * _depth(p, n, sparse) - 1)


def _depth(p: int, n: int, sparse: bool) -> int:
    """Products before the first Rayleigh-Ritz; for sparse W, orthogonalisation costs more."""
    return min(3 if sparse else 8, n // (2 * p))


def _converge(
    A: Any, k: int, dtype: Any, tol: float, max_products: int, start: Any
) -> tuple[Any, Any, Any]:
    """Ritz values, vectors and residuals; no residuals if LAPACK is cheaper than filters."""
    n, p, depth = A.shape[0], k + EXTRA, 1
    # LAPACK takes 4 n^3 / 3 operations, half of them with vectors, which take three times as long.
    dense = isinstance(A.W if isinstance(A, Scaled) else A, np.ndarray) and n <= DENSE
    multiplied, most = 0, 2.0 * n if dense else np.inf
    if start is None:
        start = like(A, np.random.default_rng(0).standard_normal((n, p)).astype(dtype))
        depth = _depth(p, n, sp.issparse(A))
    values, X, residuals, lowest = _rayleigh_ritz(A, namespace(start).linalg.qr(start)[0], depth)
    while float(residuals[:k].max()) > tol and max_products > 0:
        degree = _degree(values, residuals, k, lowest, tol)
        multiplied += degree * X.shape[1]
        if multiplied > most:
            return values, X, None
        X = _filter(A, X, degree, lowest, float(values[-1]))
        values, X, residuals, _ = _rayleigh_ritz(A, X, 1)
        max_products -= degree + 1
    return values, X, residuals


def _compact(A: Any) -> tuple[Any, Any]:
    """A sparse (scaled) similarity with neighbours stored close together, and the new positions."""
    W = A.W if isinstance(A, Scaled) else A
    if not sp.issparse(W):
        return A, slice(None)
    W = sp.csr_array(W)
    order = reverse_cuthill_mckee(W, symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    data = W.data
    if isinstance(A, Scaled):
        data = np.repeat(A.scaling, np.diff(W.indptr)) * data * A.scaling[W.indices]
    # New numbers of the columns, then of the rows; transposing the symmetric matrix sorts entries.
    renamed = sp.csr_array((data, place[W.indices], W.indptr), shape=W.shape)
    return sp.csr_array(renamed[order].T), place


def _largest(A: Any) -> float:
    """Upper bound on the spectrum of a sparse similarity (Collatz and Wielandt)."""
    W, scaling = (A.W, A.scaling) if isinstance(A, Scaled) else (A, 1.0)
    if not sp.issparse(W):
        return np.inf
    return float((abs(sp.csr_array(W)).sum(axis=1) * scaling**2).max())


def _narrow(A: Any) -> bool:
    """Whether neighbours are as close as on a planar graph, so that factors stay sparse."""
    n = A.shape[0]
    rows = np.repeat(np.arange(n, dtype=A.indices.dtype), np.diff(A.indptr))
    return n <= 300_000 and int(np.abs(A.indices - rows).max()) <= 7.0 * np.sqrt(n)


def _inverted(A: Any, k: int, largest: float, tol: float) -> Any:
    """Vectors close to the leading ones, from a Krylov space of the inverse of sigma - A."""
    n = A.shape[0]
    shifted = sp.csc_array(sp.eye_array(n) * (largest * (1 + 1e-6)) - A, dtype=np.float64)
    symmetric = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", **symmetric)
    inverse = LinearOperator(A.shape, matvec=factors.solve, matmat=factors.solve, dtype=np.float64)
    X = np.linalg.qr(np.random.default_rng(0).standard_normal((n, k + 2)))[0]
    for _ in range(2):
        values, X, residuals, _ = _rayleigh_ritz(inverse, X, min(5, n // (2 * k + 4)))
        # The residuals that A will have after the last product with the inverse.
        if (residuals[: k + 1] <= 0.1 * tol * values[: k + 1] ** 2).all():
            break
    return factors.solve(X).astype(A.dtype)


def _degree(values: Any, residuals: Any, k: int, lowest: float, tol: float) -> int:
    """Degree of the filter that brings the k-th residual below ``tol``, if rounding allows it."""
    edge = float(values[-1])
    first, last = float(values[0] + residuals[0]), float(values[k - 1])
    ratios = ((2 * value - edge - lowest) / (edge - lowest) for value in (first, last))
    stretch = [np.arccosh(max(1 + 1e-7, ratio)) for ratio in ratios]
    gain = np.clip(8 * float(residuals[:k].max()) / tol, 400, 2e5)
    most_gain = 1e-4 / np.finfo(dtype_of(values)).eps
    return int(np.clip(min(np.log(gain) / stretch[1], np.log(most_gain) / stretch[0]), 4, 400))


def _filter(A: Any, X: Any, degree: int, lowest: float, edge: float) -> Any:
    """Chebyshev polynomial of A times X, small on [lowest, edge] (Zhou and Saad 2007)."""
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
    """Rayleigh-Ritz on the span of X, A X, ..., A^(depth - 1) X."""
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
    T = xp.zeros((m, m), dtype=Q.dtype, device=Q.device)
    at = 0
    for C in columns:
        T[: C.shape[0], at : at + C.shape[1]] = C
        at += C.shape[1]
    values, S = xp.linalg.eigh(xp.triu(T) + xp.triu(T, k=1).T)
    lowest = min(-1.0, 1.05 * float(values[0]))
    values, S = xp.flip(values, axis=0)[:p], xp.flip(S, axis=1)[:, :p]
    outside = Y @ S[m - X.shape[1] :, :]
    return values, Q @ S, xp.sum(outside**2, axis=0) ** 0.5, lowest


def _new_directions(Y: Any, Q: Any) -> Any:
    """Orthonormal columns that span ``Y`` and are orthogonal to ``Q`` up to rounding."""
    xp = namespace(Y)
    X, R = xp.linalg.qr(Y)
    U, lengths, _ = xp.linalg.svd(R)
    X = X @ U[:, lengths > 100 * xp.finfo(Y.dtype).eps]
    return xp.linalg.qr(X - Q @ (Q.T @ X))[0]


def _direct(A: Any, k: int) -> Spectrum:
    """All eigenpairs by LAPACK."""
    n = A.shape[0]
    reserve((n, n), dtype_of(A), "the similarity as a dense matrix", "ask for fewer eigenvectors")
    M = as_dense(A)
    xp = namespace(M)
    first = max(0, n - k - 1)
    values, vectors = np.empty(0), np.empty((n, 0))
    if isinstance(M, np.ndarray):  # LAPACK computes only the largest if asked
        values, vectors = eigh(M, subset_by_index=[first, n - 1], driver="evr")
    if len(values) < n - first:  # this driver may lose some of many equal eigenvalues
        values, vectors = xp.linalg.eigh(M)
    values, vectors = xp.flip(values, axis=0), xp.flip(vectors, axis=1)
    following = float(values[k]) if k < n else -np.inf
    return Spectrum(values[:k], _canonical(vectors[:, :k]), following, 0.0)


def _canonical(V: Any) -> Any:
    """Columns with the sign that makes the first entry of (almost) largest size positive."""
    xp = namespace(V)
    size = xp.abs(V)
    first = xp.argmax(xp.astype(size >= 0.999 * xp.max(size, axis=0), xp.int8), axis=0)
    return V * xp.sign(xp.take_along_axis(V, first[None, :], axis=0))


def waited(function: Callable[..., T], *arguments: Any) -> T:
    """``function(*arguments)``, run in a separate thread so that Ctrl-C takes effect at once. The
    call goes on in its thread; it must release the GIL, as NumPy's linear algebra does.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(function(*arguments))
        except BaseException as error:  # raised again below
            answer.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    while not answer.done():
        wait([answer], 0.1)
    return answer.result()


def spectral_start(A: Similarity, k: int, rng: np.random.Generator, floor: float) -> np.ndarray:
    """Memberships (n, k) from the leading eigenvectors of ``A``, not below about ``floor``."""
    Z = to_numpy(unit_rows(leading_eigenvectors(A, k, tol=1e-3).vectors))
    return soft_assignment(Z, k, rng, floor)


def soft_assignment(Z: np.ndarray, k: int, rng: np.random.Generator, floor: float) -> np.ndarray:
    """Memberships (n, k) from cosines of rows with k nearly orthogonal ones, the first random."""
    chosen = native("kmeans").orthogonal_rows(Z, k, [int(rng.integers(len(Z)))])[0]
    return simplex.normalize(np.clip(Z @ Z[chosen].T, 0, None) ** 2 + floor)


def squared_distances(Z: Array, centers: Array) -> Any:
    """Squared distances (n, k), from differences, so exact if a row is equal to a center."""
    xp = namespace(Z)
    columns = [xp.sum((Z - centers[r, :]) ** 2, axis=1) for r in range(centers.shape[0])]
    return xp.stack(columns, axis=1)


def cauchy_memberships(distances: Array, t: float, q: int) -> Any:
    """Rows of (1 + distances / t)^(-(1 + q) / 2), normalised."""
    logits = inplace("log1p", distances / t)
    logits *= -(1 + q) / 2
    return simplex.normalize(simplex.softmax(logits)[0])


def temperature(distances: Array, weights: Array, q: int, *, max_iter: int = 200) -> float:
    """Maximum-likelihood scale t for fixed centers, by EM."""
    D, w = to_numpy(distances), to_numpy(weights)
    largest = float(D.max())
    if largest == 0:
        return 1.0
    smallest = max(1e-24 * largest, float(np.finfo(D.dtype).smallest_normal))
    t = max(smallest, float((w * D.min(axis=1)).sum()) / (q * float(w.sum())))
    return native("kmeans").cauchy_scale(D, w, q, t, smallest, max_iter)


def spectral_cost(E: np.ndarray, degree: Array, labels: Array, k: int) -> float:
    """J = k - sum_r |sum_{i in r} sqrt(d_i) e_i|^2 / sum_{i in r} d_i  for orthonormal E (n, k)."""
    xp = namespace(E)
    indicator = xp.astype(labels[:, None] == xp.arange(k, device=E.device)[None, :], E.dtype)
    sums = (indicator * degree[:, None] ** 0.5).T @ E
    volume = xp.sum(indicator * degree[:, None], axis=0)
    used = volume > 0
    shares = xp.sum(sums * sums, axis=1) / xp.where(used, volume, xp.ones_like(volume))
    n_used = int(np.sum(np.asarray(used.tolist())))
    return max(0.0, 0.5 * (E.shape[1] + n_used) - float(xp.sum(shares)))
