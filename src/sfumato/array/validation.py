"""Checks of parameters, weights and ranges of numbers.

Every message names the parameter, the value and the fix.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import to_numpy
from .types import ArrayLike, RandomState


def refuse_mask(X: object, name: str) -> None:
    """Refuse a masked array, since its mask would be ignored."""
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
    """``value`` if it is a number from ``low`` to ``high``, both excluded if ``strict``."""
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
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    seed = isinstance(random_state, numbers.Integral) and int(random_state) >= 0
    if seed or random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    raise ValueError(
        "random_state must be None, a nonnegative integer, a RandomState or a Generator, got "
        f"{random_state!r}"
    )


def check_weights(sample_weight: ArrayLike | None, X: Any, *, any_size: bool = False) -> Any:
    """Checked weights (n,), nonnegative and finite, or None; their sum is finite unless
    ``any_size``.
    """
    if sample_weight is None:
        return None
    refuse_mask(sample_weight, "sample_weight")
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    try:
        weights = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise type(error)(f"sample_weight must hold a number for every object: {error}") from error
    weights = weights if weights.ndim else np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must hold one weight for each of the {n} objects, got shape "
            f"{weights.shape}"
        )
    strange = np.flatnonzero(~np.isfinite(weights))
    if strange.size:
        raise ValueError(
            f"sample_weight must hold finite numbers, got {weights[strange[0]]} for row "
            f"{strange[0]}: give such objects weight 0, or leave them out"
        )
    if not weights.any():
        raise ValueError(
            "sample_weight must have a positive sum, got all zeros: give at least one object weight"
        )
    if weights.min() < 0:
        raise ValueError(f"sample_weight must be nonnegative, got a weight of {weights.min():g}")
    largest = float(weights.max())
    if not any_size and not 1e-150 <= largest <= 1e150 / n:
        raise ValueError(
            f"sample_weight is too large or too small to be summed (largest {largest:g}): divide "
            "it by its largest value"
        )
    return weights


def refuse_overflow(X: Any, name: str) -> None:
    """Refuse numbers whose sums of squares would overflow."""
    largest = largest_size(X)
    if largest > float(np.finfo(X.dtype).max) ** 0.5 / max(10.0, 10.0 * X.shape[1]):
        raise ValueError(
            f"{name} has values as large as {largest:.0e}, whose squares overflow: change units, "
            f"e.g. {name} / {largest:.0e}"
        )


def refuse_underflow(X: Any, name: str) -> None:
    """Refuse nonzero numbers whose squares all underflow."""
    largest = largest_size(X)
    if 0 < largest < float(np.finfo(X.dtype).tiny) ** 0.5 * 1e6:
        raise ValueError(
            f"{name} has no value larger than {largest:.0e}, and their squares underflow: change "
            f"units, e.g. {name} / {largest:.0e}"
        )


def refuse_subnormal(X: Any, name: str) -> None:
    """Refuse numbers so small that the reciprocal of the largest would overflow."""
    if not (isinstance(X, np.ndarray) or sp.issparse(X)):
        return
    largest = largest_size(X)
    if 0 < largest < float(np.finfo(X.dtype).tiny) * 1e3:
        raise ValueError(
            f"{name} has no value larger than {largest:.0e}, too small to be measured by: change "
            f"units, e.g. np.ldexp({name}, {1000 if X.dtype == np.float64 else 100})"
        )


def largest_size(X: Any) -> float:
    """Largest absolute value, ignoring NaN; 0 for an empty array."""
    values = X.data if sp.issparse(X) else X
    if values.size == 0:
        return 0.0
    return float(max(np.fmax.reduce(values, axis=None), -np.fmin.reduce(values, axis=None)))
