"""What every reader gives, and what it may be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.text import plain

__all__ = ["ID_TITLES", "InputError", "Roles", "Table", "assign_roles", "column_index"]


ID_TITLES = frozenset({"id", "ids", "index"})


class InputError(ValueError):
    """A file cannot be used: the message says which, where and what to do."""


class Roles(NamedTuple):
    """Columns that are not evidence, and how the others are read."""

    id: str | None = None
    weight: str | None = None
    classes: str | None = None
    drop: tuple[str, ...] = ()
    labels: bool = False  # the other columns are labels, not numbers
    header: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None
    keep: tuple[str, ...] | None = (
        None  # the columns that are evidence, in this order; None means all others
    )


class Table(NamedTuple):
    """Evidence with what goes along: numbers (n, p), dense or sparse, or codes of labels (n, m), -1 for none."""

    values: Any
    columns: list[str]
    ids: Sequence[str] | None = None
    id_column: str | None = None
    weights: np.ndarray | None = None
    classes: Sequence[str] | None = None
    source: str = ""
    kind: str = ""
    digest: str = ""
    label_names: list[list[str]] | None = (
        None  # with labels: what each code stands for, column by column
    )


def column_index(name: str, columns: Sequence[str], what: str, source: str) -> int:
    """Place of the column called ``name``; numbers count columns from 0 where no column has that name."""
    if list(columns).count(name) > 1:
        raise InputError(
            f"{source}: two columns are called '{plain(name)}': {what} cannot tell them apart"
        )
    if name in columns:
        return list(columns).index(name)
    if name.isdigit() and int(name) < len(columns):
        return int(name)
    known = ", ".join(f"'{plain(column, 20)}'" for column in list(columns)[:8]) + (
        ", ..." if len(columns) > 8 else ""
    )
    raise InputError(f"{source}: {what} '{plain(name)}' is not a column: it has {known}")


def assign_roles(
    columns: Sequence[str], roles: Roles, source: str
) -> tuple[dict[str, int], list[int]]:
    """Places of the special columns by role, and of the columns that are evidence."""
    named = {"id": roles.id, "weight": roles.weight, "classes": roles.classes}
    option = {"id": "--id-column", "weight": "--weight-column", "classes": "--class-column"}
    special = {
        role: column_index(name, columns, option[role], source)
        for role, name in named.items()
        if name is not None
    }
    dropped = {column_index(name, columns, "--drop", source) for name in roles.drop}
    if roles.keep is not None:
        if list(roles.keep) == list(columns):
            return special, list(range(len(columns)))
        places = {name: place for place, name in enumerate(columns)}
        if len(places) == len(columns) and places.keys() >= set(roles.keep):
            return special, [places[name] for name in roles.keep]
        return special, [
            column_index(name, columns, "the model's column", source) for name in roles.keep
        ]
    taken = dropped | set(special.values())
    evidence = [place for place in range(len(columns)) if place not in taken]
    if not evidence:
        raise InputError(f"{source}: no column is left to cluster")
    return special, evidence
