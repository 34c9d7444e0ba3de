"""Columns in different units, and missing cells: what is done to a table before a model sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.text import plain
from ..array.types import Array, Estimator
from ..io import InputError, Table
from ..io.columns import encoded_names
from .filling import Joint, fill_in, joint_of, joint_restored

__all__ = ["SCALES", "Scaling", "missing", "rescale", "restored", "scaled"]

SCALES = ("auto", "standard", "robust", "none")
# Columns whose standard deviations differ by more than this are taken to be in different units:
# Euclidean distances would see little but the widest. A tenfold spread of deviation is a
# hundredfold of variance.
FOLD = 10.0
_COMPONENT = re.compile(
    r"(?i)(pc|pca|x_pca|umap|tsne|dim|dimension|component|embedding|e|d)?[_ -]?\d+"
)
_TABLES = ("text", "parquet", "excel")
_NORMAL_QUARTILES = 1.349  # distance of the quartiles of a normal distribution with deviation 1


class Scaling(NamedTuple):
    """(X - center) / scale, after missing cells have been filled in; and what to say about it."""

    kind: str
    center: list[float]
    scale: list[float]
    fill: list[float] | None
    notes: list[str]
    joint: Joint | None = None


def rescale(
    table: Table, asked: str, model: str, estimator: Estimator, similarity: str | None
) -> Scaling:
    """How columns are scaled, and missing cells filled in.

    Parameters
    ----------
    table : Table of features
    asked : {"auto", "standard", "robust", "none"}
    model, estimator, similarity : what the table is for
    """
    if asked not in SCALES:
        raise InputError(f"--scale must be one of {', '.join(SCALES)}; got '{plain(asked, 30)}'")
    X = table.values
    notes: list[str] = []
    p = X.shape[1]
    unscaled = Scaling("none", [0.0] * p, [1.0] * p, None, notes)
    if table.label_names is not None or similarity == "precomputed" or X.dtype.kind not in "biuf":
        return unscaled
    if sp.issparse(X):
        if asked in ("standard", "robust"):
            raise InputError("--scale: sparse features are used as they are; say --scale none")
        return unscaled
    fill, joint = _fill(table, estimator, model, notes)
    kind = _kind(table, asked, estimator, notes)
    if kind == "none":
        return unscaled._replace(fill=fill, joint=joint)
    center, scale = _moments(np.asarray(X, dtype=np.float64), kind, _groups(table))
    return Scaling(kind, center.tolist(), scale.tolist(), fill, notes, joint)


def _groups(table: Table) -> list[int]:
    """Number of encoded columns that each column of the file became."""
    groups = encoded_names(table.fields or [])
    if sum(map(len, groups)) != table.values.shape[1]:  # an array, or categories as they are
        return [1] * table.values.shape[1]
    return [len(group) for group in groups]


def _kind(table: Table, asked: str, estimator: Estimator, notes: list[str]) -> str:
    if asked != "auto":
        if asked != "none":
            notes.append(f"columns are scaled ({asked}), as asked")
        return asked
    if estimator.unit_free:
        return "none"
    X = table.values
    spread = _spreads(X)
    spread = spread[spread > 0]
    fold = spread.max() / spread.min() if len(spread) else 1.0
    mixed = max(_groups(table)) > 1
    if fold <= FOLD and not mixed:
        return "none"
    coordinates = all(_COMPONENT.fullmatch(name) for name in table.columns)
    if table.kind not in _TABLES or coordinates:
        notes.append(
            f"the spreads of the columns differ {fold:,.0f}-fold and are left as they are: "
            "say --scale standard if the columns are in different units"
        )
        return "none"
    why = f"their spreads differ {fold:,.0f}-fold" if fold > FOLD else "some are categories"
    notes.append(
        f"columns are standardised, because {why}"
        + (": a category counts as much as one number" if mixed else "")
        + "; --scale none leaves them as they are"
    )
    return "standard"


def _spreads(X: Array) -> np.ndarray:
    """Standard deviations of the columns, of up to 100 000 rows, missing cells left out."""
    rows = np.asarray(X[:: max(1, len(X) // 100_000)], dtype=np.float64)
    return np.nan_to_num(np.nanstd(np.where(np.isnan(rows).all(axis=0), 0.0, rows), axis=0))


def _moments(X: np.ndarray, kind: str, groups: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale; the indicators of one category share a scale, so that it counts as one
    column.
    """
    if kind == "robust":
        low, center, high = np.nanpercentile(X, [25, 50, 75], axis=0)
        scale = (high - low) / _NORMAL_QUARTILES
        scale = np.where(scale > 0, scale, np.nanstd(X, axis=0))
    else:
        center, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    ends = np.cumsum(groups)
    for start, end in zip(ends - groups, ends, strict=True):
        if end - start > 1:
            center[start:end] = np.nanmean(X[:, start:end], axis=0)
            scale[start:end] = np.sqrt(np.nanvar(X[:, start:end], axis=0).sum())
    return center, np.where(scale > 0, scale, 1.0)


def _fill(
    table: Table, estimator: Estimator, model: str, notes: list[str]
) -> tuple[list[float] | None, Joint | None]:
    """What stands in for missing cells in a model that takes none.

    What the other columns make likely where all are numbers; else the median, or shares of a
    category.
    """
    X = table.values
    if table.fields is None or estimator.__sklearn_tags__().input_tags.allow_nan:
        return None, None
    joint = joint_of(np.asarray(X, dtype=np.float64)) if max(_groups(table)) == 1 else None
    medians = np.nanmedian(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0)
    shares = np.nanmean(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0)
    hot = np.repeat([size > 1 for size in _groups(table)], _groups(table))
    gaps = [
        f"'{plain(column.name, 30)}' ({gap:,})"
        for column in table.fields
        if column.used and (gap := missing(column))
    ]
    if gaps:
        more = f" and {len(gaps) - 5} more" if len(gaps) > 5 else ""
        notes.append(
            f"missing cells are filled in with {_filling(table, joint)}, because {model} takes "
            f"none: {', '.join(gaps[:5])}{more}; gaussian-mixture and mixed-mixture use them as "
            "they are"
        )
    return np.where(hot, shares, medians).tolist(), joint


def _filling(table: Table, joint: Joint | None) -> str:
    """What missing cells are filled in with, in words."""
    if joint is not None:
        return "what the other columns make likely"
    some = any(c.used and c.codes is not None and missing(c) for c in table.fields or [])
    shares = " (a category with the shares of its levels)" if some else ""
    return f"the median of their column{shares}"


def missing(column: Any) -> int:
    """Number of cells of a column of the file that have no value."""
    if column.codes is not None:
        return int((column.codes < 0).sum())
    return int(np.isnan(column.numbers).sum())


def scaled(table: Table, scaling: Scaling) -> Table:
    """The table with its missing cells filled in and its columns scaled."""
    values = table.values
    if scaling.fill is not None:
        values = fill_in(
            np.asarray(values, dtype=np.float64), np.array(scaling.fill), scaling.joint
        )
    if scaling.kind != "none":
        values = (np.asarray(values, dtype=np.float64) - scaling.center) / scaling.scale
    return table._replace(values=values)


def restored(held: Mapping[str, Any], n_columns: int) -> Scaling | None:
    """The scaling that a result folder keeps; None where there is none."""
    kept = held.get("scaling")
    if kept is None:
        return None
    parts = [kept.get("center"), kept.get("scale"), kept.get("fill") or [0.0] * n_columns]
    right = all(
        isinstance(part, list)
        and len(part) == n_columns
        and all(isinstance(value, int | float) for value in part)
        for part in parts
    )
    if not right or kept.get("kind") not in SCALES:
        raise InputError("summary.json is damaged: 'scaling' does not fit its columns")
    joint = joint_restored(kept.get("joint"), n_columns)
    return Scaling(kept["kind"], kept["center"], kept["scale"], kept.get("fill"), [], joint)
