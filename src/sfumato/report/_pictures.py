"""The report's pictures: drawn twice, for light and for dark screens, as SVG images inside the
page.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from .. import plot
from ..array.text import plain
from ..plot._pairs import heat_map
from ._plane import OBJECTS

__all__ = ["Material", "Picture", "pictures"]

_LIGHT = {
    "paper": "#fdfeff",
    "ink": "#1d2530",
    "line": "#8a94a3",
}  # colours that nothing else in a picture has
_DARK = {"paper": "#1a2029", "ink": "#e4e8ee", "line": "#76808f"}


class Picture(NamedTuple):
    """A picture with its words, as data addresses for light and dark screens."""

    title: str
    caption: str
    light: str
    dark: str
    live: str = ""  # the live picture that a script puts in its place


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
    axes: Sequence[Any] | None = None
    telling: Mapping[str, Any] | None = None


# Title, caption, how to draw it on axes, height in inches, and the live picture that replaces it.
Plan = tuple[str, str, Callable[[Any], Any], float, str]


def pictures(U: np.ndarray, labels: Sequence[str], material: Material) -> list[Picture]:
    """Every picture that the material allows."""
    plans = [
        *_of_objects(U, labels, material),
        *_of_memberships(U, labels, material),
        *_of_material(U, labels, material),
    ]
    return [
        Picture(title, caption, *_images(draw, height), live)
        for title, caption, draw, height, live in plans
    ]


def _of_objects(U: np.ndarray, labels: Sequence[str], material: Material) -> Iterator[Plan]:
    n, k = U.shape
    rows = slice(None) if material.shown is None else np.asarray(material.shown)
    some = U[rows]
    part = f" {len(some):,} of {n:,} objects." if len(some) < n else ""
    blended = (
        f"The colour blends those of the object's clusters; the fainter, the less certain.{part}"
    )
    if material.coordinates is not None:
        at, axes = np.asarray(material.coordinates), material.axes
        caption = f"{_axes_said(axes)}{blended}"
        yield "Map", caption, lambda ax: _bare(_scatter(at, some, labels, axes, ax)), 4.2, "map"
    if material.telling is not None:
        points = np.array(material.telling["points"], dtype=np.float64)
        names = [str(name) for name in material.telling["names"]]
        seen = np.isfinite(points).all(axis=1)
        caption = f"The two columns that tell the clusters apart best. {blended}"
        if seen.any():
            yield (
                "Telling columns",
                caption,
                lambda ax: _scatter(points[seen], some[seen], labels, names, ax),
                4.2,
                "telling",
            )
    if k == 3:
        few = U if n <= OBJECTS else U[np.linspace(0, n - 1, OBJECTS).astype(int)]
        caption = "Corners are certain; dotted lines are where the label changes."
        live = "simplex" if material.coordinates is not None else ""
        yield "Simplex", caption, lambda ax: plot.simplex(few, names=labels, ax=ax), 4.2, live


def _axes_said(axes: Sequence[Any] | None) -> str:
    return "" if axes is None else f"Across: {axes[0]}. Up: {axes[1]}. "


def _scatter(points: np.ndarray, U: np.ndarray, labels: Sequence[str], axes: Any, ax: Any) -> Any:
    return plot.scatter(points, U, names=labels, axis_names=axes, ax=ax)


def _of_memberships(U: np.ndarray, labels: Sequence[str], material: Material) -> Iterator[Plan]:
    k = U.shape[1]
    if 1 < k <= 30:
        caption = (
            "One column for each object, one band for each cluster: full colour is a membership of "
            "1."
        )
        live = "bands" if material.coordinates is not None else ""
        height = max(3.1, 0.9 + 0.35 * k)
        yield (
            "Memberships",
            caption,
            lambda ax: plot.memberships(U, names=labels, ax=ax),
            height,
            live,
        )
    if 1 < k <= 8:
        caption = "The same as curves: where two cross, objects are shared."
        yield "Curves", caption, lambda ax: plot.profiles(U, names=labels, ax=ax), 3.1, ""
    if k > 1:
        caption = (
            "How many objects have a largest membership of this size. Certain objects are on the "
            "right."
        )
        yield "Certainty", caption, lambda ax: plot.uncertainty(U, names=labels, ax=ax), 3.1, ""


def _of_material(U: np.ndarray, labels: Sequence[str], material: Material) -> Iterator[Plan]:
    if material.history is not None and len(material.history) > 1:
        caption = "The objective after every iteration."
        yield "Search", caption, lambda ax: plot.history(material.history, ax=ax), 3.1, ""
    if material.selection is not None:
        caption = "The score of every number of clusters that was tried: higher is better."
        chosen = material.selection
        yield "Number of clusters", caption, lambda ax: plot.selection(**chosen, ax=ax), 3.1, ""
    if material.similarity is not None:
        means = np.asarray(material.similarity)
        caption = "The evidence: how alike objects are, in the order of their clusters."
        yield "Similarity", caption, lambda ax: heat_map(means, len(U), "", ax), 4.2, ""
        caption = (
            "What the memberships make of it: the chance that two objects belong together. "
            "Its blocks should be those of the evidence."
        )

        def rebuilt(ax: Any) -> Any:
            return _untitled(plot.reconstruction(U, material.scale, ax=ax))

        yield "Reconstruction", caption, rebuilt, 4.2, ""
    if material.classes is not None:
        kinds, table = _table(material.classes, U)
        names = {"row_names": kinds, "column_names": labels, "row_title": material.class_title}
        if len(kinds) <= 30:
            caption = "Objects of each known class, shared out by membership."
            height = max(3.1, 1.2 + 0.35 * len(kinds))
            yield (
                "Known classes",
                caption,
                lambda ax: plot.contingency(table, **names, ax=ax),
                height,
                "",
            )


def _table(classes: Sequence[Any], U: np.ndarray) -> tuple[list[str], np.ndarray]:
    kinds, codes = np.unique(np.asarray([str(value) for value in classes]), return_inverse=True)
    table = np.zeros((len(kinds), U.shape[1]))
    np.add.at(table, codes, U)
    return [plain(kind, 28) for kind in kinds], table


def _bare(ax: Any) -> Any:
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _untitled(ax: Any) -> Any:
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
