"""The few strongest memberships of every object, for many clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..array.types import ArrayLike
from .rows import check_memberships

__all__ = ["predict_strongest", "strongest"]

ENTRIES = 2**24  # memberships that are dense at one time while new objects are placed


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
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if sp.issparse(X):
        X = sp.csr_array(X)
    first = strongest(model.predict_proba(X[:1]), top)
    n, size = X.shape[0], max(1, ENTRIES // first.shape[1])
    parts = [
        strongest(model.predict_proba(X[start : start + size]), top) for start in range(0, n, size)
    ]
    return sp.csr_array(sp.vstack(parts, format="csr"))
