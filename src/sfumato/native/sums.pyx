"""Weighted sums of z(x) over blocks of objects: the passes of fuzzy c-means and of Gaussian mixtures.

BLAS computes the products; the work between them is one pass over numbers that are still in the
cache.
"""

import numpy as np
from libc.math cimport NAN, log
from libc.string cimport memset

from .blas cimport multiply, multiply_transposed
from .powers cimport add_exponentials

cdef Py_ssize_t SMALL = 1000000  # multiplications up to which OpenBLAS does not pack
cdef double SHIFT = 300.0  # added to logits, so that densities far below the peak do not vanish
cdef double LOWEST = 1e-280  # smaller sums of densities are left to the careful version


def gaussian_sums(Z, weights, rows):
    """Sums (k, q) of z(x) weighted by the posterior, and the sum of log-densities; None if all
    densities of an object vanish.

    ``Z`` (q, b) or (blocks, q, b) is z(x), or x alone, from which products are then computed here;
    ``rows`` (k, q) are coefficients of the logits. ``weights`` has one number for each object, or
    is None.
    """
    stack, given, own = alike(Z, weights, rows)
    sums = np.zeros((len(own), own.shape[1]))
    if stack.size == 0:
        return sums, 0.0
    if stack.dtype == np.float32:
        value = _gaussian[float](stack, given, own, sums)
    else:
        value = _gaussian[double](stack, given, own, sums)
    return None if np.isnan(value) else (sums, value)


def alike(Z, weights, rows):
    """Blocks (blocks, height, b), weights and coefficients, contiguous and of the same type."""
    stack = Z if Z.ndim == 3 else Z[None]
    given = np.empty(0) if weights is None else weights
    stack, given, rows = (
        np.ascontiguousarray(array, dtype=np.float32 if Z.dtype == np.float32 else np.float64)
        for array in (stack, given, rows)
    )
    blocks, _, b = stack.shape
    if weights is not None and given.shape != (blocks * b,):
        raise ValueError(f"weights must be ({blocks * b},), got {given.shape}")
    return stack, given, rows


cdef _gaussian(
    const real[:, :, ::1] stack, const real[::1] weights, const real[:, ::1] rows,
    double[:, ::1] sums,
):
    cdef Py_ssize_t k = rows.shape[0], q = rows.shape[1], n_blocks = stack.shape[0]
    cdef Py_ssize_t height = stack.shape[1], b = stack.shape[2], tile = b
    if height != q:
        if (height + 1) * (height + 2) != 2 * q:
            raise ValueError(f"Z must have {q} rows or features whose products are, got {height}")
        tile = max(32, min(256, SMALL // (k * q) // 8 * 8))
    work = np.empty(gaussian_work(k, q, tile), dtype=np.float32 if real is float else np.float64)
    spare = np.empty((k + 2) * tile)
    cdef real[::1] first = work
    cdef double[::1] second = spare
    cdef const real* own = &weights[0] if weights.shape[0] else NULL
    cdef double value
    with nogil:
        value = gaussian_walk(
            &stack[0, 0, 0], n_blocks, height, b, own, &rows[0, 0], k, q, tile, &sums[0, 0],
            &first[0], &second[0],
        )
    return value


cdef Py_ssize_t gaussian_work(Py_ssize_t k, Py_ssize_t q, Py_ssize_t tile) noexcept nogil:
    """Size of ``work`` for ``gaussian_walk``."""
    return 2 * k * tile + q * tile + k * q


cdef double gaussian_walk(
    const real* stack, Py_ssize_t n_blocks, Py_ssize_t height, Py_ssize_t b, const real* weights,
    const real* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t tile, double* sums, real* work,
    double* spare,
) noexcept nogil:
    """Add the statistics of blocks of objects to ``sums`` (k, q); returns the sum of their
    log-densities, NaN if all densities of an object vanish.

    ``stack`` (n_blocks, height, b) is z(x) (``height`` is q and ``tile`` is b), or x, from which
    products are computed for ``tile`` objects at a time. ``weights`` may be NULL. ``work``
    (``gaussian_work``) and ``spare`` ((k + 2) tile) are scratch.
    """
    cdef bint ready = height == q
    cdef real* D = work
    cdef real* R = D + k * tile
    cdef real* T = R + k * tile
    cdef real* part = T + q * tile
    cdef double* total = spare + k * tile
    cdef const real* Z
    cdef const real* own
    cdef Py_ssize_t s, t, j, i, c, start, width
    cdef double value = 0.0
    for s in range(n_blocks):
        for t in range((b + tile - 1) // tile):
            start = t * tile
            width = min(tile, b - start)
            Z = stack + s * height * b
            if not ready:
                _products(Z + start, height, b, width, tile, T)
                Z = T
            multiply(rows, q, Z, D, k, tile, q)
            memset(total, 0, tile * sizeof(double))
            for j in range(k):
                add_exponentials(
                    D + j * tile, SHIFT, width, spare + j * tile, total + tile, total
                )
            for i in range(width):
                if not total[i] > LOWEST:
                    return NAN
            own = weights
            if weights != NULL:
                own += s * b + start
            value += _share(spare, total, own, D, k, tile, width)
            if ready:
                multiply_transposed(D, Z, part, k, q, tile)
                for c in range(k * q):
                    sums[c] += part[c]
            else:  # OpenBLAS is slow with a large transposed matrix
                for i in range(tile):
                    for j in range(k):
                        R[i * k + j] = D[j * tile + i]
                multiply(Z, tile, R, part, q, k, tile)
                for c in range(q):
                    for j in range(k):
                        sums[j * q + c] += part[c * k + j]
    return value


cdef void _products(
    const real* X, Py_ssize_t d, Py_ssize_t b, Py_ssize_t width, Py_ssize_t tile, real* T,
) noexcept nogil:
    """Write z(x) of kind "full" for some columns of ``X`` (d, b) to ``T`` (q, tile), padded with
    zeros.
    """
    cdef Py_ssize_t a, c, i, row = d + 1
    cdef const real* one
    cdef const real* other
    cdef real* product
    if width < tile:
        memset(T, 0, (d + 1) * (d + 2) // 2 * tile * sizeof(real))
    for i in range(width):
        T[i] = 1.0
    for a in range(d):
        product, other = T + (1 + a) * tile, X + a * b
        for i in range(width):
            product[i] = other[i]
    for a in range(d):
        one = T + (1 + a) * tile
        for c in range(a, d):
            other, product = T + (1 + c) * tile, T + row * tile
            for i in range(width):
                product[i] = one[i] * other[i]
            row += 1


cdef double _share(
    const double* E, double* total, const real* weights, real* D, Py_ssize_t k, Py_ssize_t tile,
    Py_ssize_t width,
) noexcept nogil:
    """Write posterior probabilities times weights to ``D`` (k, tile), padded with zeros; returns
    the sum of the logarithms of ``total``.
    """
    cdef Py_ssize_t i, j
    cdef double value = 0.0, weight = 1.0
    cdef const double* row
    cdef real* out
    for i in range(width):
        if weights != NULL:
            weight = weights[i]
        value += weight * (log(total[i]) - SHIFT)
        total[i] = weight / total[i]
    for j in range(k):
        row, out = E + j * tile, D + j * tile
        for i in range(width):
            out[i] = <real> (row[i] * total[i])
        for i in range(width, tile):
            out[i] = 0.0
    return value
