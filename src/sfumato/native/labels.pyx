"""Tables of labels: products with matrices, counts of equal labels, and sweeps over the objects.

A product adds one row of k numbers for each label. Rows are padded to 4, 8, 12 or 16 numbers,
widths known to the compiler, which uses vector instructions. A few partitions are processed at a
time, so that their sums stay in the first-level cache.
"""

import numpy as np
from libc.math cimport fmax, fmin
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy, memset

from .blas cimport real
from .signals cimport check_signals
from .simplex cimport descend_pairs
from .vectors cimport LINE, aligned, inlined, narrow

cdef Py_ssize_t WIDEST = 16  # numbers of a row that are added at once
cdef Py_ssize_t TILE = 256  # objects whose padded rows are held at a time
cdef Py_ssize_t NEAR = 1 << 15  # bytes for the sums of a few partitions
cdef Py_ssize_t WORK = 1 << 23  # additions between checks for Ctrl-C
cdef double EDGE = 1e-12  # as NEAR in models.consensus

ctypedef fused code:
    uint8_t
    uint16_t
    int32_t


def _table(codes, offsets):
    """Codes (n, m) and offsets (m + 1,) in the form of the loops, and the number of columns.

    Every code must be a column of its partition.
    """
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    if codes.dtype not in (np.uint8, np.uint16, np.int32):
        codes = codes.astype(np.int32)
    if offsets.shape != (codes.shape[1] + 1,):
        raise ValueError(f"offsets must be ({codes.shape[1] + 1},), got {offsets.shape}")
    return np.ascontiguousarray(codes), offsets, int(offsets.max())


def _numbers(array, dtype):
    return np.ascontiguousarray(array, dtype=np.float32 if dtype == np.float32 else np.float64)


def scatter(codes, offsets, U, scale, out):
    """Add the rows of ``U`` (n, k), times ``scale`` (n,) if given, to the rows of ``out`` (columns,
    k) that belong to their labels; ``out`` must be contiguous.
    """
    _sums(codes, offsets, U, scale, out, False)


def gather(codes, offsets, V, scale, out):
    """Write sums of rows of ``V`` (columns, k) over the labels of each object to ``out`` (n, k),
    times ``scale`` (n,) if given; ``out`` must be contiguous.
    """
    if not codes.size or not V.size:
        out[...] = 0.0
    _sums(codes, offsets, V, scale, out, True)


def _sums(codes, offsets, given, scale, out, outwards):
    codes, offsets, n_columns = _table(codes, offsets)
    given, n = _numbers(given, out.dtype), len(codes)
    objects, columns = (out, given) if outwards else (given, out)
    factor = np.ones(n, given.dtype) if scale is None else _numbers(scale, out.dtype)
    if (len(objects), given.shape[1], len(factor)) != (n, out.shape[1], n):
        raise ValueError(f"{given.shape} does not go into {out.shape} by codes {codes.shape}")
    if len(columns) < n_columns:
        raise ValueError(f"the sums of columns must have {n_columns} rows, got {len(columns)}")
    if codes.size and given.size:
        _product(codes, offsets, given, factor, out, outwards)


def _product(
    const code[:, ::1] codes, const int64_t[::1] offsets, const real[:, ::1] given,
    const real[::1] scale, real[:, ::1] out, bint outwards,
):
    """Sums over the labels: rows of objects into those of columns, or (``outwards``) back."""
    cdef Py_ssize_t n = codes.shape[0], k = given.shape[1], m = codes.shape[1], start, width, padded
    cdef Py_ssize_t i, r, first, columns = (given if outwards else out).shape[0], done
    cdef double[::1] memory = np.empty((columns + TILE) * WIDEST + LINE)
    cdef real* sums = <real*> aligned(&memory[0])
    cdef const real* own
    with nogil:
        for start in range(0, k, 16):
            width = min(WIDEST, k - start)
            padded = (width + 3) // 4 * 4
            memset(sums, 0, columns * padded * sizeof(real))
            if outwards:
                for i in range(columns):
                    for r in range(width):
                        sums[i * padded + r] = given[i, start + r]
            done = 0
            for first in range(0, n, 256):
                own = &(out if outwards else given)[first, start]
                _tile(
                    sums, &codes[first, 0], &offsets[0], m, min(TILE, n - first), <real*> own, k,
                    &scale[first], sums + columns * WIDEST, width, outwards,
                )
                done += TILE * m * padded
                if done > WORK:
                    check_signals()
                    done = 0
            if not outwards:
                for i in range(columns):
                    for r in range(width):
                        out[i, start + r] += sums[i * padded + r]


cdef narrow _tile(
    real* sums, const code* codes, const int64_t* offsets, Py_ssize_t m, Py_ssize_t n, real* own,
    Py_ssize_t k, const real* scale, real* rows, Py_ssize_t width, bint outwards,
) noexcept nogil:
    """Process all labels of a tile of ``n`` objects, by a loop for the width of the rows: read the
    rows ``own`` (n, k), or write them (``outwards``).
    """
    cdef Py_ssize_t first = 0, last, i, r, padded = (width + 3) // 4 * 4
    memset(rows, 0, n * padded * sizeof(real))
    if not outwards:
        for i in range(n):
            for r in range(width):
                rows[i * padded + r] = own[i * k + r] * scale[i]
    while first < m:
        last = first + 1
        while last < m and (offsets[last + 1] - offsets[first]) * padded * sizeof(real) <= NEAR:
            last += 1
        if padded == 4:
            _add(sums, codes, offsets, m, n, rows, 4, first, last, outwards)
        elif padded == 8:
            _add(sums, codes, offsets, m, n, rows, 8, first, last, outwards)
        elif padded == 12:
            _add(sums, codes, offsets, m, n, rows, 12, first, last, outwards)
        else:
            _add(sums, codes, offsets, m, n, rows, 16, first, last, outwards)
        first = last
    if outwards:
        for i in range(n):
            for r in range(width):
                own[i * k + r] = rows[i * padded + r] * scale[i]


cdef inlined _add(
    real* sums, const code* codes, const int64_t* offsets, Py_ssize_t m, Py_ssize_t n, real* rows,
    const Py_ssize_t width, Py_ssize_t first, Py_ssize_t last, bint outwards,
) noexcept nogil:
    """Add rows of objects to the sums of their labels in some partitions, or (``outwards``) sums to
    rows. ``width`` is a constant where this is inlined.
    """
    cdef real own[16]
    cdef real more[16]
    cdef Py_ssize_t i, b, r
    cdef real* row
    cdef real* place
    cdef real* other
    for i in range(n):
        row = rows + i * width
        for r in range(width):
            own[r] = row[r]
        if outwards:
            for b in range(first, last - 1, 2):  # two at a time, so that additions wait less
                place = sums + (offsets[b] + codes[i * m + b]) * width
                other = sums + (offsets[b + 1] + codes[i * m + b + 1]) * width
                for r in range(width):
                    own[r] += place[r] + other[r]
            if (last - first) % 2:
                place = sums + (offsets[last - 1] + codes[i * m + last - 1]) * width
                for r in range(width):
                    own[r] += place[r]
            for r in range(width):
                row[r] = own[r]
        else:
            for b in range(first, last):
                place = sums + (offsets[b] + codes[i * m + b]) * width
                for r in range(width):  # reads before writes, so that compilers vectorise
                    more[r] = place[r] + own[r]
                for r in range(width):
                    place[r] = more[r]


def equal_labels(codes, rows, out):
    """Number of partitions in which the objects of the slice ``rows`` agree with every object.
    ``codes`` is (m, n), one partition per row; the rows of ``out`` (n, n) in the slice are written.
    """
    codes = np.ascontiguousarray(codes)
    if out.shape != (codes.shape[1], codes.shape[1]) or not out.flags.c_contiguous:
        raise ValueError(f"out must be contiguous for codes {codes.shape}, got {out.shape}")
    start, stop, _ = rows.indices(len(out))
    if codes.size:
        _equal(codes, start, stop, out)
    else:
        out[start:stop] = 0.0


def _equal(const code[:, ::1] codes, Py_ssize_t start, Py_ssize_t stop, double[:, ::1] out):
    cdef Py_ssize_t m = codes.shape[0], n = codes.shape[1], i, j, b, done = 0
    cdef code own
    cdef const code* row
    cdef double* total
    # Counts of up to 255 partitions, in bytes, which processors compare fastest.
    cdef uint8_t[::1] held = np.zeros(n, dtype=np.uint8)
    cdef uint8_t* few = &held[0]
    with nogil:
        for i in range(start, stop):
            total = &out[i, 0]
            memset(total, 0, n * sizeof(double))
            for b in range(m):
                row = &codes[b, 0]
                own = row[i]
                for j in range(n):
                    few[j] += row[j] == own
                if b % 255 == 254 or b == m - 1:
                    for j in range(n):
                        total[j] += few[j]
                        few[j] = 0
            done += m * n
            if done > WORK:
                check_signals()
                done = 0


def table_sweep(codes, offsets, weights, coverage, U, M, S, absent):
    """One exact Gauss-Seidel pass over the objects of a table of labels (``label_table``).

    ``U`` (n, k), ``M`` (columns, k), ``S`` (k, k) and ``absent``, of size 0 or (m, k, k), are
    overwritten; they must be contiguous float64 arrays.
    """
    codes, offsets, n_columns = _table(codes, offsets)
    (n, m), k = codes.shape, U.shape[1]
    shapes = (len(U), M.shape, S.shape, len(weights), len(coverage))
    if shapes != (n, (n_columns, k), (k, k), m, n) or len(absent) not in (0, m):
        raise ValueError(f"U {U.shape}, M {M.shape}, S {S.shape} and codes {codes.shape} differ")
    if U.size and m:
        _sweep(
            codes, offsets, _numbers(weights, np.float64), _numbers(coverage, np.float64), U, M, S,
            absent,
        )


def _sweep(
    const code[:, ::1] codes, const int64_t[::1] offsets, const double[::1] weights,
    const double[::1] coverage, double[:, ::1] U, double[:, ::1] M, double[:, ::1] S,
    double[:, :, ::1] absent,
):
    cdef Py_ssize_t n = codes.shape[0], m = codes.shape[1], k = U.shape[1], i, b, c, r, s, done = 0
    cdef Py_ssize_t n_steps = max(1, k // 2)
    cdef bint gaps = absent.shape[0] > 0
    cdef double[::1] scratch = np.zeros(2 * k * k + 2 * k)
    cdef double* everyone = &scratch[0]
    cdef double* H = everyone + k * k
    cdef double* g = H + k * k
    cdef double* new = g + k
    cdef double* u
    with nogil:
        if gaps:
            for b in range(m):
                _add_scaled(&absent[b, 0, 0], weights[b], k * k, everyone)
        for i in range(n):
            u = &U[i, 0]
            for r in range(k):
                new[r], g[r] = u[r], coverage[i] * u[r]
                for s in range(k):
                    H[r * k + s] = coverage[i] * (S[r, s] - u[r] * u[s]) - everyone[r * k + s]
            for b in range(m):
                c = offsets[b] + codes[i, b]
                if c < offsets[b + 1] - 1:
                    _add_scaled(&M[c, 0], -weights[b], k, g)
                elif gaps:
                    _add_scaled(&absent[b, 0, 0], weights[b], k * k, H)
            for r in range(k):
                if u[r] > 0.0:
                    _add_scaled(H + r * k, u[r], k, g)
            descend_pairs(H, g, new, k, n_steps)
            # Update the sums with the changed row.
            for r in range(k):
                for s in range(k):
                    H[r * k + s] = new[r] * new[s] - u[r] * u[s]
                g[r] = new[r] - u[r]
            _add_scaled(H, 1.0, k * k, &S[0, 0])
            for b in range(m):
                c = offsets[b] + codes[i, b]
                _add_scaled(g, 1.0, k, &M[c, 0])
                if gaps and c == offsets[b + 1] - 1:
                    _add_scaled(H, 1.0, k * k, &absent[b, 0, 0])
                    _add_scaled(H, weights[b], k * k, everyone)
            memcpy(u, new, k * sizeof(double))
            done += (m + k) * k
            if done > WORK:
                check_signals()
                done = 0


cdef inline void _add_scaled(
    const double* values, double factor, Py_ssize_t n, double* to,
) noexcept nogil:
    cdef Py_ssize_t r
    for r in range(n):
        to[r] += factor * values[r]


def bregman_row(c, weight, U, u, int kind):
    """The row of one object moved by pair steps on the loss between its shares and p = U u.

    Shares ``c`` (n,), weights (n,), rows ``U`` (n, k); the slope of the loss is (p - c) h, with h =
    1 / (p (1 - p)), 1 / p or 1 / (c p): Bernoulli (0), Kullback-Leibler (1), Itakura-Saito (2).
    """
    cdef const double[::1] shares = _numbers(c, np.float64), weights = _numbers(weight, np.float64)
    cdef const double[:, ::1] rows = _numbers(U, np.float64)
    moved = np.array(u, dtype=np.float64)
    cdef double[::1] own = moved
    cdef Py_ssize_t n = rows.shape[0], k = rows.shape[1]
    if shares.shape[0] != n or weights.shape[0] != n or own.shape[0] != k:
        raise ValueError(f"c {c.shape}, weight {weight.shape}, U {U.shape}, u {u.shape} differ")
    cdef double[::1] work = np.empty(2 * n + k)
    if n and k:
        with nogil:
            _bregman(&shares[0], &weights[0], &rows[0, 0], n, k, &own[0], &work[0], kind)
    return moved


cdef void _bregman(
    const double* c, const double* weight, const double* U, Py_ssize_t n, Py_ssize_t k, double* u,
    double* work, int kind,
) noexcept nogil:
    cdef Py_ssize_t step, j, r, to, out
    cdef double product, force, way
    cdef double* p = work
    cdef double* d = work + n
    cdef double* gradient = work + 2 * n
    for step in range(max(1, k // 2)):
        memset(gradient, 0, k * sizeof(double))
        for j in range(n):
            product = 0.0
            for r in range(k):
                product += U[j * k + r] * u[r]
            p[j] = fmin(fmax(product, EDGE), 1 - EDGE)
            force = weight[j] * (p[j] - c[j]) * _height(kind, c[j], p[j])
            _add_scaled(U + j * k, force, k, gradient)
        to, out = 0, -1
        for r in range(k):
            if gradient[r] < gradient[to]:
                to = r
            if u[r] > 0 and (out < 0 or gradient[r] > gradient[out]):
                out = r
        if out < 0 or gradient[out] <= gradient[to]:
            break
        for j in range(n):
            d[j] = U[j * k + to] - U[j * k + out]
        way = _line_search(c, weight, p, d, n, u[out], kind)
        u[to] += way
        u[out] = fmax(u[out] - way, 0.0)


cdef double _height(int kind, double c, double p) noexcept nogil:
    return 1.0 / (p * (1.0 - p) if kind == 0 else p if kind == 1 else c * p)


cdef double _line_search(
    const double* c, const double* weight, const double* p, const double* d, Py_ssize_t n,
    double limit, int kind,
) noexcept nogil:
    """Minimiser t in [0, limit] of the loss at p + t d, approached from below."""
    cdef double low = 0.0, high = limit, curvature, steepest, slope, newton, t, slope_t, curvature_t
    cdef Py_ssize_t step
    steepest = _slope(c, weight, p, d, n, 0.0, &curvature, kind)
    if _slope(c, weight, p, d, n, limit, &curvature_t, kind) <= 0:
        return limit
    slope = steepest
    for step in range(40):
        newton = low - slope / curvature if curvature > 0 else high
        t = newton if low < newton < high else (low + high) / 2
        slope_t = _slope(c, weight, p, d, n, t, &curvature_t, kind)
        if slope_t > 0:
            high, curvature = t, 0.0
            continue
        low, slope, curvature = t, slope_t, curvature_t
        if slope >= 1e-3 * steepest:
            break
    return low


cdef double _slope(
    const double* c, const double* weight, const double* p, const double* d, Py_ssize_t n, double t,
    double* curvature, int kind,
) noexcept nogil:
    """Slope of the loss at p + t d, and its curvature."""
    cdef Py_ssize_t j
    cdef double first = 0.0, second = 0.0, q, force, height, gap
    for j in range(n):
        q = fmin(fmax(p[j] + t * d[j], EDGE), 1 - EDGE)
        height, gap = _height(kind, c[j], q), q - c[j]
        force = weight[j] * d[j] * height
        first += force * gap
        if kind == 0:
            second += force * d[j] * height * (gap * gap + c[j] * (1 - c[j]))
        else:
            second += force * d[j] * c[j] / q
    curvature[0] = second
    return first
