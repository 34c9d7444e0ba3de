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
from .options import Request
from .scaling import TUNING, rescale, restored, scaled
from .terminal import Terminal


def on_one_scale(table: Table, request: Request, estimator: Estimator, terminal: Terminal) -> Table:
    """The table with missing cells filled in and columns scaled where the model needs it."""
    original, table = table, _as_they_are(table, request.model)
    if request.model == "mixed-mixture" and table.fields is not None and estimator.columns is None:
        kinds = {place: _distribution(column) for place, column in enumerate(table.used)}
        estimator.set_params(columns=kinds)
    scaling, said = rescale(table, request.scale, request.model, estimator, request.is_matrix)
    notes = [*_labelings(table), *set_aside(table), *advice(original), *said]
    without = 0 if table.classes is None else int((~with_class(table.classes)).sum())
    if without and not estimator.needs_classes:
        have = "object has" if without == 1 else "objects have"
        notes.append(f"{without:,} {have} no class and are left out of the comparison")
    for note in notes:
        terminal.remark(note)
    if any(column.name == table.id_column for column in table.fields or []):
        notes.insert(0, f"ids are taken from column '{table.id_column}'")
    values, kept = scaled(table.values, scaling), scaling.kept()
    return table._replace(values=values, original=table.values, scaling=kept, notes=tuple(notes))


def _as_they_are(table: Table, model: str) -> Table:
    """The table with codes for categories, for the model that takes them; else unchanged."""
    if model != "mixed-mixture" or table.fields is None:
        return table
    values = encode_columns(table.used, one_hot=False)
    return table._replace(values=values, columns=[column.name for column in table.used])


def _distribution(column: Column) -> str:
    """The distribution that a column is given within clusters."""
    if column.kind in ("category", "yes/no"):
        return "categorical" if column.kind == "category" else "binary"
    values = _present(column)
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
    titles = ("numbers", "yes and no are read as 1 and 0", "categories", "set aside")
    said: dict[str, list[str]] = {title: [] for title in titles}
    for c in fields:
        place = 3 if not c.used else 2 if c.categories else 1 if c.kind == "yes/no" else 0
        note = f" ({c.note})" if c.note and place != 1 else ""
        said[titles[place]].append(f"'{plain(c.name, 30)}'{note}")
    return [f"{what}: {_some(names)}" for what, names in said.items() if names]


def with_class(classes: Sequence[str]) -> np.ndarray:
    """Which objects (n,) have a known class: an empty cell, NA and the like are none."""
    return np.array([str(name).strip().lower() not in NO_WORD for name in classes], dtype=bool)


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
    """How to read new objects for a fitted model, from what its summary keeps of the input."""
    used = [how for how in held.get("fields") or [] if how["used"]]
    if not used:
        return Roles(id=id_column, labels=held["labels"] is not None, keep=tuple(held["columns"]))
    keep, usual = tuple(how["name"] for how in used), held.get("id_column")
    return Roles(id=id_column, keep=keep, mixed=True, reading=tuple(used), usual_id=usual)


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
    estimator: Estimator, table: Table, model: str, labels: bool
) -> tuple[Any, dict[str, Any]]:
    """What ``fit`` takes: the evidence, and classes and weights where the model wants them."""
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
        gone = np.flatnonzero(~with_class(table.classes))
        if len(gone):
            have, which = ("object has", "it") if len(gone) == 1 else ("objects have", "them")
            raise InputError(
                f"{table.source}: {len(gone):,} {have} no class, the first is "
                f"{_whose(table, gone[0])}, and the {model} model needs one for every object: fill "
                f"in the class or leave {which} out of the file"
            )
        extra["y"] = encode(table.classes)
    values = table.values
    if labels:
        estimator.set_params(ensemble="precomputed")
    takes_missing = estimator.__sklearn_tags__().input_tags.allow_nan
    if not sp.issparse(values) and values.dtype.kind == "f" and not takes_missing:
        _refuse_missing(table)
    return values, extra


def _whose(table: Table, row: int) -> str:
    return f"object '{table.ids[row]}'" if table.ids is not None else f"row {row + 1}"


def _refuse_missing(table: Table) -> None:
    for start in range(0, len(table.values), 100_000):
        gaps = np.argwhere(np.isnan(table.values[start : start + 100_000]))
        if len(gaps):
            row, column = gaps[0].tolist()
            raise InputError(
                f"{table.source}: {_whose(table, start + row)} has no value in column "
                f"'{table.columns[column]}': fill it in, leave the column out with --drop, or use "
                "gaussian-mixture or mixed-mixture, which take missing values"
            )


def advice(table: Table) -> list[str]:
    """What may be wrong with the table, a sentence for each cause."""
    missing: dict[float, list[str]] = {}
    coded, unique = [], []
    classes = _class_columns(table)
    for column in table.used:
        if column.kind != "number" or column.codes is not None:
            continue
        values = _present(column)
        distinct = np.unique(values)
        whole = np.array_equal(distinct, np.round(distinct))
        for value in _written_for_missing(values, distinct):
            missing.setdefault(value, []).append(column.name)
        few = 2 <= len(distinct) <= TUNING.codes and distinct.tolist() != [0.0, 1.0]
        if whole and few and column.name not in classes:
            coded.append(column.name)
        # without repeats, and too large to be ranks
        repeated = len(distinct) < len(values) or len(values) <= READING.categories
        if whole and not repeated and np.abs(values).min() >= 1000:
            unique.append(column.name)
    rows = table.values.shape[0]
    found = [
        *(
            (f"{value:g} looks like a missing value in {{}}: leave such cells empty", names)
            for value, names in missing.items()
        ),
        (
            "{} {are} empty in most rows: --drop leaves a column out",
            [column.name for column in table.used if column.missing > rows / 2],
        ),
        ("{} hold{s} few whole numbers: if these are codes, write them as words", coded),
        ("{} {are} different in every row, as ids are: --drop leaves a column out", unique),
    ]
    said = [
        text.format(quoted(names, 4), s="s" * (len(names) == 1), are="are" if names[1:] else "is")
        for text, names in found
        if names
    ]
    for name in classes:
        option = shlex.quote(plain(name, 200))
        said.append(
            f"{quoted([name], 4)} looks like known classes: --class-column {option} only compares "
            f"the clusters with it, and --drop {option} leaves it out"
        )
    return said + _repeated(table)


def _present(column: Column) -> np.ndarray:
    values = np.asarray(column.numbers, dtype=np.float64)
    return values[np.isfinite(values)]


def _written_for_missing(values: np.ndarray, distinct: np.ndarray) -> list[float]:
    """Values that may be written where there is none: some of 0 and less below much larger ones,
    and nines, such as -9 and 999, far from all others."""
    low, others = distinct[distinct <= 0], values[values > 0]
    if 0 < len(low) <= TUNING.marks and np.array_equal(low, np.round(low)):
        several = len(distinct) > 2 * TUNING.codes + 1
        if several and others.min(initial=np.inf) > 0.2 * np.median(others):
            return low.tolist()
    found = []
    for value in (distinct[:1].item(), distinct[-1:].item()) if len(distinct) > 1 else ():
        others = values[values != value]
        far = value - others.max() >= np.ptp(others) if value > 0 else others.min() >= 0
        found += [value] * bool(far and re.fullmatch("-?9+", f"{value:g}"))
    return found


def _class_columns(table: Table) -> list[str]:
    """The column whose name says that it holds known classes; else the only category."""
    if table.classes is not None:
        return []
    few = [
        c for c in table.used if len(c.categories or np.unique(_present(c))) <= READING.categories
    ]
    known = re.compile(
        r"(?i)(.*[\s_.-])?(class|classes|label|labels|target|species|diagnosis|outcome|y|cluster"
        r"|group|type|kind|category|segment)"
    )
    named = [c.name for c in few if known.fullmatch(c.name.strip())]
    categories = [c.name for c in few if c.kind == "category"]
    return named[:1] or categories * (len(categories) == 1)


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

    k = len(np.unique(labels))
    if k < 2 or not 2 < len(table.used) <= TUNING.columns:
        return []
    few = np.random.default_rng(0).permutation(len(labels))[: TUNING.rows]
    y = labels[few]
    shares = {}
    for column in table.used:
        held: Any = column.numbers if column.codes is None else column.codes
        x = np.nan_to_num(np.asarray(held, dtype=np.float64)[few, None], nan=-1.0)
        tree = DecisionTreeClassifier(max_leaf_nodes=max(k, len(column.categories)), random_state=0)
        shares[column.name] = float(tree.fit(x, y).score(x, y))
    best = max(shares, key=shares.__getitem__)
    if shares[best] < max(TUNING.alone, np.bincount(y).max() / len(y) + 0.01):
        return []
    return [
        f"column '{plain(best, 30)}' alone tells the cluster of {shares[best]:.0%} of the objects: "
        f"--drop {shlex.quote(plain(best, 200))} shows what the others say"
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
