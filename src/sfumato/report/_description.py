"""Descriptions of the clusters by the columns: levels, profiles, rules and a plane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from ..array.arrays import to_numpy
from ..array.text import plain
from ..engine.levels import Level, merged, regroup
from ..io.columns import Column, encode, encoded_names
from ..memberships import margin
from ._profiles import (
    amount,
    as_columns,
    binary,
    contrasts,
    profiles,
    sentence,
    shown_value,
    telling,
    title,
    with_ratios,
)


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
            for cluster, group in enumerate(with_ratios(table, U, list(found)))
        ],
        "contrasts": [each._asdict() for each in contrasts(table, U, 24)],
        "borderline": _rows(borderline(U), best),
        "tree": rules(table, own),
    }


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
    for depth in (1, 2, 3):  # no deeper than accuracy improves
        tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=smallest, random_state=0)
        right = float((tree.fit(X, y).predict(X) == y).mean())
        if right >= accuracy + 0.01:
            model, accuracy = tree, right
    if accuracy < 0.8:
        return None
    names = [name for group in encoded_names(columns) for name in group]
    hot = [len(group) > 1 for group in encoded_names(columns) for _ in group]
    found = _leaves(model.tree_, 0, {}, names, hot, model.classes_)
    return {"accuracy": accuracy, "objects": len(y), "rules": found}


def _leaves(
    tree: Any,
    node: int,
    path: dict[int, list[float]],
    names: list[str],
    hot: list[bool],
    kinds: Any,
) -> list[dict[str, Any]]:
    """Leaves below a node, each with the column ranges that lead to it."""
    if tree.children_left[node] < 0:
        shares = tree.value[node][0] / tree.value[node][0].sum()
        best = int(shares.argmax())
        return [
            {
                "conditions": [_condition(names[j], hot[j], *ends) for j, ends in path.items()],
                "cluster": int(kinds[best]),
                "objects": int(tree.n_node_samples[node]),
                "share": float(shares[best]),
            }
        ]
    column, threshold = int(tree.feature[node]), float(tree.threshold[node])
    low, high = path.get(column, [-np.inf, np.inf])
    left = path | {column: [low, min(high, threshold)]}
    right = path | {column: [max(low, threshold), high]}
    return [
        leaf
        for child, way in ((tree.children_left[node], left), (tree.children_right[node], right))
        for leaf in _leaves(tree, child, way, names, hot, kinds)
    ]


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
