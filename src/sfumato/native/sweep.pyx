"""Sweeps of the pairwise model: every row in turn, newest values of all others first.

A row moves to the minimum of its quadratic program,

    min over the simplex of  a/2 u'Hu - b'u,  H = sum_{j != i} v_j u_j u_j',  b = sum_{j != i} v_j
    w_ij u_j

Terms of a row with itself (its copies, or the diagonal) are quartic; they are replaced by a
quadratic with the curvature at the current row, multiplied by ``damping``. Several runs share the
pass over the similarities, which are a matrix, the entries of a sparse matrix, or a factor.
"""

import numpy as np
from libc.math cimport INFINITY, fabs, fmax, fmin
from libc.string cimport memcpy, memset

from .blas cimport multiply, real
from .signals cimport check_signals
from .simplex cimport minimise, pair_steps

ctypedef fused index:
    int
    long long

cdef double EPS = 2.220446049250313e-16
# Largest number of positive memberships for which a row's program is solved exactly; beyond that, k
# / 2 pair steps cost less.
cdef Py_ssize_t EXACT = 6
cdef Py_ssize_t PANEL = 16  # rows whose products with all others form one matrix product
cdef Py_ssize_t BLOCK = 1024  # rows of sparse similarities between checks for Ctrl-C
cdef double LEAST_SCALE = 1e-150  # lower bound on the divisor of links
cdef int OWN = 6  # numbers per object


cdef class Rows:
    """Memberships ``U`` (n, r, k), which the sweeps overwrite, and the data of their programs.

    ``own`` (n, 6) has the weight of every object, its self pairs and their similarities, the
    diagonal entry, and the excluded self pairs with theirs; ``held`` (n,) rows are fixed. ``links``
    are None or the data, indices and index pointers of a sparse matrix. ``scale`` and ``damping``
    are (r,).
    """

    cdef Py_ssize_t n, runs, k, width
    cdef double[:, :, ::1] U, S
    cdef double[:, ::1] V, scratch
    cdef const double[:, ::1] own
    cdef const unsigned char[::1] held
    cdef const double[::1] pulls, scale, damping
    cdef const Py_ssize_t[::1] linked, starts
    cdef double[::1] gains
    cdef Py_ssize_t[::1] free
    cdef bint any_links
    cdef double* b
    cdef double* along
    cdef double* change
    cdef double* pull

    def __init__(self, U, own, held, links, scale, damping):
        self.n, self.runs, self.k = U.shape
        self.width = self.runs * self.k
        if not U.size or own.shape != (self.n, OWN) or held.shape != (self.n,):
            raise ValueError(f"U must not be empty, own and held must have {self.n} rows")
        if len(scale) != self.runs or len(damping) != self.runs:
            raise ValueError(f"scale and damping must have {self.runs} entries")
        self.U, self.own = U, np.ascontiguousarray(own, dtype=np.float64)
        self.held = np.ascontiguousarray(held, dtype=bool).view(np.uint8)
        self.scale = np.ascontiguousarray(scale, dtype=np.float64)
        self.damping = np.ascontiguousarray(damping, dtype=np.float64)
        self.any_links = links is not None
        if self.any_links:
            check_rows(*links, self.n, self.n)
            self.pulls = np.ascontiguousarray(links[0], dtype=np.float64)
            self.linked = np.ascontiguousarray(links[1], dtype=np.intp)
            self.starts = np.ascontiguousarray(links[2], dtype=np.intp)
        V = U * own[:, 0, None, None]
        self.V = V.reshape(self.n, -1)
        self.S = np.ascontiguousarray(np.matmul(U.transpose(1, 2, 0), V.transpose(1, 0, 2)))
        self.gains = np.zeros(self.runs)
        # Four vectors of all runs, and scratch for the program of one row.
        self.scratch = np.empty((1, 4 * self.width + (2 * self.k + 5) * self.k))
        self.free = np.empty(self.k, dtype=np.intp)
        self.b = &self.scratch[0, 0]
        self.along, self.change = self.b + self.width, self.b + 2 * self.width
        self.pull = self.b + 3 * self.width

    @property
    def weighted(self):
        """Weights times memberships (n, r k), as the sweep leaves them."""
        return np.asarray(self.V)

    @property
    def gained(self):
        """Change (r,) of t by the visited rows."""
        return np.asarray(self.gains)

    def moments(self):
        """Contributions of excluded self pairs to t, and q without them, (2, r)."""
        found = np.zeros((2, self.runs))
        cdef double[:, ::1] out = found
        cdef Py_ssize_t i, run
        cdef double square
        with nogil:
            for run in range(self.runs):
                out[1, run] = _dot(&self.S[run, 0, 0], &self.S[run, 0, 0], self.k * self.k)
            for i in range(self.n):
                for run in range(self.runs):
                    square = _dot(&self.U[i, run, 0], &self.U[i, run, 0], self.k)
                    out[0, run] += self.own[i, 5] * square
                    out[1, run] -= self.own[i, 4] * square * square
            for run in range(self.runs):
                out[1, run] = fmax(out[1, run], 0.0)
        return found

    def normalize(self):
        """Divide rows by their sums, to remove rounding errors."""
        cdef Py_ssize_t i, run
        with nogil:
            for i in range(self.n):
                for run in range(self.runs):
                    _normalize(&self.U[i, run, 0], self.k)

    cdef void visit(self, Py_ssize_t i) noexcept nogil:
        """Move row i of every run, given ``b`` = sum_j v_j w_ij u_j; ``change`` becomes v_i times
        the change of the row.
        """
        cdef Py_ssize_t e, c, run, k = self.k
        cdef double gained, full = self.own[i, 3]
        cdef double* v = &self.V[i, 0]
        memcpy(self.along, self.b, self.width * sizeof(double))
        if self.any_links:
            memset(self.pull, 0, self.width * sizeof(double))
            for e in range(self.starts[i], self.starts[i + 1]):
                _add(self.pull, &self.V[self.linked[e], 0], self.pulls[e], self.width)
        for run in range(self.runs):
            c = run * k
            if self.any_links:
                _add(self.b + c, self.pull + c, 1.0 / fmax(self.scale[run], LEAST_SCALE), k)
            _move(
                &self.own[i, 0], &self.U[i, run, 0], self.b + c, self.change + c, k,
                &self.S[run, 0, 0], self.scale[run], self.damping[run],
                self.pull + self.width, &self.free[0],
            )
        for run in range(self.runs):
            gained = 0.0
            for c in range(run * k, (run + 1) * k):
                self.change[c] *= self.own[i, 0]
                v[c] += self.change[c]
                gained += self.change[c] * (2.0 * self.along[c] + full * self.change[c])
            self.gains[run] += gained


def check_rows(data, indices, indptr, n, m):
    """Raise ValueError if these are not the rows of a sparse (n, m) matrix."""
    if len(indptr) != n + 1 or indptr[0] != 0 or np.max(indptr) > min(len(data), len(indices)):
        raise ValueError(f"index pointers must have {n + 1} entries, from 0 to the number of entries")
    if (np.diff(indptr) < 0).any() or (len(indices) and not 0 <= indices.min() <= indices.max() < m):
        raise ValueError(f"index pointers must not fall, and indices must lie between 0 and {m - 1}")


def walk_matrix(const real[:, :] W, Rows rows):
    """Visit all rows of a symmetric matrix with contiguous rows; returns t (r,) before the sweep.

    Products with the rows outside a panel are one matrix product.
    """
    cdef Py_ssize_t n = rows.n, start, stop, step = W.strides[0] // <Py_ssize_t> sizeof(real)
    if W.shape[0] != n or W.shape[1] != n or W.strides[1] != sizeof(real):
        raise ValueError(f"W must be ({n}, {n}) and contiguous in its rows")
    dtype = np.float32 if real is float else np.float64
    panels = np.zeros((2, PANEL, rows.width), dtype)
    t, copied = np.zeros(rows.runs), rows.weighted.astype(dtype, copy=False)
    cdef real[:, :, ::1] products = panels
    cdef real[:, ::1] V = copied
    cdef double[::1] out = t
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        with nogil:
            if start > 0:
                multiply(
                    &W[start, 0], step, &V[0, 0], &products[0, 0, 0], stop - start, rows.width,
                    start,
                )
            if stop < n:
                multiply(
                    &W[start, stop], step, &V[stop, 0], &products[1, 0, 0], stop - start,
                    rows.width, n - stop,
                )
            _panel(W, start, stop, V, products, rows, out)
        check_signals()
    return t


cdef void _panel(
    const real[:, :] W, Py_ssize_t start, Py_ssize_t stop, real[:, ::1] V,
    real[:, :, ::1] products, Rows rows, double[::1] t,
) noexcept nogil:
    """Visit the rows of a panel, given their products with the rows before and after it."""
    cdef Py_ssize_t i, j, c
    cdef const real* w
    cdef double* v
    for i in range(start, stop):
        w, v = &W[i, 0], &rows.V[i, 0]
        for c in range(rows.width):
            rows.b[c] = products[1, i - start, c] if stop < rows.n else 0.0
        for j in range(i + 1, stop):
            _add(rows.b, &rows.V[j, 0], w[j], rows.width)
        _count(rows, i, t)
        if rows.held[i]:
            continue
        for c in range(rows.width):
            rows.b[c] += rows.own[i, 3] * v[c]
            if start > 0:
                rows.b[c] += products[0, i - start, c]
        for j in range(start, i):
            _add(rows.b, &rows.V[j, 0], w[j], rows.width)
        rows.visit(i)
        for c in range(rows.width):
            V[i, c] = <real>v[c]


cdef void _count(Rows rows, Py_ssize_t i, double[::1] t) noexcept nogil:
    """Add to t the pairs of row i with itself and, from their product ``b``, with later rows."""
    cdef Py_ssize_t run, c
    cdef double* v = &rows.V[i, 0]
    for run in range(rows.runs):
        for c in range(run * rows.k, (run + 1) * rows.k):
            t[run] += v[c] * (2.0 * rows.b[c] + rows.own[i, 3] * v[c])


def walk_entries(
    const real[::1] data, const index[::1] indices, const index[::1] indptr, Rows rows
):
    """Visit all rows of a symmetric sparse matrix; returns t (r,) before the sweep."""
    cdef Py_ssize_t start, i, e
    if len(indptr) != rows.n + 1:
        raise ValueError(f"W must have {rows.n} rows")
    t = np.zeros(rows.runs)
    cdef double[::1] out = t
    for start in range(0, rows.n, BLOCK):
        with nogil:
            for i in range(start, min(start + BLOCK, rows.n)):
                memset(rows.b, 0, rows.width * sizeof(double))
                for e in range(indptr[i], indptr[i + 1]):
                    if indices[e] > i:
                        _add(rows.b, &rows.V[indices[e], 0], data[e], rows.width)
                _count(rows, i, out)
                if rows.held[i]:
                    continue
                for e in range(indptr[i], indptr[i + 1]):
                    if indices[e] <= i:
                        _add(rows.b, &rows.V[indices[e], 0], data[e], rows.width)
                rows.visit(i)
        check_signals()
    return t


def walk_factor(const real[:, ::1] F, double[:, ::1] M, Rows rows):
    """Visit all rows of W = F F', and update M = F'V (d, r k) along the way."""
    cdef Py_ssize_t d = F.shape[1], start, i, c
    if F.shape[0] != rows.n or M.shape[0] != d or M.shape[1] != rows.width:
        raise ValueError(f"F must have {rows.n} rows, and M must be ({d}, {rows.width})")
    for start in range(0, rows.n, BLOCK):
        with nogil:
            for i in range(start, min(start + BLOCK, rows.n)):
                if rows.held[i]:
                    continue
                memset(rows.b, 0, rows.width * sizeof(double))
                for c in range(d):
                    _add(rows.b, &M[c, 0], F[i, c], rows.width)
                rows.visit(i)
                for c in range(d):
                    _add(&M[c, 0], rows.change, F[i, c], rows.width)
        check_signals()


def walk_sparse_factor(
    const real[::1] data, const index[::1] indices, const index[::1] indptr, double[:, ::1] M,
    Rows rows,
):
    """The same as ``walk_factor``, for the entries of a sparse F."""
    cdef Py_ssize_t start, i, e
    if len(indptr) != rows.n + 1 or M.shape[1] != rows.width:
        raise ValueError(f"F must have {rows.n} rows, and M {rows.width} columns")
    for start in range(0, rows.n, BLOCK):
        with nogil:
            for i in range(start, min(start + BLOCK, rows.n)):
                if rows.held[i]:
                    continue
                memset(rows.b, 0, rows.width * sizeof(double))
                for e in range(indptr[i], indptr[i + 1]):
                    _add(rows.b, &M[indices[e], 0], data[e], rows.width)
                rows.visit(i)
                for e in range(indptr[i], indptr[i + 1]):
                    _add(&M[indices[e], 0], rows.change, data[e], rows.width)
        check_signals()


def extrapolated(const real[:, :, ::1] U, const real[:, :, ::1] previous, const double[::1] momentum):
    """Memberships (n, r, k) extrapolated from this step and the one before, nonnegative and with
    rows that sum to one.
    """
    cdef Py_ssize_t n = U.shape[0], runs = U.shape[1], k = U.shape[2], i, run, r
    if previous.shape[0] != n or previous.shape[1] != runs or previous.shape[2] != k:
        raise ValueError("U and previous must have the same shape")
    if momentum.shape[0] != runs:
        raise ValueError(f"momentum must have {runs} entries")
    found = np.empty((n, runs, k), np.float32 if real is float else np.float64)
    cdef real[:, :, ::1] out = found
    cdef real value
    with nogil:
        for i in range(n):
            for run in range(runs):
                for r in range(k):
                    value = U[i, run, r]
                    value += <real>momentum[run] * (value - previous[i, run, r])
                    out[i, run, r] = value if value > 0 else 0
                _normalize(&out[i, run, 0], k)
    return found


cdef inline void _normalize(real* u, Py_ssize_t k) noexcept nogil:
    """Divide a row by its sum; a row without mass becomes uniform."""
    cdef Py_ssize_t r
    cdef real total = 0.0
    for r in range(k):
        total += u[r]
    for r in range(k):
        u[r] = u[r] / total if total > 0 else <real>1.0 / k


cdef inline void _add(double* b, const double* row, double share, Py_ssize_t m) noexcept nogil:
    """Add ``share`` times a row to ``b``."""
    cdef Py_ssize_t r
    for r in range(m):
        b[r] += share * row[r]


cdef inline double _dot(const double* a, const double* b, Py_ssize_t m) noexcept nogil:
    cdef Py_ssize_t r
    cdef double total = 0.0
    for r in range(m):
        total += a[r] * b[r]
    return total


cdef bint _stays(
    Py_ssize_t top, double height, const double* b, Py_ssize_t k, const double* S, double a,
    double toward, double across, double along,
) noexcept nogil:
    """Whether a row with a single membership, ``height`` in cluster ``top``, is at the minimum.

    The answer is that of ``minimise``, from one column of H = a S + across u u' + along I.
    """
    cdef double own = across * height * height + along
    cdef double level = (a * S[top * k + top] + own - toward) * height - b[top]
    cdef double size = fabs(a * S[top * k + top] + own), lowest = INFINITY
    cdef Py_ssize_t r
    for r in range(k):
        if r != top:
            lowest = fmin(lowest, a * S[top * k + r] * height - b[r])
            size = fmax(size, fabs(a * S[r * k + r] + along))
    return not lowest < level - 8 * EPS * fmax(size, fabs(b[top] + toward * height))


cdef void _move(
    const double* own, double* u, double* b, double* change, Py_ssize_t k, double* S, double a,
    double damping, double* work, Py_ssize_t* free,
) noexcept nogil:
    """Move row ``u`` to the minimum of its program and update S; ``b`` = sum_j v_j w_ij u_j is
    overwritten, and ``work`` needs room for 2 k + 5 vectors.
    """
    cdef double weight = own[0], pairs = own[1], square = 0.0, bend, toward, across
    cdef double* H = work + 5 * k
    cdef Py_ssize_t r, s, used = 0, top = 0
    for r in range(k):
        square += u[r] * u[r]
        used += u[r] > 0.0
        top = r if u[r] > u[top] else top
    bend = a * pairs * damping
    across = 2 * bend - a * weight
    toward = own[2] - weight * own[3] - a * pairs * square + 3 * bend * square
    if used == 0 or (used == 1 and _stays(top, u[top], b, k, S, a, toward, across, bend * square)):
        memset(change, 0, k * sizeof(double))
        return
    for r in range(k):
        for s in range(k):
            H[r * k + s] = a * S[r * k + s] + across * u[r] * u[s]
        H[r * k + r] += bend * square
        b[r] += toward * u[r]
        change[r] = u[r]
    if used > EXACT:
        pair_steps(H, b, u, k, work, (k + 1) // 2)
    else:
        minimise(H, b, u, k, H + k * k, free, work)
    for r in range(k):
        if change[r] != 0.0 or u[r] != 0.0:
            for s in range(k):
                S[r * k + s] += weight * (u[r] * u[s] - change[r] * change[s])
    for r in range(k):
        change[r] = u[r] - change[r]
