"""One reader for every kind of file, recognised by its first bytes."""

from __future__ import annotations

import errno
import gzip
import hashlib
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from ..array.memory import budget_for
from ..array.text import plain
from ._tables import InputError, Roles, Table, archive_holds

__all__ = ["kind_of", "read", "version"]

_READERS = {  # by kind: the module and its function, which is imported when it is needed
    "npy": ("arrays", "read_npy"),
    "npz": ("arrays", "read_npz"),
    "matrix-market": ("arrays", "read_matrix_market"),
    "parquet": ("frames", "read_parquet"),
    "excel": ("frames", "read_excel"),
    "anndata": ("frames", "read_anndata"),
}


def kind_of(path: Path) -> str:
    """What the file holds, from its first bytes."""
    with path.open("rb") as file:
        start = file.read(16)
    if start[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                start = file.read(16)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{plain(path.name)} is not a whole gzip file") from error
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
    if kind == "text" and _is_json(path):
        return "json"
    # A damaged archive is left to the reader of arrays, which says what is wrong.
    return "excel" if kind == "npz" and archive_holds(path, "xl/workbook.xml") else kind


def _is_json(path: Path) -> bool:
    """Whether a file that is called so begins as JSON does."""
    if path.suffix.lower() not in (".json", ".jsonl", ".ndjson"):
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] in (b"{", b"[")


def read(
    path: str | Path, roles: Roles | None = None, report: Callable[..., None] | None = None
) -> Table:
    """The table in a file, or on standard input for ``-``.

    Parameters
    ----------
    path : path of a CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or AnnData file, or "-"
    roles : Roles
        Which columns are ids, weights and classes, which to leave out, and whether the others are
        labels.
    report : function, optional
        Called with the share of the file that has been read, and how much that is.

    Returns
    -------
    table : Table

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
    budget_for(0)  # one that is no number is not to be blamed on the file
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed: name a file")
        return _read_pipe(sys.stdin.buffer, "standard input", roles, report)
    if "://" in str(path):
        raise InputError(f"{plain(path, 200)} is an address: download it, and name the file")
    path = Path(path)
    if "\0" in str(path):
        raise InputError(f"no file called {plain(path, 200)}")
    if _is_pipe(path):
        with path.open("rb") as pipe:
            return _read_pipe(pipe, f"the pipe {plain(path, 80)}", roles, report)
    return _read(path, plain(path.name or path), roles, report)


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo()
    except OSError:  # a name that the system does not take
        return False


def _read_pipe(
    pipe: BinaryIO, source: str, roles: Roles, report: Callable[..., None] | None
) -> Table:
    """The table that comes through a pipe, by way of a file.

    Its kind is recognised by its beginning, and it is read more than once.
    """
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
    """What changes when a file is written to."""
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _read(path: Path, source: str, roles: Roles, report: Callable[..., None] | None) -> Table:
    try:
        before = path.stat()
        if not stat.S_ISREG(before.st_mode):
            raise InputError(
                f"{source} is a {'folder' if path.is_dir() else 'device'}, not a file of data"
            )
        if before.st_size == 0:
            raise InputError(f"{source} is empty: there is no table in it")
        begun, kind = version(path), kind_of(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        table = _by_kind(kind, path, source, roles, report)._replace(kind=kind, digest=digest)
        if version(path) != begun:
            raise InputError(
                f"{source} changed while it was read: wait until it is complete, or copy it first"
            )
        return table
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"no file called {plain(path, 200)}") from error
    except PermissionError as error:
        raise InputError(f"{source} may not be read by you: check its permissions") from error
    except (InputError, MemoryError, ImportError):
        raise
    except OSError as error:
        reason = plain(error.strerror or error, 100)
        raise InputError(f"{source} cannot be read: {reason}") from error
    except Exception as error:  # whatever a file from outside makes a reader stumble over
        what = f"{type(error).__name__} {plain(error, 80)}"
        raise InputError(f"{source} is damaged, or not what it seems to be: {what}") from error


def _by_kind(
    kind: str, path: Path, source: str, roles: Roles, report: Callable[..., None] | None
) -> Table:
    if kind == "json":
        raise InputError(f"{source} is JSON, which is not read here: save it as CSV or Parquet")
    if kind == "pickle":
        raise InputError(
            f"{source} is a Python pickle, which can run code when it is read: save the data as "
            "CSV, NPY or Parquet"
        )
    if kind != "text":
        room, reader = _READERS[kind]
        return getattr(import_module(f"{__package__}.{room}"), reader)(path, source, roles)
    from .text import read_text

    try:
        return read_text(path, source, roles, report)
    except InputError as error:  # the name of the file may say why there is no table
        if path.suffix.lower() not in (".npy", ".npz", ".parquet", ".xlsx", ".h5ad"):
            raise
        raise InputError(
            f"{error}. It is called {path.suffix}, but holds text: save it as CSV, NPY or Parquet"
        ) from error
