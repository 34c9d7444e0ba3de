"""inspect: what a file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import models
from ..array.text import plain
from ..io import Roles, Table, read
from ..io.reading import archive_holds, quoted
from ..io.results import read_summary
from ..io.saving import untrusted
from .evidence import advice, set_aside
from .models import ALIASES
from .terminal import Terminal


def inspect(file: str, as_json: bool) -> None:
    """Show what a data file, a result folder or a model file holds."""
    path, terminal = Path(file), Terminal(as_json=as_json)
    if path.is_dir():
        facts = _folder(path)
    elif file != "-" and path.is_file() and archive_holds(path, "schema.json"):
        facts = _model(path)
    else:
        facts = _data(file)
    rows = [[key, str(value)] for key, value in facts.items()]
    terminal.table(plain(path.name), ["what", "value"], rows, width=500)
    terminal.record(facts)


def _folder(path: Path) -> dict[str, Any]:
    summary = read_summary(path)
    wanted = ("model", "n_objects", "n_clusters", "certainty", "converged", "seed", "created")
    facts = {key: summary.get(key) for key in wanted}
    return {"kind": "result folder", **facts, "data": summary["input"]["name"]}


def _model(path: Path) -> dict[str, Any]:
    strange = untrusted(path)
    outside = ", ".join(strange) or "none"
    facts = {"types from outside": outside, "would be loaded": not strange}
    return {"kind": "saved model", **facts}


def _data(file: str) -> dict[str, Any]:
    table = read(file, Roles(mixed=True))
    own = _own_columns(table)
    facts = {
        "kind": table.kind,
        "rows": table.values.shape[0],
        "columns": len(own),
        "column names": quoted(own),
        "ids": table.id_column or ("yes" if table.ids else "none"),
    }
    for place, note in enumerate(set_aside(table)):
        what, _, names = note.partition(": ")
        facts[what if names else f"note {place + 1}"] = names or note
    if table.fields is not None:
        facts["missing cells"] = sum(column.missing for column in table.used)
    elif not sp.issparse(table.values) and table.values.dtype.kind == "f":
        facts["missing cells"] = int(np.isnan(table.values).sum())
    if sp.issparse(table.values):
        facts["entries"] = int(table.values.nnz)
    facts |= {f"advice {place + 1}": text for place, text in enumerate(advice(table))}
    return {**facts, "looks like": _looks_like(table), "sha256": table.digest}


def _own_columns(table: Table) -> list[str]:
    """Names of the columns that stand in the file, where the table has one for every category."""
    if table.fields is None:
        return table.columns
    names = [column.name for column in table.fields]
    apart = table.id_column is not None and table.id_column not in names
    return [str(table.id_column), *names] if apart else names


def list_models(as_json: bool) -> None:
    """A line for every model: its name, what it reads, and when to use it."""
    other = {name: f" ({alias})" for alias, name in ALIASES.items()}
    rows, held = [], {}
    for model in models.MODELS:
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
        return "a similarity matrix: sfumato fit --model pairwise --similarity precomputed"
    if sp.issparse(values):
        return "sparse features: sfumato fit"
    some = np.asarray(values[:1000], dtype=float)
    if values.shape[1] == 1:
        return "features: sfumato fit"
    if some.min(initial=0) >= 0 and np.allclose(some.sum(axis=1), 1, atol=1e-4):
        return "memberships: sfumato score"
    few = len(np.unique(some)) <= max(20, len(some) // 10)
    if few and np.array_equal(some, np.round(some)):
        return "labelings (sfumato consensus) or counts (sfumato fit)"
    return "features: sfumato fit"
