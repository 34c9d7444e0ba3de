"""The summary in a result folder, which may have been damaged since it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..array.text import plain
from ._tables import InputError

__all__ = ["SCHEMA", "read_object", "read_summary"]

SCHEMA = 1
_NUMBER = (int, float)
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("model", "estimator"), (str,)),
    **dict.fromkeys(("n_objects", "n_clusters", "n_iter", "seed"), (int,)),
    **dict.fromkeys(("objective", "seconds", "certainty"), _NUMBER),
    **dict.fromkeys(("metrics", "parameters", "versions", "input"), (dict,)),
    "converged": (bool,),
    "warnings": (list,),
}
_INPUT: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "sha256": (str,),
    "columns": (list,),
    "labels": (list, type(None)),
    "fields": (list, type(None)),
    "scaling": (dict, type(None)),
}
_FIELD: dict[str, type] = {"name": str, "kind": str, "used": bool, "categories": list}


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
    _check_types(summary)
    return summary


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an empty one where there is no file."""
    try:
        content = (
            json.loads(path.read_text(encoding="utf-8"), object_hook=_Held)
            if path.is_file()
            else {}
        )
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is damaged: {plain(error, 80)}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path.name} is damaged: not an object")
    return content


class _Held(dict[str, Any]):
    """An object from a file: a missing key is reported as damage of the file."""

    def __missing__(self, key: str) -> Any:
        raise InputError(
            f"the result folder is damaged: '{plain(key, 40)}' is missing in its summary"
        )


def _check_types(summary: dict[str, Any]) -> None:
    """Refuse a summary in which something known is of another type than it was written with."""
    _check(summary, _TYPES)
    held = summary.get("input", {})
    _check(held, _INPUT)
    lists = [held.get("columns", []), *(held.get("labels") or [])]
    if not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists
    ):
        raise InputError("summary.json is damaged: 'columns' and 'labels' must be names")
    for field in held.get("fields") or []:
        if not isinstance(field, dict) or not all(
            isinstance(field.get(name), kind) for name, kind in _FIELD.items()
        ):
            raise InputError("summary.json is damaged: 'fields' must say how columns were read")
    if not all(isinstance(value, int | float) for value in summary.get("metrics", {}).values()):
        raise InputError("summary.json is damaged: 'metrics' must be numbers")


def _check(held: dict[str, Any], types: dict[str, tuple[type, ...]]) -> None:
    for name, kinds in types.items():
        if (
            name in held
            and type(held[name]) not in kinds
            and not (dict in kinds and isinstance(held[name], dict))
        ):
            raise InputError(
                f"summary.json is damaged: '{name}' cannot be {plain(json.dumps(held[name]), 40)}"
            )
