"""What a fitted mixture is worth: whether components collapsed, and whether they say more than one Gaussian would."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.rows import Rows
from ...core.warn import warn
from . import kernel

__all__ = ["compare_with_one", "count_of", "warn_if_collapsed", "warn_if_one_is_enough"]


def count_of(rows: Rows, total: float) -> float:
    """Number of objects: copies where weights are whole numbers, those that count at all where weights are small."""
    weights = rows.columns[0]
    return max(total, float(rows.shape[0] if weights is None else (weights > 0).sum()))


def compare_with_one(model: Any, rows: Rows, total: float) -> tuple[float, float] | None:
    """BIC of the fitted mixture and of one component of its type, whose maximum are the moments of the data.

    None where they cannot be compared: one component, missing values, labels or frozen parameters.
    """
    if model.n_clusters == 1 or model._missing or model._labelled or model._frozen:
        return None
    d, kind, count = model.n_features_in_, model.covariance_type_, count_of(rows, total)
    one = float(model._objective(rows, model._whole(1))) + model._volume
    sizes = (model._n_parameters(), kernel.n_parameters(1, d, kind))
    own, one = (
        -2.0 * value * count / total + p * np.log(count)
        for value, p in zip((model.objective_, one), sizes, strict=True)
    )
    return float(own), float(one)


def warn_if_one_is_enough(model: Any) -> None:
    """Memberships of components that nothing speaks for may be confident all the same."""
    if model._beside_one is None or model._beside_one[0] <= model._beside_one[1]:
        return
    own, one = model._beside_one
    k = len(model._state.means)
    warn(
        f"{k} components describe the data no better than one (BIC {own:.1f} against {one:.1f}, lower is better): memberships may be "
        f"confident about nothing; try n_clusters='auto', or a simpler covariance_type than {model.covariance_type_!r}"
    )


def warn_if_collapsed(model: Any, collapsed: np.ndarray) -> None:
    """Name the first component that is a spike."""
    if collapsed.any():
        warn(
            f"component {np.flatnonzero(collapsed)[0]} of {model.n_clusters} collapsed onto a few objects or a plane: lower n_clusters, "
            f"raise n_init or reg_covar={model.reg_covar:g}, or choose a simpler covariance_type than {model.covariance_type!r}"
        )
