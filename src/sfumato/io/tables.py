"""Readers of tables: text (CSV, TSV and similar files) in blocks, Parquet, Excel and AnnData.

The format of a text table (delimiter, decimal comma, header) is detected from its first lines.
Errors name the line and the column.
"""

from __future__ import annotations

import csv
import gzip
import io
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..array.text import from_cell, plain
from ..array.validation import SHARE, memory_budget, reserve
from .columns import (
    Cells,
    Labels,
    Raw,
    as_table,
    number,
    numbers_among,
    surely_pointed,
    without,
    written_number,
)
from .reading import InputError, Report, Roles, Table, assign_roles, extra, quoted, with_ids

_NAMED = re.compile(r'"?sep=([^"\r\n])"?(?:\r?\n|\r)', re.IGNORECASE)  # as spreadsheets write it
_BLOCK = 20_000  # rows converted from text at a time
_SAMPLE, _LONGEST = 2**18, 2**26  # characters used to detect the dialect: at least and at most


def read_text(path: Path, source: str, roles: Roles, report: Report = None) -> Table:
    """The table in a text file; ``report`` is called with the share that has been read."""
    size = max(path.stat().st_size, 1)
    try:
        with path.open("rb") as raw, _decoded(raw, roles.encoding) as text:

            def progress(said: str) -> None:
                if report is not None:
                    report(min(1.0, raw.tell() / size), said)

            return read_stream(text, source, roles, progress)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source} is not {error.encoding} text: save it as UTF-8, or name its encoding, e.g. "
            "--encoding cp1252"
        ) from error
    except LookupError as error:
        raise InputError(f"--encoding: {error}") from error


def _decoded(raw: Any, encoding: str | None) -> io.TextIOWrapper:
    start = raw.read(4)
    raw.seek(0)
    stream: Any = gzip.GzipFile(fileobj=raw) if start[:2] == b"\x1f\x8b" else raw
    if encoding is None:  # UTF-16 has a byte-order mark, or zeros between letters
        zeros = [byte == 0 for byte in start]
        known = {(False, True) * 2: "utf-16-le", (True, False) * 2: "utf-16-be"}
        marked = start[:2] in (b"\xff\xfe", b"\xfe\xff")
        encoding = "utf-16" if marked else known.get(tuple(zeros), "utf-8-sig")
    return io.TextIOWrapper(stream, encoding=encoding, newline="")


def read_stream(
    text: io.TextIOBase, source: str, roles: Roles, progress: Callable[[str], None] | None = None
) -> Table:
    """The table in a stream of text."""
    sample = _beginning(text, source)
    if "\x00" in sample:
        raise InputError(f"{source} is not text, nor of another known kind: see sfumato fit --help")
    dialect = sniff(sample, source, header=roles.header, delimiter=roles.delimiter)
    text.seek(0)
    reader = _reader(islice(text, dialect.above, None), dialect.delimiter, strict=True)
    return _collect(reader, dialect, roles, source, progress)


def _beginning(text: io.TextIOBase, source: str) -> str:
    """The first lines, long enough to include the header and some rows."""
    lines: list[str] = []
    size = quotes = rows = 0
    while size < _SAMPLE or (rows < 3 and size < _LONGEST):
        if not (line := text.readline(_LONGEST)):
            break
        if len(line) == _LONGEST and not rows:
            raise InputError(
                f"{source}: the first line has more than {_LONGEST:,} characters: is it a table, "
                "one row per line?"
            )
        lines.append(line)
        size, quotes = size + len(line), quotes + line.count('"')
        rows += quotes % 2 == 0  # a line break inside quotes does not end a row
    return "".join(lines)


def _collect(
    reader: Any, dialect: Dialect, roles: Roles, source: str, progress: Callable[[str], None] | None
) -> Table:
    """The table made from all rows, collected by column in blocks."""
    rows, titles, marks = _Rows(reader, dialect, source), dialect.columns, dialect.decimals
    texts = [number(cell, mark) is None for cell, mark in zip(rows.peek(), marks, strict=False)]
    roles = with_ids(roles, titles, texts)
    special, evidence = assign_roles(titles, roles, source)
    names: dict[str, list[str]] = {role: [] for role in special if role != "weight"}
    kept: dict[int, Any] = {
        place: (Labels if roles.labels else Cells)(titles[place], marks[place], words=roles.mixed)
        for place in evidence
    }
    if "weight" in special:
        place = special["weight"]
        kept[place] = Cells(titles[place], marks[place], words=False)
    width, total, most = len(evidence), 0, 0
    for block in rows:
        total += len(block)
        instead = "use a smaller file, or NPY, which is mapped, not read"
        reserve((2 * total, width), np.float64, f"the table in {source}", instead)
        cells = list(zip(*block, strict=True))
        for role, held in names.items():
            held += map(from_cell, cells[special[role]])
        for place, column in kept.items():
            column.add(without(cells[place], roles.missing), rows.lines)
        if progress is not None:
            most = most or int(SHARE * memory_budget() / (16 * width))
            progress(f"{total:,} rows; memory holds at most {most:,}")
    if not total:
        raise InputError(f"{source} has a header but no rows")
    raws = {place: column.finish() for place, column in kept.items()}
    return as_table(titles, (special, evidence), raws, names, roles, source)


class _Rows:
    """Blocks of rows of equal width, with the line number of each row."""

    def __init__(self, reader: Any, dialect: Dialect, source: str) -> None:
        self.dialect, self.source = dialect, source
        self.lines: list[int] = []  # line numbers of the last block
        self.rows = self._numbered(reader)
        if dialect.header:
            next(self.rows, None)

    def _numbered(self, reader: Any) -> Iterator[tuple[int, list[str]]]:
        try:
            for row in reader:
                if row:
                    yield self.dialect.above + reader.line_num, row
        except csv.Error as error:
            line = self.dialect.above + reader.line_num
            raise InputError(f"{self.source}, line {line}: {error}") from error

    def peek(self) -> list[str]:
        first = list(islice(self.rows, 1))
        self.rows = chain(first, self.rows)
        return first[0][1] if first else []

    def __iter__(self) -> Iterator[list[list[str]]]:
        width = len(self.dialect.columns)
        size = min(_BLOCK, 1 + 100 * _BLOCK // max(width, 1))
        while block := list(islice(self.rows, size)):
            for line, row in block:
                if len(row) != width:
                    said = "the header has" if self.dialect.header else "the first line has"
                    raise InputError(
                        f"{self.source}, line {line}: {len(row)} cells where {said} {width}"
                    )
            self.lines = [line for line, _ in block]
            yield [row for _, row in block]


class Dialect(NamedTuple):
    """How to split lines into cells and read numbers, and how many lines precede the table."""

    delimiter: str
    decimals: list[str]
    header: bool
    columns: list[str]
    above: int = 0


def sniff(
    sample: str, source: str, *, header: bool | None = None, delimiter: str | None = None
) -> Dialect:
    """Dialect detected from the beginning of a text; a first line ``sep=;`` sets the delimiter."""
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
    whole = [row for row in rows[1:] or rows if len(row) == width]
    decimals = [_decimal(cells, mark) for cells in zip(*whole, strict=True)] or ["."] * width
    if "," in decimals and not any(surely_pointed(cell) for row in whole for cell in row):
        decimals = [","] * width  # then a point separates thousands
    has_header = _has_header(rows, decimals) if header is None else header
    if not has_header:
        return Dialect(mark, decimals, False, [str(place) for place in range(width)], above)
    columns = [name.strip() for name in rows[0]]
    columns = ["", *columns] if len(columns) == width - 1 else columns
    return Dialect(mark, decimals, True, columns, above)


def _title_lines(sample: str, delimiter: str, width: int) -> tuple[int, int]:
    """Number of lines above the table, and how many hold text in one cell only (a title)."""
    reader = _reader(sample, delimiter)
    lines = titles = 0
    for row in islice(reader, 20):
        filled = sum(bool(cell.strip()) for cell in row)
        if filled > 1 or width < 3:
            return (lines, titles) if titles else (0, 0)
        lines, titles = reader.line_num, titles + filled
    return 0, 0


def _reader(lines: Any, delimiter: str, *, strict: bool = False) -> Any:
    lines = io.StringIO(lines, newline="") if isinstance(lines, str) else lines
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _cut(sample: str, delimiter: str) -> list[list[str]]:
    """Some rows of the sample, split into cells."""
    try:
        rows = islice(_reader(sample, delimiter), 200)
        return [row for row in rows if any(cell.strip() for cell in row)]
    except csv.Error:
        return []


def _fitness(rows: list[list[str]], delimiter: str) -> tuple[float, float, int]:
    """Three scores of a delimiter: constant number of cells, share of numbers, number of cells."""
    body = rows[1:] or rows
    width, steady = Counter(map(len, body)).most_common(1)[0]
    if width == 1:
        return 0.0, 0.0, 1
    cells = [cell for row in body for cell in row]
    marks = "." if delimiter == "," else ".,"
    numeric = sum(any(_says(cell, mark) for mark in marks) for cell in cells)
    if delimiter == " " and numeric < 0.5 * len(cells):
        return 0.0, 0.0, 0
    return steady / len(body), numeric / len(cells), width


def _decimal(cells: Sequence[str], delimiter: str) -> str:
    """Decimal sign of a column: "," if some cells are numbers only with it, and none only with a
    point. "1,234" are thousands if commas also separate cells, otherwise decimals.
    """
    commas = [cell for cell in cells if "," in cell and written_number(cell, ",") is not None]
    decided = any(written_number(cell, ".") is None for cell in commas)
    pointed = [cell for cell in cells if "." in cell and written_number(cell, ",") is None]
    points = any(written_number(cell, ".") is not None for cell in pointed)
    return "," if (decided or (commas and delimiter != ",")) and not points else "."


def _says(cell: str, decimal: str = ".") -> bool:
    return number(cell, decimal) is not None or written_number(cell, decimal) is not None


def _has_header(rows: list[list[str]], decimals: list[str]) -> bool:
    first, body = rows[0], rows[1:]
    if not body:
        return not any(map(_says, first))
    if len(body[0]) == len(first) + 1 or (not first[0].strip() and len(first) > 1):
        return True
    counted = [[str(start + i) for i in range(len(first))] for start in (0, 1)]
    if len(first) > 2 and [cell.strip() for cell in first] in counted:
        return True
    columns = list(zip(*(row for row in body if len(row) == len(first)), strict=True))
    if not columns:
        return not _says(first[0])
    text, heads = [], []  # which first cells are text, and which of them head columns of numbers
    for cell, column, mark in zip(first, columns, decimals, strict=False):
        text.append(not _says(cell, mark))
        if sum(_says(each, mark) for each in column) > 0.5 * len(column):
            heads.append(text[-1])
    if heads:
        return any(heads)
    return all(text) and not any(map(operator.contains, columns, first))


def read_parquet(path: Path, source: str, roles: Roles) -> Table:
    """The table in a Parquet file."""
    pq = extra("pyarrow.parquet", "Parquet files need pyarrow", "'sfumato[io]'")
    pa = import_module("pyarrow")
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        titles = schema.names
        words = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        texts = [any(is_word(field.type) for is_word in words) for field in schema]
        roles = with_ids(roles, titles, texts)
        places = special, evidence = assign_roles(titles, roles, source)
        size = file.metadata.num_rows, len(evidence)
        reserve(size, np.float64, f"the table in {source}", "keep fewer columns or rows")
        table = file.read()
    if not table.num_rows:
        raise InputError(f"{source} has no rows")
    named = ((role, table.column(at)) for role, at in special.items() if role != "weight")
    names = {role: [str(name) for name in column.to_pylist()] for role, column in named}
    raws = {place: _raw(table.column(place), titles[place], roles, pa) for place in evidence}
    if "weight" in special:
        place = special["weight"]
        raws[place] = _raw(table.column(place), titles[place], Roles(), pa)
    return as_table(titles, places, raws, names, roles, source)


def _raw(column: Any, name: str, roles: Roles, pa: Any) -> Raw:
    """An Arrow column as a ``Raw`` column."""
    kind, types = column.type, pa.types
    if not roles.labels:
        if types.is_timestamp(kind) or types.is_date(kind):
            days = column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64())
            return Raw(name, days.to_numpy(zero_copy_only=False) / 86_400_000_000, kind="date")
        if types.is_boolean(kind):
            return Raw(name, _floats(column.cast(pa.int8()), pa), kind="yes/no")
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            values = _floats(column, pa)
            values = np.where(np.isin(values, numbers_among(roles.missing)), np.nan, values)
            infinite = np.flatnonzero(np.isinf(values)).tolist()
            wrong = ("inf", infinite[0] + 1, len(infinite)) if infinite else None
            return Raw(name, values, wrong=wrong)
    cells = (Labels if roles.labels else Cells)(name, ".")
    words = ["" if cell is None else str(cell) for cell in column.to_pylist()]
    cells.add(without(words, roles.missing), range(1, len(words) + 1))
    return cells.finish()


def _floats(column: Any, pa: Any) -> np.ndarray:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def read_excel(path: Path, source: str, roles: Roles) -> Table:
    """The table in a sheet of an Excel workbook, read as text, like a CSV file."""
    for package in ("pyarrow", "fastexcel"):  # fastexcel returns its columns through pyarrow
        fastexcel = extra(package, "Excel workbooks need fastexcel and pyarrow", "'sfumato[io]'")
    book = fastexcel.read_excel(path)
    names = book.sheet_names
    sheets = {
        name: book.load_sheet(name, header_row=None, dtypes="string")
        for name in _wanted_sheets(roles.sheet, names, source)
    }
    name, sheet = max(sheets.items(), key=lambda item: item[1].width * item[1].height)
    table = sheet.to_arrow()
    if not table.num_columns or not table.num_rows:
        raise InputError(f"{source}: the sheet '{plain(name, 40)}' is empty")
    size = table.num_rows, 8 * table.num_columns  # eight bytes per cell
    reserve(size, np.float64, f"the table in {source}", "keep fewer columns or rows")
    text = io.StringIO(newline="")
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    csv.writer(text).writerows(["" if cell is None else cell for cell in row] for row in rows)
    text.seek(0)
    if len(names) > 1:
        source = f"{source}, sheet '{plain(name, 40)}'"
    found = read_stream(text, source, roles._replace(mixed=not roles.labels, delimiter=","))
    others = quoted([other for other in sheets if other != name])
    said = f"sheet: '{plain(name, 40)}' is read, as the largest; --sheet takes {others}"
    return found._replace(notes=(said,)) if others else found


def _wanted_sheets(asked: str | None, names: list[str], source: str) -> list[str]:
    if asked is None or asked in names:
        return names if asked is None else [asked]
    if asked.isdigit() and 0 < int(asked) <= len(names):
        return [names[int(asked) - 1]]
    held = quoted(names)
    raise InputError(f"--sheet: {source} has no sheet '{plain(asked, 40)}': it has {held}")


def read_anndata(path: Path, source: str, roles: Roles) -> Table:
    """Cells of an AnnData file: their principal components, else the expression matrix."""
    anndata = extra("anndata", f"{source} is an HDF5 file; AnnData files need anndata", "anndata")
    data = anndata.read_h5ad(path)
    values, columns = data.X, [str(name) for name in data.var_names]
    if "X_pca" in data.obsm:
        values = data.obsm["X_pca"]
        columns = [f"PC{place + 1}" for place in range(values.shape[1])]
    for option, name in {"weight": roles.weight, "class": roles.classes, "id": roles.id}.items():
        if name is not None and name not in data.obs:
            raise InputError(f"{source}: --{option}-column '{plain(name, 40)}' is no annotation")
    _, evidence = assign_roles(columns, Roles(drop=roles.drop, keep=roles.keep), source)
    return Table(
        values[:, evidence] if roles.drop or roles.keep is not None else values,
        [columns[place] for place in evidence],
        [str(name) for name in (data.obs_names if roles.id is None else data.obs[roles.id])],
        roles.id or "index",
        None if roles.weight is None else np.asarray(data.obs[roles.weight], dtype=np.float64),
        None if roles.classes is None else [str(name) for name in data.obs[roles.classes]],
        source,
    )
