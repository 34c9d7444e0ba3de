"""One reader for every kind of file: its first bytes say what it is."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .._names import plain
from ._tables import InputError, Roles, Table

__all__ = ["kind_of", "read"]

_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(1, 6))


def kind_of(path: Path) -> str:
    """What the file holds, from its first bytes."""
    with path.open("rb") as file:
        start = file.read(16)
    if start[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                start = file.read(16)
        except (OSError, EOFError) as error:
            raise InputError(f"{plain(path.name)} is not a whole gzip file") from error
        return "matrix-market" if start.startswith(b"%%MatrixMarket") else "text"
    signatures = {b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"PAR1": "parquet", b"%%MatrixMarket": "matrix-market", b"\x89HDF": "anndata"}
    return next((kind for mark, kind in signatures.items() if start.startswith(mark)), "pickle" if start.startswith(_PICKLES) else "text")


def read(path: str | Path, roles: Roles = Roles(), report: Callable[[float], None] | None = None) -> Table:  # noqa: B008
    """The table in a file, or on standard input for ``-``.

    Parameters
    ----------
    path : path of a CSV, TSV, Parquet, NPY, NPZ, Matrix Market or AnnData file, or "-"
    roles : Roles
        Which columns are ids, weights and classes, which to leave out, and whether the others are labels.
    report : function, optional
        Hears the share of the file that has been read.

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
    if str(path) != "-":
        return _read(Path(path), plain(Path(path).name), roles, report)
    with tempfile.NamedTemporaryFile(prefix="sfumato-") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        return _read(Path(spool.name), "standard input", roles, None)


def _read(path: Path, source: str, roles: Roles, report: Callable[[float], None] | None) -> Table:
    try:
        if path.is_dir():
            raise InputError(f"{source} is a folder, not a file of data")
        if path.stat().st_size == 0:
            raise InputError(f"{source} is empty: there is no table in it")
        kind = kind_of(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return _by_kind(kind, path, source, roles, report)._replace(kind=kind, digest=digest)
    except FileNotFoundError as error:
        raise InputError(f"no file called {plain(path, 200)}") from error
    except PermissionError as error:
        raise InputError(f"{source} may not be read by you: check its permissions") from error


def _by_kind(kind: str, path: Path, source: str, roles: Roles, report: Callable[[float], None] | None) -> Table:
    if kind == "text":
        from .text import read_text

        return read_text(path, source, roles, report)
    if kind == "parquet":
        from .frames import read_parquet

        return read_parquet(path, source, roles)
    if kind == "anndata":
        from .frames import read_anndata

        return read_anndata(path, source, roles)
    if kind == "pickle":
        raise InputError(f"{source} is a Python pickle, which can run code when it is read: save the data as CSV, NPY or Parquet")
    from . import arrays

    reader = {"npy": arrays.read_npy, "npz": arrays.read_npz, "matrix-market": arrays.read_matrix_market}[kind]
    return reader(path, source, roles)
