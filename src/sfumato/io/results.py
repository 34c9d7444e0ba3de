"""Reading and writing of result folders: memberships, summary, model, report and its pictures.

All content is checked when it is read, since it may have been damaged.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from ..array.text import plain, to_cell
from ..array.types import Estimator
from ..memberships import check_memberships
from .output import check_folder
from .reading import InputError, Roles, extra, kind_of, read

SCHEMA = 1
_OWN = "memberships.csv memberships.parquet levels.csv summary.json pictures.json"
_OWN += " model.skops report.html"
_BLOCK = 20_000  # rows converted to text at a time
# Types of the fields of a summary, of what it keeps about the input, and of each input column.
_TYPES: dict[str, Any] = {
    "model estimator": (str,),
    "n_objects n_clusters n_iter seed": (int,),
    "objective seconds certainty": (int, float),
    "metrics parameters versions input": (dict,),
    "converged": (bool,),
    "warnings": (list,),
}
_INPUT: dict[str, Any] = {
    "name sha256": (str,),
    "columns": (list,),
    "labels fields": (list, type(None)),
    "scaling": (dict, type(None)),
}
_FIELD: dict[str, Any] = {"name kind": (str,), "used": (bool,), "categories": (list,)}


class Result(NamedTuple):
    """The content of a result folder."""

    memberships: np.ndarray
    ids: Sequence[str]
    summary: dict[str, Any]
    pictures: dict[str, Any]
    levels: np.ndarray | None = None  # (n, levels): the cluster at each level of the summary


check_target = check_folder("a result folder", lambda path: path.name in _OWN.split())


def text_file(path: Path) -> TextIO:
    """A text file open for writing a table; characters without UTF-8 encoding are escaped."""
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


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
        _write_parquet(folder / "memberships.parquet", result)
    else:
        noise = has_noise(result.summary)
        with text_file(folder / "memberships.csv") as file:
            write_memberships(file, result.memberships, result.ids, report, noise=noise)
    if result.levels is not None:
        _write_levels(folder / "levels.csv", result)
    summary, pictures = json.dumps(result.summary, indent=2), json.dumps(result.pictures)
    (folder / "summary.json").write_text(f"{summary}\n", encoding="utf-8")
    (folder / "pictures.json").write_text(f"{pictures}\n", encoding="utf-8")
    if model is not None:
        from .saving import save

        save(model, folder / "model.skops")


def _write_levels(path: Path, result: Result) -> None:
    names = [f"clusters_{level['n_clusters']}" for level in result.summary["levels"]]
    with text_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *names])
        cells = (to_cell(str(name)) for name in result.ids)
        writer.writerows(zip(cells, *np.asarray(result.levels).T.tolist(), strict=True))


def has_noise(summary: dict[str, Any]) -> bool:
    """Whether the last column of the memberships is noise, not a cluster."""
    return summary.get("parameters", {}).get("noise_cluster") is not None


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
    """A line for every object: id, cluster, largest membership, and all of its memberships."""
    n, k = memberships.shape
    writer, careful = (
        csv.writer(file, lineterminator="\n", quoting=quoting)
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC)
    )
    writer.writerow(["id", "cluster", "certainty", *_columns(k, noise)])
    for start in range(0, n, _BLOCK):
        block = memberships[start : start + _BLOCK]
        names = [to_cell(str(name)) for name in ids[start : start + _BLOCK]]
        # unquoted, the first would end the row and the second would be lost
        odd = any("\r" in name or name.startswith(" ") for name in names)
        best = block.argmax(axis=1).tolist(), block.max(axis=1).tolist()
        rows = zip(names, *best, *block.T.tolist(), strict=True)
        (careful if odd else writer).writerows(rows)
        if report is not None:
            report(min(1.0, (start + _BLOCK) / n))


def _write_parquet(path: Path, result: Result) -> None:
    pq = extra("pyarrow.parquet", "Parquet files need pyarrow", "'sfumato[io]'")
    pa = import_module("pyarrow")
    U = result.memberships
    columns = {
        "id": [str(name) for name in result.ids],
        "cluster": U.argmax(axis=1),
        "certainty": U.max(axis=1),
    }
    names = _columns(U.shape[1], has_noise(result.summary))
    columns |= {name: np.ascontiguousarray(U[:, place]) for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), path)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of the result in a folder."""
    if not (folder / "summary.json").is_file():
        raise InputError(f"{plain(folder, 200)} is not a result folder: it has no summary.json")
    summary = read_object(folder / "summary.json")
    if summary.get("schema") != SCHEMA:
        raise InputError(
            f"{plain(folder.name)}: summary.json has schema {plain(summary.get('schema'), 20)}, "
            f"this version reads {SCHEMA}"
        )
    _check(summary, _TYPES)
    held = summary.get("input", {})
    _check(held, _INPUT)
    for field in held.get("fields") or []:
        _check(field if isinstance(field, dict) else {}, _FIELD, whole=True)
    for names in (held.get("columns", []), *(held.get("labels") or [])):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("summary.json is damaged: 'columns' and 'labels' must be names")
    if not all(isinstance(value, int | float) for value in summary.get("metrics", {}).values()):
        raise InputError("summary.json is damaged: 'metrics' must be numbers")
    return summary


def _check(held: dict[str, Any], types: dict[str, Any], *, whole: bool = False) -> None:
    """Refuse fields of a wrong type, and missing fields if the ``whole`` object is required."""
    for names, kinds in types.items():
        for name in names.split():
            value = held.get(name)
            known = type(value) in kinds or (dict in kinds and isinstance(value, dict))
            if (name in held or whole) and not known:
                shown = plain(json.dumps(value), 40)
                raise InputError(f"summary.json is damaged: '{name}' cannot be {shown}")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no file."""
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else "{}"
        content = json.loads(text, object_hook=_Held)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is damaged: {plain(error, 80)}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path.name} is damaged: not an object")
    return content


class _Held(dict[str, Any]):
    """An object from a file; missing keys are reported as a damaged file."""

    def __missing__(self, key: str) -> Any:
        raise InputError(f"the result folder is damaged: its summary has no '{plain(key, 40)}'")


def read_result(folder: Path) -> Result:
    """The result in a folder."""
    summary = read_summary(folder)
    path = folder / "memberships.csv"
    path = path if path.is_file() else folder / "memberships.parquet"
    if not path.is_file():
        raise InputError(f"{plain(folder, 200)} holds no memberships")
    memberships, ids = read_memberships(path)
    stated = summary.get("n_objects", len(memberships))
    if len(memberships) != stated:
        raise InputError(
            f"{plain(folder, 200)}: {path.name} has {len(memberships):,} objects, where "
            f"summary.json says {stated:,}: rows were lost or added since; fit again"
        )
    return Result(memberships, ids, summary, read_object(folder / "pictures.json"))


def read_memberships(path: Path) -> tuple[np.ndarray, list[str]]:
    """Memberships and ids from a file of this library, or from any table whose rows sum to 1."""
    table = read(path, Roles(id="id", drop=("cluster", "certainty")) if _is_ours(path) else Roles())
    try:
        memberships = check_memberships(np.asarray(table.values), plain(path.name))
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
    return memberships, list(table.names)


def _is_ours(path: Path) -> bool:
    """Whether a file has the columns of ``write_memberships``, intact or not."""
    first = ["id", "cluster", "certainty"]
    try:
        if kind_of(path) == "parquet":
            import pyarrow.parquet as pq

            return pq.read_schema(path).names[:3] == first
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(100).startswith(",".join(first) + ",")
    except Exception:  # pyarrow has many kinds of errors
        return False
