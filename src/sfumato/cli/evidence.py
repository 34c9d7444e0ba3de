"""From a table to the arguments of ``fit``: columns on one scale, missing values filled in, with
remarks about the table.
"""

from __future__ import annotations

import inspect
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.labels import encode
from ..array.text import plain
from ..array.types import Array, Estimator
from ..io import InputError, Roles, Table
from ..io.columns import NO_WORD, Column, encoded_names
from ..io.columns import TUNING as READING
from ..io.columns import encode as encode_columns
from ..io.reading import quoted
from ..numerics.missing import Background, one_gaussian
from .app import Request
from .main import Terminal


class Tuning(NamedTuple):
    """Thresholds for scaling and filling columns, for their distributions and for remarks."""

    # If standard deviations differ by more than this factor, columns are assumed to have different
    # units, and the widest would dominate distances: ten in deviation is a hundred in variance.
    fold: float = 10.0
    # Largest number of columns for fitting one Gaussian to all of them, to fill missing values;
    # that then takes about a second.
    columns: int = 50
    rows: int = 5000
    # Number of rows per column that the Gaussian needs.
    objects: int = 5
    # Skewness above which a positive column is log-normal: that of an exponential distribution.
    skewed: float = 2.0
    # Number of distinct whole numbers up to which a column counts as answers on a scale, which a
    # normal distribution would fit with spikes. Ten-point scales are the longest in common use.
    answers: int = 10
    # Number of distinct whole numbers up to which a column may hold codes of categories.
    codes: int = 5
    # Largest number of distinct values, zero or negative, that may be codes of missing values.
    marks: int = 3
    # A column explains the clusters if it determines the cluster of at least this share of objects.
    alone: float = 0.95


TUNING = Tuning()
_SCALES = ("auto", "standard", "robust", "none")
_COMPONENT = re.compile(
    r"(?i)(pc|pca|x_pca|umap|tsne|dim|dimension|component|embedding|e|d)?[_ -]?\d+"
)


def on_one_scale(table: Table, request: Request, estimator: Estimator, terminal: Terminal) -> Table:
    """The table with missing values filled in and columns scaled, if the model needs it."""
    original, table = table, _as_they_are(table, request.model)
    if request.model == "mixed-mixture" and table.fields is not None and estimator.columns is None:
        kinds = {place: _distribution(column) for place, column in enumerate(table.used)}
        estimator.set_params(columns=kinds)
    scaling, said = rescale(table, request.scale, request.model, estimator, request.is_matrix)
    said = [*_labelings(table), *set_aside(table), *advice(original), *said]
    without = 0 if table.classes is None else int((~with_class(table.classes)).sum())
    if without and not estimator.needs_classes:
        have = "object has" if without == 1 else "objects have"
        said.append(f"{without:,} {have} no class and are left out of the comparison")
    for note in said:
        terminal.remark(note)
    notes = [*table.notes, *said]
    if any(column.name == table.id_column for column in table.fields or []):
        notes.insert(0, f"ids are taken from column '{table.id_column}'")
    # plain arrays, saved with the model
    estimator._scaling = scaling._replace(joint=scaling.joint and scaling.joint._asdict())._asdict()
    values = scaled(table.values, scaling)
    return table._replace(values=values, original=table.values, notes=tuple(notes))


def _as_they_are(table: Table, model: str) -> Table:
    """The table with categories as codes, for models that take them; otherwise unchanged."""
    if model != "mixed-mixture" or table.fields is None:
        return table
    values = encode_columns(table.used, one_hot=False)
    return table._replace(values=values, columns=[column.name for column in table.used])


def _distribution(column: Column) -> str:
    """Distribution used for a column within clusters."""
    if column.kind in ("category", "yes/no"):
        return "categorical" if column.kind == "category" else "binary"
    values = _present(column)
    if len(np.unique(values)) <= TUNING.answers and np.array_equal(values, np.round(values)):
        return "categorical"
    centred = values - values.mean()
    skewed = (centred**3).mean() > TUNING.skewed * (centred**2).mean() ** 1.5
    return "log-normal" if skewed and values.min() > 0 else "normal"


def set_aside(table: Table) -> list[str]:
    """Sentences about the columns: which are clustered, in which form, and which are left out."""
    fields = [column for column in table.fields or [] if column.name != table.id_column]
    if all(column.used and column.kind == "number" and not column.note for column in fields):
        return []  # a table of plain numbers needs no remark
    titles = ("numbers", "yes and no are read as 1 and 0", "categories", "set aside")
    said: dict[str, list[str]] = {title: [] for title in titles}
    for c in fields:
        place = 3 if not c.used else 2 if c.categories else 1 if c.kind == "yes/no" else 0
        note = f" ({c.note})" if c.note and place != 1 else ""
        said[titles[place]].append(f"'{plain(c.name, 30)}'{note}")
    return [f"{what}: {_some(names)}" for what, names in said.items() if names]


def with_class(classes: Sequence[str]) -> np.ndarray:
    """Mask (n,) of the objects with a known class; an empty cell, NA etc. mean unknown."""
    return np.array([str(name).strip().lower() not in NO_WORD for name in classes], dtype=bool)


def _labelings(table: Table) -> list[str]:
    """A sentence about columns that are labelings; empty for other tables."""
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
    """Roles for reading new objects, from what the summary of a fitted model keeps."""
    used = [how for how in held.get("fields") or [] if how["used"]]
    if not used:
        return Roles(id=id_column, labels=held["labels"] is not None, keep=tuple(held["columns"]))
    keep, missing = tuple(how["name"] for how in used), tuple(held.get("missing") or ())
    roles = Roles(id=id_column, keep=keep, mixed=True, reading=tuple(used), missing=missing)
    return roles._replace(usual_id=held.get("id_column"))


def as_fitted(table: Table, estimator: Estimator, model: str, terminal: Terminal) -> Any:
    """Values of new objects, on the scale of the fitted ones."""
    causes: dict[str, list[str]] = {}
    for column in table.fields or []:
        if column.note:
            causes.setdefault(column.note, []).append(f"'{plain(column.name, 40)}'")
    for note, names in causes.items():
        terminal.remark(f"warning: column{'s' * (len(names) > 1)} {_some(names)}: {note}")
    values = _as_they_are(table, model).values
    if not hasattr(estimator, "_scaling"):  # of sfumato demo
        return values
    scaling = Scaling(**estimator._scaling)
    return scaled(values, scaling._replace(joint=scaling.joint and Joint(**scaling.joint)))


def prepare(
    estimator: Estimator, table: Table, model: str, labels: bool
) -> tuple[Any, dict[str, Any]]:
    """Arguments of ``fit``: the data, and classes and weights if the model takes them."""
    accepted = inspect.signature(estimator.fit).parameters
    extra: dict[str, Any] = {}
    if table.weights is not None:
        if "sample_weight" not in accepted:
            raise InputError(f"--weight-column does not apply to {model}, which takes no weights")
        extra["sample_weight"] = table.weights
    if estimator.needs_classes:
        if table.classes is None:
            raise InputError(f"the {model} model needs known classes, named by --class-column")
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
        for row, column in np.argwhere(np.isnan(table.values[start : start + 100_000])).tolist():
            raise InputError(
                f"{table.source}: {_whose(table, start + row)} has no value in column "
                f"'{table.columns[column]}': fill it in, leave the column out with --drop, or use "
                "gaussian-mixture or mixed-mixture, which take missing values"
            )


def advice(table: Table) -> list[str]:
    """Sentences about possible problems of the table, one per cause."""
    missing: dict[float, list[str]] = {}
    coded, unique, small = [], [], []
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
        small.append(whole and len(distinct) <= READING.categories)
        # no repeated values, and too large for ranks
        repeated = len(distinct) < len(values) or len(values) <= READING.categories
        if whole and not repeated and np.abs(values).min() >= 1000:
            unique.append(column.name)
    rows = table.values.shape[0]
    if sum(small) > 0.75 * len(small) > 1:  # a table of counts, or of answers on a scale
        coded = []
    found = [
        *(
            (
                f"{value:g} looks like a missing value in {{}}: --missing {value:g} reads it so",
                names,
            )
            for value, names in missing.items()
        ),
        (
            "{} {are} empty in most rows: --drop leaves a column out",
            [column.name for column in table.used if column.missing > rows / 2],
        ),
        (
            "{} hold{s} few whole numbers: write codes as words, and name known classes in "
            "--class-column",
            coded,
        ),
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
            f"{quoted([name], 4)} may hold known classes: --class-column {option} only compares "
            f"the clusters with it, and --drop {option} leaves it out"
        )
    return said + _repeated(table)


def _present(column: Column) -> np.ndarray:
    values = np.asarray(column.numbers, dtype=np.float64)
    return values[np.isfinite(values)]


def _written_for_missing(values: np.ndarray, distinct: np.ndarray) -> list[float]:
    """Values that may be codes of missing values: 0 or negative and far below all others, or nines
    (such as -9 and 999) far from all others.
    """
    low, above = distinct[distinct <= 0], distinct[distinct > 0]
    few = 0 < len(low) <= TUNING.marks and len(distinct) > 2 * TUNING.codes + 1
    if few and np.array_equal(low, np.round(low)):
        apart = 2 * np.median(np.diff(above))  # a count of 0 is no farther from 1 than 1 from 2
        if above[0] > max(0.2 * np.median(values[values > 0]), apart):
            return low.tolist()
    found = []
    for value in (distinct[:1].item(), distinct[-1:].item()) if len(distinct) > 1 else ():
        others = values[values != value]
        gap = value - others.max() if value > 0 else others.min() - value
        far = gap >= np.ptp(others) or value < 0 <= others.min()
        found += [value] * bool(far and re.fullmatch("-?9+", f"{value:g}"))
    return found


def _class_columns(table: Table) -> list[str]:
    """The column whose name suggests known classes; otherwise the only category."""
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
    measured = [len(np.unique(_present(column))) for column in table.used if not column.coded]
    if table.fields and 2 * math.prod(measured) < len(values):  # codes repeat by chance
        return []
    if values.size > 5_000_000:
        return []
    alike = np.where(np.isnan(values), np.inf, values)  # NaN differs from itself
    count = len(values) - len(np.unique(alike, axis=0))
    are = "row repeats another: leave it" if count == 1 else "rows repeat others: leave them"
    return [f"{count:,} {are} out if the same object was entered twice"] * bool(count)


def explained_by_one(
    tree: Mapping[str, Any] | None, columns: Sequence[Column], labels: np.ndarray
) -> str:
    """A sentence if one of several columns alone determines the cluster of nearly every object, by
    the rules of the report, and no other column does.
    """
    from ..report._description import rules

    least = max(TUNING.alone, np.bincount(labels).max() / len(labels) + 0.01)

    def alone(found: Mapping[str, Any] | None) -> bool:
        return found is not None and len(found["columns"]) == 1 and found["accuracy"] >= least

    if len(columns) < 3 or tree is None or not alone(tree):
        return ""
    name = tree["columns"][0]
    if alone(rules([column for column in columns if column.name != name], labels)):
        return ""
    return (
        f"Column '{plain(name, 30)}' alone determines the cluster of {tree['accuracy']:.0%} of the "
        f"objects: --drop {shlex.quote(plain(name, 200))} shows what the other columns say"
    )


def agreement_of_resamples(estimator: Estimator, table: Table, seed: int) -> float | None:
    """Agreement of resamples with the fit; None if they cannot be drawn or fitted."""
    from ..selection import stability

    clusters = estimator.n_clusters_ - (getattr(estimator, "noise_cluster", None) is not None)
    # with fewer than ten objects per cluster, resamples would not show the clusters again
    if estimator.needs_classes or clusters < 2 or table.values.shape[0] < 10 * clusters:
        return None
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


class Joint(NamedTuple):
    """A Gaussian fitted to all columns, and the range of each column."""

    mean: np.ndarray
    covariance: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Scaling(NamedTuple):
    """The scaling (X - center) / scale, applied after missing values are filled in."""

    kind: str
    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray | None = None
    joint: Any = None


def rescale(
    table: Table, asked: str, model: str, estimator: Estimator, is_matrix: bool
) -> tuple[Scaling, list[str]]:
    """The scaling of a table, and sentences about it."""
    if asked not in _SCALES:
        raise InputError(f"--scale must be one of {', '.join(_SCALES)}; got '{plain(asked, 30)}'")
    X = table.values
    unscaled = Scaling("none", np.zeros(X.shape[1]), np.ones(X.shape[1]))
    if table.label_names is not None or is_matrix or X.dtype.kind not in "biuf":
        return unscaled, []
    if sp.issparse(X):
        if asked in ("standard", "robust"):
            raise InputError("--scale: sparse features are used as they are; say --scale none")
        return unscaled, []
    groups = _groups(table)
    fill, joint, notes = _fill(table, groups, estimator, model)
    kind, said = (asked, "") if asked != "auto" else _kind(table, max(groups) > 1, estimator)
    if asked in ("standard", "robust"):
        said = f"columns are scaled ({asked}), as asked"
    notes += [said] * bool(said)
    if kind == "none":
        return unscaled._replace(fill=fill, joint=joint), notes
    center, scale = _moments(np.asarray(X, dtype=np.float64), kind, groups)
    return Scaling(kind, center, scale, fill, joint), notes


def _groups(table: Table) -> list[int]:
    """Number of encoded columns for each column of the file."""
    groups = [len(group) for group in encoded_names(table.fields or [])]
    p = table.values.shape[1]  # one each for arrays, and for categories kept as codes
    return groups if sum(groups) == p else [1] * p


def _kind(table: Table, mixed: bool, estimator: Estimator) -> tuple[str, str]:
    """Whether columns are standardised, with a sentence that says so."""
    if estimator.unit_free:
        return "none", ""
    X = table.values
    rows = np.asarray(X[:: max(1, len(X) // 100_000)], dtype=np.float64)
    spread = np.nan_to_num(np.nanstd(np.where(np.isnan(rows).all(axis=0), 0.0, rows), axis=0))
    spread = spread[spread > 0]
    fold = spread.max() / spread.min() if len(spread) else 1.0
    if fold <= TUNING.fold and not mixed:
        return "none", ""
    coordinates = all(_COMPONENT.fullmatch(name) for name in table.columns)
    if table.kind not in ("text", "parquet", "excel") or coordinates:
        return "none", (
            f"the spreads of the columns differ {fold:,.0f}-fold and are left as they are: "
            "say --scale standard if the columns are in different units"
        )
    why = f"their spreads differ {fold:,.0f}-fold" if fold > TUNING.fold else "some are categories"
    counts = ": a category counts as much as one number" if mixed else ""
    return "standard", (
        f"columns are standardised, because {why}{counts}; --scale none leaves them as they are"
    )


def _moments(X: np.ndarray, kind: str, groups: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale; indicators of one category share a scale, so that it counts only once."""
    center, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    if kind == "robust":
        low, center, high = np.nanpercentile(X, [25, 50, 75], axis=0)
        quartiles = (high - low) / 1.349  # 1.349 for a normal distribution
        scale = np.where(quartiles > 0, quartiles, scale)
    ends = np.cumsum(groups)
    for start, end in zip(ends - groups, ends, strict=True):
        if end - start > 1:
            center[start:end] = np.nanmean(X[:, start:end], axis=0)
            scale[start:end] = np.sqrt(np.nanvar(X[:, start:end], axis=0).sum())
    return center, np.where(scale > 0, scale, 1.0)


def _fill(
    table: Table, groups: list[int], estimator: Estimator, model: str
) -> tuple[np.ndarray | None, Joint | None, list[str]]:
    """Values for missing cells if the model does not take them, with a sentence that says so."""
    X = table.values
    if table.fields is None or estimator.__sklearn_tags__().input_tags.allow_nan:
        return None, None, []
    joint = joint_of(np.asarray(X, dtype=np.float64)) if max(groups) == 1 else None
    there = np.where(np.isnan(X).all(axis=0), 0.0, X)
    hot = np.repeat([size > 1 for size in groups], groups)
    fill = np.where(hot, np.nanmean(there, axis=0), np.nanmedian(there, axis=0))
    gaps = [column for column in table.fields if column.used and column.missing]
    if not gaps:
        return fill, joint, []
    shares = " (a category with the shares of its levels)"
    by = "values expected from the other columns"
    if joint is None:
        coded = any(column.codes is not None for column in gaps)
        by = f"the median of their column{shares if coded else ''}"
    named = ", ".join(f"'{plain(column.name, 30)}' ({column.missing:,})" for column in gaps[:5])
    more = f" and {len(gaps) - 5} more" if len(gaps) > 5 else ""
    said = (
        f"missing cells are filled in with {by}, because {model} takes none: {named}{more}; "
        "consensus, gaussian-mixture and mixed-mixture use them as they are"
    )
    return fill, joint, [said]


def joint_of(X: np.ndarray) -> Joint | None:
    """Maximum-likelihood Gaussian given the observed cells; None if there are too few rows."""
    n, p = X.shape
    if not 2 <= p <= TUNING.columns or n < TUNING.objects * p or not np.isnan(X).any():
        return None
    some = X[:: max(1, n // TUNING.rows)]
    some = some[~np.isnan(some).all(axis=1)]
    low, high = np.nanmin(some, axis=0), np.nanmax(some, axis=0)
    if not np.isfinite([low, high]).all() or (high <= low).any():
        return None
    mean, unit, covariance = one_gaussian(some, None)
    return Joint(mean, covariance * np.outer(unit, unit), low, high)


def fill_in(X: np.ndarray, fill: np.ndarray, joint: Joint | None) -> np.ndarray:
    """Missing cells filled in by regression on the others of the row, within each column's range.

    Rows without any value get ``fill``.
    """
    absent = np.isnan(X)
    filled = np.where(absent, fill, X)
    if joint is None or not absent.any():
        return filled
    unit = np.sqrt(np.diag(joint.covariance))
    background = Background(unit, joint.covariance / np.outer(unit, unit))
    likely = joint.mean + background.complete(X - joint.mean, np.eye(len(unit)))[0]
    some = absent & ~absent.all(axis=1, keepdims=True)
    return np.where(some, np.clip(likely, joint.low, joint.high), filled)


def scaled(values: Array, scaling: Scaling) -> Array:
    """Values with missing cells filled in and columns scaled."""
    if scaling.fill is not None:
        values = fill_in(np.asarray(values, dtype=np.float64), scaling.fill, scaling.joint)
    if scaling.kind != "none":
        values = (np.asarray(values, dtype=np.float64) - scaling.center) / scaling.scale
    return values
