"""Functions of memberships: arrays (n, k) with nonnegative rows that sum to one.

Row i of ``memberships`` says how object i is shared among the clusters. It does not matter which
model made them. Except in ``align`` and ``average``, the order of the clusters does not matter
either: permuted columns only permute the answer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from .array.arrays import device, is_numpy, namespace, to_numpy
from .array.labels import encode
from .array.types import ArrayLike, Weights
from .array.validation import check_choice, check_number, check_weights, reserve
from .data.constraints import reordered
from .numerics import simplex

__all__ = [
    "align", "average", "check_memberships", "cooccurrence", "entropy", "harden", "margin",
    "most_uncertain", "one_hot", "predict_strongest", "project_simplex", "sizes", "strongest",
]  # fmt: skip


def check_memberships(memberships: Any, name: str = "memberships") -> Any:
    """``memberships`` as a floating-point array (n, k); rows must be nonnegative and sum to one.

    Examples
    --------
    >>> from sfumato.memberships import check_memberships
    >>> check_memberships([[1, 0], [0.25, 0.75]]).shape
    (2, 2)
    """
    plain = hasattr(memberships, "ndim") and not hasattr(memberships, "iloc")
    U = memberships if plain else np.asarray(memberships)
    if U.ndim != 2 or 0 in U.shape:
        raise ValueError(f"{name} must be an array (n, k), not empty; got {tuple(U.shape)}")
    xp = namespace(U)
    if is_numpy(U) and U.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got {U.dtype}; labels are one-dimensional")
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
    """Labels (n,) of memberships (n, k): the cluster of the largest one, or -1 if that is below
    ``threshold``; with 0 no object is rejected.

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
    """Entropy (n,) of memberships (n, k) in nats: 0 for a certain object, log k for equal ones.

    If ``relative``, it is divided by log k, so that 1 means equal memberships.

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
    """Difference (n,) of the two largest memberships (n, k): 1 for a certain object, 0 for a tie.

    With one cluster all margins are 1.

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
    """Soft sizes (k,) of the clusters: sums of memberships (n, k) over the objects, which may have
    weights (n,).

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
    weights = xp.asarray(check_weights(sample_weight, U), device=device(U))
    return xp.astype(weights @ xp.astype(U, xp.float64), U.dtype)


def one_hot(
    labels: ArrayLike, n_clusters: int | None = None, *, dtype: npt.DTypeLike = np.float64
) -> np.ndarray:
    """Memberships (n, n_clusters) of a hard clustering.

    Labels (n,) 0, 1, ... are column numbers; -1 (rejected or not seen) gives a uniform row. Strings
    and other values get a column each, in sorted order.

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
        raise ValueError(f"labels must be one-dimensional and not empty, got shape {labels.shape}")
    if labels.dtype.kind not in "iu":
        labels = encode(labels)
    if labels.min() < -1:
        raise ValueError(f"labels must be 0, 1, ... or -1 for unknown, got {labels.min()}")
    k = max(1, int(labels.max()) + 1) if n_clusters is None else n_clusters
    if labels.max() >= k:
        raise ValueError(f"n_clusters={k} is too small for labels up to {labels.max()}")
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
    """Indices of the ``n_objects`` objects with the least certain memberships (n, k).

    The first has the largest entropy or, with ``by="margin"``, the smallest gap between the two
    best clusters.

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
    """Memberships nearest to ``scores`` (n, k) or (k,), finite numbers of any sign, row by row.

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


def align(memberships: ArrayLike, reference: ArrayLike) -> Any:
    """The same memberships with the clusters in the order that best matches ``reference``.

    The order maximises the overlap ``sum_i u_i'v_i`` with the reference (n, k'). Clusters that only
    the reference has become columns of zeros; those that only the memberships (n, k) have follow at
    the end, in their old order: (n, max(k, k')).

    Examples
    --------
    >>> from sfumato.memberships import align
    >>> align([[0.0, 1.0], [0.5, 0.5]], reference=[[1.0, 0.0], [0.5, 0.5]])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    U, V = check_memberships(memberships), check_memberships(reference, "reference")
    if U.shape[0] != V.shape[0]:
        raise ValueError(f"memberships and reference have {U.shape[0]} and {V.shape[0]} objects")
    xp = namespace(U)
    k, k_reference = U.shape[1], V.shape[1]
    overlap = to_numpy(U.T @ xp.astype(V, U.dtype))
    own, partner = linear_sum_assignment(overlap, maximize=True)
    order = np.full(max(k, k_reference), k)  # one past the last column gives zeros
    order[partner] = own
    order[k_reference:] = np.setdiff1d(np.arange(k), own)
    padded = xp.concat([U, xp.zeros_like(U[:, :1])], axis=1) if k_reference > k else U
    return reordered(padded, order, axis=1)


def average(
    memberships: Sequence[Any],
    partition_weight: Weights = None,
    *,
    reference: ArrayLike | None = None,
) -> np.ndarray:
    """Memberships (n, max k_b) with the least squared distance to several aligned ones.

    Minimises ``sum_b weight_b |U_b P_b - M|^2`` alternately over permutations P_b (align all to M)
    and M (take the mean).

    Parameters
    ----------
    memberships : sequence of arrays of shape (n, k_b)
    partition_weight : array of shape (len(memberships),), optional
    reference : array of shape (n, k), optional
        Start, and order of the clusters; by default the first of those with most clusters.

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
    given = np.ones(len(members)) if partition_weight is None else partition_weight
    shares = check_weights(given, members, name="partition_weight", of="partitions")
    center = max(members, key=lambda U: U.shape[1])
    if reference is not None:
        center = to_numpy(check_memberships(reference, "reference"))
    width = max(center.shape[1], *(U.shape[1] for U in members))
    center = np.pad(center, ((0, 0), (0, width - center.shape[1])))
    for _ in range(100):
        previous = center
        aligned = (share * align(U, center) for share, U in zip(shares, members, strict=True))
        center = simplex.normalize(sum(aligned) / shares.sum())
        if np.array_equal(center, previous):
            break
    return center


def cooccurrence(memberships: ArrayLike, pairs: ArrayLike | None = None) -> Any:
    """Chance u_i'u_j that two objects belong to one cluster: (m,) for given pairs, else (n, n).

    An object is always together with itself: the chance is 1, whatever its memberships (n, k). The
    pairs are integers (m, 2).

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
        raise ValueError(f"pairs must be integers (m, 2), got {indices.dtype} {indices.shape}")
    if indices.size and not (-n <= indices.min() and indices.max() < n):
        raise ValueError(
            f"pairs name objects from {indices.min()} to {indices.max()}, but there are {n} "
            f"objects: give rows from 0 to {n - 1}"
        )
    starts = range(0, max(1, len(indices)), 2**16)  # that many pairs at a time
    return xp.concat([_together(U, indices[start : start + 2**16] % n) for start in starts])


def _together(U: Any, pairs: np.ndarray) -> Any:
    xp = namespace(U)
    first, second = (xp.asarray(column, device=device(U)) for column in pairs.T)
    chance = xp.sum(xp.take(U, first, axis=0) * xp.take(U, second, axis=0), axis=1)
    return xp.where(first == second, xp.ones_like(chance), chance)


def strongest(memberships: ArrayLike, top: int = 8) -> sp.csr_array:
    """The ``top`` largest memberships of every object, as a sparse array (n, k) whose rows sum to
    one. Among equal ones the first clusters are kept.

    Examples
    --------
    >>> from sfumato.memberships import strongest
    >>> strongest([[0.6, 0.3, 0.1], [0.0, 0.2, 0.8]], top=2).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.  , 0.2 , 0.8 ]])
    """
    check_number(top, "top", low=1, integer=True)
    U = to_numpy(check_memberships(memberships))
    n, k = U.shape
    top = min(top, k)
    # A stable sort, so that ties do not depend on the blocks of rows.
    order = np.argsort(-U, axis=1, kind="stable")[:, :top] if top < k else np.arange(k)[None]
    columns = np.sort(np.broadcast_to(order, (n, top)), axis=1)
    values = np.clip(np.take_along_axis(U, columns, axis=1), 0.0, None)
    values = values / values.sum(axis=1, keepdims=True)
    kept = values > 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_array((values[kept], columns[kept], starts), shape=(n, k))


def predict_strongest(model: Any, X: Any, top: int = 8) -> sp.csr_array:
    """The largest memberships of new objects, sparse (n, k), computed block by block.

    The dense array (n, k) of all memberships is never made. With thousands of clusters, fit the
    model by ``partial_fit``, which does not keep memberships either.

    Parameters
    ----------
    model : fitted estimator with ``predict_proba``
    X : array or sparse array of shape (n, p), or what else it takes
    top : int
        Memberships kept per object; rows sum to one.

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
        raise TypeError(f"model must be fitted and have predict_proba, got {type(model).__name__}")
    whole = isinstance(X, (list, tuple)) and len(X) and np.ndim(X[0]) == 2
    if whole or not hasattr(X, "__getitem__"):  # partitions and operators have no rows to slice
        return strongest(model.predict_proba(X), top)
    X = sp.csr_array(X) if sp.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    size = max(1, 2**24 // model.predict_proba(X[:1]).shape[1])  # rows dense at a time
    blocks = (X[start : start + size] for start in range(0, X.shape[0], size))
    parts = [strongest(model.predict_proba(block), top) for block in blocks]
    return sp.csr_array(sp.vstack(parts, format="csr"))
