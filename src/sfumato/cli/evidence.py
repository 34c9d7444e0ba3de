"""From a table to what a model's ``fit`` takes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.labels import encode
from ..io import InputError, Roles, Table

__all__ = ["prepare"]


def prepare(estimator: Any, table: Table, model: str, roles: Roles) -> tuple[Any, dict[str, Any]]:
    """What ``fit`` takes: features, a similarity or labelings, with classes and weights where the model wants them."""
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
        extra["y"] = encode(table.classes)
    values = table.values
    if roles.labels:
        estimator.set_params(ensemble="precomputed")
    if not sp.issparse(values) and values.dtype.kind == "f" and not _takes_missing(estimator):
        _refuse_missing(table)
    return values, extra


def _takes_missing(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def _refuse_missing(table: Table) -> None:
    for start in range(0, len(table.values), 100_000):
        gaps = np.isnan(table.values[start : start + 100_000])
        if gaps.any():
            row, column = (int(place) for place in np.argwhere(gaps)[0])
            row += start
            whose = f"object '{table.ids[row]}'" if table.ids is not None else f"row {row + 1}"
            fix = "fill it in, leave the column out with --drop, or use gaussian-mixture, which takes missing values"
            raise InputError(
                f"{table.source}: {whose} has no value in column '{table.columns[column]}': {fix}"
            )
