"""Nearest neighbours of some thousand objects in few dimensions, and connected parts of clusters.

Objects are stored in blocks of nearby objects, each with a bounding box. The first guess of the
distance to the m-th neighbour is that of the previous object; it grows if fewer than m objects are
within it.
"""

import numpy as np
from libc.math cimport INFINITY, NAN, fabs, fmax, fmin, pow, sqrt

from .signals cimport check_signals

cdef enum:
    BLOCK = 16  # objects per block, as many as in leaves of the tree
    BINS = 64  # bins for sorting squared distances
cdef double WIDER = 1.4  # factor on squared distances by which a guess grows


def neighbours(Y, order, Py_ssize_t m):
    """Distances (n, m) to the nearest other objects, ascending, and their indices (n, m).

    ``Y`` (n, q) must be finite; ``order`` (n,) should put nearby objects next to each other.
    """
    cdef const double[:, ::1] data = np.ascontiguousarray(Y, dtype=np.float64)
    cdef const Py_ssize_t[::1] places = np.ascontiguousarray(order, dtype=np.intp)
    cdef Py_ssize_t n = data.shape[0], a
    if not 0 < m < n or places.shape[0] != n or np.any(np.sort(order) != np.arange(n)):
        raise ValueError(f"m must lie between 1 and {n - 1}, and order be one of {n} objects")
    distances, found = np.empty((n, m)), np.empty((n, m), dtype=np.intp)
    cdef double[:, ::1] lengths = distances
    cdef Py_ssize_t[:, ::1] names = found
    cdef Search search = Search(data, places, m)
    with nogil:
        for a in range(n):
            search.find(a, places, &lengths[places[a], 0], &names[places[a], 0])
            if a % 1024 == 0:
                check_signals()
    return distances, found


cdef class Search:
    """Ordered coordinates (blocks, q, BLOCK), padded with NaN, and the centers and half widths of
    their bounding boxes (q, blocks).
    """

    cdef Py_ssize_t m, q, n_blocks
    cdef double guess, reach
    cdef double[:, :, ::1] X
    cdef double[:, ::1] middle, half
    cdef double[::1] gaps, squares, ordered
    cdef Py_ssize_t[::1] who, owner

    def __init__(self, const double[:, ::1] Y, const Py_ssize_t[::1] order, Py_ssize_t m):
        cdef Py_ssize_t n = Y.shape[0], block, c, a
        cdef double low, high, value, least, most
        self.m, self.q, self.n_blocks = m, Y.shape[1], (n + BLOCK - 1) // BLOCK
        self.X = np.full((self.n_blocks, self.q, BLOCK), np.nan)
        self.middle, self.half = np.empty((2, self.q, self.n_blocks))
        self.gaps, size = np.empty(self.n_blocks), self.n_blocks * BLOCK + 1
        self.squares, self.ordered = np.empty((2, size))
        self.who, self.owner = np.empty((2, size), dtype=np.intp)
        self.reach = 0.0
        for c in range(self.q):
            least, most = INFINITY, -INFINITY
            for block in range(self.n_blocks):
                low, high = INFINITY, -INFINITY
                for a in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                    value = Y[order[a], c]
                    self.X[block, c, a % BLOCK] = value
                    low, high = fmin(low, value), fmax(high, value)
                self.middle[c, block], self.half[c, block] = 0.5 * (low + high), 0.5 * (high - low)
                least, most = fmin(least, low), fmax(most, high)
            self.reach += (most - least) * (most - least)
        self.guess = self.reach * pow(<double> m / n, 2.0 / max(self.q, 1))

    cdef void find(
        self, Py_ssize_t a, const Py_ssize_t[::1] order, double* distances, Py_ssize_t* found,
    ) noexcept nogil:
        """Find the neighbours of the object at position ``a``."""
        cdef Py_ssize_t c, count
        self._measure(a)
        count = self._within(a)
        while count < self.m and self.guess < INFINITY:
            if self.guess < self.reach:
                self.guess = fmax(WIDER * self.guess, 1e-12 * self.reach)
            else:
                self.guess = INFINITY
            count = self._within(a)
        self._sort(count)
        for c in range(self.m):
            distances[c], found[c] = INFINITY, order[a]
        for c in range(min(count, self.m)):
            distances[c], found[c] = sqrt(self.ordered[c]), order[self.owner[c]]
        self.guess = WIDER * distances[self.m - 1] * distances[self.m - 1]

    cdef void _measure(self, Py_ssize_t a) noexcept nogil:
        """Compute squared distances from an object to all boxes."""
        cdef Py_ssize_t block, c
        cdef double x, gap
        cdef double* gaps = &self.gaps[0]
        cdef const double* middle
        cdef const double* half
        for block in range(self.n_blocks):
            gaps[block] = 0.0
        for c in range(self.q):
            x, middle, half = self.X[a // BLOCK, c, a % BLOCK], &self.middle[c, 0], &self.half[c, 0]
            for block in range(self.n_blocks):
                gap = fabs(middle[block] - x) - half[block]
                gap = 0.5 * (gap + fabs(gap))
                gaps[block] += gap * gap

    cdef Py_ssize_t _within(self, Py_ssize_t a) noexcept nogil:
        """Number of other objects within the guess; their distances are put first."""
        cdef Py_ssize_t home = a // BLOCK, place = a % BLOCK, block, c, i, count = 0
        cdef double x, gap
        cdef double[BLOCK] part
        cdef const double* row
        for block in range(self.n_blocks):
            if self.gaps[block] > self.guess:
                continue
            for i in range(BLOCK):
                part[i] = 0.0
            for c in range(self.q):
                x, row = self.X[home, c, place], &self.X[block, c, 0]
                for i in range(BLOCK):
                    gap = row[i] - x
                    part[i] += gap * gap
            if self.q == 0 or block == home:
                part[place] = NAN
            for i in range(BLOCK):
                self.squares[count], self.who[count] = part[i], block * BLOCK + i
                count += part[i] <= self.guess
        return count

    cdef void _sort(self, Py_ssize_t count) noexcept nogil:
        """Sort the first ``count`` squares: into bins of equal width first, after which few are out
        of order.
        """
        cdef Py_ssize_t i, c, at, name
        cdef Py_ssize_t[BINS + 1] ends
        cdef double largest = 0.0, scale = 0.0, value
        for i in range(count):
            largest = fmax(largest, self.squares[i])
        if 0.0 < largest < INFINITY:
            scale = (BINS - 1) / largest
        for c in range(BINS + 1):
            ends[c] = 0
        for i in range(count):
            ends[min(<Py_ssize_t> (self.squares[i] * scale), BINS - 1) + 1] += 1
        for c in range(BINS):
            ends[c + 1] += ends[c]
        for i in range(count):
            c = min(<Py_ssize_t> (self.squares[i] * scale), BINS - 1)
            self.ordered[ends[c]], self.owner[ends[c]] = self.squares[i], self.who[i]
            ends[c] += 1
        for i in range(1, count):
            value, name, at = self.ordered[i], self.owner[i], i
            while at > 0 and self.ordered[at - 1] > value:
                self.ordered[at], self.owner[at] = self.ordered[at - 1], self.owner[at - 1]
                at -= 1
            self.ordered[at], self.owner[at] = value, name


def connected_pieces(found, labels):
    """Component label (n,) of each object within its cluster, and the edges (2, e) between
    clusters.
    """
    cdef const Py_ssize_t[:, ::1] graph = np.ascontiguousarray(found, dtype=np.intp)
    cdef const Py_ssize_t[::1] cluster = np.ascontiguousarray(labels, dtype=np.intp)
    cdef Py_ssize_t n = graph.shape[0], m = graph.shape[1], i, j, c, across = 0, at = 0
    if cluster.shape[0] != n or (found.size and not 0 <= found.min() <= found.max() < n):
        raise ValueError(f"labels must be ({n},), and neighbours must be among {n} objects")
    names = np.arange(n, dtype=np.intp)
    cdef Py_ssize_t[::1] name = names
    with nogil:
        for i in range(n):
            for c in range(m):
                j = graph[i, c]
                if cluster[i] != cluster[j]:
                    across += 1
                else:
                    _join(name, i, j)
    edges = np.empty((2, across), dtype=np.intp)
    cdef Py_ssize_t[:, ::1] ends = edges
    with nogil:
        for i in range(n):
            name[i] = _root(name, i)
            for c in range(m):
                if cluster[i] != cluster[graph[i, c]]:
                    ends[0, at], ends[1, at] = i, graph[i, c]
                    at += 1
    return names, edges


cdef void _join(Py_ssize_t[::1] name, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    cdef Py_ssize_t one = _root(name, i), other = _root(name, j)
    name[max(one, other)] = min(one, other)


cdef Py_ssize_t _root(Py_ssize_t[::1] name, Py_ssize_t i) noexcept nogil:
    """Root of the component of ``i`` so far, with path halving."""
    while name[i] != i:
        name[i] = name[name[i]]
        i = name[i]
    return i
