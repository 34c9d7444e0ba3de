"""Quadratic programs on the simplex by an active set.

    min over the simplex of  u'Hu / 2 - b'u,    H positive semidefinite

Free coordinates are added one at a time, always the one with the most negative slope, starting at
the best vertex or at the support of a given point (Lawson and Hanson 1974, with one equality).
Because u sums to one, H + c 11' has the same minimiser as H. With c > 0 it is positive definite on
every set of free coordinates with a unique minimiser, so one Cholesky factor, extended row by row,
solves each step.
"""

import numpy as np
from libc.math cimport INFINITY, fabs, fmax, sqrt

cdef double TINY = 1e-15  # as in numerics.simplex
cdef double EPS = 2.220446049250313e-16


def quadratic_programs(H, B):
    """Minimisers for every row b of ``B`` (n, k); ``H`` is (k, k), shared, or (n, k, k)."""
    cdef const double[:, :, ::1] stack = np.ascontiguousarray(
        H[None] if H.ndim == 2 else H, dtype=np.float64
    )
    cdef const double[:, ::1] rows = np.ascontiguousarray(B, dtype=np.float64)
    cdef Py_ssize_t n = rows.shape[0], k = rows.shape[1]
    if stack.shape[1] != k or stack.shape[2] != k or stack.shape[0] not in (1, n):
        raise ValueError(f"H must be ({k}, {k}) or ({n}, {k}, {k}), got {H.shape}")
    U = np.empty((n, k))
    scratch, places = np.empty((k + 5) * k), np.empty(k, dtype=np.intp)
    cdef double[:, ::1] out = U
    cdef double[::1] work = scratch
    cdef Py_ssize_t[::1] free = places
    if n and k:
        with nogil:
            _rows(stack, rows, out, work, free)
    return U.astype(B.dtype, copy=False)


cdef void _rows(
    const double[:, :, ::1] stack, const double[:, ::1] B, double[:, ::1] U, double[::1] work,
    Py_ssize_t[::1] free,
) noexcept nogil:
    cdef Py_ssize_t n = B.shape[0], k = B.shape[1], i, r, best
    cdef const double* H = &stack[0, 0, 0]
    cdef const double* b
    cdef double* u
    for i in range(n):
        if stack.shape[0] > 1:
            H = &stack[i, 0, 0]
        b, u = &B[i, 0], &U[i, 0]
        best = 0
        for r in range(k):
            u[r] = 0.0
            if H[r * k + r] / 2 - b[r] < H[best * k + best] / 2 - b[best]:
                best = r
        u[best] = 1.0
        minimise(H, b, u, k, &work[5 * k], &free[0], &work[0])


cdef Py_ssize_t minimise(
    const double* H, const double* b, double* u, Py_ssize_t k,
    double* factor, Py_ssize_t* free, double* work,
) noexcept nogil:
    """Move ``u``, a point of the simplex, to the minimum; returns the number of free coordinates.

    ``factor`` (k, k), ``free`` (k,) and ``work`` (5, k) are scratch; ``free`` then holds the free
    coordinates.
    """
    cdef double size = 0.0, steep = 0.0, lift
    cdef Py_ssize_t r, p = 0, entering, attempt
    for r in range(k):
        size = fmax(size, fabs(H[r * k + r]))
        steep = fmax(steep, fabs(b[r]))
    # If the slope is much larger than the curvature, a lift of the size of the curvature would be
    # lost in rounding.
    if size > 1e-12 * steep:
        lift = size
    else:
        lift = steep if steep > 0.0 else 1.0
    for r in range(k):
        if u[r] > 0.0:
            free[p] = r
            p += 1
    _extend(H, b, k, lift, factor, free, 0, p, work)
    p = _settle(H, b, u, k, lift, factor, free, p, work)
    # About one round per coordinate of the answer; more only if rounding causes cycles.
    for attempt in range(4 * k + 8):
        entering = _steepest(H, b, u, k, size, free, p, work + 4 * k)
        if entering < 0:
            break
        free[p] = entering
        p += 1
        _extend(H, b, k, lift, factor, free, p - 1, p, work)
        p = _settle(H, b, u, k, lift, factor, free, p, work)
    return p


cdef Py_ssize_t _steepest(
    const double* H, const double* b, const double* u, Py_ssize_t k, double size,
    const Py_ssize_t* free, Py_ssize_t p, double* slope,
) noexcept nogil:
    """The coordinate whose slope is furthest below that of the free ones; -1 if there is none
    beyond rounding.
    """
    cdef Py_ssize_t r, c, best = 0
    cdef double share, level = 0.0, scale = size
    cdef const double* row
    for r in range(k):
        slope[r] = -b[r]
    for c in range(p):
        row, share = H + free[c] * k, u[free[c]]
        for r in range(k):
            slope[r] += share * row[r]
    for c in range(p):
        r = free[c]
        scale = fmax(scale, fabs(b[r]))
        level += u[r] * slope[r]
        slope[r] = INFINITY
    for r in range(k):
        if slope[r] < slope[best]:
            best = r
    return best if slope[best] < level - 8 * EPS * scale else -1


cdef void _extend(
    const double* H, const double* b, Py_ssize_t k, double lift, double* factor,
    const Py_ssize_t* free, Py_ssize_t start, Py_ssize_t p, double* work,
) noexcept nogil:
    """Compute rows ``start``, ..., p - 1 of the Cholesky factor of (H + lift 11') on free
    coordinates.

    The diagonal holds reciprocals; the first rows of ``work`` hold the factor's inverse times b and
    times 1.
    """
    cdef Py_ssize_t i, j, c, at
    cdef double first, second, value, root
    cdef double* row
    cdef double* other
    for i in range(start, p):
        at, row = free[i], factor + i * k
        first, second = b[at], 1.0
        for j in range(i):
            other = factor + j * k
            value = H[at * k + free[j]] + lift
            for c in range(j):
                value -= row[c] * other[c]
            value *= other[j]
            row[j] = value
            first -= value * work[j]
            second -= value * work[k + j]
        value = H[at * k + at] + lift
        for c in range(i):
            value -= row[c] * row[c]
        # A flat direction keeps a tiny curvature, so the step along it ends when a coordinate
        # reaches zero.
        root = 1.0 / sqrt(fmax(value, 4 * EPS * lift))
        row[i] = root
        work[i], work[k + i] = first * root, second * root


cdef Py_ssize_t _settle(
    const double* H, const double* b, double* u, Py_ssize_t k, double lift, double* factor,
    Py_ssize_t* free, Py_ssize_t p, double* work,
) noexcept nogil:
    """Minimise over the free coordinates and drop those that reach zero; returns how many stay."""
    cdef Py_ssize_t c, r, leaving
    cdef double step, reach
    cdef const double* target = work + 2 * k
    while True:
        _equality(factor, k, p, work)
        step, leaving = 1.0, -1
        for c in range(p):
            r = free[c]
            if target[c] <= 0.0:
                reach = u[r] / (u[r] - target[c]) if u[r] > target[c] else 0.0
                if leaving < 0 or reach < step:
                    step, leaving = reach, c
        if leaving < 0:
            for c in range(p):
                u[free[c]] = target[c]
            return p
        for c in range(p):
            r = free[c]
            u[r] = fmax(0.0, u[r] + step * (target[c] - u[r]))
        u[free[leaving]] = 0.0
        p -= 1
        for c in range(leaving, p):
            free[c] = free[c + 1]
        _extend(H, b, k, lift, factor, free, leaving, p, work)


cdef void _equality(const double* factor, Py_ssize_t k, Py_ssize_t p, double* work) noexcept nogil:
    """Compute the minimiser with sum one over the free coordinates, of any sign: (H + lift 11') x =
    b + multiplier 1. It is left in the third row of ``work``.
    """
    cdef double* x = work + 2 * k
    cdef double* y = work + 3 * k
    cdef Py_ssize_t i, c
    cdef double first, second, multiplier, total = 0.0, ones = 0.0
    for i in range(p):
        x[i], y[i] = work[i], work[k + i]
    for i in range(p - 1, -1, -1):
        first, second = x[i] * factor[i * k + i], y[i] * factor[i * k + i]
        x[i], y[i] = first, second
        total += first
        ones += second
        for c in range(i):
            x[c] -= factor[i * k + c] * first
            y[c] -= factor[i * k + c] * second
    multiplier, total = (1.0 - total) / ones, 0.0
    for i in range(p):
        x[i] += multiplier * y[i]
        total += x[i]
    # Along a flat direction the target is so far away that its sum is only rounding.
    for i in range(p):
        x[i] = x[i] / total if total > 0.5 else x[i] + (1.0 - total) / p


cdef void pair_steps(
    const double* H, const double* b, double* u, Py_ssize_t k, double* slope, Py_ssize_t n_steps,
) noexcept nogil:
    """``n_steps`` exact line searches between the best and the worst used coordinate.

    ``slope`` (k,) is scratch. Much cheaper than ``minimise`` if many coordinates are free, and
    enough inside a sweep.
    """
    cdef Py_ssize_t r, c
    cdef double share
    cdef const double* row
    for r in range(k):
        slope[r] = -b[r]
    for c in range(k):
        row, share = H + c * k, u[c]
        if share > 0.0:
            for r in range(k):
                slope[r] += share * row[r]
    descend_pairs(H, slope, u, k, n_steps)


cdef void descend_pairs(
    const double* H, double* slope, double* u, Py_ssize_t k, Py_ssize_t n_steps,
) noexcept nogil:
    """The same as ``pair_steps``, from the gradient ``slope`` = H u - b, which is overwritten."""
    cdef Py_ssize_t r, to, out, taken
    cdef double fall, curvature, step
    cdef const double* gain
    cdef const double* loss
    for taken in range(n_steps):
        to, out = 0, -1
        for r in range(k):
            if slope[r] < slope[to]:
                to = r
            if u[r] > 0.0 and (out < 0 or slope[r] > slope[out]):
                out = r
        fall = slope[out] - slope[to]
        if fall <= 0.0:
            return
        gain, loss = H + to * k, H + out * k
        curvature = gain[to] + loss[out] - 2.0 * gain[out]
        step = u[out]
        if fall < step * curvature:
            step = fall / curvature
            u[out] = u[out] - step if u[out] - step > TINY else 0.0
        else:
            u[out] = 0.0
        u[to] += step
        for r in range(k):
            slope[r] += step * (gain[r] - loss[r])
