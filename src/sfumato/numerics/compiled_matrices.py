"""Small symmetric matrices in plain loops, compiled, for ``compiled_families`` and mixtures.

Needs Numba (``pip install 'sfumato[fast]'``). Import at call time. Plain loops, not array
expressions or LAPACK: they compile in a third of the time, and for so few features they are as
fast.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = [
    "ascending",
    "cholesky",
    "compose",
    "copy",
    "precision",
    "raised",
    "rotate",
    "scale",
    "total",
    "turn",
    "turn_rows",
]

SWEEPS = 30  # most rounds of Jacobi's rotations; a few are enough
ROUNDING = 1e-28  # squared size of what is off the diagonal, relative to the diagonal, at the end


@njit(cache=True, nogil=True)
def cholesky(matrix, least, factor):
    """Lower factor of ``matrix`` less ``least`` on its diagonal; whether there is one."""
    d = len(matrix)
    for a in range(d):
        for b in range(a + 1):
            value = matrix[a, b] - (least if a == b else 0.0)
            for c in range(b):
                value -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = value / factor[b, b]
            elif not value > 0.0:
                return False
            else:
                factor[a, a] = np.sqrt(value)
    return True


@njit(cache=True, nogil=True)
def precision(factor, inverse, P):
    """Inverse ``P`` of the matrix of a lower factor, and the logarithm of its determinant."""
    d, log_det = len(factor), 0.0
    for a in range(d):
        inverse[a, a] = 1.0 / factor[a, a]
        log_det += 2.0 * np.log(inverse[a, a])
        for b in range(a):
            value = 0.0
            for c in range(b, a):
                value -= factor[a, c] * inverse[c, b]
            inverse[a, b] = value * inverse[a, a]
    for a in range(d):
        for b in range(a + 1):
            value = 0.0
            for c in range(a, d):
                value += inverse[c, a] * inverse[c, b]
            P[a, b] = value
            P[b, a] = value
    return log_det


@njit(cache=True, nogil=True)
def _eigen(matrix, rest, axes):
    """Principal ``axes`` by Jacobi's rotations; the variances are the diagonal of ``rest``."""
    d = len(matrix)
    for a in range(d):
        for b in range(d):
            rest[a, b] = matrix[a, b]
            axes[a, b] = 1.0 if a == b else 0.0
    for _ in range(SWEEPS):
        left = size = 0.0
        for a in range(d):
            size += rest[a, a] ** 2
            for b in range(a):
                left += rest[b, a] ** 2
        if left <= ROUNDING * size:
            break
        for p in range(d - 1):
            for q in range(p + 1, d):
                if rest[p, q] != 0.0:
                    _annul(rest, axes, p, q)


@njit(cache=True, nogil=True)
def _annul(rest, axes, p, q):
    """Turn a corner of the upper triangle of ``rest`` to zero, and the ``axes`` with it."""
    d, corner = len(rest), rest[p, q]
    # The tangent of the smaller of the two angles.
    ratio = 0.5 * (rest[p, p] - rest[q, q]) / corner
    tangent = 1.0 / (abs(ratio) + np.sqrt(ratio * ratio + 1.0))
    c = 1.0 / np.sqrt(tangent * tangent + 1.0)
    tangent = np.copysign(tangent, ratio)
    s = tangent * c
    rest[p, p] += tangent * corner
    rest[q, q] -= tangent * corner
    rest[p, q] = 0.0
    for a in range(p):
        first, second = rest[a, p], rest[a, q]
        rest[a, p] = c * first + s * second
        rest[a, q] = c * second - s * first
    for a in range(p + 1, q):
        first, second = rest[p, a], rest[a, q]
        rest[p, a] = c * first + s * second
        rest[a, q] = c * second - s * first
    for a in range(q + 1, d):
        first, second = rest[p, a], rest[q, a]
        rest[p, a] = c * first + s * second
        rest[q, a] = c * second - s * first
    turn(axes, p, q, c, s)


@njit(cache=True, nogil=True)
def ascending(matrix, rest, axes, values):
    """Variances in ascending order, and the axes in the same order."""
    d = len(matrix)
    _eigen(matrix, rest, axes)
    for a in range(d):
        values[a] = rest[a, a]
    for a in range(d - 1):
        least = a
        for b in range(a + 1, d):
            if values[b] < values[least]:
                least = b
        values[a], values[least] = values[least], values[a]
        for c in range(d):
            axes[c, a], axes[c, least] = axes[c, least], axes[c, a]


@njit(cache=True, nogil=True)
def raised(matrices, floor):
    """Raise eigenvalues below ``floor`` to it, in place."""
    k, d = matrices.shape[0], matrices.shape[2]
    factor, axes, values = np.zeros((d, d)), np.empty((d, d)), np.empty(d)
    for j in range(k):
        if cholesky(matrices[j], floor, factor):
            continue
        ascending(matrices[j], factor, axes, values)
        for a in range(d):
            values[a] = max(values[a], floor)
        compose(axes, values, matrices[j])


@njit(cache=True, nogil=True)
def compose(axes, variances, out):
    """The matrix of these variances along these axes."""
    d = len(axes)
    for a in range(d):
        for b in range(a + 1):
            value = 0.0
            for c in range(d):
                value += axes[a, c] * variances[c] * axes[b, c]
            out[a, b] = value
            out[b, a] = value


@njit(cache=True, nogil=True)
def turn(columns, p, q, c, s):
    """Rotate two columns by the angle of cosine ``c`` and sine ``s``, in place."""
    for a in range(len(columns)):
        first, second = columns[a, p], columns[a, q]
        columns[a, p] = c * first + s * second
        columns[a, q] = c * second - s * first


@njit(cache=True, nogil=True)
def turn_rows(rows, p, q, c, s):
    """Rotate two rows, in place."""
    for a in range(rows.shape[1]):
        first, second = rows[p, a], rows[q, a]
        rows[p, a] = c * first + s * second
        rows[q, a] = c * second - s * first


@njit(cache=True, nogil=True)
def rotate(axes, matrix, half, out):
    """``axes' matrix axes``."""
    d = len(matrix)
    for a in range(d):
        for b in range(d):
            half[a, b] = 0.0
            for c in range(d):
                half[a, b] += matrix[a, c] * axes[c, b]
    for a in range(d):
        for b in range(d):
            out[a, b] = 0.0
            for c in range(d):
                out[a, b] += axes[c, a] * half[c, b]


@njit(cache=True, nogil=True)
def scale(matrix, factor):
    """Multiply a matrix by a number, in place."""
    for a in range(matrix.shape[0]):
        for b in range(matrix.shape[1]):
            matrix[a, b] *= factor


@njit(cache=True, nogil=True)
def copy(source, out):
    """Copy matrices (k, a, b)."""
    for j in range(source.shape[0]):
        for a in range(source.shape[1]):
            for b in range(source.shape[2]):
                out[j, a, b] = source[j, a, b]


@njit(cache=True, nogil=True)
def total(values):
    """Sum of a vector."""
    value = 0.0
    for j in range(len(values)):
        value += values[j]
    return value
