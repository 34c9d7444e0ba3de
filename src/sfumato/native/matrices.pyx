"""Small symmetric matrices in plain loops, which are as fast as LAPACK for few features."""

from libc.math cimport copysign, fabs, fmax, fmin, log, sqrt

cdef Py_ssize_t SWEEPS = 30  # largest number of rounds of Jacobi rotations; a few are enough
# Squared size of the off-diagonal part, relative to the diagonal, at which to stop.
cdef double ROUNDING = 1e-28


cdef bint cholesky(
    const double* matrix, Py_ssize_t d, double least, double* factor,
) noexcept nogil:
    """Lower ``factor`` of ``matrix`` minus ``least`` on its diagonal; returns whether it exists.

    Entries above the diagonal of ``factor`` are neither read nor written.
    """
    cdef Py_ssize_t a, b, c
    cdef double value
    cdef double* row
    cdef const double* other
    for a in range(d):
        row = factor + a * d
        for b in range(a + 1):
            other = factor + b * d
            value = matrix[a * d + b]
            if a == b:
                value -= least
            for c in range(b):
                value -= row[c] * other[c]
            if a > b:
                row[b] = value / other[b]
            elif not value > 0.0:
                return False
            else:
                row[a] = sqrt(value)
    return True


cdef double invert_factor(const double* factor, Py_ssize_t d, double* inverse) noexcept nogil:
    """Write the inverse of a lower factor, lower as well; returns its log-determinant."""
    cdef Py_ssize_t a, b, c
    cdef double value, log_det = 0.0
    for a in range(d):
        inverse[a * d + a] = 1.0 / factor[a * d + a]
        log_det += log(inverse[a * d + a])
        for b in range(a):
            value = 0.0
            for c in range(b, a):
                value -= factor[a * d + c] * inverse[c * d + b]
            inverse[a * d + b] = value * inverse[a * d + a]
    return log_det


cdef double precision(
    const double* factor, Py_ssize_t d, double* inverse, double* P,
) noexcept nogil:
    """Inverse ``P`` of the matrix with this lower factor; returns the log-determinant of the
    inverse. ``inverse`` becomes that of the factor.
    """
    cdef Py_ssize_t a, b, c
    cdef double value, log_det = 2.0 * invert_factor(factor, d, inverse)
    for a in range(d):
        for b in range(a + 1):
            value = 0.0
            for c in range(a, d):
                value += inverse[c * d + a] * inverse[c * d + b]
            P[a * d + b] = P[b * d + a] = value
    return log_det


cdef void _eigen(const double* matrix, Py_ssize_t d, double* rest, double* axes) noexcept nogil:
    """Principal ``axes`` by Jacobi's rotations; the variances are the diagonal of ``rest``."""
    cdef Py_ssize_t a, b, p, q, sweep
    cdef double left, size
    for a in range(d):
        for b in range(d):
            rest[a * d + b] = matrix[a * d + b]
            axes[a * d + b] = 1.0 if a == b else 0.0
    for sweep in range(SWEEPS):
        left = size = 0.0
        for a in range(d):
            size += rest[a * d + a] * rest[a * d + a]
            for b in range(a):
                left += rest[b * d + a] * rest[b * d + a]
        if left <= ROUNDING * size:
            break
        for p in range(d - 1):
            for q in range(p + 1, d):
                if rest[p * d + q] != 0.0:
                    _annul(rest, axes, d, p, q)


cdef void _annul(
    double* rest, double* axes, Py_ssize_t d, Py_ssize_t p, Py_ssize_t q,
) noexcept nogil:
    """Rotate an off-diagonal entry of ``rest`` to zero, and the ``axes`` with it."""
    cdef Py_ssize_t a
    cdef double corner = rest[p * d + q], first, second
    # The tangent of the smaller of the two angles.
    cdef double ratio = 0.5 * (rest[p * d + p] - rest[q * d + q]) / corner
    cdef double tangent = 1.0 / (fabs(ratio) + sqrt(ratio * ratio + 1.0))
    cdef double c = 1.0 / sqrt(tangent * tangent + 1.0), s
    tangent = copysign(tangent, ratio)
    s = tangent * c
    rest[p * d + p] += tangent * corner
    rest[q * d + q] -= tangent * corner
    rest[p * d + q] = 0.0
    for a in range(p):
        first, second = rest[a * d + p], rest[a * d + q]
        rest[a * d + p] = c * first + s * second
        rest[a * d + q] = c * second - s * first
    for a in range(p + 1, q):
        first, second = rest[p * d + a], rest[a * d + q]
        rest[p * d + a] = c * first + s * second
        rest[a * d + q] = c * second - s * first
    for a in range(q + 1, d):
        first, second = rest[p * d + a], rest[q * d + a]
        rest[p * d + a] = c * first + s * second
        rest[q * d + a] = c * second - s * first
    turn(axes + p, axes + q, d, d, c, s)


cdef void ascending(
    const double* matrix, Py_ssize_t d, double* rest, double* axes, double* values,
) noexcept nogil:
    """Compute variances in ascending order, and the axes (columns) in the same order; ``rest`` (d,
    d) is scratch.
    """
    cdef Py_ssize_t a, b, c, least
    _eigen(matrix, d, rest, axes)
    for a in range(d):
        values[a] = rest[a * d + a]
    for a in range(d - 1):
        least = a
        for b in range(a + 1, d):
            if values[b] < values[least]:
                least = b
        values[a], values[least] = values[least], values[a]
        for c in range(d):
            axes[c * d + a], axes[c * d + least] = axes[c * d + least], axes[c * d + a]


cdef void raise_spectra(
    double* matrices, Py_ssize_t k, Py_ssize_t d, double floor, double* work,
) noexcept nogil:
    """Raise eigenvalues of ``matrices`` (k, d, d) below ``floor`` to it, in place.

    ``work`` (2 d d + d) is scratch.
    """
    cdef Py_ssize_t j, a
    cdef double* axes = work + d * d
    cdef double* values = axes + d * d
    for j in range(k):
        if cholesky(matrices + j * d * d, d, floor, work):
            continue
        ascending(matrices + j * d * d, d, work, axes, values)
        for a in range(d):
            values[a] = fmax(values[a], floor)
        compose(axes, values, d, matrices + j * d * d)


cdef void compose(
    const double* axes, const double* variances, Py_ssize_t d, double* out,
) noexcept nogil:
    """Write the matrix with these variances along these axes (columns) to ``out``."""
    cdef Py_ssize_t a, b, c
    cdef double value
    for a in range(d):
        for b in range(a + 1):
            value = 0.0
            for c in range(d):
                value += axes[a * d + c] * variances[c] * axes[b * d + c]
            out[a * d + b] = out[b * d + a] = value


cdef void turn(
    double* one, double* other, Py_ssize_t d, Py_ssize_t step, double c, double s,
) noexcept nogil:
    """Rotate two columns (``step`` d) or two rows (1) by the angle of cosine ``c`` and sine ``s``,
    in place.
    """
    cdef Py_ssize_t a
    cdef double first, second
    for a in range(d):
        first, second = one[a * step], other[a * step]
        one[a * step] = c * first + s * second
        other[a * step] = c * second - s * first


cdef void rotate(
    const double* axes, const double* matrix, Py_ssize_t d, double* half, double* out,
) noexcept nogil:
    """Write ``axes' matrix axes`` to ``out``; ``half`` (d, d) is scratch."""
    cdef Py_ssize_t a, b, c
    cdef double value
    for a in range(d):
        for b in range(d):
            half[a * d + b] = 0.0
        for c in range(d):
            value = matrix[a * d + c]
            for b in range(d):
                half[a * d + b] += value * axes[c * d + b]
    for a in range(d):
        for b in range(d):
            out[a * d + b] = 0.0
        for c in range(d):
            value = axes[c * d + a]
            for b in range(d):
                out[a * d + b] += value * half[c * d + b]


cdef void add_square(
    const double* P, const double* mean, Py_ssize_t d, Py_ssize_t q, double* row,
) noexcept nogil:
    """Add -(x - mean)' P (x - mean) / 2 as coefficients of z(x)."""
    cdef Py_ssize_t a, b, at = d + 1
    cdef double linear
    for a in range(d):
        linear = 0.0
        for b in range(d):
            linear += P[a * d + b] * mean[b]
        row[0] -= 0.5 * linear * mean[a]
        row[1 + a] = linear
    if q == d + 2:
        row[d + 1] = -0.5 * P[0]
    elif q == 2 * d + 1:
        for a in range(d):
            row[d + 1 + a] = -0.5 * P[a * d + a]
    else:
        for a in range(d):
            for b in range(a, d):
                # z(x) holds x_a x_b once for a < b, so these count twice.
                row[at] = -0.5 * P[a * d + a] if a == b else -P[a * d + b]
                at += 1


cdef bint extrapolate(
    double* x, const double* y, const double* z, Py_ssize_t size, double* stretch,
) noexcept nogil:
    """Overwrite the first of three states by their squared extrapolation (``engine.loop.Squarem``);
    returns whether it is beyond the last. ``stretch``, the longest step, is updated.
    """
    cdef Py_ssize_t a
    cdef double r = 0.0, v = 0.0, alpha
    for a in range(size):
        r += (y[a] - x[a]) ** 2
        v += (z[a] - 2.0 * y[a] + x[a]) ** 2
    alpha = -sqrt(r) / sqrt(v) if v > 0.0 else -1.0
    # As in SQUAREM: -1 is the plain step, and the longest step grows when it is reached.
    alpha = fmin(-1.0, fmax(-stretch[0], alpha))
    if alpha == -stretch[0]:
        stretch[0] *= 4.0
    if alpha == -1.0:
        return False
    for a in range(size):
        r, v = y[a] - x[a], z[a] - 2.0 * y[a] + x[a]
        x[a] += -2.0 * alpha * r + alpha * alpha * v
    return True
