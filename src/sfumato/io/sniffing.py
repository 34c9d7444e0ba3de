"""How a text table is written: delimiter, decimal comma, header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from itertools import islice
from typing import NamedTuple

from ..core.text import plain
from ._tables import InputError

__all__ = ["MISSING", "Dialect", "number", "sniff"]

MISSING = frozenset(
    {"", "na", "n/a", "n.a.", "nan", "null", "none", "?", ".", "-", "--"}
    | {"#n/a", "#na", "#value!", "#div/0!", "#ref!", "#num!"}  # as spreadsheets write them
)
_ROWS = 200
_DELIMITERS = (",", "\t", ";", "|", " ")
_NAMED = re.compile(r'"?sep=([^"\r\n])"?(?:\r?\n|\r)', re.IGNORECASE)  # as spreadsheets write it


class Dialect(NamedTuple):
    """How to cut lines into cells and read numbers, and how many lines stand above the table."""

    delimiter: str
    decimal: str
    header: bool
    columns: list[str]
    above: int = 0


def number(cell: str, decimal: str = ".") -> float | None:
    """The number in a cell, NaN for a missing one, ``None`` for text."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return float("nan")
    try:
        return float(cell.replace(",", ".") if decimal == "," else cell)
    except ValueError:
        return None


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
    candidates = (delimiter,) if delimiter else _DELIMITERS
    choices = [
        (_fitness(rows, mark), -place, mark, rows)
        for place, mark in enumerate(candidates)
        if (rows := _cut(sample, mark))
    ]
    if not choices:
        raise InputError(f"{source}: the text cannot be cut into cells; quotes may be open")
    _, _, mark, rows = max(choices, key=lambda choice: choice[:2])
    decimal = "," if mark != "," and _decimal_comma(rows[1:] or rows) else "."
    has_header = _has_header(rows, decimal) if header is None else header
    width = Counter(len(row) for row in rows[1:] or rows).most_common(1)[0][0]
    if not has_header:
        return Dialect(mark, decimal, False, [str(place) for place in range(width)])
    columns = [name.strip() for name in rows[0]]
    return Dialect(mark, decimal, True, ["", *columns] if len(columns) == width - 1 else columns)


def _cut(sample: str, delimiter: str) -> list[list[str]]:
    """Some rows of the sample, cut into cells."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        return [row for row in islice(reader, _ROWS) if any(cell.strip() for cell in row)]
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
    decimal = "," if delimiter != "," and _decimal_comma(body) else "."
    cells = [cell for row in body for cell in row]
    numeric = sum(number(cell, decimal) is not None for cell in cells) / len(cells)
    if delimiter == " " and numeric < 0.5:
        return 0.0, 0.0, 0
    return steady / len(body), numeric, width


def _decimal_comma(rows: list[list[str]]) -> bool:
    """Whether numbers are written 1,5.

    Some cells are numbers only that way, and none holds a point.
    """
    cells = [cell for row in rows for cell in row if number(cell) is None]
    return any(number(cell, ",") is not None for cell in cells) and not any(
        "." in cell and number(cell) is not None for row in rows for cell in row
    )


def _has_header(rows: list[list[str]], decimal: str) -> bool:
    first, body = rows[0], rows[1:]
    if not body:
        return not any(number(cell, decimal) is not None for cell in first)
    if len(body[0]) == len(first) + 1 or (not first[0].strip() and len(first) > 1):
        return True
    if len(first) > 2 and [cell.strip() for cell in first] in (
        [str(i) for i in range(len(first))],
        [str(i + 1) for i in range(len(first))],
    ):
        return True
    columns = list(zip(*(row for row in body if len(row) == len(first)), strict=True))
    if not columns:
        return number(first[0], decimal) is None
    text = [number(cell, decimal) is None for cell in first]
    numeric = [
        sum(number(cell, decimal) is not None for cell in column) > 0.5 * len(column)
        for column in columns
    ]
    if any(numeric):
        return any(is_text for is_text, is_number in zip(text, numeric, strict=True) if is_number)
    return all(text) and all(
        cell not in column for cell, column in zip(first, columns, strict=True)
    )
