"""Compiled twins of the graph of neighbours in ``structure``. Needs Numba. Import at call time.

Objects lie in blocks that are near in space, each with the box around it. A first guess of the
distance to the m-th neighbour is that of the object before; where fewer objects than m lie within
it, it grows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["connected_pieces", "neighbours"]

BLOCK = 16  # objects of a block, as many as leaves of the tree have
BINS = 64  # into which squared distances are sorted
WIDER = 1.4  # of squared distances: a guess exceeds the last one by this factor, and grows by it


@njit(cache=True, nogil=True)
def neighbours(Y, order, m):
    """Distances (n, m) to the nearest other objects, ascending, and their indices (n, m).

    ``order`` (n,) puts objects that are near each other one after the other.
    """
    n, q = Y.shape
    X, middle, half = _blocks(Y, order)
    gaps = np.empty(len(X))
    distances, found = np.empty((n, m)), np.empty((n, m), dtype=np.int64)
    size = X.shape[0] * BLOCK
    squares, who = np.empty(size + 1), np.empty(size + 1, dtype=np.int64)
    work = (
        np.empty(BINS + 1, dtype=np.int64),
        np.empty(size + 1),
        np.empty(size + 1, dtype=np.int64),
    )
    row, place = np.empty(m), np.empty(m, dtype=np.int64)
    reach = 0.0
    for c in range(q):
        reach += (np.max(middle[c] + half[c]) - np.min(middle[c] - half[c])) ** 2
    guess = reach * (m / n) ** (2.0 / q)
    for a in range(n):
        _gaps(X, middle, half, a, gaps)
        count = _within(X, gaps, a, guess, squares, who)
        while count < m and guess < np.inf:
            guess = max(WIDER * guess, 1e-12 * reach) if guess < reach else np.inf
            count = _within(X, gaps, a, guess, squares, who)
        _least(squares, who, count, row, place, work)
        for c in range(m):
            distances[order[a], c], found[order[a], c] = np.sqrt(row[c]), order[place[c]]
        guess = WIDER * row[m - 1]
    return distances, found


@njit(cache=True, nogil=True)
def _blocks(Y, order):
    """Coordinates (blocks, q, BLOCK) in order, filled up with NaN, which is near to nothing, and
    the middles and half widths of the boxes around them (q, blocks).
    """
    n, q = Y.shape
    m = (n + BLOCK - 1) // BLOCK
    X, middle, half = np.full((m, q, BLOCK), np.nan), np.empty((q, m)), np.empty((q, m))
    for block in range(m):
        for c in range(q):
            low, high = np.inf, -np.inf
            for a in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
                value = Y[order[a], c]
                X[block, c, a % BLOCK] = value
                low, high = min(low, value), max(high, value)
            middle[c, block], half[c, block] = 0.5 * (low + high), 0.5 * (high - low)
    return X, middle, half


@njit(cache=True, nogil=True)
def _gaps(X, middle, half, a, gaps):
    """Squared distances from an object to all boxes."""
    for block in range(len(gaps)):
        gaps[block] = 0.0
    for c in range(len(middle)):
        x = X[a // BLOCK, c, a % BLOCK]
        for block in range(len(gaps)):
            gap = abs(middle[c, block] - x) - half[c, block]
            gaps[block] += (0.5 * (gap + abs(gap))) ** 2


@njit(cache=True, nogil=True)
def _within(X, gaps, a, reach, squares, who):
    """How many others have a squared distance of ``reach`` at most; theirs come first."""
    count, q = 0, X.shape[1]
    home, place = a // BLOCK, a % BLOCK
    part = np.empty(BLOCK)
    for block in range(len(X)):
        if gaps[block] > reach:
            continue
        for i in range(BLOCK):
            part[i] = 0.0
        for c in range(q):
            x = X[home, c, place]
            for i in range(BLOCK):
                part[i] += (X[block, c, i] - x) ** 2
        if block == home:
            part[place] = np.nan
        for i in range(BLOCK):
            squares[count], who[count] = part[i], block * BLOCK + i
            count += part[i] <= reach
    return count


@njit(cache=True, nogil=True)
def _least(values, who, count, row, place, work):
    """The least of the first ``count`` values, ascending, as many as ``row`` holds, and whose.

    Values go into bins of equal width first, after which few are out of order.
    """
    ends, ordered, owner = work
    largest = 0.0
    for i in range(count):
        largest = max(largest, values[i])
    scale = (BINS - 1) / largest if largest > 0 else 0.0
    ends[:] = 0
    for i in range(count):
        ends[int(values[i] * scale) + 1] += 1
    for c in range(BINS):
        ends[c + 1] += ends[c]
    for i in range(count):
        c = int(values[i] * scale)
        ordered[ends[c]], owner[ends[c]] = values[i], who[i]
        ends[c] += 1
    for i in range(1, count):
        value, name, at = ordered[i], owner[i], i
        while at > 0 and ordered[at - 1] > value:
            ordered[at], owner[at] = ordered[at - 1], owner[at - 1]
            at -= 1
        ordered[at], owner[at] = value, name
    row[:], place[:] = ordered[: len(row)], owner[: len(row)]


@njit(cache=True, nogil=True)
def connected_pieces(found, labels):
    """A name (n,) for the part of its cluster that edges within it join an object to, and the
    edges (2, e) from one cluster to another.
    """
    n, m = found.shape
    name, across = np.arange(n), 0
    for i in range(n):
        for c in range(m):
            j = found[i, c]
            if labels[i] != labels[j]:
                across += 1
            else:
                one, other = _root(name, i), _root(name, j)
                name[max(one, other)] = min(one, other)
    edges, at = np.empty((2, across), dtype=np.int64), 0
    for i in range(n):
        name[i] = _root(name, i)
        for c in range(m):
            if labels[i] != labels[found[i, c]]:
                edges[0, at], edges[1, at] = i, found[i, c]
                at += 1
    return name, edges


@njit(cache=True, nogil=True)
def _root(name, i):
    """The object that names the part of ``i`` so far; the way there is halved."""
    while name[i] != i:
        name[i] = name[name[i]]
        i = name[i]
    return i
