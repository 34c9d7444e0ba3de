"""Arrays on disk: NPY, NPZ and Matrix Market.

The sizes in a header are compared with the file before memory is allocated. SciPy reads only the
header of Matrix Market files, because its parser of the body crashes on some damaged files.
"""

import gzip
import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.io import mminfo

from ..array.text import plain
from ..array.types import Array
from ..array.validation import reserve
from .reading import InputError, Roles, Table, assign_roles, quoted


def _check_header(stream: Any, size: int, source: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type that an NPY header declares, for a file of this size."""
    form = np.lib.format
    first = form.read_magic(stream) == (1, 0)
    read = form.read_array_header_1_0 if first else form.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise InputError(
            f"{source} holds Python objects (a pickle), which can run code when read: save "
            "numbers or text instead"
        )
    held, declared = size - stream.tell(), math.prod(shape) * dtype.itemsize
    if declared != held:
        dimensions = " x ".join(f"{n:,}" for n in shape) or "one number"
        raise InputError(
            f"{source}: the header declares {dimensions} of {dtype} ({declared:,} bytes), but the "
            f"file holds {held:,} bytes of data"
        )
    return shape, dtype


def read_npy(path: Path, source: str, roles: Roles) -> Table:
    """The array in an NPY file, memory-mapped."""
    with path.open("rb") as stream:
        _check_header(stream, path.stat().st_size, source)
    return _as_table(np.load(path, mmap_mode="r", allow_pickle=False), None, source, roles)


def read_npz(path: Path, source: str, roles: Roles) -> Table:
    """The array in an NPZ file: the only one, one with a known name, or a sparse matrix."""
    with zipfile.ZipFile(path) as archive:
        held = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if not held:
            raise InputError(f"{source} is a ZIP file without arrays: expected an NPZ file")
        for info in held:
            name = f"array '{plain(info.filename.removesuffix('.npy'), 30)}'"
            with archive.open(info) as stream:
                shape, dtype = _check_header(stream, info.file_size, f"{source}, {name}")
            instead = "save a smaller array, or NPY, which is mapped, not read"
            reserve(shape, dtype, f"{name} of {source}", instead)
    with np.load(path, allow_pickle=False) as arrays:
        return _choose(arrays, path, source, roles)


def _choose(arrays: Any, path: Path, source: str, roles: Roles) -> Table:
    names = list(arrays)
    if {"format", "shape", "data"} <= set(names):
        matrix = sp.load_npz(path)
        _check_plausible(matrix.shape, matrix.nnz, source)
        return _as_table(sp.csr_array(matrix), None, source, roles)
    ids = next((arrays[name] for name in ("ids", "names") if name in names), None)
    flat = [name for name in names if name not in ("ids", "names")]
    known = "X features W similarity L labelings counts U memberships data arr_0"  # likeliest first
    name = flat[0] if len(flat) == 1 else next(filter(flat.__contains__, known.split()), None)
    if name is None:
        raise InputError(f"{source} holds several arrays ({quoted(flat)}): call one 'X'")
    return _as_table(arrays[name], ids, source, roles)


def _check_plausible(shape: tuple[int, ...], entries: int, source: str) -> None:
    """Refuse a sparse matrix in which almost all rows are empty."""
    rows, columns = shape
    if rows > 1_000_000 + 100 * entries:
        raise InputError(
            f"{source} declares {rows:,} x {columns:,} but holds {entries:,} entries: almost "
            "every object would be empty"
        )
    size = rows + 2 * entries + 8 * columns
    reserve((size,), np.float64, f"the matrix in {source}", "leave out empty columns")


def _as_table(values: Array, ids: Any, source: str, roles: Roles) -> Table:
    """The table made from an array; special columns are taken out."""
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"{source} must hold rows and columns, got shape {values.shape}")
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
        None if names is None else _names(names),
        roles.id,
        np.asarray(taken["weight"], dtype=np.float64) if "weight" in taken else None,
        _names(taken["classes"]) if "classes" in taken else None,
        source,
    )


def _names(values: Any) -> list[str]:
    """Numbers as names; 3.0 becomes "3"."""
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values.tolist())
    return [str(value) for value in whole]


def read_matrix_market(path: Path, source: str, roles: Roles) -> Table:
    """The matrix in a (possibly gzipped) Matrix Market file, as a sparse or dense array."""
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as stream:
        rows, columns, entries, layout, field, symmetry = _header(stream, source)
        shape, dense, skew = (rows, columns), layout == "array", symmetry == "skew-symmetric"
        if dense and symmetry != "general":
            entries = rows * (rows + 1) // 2 - skew * rows
        # One compressed byte may expand to a thousand.
        held = path.stat().st_size * 1000 if packed else path.stat().st_size - stream.tell()
        if entries * (2 if dense else 4) > held + 2:
            raise InputError(
                f"{source}: the header declares {entries:,} entries, more than "
                f"{path.stat().st_size:,} bytes can hold"
            )
        if dense:
            instead = "save it in coordinate form if it is sparse"
            reserve(shape, np.float64, f"the matrix in {source}", instead)
        else:
            _check_plausible(shape, entries, source)
        width = 1 if dense else 2 if field == "pattern" else 3
        body = _body(stream, (entries, width), source)
    if dense and symmetry == "general":
        return _as_table(body[:, 0].reshape(shape, order="F"), None, source, roles)
    if dense:  # column by column, without indices
        j, i = np.triu_indices(rows, int(skew))
    else:
        places = body[:, :2] - 1
        if not ((places >= 0) & (places < shape) & (places == np.floor(places))).all():
            raise InputError(f"{source}: an entry lies outside the matrix that the header declares")
        i, j = places.T.astype(np.int64)
    values = np.ones(len(body)) if width == 2 else body[:, -1]
    if symmetry != "general":  # entries below the diagonal also stand for those above
        twice = i != j
        i, j = np.concatenate([i, j[twice]]), np.concatenate([j, i[twice]])
        values = np.concatenate([values, (-1.0 if skew else 1.0) * values[twice]])
    matrix = sp.coo_array((values, (i, j)), shape=shape)
    return _as_table(matrix.toarray() if dense else sp.csr_array(matrix), None, source, roles)


def _header(stream: Any, source: str) -> tuple[Any, ...]:
    """SciPy's interpretation of the first line and the sizes; the stream is left after them."""
    first = line = stream.readline(1000)
    while line.startswith(b"%") or (line and not line.strip()):
        line = stream.readline(10_000)
    found = mminfo(io.BytesIO(first + line))
    rows, columns, *_, field, symmetry = found
    if symmetry != "general" and rows != columns:
        raise ValueError("a symmetric matrix must be square")
    if field == "complex":
        raise InputError(f"{source} holds complex numbers: take the real part or the modulus")
    return found


def _body(stream: Any, shape: tuple[int, int], source: str) -> np.ndarray:
    """The lines of the body as numbers, one row per line, as many as were declared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty body; the count below reports it
        body = np.loadtxt(stream, comments="%", ndmin=2, encoding="latin-1")
    body = body if body.size else np.empty((0, shape[1]))
    if body.shape != shape:
        raise InputError(
            f"{source} is not a whole Matrix Market file: {body.shape[0]:,} lines of "
            f"{body.shape[1]} numbers where the header declares {shape[0]:,} of {shape[1]}"
        )
    return body
