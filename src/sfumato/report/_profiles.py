"""Profiles of clusters: how their columns differ from those of the other objects.

Columns may come from an array, a data frame or a file.
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

# Cohen (1988), Statistical Power Analysis: a difference of 0.5 standard deviations is visible to
# the naked eye, one of 0.8 is large. Beyond twice 0.8, groups hardly overlap ("very").
VISIBLE, LARGE = 0.5, 1.6


class ColumnProfile(NamedTuple):
    """A column of one cluster, compared with the other objects."""

    column: str
    kind: str  # "number", "date" or "category"
    level: str | None  # the category that separates the cluster best
    value: float  # mean, or share of the category, within the cluster
    overall: float  # mean or share among all objects
    difference: float  # from the overall mean in standard deviations, or difference of shares
    separation: float  # how well the column separates the cluster (Cohen's d or h)


class Contrast(NamedTuple):
    """A column or category over all clusters: means or shares, and deviations."""

    name: str
    kind: str  # "number", "date" or "category"
    values: list[float]
    spreads: list[float]
    overall: float
    spread: float


def profiles(
    X: Any, memberships: Any, *, columns: Sequence[Any] | None = None
) -> list[list[ColumnProfile]]:
    """Columns of every cluster, sorted by how well they separate it from the other objects.

    Objects are weighted by their memberships. For numbers, the separation is the difference of
    means between the cluster and the rest, in standard deviations within them (Cohen's d). For
    categories, it is Cohen's h of the shares, which has a similar scale.

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
    for column in table:
        held = column.numbers if column.codes is None else column.codes
        if len(held) != len(U):  # type: ignore[arg-type]
            raise ValueError(f"X has {len(held)} rows where memberships have {len(U)}")  # type: ignore[arg-type]
    k, parts = U.shape[1], [part for place, c in enumerate(table) for part in _parts(place, c)]
    if not parts:
        return [[] for _ in range(k)]
    mass, mean, spread, unit, center = _moments(parts, U)
    inside, outside = slice(1, k + 1), slice(k + 1, None)
    inner, outer = mean[inside], mean[outside]
    there = (mass[inside] > 1e-9) & (mass[outside] > 1e-9)
    gap = np.where(there, np.abs(inner - outer), 0.0)
    within = np.sqrt((spread[inside] ** 2 + spread[outside] ** 2) / 2)
    # A column that is constant in both parts separates them perfectly; this counts as ten
    # deviations.
    distance = np.minimum(gap / np.maximum(within, 0.1 * np.maximum(gap, 1e-300)), 10.0)
    steps = (inner - mean[0]) / np.where(spread[0] > 0, spread[0], 1.0)
    values = mean * unit + center
    # Cohen's h: the arcsine makes the variance of a share independent of the share.
    angles = 2 * np.arcsin(np.sqrt(np.clip(values, 0.0, 1.0)))
    effect = np.where(there, np.abs(angles[inside] - angles[outside]), 0.0)
    found: list[dict[int, ColumnProfile]] = [{} for _ in range(k)]
    for j, part in enumerate(parts):
        share = part.kind == "category"
        for c, best in enumerate(found):
            value, overall = float(values[c + 1, j]), float(values[0, j])
            difference = value - overall if share else float(steps[c, j])
            separation = float(effect[c, j] if share else distance[c, j])
            name = table[part.column].name
            profile = ColumnProfile(
                name, part.kind, part.level, value, overall, difference, separation
            )
            if part.column not in best or _rank(profile) > _rank(best[part.column]):
                best[part.column] = profile
    return [sorted(best.values(), key=lambda profile: -profile.separation) for best in found]


def _rank(profile: ColumnProfile) -> tuple[float, bool]:
    """Sort key: the best level of a category is shown; among ties, one common in the cluster."""
    return round(profile.separation, 9), profile.difference >= 0


class _Part(NamedTuple):
    """The values of a numeric column, or 0/1 values for one level of a category."""

    column: int
    name: str
    kind: str
    level: str | None
    values: np.ndarray


def _parts(place: int, column: Column) -> list[_Part]:
    if column.codes is not None:
        codes = np.asarray(column.codes)
        return [
            _Part(place, f"{column.name} = {level}", "category", level, hot)
            for code, level in enumerate(column.categories)
            for hot in [np.where(codes < 0, np.nan, codes == code)]
        ]
    values = np.asarray(column.numbers, dtype=np.float64)
    if binary(column):
        level = "yes" if column.kind == "yes/no" else "1"
        return [_Part(place, column.name, "category", level, values)]
    kind = "date" if column.kind == "date" else "number"
    return [_Part(place, column.name, kind, None, values)]


def binary(column: Column) -> bool:
    """Whether a numeric column holds only 0 and 1, so that its means are shares."""
    values = np.asarray(column.numbers)
    return column.codes is None and bool(np.isin(values[~np.isnan(values)], (0, 1)).all())


def _moments(parts: Sequence[_Part], U: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mass, mean and deviation (1 + 2k, q) over all objects, each cluster, and its complement.

    The last two arrays are the unit and center of every column: values are centred at the median
    against cancellation, and scaled to at most 1 against overflow and underflow.
    """
    values = np.column_stack([part.values for part in parts])
    seen = np.isfinite(values)
    pairs = zip(values.T, seen.T, strict=True)
    center = np.array([np.median(v[s]) if s.any() else 0.0 for v, s in pairs])
    X = np.where(seen, values - center, 0.0)
    unit = np.abs(X).max(axis=0, initial=0.0)
    unit[unit == 0] = 1.0
    X /= unit
    sums = np.stack([U.T @ part for part in (seen.astype(float), X, X * X)])
    total = sums.sum(axis=1, keepdims=True)
    mass, first, second = np.concatenate([total, sums, total - sums], axis=1)
    safe = np.where(mass > 1e-9, mass, np.inf)
    mean = first / safe
    return mass, mean, np.sqrt(np.maximum(second / safe - mean**2, 0.0)), unit, center


def contrasts(table: Sequence[Column], U: np.ndarray, count: int) -> list[Contrast]:
    """The columns and categories that differ most between clusters."""
    parts, k = [part for place, c in enumerate(table) for part in _parts(place, c)], U.shape[1]
    _, mean, spread, unit, center = _moments(parts, U)
    mean, spread = mean * unit + center, spread * unit
    found = [
        Contrast(
            part.name,
            part.kind,
            mean[1 : k + 1, j].tolist(),
            spread[1 : k + 1, j].tolist(),
            float(mean[0, j]),
            float(spread[0, j]),
        )
        for j, part in enumerate(parts)
    ]
    return sorted(found, key=lambda each: -_reach(each))[:count]


def _reach(each: Contrast) -> float:
    """Distance between the outermost clusters, in standard deviations within clusters."""
    gap = max(each.values) - min(each.values)
    if gap <= 0:
        return 0.0
    within = np.asarray(each.spreads) / gap
    return 1.0 / max(float(np.sqrt(np.mean(np.square(within)))), 0.1)


def with_ratios(
    table: Sequence[Column], U: np.ndarray, found: list[list[ColumnProfile]]
) -> list[list[ColumnProfile]]:
    """The profiles, with ratios of two columns if no single column separates a cluster.

    For example, the sexes of animals of all sizes may differ only in proportions.
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


def sentence(profile: Sequence[ColumnProfile]) -> str:
    """A sentence about a cluster: what is high, low, common or rare in it.

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
        here, overall = f"{part.value:.0%}", f"{part.overall:.0%}"
        often = {"100%": "always", "0%": "never"}.get(here, often)
        return f"{often} {column} {part.level} ({here} against {overall})"
    high = part.difference > 0
    if part.kind == "date":
        days = [shown_mean(value, "date") for value in (part.value, part.overall)]
        when = "late" if high else "early"
        return "" if days[0] == days[1] else f"{very}{when} {column} ({' against '.join(days)})"
    shown = _with_digits(part.value, part.overall)
    if shown is None:
        return ""
    return f"{very}{'high' if high else 'low'} {column} ({' against '.join(shown)} overall)"


def _with_digits(*values: float) -> list[str] | None:
    """Numbers with as many digits as they need to differ; None if six are not enough.

    Numbers below 1e-5 of the largest count as zero.
    """
    largest = max(abs(v) for v in values)
    values = tuple(v if abs(v) > 1e-5 * largest else 0.0 for v in values)
    for digits in (3, 4, 5, 6):
        shown = [f"{v:,.0f}" if abs(v) >= 10**digits else f"{v:.{digits}g}" for v in values]
        if len(set(shown)) == len(shown):
            return shown
    return None


def telling(found: Sequence[Sequence[ColumnProfile]], count: int) -> list[str]:
    """Names of the columns that separate clusters best, summed over clusters."""
    best: dict[str, float] = {}
    for group in found:
        for part in group:
            # Capped, so that one perfectly separated cluster does not decide alone.
            best[part.column] = best.get(part.column, 0.0) + min(part.separation, 2 * LARGE)
    return sorted(best, key=lambda name: -best[name])[:count]


def as_columns(X: Any, names: Sequence[Any] | None = None) -> list[Column]:
    """Columns of numbers and categories, from an array, a data frame or a list of columns."""
    if isinstance(X, list) and X and isinstance(X[0], Column):
        return [column for column in X if column.used]
    if hasattr(X, "columns") and not sp.issparse(X):
        import narwhals as nw

        refuse_same_names(X, "X")
        frame = nw.from_native(X, eager_only=True)
        return [_of_series(frame[name]) for name in frame.columns]
    values: Any = X if sp.issparse(X) else to_numpy(X)
    if values.ndim != 2:
        raise ValueError(f"X must have rows and columns, got shape {values.shape}")
    if names is not None and len(names) != values.shape[1]:
        raise ValueError(f"columns must name {values.shape[1]} columns, got {len(names)}")
    kept = np.arange(values.shape[1])
    if len(kept) > 2000:  # only those of largest variance are described
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


def shown_value(column: Column, row: int) -> str:
    """A table cell as text for readers."""
    if column.codes is not None:
        code = int(column.codes[row])
        return "–" if code < 0 else column.categories[code]
    value = float(np.asarray(column.numbers)[row])
    known = ("yes" if value else "no") if column.kind == "yes/no" else amount(value)
    return "–" if np.isnan(value) else known


def title(name: str) -> str:
    """Name of a column for a sentence; a bare number would look like a value."""
    return f"column {name}" if name.isdigit() else name


def amount(value: float) -> str:
    """A number formatted for readers."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def shown_mean(value: float, kind: str) -> str:
    """A mean, share or date formatted for readers."""
    if kind == "category":
        return f"{value:.0%}"
    return str(np.datetime64(round(value), "D")) if kind == "date" else amount(value)
