"""Description of the clusters in terms of the columns, as plain lists and dicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..io.columns import Column
from ..memberships import margin
from ._columns import as_columns, missing, shown_value, units
from ._profiles import contrasts, profiles, sentence, telling
from ._tree import rules

__all__ = ["describe"]

_ROWS, _BORDERLINE, _COLUMNS, _PROFILE = 3, 12, 8, 6
_CONTRASTS = 60  # columns that pairs of clusters are compared in


def describe(
    X: Any, U: np.ndarray, *, columns: Sequence[Any] | None = None, shown: Any = None
) -> dict[str, Any]:
    """What the clusters are: profiles, sentences, typical and borderline rows, a tree, gaps.

    Parameters
    ----------
    X : array, sparse array, data frame or list of columns
    U : array of shape (n, k)
    columns : names of the columns of an array
    shown : indices of the objects in the pictures, whose rows are kept; all if not given
    """
    table = as_columns(X, columns)
    found = profiles(table, U)
    names = telling(found, _COLUMNS)
    by_name = {column.name: column for column in table}
    best = [by_name[name] for name in names]
    own = U.argmax(axis=1)
    some = np.arange(len(U)) if shown is None else np.asarray(shown)
    return {
        "columns": names,
        "clusters": [
            {
                "sentence": sentence(group),
                "columns": [part._asdict() for part in group[:_PROFILE]],
                "typical": _rows(_typical(U, own, cluster), best),
            }
            for cluster, group in enumerate(found)
        ],
        "contrasts": [each._asdict() for each in contrasts(table, U, _CONTRASTS)],
        "borderline": _rows(_borderline(U), best),
        "tree": rules(table, own),
        "missing": {column.name: gaps for column in table if (gaps := missing(column))},
        "plane": _plane(best, U, some),
        "rows": [[shown_value(column, int(row)) for column in best] for row in some],
    }


def _typical(U: np.ndarray, own: np.ndarray, cluster: int) -> list[int]:
    order = np.argsort(-U[:, cluster], kind="stable")[:_ROWS]
    return [int(row) for row in order if own[row] == cluster]


def _borderline(U: np.ndarray) -> list[int]:
    if U.shape[1] < 2:
        return []
    margins = margin(U)
    order = np.argsort(margins, kind="stable")[:_BORDERLINE]
    return [int(row) for row in order if margins[row] < 0.95]


def _rows(places: Sequence[int], columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {"object": row, "cells": [shown_value(column, row) for column in columns]} for row in places
    ]


def _plane(columns: Sequence[Column], U: np.ndarray, shown: np.ndarray) -> dict[str, Any] | None:
    """The two numbers that together tell the clusters apart best: the least Wilks' lambda."""
    numbers = [column for column in columns if column.codes is None and column.kind != "yes/no"]
    if len(numbers) < 2:
        return None
    values = [np.asarray(column.numbers)[shown] for column in numbers]
    pairs = list(combinations(range(len(numbers)), 2))
    filled = np.column_stack([_standardised(column) for column in values])
    first, second = min(pairs, key=lambda pair: _wilks(filled[:, pair], U[shown]))
    points = np.column_stack([values[first], values[second]])
    return {
        "names": [numbers[first].name, numbers[second].name],
        "points": [[_rounded(value) for value in point] for point in points],
    }


def _standardised(values: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1, with the mean for missing values."""
    seen = np.isfinite(values)
    if not seen.any():
        return np.zeros(len(values))
    values = values / units(values[seen][:, None])
    centred = np.where(seen, values - values[seen].mean(), 0.0)
    return centred / (centred.std() or 1.0)


def _wilks(X: np.ndarray, U: np.ndarray) -> float:
    """Share of the generalised variance that stays within clusters, memberships as weights."""
    mass = U.sum(axis=0)
    means = U.T @ X / np.maximum(mass, 1e-12)[:, None]
    total = X.T @ X
    if not total.any():  # every value is the mean of its column, as in a single row
        return 1.0
    within = total - (means.T * mass) @ means
    least = 1e-9 * np.trace(total) * np.eye(2)  # so that two collinear columns are not chosen
    return float(np.linalg.det(within + least) / max(np.linalg.det(total), np.linalg.det(least)))


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
