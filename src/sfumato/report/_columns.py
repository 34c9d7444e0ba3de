"""The columns of a table.

An array, a data frame, or what a file was read into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..data.features import refuse_same_names
from ..io.columns import Column

__all__ = ["amount", "as_columns", "missing", "shown_value", "title"]


def as_columns(X: Any, names: Sequence[Any] | None = None) -> list[Column]:
    """Columns of numbers and of categories.

    Parameters
    ----------
    X : array or sparse array of shape (n, p), data frame, or list of columns
    names : sequence of p names, optional
        Names of the columns of an array.
    """
    if isinstance(X, list) and X and isinstance(X[0], Column):
        return [column for column in X if column.used]
    if hasattr(X, "columns") and not sp.issparse(X):
        return _of_frame(X)
    values: Any = X if sp.issparse(X) else to_numpy(X)
    if values.ndim != 2:
        raise ValueError(f"X must have rows and columns, got shape {values.shape}")
    if names is not None and len(names) != values.shape[1]:
        raise ValueError(f"columns must name {values.shape[1]} columns, got {len(names)}")
    kept = np.arange(values.shape[1])
    if len(kept) > 2000:  # of more columns those of largest variance are described
        kept = np.sort(np.argsort(-_variances(values), kind="stable")[:2000])
    dense = values[:, kept].toarray() if sp.issparse(values) else np.asarray(values[:, kept])
    titles = [f"column {place}" if names is None else str(names[place]) for place in kept]
    numbers = dense.astype(np.float64)
    return [Column(title, "number", True, "", numbers[:, j]) for j, title in enumerate(titles)]


def _variances(values: Any) -> np.ndarray:
    if sp.issparse(values):
        means = np.asarray(values.mean(axis=0)).ravel()
        return np.asarray(values.multiply(values).mean(axis=0)).ravel() - means**2
    return np.nanvar(values, axis=0)


def _of_frame(X: Any) -> list[Column]:
    import narwhals as nw

    refuse_same_names(X, "X")
    frame = nw.from_native(X, eager_only=True)
    return [_of_series(frame[name]) for name in frame.columns]


def _of_series(series: Any) -> Column:
    name, dtype = str(series.name), series.dtype
    if dtype.is_numeric():
        return Column(name, "number", True, "", np.asarray(series.to_numpy(), dtype=np.float64))
    values = zip(series.to_list(), series.is_null().to_list(), strict=True)
    words = [None if null or value != value else str(value) for value, null in values]
    levels = sorted({word for word in words if word is not None})
    code = {word: place for place, word in enumerate(levels)}
    codes = np.array([-1 if word is None else code[word] for word in words], dtype=np.int32)
    return Column(name, "category", True, "", None, codes, levels)


def missing(column: Column) -> int:
    """Number of cells without a value."""
    if column.codes is not None:
        return int((column.codes < 0).sum())
    return int(np.isnan(np.asarray(column.numbers)).sum())


def shown_value(column: Column, row: int) -> str:
    """A cell as people read it."""
    if column.codes is not None:
        code = int(column.codes[row])
        return "–" if code < 0 else column.categories[code]
    value = float(np.asarray(column.numbers)[row])
    if np.isnan(value):
        return "–"
    if column.kind == "yes/no":
        return "yes" if value else "no"
    return amount(value)


def title(name: str) -> str:
    """The name of a column in a sentence, where a number alone would be read as a value."""
    return f"column {name}" if name.isdigit() else name


def amount(value: float) -> str:
    """A number as people read it."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
