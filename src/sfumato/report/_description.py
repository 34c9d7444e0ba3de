"""Descriptions of the clusters by the columns, at every level: profiles that say how a cluster
differs from the other objects, sentences, rules and a plane.

Columns may come from an array, a data frame or a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from ..array.arrays import to_numpy
from ..array.text import plain
from ..data.features import refuse_same_names
from ..engine.levels import Level, merged, regroup
from ..io.columns import Column, encode, encoded_names
from ..memberships import check_memberships, margin

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
    """Sort key of levels: larger separation first; among ties, those common in the cluster."""
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


def sentence(profile: Sequence[ColumnProfile]) -> str:
    """A sentence about a cluster: what is high, low, common or rare in it.

    Examples
    --------
    >>> from sfumato.report import profiles
    >>> from sfumato.report._description import sentence
    >>> X = [[1.0], [1.2], [9.0], [9.4]]
    >>> sentence(profiles(X, [[1, 0], [1, 0], [0, 1], [0, 1]], columns=["size"])[1])
    'Very high size (9.20 against 5.15 overall)'
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
    """Numbers with the same decimals: three digits of the largest, or more until they differ.

    None if six digits are not enough.
    """
    size = int(np.floor(np.log10(max(abs(v) for v in values) or 1.0)))
    for digits in (3, 4, 5, 6):
        after = max(digits - 1 - size, 0)
        form = f",.{after}f" if size >= -4 else f".{digits - 1}e"
        shown = [format(round(v, after) + 0.0, form) for v in values]  # no minus before a zero
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
    if kind == "date":
        return str(np.datetime64(round(value), "D"))
    return amount(value) if abs(value) >= 1000 else f"{value:#.4g}"


def describe(
    X: Any,
    U: np.ndarray,
    *,
    columns: Sequence[Any] | None = None,
    shown: Any = None,
    noise_cluster: bool = False,
    levels: tuple[np.ndarray, Sequence[Any]] | None = None,
) -> dict[str, Any]:
    """Descriptions of the clusters: profiles, sentences, typical and borderline rows, a tree.

    Parameters
    ----------
    X : array, sparse array, data frame or list of columns
    U : array of shape (n, k)
    columns : names of the columns of an array
    shown : indices of the objects in the pictures, whose rows are kept; all by default
    noise_cluster : whether the last column of U is noise, not a cluster
    levels : memberships at the finest level, and the levels to describe; by default clusters of U
        are merged
    """
    table = as_columns(X, columns)
    found = profiles(table, U)
    names = telling(found, 8)
    by_name = {column.name: column for column in table}
    best = [by_name[name] for name in names]
    some = np.arange(len(U)) if shown is None else np.asarray(shown)
    finest, others = levels_of(None, U, noise_cluster) if levels is None else levels
    return {
        "columns": names,
        **_of_one_level(table, U, found, best),
        "levels": {
            str(level.n_clusters): _of_one_level(table, V, profiles(table, V), best)
            for level in others
            if level.n_clusters != U.shape[1]
            for V in [regroup(finest, level.parents)]
        },
        "missing": {column.name: column.missing for column in table if column.missing},
        "plane": _telling_plane(best, U, some),
        "rows": [[shown_value(column, int(row)) for column in best] for row in some],
    }


def _of_one_level(
    table: Sequence[Column], U: np.ndarray, found: Sequence[Any], best: Sequence[Column]
) -> dict[str, Any]:
    """Descriptions of the clusters of one level."""
    own = U.argmax(axis=1)
    return {
        "clusters": [
            {
                "sentence": sentence(group),
                "columns": [part._asdict() for part in group[:6]],
                "typical": _rows(typical(U, cluster), best),
            }
            for cluster, group in enumerate(_with_ratios(table, U, found))
        ],
        "contrasts": [each._asdict() for each in contrasts(table, U, 24)],
        "borderline": _rows(borderline(U), best),
        "tree": rules(table, own),
    }


def _with_ratios(
    table: Sequence[Column], U: np.ndarray, found: Sequence[list[ColumnProfile]]
) -> list[list[ColumnProfile]]:
    """The profiles, after the ratio of two columns where it separates a cluster much better than
    any column alone, as the shape of crabs does while their sizes do not.
    """
    names = telling(found, 8)
    positive = [c for c in table if c.name in names and c.codes is None and c.kind == "number"]
    positive = [c for c in positive if not np.any(np.asarray(c.numbers) <= 0)]
    if U.shape[1] < 2 or len(positive) < 2:
        return list(found)
    ratios = [
        Column(f"{a.name} / {b.name}", "number", True, "", np.divide(a.numbers, b.numbers))  # type: ignore[arg-type]
        for a, b in combinations(positive, 2)
    ]
    best = [group[0] for group in profiles(ratios, U)]
    return [
        [ratio, *group] if ratio.separation > max(VISIBLE, 2 * group[0].separation) else group
        for ratio, group in zip(best, found, strict=True)
    ]


def typical(U: np.ndarray, cluster: int) -> list[int]:
    """Up to three objects of a cluster, those with the largest memberships."""
    order = np.argsort(-U[:, cluster], kind="stable")[:3]
    return [int(row) for row in order if U[row].argmax() == cluster]


def borderline(U: np.ndarray) -> list[int]:
    """Up to twelve objects that are closest to a tie between two clusters."""
    if U.shape[1] < 2:
        return []
    margins = margin(U)
    order = np.argsort(margins, kind="stable")[:12]
    return [int(row) for row in order if margins[row] < 0.95]


def _rows(places: Sequence[int], columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {"object": row, "cells": [shown_value(column, row) for column in columns]} for row in places
    ]


def _telling_plane(
    columns: Sequence[Column], U: np.ndarray, shown: np.ndarray
) -> dict[str, Any] | None:
    """The two numeric columns that separate the clusters best (smallest Wilks' lambda)."""
    numbers = [column for column in columns if column.codes is None and not binary(column)]
    if len(numbers) < 2 or U.shape[1] < 2:
        return None
    values = np.column_stack([np.asarray(column.numbers)[shown] for column in numbers])
    standard = _standardised(values)
    pairs = combinations(range(len(numbers)), 2)
    pair = min(pairs, key=lambda pair: _wilks(standard[:, pair], U[shown]))
    return {
        "names": [numbers[place].name for place in pair],
        "points": [
            [float(f"{value:.6g}") if np.isfinite(value) else None for value in point]
            for point in values[:, pair]
        ],
    }


def _standardised(X: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1; missing values are replaced by the mean."""
    seen = np.isfinite(X)
    X = np.where(seen, X, 0.0)
    largest = np.abs(X).max(axis=0, initial=0.0)
    X = X / np.where(largest > 0, largest, 1.0)  # so that no square overflows
    X = np.where(seen, X - X.sum(axis=0) / np.maximum(seen.sum(axis=0), 1), 0.0)
    spread = X.std(axis=0)
    return X / np.where(spread > 0, spread, 1.0)


def _wilks(X: np.ndarray, U: np.ndarray) -> float:
    """Share of the generalised variance within clusters, by memberships (Wilks' lambda)."""
    mass = U.sum(axis=0)
    means = U.T @ X / np.maximum(mass, 1e-12)[:, None]
    total = X.T @ X
    if not total.any():  # every value is its column's mean, as in a single row
        return 1.0
    within = total - (means.T * mass) @ means
    least = 1e-9 * np.trace(total) * np.eye(2)  # so that no two collinear columns are chosen
    return float(np.linalg.det(within + least) / max(np.linalg.det(total), np.linalg.det(least)))


class Plane(NamedTuple):
    """Coordinates of objects in the plane, and the names of the two axes."""

    shown: np.ndarray
    coordinates: np.ndarray
    names: list[str]


def plane(
    X: Any, *, columns: Sequence[Any] | None = None, limit: int = 3000, random_state: int = 0
) -> Plane:
    """Two coordinates for a sample of the objects, and the names of the axes."""
    n = X.shape[0]
    shown = np.arange(n)
    if n > limit:
        shown = np.sort(np.random.default_rng(random_state).choice(n, size=limit, replace=False))
    rows = X[shown]
    if sp.issparse(rows):
        rows = rows.astype(np.float64)
        total = float(rows.multiply(rows).sum())
    else:
        rows = np.asarray(rows, dtype=np.float64)
        if rows.shape[1] <= 2:
            names = [plain(name, 40) for name in columns or ["column 0", "column 1"]] + [""]
            seen = ~np.isnan(rows)
            means = np.where(seen, rows, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
            empty = np.zeros((len(rows), 2 - rows.shape[1]))
            return Plane(shown, np.column_stack([np.where(seen, rows, means), empty]), names[:2])
        rows = _standardised(rows)
        total = float((rows**2).sum())
    found = _components(rows)
    shares = (found**2).sum(axis=0) / max(total, 1e-300)
    axes = zip(("first", "second"), shares, strict=True)
    names = [f"{name} principal axis ({share:.0%} of the variance)" for name, share in axes]
    return Plane(shown, found, names)


def _components(rows: Any) -> np.ndarray:
    """The first two principal components; the second is zero if there is only one."""
    if min(rows.shape) > 50:
        left, sizes, _ = svds(rows, k=2, v0=np.ones(min(rows.shape)))
        left, sizes = left[:, ::-1], sizes[::-1]
    else:
        rows = rows.toarray() if sp.issparse(rows) else rows
        left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    found = (left * sizes)[:, :2]
    found = np.column_stack([found, np.zeros((len(found), 2 - found.shape[1]))])
    # Fixed signs, whatever the solver: the largest entry of a component is positive.
    return found * np.where(found[np.abs(found).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)


def rules(columns: Sequence[Column], labels: np.ndarray) -> dict[str, Any] | None:
    """Rules from a tree of depth at most 3, and the share of labels that they reproduce.

    None if the tree is wrong about more than one object in five, since such rules mislead.
    """
    from sklearn.tree import DecisionTreeClassifier

    if not columns or len(np.unique(labels)) < 2:
        return None
    rows = slice(None, None, max(1, -(-len(labels) // 5000)))
    X = encode([column._replace(used=True) for column in columns])[rows]
    # scikit-learn's tree works in single precision and sums values.
    X, y = np.clip(np.where(np.isinf(X), np.nan, X), -1e30, 1e30), labels[rows]
    smallest = max(1, len(y) // 100)  # a leaf of few objects explains nothing
    accuracy = 0.0
    for depth in (1, 2, 3):  # until accuracy no longer improves
        tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=smallest, random_state=0)
        right = float((tree.fit(X, y).predict(X) == y).mean())
        if right >= accuracy + 0.01:
            model, accuracy = tree, right
    if accuracy < 0.8:
        return None
    groups, tree = encoded_names(columns), model.tree_
    named = [(name, len(group) > 1) for group in groups for name in group]

    def leaves(node: int, path: dict[int, list[float]]) -> list[dict[str, Any]]:
        """Leaves below a node, each with the column ranges that lead to it."""
        if tree.children_left[node] < 0:
            shares = tree.value[node][0] / tree.value[node][0].sum()
            best = int(shares.argmax())
            leaf = {
                "conditions": [_condition(*named[j], *ends) for j, ends in path.items()],
                "cluster": int(model.classes_[best]),
                "objects": int(tree.n_node_samples[node]),
                "share": float(shares[best]),
            }
            return [leaf]
        column, threshold = int(tree.feature[node]), float(tree.threshold[node])
        low, high = path.get(column, [-np.inf, np.inf])
        left = path | {column: [low, min(high, threshold)]}
        right = path | {column: [max(low, threshold), high]}
        return leaves(tree.children_left[node], left) + leaves(tree.children_right[node], right)

    owner = [column.name for column, group in zip(columns, groups, strict=True) for _ in group]
    used = sorted({owner[j] for j in tree.feature if j >= 0})
    return {"accuracy": accuracy, "objects": len(y), "columns": used, "rules": leaves(0, {})}


def _condition(name: str, hot: bool, low: float, high: float) -> str:
    if hot:
        column, _, level = name.rpartition("=")
        return f"{title(column)} is {'' if low > 0 else 'not '}{level}"
    name = title(name)
    if np.isinf(low):
        return f"{name} at most {amount(high)}"
    if np.isinf(high):
        return f"{name} above {amount(low)}"
    return f"{name} between {amount(low)} and {amount(high)}"


def levels_of(
    model: Any, U: np.ndarray, noise: bool, merges: Any = None, most: int = 30
) -> tuple[np.ndarray, list[Level]]:
    """Memberships (n, F) at the finest level shown, and the levels from coarse to fine.

    The levels of a fitted model are used; for memberships alone, the given ``merges`` of their
    clusters, or those by their overlap.
    """
    if hasattr(type(model), "levels_"):
        found = list(model.levels_)
    else:
        given = merged(U.T @ U, noise=noise) if merges is None else merges
        maps = [np.asarray(place) for place in given]
        found = [Level(int(m.max()) + 1, np.nan, False, tuple(m.tolist())) for m in reversed(maps)]
    k = U.shape[1]
    found = [
        level for level in found if level.n_clusters == k or 1 + noise < level.n_clusters <= most
    ]
    base = np.array(found[-1].parents)
    finest = U if found[-1].n_clusters == k else to_numpy(model.at(found[-1].n_clusters))
    kept = []
    for level in found:
        parents = np.empty(finest.shape[1], dtype=int)
        parents[base] = level.parents
        kept.append(level._replace(parents=tuple(parents.tolist())))
    return finest, kept


def level_names(level: Level, own: Level, labels: Sequence[str]) -> list[str]:
    """Names of clusters at a level: "cluster 0 + 2" joins two of the answer, "cluster 1a" is a
    part.
    """
    owner, place = np.array(own.parents), np.array(level.parents)
    names = []
    for cluster in range(level.n_clusters):
        parts = np.unique(owner[place == cluster])
        first, *others = (labels[part] for part in parts)
        siblings = np.unique(place[owner == parts[0]])
        if len(parts) == 1 and len(siblings) > 1:
            first += chr(ord("a") + int(np.searchsorted(siblings, cluster)))
        names.append(" + ".join([first, *(name.removeprefix("cluster ") for name in others)]))
    return names
