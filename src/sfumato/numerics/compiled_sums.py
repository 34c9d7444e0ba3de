"""Compiled twins of ``fuzzy.summarize`` and ``gaussian.summarize``.

Need Numba (``pip install 'sfumato[fast]'``).

Products are computed by BLAS. The work between them is one pass over numbers that are still in the
cache, in arrays that a thread keeps for its next block, without holding the interpreter lock.
Import at call time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["gaussian_walk"]

SMALL = 10**6  # multiplications that OpenBLAS makes without packing
SHIFT = 300.0  # added to logits, so that a density far below the peak does not vanish
LOWEST = 1e-280  # sums of densities below are left to the careful NumPy form
FREE = {"reassoc", "contract", "nsz"}


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
