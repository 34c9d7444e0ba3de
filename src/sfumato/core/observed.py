"""Checks of features with missing values (NaN), for soft evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import reader
from .rows import Rows, has_holes
from .types import Estimator, Weights
from .validation import check_features
from .warn import warn

__all__ = ["check_observed", "empty_rows", "warn_of_empty", "without_empty"]


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
