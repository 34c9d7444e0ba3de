"""Checks of parameters, features and weights.

Every message names the parameter, the value and the fix.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _check_sample_weight, validate_data

from .arrays import is_numpy, namespace, reader, to_numpy
from .frames import refuse_same_names, refuse_strange
from .rows import Rows, has_holes
from .types import Array, ArrayLike, Estimator, RandomState, Weights
from .warn import warn

__all__ = [
    "as_generator",
    "check_choice",
    "check_features",
    "check_n_clusters",
    "check_number",
    "check_observed",
    "check_weights",
    "check_width",
    "empty_rows",
    "observed_only",
    "refuse_mask",
    "refuse_overflow",
    "refuse_spread",
    "refuse_subnormal",
    "refuse_tensors",
    "refuse_underflow",
    "warn_of_empty",
    "without_empty",
]


# What to do with a dask array that a model cannot read; tests/dask compares it with the models.
STREAMING = (
    "choose one that streams: FuzzyCMeans, GaussianMixture, StudentMixture, FactorMixture, "
    "MixedMixture, DiscriminativeClustering, EvidenceAccumulation() or MixtureEnsemble of "
    "features, PairwiseProbabilisticClustering(similarity='precomputed') of a similarity"
)

_Fit = TypeVar("_Fit", bound=Callable[..., Any])

TENSORS = ("torch", "cupy")  # what an estimator reads that does not say it reads every library


def refuse_mask(X: Any, name: str) -> None:
    """Refuse a masked array: its mask would be ignored."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a masked array, whose mask would be ignored: fill it, e.g. "
            f"{name}.filled(np.nan), or drop those rows"
        )


def check_number(
    value: object,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    integer: bool = False,
    strict: bool = False,
) -> Any:
    """``value`` if it is a real number (an integer, if asked) between ``low`` and ``high``,
    exclusive if ``strict``.
    """
    kind = numbers.Integral if integer else numbers.Real
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        raise TypeError(
            f"{name} must be {'an integer' if integer else 'a number'}, got {value!r} of type "
            f"{type(value).__name__}"
        )
    number = float(value)
    inside = low < number < high if strict else low <= number <= high
    if not inside:
        left, right = ("(", ")") if strict else ("[", "]")
        raise ValueError(f"{name} must lie in {left}{low}, {high}{right}, got {value!r}")
    return int(value) if integer else float(value)  # type: ignore[call-overload]


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    """``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def check_n_clusters(n_clusters: Any, n_objects: int) -> int:
    """``n_clusters`` as an integer between 1 and the number of objects."""
    n_clusters = check_number(n_clusters, "n_clusters", low=1, integer=True)
    if n_clusters > n_objects:
        raise ValueError(
            f"n_clusters={n_clusters} is more than n_samples={n_objects}: ask for at most "
            f"{n_objects} clusters"
        )
    return n_clusters


def as_generator(random_state: RandomState) -> np.random.Generator:
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
        "random_state must be None, a nonnegative integer, a RandomState or a Generator, got "
        f"{random_state!r}"
    )


def check_features(
    estimator: Estimator, X: Any, *, reset: bool, missing: bool = False, sparse: bool = True
) -> Any:
    """Features (n, p): finite, real, float32 or float64; CSR if sparse.

    Torch and other arrays stay where they are.
    """
    refuse_mask(X, "X")
    refuse_spread(estimator, X)
    if hasattr(X, "columns") or getattr(getattr(X, "dtype", None), "kind", "f") in "Mm":
        refuse_same_names(X, "X")
        refuse_strange(X, "X", type(estimator).__name__)
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
    with _explained(estimator), np.errstate(invalid="ignore", over="ignore"):
        X = validate_data(  # infinities are refused, not warned of
            estimator,
            X,
            reset=reset,
            accept_sparse="csr" if sparse else False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if missing else True,
            ensure_min_samples=1,
        )
    refuse_overflow(X, "X")
    if reset:
        estimator._largest_fitted = _largest(X)
    else:
        _refuse_far(X, getattr(estimator, "_largest_fitted", 0.0))
    return X


@contextmanager
def _explained(estimator: Estimator) -> Iterator[None]:
    """Says which models take missing values and words, where this one does not."""
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
    """Features (n, p) that may miss values, if they are a dense array here."""
    X = check_features(estimator, X, reset=reset, missing=reader(X) is None)
    if sp.issparse(X) and np.isnan(X.data).any():
        raise ValueError(
            "X is sparse and contains NaN: missing values are taken in dense arrays, X.toarray()"
        )
    if reset and has_holes(Rows(X)):
        unseen = np.flatnonzero(np.isnan(X).all(axis=0))
        if unseen.size:
            raise ValueError(
                f"X has no value at all in feature {unseen[0]}, only NaN: drop that feature"
            )
    return X


def empty_rows(X: Any) -> np.ndarray | None:
    """Objects (n,) of which nothing was observed; None where there are none."""
    if not has_holes(Rows(X)):
        return None
    empty = np.isnan(X).all(axis=1)
    return empty if empty.any() else None


def warn_of_empty(X: Any) -> np.ndarray | None:
    """The same, with a warning that names how many there are."""
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
    """Weights of the objects to fit, zero where nothing was observed, of which it warns."""
    empty = warn_of_empty(X)
    if empty is None:
        return mass
    weights = np.where(empty, 0.0, 1.0 if mass is None else mass)
    if not weights.any():
        raise ValueError(
            "X has no object with an observed value and a positive weight: nothing can be learnt"
        )
    return weights


def observed_only(fit: _Fit) -> _Fit:
    """The ``fit`` without the objects that have no value at all.

    They say nothing, but rows with holes take another way through a fit than complete ones, and one
    more object changes what is drawn. Afterwards they get what ``predict_proba`` gives them. Known
    labels and links keep them: these say something about others too.
    """

    @wraps(fit)
    def wrapped(self: Any, X: Any, y: Any = None, sample_weight: Any = None, **given: Any) -> Any:
        told = y is not None or any(value is not None for value in given.values())
        seen = None if told else _observed(X)
        if seen is None or np.shape(sample_weight) not in ((), (len(X),)):
            return fit(self, X, y, sample_weight, **given)
        mass = None if sample_weight is None else np.asarray(sample_weight)[seen]
        fit(self, X[seen], y, mass, **given)
        memberships = np.empty((len(X), self.n_clusters_), self.memberships_.dtype)
        memberships[seen] = self.memberships_
        try:
            memberships[~seen] = self.predict_proba(X[~seen])
        except ValueError:  # a model of complete objects, which says so by itself
            return fit(self, X, y, sample_weight, **given)
        self.memberships_, self.labels_ = memberships, memberships.argmax(axis=1)
        return self

    return wrapped  # type: ignore[return-value]


def _observed(X: Any) -> np.ndarray | None:
    """Objects (n,) with some value, where there are others; None where all have one, or none."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind != "f" or not X.shape[1]:
        return None
    seen = ~np.isnan(X[:, 0])
    if seen.all():
        return None
    rows = np.flatnonzero(~seen)
    seen[rows] = ~np.isnan(X[rows]).all(axis=1)
    return None if seen.all() or not seen.any() else seen


def check_weights(sample_weight: ArrayLike | None, X: Any, *, any_size: bool = False) -> Any:
    """Nonnegative finite weights with a positive sum, in float64, or ``None``.

    Of a size that can be summed, unless ``any_size``.
    """
    if sample_weight is None:
        return None
    refuse_mask(sample_weight, "sample_weight")
    if hasattr(sample_weight, "detach"):  # a tensor, on whatever device
        sample_weight = to_numpy(sample_weight)
    try:
        _refuse_weights(
            np.asarray(sample_weight, dtype=np.float64),
            X.shape[0] if hasattr(X, "shape") else len(X),
        )
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    except (ValueError, TypeError) as error:
        if "sample_weight" in str(error).lower() or "sample weight" in str(error).lower():
            raise
        raise type(error)(f"sample_weight must hold a number for every object: {error}") from error
    if weights.min() < 0:
        raise ValueError(f"sample_weight must be nonnegative, got a weight of {weights.min():g}")
    largest = float(weights.max())
    if not any_size and not 1e-150 <= largest <= 1e150 / len(weights):
        raise ValueError(
            f"sample_weight is too large or too small to be summed (largest {largest:g}): divide "
            "it by its largest value"
        )
    return weights


def _refuse_weights(weights: np.ndarray, n_objects: int) -> None:
    """Refuse weights of another number than the objects, that are not finite or are all zero."""
    if weights.ndim and weights.shape != (n_objects,):
        raise ValueError(
            f"sample_weight must hold one weight for each of the {n_objects} objects, got shape "
            f"{weights.shape}"
        )
    strange = np.flatnonzero(~np.isfinite(weights))
    if strange.size:
        raise ValueError(
            f"sample_weight must hold finite numbers, got {weights.flat[strange[0]]} for row "
            f"{strange[0]}: give such objects weight 0, or leave them out"
        )
    if not weights.any():
        raise ValueError(
            "sample_weight must have a positive sum, got all zeros: give at least one object weight"
        )


def refuse_spread(estimator: Estimator, X: Any) -> None:
    """Refuse a dask array where the estimator needs all objects in one place."""
    if reader(X) is None or estimator._streams():
        return
    raise TypeError(
        f"{type(estimator).__name__} with these parameters does not read dask arrays: pass "
        f"X.compute() if it fits in memory, or {STREAMING}"
    )


def refuse_overflow(X: Any, name: str) -> None:
    """Refuse numbers whose squares, summed, would not be numbers."""
    largest = _largest(X)
    if largest > float(np.finfo(X.dtype).max) ** 0.5 / max(10.0, 10.0 * X.shape[1]):
        raise ValueError(
            f"{name} has values as large as {largest:.0e}, whose squares overflow: change units, "
            f"e.g. {name} / {largest:.0e}"
        )


def _refuse_far(X: Any, reach: float) -> None:
    """Refuse new objects whose squares, in units of the fit, would not be numbers."""
    largest = _largest(X)
    if 0 < reach < largest / float(np.finfo(X.dtype).max) ** 0.455:
        raise ValueError(
            f"X has values as large as {largest:.0e}, where the model was fitted to values up to "
            f"{reach:.0e}: squares of such distances overflow; check the units of X"
        )


def refuse_underflow(X: Any, name: str) -> None:
    """Refuse numbers that are not all zero, but whose squares are."""
    largest = _largest(X)
    if 0 < largest < float(np.finfo(X.dtype).tiny) ** 0.5 * 1e6:
        raise ValueError(
            f"{name} has no value larger than {largest:.0e}, and their squares underflow: change "
            "units, "
            f"e.g. {name} / {largest:.0e}"
        )


def refuse_subnormal(X: Any, name: str) -> None:
    """Refuse numbers that are not all zero, but one over which is infinite, or nearly so."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        return
    largest = _largest(X)
    if 0 < largest < float(np.finfo(X.dtype).tiny) * 1e3:
        raise ValueError(
            f"{name} has no value larger than {largest:.0e}, too small to be measured by: change "
            f"units, e.g. np.ldexp({name}, {1000 if X.dtype == np.float64 else 100})"
        )


def _largest(X: Any) -> float:
    values = X.data if sp.issparse(X) else X
    if values.size == 0:
        return 0.0
    return float(max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)))


def _check_foreign(estimator: Estimator, X: Array, reset: bool) -> Any:
    """Features on another array library: checked there, without a copy."""
    library = type(X).__module__.partition(".")[0]
    if (
        library not in TENSORS
        and hasattr(X, "ndim")
        and not getattr(estimator, "_any_library", False)
    ):
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


def refuse_tensors(estimator: Estimator, X: Any) -> None:
    """Refuse arrays of PyTorch and other libraries where the estimator reads NumPy alone."""
    plain = is_numpy(X) or sp.issparse(X) or reader(X) is not None
    if plain or not hasattr(X, "ndim") or hasattr(X, "iloc") or hasattr(X, "__dataframe__"):
        return
    library = type(X).__module__.split(".")[0]
    raise TypeError(
        f"{type(estimator).__name__} with these parameters reads NumPy arrays, not those of "
        f"{library}: pass np.asarray(X), X.cpu().numpy() for a tensor; FuzzyCMeans, "
        "GaussianMixture, DirichletProcessMixture, DiscriminativeClustering and "
        "EvidenceAccumulation() take PyTorch tensors (the page 'what works on what')"
    )


def check_width(estimator: Estimator, X: Array, reset: bool) -> None:
    """Refuse features that are not two-dimensional, or not as many as were fitted."""
    if X.ndim != 2:
        raise ValueError(
            "X must be two-dimensional (n_samples, n_features), got an array of shape "
            f"{tuple(X.shape)}"
        )
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} was fitted with "
            f"{estimator.n_features_in_}"
        )
