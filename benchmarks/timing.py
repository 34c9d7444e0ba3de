"""Side by side in one run: interleaved repeats, medians, ratios."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One row of the table: what, ours and the peer's (in ``unit``), the ratio, the figure to
    reach, and a remark.

    The ratio is peer / ours, or ours / peer where ``larger`` is better: above 1, ours is ahead.
    ``limit`` (see ``roofline.limit``) is the least that the bytes and operations of the work take
    on this machine.
    """

    what: str
    ours: float
    peer: float
    peer_name: str
    unit: str = "s"
    target: str = ""
    note: str = ""
    larger: bool = False
    limit: float = math.nan

    @property
    def ratio(self) -> float:
        above, below = (self.ours, self.peer) if self.larger else (self.peer, self.ours)
        return above / below if below else float("inf")


def medians(functions: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each function.

    The repeats are interleaved so that a noisy moment hits all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def table(title: str, lines: list[Line]) -> str:
    """The lines as a markdown table."""
    limited = any(not math.isnan(line.limit) for line in lines)
    columns = ["what", "ours", "peer", "ratio", *(["limit"] if limited else []), "target", "note"]
    head = f"### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(_row(line, limited) for line in lines)


def _row(line: Line, limited: bool) -> str:
    alone = math.isnan(line.peer)
    peer = "" if alone else f"{line.peer:.4g} {line.unit} ({line.peer_name})"
    ratio = "" if alone else f"{line.ratio:.2f}"
    limit = (
        ""
        if math.isnan(line.limit)
        else f"{line.limit:.3g} {line.unit}, {line.ours / line.limit:.1f} times"
    )
    cells = [
        line.what,
        f"{line.ours:.4g} {line.unit}",
        peer,
        ratio,
        *([limit] if limited else []),
        line.target,
        line.note,
    ]
    return f"| {' | '.join(cells)} |\n"
