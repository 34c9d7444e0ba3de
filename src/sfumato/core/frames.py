"""Data frames whose columns cannot be read as features: which column, and what to do."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from .types import ArrayLike

__all__ = ["held_by", "refuse_same_names", "refuse_strange"]

# Beginnings of the names that pandas, polars and narwhals give to types, in small letters.
TYPES = {
    "datetime": "dates",
    "date": "dates",
    "period": "dates",
    "timestamp": "dates",
    "timedelta": "spans of time",
    "duration": "spans of time",
    "time": "times of day",
    "interval": "intervals",
    "list": "lists",
    "array": "lists",
    "struct": "records",
    "unknown": "values of a type that has no name",
}


def held_by(kind: object, value: object = None) -> str | None:
    """What a column holds that is neither numbers nor words, from its type and a value; or None."""
    name = str(kind).lower()
    for beginning, words in TYPES.items():
        if name.startswith(beginning):
            return words
    if isinstance(value, (list, tuple, set, dict, np.ndarray)):
        return "records" if isinstance(value, dict) else "lists"
    if isinstance(value, date) or type(value).__name__ == "Period":
        return "dates"
    return "spans of time" if isinstance(value, timedelta) else None


def refuse_same_names(X: Any, name: str) -> None:
    """Refuse a pandas data frame in which two columns have one name."""
    columns = getattr(X, "columns", None)
    if columns is None or getattr(columns, "is_unique", True):
        return
    same = ", ".join(repr(column) for column in columns[columns.duplicated()].unique()[:8])
    raise ValueError(
        f"{name} has several columns called {same}: rename them, or drop all but one of a name"
    )


def refuse_strange(X: Any, name: str, taker: str) -> None:
    """Refuse dates, lists and the like, in arrays and in columns of data frames."""
    if isinstance(X, np.ndarray):
        _refuse(held_by(X.dtype), name, taker)
        return
    kinds = getattr(X, "dtypes", None)
    if kinds is None or not hasattr(X, "columns"):
        return
    for column, kind in zip(X.columns, kinds, strict=False):
        value = _first(X[column]) if str(kind).lower() == "object" else None
        _refuse(held_by(kind, value), f"{name}, column {column!r}", taker)


def _refuse(found: str | None, place: str, taker: str) -> None:
    if found is not None:
        raise TypeError(
            f"{place} holds {found}, where {taker} takes numbers: drop it or make numbers of it"
        )


def _first(column: ArrayLike) -> object:
    """The first value of a column that is there."""
    for value in np.asarray(column):
        if value is not None and type(value).__name__ not in ("NAType", "NaTType", "float"):
            return value
    return None
