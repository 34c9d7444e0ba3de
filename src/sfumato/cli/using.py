"""Commands on results and files: predict, score, report, inspect, models, reproduce."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..array.labels import encode
from ..array.text import plain
from ..array.types import Array
from ..io import InputError, Roles, Table, read, read_result
from ..io.output import Output, check_file, check_folder
from ..io.reading import archive_holds, quoted
from ..io.results import (
    has_noise,
    load,
    read_memberships,
    read_summary,
    text_file,
    untrusted,
    write_memberships,
)
from ..memberships import check_memberships
from ..models import MODELS
from .app import ALIASES, separate
from .evidence import advice, as_fitted, roles_of_fitted, set_aside
from .main import Terminal, damaged
from .summary import agreement, write_report


def predict(
    model: Path,
    data: str,
    id_column: str | None,
    out: Path,
    *,
    force: bool = False,
    quiet: bool = False,
    clusters: int | None = None,
    **reading: Any,
) -> None:
    """Write memberships of the objects in ``data``, by the model in a result folder.

    ``reading`` holds the header, delimiter, encoding and sheet options.
    """
    terminal = Terminal(quiet=quiet)
    claim = nullcontext() if str(out) == "-" else Output(out, check_file("--out"), force=force)
    with claim as output:
        summary = read_summary(model)
        roles = roles_of_fitted(summary["input"], id_column)._replace(**reading)
        with terminal.progress("reading") as advance:
            table = read(data, roles, advance)
        memberships = _predicted(model, summary, table, clusters, terminal)
        written = memberships, table.names, has_noise(summary)
        if output is None:
            write_memberships(sys.stdout, *written)
            return
        with output.file() as partial, text_file(partial) as file:
            write_memberships(file, *written)
    terminal.say(f"{len(memberships):,} objects: {out}")


def _predicted(
    model: Path, summary: dict[str, Any], table: Table, n_clusters: int | None, terminal: Terminal
) -> np.ndarray:
    """Memberships of new objects."""
    names = summary["input"]["labels"]
    estimator = load(model / "model.skops")
    level = {} if n_clusters is None else {"n_clusters": n_clusters}
    with terminal.heard(), damaged(f"{plain(model, 200)}: the model cannot be used"):
        values = as_fitted(table, estimator, summary["model"], terminal) if names is None else None
        values = _recode(table, names) if values is None else values
        found = np.asarray(estimator.predict_proba(values, **level))
    return check_memberships(found, "the memberships")


def _recode(table: Table, names: list[list[str]]) -> np.ndarray:
    """Labels of new objects, with the codes of the fitted ones."""
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
    """Print a table of agreement measures of two clusterings."""
    (left, left_ids), (right, right_ids) = (_side(Path(path), column) for path in (first, second))
    if left_ids is not None and right_ids is not None and list(left_ids) != list(right_ids):
        right = right[_match(left_ids, right_ids)]
    if len(left) != len(right):
        raise InputError(
            f"{plain(first)} has {len(left):,} objects and {plain(second)} has {len(right):,}: "
            "they must be the same"
        )
    seen = np.all([side >= 0 for side in (left, right) if side.ndim == 1], axis=0)
    seen = np.broadcast_to(seen, len(left))  # memberships are complete
    terminal = Terminal(as_json=as_json)
    if not seen.all():
        terminal.remark(f"{int((~seen).sum()):,} objects without a label are left out")
    left, right = left[seen], right[seen]
    values = {name: float(value) for name, value in agreement(left, right).items()}
    kinds = [("labels", "memberships")[side.ndim - 1] for side in (right, left)]
    title = f"{len(left):,} objects, {' against '.join(kinds)}"
    terminal.table(title, ["measure", "value"], list(values.items()))
    terminal.record({"n_objects": len(left), **values})


def _side(path: Path, column: str | None) -> tuple[np.ndarray, Any]:
    """Memberships (n, k) or labels (n,), with ids if there are any."""
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
            f"{table.source} has several columns of labels ({names}): name one with --column"
        )
    if len(table.columns) > 1 and column not in table.columns:
        raise InputError(
            f"--column: {table.source} has no labels called '{plain(column, 40)}'; it has {names}"
        )
    place = table.columns.index(column) if column in table.columns else 0
    values = np.asarray(table.values)[:, place]
    return values if values.dtype.kind in "iu" else encode(values), table.ids


def _match(left: Array, right: Array) -> np.ndarray:
    places = {name: place for place, name in enumerate(right)}
    if len(places) < len(right) or len(set(left)) < len(left):
        raise InputError("the same id appears twice: objects cannot be matched by id")
    missing = [name for name in left if name not in places]
    if missing or len(left) != len(right):
        one = plain(missing[0] if missing else "an id", 40)
        raise InputError(f"the two files do not hold the same objects, e.g. '{one}'")
    return np.array([places[name] for name in left])


def report(result: Path, out: Path | None, title: str | None, force: bool) -> None:
    """Write the HTML report of a result folder again."""
    drawing = damaged(f"{plain(result, 200)}: the report cannot be drawn")
    if out is None:
        with drawing:
            write_report(result / "report.html", read_result(result), title)
    else:
        with Output(out, check_file("--out"), force=force) as output:
            held = read_result(result)
            with output.file() as partial, drawing:
                write_report(partial, held, title)
    Terminal().say(f"Report: {result / 'report.html' if out is None else out}")


def inspect_file(file: str, as_json: bool, missing: Sequence[str] | None, **reading: Any) -> None:
    """Print what a data file, a result folder or a model file holds.

    ``reading`` holds the header, delimiter, encoding and sheet options.
    """
    path, terminal = Path(file), Terminal(as_json=as_json)
    facts: dict[str, Any]
    if path.is_dir():
        summary = read_summary(path)
        wanted = ("model", "n_objects", "n_clusters", "certainty", "converged", "seed", "created")
        facts = {"kind": "result folder", **{key: summary.get(key) for key in wanted}}
        facts["data"] = summary["input"]["name"]
    elif file != "-" and path.is_file() and archive_holds(path, "schema.json"):
        foreign = untrusted(path)
        facts = {"kind": "saved model", "types from outside": ", ".join(foreign) or "none"}
        facts["would be loaded"] = not foreign
    else:
        facts = _data(file, Roles(mixed=True, missing=separate(missing), **reading))
    rows = [[key, str(value)] for key, value in facts.items()]
    terminal.table(plain(path.name), ["what", "value"], rows, width=500)
    terminal.record(facts)


def _data(file: str, roles: Roles) -> dict[str, Any]:
    table = read(file, roles)
    own = table.columns
    if table.fields is not None:  # if the table describes every column
        own = [column.name for column in table.fields]
        own = own if table.id_column in (None, *own) else [str(table.id_column), *own]
    facts = {
        "kind": table.kind,
        "rows": table.values.shape[0],
        "columns": len(own),
        "column names": quoted(own),
        "ids": (table.id_column or "yes, without a title") if table.ids else "none",
    }
    for place, note in enumerate([*table.notes, *set_aside(table)]):
        what, _, names = note.partition(": ")
        facts[what if names else f"note {place + 1}"] = names or note
    if table.fields is not None:
        facts["missing cells"] = sum(column.missing for column in table.used)
    elif not sp.issparse(table.values) and table.values.dtype.kind == "f":
        facts["missing cells"] = int(np.isnan(table.values).sum())
    if sp.issparse(table.values):
        facts["entries"] = int(table.values.nnz)
    like = _looks_like(table)
    if "matrix" not in like:  # a matrix of pairs has no columns to remark on
        facts |= {f"advice {place + 1}": text for place, text in enumerate(advice(table))}
    return {**facts, "looks like": like, "sha256": table.digest}


def list_models(as_json: bool) -> None:
    """Print a line for every model: name, input, and when to use it."""
    other = {name: f" ({alias})" for alias, name in ALIASES.items()}
    rows, held = [], {}
    for model in MODELS:
        if name := model.command:
            rows.append([name + other.get(name, ""), ", ".join(model.evidence), model.summary])
            held[name] = {"estimator": model.name, "evidence": model.evidence}
            held[name]["summary"] = model.summary
    terminal = Terminal(as_json=as_json)
    terminal.table("Models of sfumato fit --model", ["model", "reads", "use it for"], rows)
    terminal.record(held)


def _looks_like(table: Table) -> str:
    values = table.values
    if values.shape[0] == values.shape[1] and values.shape[0] > 2:
        apart = not sp.issparse(values) and not np.diagonal(values).any() and np.any(values)
        what, kind = ("distance", "distance") if apart else ("similarity", "precomputed")
        return f"a {what} matrix: sfumato fit --model pairwise --similarity {kind}"
    if sp.issparse(values):
        return "sparse features: sfumato fit"
    some = np.asarray(values[:1000], dtype=float)
    if values.shape[1] == 1:
        return "features: sfumato fit"
    if some.min(initial=0) >= 0 and np.allclose(some.sum(axis=1), 1, atol=1e-4):
        return "memberships: sfumato score"
    few = len(np.unique(some)) <= max(20, len(some) // 10)
    if few and np.array_equal(some, np.round(some)):
        return "labelings (sfumato consensus), or counts or answers (sfumato fit)"
    return "features: sfumato fit"


def reproduce(
    name: str, out: Path, data: Path | None, offline: bool, seeds: int, force: bool
) -> None:
    """Run experiments of the papers; print and write their tables and pictures."""
    from .. import papers

    if name not in (*papers.EXPERIMENTS, "all"):
        known = ", ".join(papers.EXPERIMENTS)
        raise InputError(f"EXPERIMENT must be one of {known} or all, got '{plain(name, 80)}'")
    if data is not None and not data.is_dir():
        raise InputError(f"--data: {plain(data, 200)} is not a folder")
    os.environ.setdefault("MPLBACKEND", "Agg")
    shelf = papers.Shelf(data, online=not offline, say=Terminal().remark)
    check = check_folder(
        "a folder of tables and pictures", lambda path: path.suffix in (".md", ".csv", ".png")
    )
    with Output(out, check, force=force) as output, output.folder() as folder:
        for each in papers.EXPERIMENTS if name == "all" else [name]:
            outcome = papers.run(each, shelf, n_seeds=seeds)
            if outcome.table is not None:
                print(outcome.table.markdown(), flush=True)
                (folder / f"{each}.md").write_text(outcome.table.markdown(), encoding="utf-8")
                (folder / f"{each}.csv").write_text(outcome.table.csv(), encoding="utf-8")
            for file, figure in (outcome.figures or {}).items():
                figure.savefig(folder / file, dpi=120)
    for path in sorted(out.iterdir()):
        print(path)
