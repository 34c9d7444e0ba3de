"""Tables of other tools: Parquet (pyarrow) and AnnData."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..core.memory import reserve
from ..core.text import plain
from ._tables import ID_TITLES, InputError, Roles, Table, assign_roles

__all__ = ["read_anndata", "read_parquet"]


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


def _with_ids(schema: Any, roles: Roles, pa: Any) -> Roles:
    """A first column called "id", the index that pandas keeps, or a single column of text holds the ids when nobody said otherwise."""
    if roles.id is not None:
        return roles
    for name in schema.names:
        if name == "__index_level_0__" or (
            name == schema.names[0]
            and name.lower() in ID_TITLES
            and name not in (roles.classes, *roles.drop)
        ):
            return roles._replace(id=name)
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
    """Cells of an AnnData file: their principal components where it has them, else the expression matrix; names from the index."""
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
                f"{source}: --{role.replace('classes', 'class')}-column '{plain(name, 40)}' is not among the annotations of the cells"
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
