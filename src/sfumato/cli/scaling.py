"""Columns in different units, and missing cells: what is done to a table before a model sees it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.text import plain
from ..array.types import Array, Estimator
from ..io import InputError, Table
from ..io.columns import encoded_names


class Tuning(NamedTuple):
    """Numbers by which columns are scaled, filled in, given distributions and remarked upon."""

    # Columns whose deviations differ more than this are taken to be in different units: Euclidean
    # distances would see little but the widest. Tenfold of deviation is a hundredfold of variance.
    fold: float = 10.0
    # Columns and rows that are looked at, at most, for one Gaussian of all columns (to fill in
    # missing cells) and for a column that explains the clusters: both take about a second then.
    columns: int = 50
    rows: int = 5000
    # Rows for each column that the Gaussian needs.
    objects: int = 5
    # Skewness above which a positive column is log-normal: that of the exponential distribution.
    skewed: float = 2.0
    # Different whole numbers up to which a column holds the answers on a scale, which a normal
    # distribution would fit with spikes. Ten-point scales are the longest in common use.
    answers: int = 10
    # Different whole numbers up to which a column may hold codes of categories.
    codes: int = 5
    # Different values of 0 and less up to which they may be codes in a column of larger numbers.
    marks: int = 3
    # Share of the objects whose cluster one column must tell to explain the clusters.
    alone: float = 0.95


TUNING = Tuning()
_SCALES = ("auto", "standard", "robust", "none")
_COMPONENT = re.compile(
    r"(?i)(pc|pca|x_pca|umap|tsne|dim|dimension|component|embedding|e|d)?[_ -]?\d+"
)


class Joint(NamedTuple):
    """One Gaussian for all columns, and the range of each."""

    mean: np.ndarray
    covariance: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Scaling(NamedTuple):
    """(X - center) / scale, after missing cells have been filled in."""

    kind: str
    center: np.ndarray
    scale: np.ndarray
    fill: np.ndarray | None = None
    joint: Joint | None = None

    def kept(self) -> dict[str, Any] | None:
        """As a summary keeps it; None where nothing is changed."""
        if self.kind == "none" and self.fill is None:
            return None
        joint = None if self.joint is None else self.joint._asdict()
        return {
            name: part.tolist() if isinstance(part, np.ndarray) else part
            for name, part in self._asdict().items()
        } | {"joint": joint and {name: part.tolist() for name, part in joint.items()}}


def rescale(
    table: Table, asked: str, model: str, estimator: Estimator, is_matrix: bool
) -> tuple[Scaling, list[str]]:
    """How columns are scaled, and missing cells filled in; and what to say about it."""
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
    """Number of encoded columns that each column of the file became."""
    groups = [len(group) for group in encoded_names(table.fields or [])]
    p = table.values.shape[1]  # of an array, or with categories as they are, one for each
    return groups if sum(groups) == p else [1] * p


def _kind(table: Table, mixed: bool, estimator: Estimator) -> tuple[str, str]:
    """Whether columns are standardised, and a sentence that says so."""
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
    """Center and scale; indicators of one category share a scale, so that it counts once."""
    center, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    if kind == "robust":
        low, center, high = np.nanpercentile(X, [25, 50, 75], axis=0)
        quartiles = (high - low) / 1.349  # their distance where the deviation is 1
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
    """What stands in for missing cells in a model that takes none, and a sentence that says so."""
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
    by = "what the other columns make likely"
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
    """The Gaussian of largest likelihood given the cells that are there; None for few rows."""
    n, p = X.shape
    if not 2 <= p <= TUNING.columns or n < TUNING.objects * p or not np.isnan(X).any():
        return None
    from .. import GaussianMixture

    some = X[:: max(1, n // TUNING.rows)]
    some = some[~np.isnan(some).all(axis=1)]
    low, high = np.nanmin(some, axis=0), np.nanmax(some, axis=0)
    if not np.isfinite([low, high]).all() or (high <= low).any():
        return None
    unit = np.nanstd(some, axis=0)
    model = GaussianMixture(1, covariance_type="full", n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(some / unit)
    return Joint(model.means_[0] * unit, model.covariances_[0] * np.outer(unit, unit), low, high)


def fill_in(X: np.ndarray, fill: np.ndarray, joint: Joint | None) -> np.ndarray:
    """Cells filled in by regression on those of their row, within the range of their column.

    Rows that have none get ``fill``.
    """
    absent = np.isnan(X)
    filled = np.where(absent, fill, X)
    if joint is None or not absent.any():
        return filled
    # a little more variance, so that collinear columns can be solved for
    C = joint.covariance + 1e-6 * np.diag(np.diag(joint.covariance))
    patterns, group = np.unique(absent, axis=0, return_inverse=True)
    for place, gone in enumerate(patterns):
        if not gone.any() or gone.all():
            continue
        rows, held = np.flatnonzero(group.ravel() == place), ~gone
        slopes = np.linalg.solve(C[np.ix_(held, held)], C[np.ix_(held, gone)])
        likely = joint.mean[gone] + (X[np.ix_(rows, held)] - joint.mean[held]) @ slopes
        filled[np.ix_(rows, gone)] = np.clip(likely, joint.low[gone], joint.high[gone])
    return filled


def scaled(values: Array, scaling: Scaling) -> Array:
    """Values with missing cells filled in and columns scaled."""
    if scaling.fill is not None:
        values = fill_in(np.asarray(values, dtype=np.float64), scaling.fill, scaling.joint)
    if scaling.kind != "none":
        values = (np.asarray(values, dtype=np.float64) - scaling.center) / scaling.scale
    return values


def restored(held: Mapping[str, Any], n_columns: int) -> Scaling | None:
    """The scaling that a result folder keeps, checked; None where there is none."""
    kept = held.get("scaling")
    if kept is None:
        return None
    wrong = InputError("summary.json is damaged: 'scaling' does not fit its columns")

    def part(parts: Mapping[str, Any], name: str) -> np.ndarray:
        shape = (n_columns,) * (1 + (name == "covariance"))
        found = np.asarray(parts.get(name), dtype=np.float64)
        if found.shape != shape or not np.isfinite(found).all():
            raise wrong
        return found

    try:
        joint = kept.get("joint")
        gaussian = None
        if joint is not None:
            gaussian = Joint(*(part(joint, name) for name in Joint._fields))
        fill = None if kept.get("fill") is None else part(kept, "fill")
        found = Scaling(kept["kind"], part(kept, "center"), part(kept, "scale"), fill, gaussian)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise wrong from None
    if found.kind not in _SCALES:
        raise wrong
    return found
