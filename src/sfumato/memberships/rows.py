"""Memberships object by object: labels, entropies, margins, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..array.arrays import is_numpy, namespace, to_numpy
from ..array.labels import encode
from ..array.memory import reserve
from ..array.types import ArrayLike
from ..array.validation import check_choice, check_number
from ..numerics import simplex


def check_memberships(memberships: Any, name: str = "memberships") -> Any:
    """``memberships`` as a floating array (n, k), if its rows are nonnegative and sum to one.

    Examples
    --------
    >>> from sfumato.memberships import check_memberships
    >>> check_memberships([[1, 0], [0.25, 0.75]]).shape
    (2, 2)
    """
    plain = hasattr(memberships, "ndim") and not hasattr(memberships, "iloc")
    U = memberships if plain else np.asarray(memberships)
    if U.ndim != 2 or 0 in U.shape:
        raise ValueError(
            f"{name} must be an array (n_objects, n_clusters), both at least 1; got shape "
            f"{tuple(U.shape)}"
        )
    xp = namespace(U)
    if is_numpy(U) and U.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold numbers, got dtype {U.dtype}: for labels pass a one-dimensional "
            "array"
        )
    if not xp.isdtype(U.dtype, "real floating"):
        U = xp.astype(U, xp.float64)
    off = xp.max(xp.abs(xp.sum(U, axis=1) - 1.0))
    if not bool(off <= 1e-5) or bool(xp.min(U) < -1e-7):
        raise ValueError(
            f"{name} must have nonnegative rows that sum to 1 (largest deviation "
            f"{float(off):.3g}, smallest entry {float(xp.min(U)):.3g}): "
            "pass memberships, project_simplex(scores), or one-dimensional labels"
        )
    return U


def harden(memberships: ArrayLike, *, threshold: float = 0.0) -> Any:
    """Label of every object: the cluster of its largest membership, -1 below ``threshold``.

    Parameters
    ----------
    memberships : array of shape (n, k)
    threshold : float
        Objects whose largest membership is smaller are rejected. 0 rejects none.

    Returns
    -------
    labels : integer array of shape (n,)

    Examples
    --------
    >>> from sfumato.memberships import harden
    >>> harden([[0.9, 0.1], [0.45, 0.55]], threshold=0.6)
    array([ 0, -1])
    """
    U = check_memberships(memberships)
    threshold = check_number(threshold, "threshold", low=0, high=1)
    xp = namespace(U)
    labels = xp.argmax(U, axis=1)
    return xp.where(xp.max(U, axis=1) >= threshold, labels, xp.full_like(labels, -1))


def entropy(memberships: ArrayLike, *, relative: bool = False) -> Any:
    """Entropy of every row in nats: 0 for a certain object, log k for equal memberships.

    Parameters
    ----------
    memberships : array of shape (n, k)
    relative : bool
        Divide by log k, so that 1 means equal memberships.

    Returns
    -------
    entropy : array of shape (n,)

    Examples
    --------
    >>> from sfumato.memberships import entropy
    >>> entropy([[1.0, 0.0], [0.5, 0.5]], relative=True)
    array([0., 1.])
    """
    U = check_memberships(memberships)
    xp = namespace(U)
    logs = xp.log(xp.where(U > 0, U, xp.ones_like(U)))
    values = xp.clip(-xp.sum(U * logs, axis=1), min=0.0)
    return values / float(np.log(max(2, U.shape[1]))) if relative else values


def margin(memberships: ArrayLike) -> Any:
    """Largest minus second largest membership of every object: 1 for a certain object, 0 for a tie.

    Parameters
    ----------
    memberships : array of shape (n, k)

    Returns
    -------
    margin : array of shape (n,)
        All ones when there is one cluster.

    Examples
    --------
    >>> from sfumato.memberships import margin
    >>> margin([[0.75, 0.25, 0.0], [0.5, 0.5, 0.0]])
    array([0.5, 0. ])
    """
    U = check_memberships(memberships)
    xp = namespace(U)
    if U.shape[1] == 1:
        return U[:, 0]
    ordered = np.partition(U, -2, axis=1) if is_numpy(U) else xp.sort(U, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def sizes(memberships: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
    """Soft size of every cluster: the sum of its memberships over the objects.

    Parameters
    ----------
    memberships : array of shape (n, k)
    sample_weight : array of shape (n,), optional

    Returns
    -------
    sizes : array of shape (k,)
        They sum to n, or to the sum of the weights.

    Examples
    --------
    >>> from sfumato.memberships import sizes
    >>> sizes([[1.0, 0.0], [0.5, 0.5]])
    array([1.5, 0.5])
    """
    U = check_memberships(memberships)
    xp = namespace(U)
    if sample_weight is None:
        return xp.astype(xp.sum(U, axis=0, dtype=xp.float64), U.dtype)
    weights = xp.asarray(sample_weight, dtype=xp.float64)
    if weights.shape != (U.shape[0],):
        raise ValueError(
            f"sample_weight must hold one weight for each of the {U.shape[0]} objects, got shape "
            f"{tuple(weights.shape)}"
        )
    if not bool(xp.all(xp.abs(weights) <= float(xp.finfo(U.dtype).max) / U.shape[0])):
        raise ValueError(f"sample_weight must hold finite numbers that can be summed in {U.dtype}")
    return xp.astype(weights @ xp.astype(U, xp.float64), U.dtype)


def one_hot(
    labels: ArrayLike, n_clusters: int | None = None, *, dtype: npt.DTypeLike = np.float64
) -> np.ndarray:
    """Memberships of a hard clustering.

    Parameters
    ----------
    labels : array of shape (n,)
        Integers 0, 1, ... are column numbers, and -1 (rejected, not seen) gives a uniform row.
        Strings and other values get a column each, in sorted order.
    n_clusters : int, optional
        Number of columns; by default as many as the labels need.

    Returns
    -------
    memberships : array of shape (n, n_clusters)

    Examples
    --------
    >>> from sfumato.memberships import one_hot
    >>> one_hot([0, 2, -1], n_clusters=4)
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.  , 0.  , 1.  , 0.  ],
           [0.25, 0.25, 0.25, 0.25]])
    """
    labels = to_numpy(labels)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"labels must be one-dimensional, with at least one object; got shape {labels.shape}"
        )
    if labels.dtype.kind not in "iu":
        labels = encode(labels)
    if labels.min() < -1:
        raise ValueError(f"labels must be 0, 1, ... or -1 for unknown, got {labels.min()}")
    k = max(1, int(labels.max()) + 1) if n_clusters is None else n_clusters
    if labels.max() >= k:
        raise ValueError(
            f"labels go up to {labels.max()} but n_clusters={k}: ask for at least "
            f"{labels.max() + 1} clusters"
        )
    fix = "encode the labels as 0, 1, ..., k - 1 first"
    reserve((len(labels), k), dtype, "one_hot memberships", fix)
    U = np.zeros((len(labels), k), dtype=dtype)
    known = np.flatnonzero(labels >= 0)
    U[known, labels[known]] = 1
    U[labels < 0] = 1 / k
    return U


def most_uncertain(
    memberships: ArrayLike, n_objects: int = 10, *, by: str = "entropy"
) -> np.ndarray:
    """Indices of the objects with the least certain memberships, the least certain first.

    Parameters
    ----------
    memberships : array of shape (n, k)
    n_objects : int
        How many to name; at most n are.
    by : {"entropy", "margin"}
        Largest entropy, or smallest gap between the two best clusters.

    Returns
    -------
    indices : integer array of shape (min(n_objects, n),)

    Examples
    --------
    >>> from sfumato.memberships import most_uncertain
    >>> most_uncertain([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]], n_objects=2)
    array([1, 2])
    """
    check_choice(by, "by", ("entropy", "margin"))
    n_objects = check_number(n_objects, "n_objects", low=0, integer=True)
    certainty = margin(memberships) if by == "margin" else -entropy(memberships)
    return np.argsort(to_numpy(certainty), kind="stable")[:n_objects]


def project_simplex(scores: Any) -> Any:
    """Memberships nearest to ``scores``: the closest point of the simplex for every row.

    Parameters
    ----------
    scores : array of shape (n, k) or (k,)
        Finite numbers of any sign.

    Returns
    -------
    memberships : array of the shape of ``scores``

    Examples
    --------
    >>> from sfumato.memberships import project_simplex
    >>> project_simplex([[2.0, 1.5, -3.0]])
    array([[0.75, 0.25, 0.  ]])
    """
    foreign = hasattr(scores, "ndim") and not is_numpy(scores)
    V = scores if foreign else np.asarray(scores)
    if V.ndim == 0 or V.shape[-1] == 0:
        raise ValueError(f"scores must be rows of numbers, (n, k) or (k,); got shape {V.shape}")
    if is_numpy(V):
        if V.dtype.kind not in "biuf":
            raise TypeError(f"scores must hold real numbers, got an array of dtype {V.dtype}")
        V = V if V.dtype.kind == "f" else V.astype(np.float64)
        if not np.isfinite(V).all():
            raise ValueError("scores contain NaN or infinity: replace them first")
    return simplex.project(V)
