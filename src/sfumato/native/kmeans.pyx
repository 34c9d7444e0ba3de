"""k-means: first centers, Lloyd's steps, and the scale of memberships in an embedding."""

import numpy as np
from libc.math cimport INFINITY, exp, fabs, fmax, fmin, log, sqrt
from libc.string cimport memcpy, memset

from .blas cimport multiply_strided
from .signals cimport check_signals

cdef double EPS = 2.220446049250313e-16
cdef Py_ssize_t TILE = 256  # objects whose distances to the centers are held at a time
cdef Py_ssize_t WORK = 1 << 24  # multiplications between checks for Ctrl-C


cdef class _Sample:
    """A centred sample (d, n), with weights (n,)."""

    cdef double[:, ::1] X
    cdef const double[::1] weights
    cdef object mean
    cdef Py_ssize_t d, n

    def __cinit__(self, X, weights):
        self.n, self.d = X.shape
        self.weights = np.ascontiguousarray(weights, dtype=np.float64)
        if self.n == 0 or self.d == 0 or self.weights.shape[0] != self.n:
            raise ValueError(f"X {X.shape} needs one weight for each object, got {weights.shape}")
        # Distances are expanded squares, which lose digits far from the origin.
        self.mean = X.mean(axis=0)
        self.X = np.ascontiguousarray((X - self.mean).T, dtype=np.float64)


def plus_plus(X, weights, double first, draws, double cap):
    """Indices (k,) of rows of ``X`` (n, d) drawn as centers, as in k-means++.

    ``first`` and ``draws`` (k - 1, trials) are uniform numbers that select candidates from the
    cumulative mass; the best candidate is taken. Squared distances are clipped at ``cap``.
    """
    cdef _Sample sample = _Sample(X, weights)
    cdef const double[:, ::1] uniform = np.ascontiguousarray(draws, dtype=np.float64)
    cdef Py_ssize_t m = uniform.shape[0], trials = uniform.shape[1], n = sample.n, d = sample.d
    cdef Py_ssize_t c, t, i, best
    cdef double least, total
    found = np.empty(m + 1, dtype=np.intp)
    cdef Py_ssize_t[::1] chosen = found
    cdef Py_ssize_t[::1] tried = np.empty(max(1, trials), dtype=np.intp)
    cdef double[::1] squares = np.empty(n), closest = np.full(n, cap), mass = np.zeros(n)
    cdef double[:, ::1] distance = np.empty((max(1, trials), n))
    cdef double[:, ::1] centers = np.empty((max(1, trials), d))
    cdef double* x = &sample.X[0, 0]
    cdef const double* w = &sample.weights[0]
    with nogil:
        _lengths(x, d, n, &squares[0])
        _candidates(w, n, &first, 1, &mass[0], &tried[0])
        chosen[0] = tried[0]
        _from(x, &squares[0], d, n, &tried[0], 1, &centers[0, 0], &distance[0, 0])
        for i in range(n):
            closest[i] = fmin(closest[i], distance[0, i])
        for c in range(m):
            check_signals()
            for i in range(n):
                mass[i] = w[i] * closest[i]
            _candidates(w, n, &uniform[c, 0], trials, &mass[0], &tried[0])
            _from(x, &squares[0], d, n, &tried[0], trials, &centers[0, 0], &distance[0, 0])
            best, least = 0, INFINITY
            for t in range(trials):
                total = 0.0
                for i in range(n):
                    distance[t, i] = fmin(closest[i], distance[t, i])
                    total += w[i] * distance[t, i]
                if total < (1.0 - 1e-12) * least:  # rounding does not decide between equal ones
                    best, least = t, total
            chosen[c + 1] = tried[best]
            memcpy(&closest[0], &distance[best, 0], n * sizeof(double))
    return found


cdef void _candidates(
    const double* weights, Py_ssize_t n, const double* uniform, Py_ssize_t trials, double* mass,
    Py_ssize_t* tried,
) noexcept nogil:
    """Objects selected by uniform numbers from the cumulative ``mass``, or from the weights if no
    mass is left.
    """
    cdef Py_ssize_t i, t
    for i in range(1, n):
        mass[i] += mass[i - 1]
    if not mass[n - 1] > 0:
        mass[0] = weights[0]
        for i in range(1, n):
            mass[i] = mass[i - 1] + weights[i]
    for t in range(trials):
        tried[t] = _search(mass, n, uniform[t] * mass[n - 1])


cdef Py_ssize_t _search(const double* cumulative, Py_ssize_t n, double value) noexcept nogil:
    """The first index with an entry above ``value``, at most the last one."""
    cdef Py_ssize_t low = 0, high = n - 1, middle
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > value:
            high = middle
        else:
            low = middle + 1
    return low


cdef void _lengths(const double* X, Py_ssize_t d, Py_ssize_t n, double* squares) noexcept nogil:
    """Squared lengths (n,) of the columns of ``X`` (d, n)."""
    cdef Py_ssize_t c, i
    memset(squares, 0, n * sizeof(double))
    for c in range(d):
        for i in range(n):
            squares[i] += X[c * n + i] * X[c * n + i]


cdef void _from(
    const double* X, const double* squares, Py_ssize_t d, Py_ssize_t n, const Py_ssize_t* objects,
    Py_ssize_t m, double* centers, double* distance,
) noexcept nogil:
    """Squared distances (m, n) from ``objects`` (m,), exactly zero only for equal objects.

    ``centers`` (m, d) is scratch. Distances within the cancellation error of the expansion are set
    to zero.
    """
    cdef Py_ssize_t t, c, i
    cdef double length, both, value
    cdef double* row
    for t in range(m):
        for c in range(d):
            centers[t * d + c] = -2.0 * X[c * n + objects[t]]
    multiply_strided(centers, d, X, n, distance, n, m, n, d)
    for t in range(m):
        row, length = distance + t * n, squares[objects[t]]
        for i in range(n):
            both = squares[i] + length
            value = row[i] + both
            row[i] = value if value > 4 * EPS * both else 0.0


def lloyd(X, weights, centers, Py_ssize_t max_iter, double tol):
    """Centers (k, d), the nearest one (n,) for each row of ``X`` (n, d), distortions before each
    step, and whether the last step changed the distortion by at most ``tol`` of its size.

    ``centers`` (k, d) is the start. A center without objects moves to the row with the largest
    error.
    """
    cdef _Sample sample = _Sample(X, weights)
    cdef Py_ssize_t n = sample.n, d = sample.d, k = centers.shape[0], steps = 0
    if k == 0 or centers.shape[1] != d:
        raise ValueError(f"centers must be (k, {d}), got {centers.shape}")
    moved = np.ascontiguousarray(centers - sample.mean, dtype=np.float64)
    cdef double[:, ::1] own = moved
    cdef double[::1] work = np.empty(k * (TILE + d + 2)), errors = np.empty(n)
    cdef double[::1] history = np.empty(max(1, min(max_iter, 64)))
    found = np.empty(n, dtype=np.intp)
    cdef Py_ssize_t[::1] labels = found
    cdef double* x = &sample.X[0, 0]
    cdef const double* w = &sample.weights[0]
    cdef bint done = False
    with nogil:
        _nearest(x, n, d, &own[0, 0], k, &work[0], &labels[0])
        while steps < max_iter and not done:
            check_signals()
            if steps == history.shape[0]:
                with gil:
                    history = np.concatenate((history, np.empty(steps)))
            history[steps] = _distortion(x, n, d, w, &labels[0], &own[0, 0], &errors[0])
            _move(x, n, d, w, &labels[0], k, &work[0], &own[0, 0], &errors[0])
            _nearest(x, n, d, &own[0, 0], k, &work[0], &labels[0])
            steps += 1
            if steps > 1:
                done = (
                    fabs(history[steps - 1] - history[steps - 2]) <= tol * fabs(history[steps - 1])
                )
    return moved + sample.mean, found, np.asarray(history)[:steps].copy(), bool(done)


cdef double _distortion(
    const double* X, Py_ssize_t n, Py_ssize_t d, const double* weights, const Py_ssize_t* labels,
    const double* centers, double* errors,
) noexcept nogil:
    """Sum of the weighted squared distances, which are written to ``errors`` (n,); exact for rows
    equal to their center.
    """
    cdef Py_ssize_t c, i
    cdef double gap, total = 0.0
    memset(errors, 0, n * sizeof(double))
    for c in range(d):
        for i in range(n):
            gap = X[c * n + i] - centers[labels[i] * d + c]
            errors[i] += gap * gap
    for i in range(n):
        errors[i] *= weights[i]
        total += errors[i]
    return total


cdef int _nearest(
    const double* X, Py_ssize_t n, Py_ssize_t d, const double* centers, Py_ssize_t k, double* work,
    Py_ssize_t* labels,
) except -1 nogil:
    """Find the nearest center of every column; ``work`` (k (TILE + d + 1)) is scratch."""
    cdef Py_ssize_t tile, r, c, i, start, width, done = 0
    cdef double least[256]
    cdef double* D = work
    cdef double* slopes = work + k * TILE
    cdef double* squares = slopes + k * d
    cdef const double* row
    cdef Py_ssize_t* own
    for r in range(k):
        squares[r] = 0.0
        for c in range(d):
            squares[r] += centers[r * d + c] * centers[r * d + c]
            slopes[r * d + c] = -2.0 * centers[r * d + c]
    for tile in range((n + TILE - 1) // TILE):
        start = tile * TILE
        width, own = min(TILE, n - start), labels + start
        multiply_strided(slopes, d, X + start, n, D, TILE, k, width, d)
        for i in range(width):
            least[i], own[i] = D[i] + squares[0], 0
        for r in range(1, k):
            row = D + r * TILE
            for i in range(width):
                own[i] = r if row[i] + squares[r] < least[i] else own[i]
                least[i] = fmin(least[i], row[i] + squares[r])
        done += width * k * d
        if done > WORK:
            check_signals()
            done = 0
    return 0


cdef void _move(
    const double* X, Py_ssize_t n, Py_ssize_t d, const double* weights, const Py_ssize_t* labels,
    Py_ssize_t k, double* work, double* centers, double* errors,
) noexcept nogil:
    """Move centers to the means of their objects, or to the object with the largest error."""
    cdef Py_ssize_t c, i, r, worst
    cdef double* sums = work
    cdef double* mass = work + k * d
    memset(work, 0, k * (d + 1) * sizeof(double))
    for i in range(n):
        mass[labels[i]] += weights[i]
    for c in range(d):
        for i in range(n):
            sums[labels[i] * d + c] += weights[i] * X[c * n + i]
    for r in range(k):
        if mass[r] > 0:
            for c in range(d):
                centers[r * d + c] = sums[r * d + c] / mass[r]
            continue
        worst = 0
        for i in range(1, n):
            if errors[i] > errors[worst]:
                worst = i
        errors[worst] = 0.0
        for c in range(d):
            centers[r * d + c] = X[c * n + worst]


def orthogonal_rows(Z, Py_ssize_t k, firsts):
    """Indices (starts, k) of rows of ``Z`` (n, d): each of ``firsts`` (starts,), then repeatedly
    the row most orthogonal to those chosen.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))
    units = np.divide(Z, lengths[:, None], where=lengths[:, None] > 0, out=np.zeros(Z.shape))
    cdef const double[:, ::1] U = np.ascontiguousarray(units)
    cdef const Py_ssize_t[::1] given = np.ascontiguousarray(firsts, dtype=np.intp)
    cdef Py_ssize_t n = U.shape[0], d = U.shape[1], start, r, i, c, last, following
    # Larger than any value, so that rows of length zero are not chosen.
    cdef const double[::1] lowest = np.where(lengths > 0, 0.0, 2.0)
    cdef double[::1] worst = np.empty(n)
    cdef double cosine
    if given.shape[0] and not (0 <= min(firsts) and max(firsts) < n):
        raise ValueError(f"firsts must lie in 0, ..., {n - 1}, got {firsts}")
    chosen = np.empty((given.shape[0], k), dtype=np.intp)
    cdef Py_ssize_t[:, ::1] out = chosen
    with nogil:
        for start in range(given.shape[0]):
            last = given[start]
            memcpy(&worst[0], &lowest[0], n * sizeof(double))
            for r in range(k):
                check_signals()
                out[start, r], following = last, 0
                for i in range(n):
                    cosine = 0.0
                    for c in range(d):
                        cosine += U[i, c] * U[last, c]
                    worst[i] = fmax(worst[i], fabs(cosine))
                    if worst[i] < worst[following]:
                        following = i
                last = following
    return chosen


def cauchy_scale(distances, weights, Py_ssize_t q, double t, double smallest, Py_ssize_t max_iter):
    """Maximum-likelihood scale t, starting from ``t``; see ``kmeans.temperature``."""
    cdef const double[:, ::1] D = np.ascontiguousarray(distances, dtype=np.float64)
    cdef const double[::1] w = np.ascontiguousarray(weights, dtype=np.float64)
    if w.shape[0] != D.shape[0]:
        raise ValueError(f"weights must be ({D.shape[0]},), got {weights.shape}")
    cdef Py_ssize_t step
    cdef double way = 0.0, before, last, ratio
    with nogil:
        for step in range(max_iter):
            check_signals()
            before, last = t, way
            t = fmax(smallest, _scale_step(D, w, q, t))
            way = log(t / before)
            if fabs(way) <= 1e-6:
                break
            # Aitken extrapolation, from the ratio of two steps.
            if step % 2 == 1 and last != 0.0 and 0.0 < way / last < 1.0:
                ratio = way / last
                t = fmax(smallest, t * exp(fmin(3.0, fmax(-3.0, way * ratio / (1 - ratio)))))
    return t


cdef double _scale_step(
    const double[:, ::1] D, const double[::1] weights, Py_ssize_t q, double t,
) noexcept nogil:
    """One EM step for the scale."""
    cdef Py_ssize_t n = D.shape[0], k = D.shape[1], i, r
    cdef double spread = 0.0, mass = 0.0, least, total, own, far, height, share
    for i in range(n):
        least = INFINITY
        for r in range(k):
            least = fmin(least, D[i, r])
        total = own = far = 0.0
        for r in range(k):
            # (1 + d / t)^(-(1 + q) / 2), relative to that of the nearest center
            height = _whole_power(sqrt((t + least) / (t + D[i, r])), 1 + q)
            share = height / (1.0 + D[i, r] / t)
            total += height
            own += share
            far += share * D[i, r]
        mass += weights[i] * own / total
        spread += weights[i] * far / total
    return spread / (q * mass)


cdef inline double _whole_power(double x, Py_ssize_t n) noexcept nogil:
    cdef double value = 1.0
    while n:
        if n & 1:
            value *= x
        x *= x
        n >>= 1
    return value
