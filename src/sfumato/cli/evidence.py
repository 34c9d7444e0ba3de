"""From a table to what a model's ``fit`` takes, and what to know of the table before and after."""

from __future__ import annotations

import inspect
import re
import shlex
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.labels import encode
from ..array.text import plain
from ..array.types import Estimator
from ..io import InputError, Roles, Table
from ..io.columns import TUNING as READING
from ..io.columns import Column
from ..io.columns import encode as encode_columns
from ..io.reading import quoted
from ..io.written import NO_WORD
from .models import Request
from .scaling import TUNING, rescale, restored, scaled
from .terminal import Terminal

_CLASSES = re.compile(
    r"(?i)(.*[\s_.-])?(class|classes|label|labels|target|species|diagnosis|outcome|y|cluster|group)"
)


def on_one_scale(table: Table, request: Request, estimator: Estimator, terminal: Terminal) -> Table:
    """The table ready for a model.

    Missing cells filled in and columns scaled where that is needed, and said.
    """
    original, table = table, _as_they_are(table, request.model)
    if request.model == "mixed-mixture" and table.fields is not None and estimator.columns is None:
        used = [column for column in table.fields if column.used]
        estimator.set_params(columns={i: _distribution(column) for i, column in enumerate(used)})
    scaling, said = rescale(table, request.scale, request.model, estimator, request.similarity)
    notes = [*_labelings(table), *set_aside(table), *advice(original), *said]
    if not estimator.needs_classes:
        notes += _unclassed(table)
    for note in notes:
        terminal.remark(note)
    if any(column.name == table.id_column for column in table.fields or []):
        notes.insert(0, f"ids are taken from column '{table.id_column}'")
    return table._replace(
        values=scaled(table.values, scaling),
        original=table.values,
        scaling=scaling.kept(),
        notes=tuple(notes),
    )


def _as_they_are(table: Table, model: str) -> Table:
    """The table with codes for categories, for the model that takes them; else unchanged."""
    if model != "mixed-mixture" or table.fields is None:
        return table
    used = [column for column in table.fields if column.used]
    return table._replace(
        values=encode_columns(used, one_hot=False), columns=[column.name for column in used]
    )


def _distribution(column: Any) -> str:
    """The distribution that a column is given within clusters."""
    if column.kind in ("category", "yes/no"):
        return "categorical" if column.kind == "category" else "binary"
    values = column.numbers[~np.isnan(column.numbers)]
    if len(np.unique(values)) <= TUNING.answers and np.array_equal(values, np.round(values)):
        return "categorical"
    centred = values - values.mean()
    skewed = (centred**3).mean() > TUNING.skewed * (centred**2).mean() ** 1.5
    return "log-normal" if skewed and values.min() > 0 else "normal"


def set_aside(table: Table) -> list[str]:
    """Sentences on the columns: which are clustered, as what, and which are not."""
    fields = [column for column in table.fields or [] if column.name != table.id_column]
    if all(column.used and column.kind == "number" and not column.note for column in fields):
        return []  # nothing is to be said of a table of plain numbers
    said: dict[str, list[str]] = {
        "numbers": [],
        "yes and no are read as 1 and 0": [],
        "categories": [],
        "set aside": [],
    }
    for c in fields:
        place = 3 if not c.used else 2 if c.categories else 1 if c.kind == "yes/no" else 0
        note = f" ({c.note})" if c.note and place != 1 else ""
        said[list(said)[place]].append(f"'{plain(c.name, 30)}'{note}")
    return [f"{what}: {_some(names)}" for what, names in said.items() if names]


def with_class(classes: Sequence[str]) -> np.ndarray:
    """Which objects (n,) have a known class: an empty cell, NA and the like are none."""
    return np.array([str(name).strip().lower() not in NO_WORD for name in classes], dtype=bool)


def _unclassed(table: Table) -> list[str]:
    """Of objects without a class, where the clusters are compared with classes."""
    without = 0 if table.classes is None else int((~with_class(table.classes)).sum())
    have = "object has" if without == 1 else "objects have"
    return [f"{without:,} {have} no class and are left out of the comparison"] * bool(without)


def _labelings(table: Table) -> list[str]:
    """What the columns are, where each is a clustering."""
    if table.label_names is None:
        return []
    unseen = (np.asarray(table.values) < 0).sum(axis=0)
    said = [
        f"'{plain(name, 30)}' ({len(labels)} label{'s' * (len(labels) != 1)}"
        + (f", {gone:,} objects without one)" if gone else ")")
        for name, labels, gone in zip(table.columns, table.label_names, unseen, strict=True)
    ]
    return [f"labelings: {_some(said)}"]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more


def roles_of_fitted(held: dict[str, Any], id_column: str | None) -> Roles:
    """How to read new objects for a fitted model.

    ``held`` is what its summary keeps of the input.
    """
    used = [how for how in held.get("fields") or [] if how["used"]]
    if not used:
        return Roles(id=id_column, labels=held["labels"] is not None, keep=tuple(held["columns"]))
    return Roles(
        id=id_column,
        keep=tuple(how["name"] for how in used),
        mixed=True,
        reading=tuple(used),
        usual_id=held.get("id_column"),
    )


def as_fitted(table: Table, held: dict[str, Any], model: str, terminal: Terminal) -> Any:
    """The values of new objects on the scale of the fitted ones."""
    causes: dict[str, list[str]] = {}
    for column in table.fields or []:
        if column.note:
            causes.setdefault(column.note, []).append(f"'{plain(column.name, 40)}'")
    for note, names in causes.items():
        terminal.remark(f"warning: column{'s' * (len(names) > 1)} {_some(names)}: {note}")
    table = _as_they_are(table, model)
    scaling = restored(held, table.values.shape[1])
    return table.values if scaling is None else scaled(table.values, scaling)


def prepare(
    estimator: Estimator, table: Table, model: str, roles: Roles
) -> tuple[Any, dict[str, Any]]:
    """What ``fit`` takes: features, a similarity or labelings, with classes and weights where the
    model wants them.
    """
    accepted = inspect.signature(estimator.fit).parameters
    extra: dict[str, Any] = {}
    if table.weights is not None:
        if "sample_weight" not in accepted:
            raise InputError(f"--weight-column does not apply to {model}, which takes no weights")
        extra["sample_weight"] = table.weights
    if estimator.needs_classes:
        if table.classes is None:
            raise InputError(
                f"the {model} model needs known classes: name their column with --class-column"
            )
        _refuse_unclassed(table, model)
        extra["y"] = encode(table.classes)
    values = table.values
    if roles.labels:
        estimator.set_params(ensemble="precomputed")
    takes_missing = estimator.__sklearn_tags__().input_tags.allow_nan
    if not sp.issparse(values) and values.dtype.kind == "f" and not takes_missing:
        _refuse_missing(table)
    return values, extra


def _refuse_unclassed(table: Table, model: str) -> None:
    gone = np.flatnonzero(~with_class(table.classes or ()))
    if len(gone):
        have, which = ("object has", "it") if len(gone) == 1 else ("objects have", "them")
        raise InputError(
            f"{table.source}: {len(gone):,} {have} no class, the first is "
            f"{_whose(table, gone[0])}, and the {model} model needs one for every object: fill in "
            f"the class or leave {which} out of the file"
        )


def _whose(table: Table, row: int) -> str:
    return f"object '{table.ids[row]}'" if table.ids is not None else f"row {row + 1}"


def _refuse_missing(table: Table) -> None:
    for start in range(0, len(table.values), 100_000):
        gaps = np.isnan(table.values[start : start + 100_000])
        if gaps.any():
            row, column = (int(place) for place in np.argwhere(gaps)[0])
            row += start
            fix = (
                "fill it in, leave the column out with --drop, or use gaussian-mixture or "
                "mixed-mixture, which take missing values"
            )
            raise InputError(
                f"{table.source}: {_whose(table, row)} has no value in column "
                f"'{table.columns[column]}': {fix}"
            )


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
        if len(others) == len(values) or len(np.unique(others)) <= 2 * TUNING.codes:
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
        if 2 <= len(values) <= TUNING.codes and _whole(values) and values.tolist() != [0.0, 1.0]:
            found.append(column.name)
    return found


def _unique(columns: Sequence[Column]) -> list[str]:
    """Whole numbers without repeats that are too far apart to be a measurement's ranks."""
    found = []
    for column in columns:
        values = _present(column)
        if len(values) > READING.categories and _whole(values) and np.abs(values).min() >= 1000:
            found += [column.name] * (len(np.unique(values)) == len(values))
    return found


def _classes(table: Table, used: Sequence[Column]) -> list[str]:
    """The column that looks like known classes: by its name, else a category."""
    few = [c for c in used if _levels(c) <= READING.categories]
    named = [c.name for c in few if _CLASSES.fullmatch(c.name.strip())]
    names = named + [c.name for c in few if c.kind == "category"]
    if not names or table.classes is not None:
        return []
    first = shlex.quote(plain(names[0], 30))
    what = "looks like known classes" if named else "is a category and clustered too"
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
    are = "row repeats another: leave it" if count == 1 else "rows repeat others: leave them"
    return [f"{count:,} {are} out if the same object was entered twice"] * bool(count)


def explained_by_one(table: Table, labels: np.ndarray) -> list[str]:
    """A sentence where one of several columns alone tells nearly every object's cluster."""
    from sklearn.tree import DecisionTreeClassifier

    used = [column for column in table.fields or [] if column.used]
    k = len(np.unique(labels))
    if k < 2 or not 2 < len(used) <= TUNING.columns:
        return []
    few = np.random.default_rng(0).permutation(len(labels))[: TUNING.rows]
    y = labels[few]
    best: tuple[float, Any] = (0.0, None)
    for column in used:
        held: Any = column.numbers if column.codes is None else column.codes
        x = np.nan_to_num(np.asarray(held, dtype=np.float64)[few, None], nan=-1.0)
        leaves = k if column.codes is None else max(k, len(column.categories))
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(x, y)
        best = max(best, (float(tree.score(x, y)), column.name), key=lambda pair: pair[0])
    if best[0] < max(TUNING.alone, np.bincount(y).max() / len(y) + 0.01):
        return []
    name = plain(best[1], 30)
    return [
        f"column '{name}' alone tells the cluster of {best[0]:.0%} of the objects: --drop "
        f"{shlex.quote(name)} shows what the others say"
    ]


def agreement_of_resamples(estimator: Estimator, table: Table, seed: int) -> float | None:
    """Agreement of resamples with the fit; None where they cannot be drawn or fitted."""
    from ..selection import stability

    clusters = estimator.n_clusters_ - (getattr(estimator, "noise", None) is not None)
    # fewer than ten objects per cluster would not show the clusters again
    if estimator.needs_classes or clusters < 2 or table.values.shape[0] < 10 * clusters:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = stability(
                estimator,
                table.loaded,
                n_resamples=4,
                max_objects=1000,
                sample_weight=table.weights,
                random_state=seed,
            )
        except (TypeError, ValueError):
            return None
    return found.agreement if np.isfinite(found.agreement) else None
