"""Communities of a weighted graph, by Louvain's method.

The aim is a partition into communities c with a large modularity,

    Q = sum_c [ W_cc / W - g (K_c / W)^2 ] ,   W_cc = sum_{i, j in c} w_ij ,  K_c = sum_{i in c} k_i

with degrees k_i = sum_j w_ij, W = sum_i k_i and the resolution g. A node moves to the community for
which w_ic - g k_i K_c / W is largest; the neighbours that it leaves are then visited again.
Communities become nodes and move as a whole, until nothing moves. Afterwards single nodes are
visited again, starting from these communities.
"""

import numpy as np

from .signals cimport check_signals

cdef double LEAST = 1e-12  # smallest gain, relative to the degree of a node; less is rounding
cdef Py_ssize_t BLOCK = 4096  # visits between checks for Ctrl-C
cdef int ROUNDS = 10  # rounds of moves of single nodes and of communities; most graphs need fewer


def communities(data, indices, indptr, double resolution, seed, weights=None):
    """Labels (n,) of communities, numbered by first appearance. The graph is given by the rows of a
    symmetric, nonnegative sparse matrix with ascending column indices.

    A node of weight v (``weights``, (n,)) counts as v copies: w_ij becomes v_i v_j w_ij.
    """
    cdef Graph graph = Graph(data, indices, indptr, weights)
    cdef Py_ssize_t moved
    if not 0.0 <= resolution < np.inf:
        raise ValueError(f"resolution must be a number that is not negative, got {resolution}")
    rng = np.random.default_rng(seed)
    labels = np.arange(graph.n, dtype=np.intp)
    for _ in range(ROUNDS):
        moved = graph.move(labels, resolution, rng.permutation(graph.n))
        labels = _renamed(labels)
        if not moved:
            break
        labels = _merged(graph, labels, resolution, rng)
    return labels


def modularity(data, indices, indptr, labels, double resolution, weights=None):
    """Modularity of a partition, ``labels`` (n,) in 0 .. n - 1."""
    cdef Graph graph = Graph(data, indices, indptr, weights)
    return graph.modularity(labels, resolution)


def _merged(Graph graph, labels, double resolution, rng):
    """Labels (n,) after communities have moved as a whole, repeatedly."""
    cdef Graph coarse = graph
    cdef Py_ssize_t moved = 1
    own = labels
    while moved and own.max(initial=-1) + 1 < coarse.n:
        coarse = coarse.joined(own)
        own = np.arange(coarse.n, dtype=np.intp)
        moved = coarse.move(own, resolution, rng.permutation(coarse.n))
        own = _renamed(own)
        labels = own[labels]
    return labels


def _renamed(labels):
    """The same partition with labels 0 .. k - 1, by first appearance."""
    cdef Py_ssize_t[::1] old = labels
    new = np.full(len(labels), -1, dtype=np.intp)
    names = np.empty(len(labels), dtype=np.intp)
    cdef Py_ssize_t[::1] name = new, out = names
    cdef Py_ssize_t i, k = 0
    for i in range(old.shape[0]):
        if name[old[i]] < 0:
            name[old[i]] = k
            k += 1
        out[i] = name[old[i]]
    return names


cdef class Graph:
    """A symmetric matrix (n, n), stored by rows, and its row sums (n,)."""

    cdef readonly Py_ssize_t n
    cdef const double[::1] data
    cdef const int[::1] indices
    cdef const Py_ssize_t[::1] indptr
    cdef double[::1] degree
    cdef double total

    def __init__(self, data, indices, indptr, weights=None, checked=False):
        self.n = len(indptr) - 1
        self.indices = np.ascontiguousarray(indices, dtype=np.intc)
        self.indptr = np.ascontiguousarray(indptr, dtype=np.intp)
        data = np.ascontiguousarray(data, dtype=np.float64)
        if not checked:
            self._check(data)
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            if weights.shape != (self.n,) or not (weights >= 0).all():
                raise ValueError(f"weights must hold {self.n} numbers that are not negative")
            data = data * (np.repeat(weights, np.diff(indptr)) * weights[np.asarray(self.indices)])
        self.data = data
        self.degree = np.zeros(self.n)
        cdef Py_ssize_t i, e
        for i in range(self.n):
            for e in range(self.indptr[i], self.indptr[i + 1]):
                self.degree[i] += self.data[e]
        self.total = float(np.sum(self.degree))
        if not self.total < np.inf:
            raise ValueError("weights of edges cannot be summed: divide them by the largest")

    def _check(self, const double[::1] data):
        """Raise ValueError if the matrix is not as ``communities`` requires."""
        cdef Py_ssize_t i, j, e, n = self.n
        cdef bint good = n >= 0 and self.indptr[0] == 0
        for i in range(n):
            good = good and self.indptr[i] <= self.indptr[i + 1]
        good = good and data.shape[0] == self.indices.shape[0] == self.indptr[n]
        if not good:
            raise ValueError("index pointers must ascend from 0 to the number of entries")
        # Rows are read in order, so the mirror of entry (i, j) is the next entry of row j.
        following = np.array(self.indptr[:n])
        cdef Py_ssize_t[::1] mirror = following
        for i in range(n):
            for e in range(self.indptr[i], self.indptr[i + 1]):
                j = self.indices[e]
                if not 0 <= j < n:
                    raise ValueError(f"indices must lie between 0 and {n - 1}, got {j}")
                if not data[e] >= 0.0:
                    raise ValueError(f"entries must not be negative, got {data[e]}")
                if mirror[j] == self.indptr[j + 1] or (
                    self.indices[mirror[j]] != i or data[mirror[j]] != data[e]
                ):
                    raise ValueError(
                        f"the matrix must be symmetric with ascending indices, see entry ({i}, {j})"
                    )
                mirror[j] += 1

    def modularity(self, labels, double resolution):
        """Modularity of a partition."""
        cdef const Py_ssize_t[::1] own = np.ascontiguousarray(labels, dtype=np.intp)
        if own.shape[0] != self.n or (self.n and not 0 <= min(labels) <= max(labels) < self.n):
            raise ValueError(f"labels must hold {self.n} numbers between 0 and {self.n - 1}")
        if self.total == 0.0:
            return 0.0
        cdef double within = 0.0
        cdef Py_ssize_t i, e
        for i in range(self.n):
            for e in range(self.indptr[i], self.indptr[i + 1]):
                if own[self.indices[e]] == own[i]:
                    within += self.data[e]
        sums = np.bincount(labels, self.degree, minlength=1) / self.total
        return within / self.total - resolution * float(sums @ sums)

    def move(self, labels, double resolution, order):
        """Number of moves of nodes, which are visited first in this ``order`` (n,); ``labels``
        (n,), below n, are overwritten.
        """
        sums = np.bincount(labels, self.degree, minlength=self.n).astype(np.float64)
        counts = np.bincount(labels, minlength=self.n).astype(np.intp)
        cdef Py_ssize_t[::1] own = labels, size = counts
        cdef double[::1] K = sums, towards = np.zeros(self.n)
        # A ring buffer of nodes that wait for a visit, and the unused labels.
        cdef Py_ssize_t[::1] queue = np.ascontiguousarray(order, dtype=np.intp)
        cdef Py_ssize_t[::1] near = np.empty(self.n, dtype=np.intp)
        empty = np.empty(self.n, dtype=np.intp)
        unused = np.flatnonzero(counts == 0)
        empty[:len(unused)] = unused
        cdef Py_ssize_t[::1] free = empty
        cdef unsigned char[::1] waits = np.ones(self.n, dtype=np.uint8)
        cdef Py_ssize_t n = self.n, n_free = len(unused), waiting = n, head = 0, visits = 0
        cdef Py_ssize_t i, j, e, old, new, moved = 0
        if self.total == 0.0:
            return 0
        with nogil:
            while waiting:
                i = queue[head]
                head = 0 if head + 1 == n else head + 1
                waiting -= 1
                waits[i] = 0
                old = own[i]
                new = self._best(i, own, K, towards, near, resolution)
                if new == -1 and size[old] > 1:
                    n_free -= 1
                    new = free[n_free]
                if new >= 0 and new != old:
                    moved += 1
                    own[i] = new
                    K[old] -= self.degree[i]
                    K[new] += self.degree[i]
                    size[new] += 1
                    size[old] -= 1
                    if size[old] == 0:
                        K[old] = 0.0
                        free[n_free] = old
                        n_free += 1
                    for e in range(self.indptr[i], self.indptr[i + 1]):
                        j = self.indices[e]
                        if not waits[j] and own[j] != new:
                            waits[j] = 1
                            queue[(head + waiting) % n] = j
                            waiting += 1
                visits += 1
                if visits % BLOCK == 0:
                    check_signals()
        return moved

    cdef Py_ssize_t _best(
        self, Py_ssize_t i, const Py_ssize_t[::1] own, const double[::1] K, double[::1] towards,
        Py_ssize_t[::1] near, double resolution,
    ) noexcept nogil:
        """The best community for a node: its own if none is better, -1 for a new one.

        ``towards`` (n,) must be zero, and is zero afterwards.
        """
        cdef Py_ssize_t e, c, at, n_near = 0, best = own[i], old = own[i]
        cdef double share = resolution * self.degree[i] / self.total
        cdef double gain, least, most
        for e in range(self.indptr[i], self.indptr[i + 1]):
            if self.indices[e] == i or self.data[e] == 0.0:
                continue
            c = own[self.indices[e]]
            if towards[c] == 0.0:
                near[n_near] = c
                n_near += 1
            towards[c] += self.data[e]
        least = LEAST * self.degree[i]
        most = towards[old] - share * (K[old] - self.degree[i]) + least
        if -least > most:
            best, most = -1, 0.0
        for at in range(n_near):
            c = near[at]
            gain = towards[c] - share * K[c]
            if c != old and gain > most:
                best, most = c, gain
            towards[c] = 0.0
        return best

    def joined(self, labels):
        """The graph whose nodes are the communities ``labels`` (n,), numbered 0 to k - 1."""
        cdef const Py_ssize_t[::1] own = labels
        counts = np.bincount(labels)
        cdef Py_ssize_t k = len(counts), c, a, e, at = 0, first, other
        cdef const Py_ssize_t[::1] members = np.argsort(labels, kind="stable").astype(np.intp)
        cdef const Py_ssize_t[::1] ends = np.cumsum(counts).astype(np.intp)
        starts = np.zeros(k + 1, dtype=np.intp)
        entries, columns = np.empty(len(self.data)), np.empty(len(self.data), dtype=np.intc)
        cdef double[::1] value = entries
        cdef int[::1] column = columns
        cdef Py_ssize_t[::1] start = starts, place = np.full(k, -1, dtype=np.intp)
        with nogil:
            for c in range(k):
                first = at
                for a in range(ends[c - 1] if c else 0, ends[c]):
                    for e in range(self.indptr[members[a]], self.indptr[members[a] + 1]):
                        other = own[self.indices[e]]
                        if place[other] < first:
                            place[other] = at
                            column[at], value[at] = <int> other, 0.0
                            at += 1
                        value[place[other]] += self.data[e]
                start[c + 1] = at
        return Graph(entries[:at], columns[:at], starts, None, True)
