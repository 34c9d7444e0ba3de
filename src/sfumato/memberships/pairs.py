"""How likely two objects fall in one cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array.arrays import namespace, to_numpy
from ..array.memory import reserve
from ..array.types import ArrayLike
from .rows import check_memberships

__all__ = ["cooccurrence"]

_BLOCK = 2**16  # pairs at a time


def cooccurrence(memberships: ArrayLike, pairs: ArrayLike | None = None) -> Any:
    """Chance that two objects fall in one cluster, u_i'u_j, for chosen pairs or for all.

    Parameters
    ----------
    memberships : array of shape (n, k)
    pairs : integer array of shape (m, 2), optional
        The pairs; without it the whole (n, n) matrix is made.

    Returns
    -------
    cooccurrence : array of shape (m,) or (n, n)
        The diagonal is 1, whatever the memberships: an object is always with itself.

    Examples
    --------
    >>> from sfumato.memberships import cooccurrence
    >>> cooccurrence([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], pairs=[(0, 1), (0, 2), (1, 1)])
    array([0.5, 0. , 1. ])
    """
    U = check_memberships(memberships)
    xp = namespace(U)
    n = U.shape[0]
    if pairs is None:
        reserve(
            (n, n),
            to_numpy(U[:1]).dtype,
            "the co-occurrence of all pairs",
            "pass the pairs you need",
        )
        together = U @ U.T
        diagonal = xp.arange(n, device=getattr(U, "device", None))
        together[diagonal, diagonal] = 1.0
        return together
    indices = to_numpy(pairs)
    if indices.ndim != 2 or indices.shape[1] != 2 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"pairs must be integers of shape (m, 2), got {indices.dtype} of shape {indices.shape}"
        )
    if indices.size and not (-n <= indices.min() and indices.max() < n):
        raise ValueError(
            f"pairs name objects from {indices.min()} to {indices.max()}, but there are {n} "
            f"objects: give rows from 0 to {n - 1}"
        )
    blocks = [indices[start : start + _BLOCK] for start in range(0, len(indices), _BLOCK)] or [
        indices
    ]
    return xp.concat([_together(U, block % n) for block in blocks])


def _together(U: ArrayLike, pairs: np.ndarray) -> Any:
    xp = namespace(U)
    first, second = (
        xp.asarray(column, device=getattr(U, "device", None))
        for column in (pairs[:, 0], pairs[:, 1])
    )
    chance = xp.sum(xp.take(U, first, axis=0) * xp.take(U, second, axis=0), axis=1)
    return xp.where(first == second, xp.ones_like(chance), chance)
