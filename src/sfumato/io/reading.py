"""The ``Table`` that every reader returns, and the choice of a reader for a file.

File types are recognised by their first bytes.
"""

import errno
import gzip
import hashlib
import stat
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from ..array.text import plain
from ..array.types import Weights
from ..array.validation import budget_for

_READERS = {  # by file type: module and function, imported when needed
    "text": ("tables", "read_text"),
    "npy": ("arrays", "read_npy"),
    "npz": ("arrays", "read_npz"),
    "matrix-market": ("arrays", "read_matrix_market"),
    "parquet": ("tables", "read_parquet"),
    "excel": ("tables", "read_excel"),
    "anndata": ("tables", "read_anndata"),
}


# Called with the share of a file that was read or written, and what to say about it.
Report: TypeAlias = Callable[..., None] | None


class InputError(ValueError):
    """A file cannot be used; the message says which file, where, and what to do."""


class Roles(NamedTuple):
    """Which columns have a special role, and how the others are read."""

    id: str | None = None
    weight: str | None = None
    classes: str | None = None
    drop: tuple[str, ...] = ()
    labels: bool = False  # the other columns are labels, not numbers
    header: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None
    keep: tuple[str, ...] | None = None  # columns to use, in this order; None for all others
    mixed: bool = False  # columns may be text, dates or identifiers; io.columns decides their type
    reading: tuple[dict[str, Any], ...] | None = None  # how the columns of a fitted model were read
    sheet: str | None = None  # sheet of an Excel workbook
    missing: tuple[str, ...] = ()  # cells that mean a missing value, besides the usual ones
    usual_id: str | None = None  # id column of the fitted objects, used if the table has it


class Table(NamedTuple):
    """The data of a file: numbers (n, p), or codes of labels (n, m), -1 for none."""

    values: Any
    columns: list[str]
    ids: Sequence[str] | None = None
    id_column: str | None = None
    weights: Weights = None
    classes: Sequence[str] | None = None
    source: str = ""
    kind: str = ""
    digest: str = ""
    label_names: list[list[str]] | None = None  # for labelings: the label of each code, by column
    fields: list[Any] | None = None  # column types of the file (io.columns.Column)
    original: Any = None  # the values before scaling; None if they were not scaled
    notes: tuple[str, ...] = ()  # sentences that say what was done to the columns

    @property
    def names(self) -> Sequence[str]:
        """Ids of the objects, or their row numbers."""
        return list(map(str, range(self.values.shape[0]))) if self.ids is None else self.ids

    @property
    def loaded(self) -> Any:
        """The values, read into memory if they are memory-mapped."""
        return np.asarray(self.values) if isinstance(self.values, np.memmap) else self.values

    @property
    def used(self) -> list[Any]:
        """The columns of the file that are clustered."""
        return [column for column in self.fields or () if column.used]


def extra(package: str, what: str, source: str) -> Any:
    """An optional package, or an ImportError that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{what}: pip install {source}") from error


def archive_holds(path: Path, name: str) -> bool:
    """Whether a file is a readable ZIP archive with a member of that name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return name in archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return False


def quoted(names: Sequence[str], most: int = 8) -> str:
    """Some names, for a message."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(f"'{plain(name, 30)}'" for name in list(names)[:most]) + more


def _places(names: Sequence[str], columns: Sequence[str], what: str, source: str) -> list[int]:
    """Positions of columns; a number is a position (from 0) if no column has that name."""
    known = {str(place): place for place in range(len(columns))}
    known |= {name: place for place, name in enumerate(columns)}
    if absent := [name for name in names if name not in known]:
        one = len(absent) == 1
        what = what if one or what.endswith("s") else f"{what}s"
        said = "is not in the table" if one else "are not in the table"
        raise InputError(f"{source}: {what} {quoted(absent)} {said}: it has {quoted(columns)}")
    counts = Counter(columns)
    if twice := [name for name in names if counts[name] > 1]:
        raise InputError(f"{source}: two columns are called '{plain(twice[0])}', for {what}")
    return [known[name] for name in names]


def listed(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Column names; "a,b" means two columns unless one column has that name."""
    found = []
    for name in names:
        parts = [name] if name in columns else name.split(",")
        found += [part.strip() if part not in columns else part for part in parts]
    return found


def with_ids(roles: Roles, columns: Sequence[str], texts: Sequence[bool]) -> Roles:
    """Roles with the default id column: that of the fitted objects, the index saved by pandas, or
    the first column if it is text while others are numbers, has no title, or is called "id".

    Columns that a fitted model knows but the table lacks count as missing, unless they are half of
    them: then it is probably the wrong table. ``texts`` says which columns hold text.
    """
    names = roles.keep or ()
    there = tuple(name for name in names if name in columns)
    if roles.reading is not None and not any(name.isdigit() for name in names):
        roles = roles._replace(keep=there) if 2 * len(there) > len(names) else roles
    usual = next((name for name in (roles.usual_id, "__index_level_0__") if name in columns), None)
    if roles.id is not None or usual is not None:
        return roles._replace(id=roles.id or usual)
    taken = (roles.weight, roles.classes, *listed(roles.drop, columns))
    if len(columns) < 2 or columns[0] in taken or not texts:
        return roles
    title, words = columns[0].strip().lower(), texts[0] and not all(texts)
    called = title in ("id", "ids", "index")
    if roles.keep is not None and (roles.reading is not None or not roles.mixed):
        found = columns[0] not in roles.keep
    elif roles.mixed:  # whether a text column holds ids is decided from all its values
        asked = columns[0] in listed(roles.keep or (), columns)
        found = not title or (not asked and (called or (words and roles.keep is not None)))
    else:
        name = title in ("name", "object", "key", "cell", "sample")
        found = not title or called or (name and (roles.labels or texts[0]))
        found = found or (words and not roles.labels)
    first = columns[0] if list(columns).count(columns[0]) == 1 else "0"
    return roles._replace(id=first) if found else roles


def assign_roles(
    columns: Sequence[str], roles: Roles, source: str
) -> tuple[dict[str, int], list[int]]:
    """Positions of the special columns by role, and positions of the other columns."""
    named = {"id": roles.id, "weight": roles.weight, "classes": roles.classes}
    option = {"id": "--id-column", "weight": "--weight-column", "classes": "--class-column"}
    special = {
        role: _places([name], columns, option[role], source)[0]
        for role, name in named.items()
        if name is not None
    }
    dropped = _places(listed(roles.drop, columns), columns, "--drop", source)
    if roles.keep is not None:
        if roles.keep == tuple(columns):  # also correct if two columns have the same name
            return special, list(range(len(columns)))
        asked = roles.mixed and roles.reading is None
        names = listed(roles.keep, columns) if asked else roles.keep
        what = "--columns" if asked else "the model's column"
        try:
            return special, _places(names, columns, what, source)
        except InputError as error:
            if roles.reading is None:
                raise
            raise InputError(
                f"{error}. Give the table the columns of the fit, or fit again without them "
                "(--columns, --drop)"
            ) from error
    taken = {*dropped, *special.values()}
    evidence = [place for place in range(len(columns)) if place not in taken]
    if not evidence:
        raise InputError(f"{source}: no column is left to cluster")
    return special, evidence


def kind_of(path: Path) -> str:
    """Type of a file, from its first bytes."""
    with path.open("rb") as file:
        start = file.read(64)
    if start[:2] == b"\x1f\x8b":
        with gzip.open(path) as file:
            start = file.read(16)
        return "matrix-market" if start.startswith(b"%%MatrixMarket") else "text"
    signatures = {
        b"\x93NUMPY": "npy",
        b"PK\x03\x04": "npz",
        b"PAR1": "parquet",
        b"%%MatrixMarket": "matrix-market",
        b"\x89HDF": "anndata",
    }
    kind = next((kind for mark, kind in signatures.items() if start.startswith(mark)), "text")
    if kind == "text" and start[:1] == b"\x80" and start[1:2] in b"\1\2\3\4\5":
        return "pickle"
    called_json = path.suffix.lower() in (".json", ".jsonl", ".ndjson")
    if kind == "text" and called_json and start.lstrip()[:1] in (b"{", b"["):
        return "json"
    # Damaged archives go to the reader of arrays, which says what is wrong.
    return "excel" if kind == "npz" and archive_holds(path, "xl/workbook.xml") else kind


def read(path: str | Path, roles: Roles | None = None, report: Report = None) -> Table:
    """The table in a file, or on standard input for ``-``.

    Parameters
    ----------
    path : path of a CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or AnnData file, or "-"
    roles : Roles
        Which columns are ids, weights and classes, which to leave out, and whether the others are
        labels.
    report : function, optional
        Called with the share and the amount of the file that has been read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sfumato.io import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "flowers.csv")
    ...     _ = file.write_text("name;length;width\\nada;1,5;2,0\\nbea;0,5;1,0\\n")
    ...     table = read(file)
    >>> table.ids, table.columns, table.values.tolist()
    (['ada', 'bea'], ['length', 'width'], [[1.5, 2.0], [0.5, 1.0]])
    """
    roles = roles or Roles()
    budget_for(0)  # check the budget first: the file is not to blame for an invalid one
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        return _read_pipe(sys.stdin.buffer, "standard input", roles, report)
    if "://" in str(path):
        raise InputError(f"{plain(path, 200)} is an address: download it, and name the file")
    path = Path(path)
    try:
        piped = path.is_fifo()
    except (OSError, ValueError):  # the system does not accept the name
        piped = False
    if piped:
        with path.open("rb") as pipe:
            return _read_pipe(pipe, f"the pipe {plain(path, 80)}", roles, report)
    return _read(path, plain(path.name or path), roles, report)


def _read_pipe(pipe: BinaryIO, source: str, roles: Roles, report: Report) -> Table:
    """The table read from a pipe; copied to a temporary file, since it is read more than once."""
    with tempfile.NamedTemporaryFile(prefix="sfumato-") as spool:
        try:
            while part := pipe.read(2**20):
                spool.write(part)
                if report is not None:
                    report(0.0, f"{spool.tell() / 2**20:,.0f} MiB received")
            spool.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            folder = plain(Path(spool.name).parent, 80)
            raise InputError(
                f"{source} is more than {folder} has space for: save it to a file, and name that"
            ) from error
        return _read(Path(spool.name), source, roles, report)


def version(path: Path) -> tuple[int, int, int]:
    """Values that change when a file is written."""
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _read(path: Path, source: str, roles: Roles, report: Report) -> Table:
    kind = "gzip"  # the only one that must be read to be known
    try:
        before = path.stat()
        if not stat.S_ISREG(before.st_mode):
            raise InputError(f"{source} is a {'folder' if path.is_dir() else 'device'}, not data")
        if before.st_size == 0:
            raise InputError(f"{source} is empty: there is no table in it")
        begun = version(path)
        kind = kind_of(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        table = _by_kind(kind, path, source, roles, report)._replace(kind=kind, digest=digest)
        if version(path) != begun:
            raise InputError(f"{source} changed while it was read: wait, or copy it first")
        return table
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"no file called {plain(path, 200)}") from error
    except PermissionError as error:
        raise InputError(f"{source} may not be read by you: check its permissions") from error
    except (InputError, MemoryError, ImportError):
        raise
    except Exception as error:  # readers raise many kinds of errors on damaged files
        if "\0" in str(path):
            raise InputError(f"no file called {plain(path, 200)}") from error
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"{source} cannot be read: {plain(error.strerror, 100)}") from error
        what = plain((str(error) or type(error).__name__).splitlines()[0], 100)
        raise InputError(f"{source} is not a whole {kind} file: {what}") from error


def _by_kind(kind: str, path: Path, source: str, roles: Roles, report: Report) -> Table:
    if kind == "json":
        raise InputError(f"{source} is JSON, which is not read here: save it as CSV or Parquet")
    if kind == "pickle":
        raise InputError(
            f"{source} is a Python pickle, which can run code when it is read: save the data as "
            "CSV, NPY or Parquet"
        )
    module, reader = _READERS[kind]
    progress = [report] if kind == "text" else []
    try:
        read = getattr(import_module(f"{__package__}.{module}"), reader)
        return read(path, source, roles, *progress)
    except InputError as error:  # the file name may explain why there is no table
        named = path.suffix.lower() in (".npy", ".npz", ".parquet", ".xlsx", ".h5ad")
        if kind != "text" or not named:
            raise
        raise InputError(
            f"{error}. It is called {path.suffix}, but holds text: save it as CSV, NPY or Parquet"
        ) from error
