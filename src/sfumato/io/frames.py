"""Readers of Parquet (pyarrow), Excel (fastexcel) and AnnData files."""

from __future__ import annotations

import csv
import io
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..array.text import plain
from ..array.validation import reserve
from .columns import Cells, Labels, Raw, as_table
from .reading import InputError, Roles, Table, assign_roles, extra, quoted, with_ids
from .text import read_stream


def read_parquet(path: Path, source: str, roles: Roles) -> Table:
    """The table in a Parquet file."""
    pq = extra("pyarrow.parquet", "Parquet files need pyarrow", "'sfumato[io]'")
    pa = import_module("pyarrow")
    try:
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
        names = {
            role: [str(name) for name in table.column(place).to_pylist()]
            for role, place in special.items()
            if role != "weight"
        }
        raws = {place: _raw(table.column(place), titles[place], roles, pa) for place in evidence}
        if "weight" in special:
            place = special["weight"]
            raws[place] = _raw(table.column(place), titles[place], Roles(), pa)
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{source} is not a whole Parquet file: {plain(str(error).splitlines()[0], 120)}"
        ) from error
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
            infinite = np.flatnonzero(np.isinf(values)).tolist()
            wrong = ("inf", infinite[0] + 1, len(infinite)) if infinite else None
            return Raw(name, values, wrong=wrong)
    cells = (Labels if roles.labels else Cells)(name, ".")
    words = ["" if cell is None else str(cell) for cell in column.to_pylist()]
    cells.add(words, range(1, len(words) + 1))
    return cells.finish()


def _floats(column: Any, pa: Any) -> np.ndarray:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def read_excel(path: Path, source: str, roles: Roles) -> Table:
    """The table in a sheet of an Excel workbook, read as text, like a CSV file."""
    for package in ("pyarrow", "fastexcel"):  # fastexcel returns its columns through pyarrow
        fastexcel = extra(package, "Excel workbooks need fastexcel and pyarrow", "'sfumato[io]'")
    try:
        book = fastexcel.read_excel(path)
        names = book.sheet_names
        for name in _wanted_sheets(roles.sheet, names, source):
            sheet = book.load_sheet(name, header_row=None, dtypes="string")
            if sheet.width > 1 and sheet.height > 1:
                break
        else:
            name, sheet = names[0], book.load_sheet(names[0], header_row=None, dtypes="string")
        table = sheet.to_arrow()
    except InputError:
        raise
    except Exception as error:  # readers raise many kinds of errors on damaged workbooks
        raise InputError(
            f"{source} is not a whole Excel workbook: {plain(str(error).splitlines()[0], 100)}"
        ) from error
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
    return read_stream(text, source, roles._replace(mixed=not roles.labels, delimiter=","))


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
    try:
        data = anndata.read_h5ad(path)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{source} is not a whole AnnData file: {plain(error, 100)}") from error
    values, columns = data.X, [str(name) for name in data.var_names]
    if "X_pca" in data.obsm:
        values = data.obsm["X_pca"]
        columns = [f"PC{place + 1}" for place in range(values.shape[1])]
    for option, name in {"weight": roles.weight, "class": roles.classes, "id": roles.id}.items():
        if name is not None and name not in data.obs:
            raise InputError(
                f"{source}: --{option}-column '{plain(name, 40)}' is not among the annotations of "
                "the cells"
            )
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
