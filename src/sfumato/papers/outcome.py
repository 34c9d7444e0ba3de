"""What an experiment leaves: a table, pictures, or both."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array.types import ArrayLike

__all__ = ["Outcome", "ResultTable", "mean_and_deviation"]


class ResultTable(NamedTuple):
    """Rows under columns, with notes below."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table as a markdown section."""
        lines = [f"## {self.title}", "", _line(self.columns), _line("---" for _ in self.columns)]
        lines += [_line(row) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def csv(self) -> str:
        """The table as comma-separated values."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()


class Outcome(NamedTuple):
    """A table or ``None``, and matplotlib figures by file name."""

    table: ResultTable | None = None
    figures: dict[str, Any] | None = None


def mean_and_deviation(values: ArrayLike) -> str:
    """``.873±.012``, as the sources print it."""
    values = np.asarray(values, dtype=float)
    return "±".join(
        f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3f}"
        for value in (values.mean(), values.std())
    )


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
