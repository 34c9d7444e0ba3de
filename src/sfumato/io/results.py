"""The result folder: memberships, a summary, the model, what the pictures need, and the report.

Whole or not at all.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from ..array.text import plain, to_cell
from ..array.types import Estimator
from ..memberships import check_memberships
from ._tables import InputError, Roles
from .reading import kind_of, read
from .summaries import read_object, read_summary

__all__ = [
    "Result",
    "check_target",
    "has_noise",
    "least_size",
    "read_memberships",
    "read_result",
    "write_memberships",
    "write_result",
]

_OWN = {
    "memberships.csv",
    "memberships.parquet",
    "summary.json",
    "pictures.json",
    "model.skops",
    "report.html",
}
_BLOCK = 20_000


class Result(NamedTuple):
    """A soft clustering as it lies in a folder."""

    memberships: np.ndarray
    ids: Sequence[str]
    summary: dict[str, Any]
    pictures: dict[str, Any]


def check_target(folder: Path, force: bool) -> None:
    """Refuse a folder that exists (unless forced), and one that holds anything but a result
    (always).
    """
    if not folder.exists() and not folder.is_symlink():
        if not folder.parent.is_dir():
            raise InputError(f"--out: there is no folder {plain(folder.parent, 200)} to write into")
        return
    if not folder.is_dir() or any(path.name not in _OWN for path in folder.iterdir()):
        raise InputError(
            f"--out: {plain(folder, 200)} exists and is not a result folder: choose another name"
        )
    if not force:
        raise InputError(
            f"--out: {plain(folder, 200)} exists: choose another name, or add --force to replace it"
        )


def least_size(n: int, k: int) -> int:
    """Bytes that memberships of ``n`` objects in ``k`` clusters take at the least: eight for a
    number.
    """
    return 8 * n * (k + 2)


def write_result(
    folder: Path,
    result: Result,
    *,
    model: Estimator = None,
    table: str = "csv",
    report: Callable[[float], None] | None = None,
) -> None:
    """Fill ``folder``: memberships.csv or .parquet, summary.json, pictures.json, model.skops."""
    if table == "parquet":
        _write_parquet(
            folder / "memberships.parquet",
            result.memberships,
            result.ids,
            has_noise(result.summary),
        )
    else:
        with (folder / "memberships.csv").open(
            "w", encoding="utf-8", errors="backslashreplace", newline=""
        ) as file:
            write_memberships(
                file, result.memberships, result.ids, report, noise=has_noise(result.summary)
            )
    for name, content in (("summary.json", result.summary), ("pictures.json", result.pictures)):
        (folder / name).write_text(
            json.dumps(content, indent=2 if name == "summary.json" else None) + "\n",
            encoding="utf-8",
        )
    if model is not None:
        from .trusted import save

        save(model, folder / "model.skops")


def has_noise(summary: dict[str, Any]) -> bool:
    """Whether the last column of the memberships is noise, not a cluster."""
    return summary.get("parameters", {}).get("noise") is not None


def _columns(k: int, noise: bool) -> list[str]:
    names = [f"cluster_{cluster}" for cluster in range(k)]
    return [*names[:-1], "noise"] if noise else names


def write_memberships(
    file: TextIO,
    memberships: np.ndarray,
    ids: Sequence[str],
    report: Callable[[float], None] | None = None,
    *,
    noise: bool = False,
) -> None:
    """A line for every object: its id, its cluster, its largest membership, and all its
    memberships, the last of which may be ``noise``.
    """
    n, k = memberships.shape
    writer, careful = (
        csv.writer(file, lineterminator="\n", quoting=quoting)
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC)
    )
    writer.writerow(["id", "cluster", "certainty", *_columns(k, noise)])
    for start in range(0, n, _BLOCK):
        block = memberships[start : start + _BLOCK]
        names = [to_cell(str(name)) for name in ids[start : start + _BLOCK]]
        odd = any(
            "\r" in name or name.startswith(" ") for name in names
        )  # bare, the one would end the row, the other be lost
        (careful if odd else writer).writerows(
            zip(
                names,
                block.argmax(axis=1).tolist(),
                block.max(axis=1).tolist(),
                *block.T.tolist(),
                strict=True,
            )
        )
        if report is not None:
            report(min(1.0, (start + _BLOCK) / n))


def _write_parquet(path: Path, memberships: np.ndarray, ids: Sequence[str], noise: bool) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'sfumato[io]'") from error
    columns = {
        "id": [str(name) for name in ids],
        "cluster": memberships.argmax(axis=1),
        "certainty": memberships.max(axis=1),
    }
    columns |= {
        name: np.ascontiguousarray(column)
        for name, column in zip(_columns(len(memberships.T), noise), memberships.T, strict=True)
    }
    pq.write_table(pa.table(columns), path)


def read_result(folder: Path) -> Result:
    """The result in a folder."""
    summary = read_summary(folder)
    found = [
        path
        for path in (folder / "memberships.csv", folder / "memberships.parquet")
        if path.is_file()
    ]
    if not found:
        raise InputError(f"{plain(folder, 200)} holds no memberships")
    memberships, ids = read_memberships(found[0])
    told = summary.get("n_objects", len(memberships))
    if len(memberships) != told:
        raise InputError(
            f"{plain(folder, 200)}: {found[0].name} has {len(memberships):,} objects, where "
            f"summary.json says {told:,}: rows were lost or added since; fit again"
        )
    return Result(memberships, ids, summary, read_object(folder / "pictures.json"))


def read_memberships(path: Path) -> tuple[np.ndarray, list[str]]:
    """Memberships and ids from a file that ``write_memberships`` wrote, or from any table whose
    rows sum to 1.
    """
    table = read(path, Roles(id="id", drop=("cluster", "certainty")) if _is_ours(path) else Roles())
    try:
        memberships = check_memberships(np.asarray(table.values), plain(path.name))
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
    return memberships, [
        str(place) for place in range(len(memberships))
    ] if table.ids is None else list(table.ids)


def _is_ours(path: Path) -> bool:
    """Whether the columns are those that ``write_memberships`` writes; reading tells what is wrong
    with a file that cannot be opened or is damaged."""
    first = ["id", "cluster", "certainty"]
    try:
        if kind_of(path) == "parquet":
            import pyarrow.parquet as pq

            return pq.read_schema(path).names[:3] == first
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(100).startswith(",".join(first) + ",")
    except Exception:  # of any kind: pyarrow has many
        return False
