"""Side by side in one run: interleaved repeats, medians, ratios."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One row of the table: what, ours and the peer's (in ``unit``), the ratio, the figure to reach, and a remark.

    The ratio is peer / ours, or ours / peer where ``larger`` is better: above 1, ours is ahead.
    """

    what: str
    ours: float
    peer: float
    peer_name: str
    unit: str = "s"
    target: str = ""
    note: str = ""
    larger: bool = False

    @property
    def ratio(self) -> float:
        above, below = (self.ours, self.peer) if self.larger else (self.peer, self.ours)
        return above / below if below else float("inf")


def medians(functions: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each function; the repeats are interleaved so that a noisy moment hits all of them."""
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
    head = f"### {title}\n\n| what | ours | peer | ratio | target | note |\n|---|---|---|---|---|---|\n"
    return head + "".join(_row(line) for line in lines)


def _row(line: Line) -> str:
    alone = math.isnan(line.peer)
    peer = "" if alone else f"{line.peer:.4g} {line.unit} ({line.peer_name})"
    ratio = "" if alone else f"{line.ratio:.2f}"
    return f"| {line.what} | {line.ours:.4g} {line.unit} | {peer} | {ratio} | {line.target} | {line.note} |\n"
