"""What every measure shares: checked labels or memberships, weights and bootstrap intervals.

A side is an array (n, k): memberships as they are, labels as a sparse one-hot array, so that even a
million labels in many clusters stay small, and every formula is written only once. Sums run over
row blocks in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import cleandoc
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..array.docs import TEXTS
from ..array.labels import encode
from ..array.types import ArrayLike, RandomState
from ..array.validation import as_generator, check_choice, check_weights, refuse_mask
from ..memberships import check_memberships

Side = Any
_PARAMETERS = f"""\
Parameters
----------
reference, clustering : labels of shape (n,) or memberships of shape (n, k)
sample_weight : array of shape (n,), optional
    A weight of w counts as w copies of the object; in measures of pairs, each pair of objects has
    the product of its two weights.
missing : {{"ignore", "cluster"}}
    Labels of -1 mean that a clustering did not see the object. Such objects are left out, or
    count as one more cluster.
{TEXTS["bootstrap"]}"""


class Estimate(NamedTuple):
    """A value with its bootstrap interval; the fields may be arrays."""

    value: Any
    low: Any
    high: Any

    def __float__(self) -> float:
        return float(self.value)


def as_side(clustering: ArrayLike, name: str = "clustering") -> Side:
    """Checked memberships (n, k), or labels (n,) of any type as a sparse one-hot array (n, k)."""
    refuse_mask(clustering, name)
    values = to_numpy(clustering)
    if values.ndim == 2:
        return check_memberships(values, name)
    if values.ndim != 1 or not len(values):
        raise ValueError(
            f"{name} must be labels (n,) or memberships (n, k) of at least one object, got shape "
            f"{values.shape}"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} contains NaN or infinity: drop those objects, or label them")
    codes, n = encode(values), len(values)
    return sp.csr_array((np.ones(n), codes, np.arange(n + 1)), shape=(n, int(codes.max()) + 1))


def as_sides(
    reference: ArrayLike, clustering: ArrayLike, sample_weight: ArrayLike | None, missing: str
) -> tuple[Side, Side, Any]:
    """Both sides and the weights, for the objects that both clusterings saw."""
    check_choice(missing, "missing", ("ignore", "cluster"))
    left, right = to_numpy(reference), to_numpy(clustering)
    if missing == "ignore" and left.ndim and right.ndim and len(left) == len(right):
        seen = _seen(left) & _seen(right)
        if not seen.all():
            if not seen.any():
                raise ValueError(
                    "no object has a label in both clusterings (-1 means no label): set "
                    "missing='cluster' to count them as a cluster"
                )
            reference, clustering = left[seen], right[seen]
            weights = check_weights(sample_weight, seen)
            sample_weight = None if weights is None else weights[seen]
    sides = as_side(reference, "reference"), as_side(clustering, "clustering")
    if sides[0].shape[0] != sides[1].shape[0]:
        raise ValueError(
            f"reference and clustering must describe the same objects, got {sides[0].shape[0]} and "
            f"{sides[1].shape[0]}"
        )
    return *sides, sample_weight


def _seen(values: np.ndarray) -> np.ndarray:
    """Mask (n,) of the objects with a label; -1 means not seen by the clustering."""
    if values.ndim == 1 and values.dtype.kind in "if":
        return values != -1
    return np.ones(len(values), dtype=bool)


def is_hard(side: Side) -> bool:
    """Whether the side was given as labels."""
    return sp.issparse(side)


def overlap(left: Side, right: Side, weights: np.ndarray | None) -> Any:
    """Soft contingency table  sum_i w_i u_ir v_is,  (k, k'); sparse for labels of many clusters."""
    if is_hard(left) and is_hard(right):
        (n, k), k_right = left.shape, right.shape[1]
        # A dense table is counted faster, unless it would be much larger than the labels.
        if k * k_right <= 4 * n + 1024:
            cells = left.indices.astype(np.int64) * k_right + right.indices
            counts = np.bincount(cells, weights, minlength=k * k_right)
            return counts.reshape(k, k_right).astype(np.float64)
        return left.T @ (right if weights is None else sp.diags_array(weights) @ right)
    if is_hard(right):
        return overlap(right, left, weights).T
    table = np.zeros((left.shape[1], right.shape[1]))
    for start in range(0, left.shape[0], 2**15):
        rows = slice(start, start + 2**15)
        block = right[rows].astype(np.float64, copy=False)
        block = block if weights is None else block * weights[rows, None]
        table += left[rows].T.astype(np.float64, copy=False) @ block
    return table


def total(side: Side, weights: np.ndarray | None) -> np.ndarray:
    """Soft sizes (k,): weighted column sums."""
    if is_hard(side):
        return np.bincount(side.indices, weights, minlength=side.shape[1]).astype(np.float64)
    return side.sum(axis=0, dtype=np.float64) if weights is None else weights @ side


def measure(
    function: Callable[[np.ndarray | None], float],
    n: int,
    sample_weight: ArrayLike | None,
    interval: float | None,
    random_state: RandomState,
) -> float | Estimate:
    """``function(weights)``, with a percentile bootstrap over objects if ``interval`` is given."""
    weights = check_weights(sample_weight, np.empty((n, 0)))
    value = float(function(weights))
    if interval is None:
        return value
    rng = as_generator(random_state)
    draws = [function(resampled) for resampled in bootstrap_weights(rng, n, weights, interval)]
    # Linear interpolation between infinite draws would give NaN.
    between: Literal["linear", "nearest"] = "linear" if np.isfinite(draws).all() else "nearest"
    low, high = np.quantile(draws, [(1 - interval) / 2, (1 + interval) / 2], method=between)
    return Estimate(value, float(low), float(high))


def comparison(
    formula: Callable[[Side, Side, np.ndarray | None], float],
) -> Callable[..., float | Estimate]:
    """A public measure of agreement, made from a formula of two sides and weights.

    Its docstring is that of the formula, with the shared parameters before the example.
    """

    @wraps(formula, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def agreement(
        reference: ArrayLike,
        clustering: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        missing: str = "ignore",
        interval: float | None = None,
        random_state: RandomState = 0,
    ) -> float | Estimate:
        left, right, sample_weight = as_sides(reference, clustering, sample_weight, missing)
        n = left.shape[0]
        return measure(lambda w: formula(left, right, w), n, sample_weight, interval, random_state)

    del agreement.__wrapped__  # hide the parameters of the formula from inspect.signature
    if agreement.__doc__:  # no docstrings with ``python -OO``
        said, example = cleandoc(agreement.__doc__).split("\n\n>>> ")
        head = f"Examples\n--------\n>>> from sfumato.metrics import {agreement.__name__}\n>>> "
        agreement.__doc__ = f"{said}\n\n{_PARAMETERS}\n\n{head}{example}\n"
    return agreement


def bootstrap_weights(
    rng: np.random.Generator, n: int, weights: np.ndarray | None, interval: float
) -> Iterator[np.ndarray]:
    """Weights of bootstrap draws: multinomial counts of the objects times their weights."""
    if not 0 < interval < 1:
        raise ValueError(
            f"interval must be a level between 0 and 1, such as 0.95, or None; got {interval!r}"
        )
    for _ in range(400):
        counts = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
        resampled = counts if weights is None else counts * weights
        # A draw may contain only objects of weight zero.
        yield resampled if resampled.any() else np.ones(n)
