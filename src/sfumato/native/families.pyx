"""Covariances of one mixture in any of the fourteen families, from a previous solution.

Their shape is (k, d, d) for full, (k, 1, d) for diagonal and (k, 1, 1) for spherical covariances.
The letters of a family are the numbers 0 (E), 1 (V) and 2 (I).
"""

from libc.math cimport NAN, atan2, cos, exp, fabs, fmax, log, sin
from libc.string cimport memcpy, memset

import numpy as np

from .matrices cimport (
    ascending, cholesky, compose, precision, raise_spectra, rotate, turn,
)

cdef enum:
    E
    V
    I

cdef double INNER_TOL = 1e-9  # relative change of the variances at which iterative steps stop
cdef double SMALLEST = 1e-300  # keeps logarithms of sums of squares finite
cdef double RIDGE = 1e-12  # relative to the volume of the common matrix of VEE
cdef double SMALLEST_ANGLE = 1e-7  # rotation below which common axes count as converged
cdef int DECADES = 310  # decades by which the diagonal of an indefinite matrix may be raised


cdef Py_ssize_t room(Py_ssize_t k, Py_ssize_t d) noexcept nogil:
    """Size of ``work`` for ``covariances``."""
    return k * d * d + 3 * k * d + 8 * d * d + 2 * k + 4 * d


cdef void covariances(
    const Family* family, const double* scatter, const double* mass, const double* previous,
    double* out, double* work,
) noexcept nogil:
    """Write the covariances of the family, computed from scatter, to ``out``."""
    cdef Py_ssize_t k = family.k, d = family.d
    if family.orientation == I:
        _variances(family, family.w, scatter, mass, previous, out, work)
    elif family.orientation == V and not (family.volume == V and family.shape == V):
        _own_axes(family, scatter, mass, previous, out, work)
    elif family.orientation == E and family.shape == V:
        _common_axes(family, scatter, mass, previous, out, work)
    elif family.orientation == E and family.volume == V:
        _proportional(family, scatter, mass, previous, out, work)
    else:
        _plain(family, scatter, mass, out, work)


def fitted(letters, turns, Py_ssize_t d, scatter, mass, previous, double floor, Py_ssize_t n_steps):
    """Covariances (k, p, w) of a family from scatter (k, p, w); see ``components.gaussian``."""
    cdef const double[:, :, ::1] W = np.ascontiguousarray(scatter, dtype=np.float64)
    cdef const double[:, :, ::1] before = np.ascontiguousarray(previous, dtype=np.float64)
    cdef const double[::1] masses = np.ascontiguousarray(mass, dtype=np.float64)
    cdef const Py_ssize_t[:, ::1] pairs = np.ascontiguousarray(turns, dtype=np.intp).reshape(-1, 2)
    cdef Py_ssize_t k = W.shape[0], p = W.shape[1], w = W.shape[2]
    if masses.shape[0] != k or k == 0 or np.shape(previous) != np.shape(scatter):
        raise ValueError(f"mass must be ({k},) and previous {np.shape(scatter)}")
    if w not in (1, d) or p not in (1, w) or (letters[2] != I and p != d):
        raise ValueError(f"scatter must be (k, {d}, {d}), (k, 1, {d}) or (k, 1, 1)")
    out = np.empty((k, p, w))
    cdef double[:, :, ::1] found = out
    cdef double[::1] work = np.empty(room(k, d))
    cdef Family family
    family.volume, family.shape, family.orientation = letters
    family.k, family.d, family.p, family.w = k, d, p, w
    family.n_turns = pairs.shape[0]
    family.turns = &pairs[0, 0] if pairs.shape[0] else NULL
    family.floor, family.n_steps = floor, n_steps
    covariances(&family, &W[0, 0, 0], &masses[0], &before[0, 0, 0], &found[0, 0, 0], &work[0])
    return out


cdef double _total(const double* values, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0.0
    for i in range(n):
        total += values[i]
    return total


cdef double _volume(const double* variances, Py_ssize_t d) noexcept nogil:
    """Geometric mean of the variances."""
    cdef Py_ssize_t a
    cdef double value = 0.0
    for a in range(d):
        value += log(variances[a])
    return exp(value / d)


cdef void _variances(
    const Family* family, Py_ssize_t d, const double* spread, const double* mass,
    const double* previous, double* out, double* work,
) noexcept nogil:
    """Variances (k, d) along known axes, from the sums of squares ``spread`` along them.

    ``work`` needs k + d numbers.
    """
    cdef Py_ssize_t k = family.k, j, a
    cdef double least = fmax(family.floor, SMALLEST), whole = _total(mass, k), value, factor
    if family.volume == E and family.shape == E:
        for a in range(d):
            value = 0.0
            for j in range(k):
                value += spread[j * d + a]
            for j in range(k):
                out[j * d + a] = fmax(value / whole, family.floor)
        return
    for j in range(k):
        for a in range(d):
            out[j * d + a] = fmax(spread[j * d + a] / mass[j], least)
    if family.volume == V and family.shape == V:
        return
    if family.volume == V:
        _common_shape(family, d, mass, previous, out, work)
        return
    value = 0.0
    for j in range(k):
        value += mass[j] * _volume(out + j * d, d)
    for j in range(k):
        factor = value / whole / _volume(out + j * d, d)
        for a in range(d):
            out[j * d + a] = fmax(out[j * d + a] * factor, family.floor)


cdef void _common_shape(
    const Family* family, Py_ssize_t d, const double* mass, const double* previous, double* out,
    double* work,
) noexcept nogil:
    """Turn mean squares ``out`` (k, d) along the axes into volumes times one shape."""
    cdef Py_ssize_t k = family.k, j, a, step
    cdef double least = fmax(family.floor, SMALLEST), size, value
    cdef double* volumes = work
    cdef double* form = work + k
    cdef bint settled
    for j in range(k):
        for a in range(d):
            form[a] = fmax(previous[j * d + a], least)
        volumes[j] = _volume(form, d)
    for step in range(family.n_steps):
        for a in range(d):
            form[a] = 0.0
            for j in range(k):
                form[a] += mass[j] / volumes[j] * out[j * d + a]
        size = _volume(form, d)
        for a in range(d):
            form[a] /= size
        settled = True
        for j in range(k):
            value = 0.0
            for a in range(d):
                value += out[j * d + a] / form[a]
            value /= d
            settled = settled and fabs(value - volumes[j]) <= INNER_TOL * volumes[j]
            volumes[j] = value
        if settled:
            break
    for j in range(k):
        for a in range(d):
            out[j * d + a] = fmax(volumes[j] * form[a], family.floor)


cdef void _own_axes(
    const Family* family, const double* scatter, const double* mass, const double* previous,
    double* out, double* work,
) noexcept nogil:
    """EEV, VEV and EVV: every component has the principal axes of its scatter."""
    cdef Py_ssize_t k = family.k, d = family.d, j, a
    cdef double* axes = work
    cdef double* spread = axes + k * d * d
    cdef double* before = spread + k * d
    cdef double* variances = before + k * d
    cdef double* rest = variances + k * d
    cdef double* aside = rest + d * d
    for j in range(k):
        if family.volume == V and family.shape == E:
            # Only the volumes matter, and a factor is enough for them.
            if cholesky(previous + j * d * d, d, 0.0, rest):
                for a in range(d):
                    before[j * d + a] = rest[a * d + a] * rest[a * d + a]
            else:
                ascending(previous + j * d * d, d, rest, aside, before + j * d)
        ascending(scatter + j * d * d, d, rest, axes + j * d * d, spread + j * d)
        for a in range(d):
            spread[j * d + a] = fmax(spread[j * d + a], 0.0)
    _variances(family, d, spread, mass, before, variances, aside + d * d)
    for j in range(k):
        compose(axes + j * d * d, variances + j * d, d, out + j * d * d)


cdef void _proportional(
    const Family* family, const double* scatter, const double* mass, const double* previous,
    double* out, double* work,
) noexcept nogil:
    """VEE: multiples of one matrix, updated in turn with the multiples."""
    cdef Py_ssize_t k = family.k, d = family.d, j, a, b, step
    cdef double least = fmax(family.floor, SMALLEST), whole = _total(mass, k), value, trace
    cdef double* volumes = work
    cdef double* matrix = volumes + k
    cdef double* factor = matrix + d * d
    cdef double* inverse = factor + d * d
    cdef double* P = inverse + d * d
    cdef double* spare = P + d * d
    memcpy(out, previous, k * d * d * sizeof(double))
    raise_spectra(out, k, d, least, spare)
    for j in range(k):
        cholesky(out + j * d * d, d, 0.0, factor)
        volumes[j] = fmax(exp(-precision(factor, d, inverse, P) / d), least)
    for step in range(family.n_steps):
        trace = 0.0
        for a in range(d):
            for b in range(d):
                value = 0.0
                for j in range(k):
                    value += scatter[(j * d + a) * d + b] / (volumes[j] * whole)
                matrix[a * d + b] = value
            trace += matrix[a * d + a]
        for a in range(d):
            matrix[a * d + a] += RIDGE * (1.0 + fabs(trace) / d)
        value = 1.0 / _size(matrix, d, factor, inverse, P)
        for a in range(d * d):
            matrix[a] *= value
        if _multiples(family, scatter, mass, factor, inverse, P, matrix, least, volumes):
            break
    for j in range(k):
        for a in range(d * d):
            out[j * d * d + a] = volumes[j] * matrix[a]
    raise_spectra(out, k, d, family.floor, spare)


cdef bint _multiples(
    const Family* family, const double* scatter, const double* mass, double* factor,
    double* inverse, double* P, const double* matrix, double least, double* volumes,
) noexcept nogil:
    """Replace ``volumes`` by the best multiples of a matrix; returns whether they settled."""
    cdef Py_ssize_t k = family.k, d = family.d, j, a
    cdef double value
    cdef bint settled = True
    cholesky(matrix, d, 0.0, factor)
    precision(factor, d, inverse, P)
    for j in range(k):
        value = 0.0
        for a in range(d * d):
            value += scatter[j * d * d + a] * P[a]
        value = fmax(value / (mass[j] * d), least)
        settled = settled and fabs(value - volumes[j]) <= INNER_TOL * volumes[j]
        volumes[j] = value
    return settled


cdef double _size(
    double* matrix, Py_ssize_t d, double* factor, double* inverse, double* P,
) noexcept nogil:
    """|matrix|^(1/d); if rounding made it indefinite, its diagonal is raised first."""
    cdef Py_ssize_t a, decade
    cdef double trace = 0.0, more
    for a in range(d):
        trace += fabs(matrix[a * d + a])
    more = fmax(1e-14 * trace, SMALLEST)
    for decade in range(DECADES):
        if cholesky(matrix, d, 0.0, factor):
            return exp(-precision(factor, d, inverse, P) / d)
        for a in range(d):
            matrix[a * d + a] += more
        more *= 10.0
    return NAN


cdef void _common_axes(
    const Family* family, const double* scatter, const double* mass, const double* previous,
    double* out, double* work,
) noexcept nogil:
    """EVE and VVE: one set of axes, rotated in pairs, in turn with the variances along them."""
    cdef Py_ssize_t k = family.k, d = family.d, j, a, step
    cdef double trace, weight, angle
    cdef double* rotated = work
    cdef double* spread = rotated + k * d * d
    cdef double* variances = spread + k * d
    cdef double* together = variances + k * d
    cdef double* rest = together + d * d
    cdef double* axes = rest + d * d
    cdef double* spare = axes + d * d
    memset(together, 0, d * d * sizeof(double))
    for j in range(k):
        trace = 0.0
        for a in range(d):
            trace += previous[(j * d + a) * d + a]
        weight = (1.0 + <double> j / k) / fmax(trace, SMALLEST)
        for a in range(d * d):
            together[a] += weight * previous[j * d * d + a]
    ascending(together, d, rest, axes, spread)
    for j in range(k):
        rotate(axes, scatter + j * d * d, d, rest, rotated + j * d * d)
    _diagonals(rotated, k, d, spread)
    _variances(family, d, spread, mass, spread, variances, spare)
    for step in range(family.n_steps):
        angle = _sweep(family, axes, rotated, variances)
        _diagonals(rotated, k, d, spread)
        _variances(family, d, spread, mass, spread, variances, spare)
        if angle <= SMALLEST_ANGLE:
            break
    for j in range(k):
        compose(axes, variances + j * d, d, out + j * d * d)


cdef void _diagonals(
    const double* matrices, Py_ssize_t k, Py_ssize_t d, double* out,
) noexcept nogil:
    cdef Py_ssize_t j, a
    for j in range(k):
        for a in range(d):
            out[j * d + a] = matrices[(j * d + a) * d + a]


cdef double _sweep(
    const Family* family, double* axes, double* rotated, const double* variances,
) noexcept nogil:
    """Rotate every pair of axes to its best angle, in place; returns the largest angle."""
    cdef Py_ssize_t k = family.k, d = family.d, t, j, p, q
    cdef double largest = 0.0, a, b, gap, angle, c, s
    cdef double* matrix
    for t in range(family.n_turns):
        p, q = family.turns[2 * t], family.turns[2 * t + 1]
        a = b = 0.0
        for j in range(k):
            matrix = rotated + j * d * d
            gap = 1.0 / variances[j * d + p] - 1.0 / variances[j * d + q]
            a += 0.5 * gap * (matrix[p * d + p] - matrix[q * d + q])
            b += gap * matrix[p * d + q]
        if a == 0.0 and b == 0.0:
            continue
        angle = 0.5 * atan2(-b, -a)
        largest = fmax(largest, fabs(angle))
        c, s = cos(angle), sin(angle)
        turn(axes + p, axes + q, d, d, c, s)
        for j in range(k):
            matrix = rotated + j * d * d
            turn(matrix + p, matrix + q, d, d, c, s)
            turn(matrix + p * d, matrix + q * d, d, 1, c, s)
    return largest


cdef void _plain(
    const Family* family, const double* scatter, const double* mass, double* out, double* work,
) noexcept nogil:
    """VVV, or EEE if there is only one matrix for all."""
    cdef Py_ssize_t k = family.k, size = family.d * family.d, j, a
    cdef double whole = _total(mass, k), value
    for a in range(size):
        value = 0.0
        for j in range(k):
            value += scatter[j * size + a]
        for j in range(k):
            out[j * size + a] = (
                value / whole if family.orientation == E else scatter[j * size + a] / mass[j]
            )
    raise_spectra(out, k, family.d, family.floor, work)
