"""Text tables, read in blocks.

CSV, TSV and similar files; errors name the line and the column.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..array.memory import SHARE, memory_budget, reserve
from ..array.text import from_cell
from ._tables import ID_TITLES, InputError, Roles, Table, assign_roles, listed, without_absent
from .columns import Cells, mixed_table, no_number
from .sniffing import Dialect, sniff
from .written import MISSING, number

__all__ = ["read_stream", "read_text"]

_BLOCK = 20_000  # rows that are text at the same time
_SAMPLE, _LONGEST = 2**18, 2**26  # characters from which the dialect is told: at least, and at most


def read_text(
    path: Path, source: str, roles: Roles, report: Callable[..., None] | None = None
) -> Table:
    """The table in a text file.

    ``report`` is called with the share of the file that has been read, and how much that is.
    """
    size = max(path.stat().st_size, 1)
    try:
        with path.open("rb") as raw, _decoded(raw, roles.encoding) as text:
            progress = (
                None if report is None else (lambda text: report(min(1.0, raw.tell() / size), text))
            )
            return read_stream(text, source, roles, progress)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} is not {error.encoding} text: save it as UTF-8, or name its encoding, e.g. "
            "--encoding cp1252"
        ) from error
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise InputError(f"{source} cannot be read to its end: {error}") from error
    except LookupError as error:
        raise InputError(f"--encoding: {error}") from error


def read_stream(
    text: io.TextIOBase, source: str, roles: Roles, progress: Callable[[str], None] | None = None
) -> Table:
    """The table in a stream of text."""
    sample, whole = _beginning(text, source)
    if "\x00" in sample:
        raise InputError(
            f"{source} is not text, nor any other kind of file that can be read here: see "
            "sfumato fit --help"
        )
    dialect = sniff(
        sample if whole else _whole_lines(sample),
        source,
        header=roles.header,
        delimiter=roles.delimiter,
    )
    reader = csv.reader(
        islice(_lines(sample, text), dialect.above, None),
        delimiter=dialect.delimiter,
        skipinitialspace=True,
        strict=True,
    )
    return _collect(reader, dialect, roles, source, progress)


def _decoded(raw: Any, encoding: str | None) -> io.TextIOWrapper:
    start = raw.read(4)
    raw.seek(0)
    stream: Any = gzip.GzipFile(fileobj=raw) if start[:2] == b"\x1f\x8b" else raw
    return io.TextIOWrapper(stream, encoding=encoding or _encoding(start), newline="")


def _encoding(start: bytes) -> str:
    """What the first bytes tell of the encoding: UTF-16 has a mark, or zeros between letters."""
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    zeros = [byte == 0 for byte in start]
    if zeros in ([False, True] * 2, [True, False] * 2):
        return "utf-16-le" if zeros[1] else "utf-16-be"
    return "utf-8-sig"


def _beginning(text: io.TextIOBase, source: str) -> tuple[str, bool]:
    """The first lines, the header among them whatever its length, and whether they are all."""
    sample = text.read(_SAMPLE)
    while len(sample) >= _SAMPLE and _complete(sample) < 3:  # the header and some rows
        if len(sample) > _LONGEST:
            if not _complete(sample):
                raise InputError(
                    f"{source}: the first line has more than {len(sample):,} characters: is it a "
                    "table, one row per line?"
                )
            return sample, False
        more = text.read(len(sample))
        if not more:
            return sample, True
        sample += more
    return sample, len(sample) < _SAMPLE


def _complete(sample: str) -> int:
    """Lines that are there to their end; a line break between quotes ends none."""
    outside = sample.split('"')[::2]
    return sum(part.count("\n") for part in outside) or sum(part.count("\r") for part in outside)


def _whole_lines(sample: str) -> str:
    return sample[: sample.rindex("\n")] if "\n" in sample else sample


def _lines(sample: str, rest: io.TextIOBase) -> Iterator[str]:
    """Lines of the file, of which ``sample`` has been read."""
    start = io.StringIO(sample, newline="")
    for line in start:
        cut = line.endswith("\r") and start.tell() == len(sample)
        yield line + rest.readline() if cut or not line.endswith(("\n", "\r")) else line
    yield from rest


def _collect(
    reader: Any, dialect: Dialect, roles: Roles, source: str, progress: Callable[[str], None] | None
) -> Table:
    rows, titles = _Rows(reader, dialect, source), dialect.columns
    roles = _with_ids(rows, without_absent(roles, titles))
    special, evidence = assign_roles(titles, roles, source)
    names: dict[str, list[str]] = {role: [] for role in special if role != "weight"}
    coders: list[dict[str, int]] = [{} for _ in evidence if roles.labels]
    numeric = [*([] if roles.labels else evidence), *(special[r] for r in special if r == "weight")]
    read = {
        place: Cells(
            titles[place], dialect.decimals[place], words=roles.mixed and place in evidence
        )
        for place in numeric
    }
    labels, total, most = [], 0, 0
    for block in rows:
        total += len(block)
        instead = "use a smaller file, or NPY, which is mapped, not read"
        reserve((2 * total, len(evidence)), np.float64, f"the table in {source}", instead)
        cells = list(zip(*block, strict=True))
        for role in names:
            names[role] += map(from_cell, cells[special[role]])
        for place, column in read.items():
            column.add(cells[place], rows.line_of)
            if column.strange and not column.words:
                _refuse(column, source)
        if roles.labels:
            coded = zip(evidence, coders, strict=True)
            labels.append(np.column_stack([_codes(cells[place], coder) for place, coder in coded]))
        if progress is not None:
            most = most or int(SHARE * memory_budget() / (16 * len(evidence)))
            progress(f"{total:,} rows; memory holds at most {most:,}")
    if not total:
        raise InputError(f"{source} has a header but no rows")
    raws = {place: column.finish() for place, column in read.items()}
    held: dict[str, Any] = {**names}
    if "weight" in special:
        held["weight"] = raws[special["weight"]].numbers
    if roles.mixed:
        by_role = {role: titles[place] for role, place in special.items()}
        return mixed_table([raws[place] for place in evidence], held, by_role, roles, source)
    return Table(
        np.concatenate(labels)
        if roles.labels
        else np.column_stack([np.asarray(raws[place].numbers) for place in evidence]),
        [titles[place] for place in evidence],
        held.get("id"),
        titles[special["id"]] if "id" in special else None,
        held.get("weight"),
        held.get("classes"),
        source,
        label_names=[list(coder) for coder in coders] if roles.labels else None,
    )


def _refuse(column: Cells, source: str) -> None:
    fix = "make it a number, or leave the column out with --drop, --id-column or --class-column"
    raise InputError(f"{source}, {no_number(column.finish())}: {fix}")


def _with_ids(rows: _Rows, roles: Roles) -> Roles:
    """By default the first column holds ids if it is text beside numbers, has no title, or is
    called "id".
    """
    columns = rows.dialect.columns
    if roles.id is None and roles.usual_id in columns:
        return roles._replace(id=roles.usual_id)
    if (
        roles.id is not None
        or len(columns) < 2
        or columns[0] in (roles.weight, roles.classes)
        or columns[0] in listed(roles.drop, columns)
    ):
        return roles
    first = rows.peek()
    if not first:
        return roles
    if roles.keep is not None and (roles.reading is not None or not roles.mixed):
        named = columns[0] in roles.keep
        return roles if named else roles._replace(id=columns[0] or "0")
    untitled = rows.dialect.header and columns[0] == ""
    marks = rows.dialect.decimals
    texts = [number(cell, mark) is None for cell, mark in zip(first, marks, strict=False)]
    title = columns[0].strip().lower() if rows.dialect.header else None
    titled = title in ID_TITLES or (
        title in ("name", "object", "key", "cell", "sample") and (roles.labels or texts[0])
    )
    if roles.mixed:  # whether a column of text holds ids is told from all of it
        asked = columns[0] in listed(roles.keep or (), columns)
        titled = title in ID_TITLES and not asked
        texts[0] = texts[0] and roles.keep is not None and not asked
    if untitled or titled or (texts[0] and not roles.labels and not all(texts)):
        return roles._replace(id=columns[0] if columns.count(columns[0]) == 1 else "0")
    return roles


class _Rows:
    """Blocks of rows, all of one width; knows on which line each stood."""

    def __init__(self, reader: Any, dialect: Dialect, source: str) -> None:
        self.reader, self.dialect, self.source = reader, dialect, source
        self.waiting: list[list[str]] = []
        self.block: list[list[str]] = []
        self.line = self.next_line = 1 + dialect.above
        if dialect.header:
            self.next_line += 1 + sum(cell.count("\n") for cell in self._take(1)[0])

    def _take(self, count: int) -> list[list[str]]:
        try:
            return list(islice(self.reader, count))
        except csv.Error as error:
            line = self.dialect.above + self.reader.line_num
            raise InputError(f"{self.source}, line {line}: {error}") from error

    def peek(self) -> list[str]:
        self.waiting = self._take(1)
        return self.waiting[0] if self.waiting else []

    def __iter__(self) -> Iterator[list[list[str]]]:
        width = len(self.dialect.columns)
        size = min(_BLOCK, 1 + 100 * _BLOCK // max(width, 1))
        while block := self.waiting + self._take(size):
            self.waiting, self.block = [], block
            self.line = self.next_line
            if any(len(row) != width for row in block):
                self._refuse_ragged(width)
                block = [row for row in block if row]
            self.next_line = self._line_of(len(self.block))
            if block:
                yield block

    def _refuse_ragged(self, width: int) -> None:
        for index, row in enumerate(self.block):
            if row and len(row) != width:
                said = "the header has" if self.dialect.header else "the first line has"
                raise InputError(
                    f"{self.source}, line {self._line_of(index)}: {len(row)} cells where {said} "
                    f"{width}"
                )

    def line_of(self, index: int) -> int:
        """Line of the file on which a row of the block that was given last stood."""
        return self._line_of([at for at, row in enumerate(self.block) if row][index])

    def _line_of(self, index: int) -> int:
        breaks = sum(cell.count("\n") for row in self.block[:index] for cell in row)
        return self.line + index + breaks


def _codes(cells: tuple[str, ...], coder: dict[str, int]) -> np.ndarray:
    """Labels of a column as 0, 1, ... in order of appearance, -1 where there is none."""
    values = [
        -1
        if (label := cell.strip()) == "-1" or label.lower() in MISSING
        else coder.setdefault(label, len(coder))
        for cell in cells
    ]
    return np.array(values, dtype=np.int32)
