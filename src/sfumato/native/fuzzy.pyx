"""Passes of fuzzy c-means over blocks of objects, and whole runs for few objects.

    pull of cluster j on object i:  w_i u_ij^m,   u_ij ~ d_ij^(-1 / (m - 1))

The distances d_ij are a product of coefficients with z(x); the first row of z(x) (ones) and the
last one are handled separately.
"""

import numpy as np
from libc.math cimport INFINITY, fabs, fmax, fmin, isfinite, isnan, log2 as log2_of, sqrt
from libc.string cimport memset

from .blas cimport multiply, multiply_transposed, real
from .powers cimport exp2, log2, single_powers
from .signals cimport check_signals
from .sums import alike

cdef Py_ssize_t ROWS = 7  # rows of scratch in addition to distances and shares


def fuzzy_sums(Z, weights, rows, double fuzzifier):
    """Sums (k, q) of z(x) weighted by w u^m, up to a constant, and the sum of the costs.

    ``Z`` is z(x), one block (q, b) or several (blocks, q, b); ``rows`` (k, q) are the coefficients
    of the distances, which must be positive. ``weights`` has one number for each object, or is
    None.
    """
    stack, given, own = alike(Z, weights, rows)
    if stack.shape[1] != own.shape[1]:
        raise ValueError(f"Z must have {own.shape[1]} rows, got {stack.shape[1]}")
    sums = np.zeros(own.shape)
    if stack.size == 0:
        return sums, 0.0
    if stack.dtype == np.float32:
        return sums, _sums[float](stack, given, own, sums, fuzzifier)
    return sums, _sums[double](stack, given, own, sums, fuzzifier)


cdef double _sums(
    const real[:, :, ::1] stack, const real[::1] weights, const real[:, ::1] rows,
    double[:, ::1] sums, double fuzzifier,
) except? -1.0:
    cdef Py_ssize_t k = rows.shape[0], q = rows.shape[1], b = stack.shape[2]
    cdef real[::1] work = np.empty(
        (2 * k + ROWS) * b + k * (q - 2), dtype=np.float32 if real is float else np.float64
    )
    cdef const real* own = &weights[0] if weights.shape[0] else NULL
    cdef double cost
    with nogil:
        cost = _pass(
            &stack[0, 0, 0], stack.shape[0], q, b, own, &rows[0, 0], k, fuzzifier, &sums[0, 0],
            &work[0],
        )
    return cost


cdef double _pass(
    const real* stack, Py_ssize_t n_blocks, Py_ssize_t q, Py_ssize_t b, const real* weights,
    const real* rows, Py_ssize_t k, double fuzzifier, double* sums, real* work,
) noexcept nogil:
    """Add the statistics of blocks z(x) (n_blocks, q, b) to ``sums`` (k, q); returns the cost.

    ``work`` ((2 k + ROWS) b + k (q - 2)) is scratch.
    """
    cdef Py_ssize_t d = q - 2, s, j, c
    cdef double cost = 0.0
    cdef real* D = work
    cdef real* part = work + (2 * k + ROWS) * b
    cdef const real* Z
    cdef const real* last
    cdef const real* own
    for s in range(n_blocks):
        Z = stack + s * q * b + b
        last, own = Z + d * b, weights
        if weights != NULL:
            own += s * b
        multiply(rows + 1, q, Z, D, k, b, d)
        if fuzzifier == 2.0:
            cost += _inverse_pulls(D, rows, k, q, b, last, own, sums, D + k * b)
        elif real is double:
            cost += _power_pulls(D, rows, k, q, b, last, own, fuzzifier, sums, D + k * b)
        else:
            cost += _single_pulls(D, rows, k, q, b, last, own, fuzzifier, sums, D + k * b)
        multiply_transposed(D, Z, part, k, d, b)
        for j in range(k):
            for c in range(d):
                sums[j * q + 1 + c] += part[j * d + c]
    return cost


cdef double _inverse_pulls(
    real* D, const real* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const real* last,
    const real* weights, double* sums, real* total,
) noexcept nogil:
    """For fuzzifier two: ``D`` (k, b), the distances without first and last term, is overwritten by
    the pulls, whose sums (and those of ``last``) are added. Returns the sum of the costs.
    """
    cdef Py_ssize_t i, j
    cdef real first, slope, pull, inverse, scale
    cdef double cost = 0.0, mass, rest
    cdef real* row
    memset(total, 0, b * sizeof(real))
    for j in range(k):
        row, first, slope = D + j * b, rows[j * q], rows[j * q + q - 1]
        for i in range(b):
            pull = <real> 1.0 / (row[i] + (first + slope * last[i]))
            row[i] = pull
            total[i] += pull
    for i in range(b):
        inverse = <real> 1.0 / total[i]
        scale = inverse
        if weights != NULL:
            scale *= weights[i]
        cost += scale
        total[i] = scale * inverse
    for j in range(k):
        row, mass, rest = D + j * b, 0.0, 0.0
        for i in range(b):
            pull = row[i] * row[i] * total[i]
            row[i] = pull
            mass += pull
            rest += pull * last[i]
        sums[j * q] += mass
        sums[j * q + q - 1] += rest
    return k * cost


cdef double _power_pulls(
    double* D, const double* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const double* last,
    const double* weights, double fuzzifier, double* sums, double* work,
) noexcept nogil:
    """The same as ``_inverse_pulls`` for any fuzzifier, in float64; ``work`` is scratch."""
    cdef Py_ssize_t i, j
    cdef double power = 1.0 / (fuzzifier - 1.0), constant, slope, part, logarithm = log2_of(k)
    cdef bint plain = power == 2.0 or power == 0.5  # fuzzifiers 1.5 and 3 need no logarithm
    cdef double* least = work + k * b
    cdef double* total = least + b
    cdef double* x = total + b
    cdef double* first = x + b
    cdef double* inverse = first + b
    cdef double* scratch = inverse + b
    cdef double* own
    cdef double* row
    for i in range(b):
        least[i] = first[i] = INFINITY
        total[i] = 0.0
    for j in range(k):
        row, own = D + j * b, work + j * b
        constant, slope = rows[j * q], rows[j * q + q - 1]
        for i in range(b):
            x[i] = row[i] + (constant + slope * last[i])
            least[i] = x[i] if x[i] < least[i] else least[i]
        if plain:
            for i in range(b):
                own[i] = row[i] = 1.0 / x[i]
        else:
            log2(x, b, own, row, inverse, scratch)
            for i in range(b):
                first[i] = own[i] if own[i] < first[i] else first[i]
    for j in range(k):
        own = work + j * b
        if plain:
            for i in range(b):
                part = least[i] * own[i]
                own[i] = part * part if power == 2.0 else sqrt(part)
        else:
            for i in range(b):
                x[i] = power * (first[i] - own[i])
            exp2(x, b, own, inverse)
        for i in range(b):
            total[i] += own[i]
    # (k / total)^(1 / power) in one step, since k^(1 / power) alone may overflow.
    if plain:
        for i in range(b):
            part = k / total[i]
            x[i] = sqrt(part) if power == 2.0 else part * part
    else:
        log2(total, b, first, inverse, scratch, x)
        for i in range(b):
            first[i] = (logarithm - first[i]) / power
        exp2(first, b, x, scratch)
    return _pulls(D, work, k, q, b, least, total, x, last, weights, sums)


cdef double _single_pulls(
    float* D, const float* rows, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const float* last,
    const float* weights, double fuzzifier, double* sums, float* work,
) noexcept nogil:
    """The same as ``_power_pulls`` in float32, with powers of ratios to the smallest distance,
    whose logarithms are small if shares are not.
    """
    cdef Py_ssize_t i, j
    cdef float power = <float> (1.0 / (fuzzifier - 1.0)), constant, slope
    cdef float* least = work + k * b
    cdef float* total = least + b
    cdef float* x = total + b
    cdef float* y = x + b
    cdef float* counts = y + b
    cdef float* mantissas = counts + b
    cdef float* own
    cdef float* row
    for i in range(b):
        least[i] = INFINITY
        total[i] = 0.0
    for j in range(k):
        row, constant, slope = D + j * b, rows[j * q], rows[j * q + q - 1]
        for i in range(b):
            row[i] = row[i] + (constant + slope * last[i])
            least[i] = row[i] if row[i] < least[i] else least[i]
    for j in range(k):
        row, own = D + j * b, work + j * b
        for i in range(b):
            row[i] = <float> 1.0 / row[i]
            x[i] = least[i] * row[i]
        single_powers(x, power, b, own, counts, mantissas)
        for i in range(b):
            total[i] += own[i]
    for i in range(b):
        y[i] = total[i] / <float> k
    single_powers(y, <float> (1.0 - fuzzifier), b, x, counts, mantissas)
    return _pulls(D, work, k, q, b, least, total, x, last, weights, sums)


cdef double _pulls(
    real* D, const real* shares, Py_ssize_t k, Py_ssize_t q, Py_ssize_t b, const real* least,
    real* total, const real* scales, const real* last, const real* weights, double* sums,
) noexcept nogil:
    """Overwrite ``D``, the reciprocal distances, by the pulls; then as in ``_inverse_pulls``.

    ``shares`` (k, b) are powers of distances relative to the ``least``, ``total`` (b,) their sums,
    and ``scales`` (b,) the costs relative to the smallest distance.
    """
    cdef Py_ssize_t i, j
    cdef real scale, pull
    cdef double cost = 0.0, mass, rest
    cdef real* row
    cdef const real* own
    for i in range(b):
        scale = scales[i] * least[i]
        if weights != NULL:
            scale *= weights[i]
        cost += scale
        total[i] = scale / total[i]
    for j in range(k):
        row, own, mass, rest = D + j * b, shares + j * b, 0.0, 0.0
        for i in range(b):
            pull = own[i] * row[i] * total[i]
            row[i] = pull
            mass += pull
            rest += pull * last[i]
        sums[j * q] += mass
        sums[j * q + q - 1] += rest
    return cost


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
    cdef double[::1] work = np.empty((2 * n_rows + ROWS) * n + n_rows * d)
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
                extrapolated = _extrapolate(first, current, following, size, &stretch)
                in_trail = False
                if extrapolated:
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


cdef bint _extrapolate(
    const double* first, double* current, const double* following, Py_ssize_t size, double* stretch,
) noexcept nogil:
    """Write the extrapolation of three states to ``current``; returns whether it is beyond the
    last.

    ``stretch`` is the longest step, and is updated.
    """
    cdef Py_ssize_t c
    cdef double r = 0.0, s = 0.0, step, bend, alpha
    for c in range(size):
        step = current[c] - first[c]
        bend = following[c] - 2 * current[c] + first[c]
        r += step * step
        s += bend * bend
    alpha = -sqrt(r) / sqrt(s) if s > 0 else -1.0
    alpha = fmin(-1.0, fmax(-stretch[0], alpha))
    if alpha == -stretch[0]:
        stretch[0] *= 4
    if alpha == -1.0:
        return False
    for c in range(size):
        step = current[c] - first[c]
        bend = following[c] - 2 * current[c] + first[c]
        current[c] = first[c] - 2 * alpha * step + alpha * alpha * bend
    return True


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
    cost = _pass(Z, 1, q, n, weights, rows, n_rows, fuzzifier, sums, work)
    for j in range(k):
        for c in range(d):
            following[j * d + c] = (
                sums[j * q + 1 + c] / sums[j * q] if sums[j * q] > 0 else centers[j * d + c]
            )
    return cost
