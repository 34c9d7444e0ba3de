"""The numbers of clusters that were tried, as arguments of ``plot.selection``."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["curve_of_choice", "curve_of_model"]


def curve_of_choice(choice: Any) -> dict[str, Any] | None:
    """The candidates of a ``Choice`` that have a score; None if there are fewer than two."""
    rows = [row for row in choice.table if np.isfinite(row.score)]
    if len(rows) < 2:
        return None
    return {
        "n_clusters": [row.n_clusters for row in rows],
        "scores": [row.score for row in rows],
        "spread": [row.standard_error for row in rows],
        "chosen": choice.n_clusters,
        "name": choice.score_name,
    }


def curve_of_model(model: Any) -> dict[str, Any] | None:
    """What a fitted model compared to choose its number of clusters; None if it was given."""
    if hasattr(model, "selection_"):
        return curve_of_choice(model.selection_)
    if not hasattr(model, "n_clusters_posterior_"):
        return None
    shares = np.asarray(model.n_clusters_posterior_, dtype=np.float64)[1:]
    return {
        "n_clusters": list(range(1, len(shares) + 1)),
        "scores": shares.tolist(),
        "chosen": int(model.n_clusters_),
        "name": "posterior probability",
    }
