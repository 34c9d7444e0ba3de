"""inspect: what a file holds."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.text import plain
from ..io import InputError, Roles, Table, read
from ..io.sniffing import number
from ..io.summaries import read_summary
from ..io.trusted import untrusted
from .terminal import Terminal

__all__ = ["inspect"]


def inspect(file: str, as_json: bool) -> None:
    """Show what a data file, a result folder or a model file holds."""
    path, terminal = Path(file), Terminal(as_json=as_json)
    facts = (
        _folder(path)
        if path.is_dir()
        else _model(path)
        if file != "-" and _is_model(path)
        else _data(file)
    )
    terminal.table(
        plain(path.name), ["what", "value"], [[key, str(value)] for key, value in facts.items()]
    )
    terminal.record(facts)


def _folder(path: Path) -> dict[str, Any]:
    summary = read_summary(path)
    wanted = ("model", "n_objects", "n_clusters", "certainty", "converged", "seed", "created")
    return {
        "kind": "result folder",
        **{key: summary.get(key) for key in wanted},
        "data": summary["input"]["name"],
    }


def _is_model(path: Path) -> bool:
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "schema.json" in archive.namelist()


def _model(path: Path) -> dict[str, Any]:
    strange = untrusted(path)
    return {
        "kind": "saved model",
        "types from outside": ", ".join(strange) or "none",
        "would be loaded": not strange,
    }


def _data(file: str) -> dict[str, Any]:
    try:
        table = read(file)
    except InputError:
        if file == "-" or not Path(file).is_file():  # a pipe is read only once
            raise
        table = read(file, Roles(labels=True))
    n, p = table.values.shape
    names = ", ".join(f"'{plain(name, 20)}'" for name in table.columns[:8]) + (
        f" and {p - 8:,} more" if p > 8 else ""
    )
    facts = {
        "kind": table.kind,
        "rows": n,
        "columns": p,
        "column names": names,
        "ids": table.id_column or ("yes" if table.ids else "none"),
    }
    if text := _text_columns(table):
        facts["columns of text"] = ", ".join(
            f"'{plain(name, 20)}' ({count:,} different)" for name, count in list(text.items())[:8]
        )
    if not sp.issparse(table.values) and table.values.dtype.kind == "f":
        facts["missing cells"] = int(np.isnan(table.values).sum())
    if sp.issparse(table.values):
        facts["entries"] = int(table.values.nnz)
    return {**facts, "looks like": _looks_like(table), "sha256": table.digest}


def _text_columns(table: Table) -> dict[str, int]:
    """Columns that are not numbers, and how many different cells each has."""
    columns = zip(table.columns, table.label_names or [], strict=False)
    return {
        name: len(words) for name, words in columns if any(number(word) is None for word in words)
    }


def _looks_like(table: Table) -> str:
    values = table.values
    if table.label_names is not None:
        if 0 < len(_text_columns(table)) < len(table.columns):
            return "features beside text: sfumato fit, with --id-column, --class-column or --drop for the text"
        return "labelings: sfumato consensus, or sfumato score"
    if values.shape[0] == values.shape[1] and values.shape[0] > 2:
        return "a similarity matrix: sfumato fit --model pairwise --similarity precomputed"
    if sp.issparse(values):
        return "sparse features: sfumato fit"
    some = np.asarray(values[:1000], dtype=float)
    if (
        values.shape[1] > 1
        and some.min(initial=0) >= 0
        and np.allclose(some.sum(axis=1), 1, atol=1e-4)
    ):
        return "memberships: sfumato score"
    if (
        np.array_equal(some, np.round(some))
        and len(np.unique(some)) <= max(20, len(some) // 10)
        and values.shape[1] > 1
    ):
        return "labelings (sfumato consensus) or counts (sfumato fit)"
    return "features: sfumato fit"
