"""Checked features: from data frames, arrays with missing values, and other array libraries.

Every message names the column or the row, and the fix.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from ..array.arrays import is_numpy, namespace, reader
from ..array.types import Array, ArrayLike, Estimator, Weights
from ..array.validation import largest_size, refuse_mask, refuse_overflow, refuse_underflow
from ..array.warn import warn

# Advice for dask arrays that a model cannot read; a test in tests/dask compares it with the models.
STREAMING = (
    "choose one that streams: FuzzyCMeans, GaussianMixture, StudentMixture, FactorMixture, "
    "MixedMixture, DirectionalMixture, DiscriminativeClustering, InformationMaximization, "
    "EvidenceAccumulation() or MixtureEnsemble of features, "
    "PairwiseProbabilisticClustering(similarity='precomputed') of a similarity"
)

_Fit = TypeVar("_Fit", bound=Callable[..., Any])


def check_features(
    estimator: Estimator, X: Any, *, reset: bool, missing: bool = False, sparse: bool = True
) -> Any:
    """Finite features (n, p), float32 or float64, CSR if sparse; tensors stay on their device."""
    refuse_mask(X, "X")
    refuse_spread(estimator, X)
    if hasattr(X, "columns") or getattr(getattr(X, "dtype", None), "kind", "f") in "Mm":
        refuse_same_names(X, "X")
        refuse_non_numbers(X, "X", type(estimator).__name__)
    foreign = reader(X)
    if foreign is not None:
        return foreign.check_features(estimator, X, reset, missing)
    if not _known(X):
        return _check_foreign(estimator, X, reset)
    if not _is_plain(estimator, X, reset):
        X = _validated(estimator, X, reset, missing, sparse)
    if sp.issparse(X) and np.isnan(X.data).any():
        raise ValueError("X is sparse and contains NaN: give a dense array, X.toarray()")
    refuse_overflow(X, "X")
    if reset and missing and isinstance(X, np.ndarray):
        refuse_empty_columns(X, getattr(estimator, "feature_names_in_", None))
    if reset:
        refuse_underflow(X, "X", squares=False)
        estimator._largest_fitted = largest_size(X)
    else:
        _refuse_far(X, getattr(estimator, "_largest_fitted", np.inf))
    return X


def _is_plain(estimator: Estimator, X: Any, reset: bool) -> bool:
    """Whether X is an array of finite floats, which needs none of scikit-learn's slow checks."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in (np.float64, np.float32):
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        if not X.size or not np.isfinite(np.sum(X)):
            return False
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
    known = vars(estimator)
    return X.shape[1] == known.get("n_features_in_") and "feature_names_in_" not in known


def _validated(estimator: Estimator, X: Any, reset: bool, missing: bool, sparse: bool) -> Any:
    """X after the checks and conversions of scikit-learn."""
    with _explained(estimator), np.errstate(invalid="ignore", over="ignore"):
        return validate_data(  # infinities raise an error, not a warning
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if sparse else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if missing or sp.issparse(X) else True,
            ensure_min_samples=1,
        )


def _known(X: object) -> bool:
    """Whether X belongs to NumPy, SciPy or a data-frame library."""
    return is_numpy(X) or sp.issparse(X) or hasattr(X, "__dataframe__") or hasattr(X, "iloc")


@contextmanager
def _explained(estimator: Estimator) -> Iterator[None]:
    """Context that adds to errors which models take missing values and text."""
    name = type(estimator).__name__
    try:
        yield
    except ValueError as error:
        if "contains NaN" in str(error):
            raise ValueError(
                f"X contains NaN, missing values, which {name} as it is set does not take. "
                "GaussianMixture and the other mixtures, EvidenceAccumulation(), FuzzyCMeans and "
                "DiscriminativeClustering do, and so do models of similarities with "
                "similarity='knn'; or drop or fill in what is missing"
            ) from error
        word = re.search(r"could not convert string to float: (?:np\.str_\()?('[^']*')", str(error))
        if word is None:
            raise
        labelings = getattr(estimator, "ensemble", "precomputed") != "precomputed"
        hint = "; labels of several clusterings need ensemble='precomputed'" if labelings else ""
        fix = "MixedMixture takes categories as they are"
        if name == "MixedMixture":
            fix = "it takes words in the columns of a data frame, pd.DataFrame(X)"
        raise ValueError(
            f"X holds words such as {word[1]}, where {name} takes numbers: {fix}{hint}"
        ) from error


def check_observed(estimator: Estimator, X: Any, *, reset: bool) -> Any:
    """Features (n, p) that may have missing values if they are a dense NumPy array."""
    return check_features(estimator, X, reset=reset, missing=reader(X) is None)


def refuse_empty_columns(X: Any, names: Sequence[Any] | None = None) -> None:
    """Refuse features without any value. The first hundred rows mostly show that there are none."""
    gone = np.flatnonzero(np.isnan(X[:100]).all(axis=0)) if len(X) else np.empty(0, dtype=int)
    empty = next((column for column in gone if np.isnan(X[:, column]).all()), None)
    if empty is not None:
        column = f"{empty}" if names is None else f"{empty} ({names[int(empty)]!r})"
        raise ValueError(f"X has no value at all in feature {column}, only NaN: drop that feature")


def empty_rows(X: Any) -> np.ndarray | None:
    """Mask (n,) of objects without any value; None if there are none."""
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f" or not X.shape[1]:
        return None
    empty = np.isnan(X[:, 0])
    rows = np.flatnonzero(empty)
    empty[rows] = np.isnan(X[rows]).all(axis=1)
    return empty if empty.any() else None


def warn_of_empty(X: Any) -> np.ndarray | None:
    """The mask of ``empty_rows``, with a warning that gives their number."""
    empty = empty_rows(X)
    if empty is not None:
        n = int(empty.sum())
        warn(
            f"{n} object{' has' if n == 1 else 's have'} no observed value (first: row "
            f"{int(empty.argmax())}): nothing is known there, and the memberships are the mean of "
            "those of the fitted objects"
        )
    return empty


def without_empty(X: Any, mass: Weights) -> Weights:
    """Weights for the fit, zero for objects without any value (with a warning)."""
    empty = warn_of_empty(X)
    if empty is None:
        return mass
    weights = np.where(empty, 0.0, 1.0 if mass is None else mass)
    if not weights.any():
        raise ValueError("X has no object with an observed value and a positive weight")
    return weights


def observed_only(fit: _Fit) -> _Fit:
    """Decorator: ``fit`` leaves out objects without any value, which then get the memberships of
    ``predict_proba``; with known labels or links they are kept.
    """

    @wraps(fit)
    def wrapped(self: Any, X: Any, y: Any = None, *, sample_weight: Any = None, **more: Any) -> Any:
        constrained = y is not None or any(value is not None for value in more.values())
        empty = None if constrained or type(X) is not np.ndarray else empty_rows(X)
        if empty is None or empty.all() or np.shape(sample_weight) not in ((), (len(X),)):
            return fit(self, X, y, sample_weight=sample_weight, **more)
        seen = ~empty
        mass = None if sample_weight is None else np.asarray(sample_weight)[seen]
        fit(self, X[seen], y, sample_weight=mass, **more)
        memberships = np.empty((len(X), self.n_clusters_), self.memberships_.dtype)
        memberships[seen] = self.memberships_
        try:
            memberships[empty] = self.predict_proba(X[empty])
        except ValueError:  # the model needs complete objects and says so itself
            return fit(self, X, y, sample_weight=sample_weight, **more)
        self.memberships_, self.labels_ = memberships, memberships.argmax(axis=1)
        return self

    return wrapped  # type: ignore[return-value]


def refuse_spread(estimator: Estimator, X: object) -> None:
    """Refuse a dask array if the estimator needs all objects in memory."""
    if reader(X) is None or estimator._streams:
        return
    raise TypeError(
        f"{type(estimator).__name__} with these parameters does not read dask arrays: pass "
        f"X.compute() if it fits in memory, or {STREAMING}"
    )


def _refuse_far(X: Any, reach: float) -> None:
    """Refuse new objects whose squared distances, in units of the fit, would overflow."""
    largest = largest_size(X)
    if (reach or 1.0) < largest / float(np.finfo(X.dtype).max) ** 0.455:
        raise ValueError(
            f"X has values as large as {largest:.0e}, where the model was fitted to values up to "
            f"{reach:.0e}: squares of such distances overflow; check the units of X"
        )


def _check_foreign(estimator: Estimator, X: Array, reset: bool) -> Any:
    """Features in another array library, checked there without a copy."""
    library = type(X).__module__.partition(".")[0]
    readable = library in ("torch", "cupy") or getattr(estimator, "_any_library", False)
    if hasattr(X, "ndim") and not readable:
        raise TypeError(
            f"{type(estimator).__name__} reads arrays of NumPy, PyTorch and CuPy, not those of "
            f"{library}: pass np.asarray(X)"
        )
    xp = namespace(X)
    check_width(estimator, X, reset)
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity: drop or impute those rows")
    return X


def refuse_tensors(estimator: Estimator, X: object) -> None:
    """Refuse arrays of PyTorch and other libraries if the estimator only reads NumPy arrays."""
    if _known(X) or reader(X) is not None or not hasattr(X, "ndim"):
        return
    library = type(X).__module__.split(".")[0]
    raise TypeError(
        f"{type(estimator).__name__} with these parameters reads NumPy arrays, not those of "
        f"{library}: pass np.asarray(X), X.cpu().numpy() for a tensor; FuzzyCMeans, "
        "GaussianMixture, DirichletProcessMixture, DiscriminativeClustering and "
        "EvidenceAccumulation() take PyTorch tensors (the page 'what works on what')"
    )


def check_width(estimator: Estimator, X: Array, reset: bool) -> None:
    """Refuse features that are not two-dimensional, or do not have the fitted number of columns."""
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got an array of shape {tuple(X.shape)}")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} was fitted with "
            f"{estimator.n_features_in_}"
        )


def held_by(kind: object, value: object = None) -> str | None:
    """The type of values that are no numbers, words or truth values, from a dtype and a value."""
    # Prefixes of type names in pandas, polars and narwhals.
    types = ("date", "period", "time", "duration", "interval", "list", "array", "struct", "unknown")
    if str(kind).lower().startswith(types):
        return str(kind)
    others = (list, tuple, set, dict, np.ndarray, date, timedelta)
    return type(value).__name__ if isinstance(value, others) else None


def refuse_same_names(X: Any, name: str) -> None:
    """Refuse a pandas data frame with duplicate column names."""
    columns = getattr(X, "columns", None)
    if columns is None or getattr(columns, "is_unique", True):
        return
    same = ", ".join(repr(column) for column in columns[columns.duplicated()].unique()[:8])
    raise ValueError(f"{name} has several columns called {same}: rename or drop them")


def refuse_non_numbers(X: Any, name: str, taker: str) -> None:
    """Refuse dates, lists and the like, in arrays and in data-frame columns."""
    columns: dict[str, Any] = {"": (X.dtype, None)} if isinstance(X, np.ndarray) else {}
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for column, kind in zip(X.columns, X.dtypes, strict=False):
            value = _first(X[column]) if str(kind).lower() == "object" else None
            columns[f", column {column!r}"] = kind, value
    for place, (kind, value) in columns.items():
        found = held_by(kind, value)
        if found is not None:
            raise TypeError(
                f"{name}{place} holds values of type {found}, where {taker} takes numbers: drop it "
                "or make numbers of it"
            )


def _first(column: ArrayLike) -> object:
    """The first value of a column that is not missing."""
    none = ("NoneType", "NAType", "NaTType", "float")
    return next((value for value in np.asarray(column) if type(value).__name__ not in none), None)
