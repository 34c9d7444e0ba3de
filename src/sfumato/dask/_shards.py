"""Files of a folder as one dask array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

import dask

__all__ = ["shards"]


def shards(folder: Any, pattern: str = "*") -> da.Array:
    """The NPY or Parquet files of a folder, in the order of their names, as one dask array (n, p).

    Parameters
    ----------
    folder : path
        A folder that every worker can read.
    pattern : str
        Which of its files.

    Returns
    -------
    X : dask array of shape (n, p)
        One block per file; NPY files are mapped into memory, of Parquet files all columns are taken
        as features.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sfumato.dask import shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(3):
    ...         np.save(f"{folder}/part-{i}.npy", np.full((2, 4), float(i)))
    ...     X = shards(folder)
    ...     print(X.shape, float(X.sum()))
    (6, 4) 24.0
    """
    paths = sorted(
        path for path in Path(folder).glob(pattern) if path.suffix in (".npy", ".parquet")
    )
    if not paths:
        raise ValueError(
            f"folder={str(folder)!r} holds no .npy or .parquet file that matches {pattern!r}"
        )
    blocks = []
    for path in paths:
        shape, dtype = _header(path)
        blocks.append(da.from_delayed(dask.delayed(_load, pure=True)(str(path)), shape, dtype))
    return da.concatenate(blocks, axis=0)


def _header(path: Path) -> tuple[tuple[int, int], np.dtype]:
    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r")
        return array.shape, array.dtype
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    single = all(str(field.type) == "float" for field in file.schema_arrow)
    return (file.metadata.num_rows, file.metadata.num_columns), np.dtype(
        np.float32 if single else np.float64
    )


def _load(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    from pyarrow import parquet

    columns = [column.to_numpy() for column in parquet.read_table(path).columns]
    return np.stack(columns, axis=1).astype(np.result_type(*columns, np.float32), copy=False)
