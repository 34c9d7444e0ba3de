"""Output for the user: results on standard output, progress and remarks on standard error.

Names are printed literally, never as markup.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..array.text import plain
from ..engine.structure import PREFIX


class Terminal:
    """Prints tables for people, or one JSON object for programs."""

    patience = 15.0  # seconds before the first progress line, if there is no bar

    def __init__(
        self, *, as_json: bool = False, quiet: bool = False, to_errors: bool = False
    ) -> None:
        self.as_json, self.quiet, self.to_errors = as_json, quiet, to_errors
        self.warned: set[str] = set()

    def _console(self, *, errors: bool = False) -> Any:
        from rich.console import Console

        return Console(stderr=errors, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def table(
        self, title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], width: int = 90
    ) -> None:
        """Print a table without empty columns; numbers are right-aligned, and long text is cut."""
        if self.as_json or self.quiet:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(plain(title, 100)), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
        )
        cells = [[_shown(value, width) for value in row] for row in rows]
        kept = [i for i in range(len(headings)) if any(row[i] is not None for row in rows)]
        for place in kept:
            numeric = all(re.fullmatch(r"–|-?[\d,]+(\.\d+)?", row[place]) for row in cells)
            justify: Any = "right" if numeric else "left"
            table.add_column(Text(plain(headings[place], 40)), justify=justify, overflow="fold")
        for row in cells:
            table.add_row(*(Text(row[place]) for place in kept))
        self._console(errors=self.to_errors).print(table)

    def say(self, text: str) -> None:
        """Print a line of the result."""
        if not (self.as_json or self.quiet):
            print(plain(text, 2000), file=sys.stderr if self.to_errors else sys.stdout)

    def remark(self, text: str) -> None:
        """Print a line about the work that is not part of the result."""
        if not self.quiet:
            print(f"sfumato: {plain(text, 500)}", file=sys.stderr)

    @contextmanager
    def heard(self) -> Iterator[list[str]]:
        """Collect and show warnings, in terms of the command line.

        Warnings of the structure test and of the search for a number are left to the verdict.
        """
        said: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield said
        judged = (PREFIX, "no number of clusters ")
        said += dict.fromkeys(
            _as_options(text)
            for warning in caught
            if issubclass(warning.category, UserWarning)
            and not (text := str(warning.message)).startswith(judged)
        )
        for text in said:
            if text not in self.warned:  # the search and the fit may both give this warning
                self.remark(f"warning: {text}")
            self.warned.add(text)

    def record(self, content: dict[str, Any]) -> None:
        """Print the result as JSON, if asked for."""
        if self.as_json:
            print(json.dumps(content, indent=2))

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[..., None]]:
        """A function ``advance(share, text)``: a bar on a terminal, else a line now and then."""
        if self.quiet or not sys.stderr.isatty():
            yield self._lines(what)
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console(errors=True), transient=True) as bar:
            task = bar.add_task(what, total=1.0, text="")
            yield lambda share, text="": bar.update(task, completed=share, text=text)
            bar.update(task, completed=1.0)

    def _lines(self, what: str) -> Callable[..., None]:
        """Progress lines after increasing pauses, so that logs stay short."""
        began, pause = time.monotonic(), self.patience

        def advance(share: float, text: str = "") -> None:
            nonlocal pause
            passed = time.monotonic() - began
            if passed >= pause:
                self.remark(f"{what}: {share:.0%}{', ' * bool(text)}{text} ({passed:.0f} s)")
                pause = 2 * passed

        return advance


def finite(value: Any) -> Any:
    """``value``, or None for NaN and infinity, as JSON needs it."""
    return value if math.isfinite(value) else None


def _as_options(text: str) -> str:
    """A message in which model parameters are replaced by the options that set them."""
    options = {
        "n_clusters": "--clusters ",
        "random_state": "--seed ",
        "similarity": "--similarity ",
    }
    set_by = re.compile(r"(?<![\w.(-])([a-z]+(?:_[a-z]+)*)=(\"[^\"]*\"|'[^']*'|[\w.]+)")
    named = set_by.sub(lambda m: options.get(m[1], f"--set {m[1]}=") + m[2].strip("\"'"), text)
    return re.sub(r"\bn_clusters\b", "--clusters", named)


def _shown(value: object, width: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    return plain(value, width)
