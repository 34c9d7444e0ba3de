"""Data for the pictures of the report beyond memberships."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import plot, report
from ..array.types import Estimator
from ..io import Table
from ..similarity import Factored
from .evidence import with_class

__all__ = ["pictures"]

SHOWN = 2000  # objects whose similarity is drawn where an ensemble has to be asked for it


def pictures(request: Any, estimator: Estimator, table: Table, U: np.ndarray) -> dict[str, Any]:
    """What the report needs beyond memberships, small whatever the number of objects."""
    history = np.asarray(estimator.history_, dtype=float)
    held: dict[str, Any] = {
        "history": history.tolist() if history.ndim == 1 and np.isfinite(history).all() else None
    }
    if request.similarity != "precomputed" and not request.roles.labels:
        found = report.plane(table.values, columns=table.columns)
        held |= {
            "shown": found.shown.tolist(),
            "coordinates": found.coordinates.round(6).tolist(),
            "axes": found.names,
            "description": _described(
                table, U, found.shown, getattr(estimator, "noise", None) is not None
            ),
        }
    means = _similarity(request, estimator, table, U)
    if means is not None:
        held |= {
            "similarity": np.nan_to_num(means).round(5).tolist(),
            "scale": float(getattr(estimator, "scale_", 1.0)),
        }
    if table.classes is not None:
        named = np.where(with_class(table.classes), np.asarray(table.classes), "no class")
        kinds, codes = np.unique(named, return_inverse=True)
        held |= {
            "class_title": request.roles.classes,
            "class_names": kinds.tolist(),
            "class_codes": codes.tolist(),
        }
    return held


def _similarity(
    request: Any, estimator: Estimator, table: Table, U: np.ndarray
) -> np.ndarray | None:
    """Block means of the similarity that the model saw, where it saw one."""
    if request.similarity == "precomputed":
        return plot.block_means(table.values, U, blocks=100)
    if hasattr(estimator, "coassociation_"):
        return plot.block_means(estimator.coassociation_, U, blocks=100)
    if not hasattr(estimator, "ensemble_"):
        return None
    rng = np.random.default_rng(request.seed)
    some = np.sort(rng.permutation(len(U))[:SHOWN])
    H = estimator._shares(table.values[some])
    return plot.block_means(Factored(H, H), U[some], blocks=100)


def _described(table: Table, U: np.ndarray, shown: np.ndarray, noise: bool) -> dict[str, Any]:
    """The clusters in terms of the columns as they stand in the file."""
    if table.fields is not None:
        used = [column for column in table.fields if column.used]
        return report.describe(used, U, shown=shown, noise=noise)
    values = table.values if table.original is None else table.original
    return report.describe(values, U, columns=table.columns, shown=shown, noise=noise)
