"""What to know of a table before a model is fitted to it, and of the clusters after that."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array.text import plain
from ..io import Table
from ..io._tables import quoted
from ..io.columns import RULES as COLUMNS
from ..io.columns import Column

__all__ = ["advice", "explained_by_one"]

_CLASSES = re.compile(
    r"(?i)(.*[\s_.-])?(class|classes|label|labels|target|species|diagnosis|outcome|y|cluster|group)"
)


class Rules(NamedTuple):
    """By which advice is given."""

    # Different whole numbers up to which a column may hold codes of categories.
    codes: int = 5
    # Share of the objects whose cluster one column must tell to explain the clusters, ...
    alone: float = 0.95
    # ... and the rows and columns that are looked at for that.
    rows: int = 2000
    columns: int = 60


RULES = Rules()


def advice(table: Table) -> list[str]:
    """What may be wrong with the table, a sentence for each cause."""
    used = [column for column in table.fields or [] if column.used]
    numbers = [column for column in used if column.kind == "number" and column.codes is None]
    found = [
        ("0 looks like a missing value in {}: leave such cells empty", _zeros(numbers)),
        ("{} holds few whole numbers: if they are codes, write them as words", _coded(numbers)),
        ("{} is different in every row, as ids are: --drop leaves it out", _unique(numbers)),
    ]
    said = [text.format(quoted(names, 4)) for text, names in found if names]
    return said + _classes(table, used) + _repeated(table)


def _present(column: Column) -> np.ndarray:
    values = np.asarray(column.numbers, dtype=np.float64)
    return values[np.isfinite(values)]


def _zeros(columns: Sequence[Column]) -> list[str]:
    """Columns of positive values, far from zero, with some exact zeros among them."""
    found = []
    for column in columns:
        values = _present(column)
        others = values[values != 0]
        if len(others) == len(values) or len(np.unique(others)) <= 2 * RULES.codes:
            continue
        if others.min() > 0 and others.min() > 0.2 * np.median(others):
            found.append(column.name)
    return found


def _whole(values: np.ndarray) -> bool:
    return bool(np.array_equal(values, np.round(values)))


def _coded(columns: Sequence[Column]) -> list[str]:
    found = []
    for column in columns:
        values = np.unique(_present(column))
        if 2 <= len(values) <= RULES.codes and _whole(values) and values.tolist() != [0.0, 1.0]:
            found.append(column.name)
    return found


def _unique(columns: Sequence[Column]) -> list[str]:
    """Whole numbers without repeats that are too far apart to be a measurement's ranks."""
    found = []
    for column in columns:
        values = _present(column)
        if len(values) > COLUMNS.categories and _whole(values) and np.abs(values).min() >= 1000:
            found += [column.name] * (len(np.unique(values)) == len(values))
    return found


def _classes(table: Table, used: Sequence[Column]) -> list[str]:
    """The column that looks like known classes: by its name, else a category."""
    few = [c for c in used if _levels(c) <= COLUMNS.categories]
    named = [c.name for c in few if _CLASSES.fullmatch(c.name.strip())]
    names = named + [c.name for c in few if c.kind == "category"]
    if not names or table.classes is not None:
        return []
    first = shlex.quote(plain(names[0], 30))
    what = "looks like known classes" if named else "is clustered like a number"
    return [
        f"'{plain(names[0], 30)}' {what}: --class-column {first} only compares the clusters with "
        f"it, and --drop {first} leaves it out"
    ]


def _levels(column: Column) -> int:
    return len(column.categories) if column.codes is not None else len(np.unique(_present(column)))


def _repeated(table: Table) -> list[str]:
    values = table.values
    if not isinstance(values, np.ndarray) or isinstance(values, np.memmap) or table.label_names:
        return []
    count = len(values) - len(np.unique(values, axis=0)) if values.size <= 5_000_000 else 0
    are = "row repeats another" if count == 1 else "rows repeat others"
    return [f"{count:,} {are}: leave them out if the same object was entered twice"] * bool(count)


def explained_by_one(table: Table, labels: np.ndarray) -> list[str]:
    """A sentence where one of several columns alone tells nearly every object's cluster."""
    from sklearn.tree import DecisionTreeClassifier

    used = [column for column in table.fields or [] if column.used]
    k = len(np.unique(labels))
    if k < 2 or not 2 < len(used) <= RULES.columns:
        return []
    few = np.random.default_rng(0).permutation(len(labels))[: RULES.rows]
    y = labels[few]
    best: tuple[float, Any] = (0.0, None)
    for column in used:
        held: Any = column.numbers if column.codes is None else column.codes
        x = np.nan_to_num(np.asarray(held, dtype=np.float64)[few, None], nan=-1.0)
        leaves = k if column.codes is None else max(k, len(column.categories))
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(x, y)
        best = max(best, (float(tree.score(x, y)), column.name), key=lambda pair: pair[0])
    if best[0] < max(RULES.alone, np.bincount(y).max() / len(y) + 0.01):
        return []
    name = plain(best[1], 30)
    return [
        f"column '{name}' alone tells the cluster of {best[0]:.0%} of the objects: --drop "
        f"{shlex.quote(name)} shows what the others say"
    ]
