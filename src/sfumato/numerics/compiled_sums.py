"""Compiled twins of ``fuzzy.summarize`` and ``gaussian.summarize``.

Need Numba (``pip install 'sfumato[fast]'``).

Products are computed by BLAS. The work between them is one pass over numbers that are still in the
cache, in arrays that a thread keeps for its next block, without holding the interpreter lock.
Import at call time.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numba import njit

from .compiled_powers import fuzzy_powers, fuzzy_single_powers

__all__ = ["fuzzy_sums", "gaussian_sums", "gaussian_walk"]

SMALL = 10**6  # multiplications that OpenBLAS makes without packing
SHIFT = 300.0  # added to logits, so that a density far below the peak does not vanish
LOWEST = 1e-280  # sums of densities below are left to the careful NumPy form
FREE = {"reassoc", "contract", "nsz"}

_thread = threading.local()


def fuzzy_sums(
    Z: np.ndarray, weights: np.ndarray | None, rows: np.ndarray, fuzzifier: float
) -> tuple[np.ndarray, float]:
    """Sums (k, q) of z(x) weighted by w u^m, up to a constant, and of the costs.

    ``rows`` (k, q) give the distances.

    ``Z`` is one block (q, b) or several (blocks, q, b).
    """
    sums, b = np.zeros(rows.shape), Z.shape[-1]
    scratch = _scratch(
        (Z.dtype, (len(rows), b)), (Z.dtype, (b,)), (Z.dtype, (len(rows), rows.shape[1] - 2))
    )
    arguments: Any = (*_alike(Z, weights, rows), sums, *scratch)
    if fuzzifier == 2.0:
        return sums, _fuzzy(*arguments)
    spare = np.empty((len(rows) + 7, b), dtype=Z.dtype)
    others: Any = (*arguments[:5], arguments[-1], spare, fuzzifier)
    return sums, (fuzzy_single_powers if Z.dtype == np.float32 else fuzzy_powers)(*others)


def gaussian_sums(
    Z: np.ndarray, weights: np.ndarray | None, rows: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Sums (k, q) of z(x) weighted by the posterior, and of log-densities; None where all densities
    of an object vanish.

    ``Z`` is one block or several of z(x), or of x alone, whose products are then made here.
    """
    (k, q), ready = rows.shape, Z.shape[-2] == rows.shape[1]
    tile = Z.shape[-1] if ready else max(32, min(256, SMALL // rows.size // 8 * 8))
    sums = np.zeros((k, q) if ready else (q, k))
    shapes = (k, tile), (0 if ready else q, tile), (0 if ready else tile, k), sums.shape
    scratch = _scratch(
        *((Z.dtype, shape) for shape in shapes), (np.float64, (k, tile)), (np.float64, (2, tile))
    )
    arguments: Any = (*_alike(Z, weights, rows), sums, *scratch)
    value = gaussian_walk(*arguments)
    return None if np.isnan(value) else (sums if ready else sums.T, value)


def _alike(Z: np.ndarray, weights: np.ndarray | None, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    Z = Z if Z.ndim == 3 else Z[None]
    given = np.empty(0) if weights is None else weights
    return tuple(np.ascontiguousarray(array, dtype=Z.dtype) for array in (Z, given, rows))


def _scratch(*wanted: tuple[Any, tuple[int, ...]]) -> tuple[np.ndarray, ...]:
    """Arrays that this thread uses again in every block."""
    if getattr(_thread, "wanted", None) != wanted:
        _thread.wanted, _thread.arrays = (
            wanted,
            tuple(np.empty(shape, dtype) for dtype, shape in wanted),
        )
    return _thread.arrays


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def _fuzzy(stack, weights, rows, sums, D, total, part):
    """The first row of z(x), all ones, and the last one stay out of the products."""
    (k, b), one, cost = D.shape, stack.dtype.type(1.0), 0.0
    linear = np.ascontiguousarray(rows[:, 1:-1])
    for s in range(len(stack)):
        Z, last = stack[s, 1:-1], stack[s, -1]
        np.dot(linear, Z, D)
        total[:] = 0.0
        for j in range(k):
            row, first, slope = D[j], rows[j, 0], rows[j, -1]
            for i in range(b):
                pull = one / (row[i] + (first + slope * last[i]))
                row[i] = pull
                total[i] += pull
        for i in range(b):
            inverse = one / total[i]
            scale = inverse * weights[s * b + i] if len(weights) else inverse
            cost += k * np.float64(scale)
            total[i] = scale * inverse
        for j in range(k):
            row, mass, rest = D[j], 0.0, 0.0
            for i in range(b):
                pull = row[i] * row[i] * total[i]
                row[i] = pull
                mass += np.float64(pull)
                rest += np.float64(pull * last[i])
            sums[j, 0] += mass
            sums[j, -1] += rest
        np.dot(D, Z.T, part)
        sums[:, 1:-1] += part
    return cost


@njit(cache=True, nogil=True)
def gaussian_walk(stack, weights, rows, sums, D, T, R, part, E, spare):
    """Add to ``sums`` what a stack of blocks gives; the rest are arrays to work in."""
    total, turns, bits, value = spare[0], spare[1], E.view(np.int64), 0.0
    ready, tile, b = len(T) == 0, D.shape[1], stack.shape[2]
    tiles = -(-b // tile)
    for t in range(len(stack) * tiles):
        s, start = t // tiles, t % tiles * tile
        width = min(tile, b - start)
        Z = stack[s] if ready else T
        if not ready:
            _products(stack[s], start, width, T)
        np.dot(rows, Z, D)
        total[:] = 0.0
        for j in range(len(D)):
            _exp(D[j], E[j], bits[j], turns, total, width)
        if not total[:width].min() > LOWEST:
            return np.nan
        value += _share(E, total, weights[s * b + start : s * b + start + width], D, width)
        if ready:
            np.dot(D, Z.T, part)
        else:  # OpenBLAS is slow with a large transposed matrix
            R[:] = D.T
            np.dot(Z, R, part)
        sums += part
    return value


@njit(cache=True, nogil=True)
def _products(X, start, width, T):
    """z(x) of kind "full" of some columns of ``X``, zeros after them."""
    d = len(X)
    if width < T.shape[1]:
        T[:, width:] = 0.0
    T[0, :width] = 1.0
    T[1 : d + 1, :width] = X[:, start : start + width]
    row = d + 1
    for a in range(d):
        one = T[1 + a]
        for b in range(a, d):
            other, product = T[1 + b], T[row]
            for i in range(width):
                product[i] = one[i] * other[i]
            row += 1


@njit(cache=True, nogil=True, fastmath={"contract"})
def _exp(logits, out, bits, turns, total, width):
    """exp(logits + SHIFT), added to ``total``: 2^n times the Taylor series of the rest, at most
    log(2) / 2; never under exp(-700).
    """
    for i in range(width):
        x = max(np.float64(logits[i]) + SHIFT, -700.0)
        n = np.floor(x * 1.4426950408889634 + 0.5)
        x = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
        series = 1.0 / 6227020800.0
        series = series * x + 1.0 / 479001600.0
        series = series * x + 1.0 / 39916800.0
        series = series * x + 1.0 / 3628800.0
        series = series * x + 1.0 / 362880.0
        series = series * x + 1.0 / 40320.0
        series = series * x + 1.0 / 5040.0
        series = series * x + 1.0 / 720.0
        series = series * x + 1.0 / 120.0
        series = series * x + 1.0 / 24.0
        series = series * x + 1.0 / 6.0
        series = series * x + 0.5
        series = series * x + 1.0
        out[i] = series * x + 1.0
        turns[i] = n
    for i in range(width):
        bits[i] += np.int64(turns[i]) << 52
    for i in range(width):
        total[i] += out[i]


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def _share(E, total, weights, D, width):
    """Posterior probabilities ``D`` (k, tile) times weights, zeros after them, and the sum of the
    logarithms of ``total``.
    """
    value = 0.0
    for i in range(width):
        weight = np.float64(weights[i]) if len(weights) else 1.0
        value += weight * (np.log(total[i]) - SHIFT)
        total[i] = weight / total[i]
    for j in range(len(E)):
        row, out = E[j], D[j]
        for i in range(width):
            out[i] = row[i] * total[i]
        out[width:] = 0.0
    return value
