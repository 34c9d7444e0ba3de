"""predict, score and report: what can be done with a result."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..array.labels import encode
from ..array.text import plain
from ..array.types import Array
from ..io import InputError, Roles, Table, read, read_result
from ..io.output import Output, check_file
from ..io.reading import quoted
from ..io.results import has_noise, read_memberships, read_summary, text_file, write_memberships
from ..io.saving import load
from ..memberships import check_memberships
from .evidence import as_fitted, roles_of_fitted
from .stopping import damaged
from .summary import agreement, write_report
from .terminal import Terminal


def predict(
    model: Path,
    data: str,
    id_column: str | None,
    out: Path,
    *,
    force: bool = False,
    quiet: bool = False,
    n_clusters: int | None = None,
) -> None:
    """Memberships of the objects in ``data``, by the model in a result folder."""
    terminal = Terminal(quiet=quiet)

    def write(file: TextIO) -> None:
        write_memberships(file, memberships, ids, noise=noise)

    claim = nullcontext() if str(out) == "-" else Output(out, check_file("--out"), force=force)
    with claim as output:
        memberships, ids, noise = _predicted(model, data, id_column, n_clusters, terminal)
        if output is None:
            write(sys.stdout)
            return
        with output.file() as partial, text_file(partial) as file:
            write(file)
    terminal.say(f"{len(memberships):,} objects: {out}")


def _predicted(
    model: Path, data: str, id_column: str | None, n_clusters: int | None, terminal: Terminal
) -> tuple[np.ndarray, Sequence[str], bool]:
    """Memberships of new objects, their ids, and whether the last column is noise."""
    summary = read_summary(model)
    held, names = summary["input"], summary["input"]["labels"]
    with terminal.progress("reading") as advance:
        table = read(data, roles_of_fitted(held, id_column), advance)
    estimator = load(model / "model.skops")
    if names is None:
        values = as_fitted(table, held, summary["model"], terminal)
    else:
        values = _recode(table, names)
    level = {} if n_clusters is None else {"n_clusters": n_clusters}
    with terminal.heard(), damaged(f"{plain(model, 200)}: the model cannot be used"):
        found = np.asarray(estimator.predict_proba(values, **level))
    memberships = check_memberships(found, "the memberships")
    return memberships, table.names, has_noise(summary)


def _recode(table: Table, names: list[list[str]]) -> np.ndarray:
    """Labels of new objects in the codes of the fitted ones."""
    if len(names) != table.values.shape[1]:
        raise InputError(
            f"summary.json is damaged: labels of {len(names)} columns, where there are "
            f"{table.values.shape[1]}"
        )
    codes = np.full(table.values.shape, -1, dtype=np.int32)
    for column, (theirs, ours) in enumerate(zip(table.label_names or [], names, strict=True)):
        known = {name: code for code, name in enumerate(ours)}
        translation = np.array([known.get(name, -1) for name in theirs] + [-1], dtype=np.int32)
        codes[:, column] = translation[table.values[:, column]]
    return codes


def score(first: str, second: str, column: str | None, as_json: bool) -> None:
    """A table of agreements of two clusterings."""
    (left, left_ids), (right, right_ids) = (_side(Path(path), column) for path in (first, second))
    if left_ids is not None and right_ids is not None and list(left_ids) != list(right_ids):
        right = right[_match(left_ids, right_ids)]
    if len(left) != len(right):
        raise InputError(
            f"{plain(first)} has {len(left):,} objects and {plain(second)} has {len(right):,}: "
            "they must be the same"
        )
    seen = _labelled(left) & _labelled(right)
    terminal = Terminal(as_json=as_json)
    if not seen.all():
        terminal.remark(f"{int((~seen).sum()):,} objects without a label are left out")
    left, right = left[seen], right[seen]
    values = {name: float(value) for name, value in agreement(left, right).items()}
    kinds = " against ".join(
        "memberships" if side.ndim == 2 else "labels" for side in (right, left)
    )
    terminal.table(f"{len(left):,} objects, {kinds}", ["measure", "value"], list(values.items()))
    terminal.record({"n_objects": len(left), **values})


def _labelled(side: np.ndarray) -> np.ndarray:
    return np.ones(len(side), dtype=bool) if side.ndim == 2 else side >= 0


def _side(path: Path, column: str | None) -> tuple[np.ndarray, Any]:
    """Memberships (n, k) or labels (n,), with ids where there are any."""
    if not path.exists():
        raise InputError(f"no file called {plain(path, 200)}")
    if path.is_dir():
        result = read_result(path)
        return result.memberships, result.ids
    try:
        return read_memberships(path) if column is None else _labels(path, column)
    except InputError as error:
        if column is None:
            return _labels(path, None)
        try:
            return read_memberships(path)  # --column is for the other file
        except InputError:
            raise error from None


def _labels(path: Path, column: str | None) -> tuple[np.ndarray, Any]:
    table = read(path, Roles(labels=True))
    names = quoted(table.columns)
    if len(table.columns) > 1 and column is None:
        raise InputError(
            f"{table.source} has several columns ({names}) and they are not memberships: name one "
            "with --column"
        )
    if len(table.columns) > 1 and column not in table.columns:
        raise InputError(
            f"--column: {table.source} has no column of labels called '{plain(column, 40)}'; it "
            f"has {names}"
        )
    values = np.asarray(table.values)[
        :, 0 if column not in table.columns else table.columns.index(column)
    ]
    return values if values.dtype.kind in "iu" else encode(values), table.ids


def _match(left: Array, right: Array) -> np.ndarray:
    places = {name: place for place, name in enumerate(right)}
    if len(places) < len(right) or len(set(left)) < len(left):
        raise InputError("the same id stands twice: objects cannot be matched by id")
    missing = [name for name in left if name not in places]
    if missing or len(left) != len(right):
        raise InputError(
            "the two files do not hold the same objects, e.g. "
            f"'{plain(missing[0] if missing else 'an id', 40)}'"
        )
    return np.array([places[name] for name in left])


def report(folder: Path, out: Path | None, title: str | None, force: bool) -> None:
    """The HTML page of a result folder, again."""
    path = folder / "report.html" if out is None else out
    drawing = damaged(f"{plain(folder, 200)}: the report cannot be drawn")
    if out is None:
        with drawing:
            write_report(path, read_result(folder), title)
    else:
        with Output(out, check_file("--out"), force=force) as output:
            result = read_result(folder)
            with output.file() as partial, drawing:
                write_report(partial, result, title)
    Terminal().say(f"Report: {path}")
