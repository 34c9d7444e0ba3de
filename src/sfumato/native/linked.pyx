"""Labels of linked units, coupled by pulls: marginals and the logarithm of the sum over labels.

    log p(z) = sum_a A_a(z_a)  +  sum over pairs of  pull_ab [z_a = z_b]
"""

import numpy as np
from libc.math cimport INFINITY, exp, fmax, log
from libc.string cimport memset

cdef Py_ssize_t JOINED = -2  # label of a unit that belongs to a piece


cdef class Units:
    """Labels (u,), -1 if unknown; ``fixed``, the units and clusters that pulls by known labels
    favour, with these pulls; and pieces: units (s,) with pulls (s, s), symmetric with zero
    diagonal. Pieces with more than ``most`` joint labellings are left unchanged.
    """

    def __init__(self, labels, fixed, pieces, Py_ssize_t most):
        sizes = [len(units) for units, _ in pieces]
        members = np.concatenate([np.empty(0), *(units for units, _ in pieces)]).astype(np.intp)
        at, clusters = (np.array(part, np.intp) for part in fixed[:2])
        own, size = np.array(labels, np.intp), len(labels)
        every = np.concatenate([at, members])
        if every.size and not (every.min() >= 0 and every.max() < size):
            raise ValueError(f"units must be below {size}")
        self.largest = int(max(own.max(initial=-1), clusters.max(initial=-1)))
        own[members] = JOINED
        self.labels, self.at, self.clusters, self.members = own, at, clusters, members
        self.fixed = np.array(fixed[2], np.float64)
        self.pulls = np.concatenate([np.empty(0), *(np.ravel(pull) for _, pull in pieces)])
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self.size, self.n_fixed, self.n_pieces = size, len(at), len(pieces)
        if len(self.pulls) != sum(s * s for s in sizes) or not len(at) == len(clusters) == len(fixed[2]):
            raise ValueError("every piece needs the pulls (s, s) of its units (s,)")
        self.work = np.empty(most)

    def couple(self, A):
        """Memberships (u, k) for log-probabilities (u, k), and the log of the sum over labels."""
        cdef double[:, ::1] R = np.array(A, np.float64, order="C")
        if R.shape[0] != self.size or not R.shape[1] or self.largest >= R.shape[1]:
            raise ValueError(f"A must be ({self.size}, k), a column for each label: {A.shape}")
        return np.asarray(R), self.join(&R[0, 0], R.shape[1]) if self.size else 0.0

    cdef double join(self, double* A, Py_ssize_t k) noexcept nogil:
        """Turn log-probabilities ``A`` (u, k) into memberships; returns the log of their sum."""
        cdef Py_ssize_t t, a, s, label, pull = 0
        cdef double value = 0.0, own, states
        cdef Py_ssize_t* units
        for t in range(self.n_fixed):
            A[self.at[t] * k + self.clusters[t]] += self.fixed[t]
        for t in range(self.n_pieces):
            units, s = &self.members[self.first[t]], self.first[t + 1] - self.first[t]
            states = 1.0
            for a in range(s):
                states *= k
            if states <= self.work.shape[0]:
                value += _exact(units, s, &self.pulls[pull], A, k, &self.work[0])
            pull += s * s
        for a in range(self.size):
            label = self.labels[a]
            if label == JOINED:
                continue
            if label >= 0:
                own = A[a * k + label]
                memset(A + a * k, 0, k * sizeof(double))
                A[a * k + label] = 1.0
                value += own
            else:
                value += _softmax(A + a * k, k)
        return value


cdef double _softmax(double* x, Py_ssize_t k) noexcept nogil:
    """Exponentiate and normalise, in place; returns the logarithm of the sum."""
    cdef Py_ssize_t j
    cdef double top = -INFINITY, total = 0.0
    for j in range(k):
        top = fmax(top, x[j])
    for j in range(k):
        x[j] = exp(x[j] - top)
        total += x[j]
    for j in range(k):
        x[j] /= total
    return log(total) + top


cdef double _exact(
    const Py_ssize_t* units, Py_ssize_t s, const double* pull, double* A, Py_ssize_t k, double* T,
) noexcept nogil:
    """Marginals over all k^s labellings ``T`` of a piece, in place; returns their log sum."""
    cdef Py_ssize_t a, b, label, state, rest, states = 1
    cdef double before, value, level
    T[0] = 0.0
    for a in range(s):
        for state in range(states - 1, -1, -1):  # so that none is overwritten before it is read
            before = T[state]
            for label in range(k - 1, -1, -1):
                value, rest = before + A[units[a] * k + label], state
                for b in range(a - 1, -1, -1):
                    if rest % k == label:
                        value += pull[a * s + b]
                    rest //= k
                T[state * k + label] = value
        states *= k
    level = _softmax(T, states)
    for a in range(s):
        memset(A + units[a] * k, 0, k * sizeof(double))
    for state in range(states):
        rest = state
        for a in range(s - 1, -1, -1):
            A[units[a] * k + rest % k] += T[state]
            rest //= k
    return level
