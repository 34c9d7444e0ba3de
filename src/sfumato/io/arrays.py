"""Arrays on disk: NPY, NPZ and Matrix Market. What the header declares is held against the file before memory is asked for."""

from __future__ import annotations

import gzip
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.memory import reserve
from ..core.text import plain
from ._tables import InputError, Roles, Table, assign_roles

__all__ = ["read_matrix_market", "read_npy", "read_npz"]

_SPARSE = {"format", "shape", "data"}
_KNOWN = (
    "X",
    "features",
    "W",
    "similarity",
    "L",
    "labelings",
    "counts",
    "U",
    "memberships",
    "data",
    "arr_0",
)


def _header(stream: Any, source: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type that an NPY header declares; pickled objects are refused."""
    try:
        version = np.lib.format.read_magic(stream)
        reader = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = reader(stream)
    except (ValueError, EOFError, OSError, SyntaxError) as error:
        raise InputError(f"{source}: the NPY header is damaged ({plain(error, 80)})") from error
    if dtype.hasobject:
        raise InputError(
            f"{source} holds Python objects (a pickle), which can run code when read: save numbers or text instead"
        )
    return shape, fortran, dtype


def _declared(shape: tuple[int, ...], dtype: np.dtype, room: int, source: str) -> None:
    size = math.prod(shape) * dtype.itemsize
    if size != room:
        dimensions = " x ".join(f"{n:,}" for n in shape) or "one number"
        raise InputError(
            f"{source}: the header declares {dimensions} of {dtype} ({size:,} bytes), but the file holds {room:,} bytes of data"
        )


def read_npy(path: Path, source: str, roles: Roles) -> Table:
    """The array in an NPY file, mapped rather than read."""
    with path.open("rb") as stream:
        shape, _, dtype = _header(stream, source)
        _declared(shape, dtype, path.stat().st_size - stream.tell(), source)
    return _as_table(np.load(path, mmap_mode="r", allow_pickle=False), None, source, roles)


def read_npz(path: Path, source: str, roles: Roles) -> Table:
    """The array in an NPZ file: the only one, the one with a well-known name, or a sparse matrix of SciPy."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
            if any(name.startswith("xl/") for name in archive.namelist()):
                raise InputError(f"{source} is an Excel workbook: save the sheet as CSV")
            if not members:
                raise InputError(f"{source} is a ZIP file without arrays: expected an NPZ file")
            for name, info in members.items():
                with archive.open(info) as stream:
                    shape, _, dtype = _header(stream, f"{source}, array '{plain(name, 30)}'")
                    _declared(
                        shape,
                        dtype,
                        info.file_size - stream.tell(),
                        f"{source}, array '{plain(name, 30)}'",
                    )
                reserve(
                    shape,
                    dtype,
                    f"array '{plain(name, 30)}' of {source}",
                    "save a smaller array, or NPY, which is mapped, not read",
                )
        with np.load(path, allow_pickle=False) as arrays:
            return _choose(arrays, list(members), path, source, roles)
    except (InputError, MemoryError):
        raise
    except (
        ValueError,
        IndexError,
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        OSError,
    ) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise InputError(f"{source} is not a whole NPZ file: {plain(error, 80)}") from error


def _choose(arrays: Any, names: list[str], path: Path, source: str, roles: Roles) -> Table:
    if set(names) >= _SPARSE:
        matrix = sp.load_npz(path)
        _plausible(matrix.shape[0], matrix.shape[1], matrix.nnz, source)
        return _as_table(sp.csr_array(matrix), None, source, roles)
    ids = next((arrays[name] for name in ("ids", "names") if name in names), None)
    flat = [name for name in names if name not in ("ids", "names")]
    name = flat[0] if len(flat) == 1 else next((known for known in _KNOWN if known in flat), None)
    if name is None:
        held = ", ".join(f"'{plain(name, 20)}'" for name in flat[:8])
        raise InputError(
            f"{source} holds several arrays ({held}): call the one to cluster 'X', or save it alone"
        )
    return _as_table(arrays[name], ids, source, roles)


def read_matrix_market(path: Path, source: str, roles: Roles) -> Table:
    """The matrix in a Matrix Market file, as a sparse or dense array."""
    from scipy.io import mmread

    rows, columns, entries, dense = _declared_market(path, source)
    if dense:
        reserve(
            (rows, columns),
            np.float64,
            f"the matrix in {source}",
            "save it in coordinate form if it is sparse",
        )
    else:
        _plausible(rows, columns, entries, source)
    try:
        with _opened(path) as stream:
            matrix = mmread(stream)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{source} is not a whole Matrix Market file: {plain(error, 100)}"
        ) from error
    return _as_table(matrix if dense else sp.csr_array(matrix), None, source, roles)


def _opened(path: Path) -> Any:
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")


def _declared_market(path: Path, source: str) -> tuple[int, int, int, bool]:
    with _opened(path) as stream:
        kind = stream.readline(1000).decode("ascii", "replace").lower().split()
        line = b"%"
        while line.startswith(b"%") or not line.strip():
            line = stream.readline(10_000)
            if not line:
                raise InputError(f"{source}: the Matrix Market header has no line of sizes")
        start = stream.tell()
        packed = isinstance(stream, gzip.GzipFile)
    try:
        sizes = [int(part) for part in line.split()]
        dense = kind[2] == "array"
        rows, columns, entries = (*sizes, sizes[0] * sizes[1]) if dense else sizes
    except (ValueError, IndexError) as error:
        raise InputError(
            f"{source}: the Matrix Market header cannot be read ('{plain(line.decode('ascii', 'replace').strip(), 40)}')"
        ) from error
    if "complex" in kind:
        raise InputError(
            f"{source} holds complex numbers, which cannot be clustered: take the real part or the modulus"
        )
    room = (path.stat().st_size - start) * (1000 if packed else 1)
    half = 2 if {"symmetric", "skew-symmetric", "hermitian"} & set(kind) and dense else 1
    if entries * (2 if dense else 4) > half * (room + 2):
        raise InputError(
            f"{source}: the header declares {entries:,} entries, more than {path.stat().st_size:,} bytes can hold"
        )
    return rows, columns, entries, dense


def _plausible(rows: int, columns: int, entries: int, source: str) -> None:
    """Refuse a sparse matrix that is almost all empty rows: nobody means that, and its row pointers alone could fill the memory."""
    if rows > 1_000_000 + 100 * entries:
        raise InputError(
            f"{source} declares {rows:,} x {columns:,} but holds {entries:,} entries: almost every object would be empty"
        )
    reserve(
        (rows + 2 * entries + 8 * columns,),
        np.float64,
        f"the matrix in {source}",
        "leave out empty columns",
    )


def _as_table(values: Any, ids: Any, source: str, roles: Roles) -> Table:
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(
            f"{source} must hold rows and columns, got an array of shape {values.shape}"
        )
    if values.dtype.kind not in "biuf" and not roles.labels:
        raise InputError(f"{source} must hold numbers, got {values.dtype}")
    if ids is not None and len(ids) != values.shape[0]:
        raise InputError(f"{source}: {len(ids)} ids for {values.shape[0]} rows")
    columns = [str(place) for place in range(values.shape[1])]
    special, evidence = assign_roles(columns, roles, source)
    taken = {
        role: values[:, [place]].toarray().ravel() if sp.issparse(values) else values[:, place]
        for role, place in special.items()
    }
    if special or roles.drop:
        values = values[:, evidence]
    names = taken.get("id", ids)
    return Table(
        values,
        [columns[place] for place in evidence],
        None if names is None else [_name(name) for name in names.tolist()],
        roles.id,
        np.asarray(taken["weight"], dtype=np.float64) if "weight" in taken else None,
        [_name(name) for name in taken["classes"].tolist()] if "classes" in taken else None,
        source,
    )


def _name(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
