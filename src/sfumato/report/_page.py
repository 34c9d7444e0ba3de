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
from ._columns import amount

__all__ = ["fill", "live_data", "overview"]


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
    environment.filters["amount"] = amount
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
    U: np.ndarray,
    names: Sequence[Any],
    labels: Sequence[str],
    shown: Any,
    planes: Mapping[str, Any],
    description: Mapping[str, Any],
    classes: Sequence[Any] | None = None,
    class_title: str = "class",
) -> str | None:
    """What the script needs, as JSON that cannot end the element it stands in; None without
    a map.
    """
    if "map" not in planes or U.shape[1] > 30:
        return None
    places = np.arange(len(U)) if shown is None else np.asarray(shown)
    if U.shape[1] == 3:
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
        points = (U[places] @ corners).round(4).tolist()
        planes = {**planes, "simplex": {"points": points, "names": list(labels)}}
    rows = description.get("rows") or [[] for _ in places]
    held = {
        "names": [plain(names[int(i)], 80) for i in places],
        "memberships": np.rint(1000 * U[places]).astype(int).tolist(),
        "colours": [
            "#" + "".join(f"{round(255 * part):02x}" for part in colour)
            for colour in palette(U.shape[1])
        ],
        "clusters": list(labels),
        "columns": [plain(name, 40) for name in description.get("columns", [])],
        "rows": [[plain(cell, 40) for cell in row] for row in rows],
        "planes": planes,
        "contrasts": [
            {
                "name": plain(each["name"], 60),
                "share": each["kind"] == "category",
                "means": [float(f"{v:.6g}") for v in each["values"]],
                "shown": [shown_mean(v, each["kind"]) for v in each["values"]],
                "spreads": [float(f"{v:.6g}") for v in each["spreads"]],
            }
            for each in description.get("contrasts") or []
        ],
        "classes": None
        if classes is None
        else {
            "title": plain(class_title, 40),
            "values": [plain(classes[int(i)], 40) for i in places],
        },
    }
    text = json.dumps(held, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
