"""Several memberships of the same objects: clusters in the same order, and their average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..array.arrays import namespace, to_numpy
from ..array.types import ArrayLike, Weights
from ..numerics.simplex import normalize
from .rows import check_memberships

__all__ = ["align", "average"]


def align(memberships: ArrayLike, reference: ArrayLike) -> Any:
    """The same memberships with the clusters in the order that fits ``reference`` best.

    The order maximises the overlap ``sum_i u_i'v_i`` (optimal assignment), which for soft
    memberships is also the order of least squared distance to ``reference``.

    Parameters
    ----------
    memberships : array of shape (n, k)
    reference : array of shape (n, k')

    Returns
    -------
    aligned : array of shape (n, max(k, k'))
        Where ``memberships`` has fewer clusters than ``reference``, columns of zeros stand for the
        missing ones; where it has more, the clusters without a partner follow at the end, in their
        old order.

    Examples
    --------
    >>> from sfumato.memberships import align
    >>> align([[0.0, 1.0], [0.5, 0.5]], reference=[[1.0, 0.0], [0.5, 0.5]])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    U, V = check_memberships(memberships), check_memberships(reference, "reference")
    if U.shape[0] != V.shape[0]:
        raise ValueError(
            f"memberships and reference must describe the same objects, got {U.shape[0]} and "
            f"{V.shape[0]} rows"
        )
    xp = namespace(U)
    order = _partners(to_numpy(U.T @ xp.astype(V, U.dtype)))
    width = max(U.shape[1], V.shape[1])
    padded = xp.concat([U, xp.zeros_like(U[:, :1])], axis=1) if width > U.shape[1] else U
    return xp.take(padded, xp.asarray(order, device=getattr(U, "device", None)), axis=1)


def _partners(overlap: np.ndarray) -> np.ndarray:
    """Column of U for every column of the aligned memberships; k, one past the last, stands for
    zeros.
    """
    k, k_reference = overlap.shape
    own, partner = linear_sum_assignment(overlap, maximize=True)
    order = np.full(max(k, k_reference), k)
    order[partner] = own
    order[k_reference:] = np.setdiff1d(np.arange(k), own)
    return order


def average(
    memberships: Sequence[Any], weights: Weights = None, *, reference: ArrayLike | None = None
) -> np.ndarray:
    """The memberships nearest, in squared distance, to several memberships of the same objects
    after alignment.

    Minimises  ``sum_b weight_b |U_b P_b - M|^2``  over M and permutations P_b by turns: align all
    to M, take their mean.

    Parameters
    ----------
    memberships : sequence of arrays of shape (n, k_b)
        The numbers of clusters may differ.
    weights : array of shape (len(memberships),), optional
        Weight of each.
    reference : array of shape (n, k), optional
        Where to start, and whose names the answer keeps; by default the first of those with most
        clusters.

    Returns
    -------
    average : array of shape (n, max k_b)

    Examples
    --------
    >>> from sfumato.memberships import average
    >>> average([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.5, 0.5]]])
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    members = [to_numpy(check_memberships(U)) for U in memberships]
    if not members:
        raise ValueError("memberships is empty: give at least one array (n, k)")
    shares = np.ones(len(members)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(members),) or not (shares >= 0).all() or shares.sum() <= 0:
        raise ValueError(
            f"weights must be {len(members)} nonnegative numbers with a positive sum, got "
            f"{weights!r}"
        )
    center = (
        max(members, key=lambda U: U.shape[1])
        if reference is None
        else to_numpy(check_memberships(reference, "reference"))
    )
    width = max(center.shape[1], *(U.shape[1] for U in members))
    center = np.pad(center, ((0, 0), (0, width - center.shape[1])))
    for _ in range(100):
        previous = center
        center = normalize(
            sum(share * align(U, center) for share, U in zip(shares, members, strict=True))
            / shares.sum()
        )
        if np.array_equal(center, previous):
            break
    return center
