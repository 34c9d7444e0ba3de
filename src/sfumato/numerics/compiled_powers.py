"""Powers of distances, and the pass of fuzzy c-means with a fuzzifier other than two.

Need Numba (``pip install 'sfumato[fast]'``). Import at call time.

A power is  2^(p log2 x)  by polynomials, in loops that the compiler turns into vector instructions:
integers are moved to and from floating-point numbers by their bits, and the one division that an
object and a cluster cost serves the logarithm and the reciprocal alike. float32 has polynomials of
its own, of ratios to the least distance, whose logarithms are small where shares are not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["exp2", "fuzzy_powers", "fuzzy_single_powers", "log2", "single_powers"]

FREE = {"reassoc", "contract", "nsz"}
MANTISSA = 0xFFFFFFFFFFFFF  # bits of float64
BIAS = 0x3FF0000000000000  # of one
ROOT = 0x3FE6A09E667F3BCD  # of the root of 1/2, where mantissas begin
COUNTING = 0x4330000000000000  # of 2^52, whose last bits count ones
WHOLE = 6755399441055744.0  # 3 2^51: what is added to it is rounded to a whole number
LEAST = -1020.0  # exponent below which powers are not told apart

# The same of float32; typed, since a number of Python would make all of float64.
ONE = np.float32(1.0)
SINGLE_MANTISSA, SINGLE_ROOT = np.int32(0x7FFFFF), np.int32(0x3F3504F3)
SINGLE_MOVE = np.int32(0x3F800000 - 0x3F3504F3)
SINGLE_COUNTING, SINGLE_BIAS = np.int32(0x4B000000), np.float32(2**23 + 127)
SINGLE_WHOLE, SINGLE_LEAST = np.float32(3 * 2**22), np.float32(-125.0)
L8, L7, L6 = np.float32(0.12614846), np.float32(-0.20742103), np.float32(0.21566986)
L5, L4, L3 = np.float32(-0.23892035), np.float32(0.28791833), np.float32(-0.36070484)
L2, L1, L0 = np.float32(0.4809106), np.float32(-0.72134733), np.float32(1.442695)
E6, E5, E4 = np.float32(0.00015461448), np.float32(0.0013390867), np.float32(0.009618057)
E3, E2, E1 = np.float32(0.05550357), np.float32(0.24022651), np.float32(0.6931472)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def log2(x, out, inverse, counts, mantissas):
    """Logarithms and reciprocals of normal numbers below 1e300; the last two are to work in.

    x = m 2^e with m between the roots of 1/2 and 2; log2 m is 2 artanh(s) / log 2, s = (m - 1) /
    (m + 1), by a polynomial of degree 6 in s^2 through the nodes of Chebyshev: 2e-16.
    """
    bits, counted, cut = x.view(np.int64), counts.view(np.int64), mantissas.view(np.int64)
    for i in range(len(x)):
        moved = bits[i] + (BIAS - ROOT)
        counted[i] = (moved >> 52) | COUNTING
        cut[i] = (moved & MANTISSA) + ROOT
    for i in range(len(x)):
        e, m = counts[i] - (4503599627370496.0 + 1023.0), mantissas[i]
        both = 1.0 / (x[i] * (m + 1.0))
        inverse[i] = both * (m + 1.0)
        s = (m - 1.0) * (both * x[i])
        z = s * s
        series = 0.2429179602439567
        series = series * z + 0.2614440976022519
        series = series * z + 0.32061639271484715
        series = series * z + 0.4121984019847969
        series = series * z + 0.577078017246725
        series = series * z + 0.9617966939243336
        series = series * z + 2.885390081777927
        out[i] = e + s * series


@njit(cache=True, nogil=True, fastmath={"contract"})
def exp2(x, out, turns):
    """Powers of two of numbers up to 1000, those under ``LEAST`` as if at it; ``turns`` to work in.

    The rest of a whole number, at most 1/2, by a polynomial of degree 10 through the nodes of
    Chebyshev: 3e-16.
    """
    bits, whole = out.view(np.int64), turns.view(np.int64)
    for i in range(len(x)):
        power = max(x[i], LEAST)
        turn = power + WHOLE
        turns[i] = turn
        f = power - (turn - WHOLE)
        series = 7.072587226569927e-09
        series = series * f + 1.0208690586037056e-07
        series = series * f + 1.3215442576793237e-06
        series = series * f + 1.5252657258547322e-05
        series = series * f + 0.00015403530441763784
        series = series * f + 0.001333355823016814
        series = series * f + 0.00961812910760687
        series = series * f + 0.055504108664447695
        series = series * f + 0.24022650695910097
        series = series * f + 0.69314718055995
        out[i] = series * f + 1.0
    for i in range(len(x)):
        bits[i] += whole[i] << 52


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def fuzzy_powers(stack, weights, rows, sums, D, part, spare, fuzzifier):
    """As ``_fuzzy`` of ``compiled_sums`` for any fuzzifier and float64; ``spare`` (k + 7, b) to
    work in.
    """
    (k, b), power, cost = D.shape, 1.0 / (fuzzifier - 1.0), 0.0
    linear = np.ascontiguousarray(rows[:, 1:-1])
    shares, least, total = spare[:k], spare[k], spare[k + 1]
    for s in range(len(stack)):
        Z, last = stack[s, 1:-1], stack[s, -1]
        np.dot(linear, Z, D)
        _shares(D, rows, last, power, shares, least, total, spare[k + 2 :])
        cost += _pulls(D, shares, least, total, spare[k + 2], weights, s * b, last, sums)
        np.dot(D, Z.T, part)
        sums[:, 1:-1] += part
    return cost


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def _pulls(D, shares, least, total, scales, weights, start, last, sums):
    """Weights w u^m of the objects in ``D``, their sums and those of ``last``; the sum of costs.

    ``D`` comes with reciprocals of the distances, ``scales`` as the first of ``_shares``.
    """
    (k, b), one, cost = D.shape, D.dtype.type(1.0), 0.0
    for i in range(b):
        weight = weights[start + i] if len(weights) else one
        scale = weight * scales[i] * least[i]
        cost += np.float64(scale)
        total[i] = scale / total[i]
    for j in range(k):
        row, mass, rest = D[j], 0.0, 0.0
        for i in range(b):
            pull = shares[j, i] * row[i] * total[i]
            row[i] = pull
            mass += np.float64(pull)
            rest += np.float64(pull * last[i])
        sums[j, 0] += mass
        sums[j, -1] += rest
    return cost


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def _shares(D, rows, last, power, shares, least, total, spare):
    """(least / distance)^power in ``shares`` (k, b), reciprocals of the distances in ``D``, the
    ``least`` distance and the ``total`` share of every object; the first of ``spare`` (5, b) gets
    (k / total)^(1 / power), the powers in one, since k^(1 / power) alone may overflow.
    """
    (k, b), plain = D.shape, power in (2.0, 0.5)  # fuzzifiers 1.5 and 3 need no logarithm
    x, first, inverse, a, c = spare[0], spare[1], spare[2], spare[3], spare[4]
    least[:] = np.inf
    first[:] = np.inf
    total[:] = 0.0
    for j in range(k):
        row, constant, slope = D[j], rows[j, 0], rows[j, -1]
        for i in range(b):
            x[i] = row[i] + (constant + slope * last[i])
            least[i] = min(least[i], x[i])
        if plain:
            for i in range(b):
                shares[j, i] = 1.0 / x[i]
                row[i] = shares[j, i]
        else:
            log2(x, shares[j], inverse, a, c)
            for i in range(b):
                row[i] = inverse[i]
                first[i] = min(first[i], shares[j, i])
    for j in range(k):
        own = shares[j]
        for i in range(b):
            x[i] = least[i] * own[i] if plain else power * (first[i] - own[i])
        if power == 2.0:
            for i in range(b):
                own[i] = x[i] * x[i]
        elif power == 0.5:
            for i in range(b):
                own[i] = np.sqrt(x[i])
        else:
            exp2(x, own, a)
        for i in range(b):
            total[i] += own[i]
    if plain:
        for i in range(b):
            part = k / total[i]
            x[i] = np.sqrt(part) if power == 2.0 else part * part
    else:
        log2(total, first, inverse, a, c)
        for i in range(b):
            first[i] = (np.log2(k) - first[i]) / power
        exp2(first, x, a)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def single_powers(x, power, out, a, c):
    """x^power of normal float32 numbers, as if of 2^-125 where it is less, and below 2^127; ``a``
    and ``c`` are to work in.

    log2 of the mantissa m is  f Q(f),  f = m - 1, Q of degree 8 through the nodes of Chebyshev:
    4e-8; the power of two is of degree 6: 1e-8. The error is some units of the last place for each
    unit of the exponent of two.
    """
    bits, counted, cut = x.view(np.int32), a.view(np.int32), c.view(np.int32)
    for i in range(len(x)):
        moved = bits[i] + SINGLE_MOVE
        counted[i] = (moved >> 23) | SINGLE_COUNTING
        cut[i] = (moved & SINGLE_MANTISSA) + SINGLE_ROOT
    for i in range(len(x)):
        f = c[i] - ONE
        series = L8 * f + L7
        series = series * f + L6
        series = series * f + L5
        series = series * f + L4
        series = series * f + L3
        series = series * f + L2
        series = series * f + L1
        series = series * f + L0
        y = max(power * ((a[i] - SINGLE_BIAS) + f * series), SINGLE_LEAST)
        turn = y + SINGLE_WHOLE
        a[i] = turn
        y = y - (turn - SINGLE_WHOLE)
        series = E6 * y + E5
        series = series * y + E4
        series = series * y + E3
        series = series * y + E2
        series = series * y + E1
        out[i] = series * y + ONE
    raised = out.view(np.int32)
    for i in range(len(x)):
        raised[i] += counted[i] << 23


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def fuzzy_single_powers(stack, weights, rows, sums, D, part, spare, fuzzifier):
    """As ``fuzzy_powers`` for float32; ``spare`` (k + 6, b) of float32 to work in."""
    (k, b), cost = D.shape, 0.0
    linear = np.ascontiguousarray(rows[:, 1:-1])
    shares, least, total = spare[:k], spare[k], spare[k + 1]
    for s in range(len(stack)):
        Z, last = stack[s, 1:-1], stack[s, -1]
        np.dot(linear, Z, D)
        _single_shares(D, rows, last, fuzzifier, shares, least, total, spare[k + 2 :])
        cost += _pulls(D, shares, least, total, spare[k + 2], weights, s * b, last, sums)
        np.dot(D, Z.T, part)
        sums[:, 1:-1] += part
    return cost


@njit(cache=True, nogil=True, fastmath=FREE, error_model="numpy")
def _single_shares(D, rows, last, fuzzifier, shares, least, total, spare):
    """As ``_shares`` for float32; ``spare`` (4, b)."""
    (k, b), power = D.shape, np.float32(1.0 / (fuzzifier - 1.0))
    x, a, c, y = spare[0], spare[1], spare[2], spare[3]
    least[:] = np.inf
    total[:] = 0.0
    for j in range(k):
        row, constant, slope = D[j], rows[j, 0], rows[j, -1]
        for i in range(b):
            row[i] = row[i] + (constant + slope * last[i])
            least[i] = min(least[i], row[i])
    for j in range(k):
        row, own = D[j], shares[j]
        for i in range(b):
            row[i] = ONE / row[i]
            x[i] = least[i] * row[i]
        single_powers(x, power, own, a, c)
        for i in range(b):
            total[i] += own[i]
    for i in range(b):
        y[i] = total[i] / np.float32(k)
    single_powers(y, np.float32(1.0 - fuzzifier), x, a, c)
