"""What each cluster is: how its columns differ from those of the other objects.

Columns come from an array, a data frame, or what a file was read into.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.arrays import to_numpy
from ..data.features import refuse_same_names
from ..io.columns import Column
from ..memberships import check_memberships

# Cohen (1988), Statistical Power Analysis: a difference of half a standard deviation is visible to
# the naked eye, one of 0.8 is large. Beyond twice that, groups hardly overlap: "very".
VISIBLE, LARGE = 0.5, 1.6


class ColumnProfile(NamedTuple):
    """One column in one cluster, against the other objects."""

    column: str
    kind: str  # "number", "date" or "category"
    level: str | None  # the category that separates the cluster best
    value: float  # mean, or share of the category, in the cluster
    overall: float  # mean or share among all objects
    difference: float  # from the overall mean in standard deviations, or of the shares
    separation: float  # how well the column separates the cluster from the rest (Cohen's d or h)


class Contrast(NamedTuple):
    """One column, or one category of it, in every cluster: means or shares, and deviations."""

    name: str
    kind: str  # "number", "date" or "category"
    values: list[float]
    spreads: list[float]
    overall: float
    spread: float


def profiles(
    X: Any, memberships: Any, *, columns: Sequence[Any] | None = None
) -> list[list[ColumnProfile]]:
    """The columns of every cluster, those that separate it best from the other objects first.

    Objects count by their memberships. Numbers are compared by their means: the separation is the
    difference between the cluster and the rest in standard deviations within them (Cohen's d).
    Categories are compared by their shares (Cohen's h, which is on a similar scale).

    Parameters
    ----------
    X : array or sparse array of shape (n, p), or data frame
        Missing values are left out, column by column.
    memberships : array of shape (n, k)
    columns : sequence of p names, optional
        Names of the columns of an array.

    Returns
    -------
    profiles : list of k lists of ColumnProfile

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import report
    >>> X = np.array([[1.0, 5.0], [1.2, 3.0], [9.0, 4.0], [9.4, 4.5]])
    >>> U = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> best = report.profiles(X, U, columns=["size", "age"])[0][0]
    >>> best.column, round(best.value, 1), round(best.overall, 2)
    ('size', 1.1, 5.15)
    """
    U = check_memberships(to_numpy(memberships))
    table = as_columns(X, columns)
    _check_length(table, len(U))
    numbers = [c for c in table if c.codes is None and c.kind != "yes/no"]
    found = _of_numbers(numbers, U) if numbers else [[] for _ in range(U.shape[1])]
    for column in table:
        if column.codes is not None or column.kind == "yes/no":
            for cluster, profile in enumerate(_of_category(column, U)):
                found[cluster].append(profile)
    return [sorted(group, key=lambda profile: -profile.separation) for group in found]


def with_ratios(
    table: Sequence[Column], U: np.ndarray, found: list[list[ColumnProfile]]
) -> list[list[ColumnProfile]]:
    """The profiles, with ratios of two columns where no column alone tells a cluster apart.

    Of animals of all sizes, for instance, sexes differ in proportions only.
    """
    numbers = [c for c in table if c.kind == "number"]
    numbers = [c for c in numbers if (np.nan_to_num(np.asarray(c.numbers), nan=1.0) > 0).all()][:10]
    weak = [c for c, group in enumerate(found) if group and group[0].separation < LARGE]
    if len(numbers) < 2 or not weak or U.shape[1] < 2:
        return found
    ratios = [
        Column(f"{a.name} / {b.name}", "number", True, "", np.divide(a.numbers, b.numbers))  # type: ignore[arg-type]
        for a, b in combinations(numbers, 2)
    ]
    more, kept = profiles(ratios, U), list(found)
    for cluster in weak:
        best, first = found[cluster][0].separation, more[cluster][:2]
        better = [part for part in first if part.separation > max(VISIBLE, 1.5 * best)]
        kept[cluster] = better + found[cluster]
    return kept


def _check_length(table: Sequence[Column], n: int) -> None:
    for column in table:
        values = column.numbers if column.codes is None else column.codes
        if len(np.asarray(values)) != n:
            raise ValueError(f"X has {len(np.asarray(values))} rows where memberships have {n}")


def _of_numbers(columns: Sequence[Column], U: np.ndarray) -> list[list[ColumnProfile]]:
    values = np.column_stack([np.asarray(column.numbers) for column in columns])
    seen = np.isfinite(values)
    center = np.array(
        [np.median(v[s]) if s.any() else 0.0 for v, s in zip(values.T, seen.T, strict=True)]
    )
    # About the median, so that sums of squares do not cancel.
    X = np.where(seen, values - center, 0.0)
    unit = np.abs(X).max(axis=0, initial=0.0)
    unit[unit == 0] = 1.0
    X /= unit  # so that no square overflows or underflows
    mass, first, second = (U.T @ part for part in (seen.astype(float), X, X * X))
    total = [part.sum(axis=0) for part in (mass, first, second)]
    mean, spread = _moments(*total)
    inner, inner_spread = _moments(mass, first, second)
    outer, outer_spread = _moments(
        *(t - part for t, part in zip(total, (mass, first, second), strict=True))
    )
    within = np.sqrt((inner_spread**2 + outer_spread**2) / 2)
    gap = np.where((mass > 1e-9) & (total[0] - mass > 1e-9), np.abs(inner - outer), 0.0)
    # A column that is constant in both parts separates them perfectly: ten deviations stand for
    # that.
    separation = np.minimum(gap / np.maximum(within, 0.1 * np.maximum(gap, 1e-300)), 10.0)
    difference = (inner - mean) / np.where(spread > 0, spread, 1.0)
    return [
        [
            ColumnProfile(
                column.name,
                "date" if column.kind == "date" else "number",
                None,
                float(inner[c, j] * unit[j] + center[j]),
                float(mean[j] * unit[j] + center[j]),
                float(difference[c, j]),
                float(separation[c, j]),
            )
            for j, column in enumerate(columns)
        ]
        for c in range(U.shape[1])
    ]


def contrasts(table: Sequence[Column], U: np.ndarray, count: int) -> list[Contrast]:
    """The columns and categories whose means or shares differ most between clusters."""
    found = []
    for column in table:
        for name, kind, x in _indicators(column):
            seen = np.isfinite(x)
            center = float(np.median(x[seen])) if seen.any() else 0.0
            y = np.where(seen, x - center, 0.0)
            unit = float(np.abs(y).max(initial=0.0)) or 1.0
            y = y / unit
            parts = [(U.T @ part)[:, None] for part in (seen.astype(float), y, y * y)]
            inner, within = (part[:, 0] for part in _moments(*parts))
            mean, spread = (float(part[0]) for part in _moments(*(p.sum(axis=0) for p in parts)))
            values, spreads = (inner * unit + center).tolist(), (within * unit).tolist()
            found.append(Contrast(name, kind, values, spreads, mean * unit + center, spread * unit))
    return sorted(found, key=lambda each: -_reach(each))[:count]


def _indicators(column: Column) -> list[tuple[str, str, np.ndarray]]:
    """A column of numbers as it is, a category as one column of 0 and 1 for each of its levels."""
    if column.codes is None:
        kind = {"date": "date", "yes/no": "category"}.get(column.kind, "number")
        return [(column.name, kind, np.asarray(column.numbers, dtype=np.float64))]
    codes = np.asarray(column.codes)
    return [
        (f"{column.name} = {level}", "category", np.where(codes < 0, np.nan, codes == place))
        for place, level in enumerate(column.categories)
    ]


def _reach(each: Contrast) -> float:
    """Distance of the outermost clusters in standard deviations within clusters."""
    gap = max(each.values) - min(each.values)
    if gap <= 0:
        return 0.0
    within = np.asarray(each.spreads) / gap
    return 1.0 / max(float(np.sqrt(np.mean(np.square(within)))), 0.1)


def _moments(
    mass: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of weighted values; zero where there is no weight."""
    safe = np.maximum(mass, 1e-12)
    mean = np.where(mass > 1e-9, first / safe, 0.0)
    return mean, np.sqrt(np.maximum(np.where(mass > 1e-9, second / safe, 0.0) - mean**2, 0.0))


def _of_category(column: Column, U: np.ndarray) -> list[ColumnProfile]:
    """The level of a column that separates each cluster best."""
    if column.codes is None:
        values = np.asarray(column.numbers)
        codes, levels = np.where(np.isnan(values), -1, values > 0.5).astype(int), ["no", "yes"]
    else:
        codes, levels = np.asarray(column.codes), column.categories
    hot = (codes[:, None] == np.arange(len(levels))).astype(np.float64)
    mass, total = U.T @ hot, hot.sum(axis=0)
    overall = total / max(total.sum(), 1.0)
    inner = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-12)
    rest = total - mass
    outer = rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-12)
    # Cohen's h: the arcsine makes the variance of a share independent of the share.
    angles = [2 * np.arcsin(np.sqrt(np.clip(part, 0.0, 1.0))) for part in (inner, outer)]
    effect = np.abs(angles[0] - angles[1])
    effect[rest.sum(axis=1) < 1e-9] = 0.0
    found = []
    for c in range(U.shape[1]):
        order = np.lexsort((inner[c] < outer[c], -effect[c].round(9)))
        best = 1 if column.codes is None else int(order[0])
        found.append(
            ColumnProfile(
                column.name,
                "category",
                levels[best],
                float(inner[c, best]),
                float(overall[best]),
                float(inner[c, best] - overall[best]),
                float(effect[c, best]),
            )
        )
    return found


def sentence(profile: Sequence[ColumnProfile]) -> str:
    """A cluster in words: what is high, low, common or rare in it.

    Examples
    --------
    >>> from sfumato.report import profiles
    >>> from sfumato.report._profiles import sentence
    >>> X = [[1.0], [1.2], [9.0], [9.4]]
    >>> sentence(profiles(X, [[1, 0], [1, 0], [0, 1], [0, 1]], columns=["size"])[1])
    'Very high size (9.2 against 5.15 overall)'
    """
    said = [_phrase(part) for part in profile if part.separation >= VISIBLE]
    said = [text for text in said if text][:4]
    text = "; ".join(said) or "close to the average in every column"
    return text[:1].upper() + text[1:]


def _phrase(part: ColumnProfile) -> str:
    very, column = "very " if part.separation >= LARGE else "", title(part.column)
    if part.kind == "category":
        often = "mostly" if part.value >= 0.5 else "often" if part.difference > 0 else "rarely"
        return f"{often} {column} {part.level} ({part.value:.0%} against {part.overall:.0%})"
    if part.kind == "date":
        days = [_day(value) for value in (part.value, part.overall)]
        when = "late" if part.difference > 0 else "early"
        return "" if days[0] == days[1] else f"{very}{when} {column} ({' against '.join(days)})"
    direction = "high" if part.difference > 0 else "low"
    shown = _told_apart(part.value, part.overall)
    return (
        "" if shown is None else f"{very}{direction} {column} ({' against '.join(shown)} overall)"
    )


def _day(value: float) -> str:
    return str(np.datetime64(round(value), "D"))


def _told_apart(*values: float) -> list[str] | None:
    """Numbers with as many digits as they need to differ; None where six are not enough."""
    for digits in (3, 4, 5, 6):
        shown = [f"{v:,.0f}" if abs(v) >= 10**digits else f"{v:.{digits}g}" for v in values]
        if len(set(shown)) == len(shown):
            return shown
    return None


def telling(found: Sequence[Sequence[ColumnProfile]], count: int) -> list[str]:
    """Names of the columns that separate clusters best, over all clusters."""
    best: dict[str, float] = {}
    for group in found:
        for part in group:
            # Capped, so that one perfectly separated cluster does not decide alone.
            best[part.column] = best.get(part.column, 0.0) + min(part.separation, 2 * LARGE)
    return sorted(best, key=lambda name: -best[name])[:count]


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
