"""Content of the page (figures, sentences, data of the script), and the filled-in template."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import plot
from ..array.text import plain
from ..io.reading import extra
from ..memberships import margin, sizes
from ..plot import palette
from ..plot._objects import heat_map
from ..selection.choose import Choice
from ._description import borderline, shown_mean, typical

_SURE, _SHARED = 0.9, 0.2  # largest membership of a certain object; margin of a shared one


class Facts(NamedTuple):
    """Content of a report besides memberships and data; every field is optional."""

    noise_cluster: bool = False  # whether the last column is noise rather than a cluster
    coordinates: Any = None  # (m, 2), positions of the objects in ``shown``
    shown: Any = None  # indices (m,); None for all objects
    axes: Sequence[Any] | None = None  # names of the two coordinates
    description: Mapping[str, Any] | None = None  # result of ``describe``
    similarity: Any = None  # block means of a similarity in cluster order (``plot.block_means``)
    scale: float = 1.0  # the similarity is compared with scale * U U'
    history: Any = None  # objective after every iteration
    selection: Mapping[str, Any] | None = None  # arguments of ``plot.selection``
    converged: bool | None = None
    verdict: Mapping[str, str] | None = None  # ``kind`` and ``text``, as from ``selection.verdict``
    warnings: Sequence[str] = ()  # warnings of the fit
    notes: Sequence[str] = ()  # changes made to the data: scaling, columns left out
    metrics: Mapping[str, Any] | None = None  # measures by name
    made: Mapping[str, Any] | None = None  # parameters, versions, seed
    class_title: str = "class"  # meaning of the known classes
    levels: Any = None  # the levels to show, as from ``levels_of``
    finest: Any = None  # memberships at the finest of these levels; None if it is the answer


def facts_of(model: Any) -> Facts:
    """Content of a report that a fitted model provides itself."""
    history = np.asarray(getattr(model, "history_", ()), dtype=np.float64)
    made = {"model": type(model).__name__}
    made |= {f"parameter {name}": value for name, value in model.get_params(deep=False).items()}
    return Facts(
        noise_cluster=getattr(model, "noise_cluster", None) is not None,
        history=history if history.ndim == 1 and len(history) else None,
        converged=getattr(model, "converged_", None),
        selection=curve_of_model(model),
        warnings=[str(note) for note in getattr(model, "notes_", ())],
        made={name: value for name, value in made.items() if value is not None},
    )


def curve_of_choice(choice: Choice) -> dict[str, Any] | None:
    """Candidates of a ``Choice`` that have a score; None if there are fewer than two."""
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
    """Scores by which a fitted model chose its number of clusters; None if it was given."""
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


def fill(**content: Any) -> str:
    """The filled-in template; every name is shown as text."""
    jinja2 = extra("jinja2", "reports need jinja2 and matplotlib", "'sfumato[cli]'")
    strict = {"undefined": jinja2.StrictUndefined, "trim_blocks": True}
    environment = jinja2.Environment(autoescape=True, **strict)
    environment.filters["name"] = lambda name, width=80: plain(name, width)
    environment.filters["mean"] = shown_mean
    environment.filters["said"] = _said
    style, script, template = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("style.css", "script.js", "template.html")
    )
    return environment.from_string(template).render(
        style=style, style_hash=_hash(style), script=script, script_hash=_hash(script), **content
    )


def _said(text: str) -> str:
    """Text as HTML whose options of the command line are not broken at their hyphens."""
    words = escape(plain(text, 600))
    return re.sub(r"--[a-z]+[a-z-]*", r'<span class="option">\g<0></span>', words)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def overview(description: Mapping[str, Any], count: int = 8) -> list[dict[str, Any]]:
    """The columns that differ most between clusters: a value per cluster and a shade from -4 to 4.

    One shade is half a standard deviation of all objects.
    """
    found = []
    for each in (description.get("contrasts") or [])[:count]:
        steps = (np.array(each["values"]) - each["overall"]) / (each["spread"] or 1.0)
        shades = np.clip(np.rint(2 * steps), -4, 4).astype(int).tolist()
        shown = [shown_mean(value, each["kind"]) for value in each["values"]]
        cells = [{"shade": s, "value": v} for s, v in zip(shades, shown, strict=True)]
        found.append({"name": each["name"], "cells": cells})
    return found


def live_data(
    finest: np.ndarray,
    names: Sequence[Any],
    views: Sequence[Mapping[str, Any]],
    facts: Facts,
    classes: Sequence[Any] | None,
) -> str | None:
    """Data of the script, as safely embedded JSON; None for more than thirty clusters."""
    if finest.shape[1] > 30:
        return None
    n, description = len(finest), facts.description or {}
    places = np.arange(n) if facts.shown is None else np.asarray(facts.shown)
    if len(places) > 3000:
        places = np.linspace(0, n - 1, 3000).astype(int)
    rows = description.get("rows") or [[] for _ in places]
    held = {
        "names": [plain(names[int(i)], 80) for i in places],
        "memberships": np.rint(1000 * finest[places]).astype(int).tolist(),
        "colours": _colours(finest.shape[1]),
        "levels": [_live_level(view) for view in views],
        "columns": [plain(name, 40) for name in description.get("columns", [])],
        "rows": [[plain(cell, 40) for cell in row] for row in rows],
        "planes": _planes(facts),
        "classes": None
        if classes is None
        else {
            "title": plain(facts.class_title, 40),
            "values": [plain(classes[int(i)], 40) for i in places],
        },
    }
    text = json.dumps(held, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _live_level(view: Mapping[str, Any]) -> dict[str, Any]:
    """Data of one level: how finest clusters add up, and where clusters differ."""
    return {
        "own": view["own"],
        "parents": view["level"].parents,
        "clusters": view["names"],
        "contrasts": [
            {
                "name": plain(each["name"], 60),
                "share": each["kind"] == "category",
                "means": [float(f"{v:.6g}") for v in each["values"]],
                "shown": [shown_mean(v, each["kind"]) for v in each["values"]],
                "spreads": [float(f"{v:.6g}") for v in each["spreads"]],
            }
            for each in view["described"].get("contrasts") or []
        ],
    }


def _planes(facts: Facts) -> dict[str, Any]:
    """Points of the interactive pictures, and the names of their axes."""
    found: dict[str, Any] = {}
    if facts.coordinates is not None:
        points = np.asarray(facts.coordinates, dtype=np.float64)
        names = ["", ""] if facts.axes is None else [plain(name, 60) for name in facts.axes]
        found["map"] = {"points": [[float(f"{v:.5g}") for v in p] for p in points], "names": names}
    if telling := (facts.description or {}).get("plane"):
        named = [plain(name, 40) for name in telling["names"]]
        found["telling"] = {"points": telling["points"], "names": named}
    return found


def _colours(k: int) -> list[str]:
    return ["#" + "".join(f"{round(255 * part):02x}" for part in rgb) for rgb in palette(k)]


def answer(
    U: np.ndarray, names: Sequence[Any], labels: Sequence[str], noise: bool = False
) -> dict[str, Any]:
    """Headline figures and one row per cluster; ``noise``, if present, comes last."""
    n, k = U.shape
    largest, own = U.max(axis=1), U.argmax(axis=1)
    counts, soft, colours = np.bincount(own, minlength=k), sizes(U), _colours(k)
    rows = [
        {
            "name": labels[cluster],
            "colour": colours[cluster],
            "count": int(counts[cluster]),
            "size": float(soft[cluster]),
            "share": float(soft[cluster] / n),
            "certainty": float(largest[own == cluster].mean()) if counts[cluster] else None,
            "typical": [names[i] for i in typical(U, cluster)],
        }
        for cluster in range(k)
    ]
    return {
        "n": n,
        "k": k - noise,
        "noise": noise,
        "certainty": float(largest.mean()),
        "sure": float((largest >= _SURE).mean()),
        "shared": int((margin(U) < _SHARED).sum()) if k > 1 else 0,
        "clusters": rows,
    }


def doubtful(U: np.ndarray, names: Sequence[Any], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Objects that are closest to a tie between their two best clusters, closest first."""
    colours = _colours(U.shape[1])
    return [
        {
            "name": names[i],
            "parts": [
                {"name": labels[c], "colour": colours[c], "value": float(U[i, c])}
                for c in np.argsort(-U[i], kind="stable")[:3]
                if U[i, c] >= 0.005
            ],
        }
        for i in borderline(U)
    ]


def trust(U: np.ndarray, facts: Facts, classes: Any = None) -> dict[str, Any]:
    """Figures about the reliability of the answer, which the template turns into sentences."""
    n, k = U.shape
    largest, counts = U.max(axis=1), np.bincount(U.argmax(axis=1), minlength=k)
    selection, accuracy = facts.selection or {}, (facts.metrics or {}).get("matched accuracy")
    scores = dict(zip(selection.get("n_clusters", ()), selection.get("scores", ()), strict=True))
    chosen, stated = selection.get("chosen") or k, float(largest.mean())
    others = sorted(set(scores) - {chosen}, key=lambda number: -scores[number])
    # With more or fewer clusters than classes, objects of divided classes would count as wrong.
    kinds = {str(name) for name in ([] if classes is None else classes)} - {"no class"}
    return {
        "k": k,
        "warnings": facts.warnings,
        "notes": [f"{text[:1].upper()}{text[1:]}." for text in facts.notes],
        "stopped": facts.converged is False,
        "scores": scores if len(scores) > 1 else {},
        "score": selection.get("name") or "score",
        "chosen": chosen,
        "others": others[:2],
        "stated": stated,
        "accuracy": None if accuracy is None or k != len(kinds) else float(accuracy),
        "sure": float((largest >= _SURE).mean()),
        "shared": float((margin(U) < _SHARED).mean()) if k > 1 else 0.0,
        # 0 for equal and 1 for certain memberships, for any number of clusters.
        "vague": k > 1 and (stated * k - 1) / (k - 1) < 0.25,
        "crisp": min(n, k) > 1 and (largest > 0.999).mean() > 0.98,
        "empty": int((counts == 0).sum()),
        "small": int(((counts > 0) & (counts < max(3, 0.005 * n))).sum()) if k > 1 else 0,
    }


# Colours of paper, ink and lines (as in report.mplstyle), used for nothing else in a picture.
_LIGHT = ("#fdfeff", "#1d2530", "#8a94a3")
_DARK = ("#1a2029", "#e4e8ee", "#76808f")


# Title, function that draws on ``ax`` (None: interactive only), height in inches, name of the
# interactive picture that replaces it, and text before the caption.
Plan = tuple[str, Callable[..., Any] | None, float, str, str]


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
        draw = partial(plot.scatter, at, some, names=labels, axis_names=axes)
        yield "Map", draw, 4.2, "map", said + part
    if telling := (facts.description or {}).get("plane"):
        points = np.array(telling["points"], dtype=np.float64)
        seen = np.isfinite(points).all(axis=1)
        draw = partial(plot.scatter, points[seen], some[seen], axis_names=telling["names"])
        if seen.any():
            yield "Telling columns", partial(draw, names=labels), 4.2, "telling", part
    if 3 <= finest <= 30:
        few = U if n <= 3000 else U[np.linspace(0, n - 1, 3000).astype(int)]
        corners = partial(plot.simplex, few, names=labels) if k == 3 else None
        yield "Simplex", corners, 4.2, "simplex", ""
    if 1 < k <= 30:
        bands = partial(plot.memberships, U, names=labels)
        yield "Memberships", bands, max(3.1, 0.9 + 0.35 * k), "bands", ""
    if k > 1:
        live = "certainty" if k <= 30 else ""
        yield "Certainty", partial(plot.uncertainty, U, names=labels), 3.1, live, ""


def _of_facts(U: np.ndarray, labels: Sequence[str], facts: Facts, classes: Any) -> Iterator[Plan]:
    if facts.history is not None and len(np.unique(facts.history)) > 1:
        yield "Search", partial(plot.history, facts.history), 3.1, "", ""
    if facts.selection is not None:
        yield "Number of clusters", partial(plot.selection, **facts.selection), 3.1, "", ""
    if facts.similarity is not None:
        means = np.asarray(facts.similarity)
        means = np.minimum(means, np.quantile(means, 0.98))  # a few pairs would darken all others
        yield "Similarity", partial(heat_map, means, len(U), ""), 4.2, "", ""
        yield "Reconstruction", partial(plot.reconstruction, U, facts.scale), 4.2, "", ""
    if classes is not None and len(kinds := set(map(str, classes))) <= 30:
        named: Any = {"column_names": labels, "row_title": facts.class_title}
        draw = partial(plot.contingency, [str(kind) for kind in classes], U, **named)
        yield "Known classes", draw, max(3.1, 1.2 + 0.35 * len(kinds)), "classes", ""


def _images(draw: Callable[..., Any], height: float) -> tuple[str, ...]:
    """The picture for light and for dark screens, as data URLs."""
    light = dark = _svg(draw, height)
    for colour, other in zip(_LIGHT, _DARK, strict=True):
        dark = dark.replace(colour, other)
    texts = (base64.b64encode(svg.encode()).decode("ascii") for svg in (light, dark))
    return tuple("data:image/svg+xml;base64," + text for text in texts)


def _svg(draw: Callable[..., Any], height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    found = matplotlib.rc_params_from_file(Path(__file__).with_name("report.mplstyle"))
    style: Any = {key: value for key, value in found.items() if key != "backend"}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # glyphs that the font lacks are drawn as boxes
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(5.2, height), layout="constrained")
        ax = figure.subplots()
        draw(ax=ax)
        ax.set_title("")  # the page has it
        for points in ax.collections:
            points.set_rasterized(np.shape(points.get_offsets())[0] > 300)
        buffer = BytesIO()
        figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None, "Creator": None})
    return buffer.getvalue().decode()
