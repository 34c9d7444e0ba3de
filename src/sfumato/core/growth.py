"""Numbers of clusters that mixtures try for "auto": more while the best is among the largest."""

from __future__ import annotations

from typing import Any

from .few import distinct_rows
from .warn import warn

__all__ = ["MOST", "first_sizes", "more_sizes"]

MOST = 9  # clusters that "auto" of the mixtures tries at first, as R's mclust does
NEAR = 0.9  # of the largest number tried: a better one beyond may have had a worse fit before it
GROWTH = 4  # times as many may be tried while the best number is near the largest one tried
OBJECTS = 3  # least mean number of objects in a cluster beyond the first numbers


def first_sizes(X: Any, max_clusters: int = MOST) -> list[int]:
    """Numbers of clusters to begin with: no more than there are different objects."""
    n_objects = X.shape[0]
    n_distinct = distinct_rows(X, min(max_clusters, n_objects))
    if n_distinct == 1 < n_objects:
        warn(f"all {n_objects} objects are equal: one cluster is the answer")
    return list(range(1, min(max_clusters, n_distinct) + 1))


def more_sizes(best: int, largest: int, n_objects: int, max_clusters: int = MOST) -> list[int]:
    """Numbers to try next, none if the best is not near the largest; a warning if there are no
    more.
    """
    fewer = largest < max_clusters  # there are no more different objects
    if best < NEAR * largest or largest == n_objects or fewer:
        return []
    cap = min(GROWTH * max_clusters, n_objects // OBJECTS)
    if largest >= cap:
        if best < largest:
            return []
        warn(
            f"the best number of clusters is the largest one tried, {largest}: there may be more; "
            f"raise max_clusters, or give the numbers to try, n_clusters=range(1, {2 * largest})"
        )
        return []
    return list(range(largest + 1, min(2 * largest, cap) + 1))
