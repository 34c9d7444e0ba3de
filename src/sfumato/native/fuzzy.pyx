"""Passes of fuzzy c-means over blocks of objects, and whole runs for few objects.

    pull of cluster j on object i:  w_i u_ij^m,   u_ij ~ d_ij^(-1 / (m - 1))

The distances d_ij are a product of coefficients with z(x); the first row of z(x) (ones) and the
last one are handled separately.
"""

import numpy as np
from libc.math cimport INFINITY, fabs, fmax, isfinite, isnan
from libc.string cimport memset

from .blas cimport real
from .powers cimport powers
from .matrices cimport extrapolate
from .products cimport TILE, copy_tile, multiply_tile, multiply_tile_transposed
from .signals cimport check_signals
from .sums import alike
from .vectors cimport LINE, aligned, cloned

cdef Py_ssize_t ROWS = 6  # rows of scratch in addition to distances and shares


def fuzzy_sums(Z, weights, rows, double fuzzifier):
    """Sums (k, q) of z(x) weighted by w u^m, up to a constant, and the sum of the costs.

    ``Z`` (q, b) is z(x); ``rows`` (k, q) are the coefficients of the distances, which must be
    positive. ``weights`` has one number for each object, or is None.
    """
    Z, given, own = alike(Z, weights, rows)
    if Z.shape[0] != own.shape[1]:
        raise ValueError(f"Z must have {own.shape[1]} rows, got {Z.shape[0]}")
    sums = np.zeros(own.shape)
    if Z.size == 0:
        return sums, 0.0
    return sums, _sums(Z, given, own, sums, fuzzifier)


def _sums(
    const real[:, ::1] Z, const real[::1] weights, const real[:, ::1] rows, double[:, ::1] sums,
    double fuzzifier,
):
    cdef Py_ssize_t k = rows.shape[0], q = rows.shape[1]
    cdef real[::1] work = np.empty(_room(k, q), np.float32 if real is float else np.float64)
    cdef const real* own = &weights[0] if weights.shape[0] else NULL
    cdef double cost
    with nogil:
        cost = _pass(
            &Z[0, 0], q, Z.shape[1], own, &rows[0, 0], k, fuzzifier, &sums[0, 0], &work[0]
        )
    return cost


cdef Py_ssize_t _room(Py_ssize_t k, Py_ssize_t q) noexcept nogil:
    """Size of ``work`` for ``_pass``."""
    return (2 * k + q + ROWS) * TILE + k * q + LINE


cdef double _pass(
    const real* Z, Py_ssize_t q, Py_ssize_t b, const real* weights, const real* rows, Py_ssize_t k,
    double fuzzifier, double* sums, real* work,
) noexcept nogil:
    """Add the statistics of z(x) (q, b) to ``sums`` (k, q); returns the cost. ``work`` (``_room``)
    is scratch.
    """
    cdef Py_ssize_t d = q - 2, t, j, c, width
    cdef double cost = 0.0
    cdef real* D = <real*> aligned(<double*> work)
    cdef real* scratch = D + k * TILE
    cdef real* T = scratch + (k + ROWS) * TILE
    cdef real* last = T + d * TILE
    cdef real* part = last + TILE
    cdef const real* own
    for t in range((b + TILE - 1) // TILE):
        width, own = min(TILE, b - t * TILE), NULL if weights == NULL else weights + t * TILE
        copy_tile(Z + b + t * TILE, b, T, q - 1, width)
        multiply_tile(rows + 1, q, T, D, k, width, d)
        if fuzzifier == 2.0:
            _inverse_pulls(D, rows, k, q, width, last, own, sums, scratch, &cost)
        else:
            _power_pulls(D, rows, k, q, width, last, own, fuzzifier, sums, scratch, &cost)
        multiply_tile_transposed(D, T, part, k, d, width)
        for j in range(k):
            for c in range(d):
                sums[j * q + 1 + c] += part[j * d + c]
    return cost


cdef cloned _inverse_pulls(
    real* D, const real* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const real* last,
    const real* weights, double* sums, real* total, double* cost,
) noexcept nogil:
    """For fuzzifier two: ``D`` (k, TILE), the distances of ``b`` objects without first and last
    term, is overwritten by the pulls, whose sums (and those of ``last``) are added. The costs are
    added to ``cost``.
    """
    cdef Py_ssize_t i, j
    cdef real first, slope, pull, inverse, scale
    cdef double costs = 0.0, mass, rest
    cdef real* row
    memset(total, 0, b * sizeof(real))
    for j in range(k):
        row, first, slope = D + j * TILE, rows[j * q], rows[j * q + q - 1]
        for i in range(b):
            pull = <real> 1.0 / (row[i] + (first + slope * last[i]))
            row[i] = pull
            total[i] += pull
    for i in range(b):
        inverse = <real> 1.0 / total[i]
        scale = inverse
        if weights != NULL:
            scale *= weights[i]
        costs += scale
        total[i] = scale * inverse
    for j in range(k):
        row, mass, rest = D + j * TILE, 0.0, 0.0
        for i in range(b):
            pull = row[i] * row[i] * total[i]
            row[i] = pull
            mass += pull
            rest += pull * last[i]
        sums[j * q] += mass
        sums[j * q + q - 1] += rest
    cost[0] += k * costs


cdef cloned _power_pulls(
    real* D, const real* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const real* last,
    const real* weights, double fuzzifier, double* sums, real* work, double* cost,
) noexcept nogil:
    """The same as ``_inverse_pulls`` for any fuzzifier, with powers of ratios to the smallest
    distance, whose logarithms are small if shares are not. ``work`` is scratch.
    """
    cdef Py_ssize_t i, j
    cdef real power = <real> (1.0 / (fuzzifier - 1.0)), constant, slope
    cdef real* least = work + k * TILE
    cdef real* total = least + TILE
    cdef real* x = total + TILE
    cdef real* y = x + TILE
    cdef real* own
    cdef real* row
    for i in range(b):
        least[i] = INFINITY
        total[i] = 0.0
    for j in range(k):
        row, constant, slope = D + j * TILE, rows[j * q], rows[j * q + q - 1]
        for i in range(b):
            row[i] = row[i] + (constant + slope * last[i])
            least[i] = row[i] if row[i] < least[i] else least[i]
    for j in range(k):
        row, own = D + j * TILE, work + j * TILE
        for i in range(b):
            row[i] = <real> 1.0 / row[i]
            x[i] = least[i] * row[i]
        powers(x, power, b, own, y, y + TILE)
        for i in range(b):
            total[i] += own[i]
    # (k / total)^(m - 1) in one step, since k^(m - 1) alone may overflow.
    for i in range(b):
        x[i] = total[i] / <real> k
    powers(x, <real> (1.0 - fuzzifier), b, y, y + TILE, y + 2 * TILE)
    _pulls(D, work, k, q, b, least, total, y, last, weights, sums, cost)


cdef cloned _pulls(
    real* D, const real* shares, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const real* least,
    real* total, const real* scales, const real* last, const real* weights, double* sums,
    double* cost,
) noexcept nogil:
    """Overwrite ``D``, the reciprocal distances, by the pulls; then as in ``_inverse_pulls``.

    ``shares`` (k, b) are powers of distances relative to the ``least``, ``total`` (b,) their sums,
    and ``scales`` (b,) the costs relative to the smallest distance.
    """
    cdef Py_ssize_t i, j
    cdef real scale, pull
    cdef double costs = 0.0, mass, rest
    cdef real* row
    cdef const real* own
    for i in range(b):
        scale = scales[i] * least[i]
        if weights != NULL:
            scale *= weights[i]
        costs += scale
        total[i] = scale / total[i]
    for j in range(k):
        row, own, mass, rest = D + j * TILE, shares + j * TILE, 0.0, 0.0
        for i in range(b):
            pull = own[i] * row[i] * total[i]
            row[i] = pull
            mass += pull
            rest += pull * last[i]
        sums[j * q] += mass
        sums[j * q + q - 1] += rest
    cost[0] += costs


def fuzzy_run(
    Z, weights, centers, double fuzzifier, double noise, double rounding, Py_ssize_t max_iter,
    double tol,
):
    """Centers, objectives of the steps, and whether a step changed the objective by at most ``tol``
    of its size.

    The updates of the centers are accelerated as in ``engine.loop.Squarem``. ``Z`` (q, n) is z(x),
    and ``centers`` (k, d) is the start. ``noise`` is the squared distance of the noise cluster or
    NaN; ``rounding`` times the largest squared norm of a center is added to all distances.
    """
    cdef const double[:, ::1] given = np.ascontiguousarray(Z, dtype=np.float64)
    cdef Py_ssize_t q = given.shape[0], n = given.shape[1], k = centers.shape[0]
    cdef Py_ssize_t d = q - 2, n_rows = k if isnan(noise) else k + 1, size = k * d, steps = 0
    if centers.shape[1] != d or n == 0 or d == 0 or k == 0:
        raise ValueError(f"centers must be (k, {d}) for Z {Z.shape}, got {centers.shape}")
    cdef const double[::1] masses = np.empty(0) if weights is None else np.ascontiguousarray(
        weights, dtype=np.float64
    )
    if weights is not None and masses.shape[0] != n:
        raise ValueError(f"weights must be ({n},), got ({masses.shape[0]},)")
    states = np.empty((4, k, d))
    states[0] = centers
    cdef double[:, :, ::1] held = states
    cdef double[::1] rows = np.zeros(n_rows * q), sums = np.empty(n_rows * q)
    cdef double[::1] work = np.empty(_room(n_rows, q))
    cdef double[::1] history = np.empty(min(max_iter, 64))
    cdef const double* w = &masses[0] if masses.shape[0] else NULL
    cdef double* current = &held[0, 0, 0]
    cdef double* following = &held[1, 0, 0]
    cdef double* first = &held[2, 0, 0]
    cdef double* fallback = &held[3, 0, 0]
    cdef bint in_trail = False, extrapolated = False, done = False
    cdef double objective = 0.0, stretch = 1.0, value
    with nogil:
        while steps < max_iter and not done:
            check_signals()
            value = _step(&given[0, 0], q, n, w, current, k, fuzzifier, noise, rounding, n_rows,
                          &rows[0], &sums[0], &work[0], following)
            if extrapolated and (value > objective or not isfinite(value)):
                value = _step(&given[0, 0], q, n, w, fallback, k, fuzzifier, noise, rounding,
                              n_rows, &rows[0], &sums[0], &work[0], following)
                stretch = fmax(1.0, stretch / 4)
                in_trail = extrapolated = False
                current, following = following, current
            elif not in_trail:
                in_trail, extrapolated = True, False
                first, current, following = current, following, first
            else:
                extrapolated = extrapolate(first, current, following, size, &stretch)
                in_trail = False
                if extrapolated:
                    current, first = first, current
                    fallback, following = following, fallback
                else:
                    current, following = following, current
            if steps == history.shape[0]:
                with gil:
                    history = np.concatenate((history, np.empty(steps)))
            objective = history[steps] = value
            steps += 1
            done = steps > 1 and fabs(value - history[steps - 2]) <= tol * fabs(value)
    # The state after a step; an extrapolated state has no objective yet.
    cdef double* final = fallback if extrapolated else current
    found = states[(final - &held[0, 0, 0]) // size].copy()
    return found, np.asarray(history)[:steps].copy(), bool(done)


cdef double _step(
    const double* Z, Py_ssize_t q, Py_ssize_t n, const double* weights, const double* centers,
    Py_ssize_t k, double fuzzifier, double noise, double rounding, Py_ssize_t n_rows, double* rows,
    double* sums, double* work, double* following,
) noexcept nogil:
    """Write the next centers to ``following``, and return the objective of the given ones. Centers
    without weight do not move.
    """
    cdef Py_ssize_t d = q - 2, j, c
    cdef double norm, most = 0.0, cost
    for j in range(k):
        norm = 0.0
        for c in range(d):
            norm += centers[j * d + c] * centers[j * d + c]
            rows[j * q + 1 + c] = -2.0 * centers[j * d + c]
        rows[j * q], rows[j * q + q - 1] = norm, 1.0
        most = fmax(most, norm)
    if n_rows > k:
        rows[k * q] = noise
    for j in range(n_rows):
        rows[j * q] += rounding * (1.0 + most)
    memset(sums, 0, n_rows * q * sizeof(double))
    cost = _pass(Z, q, n, weights, rows, n_rows, fuzzifier, sums, work)
    for j in range(k):
        for c in range(d):
            following[j * d + c] = (
                sums[j * q + 1 + c] / sums[j * q] if sums[j * q] > 0 else centers[j * d + c]
            )
    return cost
