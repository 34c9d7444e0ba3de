"""What a report tells beside memberships and data, and the levels it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array.arrays import to_numpy
from ..engine.levels import Level, merged
from ..selection.choose import Choice


class Facts(NamedTuple):
    """What a report tells beside memberships and data; each may be left out."""

    noise: bool = False  # whether the last column is noise, not a cluster
    coordinates: Any = None  # (m, 2), where to draw the objects ``shown``
    shown: Any = None  # indices (m,); all objects if None
    axes: Sequence[Any] | None = None  # names of the two coordinates
    description: Mapping[str, Any] | None = None  # what ``describe`` found
    similarity: Any = None  # block means of a similarity in cluster order (``plot.block_means``)
    scale: float = 1.0  # the similarity is compared with scale * U U'
    history: Any = None  # objective after every iteration
    selection: Mapping[str, Any] | None = None  # arguments of ``plot.selection``
    converged: bool | None = None
    verdict: Mapping[str, str] | None = None  # ``kind`` and ``text``, as of ``selection.verdict``
    warnings: Sequence[str] = ()  # what the fit had to say
    notes: Sequence[str] = ()  # what was done to the data: scaling, columns set aside
    metrics: Mapping[str, Any] | None = None  # measures by name
    made: Mapping[str, Any] | None = None  # parameters, versions, seed
    class_title: str = "class"  # what the known classes are


def facts_of(model: Any) -> Facts:
    """What a fitted model knows of its own fit."""
    history = np.asarray(getattr(model, "history_", ()), dtype=np.float64)
    made = {"model": type(model).__name__}
    made |= {f"parameter {name}": value for name, value in model.get_params(deep=False).items()}
    return Facts(
        noise=getattr(model, "noise", None) is not None,
        history=history if history.ndim == 1 and len(history) else None,
        converged=getattr(model, "converged_", None),
        selection=curve_of_model(model),
        warnings=[str(note) for note in getattr(model, "notes_", ())],
        made={name: value for name, value in made.items() if value is not None},
    )


def curve_of_choice(choice: Choice) -> dict[str, Any] | None:
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


def levels_of(
    model: Any, U: np.ndarray, noise: bool, most: int = 30
) -> tuple[np.ndarray, list[Level]]:
    """Memberships (n, F) at the finest level shown, and the levels from coarse to fine.

    A model knows its levels; of memberships alone, clusters are merged.
    """
    if hasattr(type(model), "levels_"):
        found = list(model.levels_)
    else:
        maps = merged(U.T @ U, noise=noise)
        found = [Level(int(m.max()) + 1, np.nan, False, tuple(m.tolist())) for m in reversed(maps)]
    k = U.shape[1]
    found = [
        level for level in found if level.n_clusters == k or 1 + noise < level.n_clusters <= most
    ]
    base = np.array(found[-1].parents)
    finest = U if found[-1].n_clusters == k else to_numpy(model.at(found[-1].n_clusters))
    kept = []
    for level in found:
        parents = np.empty(finest.shape[1], dtype=int)
        parents[base] = level.parents
        kept.append(level._replace(parents=tuple(parents.tolist())))
    return finest, kept


def level_names(level: Level, own: Level, labels: Sequence[str]) -> list[str]:
    """Names of clusters at a level: "cluster 0 + 2" is two of the answer, "cluster 1a" a part."""
    owner, place = np.array(own.parents), np.array(level.parents)
    names = []
    for cluster in range(level.n_clusters):
        parts = np.unique(owner[place == cluster])
        first, *others = (labels[part] for part in parts)
        siblings = np.unique(place[owner == parts[0]])
        if len(parts) == 1 and len(siblings) > 1:
            first += chr(ord("a") + int(np.searchsorted(siblings, cluster)))
        names.append(" + ".join([first, *(name.removeprefix("cluster ") for name in others)]))
    return names
