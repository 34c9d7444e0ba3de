"""Weighted sums of z(x) over blocks of objects: the passes of fuzzy c-means and of Gaussian mixtures.

A tile of objects at a time, whose numbers stay in the cache from one product to the other.
"""

import numpy as np
from libc.math cimport NAN
from libc.string cimport memset

from .powers cimport add_exponentials, log2
from .products cimport TILE, copy_tile, multiply_tile, multiply_tile_transposed
from .vectors cimport LINE, aligned, cloned

cdef double LOG_2 = 0.6931471805599453
cdef double SHIFT = 300.0  # added to logits, so that densities far below the peak do not vanish
cdef double LOWEST = 1e-280  # smaller sums of densities are left to the careful version


def gaussian_sums(Z, weights, rows):
    """Sums (k, q) of z(x) weighted by the posterior, and the sum of log-densities; None if all
    densities of an object vanish.

    ``Z`` (q, b) is z(x), or x alone, of which z(x) is then made here; ``rows`` (k, q) are
    coefficients of the logits. ``weights`` has one number for each object, or is None.
    """
    Z, given, own = alike(Z, weights, rows)
    sums = np.zeros(own.shape)
    if Z.size == 0:
        return sums, 0.0
    value = _gaussian(Z, given, own, sums)
    return None if np.isnan(value) else (sums, value)


def alike(Z, weights, rows):
    """Features, weights and coefficients, contiguous and of the same type."""
    Z, given, rows = (
        np.ascontiguousarray(array, dtype=np.float32 if Z.dtype == np.float32 else np.float64)
        for array in (Z, np.empty(0) if weights is None else weights, rows)
    )
    if weights is not None and given.shape != Z.shape[1:]:
        raise ValueError(f"weights must be ({Z.shape[1]},), got {given.shape}")
    return Z, given, rows


def _gaussian(
    const real[:, ::1] Z, const real[::1] weights, const real[:, ::1] rows, double[:, ::1] sums,
):
    cdef Py_ssize_t k = rows.shape[0], q = rows.shape[1], height = Z.shape[0]
    if q not in (height, 2 * height + 1, (height + 1) * (height + 2) // 2):
        raise ValueError(f"Z must have {q} rows, or features of which z(x) is made, got {height}")
    cdef double[::1] work = np.empty(gaussian_work(k, q))
    cdef const real* own = &weights[0] if weights.shape[0] else NULL
    cdef double value
    with nogil:
        value = gaussian_walk(
            &Z[0, 0], height, Z.shape[1], own, &rows[0, 0], k, q, &sums[0, 0], &work[0]
        )
    return value


cdef Py_ssize_t gaussian_work(Py_ssize_t k, Py_ssize_t q) noexcept nogil:
    """Size of ``work`` for ``gaussian_walk``."""
    return (2 * k + q + 4) * TILE + k * q + LINE


cdef double gaussian_walk(
    const real* Z, Py_ssize_t height, Py_ssize_t b, const real* weights, const real* rows,
    Py_ssize_t k, Py_ssize_t q, double* sums, double* work,
) noexcept nogil:
    """Add the statistics of objects to ``sums`` (k, q); returns the sum of their log-densities, NaN
    if all densities of an object vanish.

    ``Z`` (height, b) is z(x) (``height`` is q), or x, of which z(x) is made for a tile of objects
    at a time. ``weights`` may be NULL, ``work`` (``gaussian_work``) is scratch.
    """
    cdef double* E = aligned(work)
    cdef double* total = E + k * TILE
    cdef real* D = <real*> (total + 4 * TILE)
    cdef real* T = D + k * TILE
    cdef real* part = T + q * TILE
    cdef Py_ssize_t t, j, i, width
    cdef double value = 0.0
    for t in range((b + TILE - 1) // TILE):
        width = min(TILE, b - t * TILE)
        if height == q:
            copy_tile(Z + t * TILE, b, T, q, width)
        else:
            _products(Z + t * TILE, height, b, width, T, 2 * height + 1 < q)
        multiply_tile(rows, q, T, D, k, width, q)
        memset(total, 0, width * sizeof(double))
        for j in range(k):
            add_exponentials(D + j * TILE, SHIFT, width, E + j * TILE, total + TILE, total)
        for i in range(width):
            if not total[i] > LOWEST:
                return NAN
        _share(E, total, weights, D, k, width, &value)
        if weights != NULL:
            weights += width
        multiply_tile_transposed(D, T, part, k, q, width)
        for i in range(k * q):
            sums[i] += part[i]
    return value


cdef cloned _products(
    const real* X, Py_ssize_t d, Py_ssize_t b, Py_ssize_t width, real* T, bint full,
) noexcept nogil:
    """Write z(x) of kind "full" or "diag" for some columns of ``X`` (d, b) to ``T`` (q, TILE)."""
    cdef Py_ssize_t a, c, i
    cdef const real* one
    cdef const real* other
    cdef real* product = T + (d + 1) * TILE
    for i in range(width):
        T[i] = 1.0
    copy_tile(X, b, T + TILE, d, width)
    for a in range(d):
        one = T + (1 + a) * TILE
        for c in range(a, d if full else a + 1):
            other = T + (1 + c) * TILE
            for i in range(width):
                product[i] = one[i] * other[i]
            product += TILE


cdef cloned _share(
    const double* E, double* total, const real* weights, real* D, Py_ssize_t k, Py_ssize_t width,
    double* value,
) noexcept nogil:
    """Write posterior probabilities times weights to ``D`` (k, TILE), and add the logarithms of
    ``total`` to ``value``; three rows after ``total`` are scratch.
    """
    cdef Py_ssize_t i, j
    cdef double level = 0.0, weight = 1.0
    cdef double* logs = total + TILE
    cdef const double* row
    cdef real* out
    log2(total, width, logs, total + 2 * TILE, total + 3 * TILE)
    for i in range(width):
        if weights != NULL:
            weight = weights[i]
        level += weight * (LOG_2 * logs[i] - SHIFT)
        total[i] = weight / total[i]
    value[0] += level
    for j in range(k):
        row, out = E + j * TILE, D + j * TILE
        for i in range(width):
            out[i] = <real> (row[i] * total[i])
