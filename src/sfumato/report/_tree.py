"""A short decision tree that says in the terms of the columns who belongs to which cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..io.columns import Column, encode, encoded_names
from ._columns import amount, title

__all__ = ["rules"]

_DEPTH, _OBJECTS = 3, 20_000
LARGEST = 1e30  # a tree works in single precision, and sums


def rules(columns: Sequence[Column], labels: np.ndarray) -> dict[str, Any] | None:
    """Rules of a decision tree of depth 3, and the share of the labels that it reproduces.

    Parameters
    ----------
    columns : columns of the table
    labels : array of shape (n,)

    Returns
    -------
    found : dict with ``accuracy``, ``objects`` and ``rules``; None where there is one label
    """
    from sklearn.tree import DecisionTreeClassifier

    if not columns or len(np.unique(labels)) < 2:
        return None
    rows = slice(None, None, max(1, -(-len(labels) // _OBJECTS)))
    X = encode([column._replace(used=True) for column in columns])[rows]
    X, y = np.clip(np.where(np.isinf(X), np.nan, X), -LARGEST, LARGEST), labels[rows]
    smallest = max(1, len(y) // 200)  # a leaf of a few objects explains nothing
    model = DecisionTreeClassifier(max_depth=_DEPTH, min_samples_leaf=smallest, random_state=0)
    model.fit(X, y)
    names = [name for group in encoded_names(columns) for name in group]
    hot = [len(group) > 1 for group in encoded_names(columns) for _ in group]
    found = _leaves(model.tree_, 0, {}, names, hot, model.classes_)
    return {"accuracy": float((model.predict(X) == y).mean()), "objects": len(y), "rules": found}


def _leaves(
    tree: Any,
    node: int,
    path: dict[int, list[float]],
    names: list[str],
    hot: list[bool],
    kinds: Any,
) -> list[dict[str, Any]]:
    """The leaves below a node, each with the ranges of the columns that lead there."""
    if tree.children_left[node] < 0:
        shares = tree.value[node][0] / tree.value[node][0].sum()
        best = int(shares.argmax())
        conditions = [_condition(names[j], hot[j], *bounds) for j, bounds in path.items()]
        return [
            {
                "conditions": conditions,
                "cluster": int(kinds[best]),
                "objects": int(tree.n_node_samples[node]),
                "share": float(shares[best]),
            }
        ]
    column, threshold = int(tree.feature[node]), float(tree.threshold[node])
    low, high = path.get(column, [-np.inf, np.inf])
    left = path | {column: [low, min(high, threshold)]}
    right = path | {column: [max(low, threshold), high]}
    return _leaves(tree, tree.children_left[node], left, names, hot, kinds) + _leaves(
        tree, tree.children_right[node], right, names, hot, kinds
    )


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
