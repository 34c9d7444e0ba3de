"""The numbers of clusters that were tried, as arguments of ``plot.selection``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..selection.own import of_mixture

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
        "name": choice.criterion,
    }


def curve_of_model(model: Any) -> dict[str, Any] | None:
    """What a fitted model compared to choose its number of clusters; None if it was given."""
    if hasattr(model, "selection_"):
        return curve_of_choice(model.selection_)
    if hasattr(model, "n_clusters_posterior_"):
        scores = np.asarray(model.n_clusters_posterior_, dtype=np.float64)[1:]
        numbers, name = list(range(1, len(scores) + 1)), "posterior probability"
    elif hasattr(model, "search_"):
        found = of_mixture(model)
        scores, numbers, name = found.scores, found.sizes, found.criterion
    else:
        return None
    known = np.flatnonzero(np.isfinite(scores))
    if len(known) < 2:
        return None
    noise = getattr(model, "noise", None) is not None
    return {
        "n_clusters": [numbers[place] for place in known],
        "scores": [float(scores[place]) for place in known],
        "chosen": int(model.n_clusters_) - noise,
        "name": name,
    }
