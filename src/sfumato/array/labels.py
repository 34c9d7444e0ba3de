"""Labels of any type as codes 0, 1, ...; the only place that encodes them."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .types import ArrayLike
from .warn import warn


def encode(labels: ArrayLike) -> np.ndarray:
    """Codes 0, 1, ... (n,) of labels, sorted, or by appearance if not comparable."""
    labels = np.asarray(labels)
    if labels.dtype.kind in "iu" and len(labels):
        low, high = int(labels.min()), int(labels.max())
        if high - low < 4 * len(labels) + 1000:  # then counting is faster than sorting
            shifted = labels.astype(np.int64) - low
            return (np.cumsum(np.bincount(shifted) > 0) - 1)[shifted]
    if labels.dtype != object:
        return np.unique(labels, return_inverse=True)[1]
    found: dict[Any, int] = {}
    codes = np.array([found.setdefault(label, len(found)) for label in labels.tolist()], dtype=int)
    try:
        ranks = {label: rank for rank, label in enumerate(sorted(found))}
    except TypeError:
        return codes
    return np.array([ranks[label] for label in found], dtype=int)[codes]


def check_labelings(L: ArrayLike, name: str = "L") -> np.ndarray:
    """Labelings (n, m) as int32 codes 0, 1, ... in each column, -1 where a clustering did not see
    the object: for labels -1, NaN, None, NA and the empty string.
    """
    L = as_labels(L, name)
    codes = np.empty(L.shape, dtype=np.int32)
    for column in range(L.shape[1]):
        codes[:, column] = _encode(L[:, column], name)
    return codes


def warn_of_ignored(y: np.ndarray | None) -> None:
    """Warn if ignored labels were probably meant: some are negative, but none is -1."""
    if y is not None and y.dtype.kind in "if" and y.size and y.min() < -1:
        warn(
            f"y is ignored: unknown labels are -1, but it has none, and labels such as "
            f"{y.min():g}; set those of unknown objects to -1"
        )


def as_labels(L: ArrayLike, name: str = "L") -> np.ndarray:
    """Labelings as an array (n, m) of labels; in lists, NaN among strings stays NaN."""
    if isinstance(L, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(L)
        L = L.filled(None) if L.dtype.kind not in "biuf" else np.where(missing, np.nan, L.data)
    if sp.issparse(L):
        raise TypeError(f"{name} must be a dense array of labels: use {name}.toarray()")
    try:
        given = np.asarray(L)
        if given is not L and given.dtype.kind in "US":
            given = np.asarray(L, dtype=object)
    except ValueError as error:
        raise ValueError(
            f"{name} must hold one clustering per column, every row as long as the first: {error}"
        ) from error
    if given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(
            f"{name} must hold one clustering per column, (n_objects, n_partitions), both at "
            f"least 1; got shape {given.shape}"
        )
    return given


def _label(value: object, name: str) -> str | None:
    """A label as text, equal for 1, 1.0 and "1"; None if missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_, int, float, np.number)):
        if value != value:
            return None
        _check_whole(np.asarray([value], dtype=np.float64), name)
        value = int(value)
    text = str(value)
    return None if text in ("", "-1") else text


def _check_whole(labels: np.ndarray, name: str) -> None:
    odd = labels[~np.isfinite(labels) | (labels != np.rint(labels))]
    if len(odd):
        raise ValueError(
            f"{name} must hold labels, integers or strings, with -1 or NaN for objects not seen; "
            f"got {odd[0]:g}. "
            "If these are features, let an ensemble make labels of them (ensemble=None; "
            "--features on the command line); if they are memberships, give a list of membership "
            "matrices, e.g. MixtureEnsemble().fit(X).partitions(X)"
        )


def _encode(labels: np.ndarray, name: str) -> np.ndarray:
    if labels.dtype.kind in "biu":
        missing = labels == -1 if labels.dtype.kind == "i" else np.zeros(len(labels), bool)
    elif labels.dtype.kind == "f":
        missing = np.isnan(labels) | (labels == -1)
        _check_whole(labels[~missing], name)
    elif labels.dtype.kind in "UTSO":
        given = [_label(value, name) for value in labels.tolist()]
        missing = np.array([label is None for label in given])
        labels = np.array(["" if label is None else label for label in given])
    else:
        raise TypeError(f"{name} must hold integer or string labels, got dtype {labels.dtype}")
    if not missing.any():
        return encode(labels).astype(np.int32)
    codes = np.full(len(labels), -1, dtype=np.int32)
    codes[~missing] = encode(labels[~missing])
    return codes
