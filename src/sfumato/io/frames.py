"""Tables of other tools: Parquet (pyarrow), Excel (fastexcel) and AnnData."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from ..array.memory import reserve
from ..array.text import plain
from ._tables import ID_TITLES, InputError, Roles, Table, assign_roles, listed, without_absent
from .columns import Cells, Raw
from .mixed import mixed_table
from .text import read_stream

__all__ = ["read_anndata", "read_excel", "read_parquet"]


def read_parquet(path: Path, source: str, roles: Roles) -> Table:
    """The table in a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sfumato[io]'") from error
    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            special, evidence = assign_roles(
                columns, _with_ids(file.schema_arrow, roles, pa), source
            )
            reserve(
                (file.metadata.num_rows, len(evidence)),
                np.float64,
                f"the table in {source}",
                "keep fewer columns or rows",
            )
            table = file.read()
        if roles.mixed:
            return _mixed(table, special, evidence, roles, source, pa)
        kept = {role: table.column(place) for role, place in special.items()}
        values = [
            _column(table.column(place), columns[place], roles.labels, source, pa)
            for place in evidence
        ]
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise InputError(
            f"{source} is not a whole Parquet file: {plain(str(error).splitlines()[0], 120)}"
        ) from error
    if not table.num_rows:
        raise InputError(f"{source} has no rows")
    return Table(
        np.column_stack(values),
        [columns[place] for place in evidence],
        [str(name) for name in kept["id"].to_pylist()] if "id" in kept else None,
        columns[special["id"]] if "id" in special else None,
        _column(kept["weight"], roles.weight or "", False, source, pa)
        if "weight" in kept
        else None,
        [str(name) for name in kept["classes"].to_pylist()] if "classes" in kept else None,
        source,
    )


def _mixed(
    table: Any, special: dict[str, int], evidence: list[int], roles: Roles, source: str, pa: Any
) -> Table:
    """A table whose columns may be of any kind."""
    if not table.num_rows:
        raise InputError(f"{source} has no rows")
    names = table.column_names
    held: dict[str, list[Any]] = {
        role: [
            _column(table.column(place), names[place], False, source, pa)
            if role == "weight"
            else [str(name) for name in table.column(place).to_pylist()]
        ]
        for role, place in special.items()
    }
    raws = [_raw(table.column(place), names[place], pa) for place in evidence]
    return mixed_table(
        raws, held, {role: names[place] for role, place in special.items()}, roles, source
    )


def _raw(column: Any, name: str, pa: Any) -> Raw:
    """A column of Arrow as the reader of text gives it."""
    kind, types = column.type, pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        days = column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64())
        return Raw(name, days.to_numpy(zero_copy_only=False) / 86_400_000_000, kind="date")
    if types.is_boolean(kind):
        return Raw(name, _floats(column.cast(pa.int8()), pa), kind="yes/no")
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        values = _floats(column, pa)
        infinite = [("inf", int(place) + 1) for place in np.flatnonzero(np.isinf(values))]
        return Raw(name, values, strange=tuple(infinite))
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    cells = Cells(name, ".")
    cells.add(["" if cell is None else str(cell) for cell in column.to_pylist()], lambda at: at + 1)
    return cells.finish()


def _floats(column: Any, pa: Any) -> np.ndarray:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def read_excel(path: Path, source: str, roles: Roles) -> Table:
    """The table in a sheet of an Excel workbook, read as text, like a CSV file.

    The sheet is that of ``roles.sheet``, a name or a number from 1, else the first with a table.
    """
    try:
        import fastexcel
        import pyarrow  # noqa: F401  (what fastexcel hands columns over with)
    except ImportError as error:
        raise ImportError(
            "Excel workbooks need fastexcel and pyarrow: pip install 'sfumato[io]'"
        ) from error
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
    except Exception as error:  # whatever a damaged workbook makes the reader stumble over
        raise InputError(
            f"{source} is not a whole Excel workbook: {plain(str(error).splitlines()[0], 100)}"
        ) from error
    if not table.num_columns or not table.num_rows:
        raise InputError(f"{source}: the sheet '{plain(name, 40)}' is empty")
    reserve(
        (table.num_rows, 8 * table.num_columns),  # cells as text
        np.float64,
        f"the table in {source}",
        "keep fewer columns or rows",
    )
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
    held = ", ".join(f"'{plain(name, 30)}'" for name in names[:8])
    raise InputError(f"--sheet: {source} has no sheet '{plain(asked, 40)}': it has {held}")


def _with_ids(schema: Any, roles: Roles, pa: Any) -> Roles:
    """A first column called "id", the index that pandas keeps, or a single column of text holds the
    ids by default.
    """
    roles = without_absent(roles, schema.names)
    if roles.id is not None:
        return roles
    if roles.usual_id in schema.names:
        return roles._replace(id=roles.usual_id)
    for name in schema.names:
        if name == "__index_level_0__" or (
            name == schema.names[0]
            and name.lower() in ID_TITLES
            and name not in (roles.classes, *listed(roles.drop, schema.names))
            and name not in (roles.keep or ())
        ):
            return roles._replace(id=name)
    if roles.mixed:
        return roles
    text = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    text = [name for name in text if name not in (roles.classes, roles.weight, *roles.drop)]
    return roles._replace(id=text[0]) if len(text) == 1 and not roles.labels else roles


def _column(column: Any, name: str, labels: bool, source: str, pa: Any) -> np.ndarray:
    kind = column.type
    if labels:
        coded = (
            column.combine_chunks().dictionary_encode()
            if not pa.types.is_dictionary(kind)
            else column.combine_chunks()
        )
        words = ["" if word is None else str(word) for word in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
        unseen = [place for place, word in enumerate(words) if word in ("", "-1", "-1.0", "nan")]
        return np.where(np.isin(codes, unseen), -1, codes).astype(np.int32)
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        fix = "leave it out with --drop, --id-column or --class-column"
        raise InputError(
            f"{source}, column '{plain(name, 40)}' holds {plain(kind, 30)}, not numbers: {fix}"
        )
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)


def read_anndata(path: Path, source: str, roles: Roles) -> Table:
    """Cells of an AnnData file.

    Their principal components where it has them, else the expression matrix; names from the index.
    """
    try:
        import anndata
    except ImportError as error:
        raise ImportError(
            f"{source} is an HDF5 file; AnnData files need the anndata package: pip install anndata"
        ) from error
    try:
        data = anndata.read_h5ad(path)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{source} is not a whole AnnData file: {plain(error, 100)}") from error
    reduced = "X_pca" in data.obsm
    values = data.obsm["X_pca"] if reduced else data.X
    columns = (
        [f"PC{place + 1}" for place in range(values.shape[1])]
        if reduced
        else [str(name) for name in data.var_names]
    )
    annotation = {"weight": roles.weight, "classes": roles.classes, "id": roles.id}
    for role, name in annotation.items():
        if name is not None and name not in data.obs:
            raise InputError(
                f"{source}: --{role.replace('classes', 'class')}-column '{plain(name, 40)}' is "
                "not among the annotations of the cells"
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
