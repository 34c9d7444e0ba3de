"""What the structure test reads of a table with columns of several kinds: its numbers.

Numbers have a density with valleys; a category always has gaps, so valleys prove nothing there.
Where the categories alone tell the clusters apart, the numbers need not, and the test does not
apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .columns import Column

__all__ = ["numbers", "separated_by_categories"]

HALF = 0.5  # share of the errors that categories must save to separate the clusters alone; a guess


def numbers(codes: np.ndarray, columns: Sequence[Column]) -> np.ndarray | None:
    """The columns of numbers, on scales on which clusters are about round; None without any."""
    scales: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "normal": np.asarray,
        "log-normal": np.log,
        "counts": np.sqrt,
    }
    found = [
        scales[column.kind](codes[:, j])
        for j, column in enumerate(columns)
        if column.kind in scales
    ]
    return np.column_stack(found) if found else None


def separated_by_categories(
    codes: np.ndarray, columns: Sequence[Column], labels: np.ndarray
) -> bool:
    """Whether a naive Bayes rule from the categories alone finds most of the labels again.

    Most: half of the errors of always naming the largest cluster (Goodman and Kruskal's lambda).
    """
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    scores = np.log(np.maximum(sizes, 1e-9))[None].repeat(len(labels), axis=0)
    for j, column in enumerate(columns):
        if column.kind not in ("categorical", "binary"):
            continue
        seen = np.flatnonzero(np.isfinite(codes[:, j]))
        levels = codes[seen, j].astype(int)
        table = np.ones((levels.max(initial=0) + 1, k))
        np.add.at(table, (levels, labels[seen]), 1.0)
        scores[seen] += np.log(table / table.sum(axis=0))[levels]
    errors, without = np.mean(scores.argmax(axis=1) != labels), 1.0 - sizes.max() / sizes.sum()
    return bool(without > 0 and errors <= HALF * without)
