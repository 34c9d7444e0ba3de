"""Checks at the door: every message names the parameter, the value and the fix."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, validate_data

from .arrays import is_numpy, namespace, reader

__all__ = [
    "EvidenceWarning",
    "as_generator",
    "as_labels",
    "check_choice",
    "check_features",
    "check_labelings",
    "check_n_clusters",
    "check_number",
    "check_rows",
    "check_similarity",
    "check_weights",
]


class EvidenceWarning(UserWarning):
    """The evidence is weak, odd or contradictory, so the memberships say little."""


def check_number(
    value: Any,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    integer: bool = False,
    strict: bool = False,
) -> Any:
    """``value`` if it is a real number (an integer, if asked) between ``low`` and ``high``, exclusive if ``strict``."""
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        raise TypeError(
            f"{name} must be {'an integer' if integer else 'a number'}, got {value!r} of type {type(value).__name__}"
        )
    number = float(value)
    inside = low < number < high if strict else low <= number <= high
    if not inside:
        left, right = ("(", ")") if strict else ("[", "]")
        raise ValueError(f"{name} must lie in {left}{low}, {high}{right}, got {value!r}")
    return int(value) if integer else float(value)  # type: ignore[call-overload]


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_n_clusters(n_clusters: Any, n_objects: int) -> int:
    """``n_clusters`` as an integer between 1 and the number of objects."""
    n_clusters = check_number(n_clusters, "n_clusters", low=1, integer=True)
    if n_clusters > n_objects:
        raise ValueError(
            f"n_clusters={n_clusters} is more than n_samples={n_objects}: ask for at most {n_objects} clusters"
        )
    return n_clusters


def as_generator(random_state: Any) -> np.random.Generator:
    """A NumPy generator from ``None``, a seed, a ``RandomState`` or a generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    if random_state is None or (
        isinstance(random_state, numbers.Integral) and int(random_state) >= 0
    ):
        return np.random.default_rng(None if random_state is None else int(random_state))
    raise ValueError(
        f"random_state must be None, a nonnegative integer, a RandomState or a Generator, got {random_state!r}"
    )


def _refuse_mask(X: Any, name: str) -> None:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a masked array, whose mask would be ignored: fill it, e.g. {name}.filled(np.nan), or drop those rows"
        )


def check_features(
    estimator: Any, X: Any, *, reset: bool, missing: bool = False, sparse: bool = True
) -> Any:
    """Features (n, p): finite, real, float32 or float64; CSR if sparse; torch and other arrays stay where they are."""
    _refuse_mask(X, "X")
    foreign = reader(X)
    if foreign is not None:
        return foreign.check_features(estimator, X, reset, missing)
    if (
        not is_numpy(X)
        and not sp.issparse(X)
        and not hasattr(X, "__dataframe__")
        and not hasattr(X, "iloc")
    ):
        return _check_foreign(estimator, X, reset)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if sparse else False,
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan" if missing else True,
        ensure_min_samples=1,
    )
    _refuse_overflow(X, "X")
    return X


def _refuse_overflow(X: Any, name: str) -> None:
    """Refuse numbers whose squares, summed, would not be numbers."""
    largest = _largest(X)
    if largest > float(np.finfo(X.dtype).max) ** 0.5 / max(10.0, 10.0 * X.shape[1]):
        raise ValueError(
            f"{name} has values as large as {largest:.0e}, whose squares overflow: change units, e.g. {name} / {largest:.0e}"
        )


def refuse_underflow(X: Any, name: str) -> None:
    """Refuse numbers that are not all zero, but whose squares are."""
    largest = _largest(X)
    if 0 < largest < float(np.finfo(X.dtype).tiny) ** 0.5 * 1e6:
        raise ValueError(
            f"{name} has no value larger than {largest:.0e}, and squares vanish: change units, e.g. {name} / {largest:.0e}"
        )


def _largest(X: Any) -> float:
    values = X.data if sp.issparse(X) else X
    if values.size == 0:
        return 0.0
    return float(max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)))


def _check_foreign(estimator: Any, X: Any, reset: bool) -> Any:
    """Features on another array library: checked there, without a copy."""
    xp = namespace(X)
    if X.ndim != 2:
        raise ValueError(
            f"X must be two-dimensional (n_samples, n_features), got an array of shape {tuple(X.shape)}"
        )
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} was fitted with {estimator.n_features_in_}"
        )
    return X


def check_weights(sample_weight: Any, X: Any, *, any_size: bool = False) -> Any:
    """Nonnegative finite weights with a positive sum, in float64, or ``None``; of a size that can be summed, unless ``any_size``."""
    if sample_weight is None:
        return None
    _refuse_mask(sample_weight, "sample_weight")
    try:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    except (ValueError, TypeError) as error:
        if "sample_weight" in str(error).lower() or "sample weight" in str(error).lower():
            raise
        raise type(error)(f"sample_weight must hold a number for every object: {error}") from error
    if weights.min() < 0:
        raise ValueError(f"sample_weight must be nonnegative, got a weight of {weights.min():g}")
    largest = float(weights.max())
    if largest == 0:
        raise ValueError(
            "sample_weight must have a positive sum, got all zeros: give at least one object weight"
        )
    if not any_size and not 1e-150 <= largest <= 1e150 / len(weights):
        raise ValueError(
            f"sample_weight is too large or too small to be summed (largest {largest:g}): divide it by its largest value"
        )
    return weights


def _finite(values: Any, name: str) -> None:
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} contains NaN or infinity: replace missing similarities (0 means never together) or drop those objects"
        )


def check_similarity(W: Any, name: str = "W") -> Any:
    """A similarity (n, n): symmetric, nonnegative, finite; an array, CSR, or an operator (anything with ``shape`` and ``@``).

    An asymmetric matrix is averaged with its transpose, with a warning. What multiplies is trusted about its entries.
    """
    W = _as_matrix(W, name)
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(
            f"{name} must be a square similarity matrix (n, n), got shape {tuple(W.shape)}; for features set similarity='cluster-kernel'"
        )
    if W.shape[0] == 0:
        raise ValueError(f"{name} is empty: 0 objects")
    if sp.issparse(W):
        return _check_sparse(W, name)
    if isinstance(W, np.ndarray):
        return _check_dense(W, name)
    return W


def _as_matrix(W: Any, name: str) -> Any:
    """Lists, frames and subclasses of arrays as plain arrays; what multiplies as it is."""
    _refuse_mask(W, name)
    if sp.issparse(W) or (
        type(W) is not np.ndarray
        and not isinstance(W, np.ndarray)
        and not hasattr(W, "iloc")
        and hasattr(W, "__matmul__")
    ):
        return W
    return np.asarray(W)


def _as_float(W: Any, name: str) -> Any:
    if W.dtype in (np.float32, np.float64):
        return W
    if W.dtype.kind in "biuf":
        return W.astype(np.float64)
    if W.dtype.kind == "c":
        raise ValueError(
            f"{name} holds complex data, which is not supported: take the real part or the modulus"
        )
    try:
        return W.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must hold numbers, got an array of dtype {W.dtype}: {error}"
        ) from error


def _check_dense(W: np.ndarray, name: str) -> np.ndarray:
    W = _as_float(W, name)
    _finite(W.sum(axis=1), name)
    if W.min() < 0:
        raise ValueError(
            f"{name} has negative similarities (smallest {W.min():g}): shift or clip them, e.g. {name}.clip(min=0)"
        )
    _refuse_overflow(W, name)
    refuse_underflow(W, name)
    if not _symmetric(W):
        warnings.warn(
            f"{name} is not symmetric: (W + W') / 2 is used", EvidenceWarning, stacklevel=3
        )
        W = (W + W.T) / 2
    _question_distances(W.diagonal(), W, name)
    return W


def _symmetric(W: np.ndarray) -> bool:
    """Compare blocks of rows with blocks of columns of a nonnegative matrix: no n x n temporary."""
    tolerance = 1e-5 if W.dtype == np.float32 else 1e-10
    bound = tolerance * float(W.max(initial=0.0))
    size = max(1, 2**22 // W.shape[0])
    return all(
        np.abs(W[start : start + size, start:] - W[start:, start : start + size].T).max(initial=0.0)
        <= bound
        for start in range(0, W.shape[0], size)
    )


def _question_distances(diagonal: np.ndarray, W: np.ndarray, name: str) -> None:
    n = W.shape[0]
    if n > 2 and not diagonal.any() and np.count_nonzero(W) == n * (n - 1):
        warnings.warn(
            f"{name} looks like distances, not similarities: zeros on the diagonal and nowhere else. "
            "If it holds distances d, pass e.g. exp(-d**2 / (2 * s**2))",
            EvidenceWarning,
            stacklevel=4,
        )


def _check_sparse(W: Any, name: str) -> Any:
    W = _as_float(sp.csr_array(W), name)
    if not W.has_canonical_format:
        W = W.copy()
        W.sum_duplicates()
    _finite(W.data, name)
    if W.nnz and W.data.min() < 0:
        raise ValueError(
            f"{name} has negative similarities (smallest {W.data.min():g}): shift or clip them"
        )
    _refuse_overflow(W, name)
    refuse_underflow(W, name)
    difference = abs(W - W.T)
    bound = (1e-5 if W.dtype == np.float32 else 1e-10) * float(W.data.max(initial=0.0))
    if difference.nnz and difference.data.max() > bound:
        warnings.warn(
            f"{name} is not symmetric: (W + W') / 2 is used", EvidenceWarning, stacklevel=3
        )
        W = sp.csr_array((W + W.T) / 2)
    return W


def check_rows(rows: Any, n_objects: int, name: str = "W") -> Any:
    """Similarities of new objects to the fitted ones: (n_new, n_objects), finite and nonnegative."""
    rows = _as_matrix(rows, name)
    if len(rows.shape) != 2 or rows.shape[1] != n_objects:
        raise ValueError(
            f"{name} must hold similarities of new objects to the {n_objects} fitted ones, (n_new, {n_objects}); got {tuple(rows.shape)}"
        )
    if isinstance(rows, np.ndarray) or sp.issparse(rows):
        rows = _as_float(sp.csr_array(rows) if sp.issparse(rows) else rows, name)
        values = rows.data if sp.issparse(rows) else rows
        _finite(values, name)
        if values.size and values.min() < 0:
            raise ValueError(
                f"{name} has negative similarities (smallest {values.min():g}): shift or clip them"
            )
    return rows


def check_labelings(L: Any, name: str = "L") -> np.ndarray:
    """Labelings (n, m) as int32 codes 0, 1, ... in each column, -1 where a clustering did not see the object.

    Labels may be integers (also as floats) or strings; -1, NaN, None, NA and the empty string mean "not seen".
    """
    L = as_labels(L, name)
    codes = np.empty(L.shape, dtype=np.int32)
    for column in range(L.shape[1]):
        codes[:, column] = _encode(L[:, column], name)
    return codes


def as_labels(L: Any, name: str = "L") -> np.ndarray:
    """Labelings as an array (n, m) of labels as they were given: in a list, NaN beside strings stays NaN."""
    if isinstance(L, np.ma.MaskedArray):
        L = (
            np.where(np.ma.getmaskarray(L), np.nan, L.astype(float).data)
            if L.dtype.kind in "biuf"
            else L.filled(None)
        )
    if sp.issparse(L):
        raise TypeError(
            f"{name} must be a dense array of labels, got a sparse one: use {name}.toarray()"
        )
    try:
        given = L if isinstance(L, np.ndarray) else np.asarray(L)
        given = (
            np.asarray(L, dtype=object) if given is not L and given.dtype.kind in "US" else given
        )
    except ValueError as error:
        raise ValueError(
            f"{name} must hold one clustering a column, every row as long as the first: {error}"
        ) from error
    if given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(
            f"{name} must hold one clustering a column, (n_objects, n_partitions), both at least 1; got shape {given.shape}"
        )
    return given


def _label(value: Any, name: str) -> str | None:
    """A label as text, the same for 1, 1.0 and "1"; None where there is none."""
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
    odd = (
        labels[labels != np.rint(labels)]
        if np.isfinite(labels).all()
        else labels[~np.isfinite(labels)]
    )
    if len(odd):
        raise ValueError(
            f"{name} must hold labels, integers or strings, with -1 or NaN for objects not seen; got {odd[0]:g}. "
            "If these are features, let an ensemble make labels of them (ensemble=None; --features on the command line)"
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
    if labels.dtype.kind in "iu" and labels.min() >= -1 and labels.max() < 4 * len(labels):
        shifted = labels.astype(np.intp) + 1
        used = np.bincount(shifted) > 0
        used[0] = False
        return (np.cumsum(used, dtype=np.int32) - 1)[shifted]
    codes = np.full(len(labels), -1, dtype=np.int32)
    codes[~missing] = np.unique(labels[~missing], return_inverse=True)[1]
    return codes
