"""A soft clustering as one self-contained HTML page.

The answer, pictures, doubtful objects, how it was made, how far to trust it.

The page holds no script, loads nothing, states a strict content-security-policy and shows every
name as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import to_numpy
from ..core.text import plain
from ..core.types import Array, ArrayLike
from ..io.moving import whole_file
from ..memberships import check_memberships
from ._findings import answer, doubtful, trust
from ._pictures import Material, pictures, projection

__all__ = ["projection", "render", "write"]


def render(
    memberships: ArrayLike,
    *,
    title: str = "Soft clustering",
    names: Sequence[Any] | None = None,
    cluster_names: Sequence[Any] | None = None,
    noise: bool = False,
    coordinates: Any = None,
    shown: Any = None,
    similarity: Any = None,
    scale: float = 1.0,
    history: Array | None = None,
    classes: Sequence[Any] | None = None,
    class_title: str = "class",
    selection: Mapping[str, Any] | None = None,
    converged: bool | None = None,
    warnings: Sequence[str] = (),
    metrics: Mapping[str, Any] | None = None,
    made: Mapping[str, Any] | None = None,
) -> str:
    """The report as HTML text.

    Parameters
    ----------
    memberships : array of shape (n, k)
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
    warnings : sequence of str
        What the fit had to say; shown under "how far to trust it".
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
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "reports need jinja2 and matplotlib: pip install 'sfumato[cli]'"
        ) from error

    U = check_memberships(to_numpy(memberships))
    names = range(len(U)) if names is None else names
    if len(names) != len(U):
        raise ValueError(
            f"names must hold one name for each of the {len(U)} objects, got {len(names)}"
        )
    if cluster_names is None:
        cluster_names = [f"cluster {i}" for i in range(U.shape[1] - noise)] + ["noise"] * noise
    labels = [plain(cluster_names[i], 40) for i in range(U.shape[1])]
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("sfumato", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["name"] = lambda name, width=80: plain(name, width)
    return environment.get_template("template.html").render(
        title=title,
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        answer=answer(U, names, labels, noise),
        pictures=pictures(
            U,
            labels,
            Material(
                coordinates, shown, similarity, scale, history, classes, class_title, selection
            ),
        ),
        doubtful=doubtful(U, names, labels),
        trust=trust(
            U,
            converged=converged,
            n_iter=None if history is None else len(history),
            warnings=warnings,
        ),
        metrics={key: _number(value) for key, value in (metrics or {}).items()},
        made=made or {},
    )


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def write(path: str | Path, memberships: ArrayLike, **options: Any) -> Path:
    """Write the report to ``path``, whole or not at all.

    Parameters
    ----------
    path : path of the HTML file
    memberships : array of shape (n, k)
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
    page = render(memberships, **options)
    with whole_file(path, "report") as partial:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path
