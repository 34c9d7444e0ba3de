"""The report's pictures: drawn twice, for light and for dark screens, as SVG images inside the
page.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from .. import plot
from ..array.text import plain
from ..plot._pairs import heat_map
from ._facts import Facts

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


# Title, caption, how to draw it on axes (None: live only), height in inches, and the live picture.
Plan = tuple[str, str, Callable[[Any], Any] | None, float, str]


def pictures(
    U: np.ndarray, labels: Sequence[str], facts: Facts, classes: Any, finest: int
) -> list[Picture]:
    """Every picture that the facts allow; at another of ``finest`` levels only the live ones."""
    plans = [
        *_of_objects(U, labels, facts, finest),
        *_of_memberships(U, labels),
        *_of_facts(U, labels, facts, classes),
    ]
    return [
        Picture(title, caption, *(("", "") if draw is None else _images(draw, height)), live)
        for title, caption, draw, height, live in plans
    ]


def _of_objects(U: np.ndarray, labels: Sequence[str], facts: Facts, finest: int) -> Iterator[Plan]:
    n, k = U.shape
    rows = slice(None) if facts.shown is None else np.asarray(facts.shown)
    some = U[rows]
    part = f" {len(some):,} of {n:,} objects." if len(some) < n else ""
    blended = (
        f"The colour blends those of the object's clusters; the fainter, the less certain.{part}"
    )
    if facts.coordinates is not None:
        at, axes = np.asarray(facts.coordinates), facts.axes
        caption = f"{_axes_said(axes)}{blended}"
        yield "Map", caption, lambda ax: _bare(_scatter(at, some, labels, axes, ax)), 4.2, "map"
    if telling := (facts.description or {}).get("plane"):
        points = np.array(telling["points"], dtype=np.float64)
        names = [str(name) for name in telling["names"]]
        seen = np.isfinite(points).all(axis=1)
        caption = f"The two columns that tell the clusters apart best. {blended}"

        def told(ax: Any) -> Any:
            return _scatter(points[seen], some[seen], labels, names, ax)

        if seen.any():
            yield "Telling columns", caption, told, 4.2, "telling"
    if 3 <= finest <= 30:
        few = U if n <= 3000 else U[np.linspace(0, n - 1, 3000).astype(int)]
        caption = "Corners are certain; dotted lines are where the label changes."

        def corners(ax: Any) -> Any:
            return plot.simplex(few, names=labels, ax=ax)

        yield "Simplex", caption, corners if k == 3 else None, 4.2, "simplex"


def _axes_said(axes: Sequence[Any] | None) -> str:
    return "" if axes is None else f"Across: {axes[0]}. Up: {axes[1]}. "


def _scatter(points: np.ndarray, U: np.ndarray, labels: Sequence[str], axes: Any, ax: Any) -> Any:
    return plot.scatter(points, U, names=labels, axis_names=axes, ax=ax)


def _of_memberships(U: np.ndarray, labels: Sequence[str]) -> Iterator[Plan]:
    k = U.shape[1]
    if 1 < k <= 30:
        caption = "One column for each object, one band for each cluster: full colour is a "
        caption += "membership of 1."
        height = max(3.1, 0.9 + 0.35 * k)
        draw = partial(plot.memberships, U, names=labels)
        yield "Memberships", caption, lambda ax: draw(ax=ax), height, "bands"
    if k > 1:
        caption = "How many objects have a largest membership of this size. Certain objects are on "
        caption += "the right."
        live = "certainty" if k <= 30 else ""
        yield "Certainty", caption, lambda ax: plot.uncertainty(U, names=labels, ax=ax), 3.1, live


def _of_facts(U: np.ndarray, labels: Sequence[str], facts: Facts, classes: Any) -> Iterator[Plan]:
    if facts.history is not None and len(facts.history) > 1:
        caption = "The objective after every iteration."
        yield "Search", caption, lambda ax: plot.history(facts.history, ax=ax), 3.1, ""
    if facts.selection is not None:
        caption = "The score of every number of clusters that was tried: higher is better."
        chosen = facts.selection
        yield "Number of clusters", caption, lambda ax: plot.selection(**chosen, ax=ax), 3.1, ""
    if facts.similarity is not None:
        means = np.asarray(facts.similarity)
        caption = "The evidence: how alike objects are, in the order of the answer's clusters."
        yield "Similarity", caption, lambda ax: heat_map(means, len(U), "", ax), 4.2, ""
        caption = (
            "What the memberships of the answer make of it: the chance that two objects belong "
            "together. Its blocks should be those of the evidence."
        )

        def rebuilt(ax: Any) -> Any:
            return _untitled(plot.reconstruction(U, facts.scale, ax=ax))

        yield "Reconstruction", caption, rebuilt, 4.2, ""
    if classes is not None:
        kinds, table = _table(classes, U)
        names: dict[str, Any] = {
            "row_names": kinds,
            "column_names": labels,
            "row_title": facts.class_title,
        }
        if len(kinds) <= 30:
            caption = "Objects of each known class, shared out by membership."
            height = max(3.1, 1.2 + 0.35 * len(kinds))
            draw = partial(plot.contingency, table, **names)
            yield "Known classes", caption, lambda ax: draw(ax=ax), height, "classes"


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
    """The picture for light and for dark screens, as data addresses."""
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
