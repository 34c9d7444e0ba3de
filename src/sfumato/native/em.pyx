"""Whole runs of EM for Gaussian mixtures on quadratic features z(x) in one block.

States are stored in slots: weights ``W`` (slots, k or k + 1), means ``M`` (slots, k, d) and shapes
``C`` (slots, k, p, w), where (p, w) is (d, d) for full, (1, d) for diagonal and (1, 1) for
spherical covariances. The steps are those of ``components.kernel``, the extrapolation between them
is that of ``engine.loop.Squarem``.
"""

import numpy as np
from libc.math cimport INFINITY, exp, fabs, fmax, fmin, isnan, log, sqrt
from libc.string cimport memcpy, memset

from .blas cimport multiply
from .families cimport Family, covariances, room
from .linked cimport Units
from .matrices cimport add_square, cholesky, extrapolate, precision, raise_spectra
from .signals cimport check_signals
from .sums cimport gaussian_walk, gaussian_work

cdef Py_ssize_t SLOTS = 6  # number of states held at a time
cdef double TINY = 2.2250738585072014e-308
cdef double LOG_2PI = 1.8378770664093453
cdef double LEAST_MASS = 1e-12  # these are as in components.kernel
cdef Py_ssize_t INNER_STEPS = 2
cdef double LONG = 1e8  # products between checks for Ctrl-C


cdef class Mixture:
    """Data and arrays shared by all runs of one family.

    ``Z`` (q, n) are quadratic features, ``shape`` is (k, p, w), ``letters`` and ``turns`` (m, 2)
    belong to the family. ``noise`` is None or its log density. ``prior`` is None or the mean (d,),
    scale (d, d), strength, share of the scale and powers. ``linked`` is
    None or ``Units`` with the weighted sums (q, u) of the z(x) of their rows, whose weights are zero:
    logarithms of the densities of a unit add up like z(x).
    """

    cdef Family family
    cdef Py_ssize_t n, q, k, kk, d, p, w, size
    cdef double count, noise, strength, share, powers
    cdef bint weighted
    cdef const double[:, ::1] Z, scale
    cdef const double[::1] weights, mean
    cdef const Py_ssize_t[:, ::1] turns
    cdef tuple arrays
    cdef double[:, ::1] W
    cdef double[:, :, ::1] M
    cdef double[:, :, :, ::1] C
    cdef double[:, ::1] rows, sums
    cdef double[::1] walking, scatter, mass, packed, small, fitting, joint
    cdef Units units
    cdef const double[:, ::1] ZU
    cdef Py_ssize_t u

    def __init__(self, Z, weights, d, shape, letters, turns, floor, noise, prior, linked=None):
        self.Z = np.ascontiguousarray(Z, dtype=np.float64)
        self.q, self.n, self.d = Z.shape[0], Z.shape[1], d
        self.k, self.p, self.w = shape
        expected = {(d, d): (d + 1) * (d + 2) // 2, (1, d): 2 * d + 1, (1, 1): d + 2}
        if not self.n or not self.k or not d or (self.p, self.w) not in expected:
            raise ValueError(f"no objects, components or features, or no covariances: {shape}")
        if self.q != expected[self.p, self.w]:
            raise ValueError(f"Z must have {expected[self.p, self.w]} rows, got {self.q}")
        self.kk, self.size = self.k + (noise is not None), self.p * self.w
        self.noise = 0.0 if noise is None else noise
        self.weighted = weights is not None
        self.weights = np.ascontiguousarray(weights if self.weighted else np.empty(0), np.float64)
        if self.weighted and len(weights) != self.n:
            raise ValueError(f"weights must be ({self.n},), got {np.shape(weights)}")
        self.count = float(np.sum(weights)) if self.weighted else self.n
        mean, scale, numbers = prior or (np.zeros(d), np.zeros((d, d)), (0.0, 0.0, 0.0))
        self.mean, self.scale = np.array(mean, np.float64), np.array(scale, np.float64, order="C")
        if self.mean.shape[0] != d or self.scale.shape[0] != d or self.scale.shape[1] != d:
            raise ValueError(f"the prior must have {d} features")
        self.strength, self.share, self.powers = numbers
        self.turns = np.ascontiguousarray(turns, dtype=np.intp).reshape(-1, 2)
        self._allocate()
        self.units, ZU = linked or (None, np.empty((self.q, 0)))
        self.ZU = np.ascontiguousarray(ZU, np.float64)
        self.u = self.ZU.shape[1]
        if self.ZU.shape[0] != self.q or (
            self.u and (self.units.size != self.u or self.units.largest >= self.kk)
        ):
            raise ValueError(f"linked needs Units and their sums ({self.q}, u), got {np.shape(ZU)}")
        self.joint = np.empty(self.u * self.kk)
        self.family.volume, self.family.shape, self.family.orientation = letters
        self.family.k, self.family.d, self.family.p, self.family.w = self.k, d, self.p, self.w
        self.family.n_turns = self.turns.shape[0]
        self.family.turns = &self.turns[0, 0] if self.turns.shape[0] else NULL
        self.family.floor, self.family.n_steps = floor, INNER_STEPS

    def _allocate(self):
        k, kk, d, n, q = self.k, self.kk, self.d, self.n, self.q
        shapes = ((SLOTS, kk), (SLOTS, k, d), (SLOTS, k, self.p, self.w))
        self.arrays = tuple([np.empty(shape) for shape in shapes])
        self.W, self.M, self.C = self.arrays
        self.rows, self.sums = np.empty((kk, q)), np.empty((kk, q))
        self.walking = np.empty(max(gaussian_work(kk, q), kk * n))
        self.scatter, self.mass = np.empty(k * self.size), np.empty(k)
        self.packed = np.empty(3 * (kk + k * d + k * self.size))
        self.small, self.fitting = np.empty(6 * d * d + 3 * d + k * self.size), np.empty(room(k, d))

    def put(self, weights, means, shapes):
        """Set a state: its weights, means, and covariances in any shape with as many numbers."""
        W, M, C = self.arrays
        W[0], M[0], C[0] = weights, means, shapes.reshape(C.shape[1:])

    def state(self, Py_ssize_t slot):
        """Weights, means and covariances of a slot."""
        if not 0 <= slot < SLOTS:
            raise ValueError(f"slot must be below {SLOTS}, got {slot}")
        return tuple([array[slot].copy() for array in self.arrays])

    def run(self, Py_ssize_t max_iter, double threshold):
        """Slot of the final state of a run from the state that was set, the history of the
        objective, and whether a step gained at most ``threshold``.

        A negative threshold gives ``max_iter`` plain steps.
        """
        history = np.empty(max(max_iter, 1))
        cdef double[::1] values = history
        cdef Py_ssize_t n_iter = 0, slot
        with nogil:
            slot = self._run(values, max_iter, threshold, &n_iter)
        history = history[:n_iter]
        done = n_iter > 1 and abs(values[n_iter - 1] - values[n_iter - 2]) <= threshold
        return slot, history, done

    cdef Py_ssize_t _run(
        self, double[::1] history, Py_ssize_t max_iter, double threshold, Py_ssize_t* n_iter,
    ) except -1 nogil:
        cdef bint squared = threshold >= 0.0, moved
        cdef Py_ssize_t current = 0, fallback = -1, before = -1, following, origin, spare, t = 0
        cdef Py_ssize_t length = 0, attempt
        cdef double objective = 0.0, stretch = 1.0, value = 0.0, work = 0.0
        while t < max_iter:
            if t > 1 and fabs(history[t - 1] - history[t - 2]) <= threshold:
                break
            following, origin = _free(current, fallback, before), current
            for attempt in range(2):
                value = self._step(origin, following)
                if attempt == 0 and fallback >= 0 and not value >= objective:
                    origin = fallback
                else:
                    break
            if origin != current:
                current, fallback, length = following, -1, 0
                stretch = fmax(1.0, stretch / 4)
            elif length == 0 or not squared:
                before, current, fallback, length = current, following, -1, 1
            else:
                spare = _free(current, following, before)
                moved = self._extrapolate(before, current, following, spare, &stretch)
                length = 0
                current, fallback = (spare if moved else following), (following if moved else -1)
            objective = value
            history[t] = value
            t += 1
            work += <double> self.n * self.kk * self.q
            if work > LONG:
                work = 0.0
                check_signals()
        n_iter[0] = t
        return current if fallback < 0 else fallback

    def levels(self):
        """The log-likelihood of the state that was set, and the sum of the logarithms of the
        largest memberships.
        """
        cdef Py_ssize_t i, j
        cdef double ignored, value, sure = 0.0, peak, top
        with nogil:
            peak = self._ready(0, &ignored)
            value = self._carefully(&sure) + peak * self.count
            if self.u:
                value += self._join(peak)
                for i in range(self.u):
                    top = TINY
                    for j in range(self.kk):
                        top = fmax(top, self.joint[i * self.kk + j])
                    sure += self.ZU[0, i] * log(top)
        return value, sure

    cdef double _step(self, Py_ssize_t slot, Py_ssize_t out) noexcept nogil:
        """One EM step from a slot to another; returns the objective of the former."""
        cdef double prior, peak = self._ready(slot, &prior), walked, sure = 0.0
        memset(&self.sums[0, 0], 0, self.kk * self.q * sizeof(double))
        # Fast, with one level for all objects; NaN if all densities of an object underflow.
        walked = gaussian_walk(
            &self.Z[0, 0], self.q, self.n, &self.weights[0] if self.weighted else NULL,
            &self.rows[0, 0], self.kk, self.q, &self.sums[0, 0], &self.walking[0],
        )
        if isnan(walked):
            walked = self._carefully(&sure)
        if self.u:
            walked += self._join(peak)
        self._update(slot, out)
        return walked + peak * self.count + prior

    cdef double _join(self, double peak) noexcept nogil:
        """Write memberships and sums of linked units; returns their part of the log-likelihood."""
        cdef Py_ssize_t i, j, a
        cdef double value
        cdef double* U = &self.joint[0]
        for i in range(self.u):
            for j in range(self.kk):
                value = peak * self.ZU[0, i]
                for a in range(self.q):
                    value += self.rows[j, a] * self.ZU[a, i]
                U[i * self.kk + j] = value
        value = self.units.join(U, self.kk)
        for j in range(self.kk):
            for a in range(self.q):
                for i in range(self.u):
                    self.sums[j, a] += U[i * self.kk + j] * self.ZU[a, i]
        return value

    cdef double _carefully(self, double* sure) noexcept nogil:
        """Sums where densities may vanish relative to the highest one, with a level for every
        object; the logarithms of the largest memberships are added to ``sure``.
        """
        cdef Py_ssize_t i, j, a, n = self.n
        cdef double value = 0.0, top, total, weight, share
        cdef double* L = &self.walking[0]
        multiply(&self.rows[0, 0], self.q, &self.Z[0, 0], L, self.kk, n, self.q)
        memset(&self.sums[0, 0], 0, self.kk * self.q * sizeof(double))
        for i in range(n):
            top, total = -INFINITY, 0.0
            for j in range(self.kk):
                top = fmax(top, L[j * n + i])
            for j in range(self.kk):
                L[j * n + i] = exp(L[j * n + i] - top)
                total += L[j * n + i]
            weight = self.weights[i] if self.weighted else 1.0
            value += weight * (log(total) + top)
            sure[0] -= weight * log(total)
            for j in range(self.kk):
                share = weight * L[j * n + i] / total
                for a in range(self.q):
                    self.sums[j, a] += share * self.Z[a, i]
        return value

    cdef double _ready(self, Py_ssize_t slot, double* prior) noexcept nogil:
        """Coefficients of z(x) relative to the highest peak; returns the peak, and the log prior
        density.
        """
        cdef Py_ssize_t j, a, b, d = self.d, k = self.k
        cdef double peak = -INFINITY, log_det, near, value = 0.0
        cdef const double* mean
        cdef double* P = &self.small[0]
        memset(P, 0, d * d * sizeof(double))
        for j in range(k):
            mean = &self.M[slot, j, 0]
            if self.p > 1:
                log_det = self._inverse(&self.C[slot, j, 0, 0], P)
            else:
                log_det = 0.0
                for a in range(d):
                    # Diagonal shapes have d variances, spherical ones one.
                    P[a * d + a] = 1.0 / self.C[slot, j, 0, min(a, self.w - 1)]
                    log_det += log(P[a * d + a])
            self.rows[j, 0] = log(fmax(self.W[slot, j], TINY)) + 0.5 * (log_det - d * LOG_2PI)
            peak = fmax(peak, self.rows[j, 0])
            add_square(P, mean, d, self.q, &self.rows[j, 0])
            if self.powers > 0.0:
                value += 0.5 * self.powers * log_det
                for a in range(d):
                    for b in range(d):
                        near = self.strength * (mean[a] - self.mean[a]) * (mean[b] - self.mean[b])
                        value -= 0.5 * P[a * d + b] * (near + self.share * self.scale[a, b])
        if self.kk > k:
            memset(&self.rows[k, 0], 0, self.q * sizeof(double))
            self.rows[k, 0] = log(fmax(self.W[slot, k], TINY)) + self.noise
            peak = fmax(peak, self.rows[k, 0])
        for j in range(self.kk):
            self.rows[j, 0] -= peak
        prior[0] = value
        return peak

    cdef double _inverse(self, const double* matrix, double* P) noexcept nogil:
        """Inverse ``P`` of a covariance (raised if rounding made it indefinite); returns its
        log-det.
        """
        cdef Py_ssize_t a, d = self.d
        cdef double* factor = P + d * d
        cdef double* inverse = factor + d * d
        cdef double* again = inverse + d * d
        cdef double largest = 0.0
        if not cholesky(matrix, d, 0.0, factor):
            for a in range(d * d):
                again[a] = matrix[a]
                largest = fmax(largest, fabs(matrix[a]))
            raise_spectra(
                again, 1, d, fmax(self.family.floor, 1e-14 * largest), &self.fitting[0]
            )
            cholesky(again, d, 0.0, factor)
        return precision(factor, d, inverse, P)

    cdef void _update(self, Py_ssize_t slot, Py_ssize_t out) noexcept nogil:
        """The M step, as in ``kernel.update``."""
        cdef Py_ssize_t j, a, k = self.k, d = self.d
        cdef double total = 0.0, mass, part
        cdef double* gap = &self.small[0]
        cdef double* middle = gap + d
        cdef double* scatter
        cdef bint alive
        for j in range(self.kk):
            total += self.sums[j, 0]
        for j in range(self.kk):
            self.W[out, j] = self.sums[j, 0] / total
        for j in range(k):
            alive = self.sums[j, 0] > LEAST_MASS * total
            mass = self.sums[j, 0] if alive else LEAST_MASS * total
            # Posterior mean: the prior counts as ``strength`` objects at its mean.
            part = mass / (mass + self.strength)
            for a in range(d):
                middle[a] = self.sums[j, 1 + a] / mass if alive else self.M[slot, j, a]
                self.M[out, j, a] = part * middle[a] + (1.0 - part) * self.mean[a]
                gap[a] = middle[a] - self.M[out, j, a]
            scatter = &self.scatter[j * self.size]
            if alive:
                self._scatter(&self.sums[j, 0], mass, middle, gap, scatter)
            else:
                for a in range(self.size):
                    scatter[a] = (&self.C[slot, j, 0, 0])[a] * mass
            if self.powers > 0.0:
                for a in range(d):
                    gap[a] = self.M[out, j, a] - self.mean[a]
                self._add_prior(gap, scatter)
                mass += self.powers
            self.mass[j] = mass
        covariances(
            &self.family, &self.scatter[0], &self.mass[0], &self.C[slot, 0, 0, 0],
            &self.C[out, 0, 0, 0], &self.fitting[0],
        )

    cdef void _scatter(
        self, const double* sums, double mass, const double* middle, const double* gap, double* out,
    ) noexcept nogil:
        """Sum of squared deviations from a mean that differs from the ``middle`` by ``gap``."""
        cdef Py_ssize_t a, b, d = self.d, at = d + 1
        cdef double value
        if self.p > 1:
            for a in range(d):
                for b in range(a, d):
                    value = sums[at] - mass * (middle[a] * middle[b] - gap[a] * gap[b])
                    out[a * d + b] = out[b * d + a] = value
                    at += 1
        elif self.w == d:
            for a in range(d):
                out[a] = sums[d + 1 + a] - mass * (middle[a] * middle[a] - gap[a] * gap[a])
        else:
            value = sums[d + 1]
            for a in range(d):
                value -= mass * (middle[a] * middle[a] - gap[a] * gap[a])
            out[0] = value / d

    cdef void _add_prior(self, const double* gap, double* out) noexcept nogil:
        """Add the contribution of the prior to the scatter of a component."""
        cdef Py_ssize_t a, b, d = self.d
        cdef double more
        for a in range(d):
            for b in range(d):
                more = self.strength * gap[a] * gap[b] + self.share * self.scale[a, b]
                if self.p > 1:
                    out[a * d + b] += more
                elif a == b and self.w == d:
                    out[a] += more
                elif a == b:
                    out[0] += more / d

    cdef bint _extrapolate(
        self, Py_ssize_t first, Py_ssize_t second, Py_ssize_t third, Py_ssize_t out,
        double* stretch,
    ) noexcept nogil:
        """Whether a squared extrapolation of three states was made; updates the stretch."""
        # Families with one common covariance are packed once.
        cdef bint one = (
            self.family.volume == 0 and self.family.shape == 0 and self.family.orientation != 1
        )
        cdef Py_ssize_t m = 1 if one else self.k
        cdef Py_ssize_t width = self.kk + self.k * self.d + m * self.size
        cdef double* x = &self.packed[0]
        cdef double* y = x + width
        cdef double* z = y + width
        self._pack(m, first, x)
        self._pack(m, second, y)
        self._pack(m, third, z)
        if not extrapolate(x, y, z, width, stretch):
            return False
        self._unpack(x, m, third, out)
        return True

    cdef void _pack(self, Py_ssize_t m, Py_ssize_t slot, double* vector) noexcept nogil:
        """Write a state as one vector: log weights, means, logarithms or factors of ``m``
        covariances.
        """
        cdef Py_ssize_t j, a, b, d = self.d, size = self.size
        cdef double largest = 0.0
        cdef double* factor = &self.small[0]
        cdef double* lifted = factor + d * d
        for j in range(self.kk):
            vector[j] = log(fmax(self.W[slot, j], TINY))
        vector += self.kk
        memcpy(vector, &self.M[slot, 0, 0], self.k * d * sizeof(double))
        vector += self.k * d
        for a in range(m * size):
            lifted[a] = (&self.C[slot, 0, 0, 0])[a]
            largest = fmax(largest, fabs(lifted[a]))
        if self.p == 1:
            for a in range(m * size):
                vector[a] = 0.5 * log(lifted[a])
            return
        raise_spectra(
            lifted, m, d, 0.5 * fmax(self.family.floor, 1e-14 * largest), &self.fitting[0]
        )
        for j in range(m):
            cholesky(lifted + j * size, d, 0.0, factor)
            for a in range(d):
                for b in range(d):
                    vector[j * size + a * d + b] = (
                        log(factor[a * d + a]) if a == b else factor[a * d + b] if b < a else 0.0
                    )

    cdef void _unpack(
        self, const double* vector, Py_ssize_t m, Py_ssize_t like, Py_ssize_t out,
    ) noexcept nogil:
        """Read a state from a vector, and project it onto its family."""
        cdef Py_ssize_t j, a, b, c, d = self.d, size = self.size
        cdef double top = -INFINITY, total = 0.0, value
        cdef double* factor = &self.small[0]
        cdef const double* own
        for j in range(self.kk):
            top = fmax(top, vector[j])
        for j in range(self.kk):
            self.W[out, j] = exp(vector[j] - top)
            total += self.W[out, j]
        for j in range(self.kk):
            self.W[out, j] /= total
        memcpy(&self.M[out, 0, 0], vector + self.kk, self.k * d * sizeof(double))
        for j in range(self.k):
            self.mass[j] = fmax(self.W[out, j], LEAST_MASS)
            own = vector + self.kk + self.k * d + min(j, m - 1) * size
            for a in range(size):
                value = own[a]
                if self.p == 1 or a // d == a % d:
                    # Extrapolation may overshoot; squares of these bounds are still finite.
                    value = exp(fmin(fmax(value, -300.0), 300.0))
                factor[a] = value
            for a in range(size):
                if self.p == 1:
                    value = factor[a] * factor[a]
                else:
                    value = 0.0
                    for c in range(min(a // d, a % d) + 1):
                        value += factor[a // d * d + c] * factor[a % d * d + c]
                self.scatter[j * size + a] = self.mass[j] * value
        covariances(
            &self.family, &self.scatter[0], &self.mass[0], &self.C[like, 0, 0, 0],
            &self.C[out, 0, 0, 0], &self.fitting[0],
        )


cdef Py_ssize_t _free(Py_ssize_t a, Py_ssize_t b, Py_ssize_t c) noexcept nogil:
    """A slot that is different from these."""
    cdef Py_ssize_t slot = 0
    while slot == a or slot == b or slot == c:
        slot += 1
    return slot
