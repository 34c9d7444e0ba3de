"""Exponentials, logarithms and powers of rows of numbers.

A power is  2^(p log2 x)  by polynomials, in loops that compilers turn into vector instructions:
integers are moved to and from floating-point numbers by their bits. float32 has polynomials of its
own.

The order of operations matters here, so this module is compiled without reordering.
"""

import numpy as np
from libc.stdint cimport uint32_t, uint64_t

cdef double WHOLE = 6755399441055744.0  # 3 2^51; adding it rounds to a whole number
cdef uint64_t MANTISSA = 0xFFFFFFFFFFFFF  # mask of the mantissa of float64
cdef uint64_t ROOT = 0x3FE6A09E667F3BCD  # bits of the root of 1/2, where mantissas start
cdef uint64_t MOVE = 0x3FF0000000000000 - 0x3FE6A09E667F3BCD  # bits of 1 less those of sqrt(1/2)
cdef uint64_t COUNTING = 0x4330000000000000  # bits of 2^52; its last bit is worth one

# The same for float32.
cdef float SINGLE_WHOLE = 12582912.0
cdef uint32_t SINGLE_MANTISSA = 0x7FFFFF
cdef uint32_t SINGLE_ROOT = 0x3F3504F3
cdef uint32_t SINGLE_MOVE = 0x3F800000 - 0x3F3504F3
cdef uint32_t SINGLE_COUNTING = 0x4B000000


cdef cloned add_exponentials(
    const real* x, double shift, Py_ssize_t n, double* out, double* turns, double* total,
) noexcept nogil:
    """Write exp(x + shift) to ``out`` and add it to ``total``; ``turns`` (n,) is scratch.

    It is 2^t times the Taylor series of a remainder of at most log(2) / 2. x + shift is clipped at
    -700 from below, and must not exceed 700.
    """
    cdef Py_ssize_t i
    cdef double y, turn, n_turns, series
    cdef uint64_t* bits = <uint64_t*> out
    cdef const uint64_t* whole = <const uint64_t*> turns
    for i in range(n):
        y = x[i] + shift
        y = -700.0 if y < -700.0 else y
        turn = y * 1.4426950408889634 + WHOLE
        turns[i] = turn
        n_turns = turn - WHOLE
        y = (y - n_turns * 0.6931471803691238) - n_turns * 1.9082149292705877e-10
        series = 1.0 / 6227020800.0
        series = series * y + 1.0 / 479001600.0
        series = series * y + 1.0 / 39916800.0
        series = series * y + 1.0 / 3628800.0
        series = series * y + 1.0 / 362880.0
        series = series * y + 1.0 / 40320.0
        series = series * y + 1.0 / 5040.0
        series = series * y + 1.0 / 720.0
        series = series * y + 1.0 / 120.0
        series = series * y + 1.0 / 24.0
        series = series * y + 1.0 / 6.0
        series = series * y + 0.5
        series = series * y + 1.0
        out[i] = series * y + 1.0
    for i in range(n):
        bits[i] += whole[i] << 52
    for i in range(n):
        total[i] += out[i]


cdef cloned log2(
    const double* x, Py_ssize_t n, double* out, double* counts, double* mantissas,
) noexcept nogil:
    """Logarithms of normal numbers below 1e300; the last two (n,) are scratch.

    x = m 2^e with m between the roots of 1/2 and 2; log2 m is 2 artanh(s) / log 2, s = (m - 1) /
    (m + 1), by a polynomial of degree 6 in s^2 through Chebyshev nodes, with an error of 2e-16.
    """
    cdef Py_ssize_t i
    cdef double e, m, s, z, series
    cdef const uint64_t* bits = <const uint64_t*> x
    cdef uint64_t* counted = <uint64_t*> counts
    cdef uint64_t* cut = <uint64_t*> mantissas
    for i in range(n):
        counted[i] = ((bits[i] + MOVE) >> 52) | COUNTING
        cut[i] = ((bits[i] + MOVE) & MANTISSA) + ROOT
    for i in range(n):
        e, m = counts[i] - (4503599627370496.0 + 1023.0), mantissas[i]
        s = (m - 1.0) / (m + 1.0)
        z = s * s
        series = 0.2429179602439567
        series = series * z + 0.2614440976022519
        series = series * z + 0.32061639271484715
        series = series * z + 0.4121984019847969
        series = series * z + 0.577078017246725
        series = series * z + 0.9617966939243336
        series = series * z + 2.885390081777927
        out[i] = e + s * series


cdef cloned exp2(const double* x, Py_ssize_t n, double* out, double* turns) noexcept nogil:
    """Powers of two of numbers up to 1000; below -1020 clipped. ``turns`` is scratch.

    The fraction, at most 1/2, uses a polynomial of degree 10 through Chebyshev nodes, with an error
    of 3e-16.
    """
    cdef Py_ssize_t i
    cdef double y, turn, series
    cdef uint64_t* bits = <uint64_t*> out
    cdef const uint64_t* whole = <const uint64_t*> turns
    for i in range(n):
        y = -1020.0 if x[i] < -1020.0 else x[i]
        turn = y + WHOLE
        turns[i] = turn
        y = y - (turn - WHOLE)
        series = 7.072587226569927e-09
        series = series * y + 1.0208690586037056e-07
        series = series * y + 1.3215442576793237e-06
        series = series * y + 1.5252657258547322e-05
        series = series * y + 0.00015403530441763784
        series = series * y + 0.001333355823016814
        series = series * y + 0.00961812910760687
        series = series * y + 0.055504108664447695
        series = series * y + 0.24022650695910097
        series = series * y + 0.69314718055995
        out[i] = series * y + 1.0
    for i in range(n):
        bits[i] += whole[i] << 52


cdef cloned powers(
    const real* x, real power, Py_ssize_t n, real* out, real* counts, real* mantissas,
) noexcept nogil:
    """x^power of positive numbers, as in ``log2`` and ``exp2`` or in ``single_powers``."""
    cdef Py_ssize_t i
    if real is float:
        single_powers(x, power, n, out, counts, mantissas)
    else:
        log2(x, n, out, counts, mantissas)
        for i in range(n):
            counts[i] = power * out[i]
        exp2(counts, n, out, mantissas)


cdef cloned single_powers(
    const float* x, float power, Py_ssize_t n, float* out, float* counts, float* mantissas,
) noexcept nogil:
    """x^power of normal float32 numbers below 2^127; smaller ones than 2^-125 are clipped. The last
    two (n,) are scratch.

    log2 of the mantissa m is f Q(f), f = m - 1, with Q of degree 8 through Chebyshev nodes (error
    4e-8); the power of two has degree 6 (error 1e-8). The error is a few units in the last place
    per unit of the exponent of two.
    """
    cdef Py_ssize_t i
    cdef float f, y, turn, series
    cdef const uint32_t* bits = <const uint32_t*> x
    cdef uint32_t* raised = <uint32_t*> out
    cdef uint32_t* counted = <uint32_t*> counts
    cdef uint32_t* cut = <uint32_t*> mantissas
    for i in range(n):
        counted[i] = ((bits[i] + SINGLE_MOVE) >> 23) | SINGLE_COUNTING
        cut[i] = ((bits[i] + SINGLE_MOVE) & SINGLE_MANTISSA) + SINGLE_ROOT
    for i in range(n):
        f = mantissas[i] - <float> 1.0
        series = <float> 0.12614846 * f + <float> -0.20742103
        series = series * f + <float> 0.21566986
        series = series * f + <float> -0.23892035
        series = series * f + <float> 0.28791833
        series = series * f + <float> -0.36070484
        series = series * f + <float> 0.4809106
        series = series * f + <float> -0.72134733
        series = series * f + <float> 1.442695
        y = power * ((counts[i] - <float> 8388735.0) + f * series)
        y = <float> -125.0 if y < <float> -125.0 else y
        turn = y + SINGLE_WHOLE
        counts[i] = turn
        y = y - (turn - SINGLE_WHOLE)
        series = <float> 0.00015461448 * y + <float> 0.0013390867
        series = series * y + <float> 0.009618057
        series = series * y + <float> 0.05550357
        series = series * y + <float> 0.24022651
        series = series * y + <float> 0.6931472
        out[i] = series * y + <float> 1.0
    for i in range(n):
        raised[i] += counted[i] << 23


def functions(x):
    """exp(x), log2(x) and 2^x (3, n) of a vector of float64, as the loops compute them."""
    cdef const double[::1] given = np.ascontiguousarray(x, dtype=np.float64)
    cdef Py_ssize_t n = given.shape[0]
    found = np.zeros((3, n))
    cdef double[:, ::1] out = found
    cdef double[:, ::1] work = np.empty((2, n))
    if n:
        add_exponentials(&given[0], 0.0, n, &work[0, 0], &work[1, 0], &out[0, 0])
        log2(&given[0], n, &out[1, 0], &work[0, 0], &work[1, 0])
        exp2(&given[0], n, &out[2, 0], &work[0, 0])
    return found


def powers_of_float32(x, float power):
    """x^power (n,) of a vector of float32."""
    cdef const float[::1] given = np.ascontiguousarray(x, dtype=np.float32)
    cdef Py_ssize_t n = given.shape[0]
    found = np.empty((3, n), dtype=np.float32)
    cdef float[:, ::1] out = found
    if n:
        single_powers(&given[0], power, n, &out[0, 0], &out[1, 0], &out[2, 0])
    return found[0]
