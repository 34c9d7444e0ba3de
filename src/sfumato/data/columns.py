"""Columns of a table: their kinds, and their values coded as numbers.

Codes are float64: the values of normal columns and counts, logarithms for log-normal columns, 0, 1,
... for the levels of categorical and binary ones, NaN for missing values.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..array.types import Array, ArrayLike
from ..array.validation import check_choice, refuse_overflow
from ..array.warn import warn
from .features import refuse_same_names

__all__ = ["KINDS", "Column", "as_frame", "code_array", "code_frame", "decode", "read_columns"]

KINDS = ("normal", "log-normal", "categorical", "counts", "binary")


class Column(NamedTuple):
    """Name, kind, and the levels of a categorical or binary column."""

    name: Any
    kind: str
    levels: tuple[Any, ...] = ()

    @property
    def is_discrete(self) -> bool:
        """Whether the column holds categories."""
        return self.kind in ("categorical", "binary")


def as_frame(X: Array) -> Any:
    """A narwhals data frame of ``X``, or None if ``X`` is an array."""
    if not (hasattr(X, "columns") and hasattr(X, "shape")):
        return None
    try:
        import narwhals as nw
    except ImportError as error:
        raise ImportError("data frames need narwhals: pip install 'sfumato[io]'") from error
    refuse_same_names(X, "X")
    return nw.from_native(X, eager_only=True)


def read_columns(names: list[Any], guesses: list[str], columns: Array) -> list[str]:
    """Kind of every column: the guess, unless ``columns`` (column to kind) gives another."""
    if columns is None:
        return guesses
    if not isinstance(columns, Mapping):
        raise TypeError(f"columns must map columns to kinds, {{'age': 'normal'}}, got {columns!r}")
    kinds = list(guesses)
    for key, kind in columns.items():
        kinds[_place(key, names)] = check_choice(kind, f"columns[{key!r}]", KINDS)
    return kinds


def _place(key: object, names: list[Any]) -> int:
    """Position of a column given by name or number."""
    if key in names:
        return names.index(key)
    text = str(key)
    if text.isdigit() and int(text) < len(names):
        return int(text)
    shown = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    raise ValueError(f"columns names {key!r}, which X does not have; its columns are {shown}")


def guess_kind(series: Any) -> str:
    """Kind of a data-frame column from its type and, for whole numbers, from its values."""
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Boolean:
        return "binary"
    if kind.is_float() or kind.is_decimal():
        return "normal"
    if kind.is_integer():
        return _guess_whole(np.asarray(series.drop_nulls().to_numpy(), dtype=np.float64))
    if kind in (nw.Categorical, nw.Enum, nw.String, nw.Object):
        return "categorical"
    raise TypeError(f"X, column {series.name!r} holds {kind}: drop it or make numbers of it")


def _guess_whole(values: np.ndarray) -> str:
    """Kind of whole numbers: two values are binary, with zeros counts, few are categories."""
    different = np.unique(values)
    if len(different) <= 2:
        return "binary"
    if different[0] == 0:
        return "counts"
    return "categorical" if len(different) <= 10 and different[0] > 0 else "normal"


def code_frame(
    frame: Any, fitted: list[Column] | None, columns: Any
) -> tuple[np.ndarray, list[Column]]:
    """Codes (n, p) of a data frame, and its columns (those ``fitted`` before, if given)."""
    series = list(frame.iter_columns())
    if fitted is None:
        names = [s.name for s in series]
        kinds = read_columns(names, [guess_kind(s) for s in series], columns)
        fitted = [_learn(n, k, _values(s, k)) for n, k, s in zip(names, kinds, series, strict=True)]
    coded = [_code(_values(s, c.kind), c) for s, c in zip(series, fitted, strict=True)]
    return np.column_stack(coded), fitted


def code_array(
    X: np.ndarray, fitted: list[Column] | None, columns: Any, names: list[Any]
) -> tuple[np.ndarray, list[Column]]:
    """Codes of a numeric array; columns are normal unless ``columns`` says otherwise."""
    if fitted is None:
        kinds = read_columns(names, ["normal"] * X.shape[1], columns)
        fitted = [Column(*pair) for pair in zip(names, kinds, strict=True)]
        for i, column in enumerate(fitted):
            if column.is_discrete:  # other columns were checked as numbers
                fitted[i] = _learn(*column[:2], X[:, i].tolist())
    if all(column.kind == "normal" for column in fitted):
        return X, fitted
    values = (X[:, i].tolist() if c.is_discrete else X[:, i] for i, c in enumerate(fitted))
    coded = [_code(v, c) for v, c in zip(values, fitted, strict=True)]
    return np.column_stack(coded).astype(X.dtype), fitted


def _values(series: Any, kind: str) -> Any:
    """Values of a column: a list with None for categories, float64 with NaN for numbers."""
    import narwhals as nw

    if kind in ("categorical", "binary"):
        return series.to_list()
    try:
        numbers = series.cast(nw.Float64).to_list()
        return np.array([np.nan if _is_missing(v) else v for v in numbers], dtype=np.float64)
    except Exception as error:  # every data-frame library has its own errors
        raise ValueError(
            f"X, column {series.name!r} holds {series.dtype}, not numbers, and cannot be "
            f"{kind!r}: name its kind in columns, e.g. columns={{{series.name!r}: 'categorical'}}"
        ) from error


def _is_missing(value: object) -> bool:
    # The type is checked first: comparing pandas' NA with itself gives no truth value.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _learn(name: object, kind: str, values: Array) -> Column:
    if kind not in ("categorical", "binary"):
        return Column(name, kind)
    _refuse_lists(values, name)
    seen = [value for value in values if not _is_missing(value)]
    try:
        levels = tuple(sorted(set(seen), key=lambda level: (type(level).__name__, level)))
    except TypeError as error:
        raise TypeError(
            f"X, column {name!r} holds values such as {seen[0]!r}, which cannot be sorted as "
            "categories: drop it or make words of it"
        ) from error
    if kind == "binary" and len(levels) > 2:
        raise ValueError(f"X, column {name!r} has {len(levels)} levels and cannot be 'binary'")
    if len(levels) > max(20, len(seen) / 2):
        raise ValueError(
            f"X, column {name!r} has {len(levels)} different values in {len(seen)} objects, too "
            "many for categories: drop it, or name another kind for it in columns"
        )
    return Column(name, "binary" if len(levels) == 2 else kind, levels)


def _refuse_lists(values: Array, name: object) -> None:
    """Refuse values that cannot be categories, such as lists."""
    for value in values:
        if isinstance(value, (list, tuple, set, dict, np.ndarray)):
            raise TypeError(
                f"X, column {name!r} holds values such as {value!r}, which no kind of column "
                "describes: drop it, or make a column of each of their values"
            )


def _code(values: ArrayLike, column: Column) -> np.ndarray:
    if column.is_discrete:
        return _code_levels(values, column)
    numbers = np.asarray(values, dtype=np.float64)
    seen = numbers[~np.isnan(numbers)]
    if np.isinf(seen).any():
        raise ValueError(f"X, column {column.name!r} contains infinity: drop or replace it")
    if column.kind == "counts" and ((seen < 0).any() or (seen != np.rint(seen)).any()):
        odd = seen[(seen < 0) | (seen != np.rint(seen))][0]
        raise ValueError(f"X, column {column.name!r} must hold counts 0, 1, 2, ..., got {odd:g}")
    if column.kind == "log-normal":
        if (seen <= 0).any():
            raise ValueError(f"X, column {column.name!r} must be positive, got {seen.min():g}")
        return np.log(numbers)
    refuse_overflow(numbers[:, None], f"X[{column.name!r}]")
    return numbers


def _code_levels(values: Any, column: Column) -> np.ndarray:
    """Positions among the fitted levels; new levels count as missing, with a warning."""
    _refuse_lists(values, column.name)
    place = {level: float(i) for i, level in enumerate(column.levels)}
    codes = np.array([math.nan if _is_missing(v) else place.get(v, -1.0) for v in values])
    if (codes == -1.0).any():
        new = sorted({str(v) for v, c in zip(values, codes, strict=True) if c == -1.0})
        shown = ", ".join(map(repr, new[:5])) + (", ..." if len(new) > 5 else "")
        warn(f"X, column {column.name!r} has new categories ({shown}): they count as missing")
        codes[codes == -1.0] = np.nan
    return codes


def decode(codes: np.ndarray, column: Column) -> Any:
    """Values of a column from its codes, the inverse of coding."""
    if column.is_discrete:
        return [column.levels[int(code)] for code in codes]
    if column.kind == "counts":
        return codes.astype(np.int64)
    return np.exp(codes) if column.kind == "log-normal" else codes
