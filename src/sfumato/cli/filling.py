"""Missing cells of a table, for models that take none."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..io import InputError

__all__ = ["Joint", "fill_in", "joint_of", "joint_restored"]

WIDEST = 50  # columns up to which one Gaussian for all of them is fitted
ROWS = 5000  # that it is fitted to at most
OBJECTS = 5  # rows for each column above which a regression on the others is used
RIDGE = 1e-6  # share of the variances added to them, so that collinear columns can be solved for


class Joint(NamedTuple):
    """One Gaussian for all columns, for the expected value of a column given the others, and the
    range of each column.
    """

    mean: np.ndarray
    covariance: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def as_lists(self) -> dict[str, Any]:
        """As the summary keeps it."""
        return {name: part.tolist() for name, part in self._asdict().items()}


def joint_of(X: np.ndarray) -> Joint | None:
    """The Gaussian of largest likelihood given the cells that are there; None for few rows."""
    n, p = X.shape
    if not 2 <= p <= WIDEST or n < OBJECTS * p or not np.isnan(X).any():
        return None
    from .. import GaussianMixture

    some = X[:: max(1, n // ROWS)]
    some = some[~np.isnan(some).all(axis=1)]
    low, high = np.nanmin(some, axis=0), np.nanmax(some, axis=0)
    if not np.isfinite([low, high]).all() or (high <= low).any():
        return None
    unit = np.nanstd(some, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(1, covariance_type="full", n_init=1, random_state=0).fit(
            some / unit
        )
    covariance = model.covariances_[0] * np.outer(unit, unit)
    return Joint(model.means_[0] * unit, covariance, low, high)


def fill_in(X: np.ndarray, fill: np.ndarray, joint: Joint | None) -> np.ndarray:
    """The table without gaps: regression on the cells that a row has, ``fill`` where it has none.

    Values beyond those that a column has are cut off.
    """
    holes = np.isnan(X)
    filled = np.where(holes, fill, X)
    if joint is None or not holes.any():
        return filled
    C = joint.covariance + RIDGE * np.diag(np.diag(joint.covariance))
    patterns, group = np.unique(holes, axis=0, return_inverse=True)
    for number, gone in enumerate(patterns):
        if not gone.any() or gone.all():
            continue
        rows, held = np.flatnonzero(group.ravel() == number), ~gone
        slopes = np.linalg.solve(C[np.ix_(held, held)], C[np.ix_(held, gone)])
        likely = joint.mean[gone] + (X[np.ix_(rows, held)] - joint.mean[held]) @ slopes
        filled[np.ix_(rows, gone)] = np.clip(likely, joint.low[gone], joint.high[gone])
    return filled


def joint_restored(kept: Mapping[str, Any] | None, n_columns: int) -> Joint | None:
    """What a summary keeps, checked."""
    if kept is None:
        return None
    shapes = dict.fromkeys(Joint._fields, (n_columns,)) | {"covariance": (n_columns, n_columns)}
    try:
        parts = {name: np.asarray(kept[name], dtype=np.float64) for name in Joint._fields}
    except (KeyError, TypeError, ValueError):
        parts = {}
    right = all(name in parts and parts[name].shape == shapes[name] for name in shapes)
    if not right or not all(np.isfinite(part).all() for part in parts.values()):
        raise InputError("summary.json is damaged: 'scaling' does not fit its columns")
    return Joint(**parts)
