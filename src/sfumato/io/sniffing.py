"""How a text table is written: delimiter, decimal comma, header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..array.text import plain
from ._tables import InputError
from .written import number, written_number

__all__ = ["Dialect", "sniff"]

_NAMED = re.compile(r'"?sep=([^"\r\n])"?(?:\r?\n|\r)', re.IGNORECASE)  # as spreadsheets write it


class Dialect(NamedTuple):
    """How to cut lines into cells and read the numbers of each column, and how many lines stand
    above the table.
    """

    delimiter: str
    decimals: list[str]
    header: bool
    columns: list[str]
    above: int = 0


def sniff(
    sample: str, source: str, *, header: bool | None = None, delimiter: str | None = None
) -> Dialect:
    """The dialect of the text that begins with ``sample``.

    A first line ``sep=;`` names the delimiter and is not part of the table.
    """
    if (named := _NAMED.match(sample)) is not None:
        found = sniff(sample[named.end() :], source, header=header, delimiter=delimiter or named[1])
        return found._replace(above=found.above + 1)
    if not sample.strip():
        raise InputError(f"{source} is empty: there is no table in it")
    if delimiter and (len(delimiter) > 1 or delimiter in '"\r\n'):
        raise InputError(
            f"--delimiter must be one character that may stand between cells, got "
            f"{plain(repr(delimiter), 20)}: leave it out, and it is found (a tab is $'\\t')"
        )
    candidates = delimiter or ",\t;| "
    choices = [
        (_fitness(rows, mark), -place, mark, rows)
        for place, mark in enumerate(candidates)
        if (rows := _cut(sample, mark))
    ]
    if not choices:
        raise InputError(f"{source}: the text cannot be cut into cells; quotes may be open")
    _, _, mark, rows = max(choices, key=lambda choice: choice[:2])
    width = Counter(len(row) for row in rows[1:] or rows).most_common(1)[0][0]
    above, titles = _title_lines(sample, mark, width)
    rows = rows[titles:]
    decimals = _decimals(rows[1:] or rows, mark, width)
    has_header = _has_header(rows, decimals) if header is None else header
    if not has_header:
        return Dialect(mark, decimals, False, [str(place) for place in range(width)], above)
    columns = [name.strip() for name in rows[0]]
    columns = ["", *columns] if len(columns) == width - 1 else columns
    return Dialect(mark, decimals, True, columns, above)


def _title_lines(sample: str, delimiter: str, width: int) -> tuple[int, int]:
    """Lines above the table, and how many of them hold text: a title, in one cell of many."""
    reader = _reader(sample, delimiter)
    lines = titles = 0
    for row in islice(reader, 20):
        filled = sum(bool(cell.strip()) for cell in row)
        if filled > 1 or width < 3:
            return (lines, titles) if titles else (0, 0)
        lines, titles = reader.line_num, titles + filled
    return 0, 0


def _reader(sample: str, delimiter: str) -> Any:
    text = io.StringIO(sample, newline="")
    return csv.reader(text, delimiter=delimiter, skipinitialspace=True)


def _cut(sample: str, delimiter: str) -> list[list[str]]:
    """Some rows of the sample, cut into cells."""
    rows = islice(_reader(sample, delimiter), 200)
    try:
        return [row for row in rows if any(cell.strip() for cell in row)]
    except csv.Error:
        return []


def _fitness(rows: list[list[str]], delimiter: str) -> tuple[float, float, int]:
    """Steadiness of the number of cells, share of numbers, number of cells.

    One cell per line is the last resort.
    """
    body = rows[1:] or rows
    width, steady = Counter(map(len, body)).most_common(1)[0]
    if width == 1:
        return 0.0, 0.0, 1
    cells = [cell for row in body for cell in row]
    marks = "." if delimiter == "," else ".,"
    numeric = sum(any(number(cell, mark) is not None for mark in marks) for cell in cells)
    if delimiter == " " and numeric < 0.5 * len(cells):
        return 0.0, 0.0, 0
    return steady / len(body), numeric / len(cells), width


def _decimals(rows: list[list[str]], delimiter: str, width: int) -> list[str]:
    """What stands before the decimals, column by column."""
    whole = [row for row in rows if len(row) == width]
    return [_decimal(cells, delimiter) for cells in zip(*whole, strict=True)] or ["."] * width


def _decimal(cells: Sequence[str], delimiter: str) -> str:
    """A comma where some cells are numbers only that way, and none only with a point.

    "1,234" may be either: thousands where commas also stand between cells, else decimals.
    """
    commas = [cell for cell in cells if "," in cell and written_number(cell, ",") is not None]
    decided = any(written_number(cell, ".") is None for cell in commas)
    points = any(
        written_number(cell, ",") is None and written_number(cell, ".") is not None
        for cell in cells
        if "." in cell
    )
    return "," if (decided or (commas and delimiter != ",")) and not points else "."


def _has_header(rows: list[list[str]], decimals: list[str]) -> bool:
    first, body = rows[0], rows[1:]

    def says(cell: str, decimal: str = ".") -> bool:
        return number(cell, decimal) is not None or written_number(cell, decimal) is not None

    if not body:
        return not any(map(says, first))
    if len(body[0]) == len(first) + 1 or (not first[0].strip() and len(first) > 1):
        return True
    counted = [[str(start + i) for i in range(len(first))] for start in (0, 1)]
    if len(first) > 2 and [cell.strip() for cell in first] in counted:
        return True
    columns = list(zip(*(row for row in body if len(row) == len(first)), strict=True))
    if not columns:
        return not says(first[0])
    text = [not says(cell, mark) for cell, mark in zip(first, decimals, strict=False)]
    numeric = [
        sum(says(cell, mark) for cell in column) > 0.5 * len(column)
        for column, mark in zip(columns, decimals, strict=False)
    ]
    if any(numeric):
        return any(is_text for is_text, is_number in zip(text, numeric, strict=True) if is_number)
    return all(text) and all(
        cell not in column for cell, column in zip(first, columns, strict=True)
    )
