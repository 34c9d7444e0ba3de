"""Matrix Market files, parsed here.

Untrusted files must not reach a parser that does not check sizes.
"""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..array.memory import reserve
from ..array.text import plain
from ._tables import InputError, Roles, Table
from .arrays import as_table, plausible

__all__ = ["read_matrix_market"]

_FIELDS = ("real", "double", "integer", "pattern")
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


class _Header(NamedTuple):
    """What the first lines of a file declare."""

    rows: int
    columns: int
    entries: int
    dense: bool
    pattern: bool
    symmetry: str


def read_matrix_market(path: Path, source: str, roles: Roles) -> Table:
    """The matrix in a Matrix Market file, as a sparse or dense array."""
    try:
        with _opened(path) as stream:
            header = _read_header(stream, path, source)
            if header.dense:
                shape = header.rows, header.columns
                instead = "save it in coordinate form if it is sparse"
                reserve(shape, np.float64, f"the matrix in {source}", instead)
            else:
                plausible(header.rows, header.columns, header.entries, source)
            body = _read_body(stream, header, source)
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{source} is not a whole gzip file: {plain(error, 80)}") from error
    matrix = _dense(body[:, 0], header) if header.dense else _sparse(body, header, source)
    return as_table(matrix, None, source, roles)


def _opened(path: Path) -> Any:
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _read_header(stream: Any, path: Path, source: str) -> _Header:
    words = stream.readline(1000).decode("ascii", "replace").lower().split()
    line = b"%"
    while line.startswith(b"%") or not line.strip():
        line = stream.readline(10_000)
        if not line:
            raise InputError(f"{source}: the Matrix Market header has no line of sizes")
    if "complex" in words:
        raise InputError(
            f"{source} holds complex numbers, which cannot be clustered: take the real part or "
            "the modulus"
        )
    try:
        _, _, layout, field, symmetry = words
        sizes = [int(part) for part in line.split()]
        dense = layout == "array"
        rows, columns, entries = (*sizes, 0) if dense else sizes
        known = layout in ("array", "coordinate") and field in _FIELDS and symmetry in _SYMMETRIES
        square = symmetry == "general" or rows == columns
        if not known or not square or min(rows, columns, entries) < 0:
            raise ValueError
    except ValueError as error:
        shown = plain(line.decode("ascii", "replace").strip(), 40)
        raise InputError(
            f"{source}: the Matrix Market header cannot be read ('{shown}')"
        ) from error
    if dense:
        strict = symmetry == "skew-symmetric"
        entries = rows * columns if symmetry == "general" else rows * (rows + 1 - 2 * strict) // 2
    packed = isinstance(stream, gzip.GzipFile)
    room = (path.stat().st_size - (0 if packed else stream.tell())) * (1000 if packed else 1)
    if entries * (2 if dense else 4) > room + 2:
        raise InputError(
            f"{source}: the header declares {entries:,} entries, more than "
            f"{path.stat().st_size:,} bytes can hold"
        )
    return _Header(rows, columns, entries, dense, field == "pattern", symmetry)


def _read_body(stream: Any, header: _Header, source: str) -> np.ndarray:
    """The lines of the body as numbers, one row per line, as many as were declared."""
    width = 1 if header.dense else 2 if header.pattern else 3
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no entries at all: the count below tells
            body = np.loadtxt(stream, comments="%", ndmin=2, encoding="latin-1")
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{source} is not a whole Matrix Market file: {plain(error, 100)}"
        ) from error
    body = body if body.size else np.empty((0, width))
    if body.shape != (header.entries, width):
        raise InputError(
            f"{source} is not a whole Matrix Market file: {body.shape[0]:,} lines of "
            f"{body.shape[1]} "
            f"numbers where the header declares {header.entries:,} of {width}"
        )
    return body


def _sparse(body: np.ndarray, header: _Header, source: str) -> Any:
    shape = header.rows, header.columns
    places = body[:, :2] - 1
    if not ((places >= 0) & (places < shape) & (places == np.floor(places))).all():
        raise InputError(
            f"{source}: an entry lies outside the {shape[0]:,} x {shape[1]:,} that the header "
            "declares"
        )
    values = np.ones(len(body)) if header.pattern else body[:, 2]
    i, j = places.T.astype(np.int64)
    if header.symmetry != "general":
        twice = i != j
        sign = -1.0 if header.symmetry == "skew-symmetric" else 1.0
        i, j = np.concatenate([i, j[twice]]), np.concatenate([j, i[twice]])
        values = np.concatenate([values, sign * values[twice]])
    return sp.csr_array(sp.coo_array((values, (i, j)), shape=shape))


def _dense(values: np.ndarray, header: _Header) -> np.ndarray:
    """Entries by columns; of a symmetric matrix those on and below the diagonal."""
    shape = header.rows, header.columns
    if header.symmetry == "general":
        return values.reshape(shape, order="F")
    strict = header.symmetry == "skew-symmetric"
    matrix = np.zeros(shape)
    columns, rows = np.triu_indices(header.rows, int(strict))
    matrix[columns, rows] = -values if strict else values
    matrix[rows, columns] = values
    return matrix
