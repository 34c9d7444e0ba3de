"""Arrays on disk: NPY and NPZ.

The sizes in the header are compared with the file before memory is allocated.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.memory import reserve
from ..array.text import plain
from ..array.types import Array
from ._tables import InputError, Roles, Table, assign_roles

__all__ = ["as_table", "plausible", "read_npy", "read_npz"]

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
            f"{source} holds Python objects (a pickle), which can run code when read: save "
            "numbers or text instead"
        )
    return shape, fortran, dtype


def _declared(shape: tuple[int, ...], dtype: np.dtype, room: int, source: str) -> None:
    size = math.prod(shape) * dtype.itemsize
    if size != room:
        dimensions = " x ".join(f"{n:,}" for n in shape) or "one number"
        raise InputError(
            f"{source}: the header declares {dimensions} of {dtype} ({size:,} bytes), but the "
            f"file holds {room:,} bytes of data"
        )


def read_npy(path: Path, source: str, roles: Roles) -> Table:
    """The array in an NPY file, mapped rather than read."""
    with path.open("rb") as stream:
        shape, _, dtype = _header(stream, source)
        _declared(shape, dtype, path.stat().st_size - stream.tell(), source)
    return as_table(np.load(path, mmap_mode="r", allow_pickle=False), None, source, roles)


def read_npz(path: Path, source: str, roles: Roles) -> Table:
    """The array in an NPZ file: the only one, the one with a well-known name, or a sparse matrix of
    SciPy.
    """
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


def _choose(arrays: Array, names: list[str], path: Path, source: str, roles: Roles) -> Table:
    if set(names) >= _SPARSE:
        matrix = sp.load_npz(path)
        plausible(matrix.shape[0], matrix.shape[1], matrix.nnz, source)
        return as_table(sp.csr_array(matrix), None, source, roles)
    ids = next((arrays[name] for name in ("ids", "names") if name in names), None)
    flat = [name for name in names if name not in ("ids", "names")]
    name = flat[0] if len(flat) == 1 else next((known for known in _KNOWN if known in flat), None)
    if name is None:
        held = ", ".join(f"'{plain(name, 20)}'" for name in flat[:8])
        raise InputError(
            f"{source} holds several arrays ({held}): call the one to cluster 'X', or save it alone"
        )
    return as_table(arrays[name], ids, source, roles)


def plausible(rows: int, columns: int, entries: int, source: str) -> None:
    """Refuse a sparse matrix that is almost all empty rows.

    Such a file is damaged, and its row pointers alone could fill the memory.
    """
    if rows > 1_000_000 + 100 * entries:
        raise InputError(
            f"{source} declares {rows:,} x {columns:,} but holds {entries:,} entries: almost "
            "every object would be empty"
        )
    reserve(
        (rows + 2 * entries + 8 * columns,),
        np.float64,
        f"the matrix in {source}",
        "leave out empty columns",
    )


def as_table(values: Array, ids: Any, source: str, roles: Roles) -> Table:
    """The table in an array, with its special columns taken out."""
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


def _name(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
