"""The page: template, style, script and the data that the script reads."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from ..array.text import plain
from ..plot import palette
from ._facts import Facts
from ._profiles import amount


def fill(**content: Any) -> str:
    """The template, filled in; every name in it is shown as text."""
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "reports need jinja2 and matplotlib: pip install 'sfumato[cli]'"
        ) from error
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["name"] = lambda name, width=80: plain(name, width)
    environment.filters["mean"] = shown_mean
    style, script, template = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("style.css", "script.js", "template.html")
    )
    return environment.from_string(template).render(
        style=style, style_hash=_hash(style), script=script, script_hash=_hash(script), **content
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def overview(description: Mapping[str, Any], count: int = 8) -> list[dict[str, Any]]:
    """The columns that differ most, with a shade from -4 to 4 and a value for every cluster.

    A shade is half a standard deviation from the mean of all objects.
    """
    found = []
    for each in (description.get("contrasts") or [])[:count]:
        steps = (np.array(each["values"]) - each["overall"]) / (each["spread"] or 1.0)
        shades = np.clip(np.rint(2 * steps), -4, 4).astype(int).tolist()
        shown = [shown_mean(value, each["kind"]) for value in each["values"]]
        cells = [{"shade": s, "value": v} for s, v in zip(shades, shown, strict=True)]
        found.append({"name": each["name"], "cells": cells})
    return found


def shown_mean(value: float, kind: str) -> str:
    """A mean, a share or a day as people read it."""
    if kind == "category":
        return f"{value:.0%}"
    return str(np.datetime64(round(value), "D")) if kind == "date" else amount(value)


def live_data(
    finest: np.ndarray,
    names: Sequence[Any],
    views: Sequence[Mapping[str, Any]],
    facts: Facts,
    classes: Sequence[Any] | None,
) -> str | None:
    """What the script needs, as JSON that cannot end the element it stands in; None where there
    are more than thirty clusters.
    """
    if finest.shape[1] > 30:
        return None
    n, told = len(finest), facts.description or {}
    places = np.arange(n) if facts.shown is None else np.asarray(facts.shown)
    if len(places) > 3000:
        places = np.linspace(0, n - 1, 3000).astype(int)
    rows = told.get("rows") or [[] for _ in places]
    held = {
        "names": [plain(names[int(i)], 80) for i in places],
        "memberships": np.rint(1000 * finest[places]).astype(int).tolist(),
        "colours": [
            "#" + "".join(f"{round(255 * part):02x}" for part in colour)
            for colour in palette(finest.shape[1])
        ],
        "levels": [_live_level(view) for view in views],
        "columns": [plain(name, 40) for name in told.get("columns", [])],
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
    """One level: its clusters as sums of the finest ones, and where they differ."""
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
    """Points of the live pictures, and what their axes are."""
    found: dict[str, Any] = {}
    if facts.coordinates is not None:
        points = np.asarray(facts.coordinates, dtype=np.float64)
        names = ["", ""] if facts.axes is None else [plain(name, 60) for name in facts.axes]
        found["map"] = {"points": [[float(f"{v:.5g}") for v in p] for p in points], "names": names}
    if telling := (facts.description or {}).get("plane"):
        named = [plain(name, 40) for name in telling["names"]]
        found["telling"] = {"points": telling["points"], "names": named}
    return found
