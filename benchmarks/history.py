"""Figures of ours, commit by commit, in ``history.json``.

What has become slower, and since when.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .timing import Line

HISTORY = Path(__file__).parent / "history.json"
TOLERANCE = 1.1  # timings of two runs on a shared machine differ by less than that


def read() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Figures by benchmark and line, the oldest first."""
    return json.loads(HISTORY.read_text()) if HISTORY.exists() else {}


def record(name: str, lines: list[Line]) -> None:
    """Add the figures of a run, under the commit that gave them.

    a second run of a commit replaces the first.
    """
    known, commit = read(), _commit()
    for line in lines:
        entries = known.setdefault(name, {}).setdefault(line.what, [])
        entries[:] = [entry for entry in entries if entry["commit"] != commit]
        entries.append({"commit": commit, "ours": float(f"{line.ours:.4g}"), "unit": line.unit})
    HISTORY.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def worse(name: str, lines: list[Line]) -> list[str]:
    """A sentence for every figure that is worse than the last recorded one by more than a tenth."""
    found = []
    for line in lines:
        entries = read().get(name, {}).get(line.what)
        if not entries:
            continue
        before = entries[-1]["ours"]
        factor = before / line.ours if line.larger else line.ours / before
        if factor > TOLERANCE:
            now, unit = f"{line.ours:.4g}", line.unit
            found.append(
                f"{name}, {line.what}: {now} {unit}, was {before:.4g} at {entries[-1]['commit']}"
            )
    return found


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
