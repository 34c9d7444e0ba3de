"""Reports: a soft clustering as one self-contained HTML page.

The page says how far to trust the answer, describes the clusters at every level, and shows pictures
and doubtful objects.

It loads nothing, sets a strict content security policy and shows every name as text. One script,
allowed by its hash, makes pictures and tables interactive; without it, the page still shows the
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.text import plain
from ..engine.levels import Level, regroup
from ..io.columns import encode, encoded_names
from ..io.output import whole_file
from ..memberships import check_memberships
from ..selection import verdict as judge
from ._description import (
    ColumnProfile,
    as_columns,
    describe,
    level_names,
    levels_of,
    plane,
    profiles,
)
from ._page import Facts, answer, doubtful, facts_of, fill, live_data, overview, pictures, trust

__all__ = ["ColumnProfile", "Facts", "describe", "plane", "profiles", "render", "write"]


def render(
    model: Any,
    X: Any = None,
    *,
    names: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    cluster_names: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    title: str = "Soft clustering",
    facts: Facts | None = None,
) -> str:
    """The report as HTML text.

    Parameters
    ----------
    model : fitted model, or memberships of shape (n, k)
    X : array or sparse array of shape (n, p), or data frame, optional
        The data, by whose columns the clusters are described.
    names : sequence of n names, optional
        Names of the objects; their numbers if not given.
    columns : sequence of p names, optional
        Names of the columns of an array.
    cluster_names : sequence of k names, optional
    classes : sequence of n known classes, optional
        Compared with the clusters in a table.
    title : str
    facts : Facts, optional
        Further content, such as measures or the similarity; by default, what a fitted model knows
        about its fit.

    Examples
    --------
    >>> from sfumato import report
    >>> page = report.render([[0.9, 0.1], [0.2, 0.8]], names=["ada", "<i>"])
    >>> "&lt;i&gt;" in page, "<i>" in page
    (True, False)
    """
    fitted = hasattr(model, "memberships_")
    if hasattr(model, "fit") and not fitted:
        raise ValueError(f"{type(model).__name__} is not fitted: call fit(X) first")
    if facts is None:
        facts = facts_of(model) if fitted else Facts()
    U = check_memberships(to_numpy(model.memberships_ if fitted else model))
    n, noise = len(U), facts.noise_cluster
    if facts.verdict is None:
        facts = facts._replace(verdict=judge(model, noise_cluster=noise)._asdict())
    names = range(n) if names is None else names
    if len(names) != n:
        raise ValueError(f"names must hold one name for each of the {n} objects, got {len(names)}")
    if cluster_names is None:
        cluster_names = [f"cluster {i}" for i in range(U.shape[1] - noise)] + ["noise"] * noise
    labels = [plain(cluster_names[i], 40) for i in range(U.shape[1])]
    if facts.levels is None:
        finest, levels = levels_of(model, U, noise)
    else:
        finest = U if facts.finest is None else np.asarray(facts.finest, dtype=np.float64)
        levels = [Level(*level) for level in facts.levels]
    if X is not None:
        facts = _described(X, U, (finest, levels), columns, facts)
    views = _views(finest, levels, names, labels, facts)
    return fill(
        title=title,
        views=views,
        columns=(facts.description or {}).get("columns", []),
        missing=(facts.description or {}).get("missing", {}),
        pictures=pictures(U, labels, facts, classes, finest.shape[1]),
        live=live_data(finest, names, views, facts, classes),
        names=names,
        verdict=facts.verdict,
        trust=trust(U, facts, classes),
        metrics={
            key: f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
            for key, value in (facts.metrics or {}).items()
        },
        made=facts.made or {},
    )


def _described(
    X: Any,
    U: np.ndarray,
    levels: tuple[np.ndarray, Sequence[Level]],
    columns: Sequence[object] | None,
    facts: Facts,
) -> Facts:
    """The facts, completed by positions of the objects and descriptions of clusters."""
    if facts.coordinates is None:
        if hasattr(X, "columns"):  # categories become one-hot columns
            table = as_columns(X)
            matrix = encode(table)
            titles: Any = [name for group in encoded_names(table) for name in group]
        else:
            matrix, titles = (X if hasattr(X, "tocsr") else to_numpy(X)), columns
        shown, coordinates, axes = plane(matrix, columns=titles)
        facts = facts._replace(shown=shown, coordinates=coordinates, axes=axes)
    described = describe(
        X, U, columns=columns, shown=facts.shown, noise_cluster=facts.noise_cluster, levels=levels
    )
    return facts._replace(description=described)


def _views(
    finest: np.ndarray, levels: Sequence[Any], names: Sequence[Any], labels: list[str], facts: Facts
) -> list[dict[str, Any]]:
    """Content of the tables at every level."""
    own = next(level for level in levels if level.n_clusters == len(labels))
    views = []
    for level in levels:
        U, described = regroup(finest, level.parents), facts.description or {}
        if level is not own:
            described = described.get("levels", {}).get(str(level.n_clusters), {})
        titles = labels if level is own else level_names(level, own, labels)
        views.append(
            {
                "level": level,
                "own": level is own,
                "names": titles,
                "answer": answer(U, names, titles, facts.noise_cluster),
                "described": described,
                "overview": overview(described),
                "doubtful": doubtful(U, names, titles),
            }
        )
    return views


def write(path: str | Path, model: Any, X: Any = None, **options: Any) -> Path:
    """Write the report to the HTML file ``path``, completely or not at all; returns the path.

    The other arguments are those of ``render``.

    Examples
    --------
    >>> import tempfile
    >>> from sfumato import report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write(f"{folder}/report.html", [[0.9, 0.1], [0.2, 0.8]]).name
    'report.html'
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to")
    page = render(model, X, **options)
    with whole_file(path, "report") as partial:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path
