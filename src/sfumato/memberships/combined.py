"""Memberships compared and combined: aligned, averaged, pair by pair, the strongest of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ..array.arrays import device, namespace, to_numpy
from ..array.memory import reserve
from ..array.types import ArrayLike, Weights
from ..data.constraints import reordered
from ..numerics.simplex import normalize
from .rows import check_memberships


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
    k, k_reference = U.shape[1], V.shape[1]
    overlap = to_numpy(U.T @ xp.astype(V, U.dtype))
    own, partner = linear_sum_assignment(overlap, maximize=True)
    order = np.full(max(k, k_reference), k)  # one past the last column stands for zeros
    order[partner] = own
    order[k_reference:] = np.setdiff1d(np.arange(k), own)
    padded = xp.concat([U, xp.zeros_like(U[:, :1])], axis=1) if k_reference > k else U
    return reordered(padded, order, axis=1)


def average(
    memberships: Sequence[Any], weights: Weights = None, *, reference: ArrayLike | None = None
) -> np.ndarray:
    """The memberships nearest, in squared distance, to several aligned ones of the same objects.

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
    center = max(members, key=lambda U: U.shape[1])
    if reference is not None:
        center = to_numpy(check_memberships(reference, "reference"))
    width = max(center.shape[1], *(U.shape[1] for U in members))
    center = np.pad(center, ((0, 0), (0, width - center.shape[1])))
    for _ in range(100):
        previous = center
        aligned = (share * align(U, center) for share, U in zip(shares, members, strict=True))
        center = normalize(sum(aligned) / shares.sum())
        if np.array_equal(center, previous):
            break
    return center


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
        dtype = to_numpy(U[:1]).dtype
        reserve((n, n), dtype, "the co-occurrence of all pairs", "pass the pairs you need")
        together = U @ U.T
        diagonal = xp.arange(n, device=device(U))
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
    starts = range(0, max(1, len(indices)), 2**16)  # pairs at a time
    return xp.concat([_together(U, indices[start : start + 2**16] % n) for start in starts])


def _together(U: Any, pairs: np.ndarray) -> Any:
    xp = namespace(U)
    first, second = (xp.asarray(column, device=device(U)) for column in pairs.T)
    chance = xp.sum(xp.take(U, first, axis=0) * xp.take(U, second, axis=0), axis=1)
    return xp.where(first == second, xp.ones_like(chance), chance)


def strongest(memberships: ArrayLike, top: int = 8) -> sp.csr_array:
    """The largest memberships of every object as a sparse array, rows rescaled to sum to one.

    Parameters
    ----------
    memberships : array of shape (n, k)
    top : int
        Memberships kept for every object. Of equal ones the first clusters are kept.

    Returns
    -------
    few : sparse array of shape (n, k)
        At most ``top`` entries in every row, at their clusters.

    Examples
    --------
    >>> from sfumato.memberships import strongest
    >>> strongest([[0.6, 0.3, 0.1], [0.0, 0.2, 0.8]], top=2).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.  , 0.2 , 0.8 ]])
    """
    from ..array.validation import check_number  # loads scikit-learn, which reading files does not

    check_number(top, "top", low=1, integer=True)
    U = to_numpy(check_memberships(memberships))
    n, k = U.shape
    top = min(top, k)
    # A stable order, so that equal memberships do not depend on how the rows are partitioned.
    order = np.argsort(-U, axis=1, kind="stable")[:, :top] if top < k else np.arange(k)[None]
    columns = np.sort(np.broadcast_to(order, (n, top)), axis=1)
    values = np.clip(np.take_along_axis(U, columns, axis=1), 0.0, None)
    values = values / values.sum(axis=1, keepdims=True)
    kept = values > 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_array((values[kept], columns[kept], starts), shape=(n, k))


def predict_strongest(model: Any, X: Any, top: int = 8) -> sp.csr_array:
    """The largest memberships of new objects, placed block by block.

    The dense array (n, k) of all memberships is never made. With thousands of clusters learn the
    model by ``partial_fit``, which keeps none either, and place the objects by this function.

    Parameters
    ----------
    model : fitted estimator with ``predict_proba``
    X : array or sparse array of shape (n, p)
        What ``model.predict_proba`` takes.
    top : int
        Memberships kept for every object.

    Returns
    -------
    few : sparse array of shape (n, k)
        At most ``top`` entries in every row; rows sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import FuzzyCMeans
    >>> from sfumato.memberships import predict_strongest
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = FuzzyCMeans(40, random_state=0).partial_fit(X)
    >>> predict_strongest(model, X, top=5).shape
    (300, 40)
    """
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"model must be a fitted estimator with predict_proba, got {type(model).__name__}"
        )
    whole = isinstance(X, (list, tuple)) and len(X) and np.ndim(X[0]) == 2
    if whole or not hasattr(X, "__getitem__"):  # soft partitions, or an operator: no rows to take
        return strongest(model.predict_proba(X), top)
    X = sp.csr_array(X) if sp.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    size = max(1, 2**24 // model.predict_proba(X[:1]).shape[1])  # rows that are dense at one time
    blocks = (X[start : start + size] for start in range(0, X.shape[0], size))
    parts = [strongest(model.predict_proba(block), top) for block in blocks]
    return sp.csr_array(sp.vstack(parts, format="csr"))
