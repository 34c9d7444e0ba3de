"""A soft clustering as one self-contained HTML page.

How far to trust it, what the clusters are, pictures, doubtful objects.

The page loads nothing, states a strict content-security-policy and shows every name as text. Its
one script, which the policy names by its hash, makes pictures and tables interactive; without it
the page shows the same content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..array.arrays import to_numpy
from ..array.text import plain
from ..array.types import Estimator
from ..io.columns import encode, encoded_names
from ..io.moving import whole_file
from ..memberships import check_memberships
from ..selection import verdict as judge
from ._columns import as_columns
from ._curve import curve_of_model
from ._description import describe
from ._findings import answer, doubtful, trust
from ._page import fill, live_data, overview
from ._pictures import Material, pictures
from ._plane import plane, projection
from ._profiles import ColumnProfile, profiles

__all__ = ["ColumnProfile", "describe", "plane", "profiles", "projection", "render", "write"]


def render(
    memberships: Any,
    X: Any = None,
    *,
    columns: Sequence[Any] | None = None,
    title: str = "Soft clustering",
    names: Sequence[Any] | None = None,
    cluster_names: Sequence[Any] | None = None,
    noise: bool = False,
    coordinates: Any = None,
    shown: Any = None,
    axes: Sequence[Any] | None = None,
    description: Mapping[str, Any] | None = None,
    similarity: Any = None,
    scale: float = 1.0,
    history: Any = None,
    classes: Sequence[Any] | None = None,
    class_title: str = "class",
    selection: Mapping[str, Any] | None = None,
    converged: bool | None = None,
    verdict: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    metrics: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> str:
    """The report as HTML text.

    Parameters
    ----------
    memberships : array of shape (n, k), or a fitted model
    X : array or sparse array of shape (n, p), or data frame, optional
        The data: what the clusters are is told in terms of its columns.
    columns : sequence of p names, optional
        Names of the columns of an array.
    title : str
    names : sequence of n names, optional
        Names of the objects; their numbers if not given.
    cluster_names : sequence of k names, optional
    noise : bool
        Whether the last column is noise, not a cluster.
    coordinates : array of shape (n, 2), or of the objects in ``shown``, optional
        Where to draw the objects in the plane, for instance from ``projection``.
    shown : array of indices, optional
        The objects that ``coordinates`` belong to.
    axes : sequence of 2 names, optional
        What the two coordinates are.
    description : mapping, optional
        What ``describe`` found, if it is known already.
    similarity : array of shape (b, b), optional
        Block means of a similarity in cluster order (``plot.block_means``), drawn beside those of
        scale * U U'.
    scale : float
    history : array, optional
        Objective after every iteration.
    classes : sequence of n known classes, optional
        Compared with the clusters in a table.
    class_title : str
    selection : mapping, optional
        Arguments of ``plot.selection``: ``n_clusters``, ``scores``, and perhaps ``spread``,
        ``chosen`` and ``name``.
    converged : bool, optional
    verdict : mapping with ``kind`` and ``text``, optional
        How far to trust the clustering; ``selection.verdict`` of a fitted model if not given.
    warnings : sequence of str
        What the fit had to say; shown under "how far to trust this answer".
    notes : sequence of str
        What was done to the data: scaling, columns set aside.
    metrics : mapping, optional
        Measures by name.
    made : mapping, optional
        How the clustering was made: parameters, versions, seed.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from sfumato import report
    >>> page = report.render([[0.9, 0.1], [0.2, 0.8]], names=["ada", "<i>"])
    >>> "&lt;i&gt;" in page, "<i>" in page
    (True, False)
    """
    if hasattr(memberships, "fit") and not hasattr(memberships, "memberships_"):
        raise ValueError(f"{type(memberships).__name__} is not fitted: call fit(X) first")
    if verdict is None:
        verdict = judge(memberships, noise=noise)._asdict()
    held = _of_model(memberships) if hasattr(memberships, "memberships_") else {}
    U = check_memberships(to_numpy(held.get("memberships", memberships)))
    noise = noise or held.get("noise", False)
    history = held.get("history") if history is None else history
    selection = held.get("selection") if selection is None else selection
    converged = held.get("converged") if converged is None else converged
    names = range(len(U)) if names is None else names
    if len(names) != len(U):
        raise ValueError(
            f"names must hold one name for each of the {len(U)} objects, got {len(names)}"
        )
    if cluster_names is None:
        cluster_names = [f"cluster {i}" for i in range(U.shape[1] - noise)] + ["noise"] * noise
    labels = [plain(cluster_names[i], 40) for i in range(U.shape[1])]
    if X is not None:
        if coordinates is None:
            matrix, titles = _matrix(X)
            shown, coordinates, axes = plane(matrix, columns=titles or columns)
        description = describe(X, U, columns=columns, shown=shown)
    description = description or {}
    telling = description.get("plane")
    material = Material(
        coordinates,
        shown,
        similarity,
        scale,
        history,
        classes,
        class_title,
        selection,
        axes,
        telling,
    )
    drawn = pictures(U, labels, material)
    planes = _planes(coordinates, axes, telling)
    return fill(
        title=title,
        answer=answer(U, names, labels, noise),
        described=description,
        pictures=drawn,
        live=live_data(U, names, labels, shown, planes, description, classes, class_title),
        overview=overview(description),
        doubtful=doubtful(U, names, labels),
        names=names,
        verdict=verdict,
        trust=trust(
            U,
            converged=converged,
            warnings=warnings,
            selection=selection,
            notes=notes,
            metrics=metrics,
        ),
        metrics={key: _number(value) for key, value in (metrics or {}).items()},
        made=made or {},
    )


def _of_model(model: Estimator) -> dict[str, Any]:
    """What a fitted model knows of its own fit."""
    history = np.asarray(getattr(model, "history_", ()), dtype=np.float64)
    return {
        "memberships": model.memberships_,
        "noise": getattr(model, "noise", None) is not None,
        "history": history if history.ndim == 1 and len(history) else None,
        "converged": getattr(model, "converged_", None),
        "selection": curve_of_model(model),
    }


def _matrix(X: Any) -> tuple[Any, list[str] | None]:
    """Numbers for the map: an array as it is, a data frame with its categories one-hot."""
    if not hasattr(X, "columns"):
        return (X if hasattr(X, "tocsr") else to_numpy(X)), None
    table = as_columns(X)
    return encode(table), [name for group in encoded_names(table) for name in group]


def _planes(coordinates: Any, axes: Any, telling: Any) -> dict[str, Any]:
    """Points of the live pictures, and what their axes are."""
    found: dict[str, Any] = {}
    if coordinates is not None:
        points = np.asarray(coordinates, dtype=np.float64)
        names = ["", ""] if axes is None else [plain(name, 60) for name in axes]
        found["map"] = {"points": [[float(f"{v:.5g}") for v in p] for p in points], "names": names}
    if telling is not None:
        named = [plain(name, 40) for name in telling["names"]]
        found["telling"] = {"points": telling["points"], "names": named}
    return found


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def write(path: str | Path, memberships: Any, X: Any = None, **options: Any) -> Path:
    """Write the report to ``path``, whole or not at all.

    Parameters
    ----------
    path : path of the HTML file
    memberships : array of shape (n, k), or a fitted model
    X : array or sparse array of shape (n, p), or data frame, optional
        The data: what the clusters are is told in terms of its columns.
    **options
        As for ``render``.

    Returns
    -------
    path : pathlib.Path

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
    page = render(memberships, X, **options)
    with whole_file(path, "report") as partial:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path
