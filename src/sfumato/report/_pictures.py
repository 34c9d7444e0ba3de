"""Pictures of the report as embedded SVG images, each in a light and a dark version."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np

from .. import plot
from ..plot._pairs import heat_map
from ._page import Facts

# Colours of paper, ink and lines, used for nothing else in a picture.
_LIGHT = ("#fdfeff", "#1d2530", "#8a94a3")
_DARK = ("#1a2029", "#e4e8ee", "#76808f")


# Title, function that draws on axes (None: interactive only), height in inches, name of the
# interactive picture that replaces it, and text before the caption.
Plan = tuple[str, Callable[[Any], Any] | None, float, str, str]


def pictures(
    U: np.ndarray, labels: Sequence[str], facts: Facts, classes: Any, finest: int
) -> list[dict[str, str]]:
    """All pictures that the facts allow, as data URLs for light and for dark screens."""
    plans = [*_of_objects(U, labels, facts, finest), *_of_facts(U, labels, facts, classes)]
    return [
        {"title": title, "light": light, "dark": dark, "live": live, "said": said}
        for title, draw, height, live, said in plans
        for light, dark in [("", "") if draw is None else _images(draw, height)]
    ]


def _of_objects(U: np.ndarray, labels: Sequence[str], facts: Facts, finest: int) -> Iterator[Plan]:
    n, k = U.shape
    some = U if facts.shown is None else U[np.asarray(facts.shown)]
    part = f"{len(some):,} of {n:,} objects. " if len(some) < n else ""
    if facts.coordinates is not None:
        at, axes = np.asarray(facts.coordinates), facts.axes
        said = "" if axes is None else f"Across: {axes[0]}. Up: {axes[1]}. "

        def drawn(ax: Any) -> None:
            plot.scatter(at, some, names=labels, axis_names=axes, ax=ax).set(xticks=[], yticks=[])

        yield "Map", drawn, 4.2, "map", said + part
    if telling := (facts.description or {}).get("plane"):
        points = np.array(telling["points"], dtype=np.float64)
        names = [str(name) for name in telling["names"]]
        seen = np.isfinite(points).all(axis=1)
        draw = partial(plot.scatter, points[seen], some[seen], names=labels, axis_names=names)
        if seen.any():
            yield "Telling columns", lambda ax: draw(ax=ax), 4.2, "telling", part
    if 3 <= finest <= 30:
        few = U if n <= 3000 else U[np.linspace(0, n - 1, 3000).astype(int)]
        corners = None if k != 3 else lambda ax: plot.simplex(few, names=labels, ax=ax)
        yield "Simplex", corners, 4.2, "simplex", ""
    if 1 < k <= 30:
        bands = partial(plot.memberships, U, names=labels)
        yield "Memberships", lambda ax: bands(ax=ax), max(3.1, 0.9 + 0.35 * k), "bands", ""
    if k > 1:
        live = "certainty" if k <= 30 else ""
        yield "Certainty", lambda ax: plot.uncertainty(U, names=labels, ax=ax), 3.1, live, ""


def _of_facts(U: np.ndarray, labels: Sequence[str], facts: Facts, classes: Any) -> Iterator[Plan]:
    if facts.history is not None and len(np.unique(facts.history)) > 1:
        yield "Search", lambda ax: plot.history(facts.history, ax=ax), 3.1, "", ""
    if facts.selection is not None:
        chosen = facts.selection
        yield "Number of clusters", lambda ax: plot.selection(**chosen, ax=ax), 3.1, "", ""
    if facts.similarity is not None:
        means, rebuilt = np.asarray(facts.similarity), partial(plot.reconstruction, U, facts.scale)
        means = np.minimum(means, np.quantile(means, 0.98))  # a few pairs would darken all others
        yield "Similarity", lambda ax: heat_map(means, len(U), "", ax), 4.2, "", ""
        yield "Reconstruction", lambda ax: rebuilt(ax=ax).set_title(""), 4.2, "", ""
    if classes is not None and len(kinds := set(map(str, classes))) <= 30:
        height, title = max(3.1, 1.2 + 0.35 * len(kinds)), facts.class_title
        draw = partial(plot.contingency, [str(kind) for kind in classes], U, column_names=labels)
        yield "Known classes", lambda ax: draw(row_title=title, ax=ax), height, "classes", ""


def _images(draw: Callable[[Any], Any], height: float) -> tuple[str, str]:
    """The picture for light and for dark screens, as data URLs."""
    light = _svg(draw, height)
    dark = light
    for colour, other in zip(_LIGHT, _DARK, strict=True):
        dark = dark.replace(colour, other)
    return _address(light), _address(dark)


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _svg(draw: Callable[[Any], Any], height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    paper, ink, line = _LIGHT
    style: dict[Any, Any] = {
        "axes.facecolor": paper,
        "axes.edgecolor": line,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": ink,
        "font.size": 10,
        "svg.hashsalt": "sfumato",
        "savefig.facecolor": paper,
    }
    for axis in "xy":
        style |= {f"{axis}tick.color": line, f"{axis}tick.labelcolor": ink}
    default: dict[Any, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"
    }
    with matplotlib.rc_context({**default, **style}), warnings.catch_warnings():
        # glyphs that the font lacks are drawn as boxes
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(5.2, height), layout="constrained")
        ax = figure.subplots()
        draw(ax)
        for points in ax.collections:
            points.set_rasterized(np.shape(points.get_offsets())[0] > 300)
        buffer = BytesIO()
        figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None, "Creator": None})
    return buffer.getvalue().decode()
