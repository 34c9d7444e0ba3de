"""Classes of the objects: labels or distributions as rows of class probabilities, with their prior
counts and weights.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...array.arrays import to_numpy
from ...array.types import ArrayLike
from ...array.validation import check_array, check_weights, refuse_mask
from ...array.warn import warn
from ...memberships import check_memberships


def class_rows(y: ArrayLike | None, n: int, classes: Any = None) -> tuple[Any, np.ndarray]:
    """Class distributions (n, classes), sparse and one-hot for labels, and the classes (given, or
    the sorted labels). Objects without a class have a stored zero and no weight."""
    if y is None:
        raise ValueError(
            "DiscriminativeClustering requires y to be passed, but the target y is None: give the "
            "class of every object"
        )
    y = _as_array(y, "y")
    if y.ndim not in (1, 2) or y.shape[0] != n or 0 in y.shape:
        raise ValueError(
            f"y must hold {n} classes, one for each row of X, or their distributions (n, "
            f"classes); got shape {y.shape}"
        )
    if y.ndim == 2 and y.shape[1] > 1:
        return _distributions(y, classes)
    y = y.ravel()
    labelled = _labelled(y)
    if not labelled.any():
        raise ValueError("y is -1 or missing everywhere: give the class of some objects")
    y, codes = _labels(y[labelled], "y"), np.zeros(n, dtype=np.intp)
    if classes is None:
        classes, codes[labelled] = np.unique(y, return_inverse=True)
        if len(classes) == 1 and not labelled.all():
            warn(
                f"every object that is labelled is of class {classes[0]!r}, since -1 means "
                "unlabelled: if it is a class, number the classes 0, 1, ..."
            )
    else:
        codes[labelled] = _codes(y, classes)
    ones = labelled.astype(np.float64)
    return sp.csr_array((ones, codes, np.arange(n + 1)), shape=(n, len(classes))), classes


def _labelled(y: np.ndarray) -> np.ndarray:
    """Mask (n,) of labels that are classes, not -1, "-1", "", None, NaN, NaT or NA."""
    if y.dtype.kind == "O":
        return np.array([not _is_missing(value) for value in y.tolist()], dtype=bool)
    if y.dtype.kind == "U":
        return ~np.isin(y, ("-1", ""))
    known = y == y
    return known & (y != -1) if y.dtype.kind in "iuf" else known


def known_classes(classes: ArrayLike) -> np.ndarray:
    """All classes that will ever occur, sorted."""
    classes = list(classes) if isinstance(classes, (set, frozenset)) else classes
    given = _as_array(classes, "classes").ravel()
    found = np.unique(_labels(given[_labelled(given)], "classes"))
    if not len(found):
        raise ValueError("classes is empty: list every class that will come, or leave it out")
    return found


def weighted(P: Any, weights: Any) -> Any:
    """Class distributions times weights; sparse ones are one-hot."""
    if weights is None:
        return P
    if sp.issparse(P):
        return sp.csr_array((weights * P.data, P.indices, P.indptr), shape=P.shape)
    return P * weights[:, None]


def weights_as_counts(sample_weight: ArrayLike | None, X: Any) -> Any:
    """Weights, or ``None``, whose sum is neither negligible nor infinite."""
    with np.errstate(over="ignore"):
        weights = check_weights(sample_weight, X)
        total = 1.0 if weights is None else weights.sum()
    if not 1e-30 <= total <= 1e30:
        raise ValueError(
            f"sample_weight sums to {total:.0e}, but a weight counts objects: rescale it, e.g. "
            "sample_weight / np.max(sample_weight)"
        )
    return weights


def prior_counts(prior: Any, n_classes: int) -> np.ndarray:
    """Prior counts of the classes, below a billion so that rounding does not hide the data."""
    counts = check_array(prior, "prior", (), (n_classes,))
    if not np.all((counts >= 1e-50) & (counts <= 1e9)):
        raise ValueError(f"prior must hold positive numbers (1e-50 to 1e9), got {prior!r}")
    return np.broadcast_to(counts, (n_classes,))


def _as_array(y: Any, name: str) -> np.ndarray:
    refuse_mask(y, name)
    if sp.issparse(y):
        return y.toarray()
    try:
        array = to_numpy(y)
        # NumPy would convert None, NaN and numbers to text.
        if isinstance(y, (list, tuple)) and array.dtype.kind == "U" and array.ndim == 1:
            array = np.array(y, dtype=object)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise TypeError(
            f"{name} must be an array of classes, or of distributions of the same length, got a "
            f"{type(y).__name__} that is neither"
        ) from error
    return array.astype(object) if array.dtype.kind == "T" else array


def _labels(y: np.ndarray, name: str) -> np.ndarray:
    """Labels, none of them missing, that can be sorted: whole numbers, strings or dates."""
    if y.dtype.kind not in "OfMm":
        if y.dtype.kind not in "biuU":
            raise TypeError(
                f"{name} must hold integers or strings, got dtype {y.dtype}: convert it, e.g. "
                f"{name}.astype(str)"
            )
        return y
    y = _plain(y, name) if y.dtype.kind == "O" else y
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"{name} contains infinity, which is no class: drop those rows")
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        raise ValueError(
            f"Unknown label type: {name} is continuous, e.g. {y[y != np.floor(y)][0]:g}: give "
            f"integers or strings, e.g. np.digitize({name}, edges)"
        )
    return y


def _plain(y: np.ndarray, name: str) -> np.ndarray:
    """An object array as strings if all are strings, or as numbers if all are numbers."""
    values = y.tolist()
    if all(isinstance(value, str) for value in values):
        return y
    odd = [type(value).__name__ for value in values if not isinstance(value, (str, numbers.Real))]
    if odd:
        problem = f"must hold integers or strings, got a {odd[0]}"
    elif any(isinstance(value, str) for value in values):
        problem = "mixes strings and other classes"
    else:
        made = np.array([v if isinstance(v, numbers.Integral) else float(v) for v in values])
        if made.dtype.kind != "O":
            return made
        problem = "holds integers of more than 64 bits"
    raise TypeError(f"{name} {problem}: make them strings, e.g. [str(c) for c in {name}]")


def _is_missing(value: Any) -> bool:
    """Whether a label means unlabelled; comparisons with the NA of pandas are ambiguous."""
    if isinstance(value, str):
        return value in ("", "-1")
    if value is None or type(value).__name__ == "NAType":
        return True
    return np.ndim(value) == 0 and bool(value != value or value == -1)


def _codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Positions of the labels among the sorted ``classes``."""
    family = {"U": "text", "O": "text", "M": "date", "m": "duration"}
    alike = family.get(y.dtype.kind) == family.get(classes.dtype.kind)
    codes = np.searchsorted(classes, y) if alike else np.zeros(len(y), dtype=int)
    codes = np.minimum(codes, len(classes) - 1)
    unknown = classes[codes] != y if alike else np.ones(len(y), dtype=bool)
    if unknown.any():
        raise ValueError(
            f"y holds classes that were not fitted: {np.unique(y[unknown]).tolist()[:5]}; known: "
            f"{classes.tolist()[:20]}"
        )
    return codes


def _distributions(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    y = y.astype(np.float64) if y.dtype.kind == "O" else y
    with np.errstate(over="ignore"):
        P = np.maximum(check_memberships(y, "y, class distributions,").astype(np.float64), 0.0)
    if classes is not None and len(classes) != P.shape[1]:
        raise ValueError(f"y has {P.shape[1]} columns, but {len(classes)} classes were fitted")
    return P / P.sum(axis=1, keepdims=True), np.arange(P.shape[1]) if classes is None else classes
