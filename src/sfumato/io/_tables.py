"""The table that every reader returns, and the options of readers."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..array.text import plain

__all__ = ["ID_TITLES", "InputError", "Roles", "Table", "archive_holds", "assign_roles"]
__all__ += ["listed", "quoted", "without_absent"]

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
    keep: tuple[str, ...] | None = None  # the evidence, in this order; None: all other columns
    mixed: bool = False  # columns may be text, dates or identifiers: io.columns says what each is
    reading: tuple[dict[str, Any], ...] | None = None  # how a fitted model's columns were read
    sheet: str | None = None  # of an Excel workbook
    usual_id: str | None = None  # the ids of the fitted objects: taken where there is such a column


class Table(NamedTuple):
    """Evidence with what goes along: numbers (n, p), dense or sparse, or codes of labels (n, m), -1
    for none.
    """

    values: Any
    columns: list[str]
    ids: Sequence[str] | None = None
    id_column: str | None = None
    weights: np.ndarray | None = None
    classes: Sequence[str] | None = None
    source: str = ""
    kind: str = ""
    digest: str = ""
    label_names: list[list[str]] | None = None  # of labels: what each code stands for, by column
    fields: list[Any] | None = None  # each column of the file as an io.columns.Column, if judged
    original: Any = None  # the values before they were scaled; None where they were not
    scaling: dict[str, Any] | None = None  # how they were scaled, as kept with a result
    notes: tuple[str, ...] = ()  # what was done to the columns, in sentences


def archive_holds(path: Path, name: str) -> bool:
    """Whether a file is a readable ZIP archive with a member of that name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return name in archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return False


def _column_index(name: str, columns: Sequence[str], what: str, source: str) -> int:
    """Place of the column called ``name``.

    Numbers count columns from 0 where no column has that name.
    """
    if list(columns).count(name) > 1:
        raise InputError(
            f"{source}: two columns are called '{plain(name)}': {what} cannot tell them apart"
        )
    if name in columns:
        return list(columns).index(name)
    if name.isdigit() and int(name) < len(columns):
        return int(name)
    raise InputError(f"{source}: {what} '{plain(name)}' is not a column: it has {quoted(columns)}")


def quoted(names: Sequence[str], most: int = 8) -> str:
    """Some names, for a message."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(f"'{plain(name, 30)}'" for name in list(names)[:most]) + more


def _column_indices(
    names: Sequence[str], columns: Sequence[str], what: str, source: str
) -> list[int]:
    """Places of several columns; an error names all that are not there."""
    held = {*columns, *map(str, range(len(columns)))}
    absent = [name for name in names if name not in held]
    if len(absent) > 1:
        several = what if what.endswith("s") else f"{what}s"
        raise InputError(
            f"{source}: {several} {quoted(absent)} are not columns: it has {quoted(columns)}"
        )
    return [_column_index(name, columns, what, source) for name in names]


def listed(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Names of columns; "a,b" stands for two where no column is called that."""
    found = []
    for name in names:
        parts = [name] if name in columns else name.split(",")
        found += [part.strip() if part not in columns else part for part in parts]
    return found


def without_absent(roles: Roles, columns: Sequence[str]) -> Roles:
    """Roles for a table of new objects that lacks some of a fitted model's columns.

    The model takes those for missing. More than half of its columns must be there: a table with
    fewer is rather another table.
    """
    names = roles.keep or ()
    there = tuple(name for name in names if name in columns)
    told = roles.reading is not None and not any(name.isdigit() for name in names)
    return roles._replace(keep=there) if told and 2 * len(there) > len(names) else roles


def assign_roles(
    columns: Sequence[str], roles: Roles, source: str
) -> tuple[dict[str, int], list[int]]:
    """Places of the special columns by role, and of the columns that are evidence."""
    named = {"id": roles.id, "weight": roles.weight, "classes": roles.classes}
    option = {"id": "--id-column", "weight": "--weight-column", "classes": "--class-column"}
    special = {
        role: _column_index(name, columns, option[role], source)
        for role, name in named.items()
        if name is not None
    }
    dropped = {
        _column_index(name, columns, "--drop", source) for name in listed(roles.drop, columns)
    }
    if roles.keep is not None:
        if roles.keep == tuple(columns):  # also where two columns have one name
            return special, list(range(len(columns)))
        places = {name: place for place, name in enumerate(columns)}
        if len(places) == len(columns) and places.keys() >= set(roles.keep):
            return special, [places[name] for name in roles.keep]
        asked = roles.mixed and roles.reading is None
        names = listed(roles.keep, columns) if asked else roles.keep
        what = "--columns" if asked else "the model's column"
        try:
            return special, _column_indices(names, columns, what, source)
        except InputError as error:
            if roles.reading is None:
                raise
            raise InputError(
                f"{error}. Give the table the columns of the fit, or fit again without them "
                "(--columns, --drop)"
            ) from error
    taken = dropped | set(special.values())
    evidence = [place for place in range(len(columns)) if place not in taken]
    if not evidence:
        raise InputError(f"{source}: no column is left to cluster")
    return special, evidence
