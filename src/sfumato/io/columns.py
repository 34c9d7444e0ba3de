"""Kinds of columns: numbers, yes or no, categories, dates, and columns that are not clustered.

Readers hand over ``Raw`` columns; ``judge`` says what each is, and ``encode`` makes one matrix of
those that are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array.text import plain
from .sniffing import MISSING, number
from .written import as_day, truth_words, written_number

__all__ = ["Cells", "Column", "Problem", "Raw", "encode", "encoded_names", "judge", "reading"]

# A column of text with more different values than this says little about groups of objects:
# one-hot, it would be mostly zeros. scikit-learn's gradient boosting draws its line at 255,
# surveys rarely offer more than twenty answers.
MOST_CATEGORIES = 20
_NO_WORD = MISSING - {"none"}  # among words "none" is an answer
_LINES = 20  # cells that are no numbers, of which the line is remembered
MOSTLY = 0.9  # share of different values of a column that names objects: rows may be repeated
_COUNTER = 10  # rows from which consecutive whole numbers are taken for a row counter

_ID_TITLE = re.compile(
    r"(?i:(.*[\s_.-])?(id|ids|uuid|guid|key|index|idx|rownum|row|nr|no|record|number|nummer))"
    r"|.*[a-z](Id|ID|Key|Nr|No|Number)|(?i:unnamed: 0)"
)


class Raw(NamedTuple):
    """A column as a reader gives it: numbers, or words with a code for each row (-1: missing)."""

    name: str
    numbers: np.ndarray | None
    words: list[str] = []
    codes: np.ndarray | None = None
    kind: str = ""  # what the file itself declares: "yes/no", "date", or nothing
    signs: tuple[str, ...] = ()  # percent, currency and units that stood beside numbers
    strange: tuple[tuple[str, int], ...] = ()  # cells of a column of numbers that are none, line


class Column(NamedTuple):
    """What a column is, whether it is used, and why not or how."""

    name: str
    kind: str  # number, yes/no, category, date, identifier, text, constant or empty
    used: bool
    note: str
    numbers: np.ndarray | None = None
    codes: np.ndarray | None = None  # of categories; -1 where there is none
    categories: list[str] = []


class Problem(NamedTuple):
    """A cell that cannot be read, in a column that is otherwise numbers."""

    column: str
    line: int
    cell: str
    more: int


class Cells:
    """Collects one column of a text file, block by block."""

    def __init__(self, name: str, decimal: str) -> None:
        self.name, self.decimal = name, decimal
        self.blocks: list[np.ndarray] = []  # floats, or codes of words
        self.coder: dict[str, int] = {}
        self.signs: dict[str, int] = {}
        self.strange: list[tuple[str, int]] = []
        self.odd: list[dict[int, str]] = []  # by block: cells of a block of numbers that are none

    def add(self, cells: Sequence[str], line_of: Any) -> None:
        """Add the cells of a block.

        ``line_of(index)`` is asked only for cells that are no numbers.
        """
        try:
            if self.decimal == ",":
                values = np.array([float(cell.replace(",", ".")) for cell in cells])
            else:
                values = np.fromiter(map(float, cells), np.float64, len(cells))
            if np.isfinite(values).all():
                self.blocks.append(values)
                self.odd.append({})
                return
        except ValueError:
            pass
        self._add_written(cells, line_of)

    def _add_written(self, cells: Sequence[str], line_of: Any) -> None:
        found = [self._value(cell) for cell in cells]
        odd = [place for place, value in enumerate(found) if value is None]
        present = len(cells) - sum(value is not None and np.isnan(value) for value in found)
        if 2 * len(odd) > present:
            codes = [
                -1
                if (word := cell.strip()).lower() in _NO_WORD
                else self.coder.setdefault(word, len(self.coder))
                for cell in cells
            ]
            self.blocks.append(np.array(codes, dtype=np.int32))
            self.odd.append({})
            return
        self.odd.append({place: cells[place] for place in odd})
        for place in odd[: max(0, _LINES - len(self.strange))]:
            self.strange.append((cells[place], line_of(place)))
        values = [np.nan if value is None else value for value in found]
        self.blocks.append(np.array(values, dtype=np.float64))

    def _value(self, cell: str) -> float | None:
        value = number(cell, self.decimal)
        if value is not None:
            return None if np.isinf(value) else value
        written = written_number(cell, self.decimal)
        if written is None:
            return None
        self.signs[written.sign] = self.signs.get(written.sign, 0) + 1
        return written.value

    def finish(self) -> Raw:
        """The whole column: words as soon as a block is mostly words, else numbers."""
        if all(block.dtype.kind == "f" for block in self.blocks):
            rest = sum(map(len, self.odd)) - len(self.strange)
            strange = [*self.strange, *[("", 0)] * rest]
            return Raw(
                self.name,
                np.concatenate(self.blocks),
                signs=tuple(sign for sign in self.signs if sign),
                strange=tuple(strange),
            )
        codes = [
            block if block.dtype.kind == "i" else self._recoded(block, odd)
            for block, odd in zip(self.blocks, self.odd, strict=True)
        ]
        return Raw(self.name, None, list(self.coder), np.concatenate(codes))

    def _recoded(self, values: np.ndarray, odd: dict[int, str]) -> np.ndarray:
        """Codes of numbers in a column that further down turned out to hold words."""
        words = ["" if np.isnan(value) else f"{value:.15g}" for value in values]
        for place, cell in odd.items():
            words[place] = cell.strip()
        return np.array(
            [self.coder.setdefault(word, len(self.coder)) if word else -1 for word in words],
            dtype=np.int32,
        )


def judge(
    raws: Sequence[Raw], *, named: bool = False, known: Sequence[Mapping[str, Any]] | None = None
) -> tuple[list[Column], list[Problem]]:
    """What every column is, and what cannot be read; ``named`` columns are those that the user
    asked for.
    """
    if known is not None:
        columns = [_as_known(raw, how) for raw, how in zip(raws, known, strict=True)]
    else:
        columns = [_judged(raw, named) for raw in raws]
    problems = [
        Problem(raw.name, raw.strange[0][1], raw.strange[0][0], len(raw.strange) - 1)
        for raw in raws
        if raw.strange
    ]
    return columns, problems


def _judged(raw: Raw, named: bool) -> Column:
    if raw.numbers is not None:
        return _judged_numbers(raw, named)
    words, codes = raw.words, np.asarray(raw.codes)
    present = int((codes >= 0).sum())
    if not present:
        return Column(raw.name, "empty", False, "no cell has a value")
    truth = truth_words(words)
    if truth is not None:
        values = np.array([float(word.strip().lower() in truth[0]) for word in words])
        return _judged_numbers(Raw(raw.name, _taken(values, codes), kind="yes/no"), named)
    days = as_day(words)
    if days is not None:
        return _judged_numbers(Raw(raw.name, _taken(np.array(days), codes), kind="date"), named)
    return _judged_words(raw, codes, present, named)


def _taken(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return np.where(codes >= 0, values[np.maximum(codes, 0)], np.nan)


def _judged_words(raw: Raw, codes: np.ndarray, present: int, named: bool) -> Column:
    words = raw.words
    if len(words) == 1:
        note = f"always '{plain(words[0], 30)}'"
        return Column(raw.name, "constant", False, note)
    order = sorted(range(len(words)), key=words.__getitem__)
    places = np.empty(len(words) + 1, dtype=np.int32)
    places[order], places[-1] = np.arange(len(words)), -1
    held = Column(
        raw.name, "category", True, "", None, places[codes], [words[place] for place in order]
    )
    if len(words) >= MOSTLY * present and present > 2:
        every = "every" if len(words) == present else "almost every"
        return held._replace(
            kind="identifier", used=False, note=f"text that is different in {every} row"
        )
    if not named and (len(words) > MOST_CATEGORIES or 2 * len(words) > max(present, 4)):
        note = f"text with {len(words):,} different values, too many for categories"
        return held._replace(kind="text", used=False, note=note)
    return held._replace(note=f"{len(words)} categories")


def _judged_numbers(raw: Raw, named: bool) -> Column:
    values = np.asarray(raw.numbers)
    present = values[~np.isnan(values)]
    kind = raw.kind or "number"
    if not len(present):
        return Column(raw.name, "empty", False, "no cell has a value")
    if len(values) > 2 and present.min() == present.max():
        note = "always the same value"
        return Column(raw.name, "constant", False, note, values)
    if kind == "date":
        note = "read as days" if named else "dates; name it in --columns to use it, as days"
        return Column(raw.name, "date", named, note, values)
    if kind == "number" and not named and (why := _identifier(raw.name, values, present)):
        return Column(raw.name, "identifier", False, why, values)
    note = f"read without {', '.join(raw.signs)}" if raw.signs else ""
    return Column(raw.name, kind, True, note, values)


def _identifier(name: str, values: np.ndarray, present: np.ndarray) -> str:
    """Why a column of numbers looks like names of objects; empty if it does not."""
    if len(present) < 3 or not np.array_equal(present, np.round(present)):
        return ""
    values_seen = len(np.unique(present))
    distinct = values_seen == len(values)
    # A few values in many rows are groups, such as wards, whatever the column is called.
    several = "id" in name.lower() and values_seen > MOST_CATEGORIES
    if _ID_TITLE.fullmatch(name.strip()) and (distinct or several):
        return "called like an identifier"
    if len(values) >= _COUNTER and distinct and np.all(np.diff(values) == 1):
        return "counts the rows"
    return ""


def _as_known(raw: Raw, how: Mapping[str, Any]) -> Column:
    """A column of new objects, read as that of the fitted ones was."""
    name, kind, categories = raw.name, how["kind"], list(how["categories"])
    if kind == "category":
        known = {word: code for code, word in enumerate(categories)}
        words = raw.words if raw.numbers is None else sorted({f"{v:.15g}" for v in raw.numbers})
        codes = (
            np.asarray(raw.codes)
            if raw.numbers is None
            else np.array([words.index(f"{v:.15g}") for v in raw.numbers])
        )
        places = np.array([known.get(word, -1) for word in words] + [-1], dtype=np.int32)
        strange = [word for word in words if word not in known]
        note = f"never seen before: {', '.join(plain(word, 20) for word in strange[:5])}"
        return Column(name, kind, True, note if strange else "", None, places[codes], categories)
    if raw.numbers is None:
        found = _judged(raw, True)
        if found.kind not in (kind, "constant", "empty") or found.numbers is None:
            cell = next((word for word in raw.words if number(word) is None), "")
            note = f"'{plain(cell, 30)}' is not a {'date' if kind == 'date' else kind}"
            return Column(name, "text", False, note)
        return found._replace(kind=kind, used=True, note="")
    return Column(name, kind, True, "", raw.numbers)


def reading(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """How the columns were read, to be kept with a result and to read new objects the same way."""
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "used": column.used,
            "note": column.note,
            "categories": column.categories if column.used else [],
        }
        for column in columns
    ]


def encoded_names(columns: Sequence[Column]) -> list[list[str]]:
    """Names of the encoded columns, one list for each used column."""
    return [
        [f"{column.name}={word}" for word in column.categories]
        if column.kind == "category"
        else [column.name]
        for column in columns
        if column.used
    ]


def encode(columns: Sequence[Column], *, one_hot: bool = True) -> np.ndarray:
    """The used columns as one matrix, NaN where a cell is missing; categories one-hot or as
    codes.
    """
    blocks = []
    for column in columns:
        if not column.used:
            continue
        if column.kind == "category":
            codes = np.asarray(column.codes)
            levels = np.arange(len(column.categories))
            block = (codes[:, None] == levels) if one_hot else codes[:, None]
            blocks.append(np.where(codes[:, None] < 0, np.nan, block.astype(np.float64)))
        else:
            blocks.append(np.asarray(column.numbers, dtype=np.float64)[:, None])
    return np.hstack(blocks)
