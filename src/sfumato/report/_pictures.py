"""The report's pictures: drawn twice, for light and for dark screens, as SVG images inside the
page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

import base64
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from .. import plot
from ..core.text import plain
from ..plot._pairs import heat_map

__all__ = ["Material", "Picture", "pictures", "projection"]

_LIGHT = {
    "paper": "#fdfeff",
    "ink": "#1d2530",
    "line": "#8a94a3",
}  # colours that nothing else in a picture has
_DARK = {"paper": "#1a2029", "ink": "#e4e8ee", "line": "#76808f"}
_OBJECTS = 3000


class Picture(NamedTuple):
    """A picture with its words, as data addresses for light and dark screens."""

    title: str
    caption: str
    light: str
    dark: str


def projection(
    X: Array, *, limit: int = _OBJECTS, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Two coordinates for a sample of the objects.

    Their features if there are two, else the first two principal components.

    Parameters
    ----------
    X : array or sparse array of shape (n, p)
    limit : int
        Number of objects to keep at most.
    random_state : int

    Returns
    -------
    shown : array of shape (m,)
        Indices of the objects.
    coordinates : array of shape (m, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.report import projection
    >>> shown, coordinates = projection(np.arange(12.0).reshape(4, 3))
    >>> coordinates.shape
    (4, 2)
    """
    n = X.shape[0]
    shown = np.arange(n)
    if n > limit:
        shown = np.sort(np.random.default_rng(random_state).choice(n, size=limit, replace=False))
    rows = X[shown]
    if sp.issparse(rows):
        return shown, _signed(_components(rows.astype(np.float64)))
    rows = np.asarray(rows, dtype=np.float64)
    means = np.nan_to_num(np.nanmean(np.where(np.isnan(rows).all(axis=0), 0.0, rows), axis=0))
    rows = np.where(np.isnan(rows), means, rows)
    if rows.shape[1] <= 2:
        return shown, np.column_stack([rows, np.zeros((len(rows), 2 - rows.shape[1]))])
    rows = rows - rows.mean(axis=0)
    spread = rows.std(axis=0)
    rows = rows / np.where(spread > 0, spread, 1.0)
    return shown, _signed(_components(rows))


def _components(rows: Any) -> np.ndarray:
    """The first two principal components, one of them zero where there is only one."""
    if min(rows.shape) > 50:
        left, sizes, _ = svds(rows, k=2, v0=np.ones(min(rows.shape)))
        return (left * sizes)[:, ::-1]
    rows = rows.toarray() if sp.issparse(rows) else rows
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    found = (left * sizes)[:, :2]
    return np.column_stack([found, np.zeros((len(found), 2 - found.shape[1]))])


def _signed(coordinates: np.ndarray) -> np.ndarray:
    """Signs that do not depend on the solver: the largest entry of a component is positive."""
    return coordinates * np.where(
        coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0
    )


class Material(NamedTuple):
    """What there is to draw besides memberships; the parameters of ``render`` say what each is."""

    coordinates: Any = None
    shown: Any = None
    similarity: Any = None
    scale: float = 1.0
    history: Any = None
    classes: Sequence[Any] | None = None
    class_title: str = "class"
    selection: Mapping[str, Any] | None = None


Plan = tuple[
    str, str, Callable[[Any], Any], float
]  # title, caption, how to draw it on axes, height in inches


def pictures(U: np.ndarray, labels: Sequence[str], material: Material) -> list[Picture]:
    """Every picture that the material allows."""
    plans = [
        *_of_objects(U, labels, material),
        *_of_memberships(U, labels),
        *_of_material(U, labels, material),
    ]
    return [
        Picture(title, caption, *_images(draw, height)) for title, caption, draw, height in plans
    ]


def _of_objects(U: np.ndarray, labels: Sequence[str], material: Material) -> Iterator[Plan]:
    n, k = U.shape
    if material.coordinates is not None:
        caption = (
            "Each object takes the blended colour of its clusters; the fainter, the less certain."
        )
        at, rows = (
            np.asarray(material.coordinates),
            (slice(None) if material.shown is None else np.asarray(material.shown)),
        )
        yield "Map", caption, lambda ax: _bare(plot.scatter(at, U[rows], names=labels, ax=ax)), 4.2
    if k == 3:
        some = U if n <= _OBJECTS else U[np.linspace(0, n - 1, _OBJECTS).astype(int)]
        caption = "Corners are certain; dotted lines are where the label changes."
        yield "Simplex", caption, lambda ax: plot.simplex(some, names=labels, ax=ax), 4.2


def _of_memberships(U: np.ndarray, labels: Sequence[str]) -> Iterator[Plan]:
    k = U.shape[1]
    if 1 < k <= 30:
        caption = "One column for each object, one band for each cluster: full colour is a membership of 1."
        yield (
            "Memberships",
            caption,
            lambda ax: plot.memberships(U, names=labels, ax=ax),
            max(3.1, 0.9 + 0.35 * k),
        )
    if 1 < k <= 8:
        caption = "The same as curves: where two cross, objects are shared."
        yield "Profiles", caption, lambda ax: plot.profiles(U, names=labels, ax=ax), 3.1
    if k > 1:
        caption = "How many objects have a largest membership of this size. Certain objects are on the right."
        yield "Certainty", caption, lambda ax: plot.uncertainty(U, names=labels, ax=ax), 3.1


def _of_material(U: np.ndarray, labels: Sequence[str], material: Material) -> Iterator[Plan]:
    if material.history is not None and len(material.history) > 1:
        yield (
            "Search",
            "The objective after every iteration.",
            lambda ax: plot.history(material.history, ax=ax),
            3.1,
        )
    if material.selection is not None:
        caption = "The score of every number of clusters that was tried: higher is better."
        yield (
            "Number of clusters",
            caption,
            lambda ax: plot.selection(**(material.selection or {}), ax=ax),
            3.1,
        )
    if material.similarity is not None:
        means = np.asarray(material.similarity)
        caption = "The evidence: how alike objects are, in the order of their clusters."
        yield "Similarity", caption, lambda ax: heat_map(means, len(U), "", ax), 4.2
        caption = "What the memberships make of it: the chance that two objects belong together. Its blocks should be those of the evidence."
        yield (
            "Reconstruction",
            caption,
            lambda ax: _untitled(plot.reconstruction(U, material.scale, ax=ax)),
            4.2,
        )
    if material.classes is not None:
        kinds, table = _table(material.classes, U)
        names = {"row_names": kinds, "column_names": labels, "row_title": material.class_title}
        if len(kinds) <= 30:
            caption = "Objects of each known class, shared out by membership."
            yield (
                "Known classes",
                caption,
                lambda ax: plot.contingency(table, **names, ax=ax),
                max(3.1, 1.2 + 0.35 * len(kinds)),
            )


def _table(classes: Sequence[Any], U: np.ndarray) -> tuple[list[str], np.ndarray]:
    kinds, codes = np.unique(np.asarray([str(value) for value in classes]), return_inverse=True)
    table = np.zeros((len(kinds), U.shape[1]))
    np.add.at(table, codes, U)
    return [plain(kind, 28) for kind in kinds], table


def _bare(ax: Axes) -> Any:
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _untitled(ax: Axes) -> Any:
    ax.set_title("")
    return ax


def _images(draw: Callable[[Any], Any], height: float) -> tuple[str, str]:
    """The picture for light and for dark screens, as data addresses.

    The same numbers give the same bytes.
    """
    light = _svg(draw, height)
    dark = light
    for part, colour in _LIGHT.items():
        dark = dark.replace(colour, _DARK[part])
    return _address(light), _address(dark)


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _svg(draw: Callable[[Any], Any], height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    paper, ink, line = _LIGHT.values()
    style: dict[Any, Any] = {
        **{
            f"axes.{part}": colour
            for part, colour in (
                ("facecolor", paper),
                ("edgecolor", line),
                ("labelcolor", ink),
                ("titlecolor", ink),
            )
        },
        **{
            f"{axis}tick.{part}": colour
            for axis in "xy"
            for part, colour in (("color", line), ("labelcolor", ink))
        },
        "text.color": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 10,
        "svg.hashsalt": "sfumato",
        "savefig.facecolor": paper,
    }
    default: dict[Any, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"
    }
    with matplotlib.rc_context({**default, **style}), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # a glyph that the font lacks is drawn as a box
        figure = Figure(figsize=(5.2, height), layout="constrained")
        ax = figure.subplots()
        draw(ax)
        for points in ax.collections:
            points.set_rasterized(np.shape(points.get_offsets())[0] > 300)
        buffer = BytesIO()
        figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None, "Creator": None})
    return buffer.getvalue().decode()
