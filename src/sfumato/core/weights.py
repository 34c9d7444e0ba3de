"""Weights of objects: a weight of w counts as w copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from .validation import refuse_mask

__all__ = ["check_weights"]


def check_weights(sample_weight: Any, X: Any, *, any_size: bool = False) -> Any:
    """Nonnegative finite weights with a positive sum, in float64, or ``None``.

    Of a size that can be summed, unless ``any_size``.
    """
    if sample_weight is None:
        return None
    refuse_mask(sample_weight, "sample_weight")
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
            f"sample_weight is too large or too small to be summed (largest {largest:g}): divide "
            "it by its largest value"
        )
    return weights
