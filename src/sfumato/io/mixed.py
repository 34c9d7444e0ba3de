"""A table whose columns are of any kind, made of what a reader found in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..array.text import from_cell, plain
from ._tables import InputError, Roles, Table
from .columns import Column, Problem, Raw, encode, encoded_names, judge

__all__ = ["mixed_table"]


def mixed_table(
    raws: Sequence[Raw],
    special: Mapping[str, list[Any]],
    names: Mapping[str, str],
    roles: Roles,
    source: str,
) -> Table:
    """The table of the columns that can be clustered.

    Parameters
    ----------
    raws : columns as the reader found them
    special : blocks of ids, weights and classes, by role
    names : name of the column of each role
    roles : Roles
    source : what to call the file in messages
    """
    columns, problems = _judged(raws, roles)
    _refuse(columns, problems, roles, source)
    ids = [str(name) for part in special.get("id", []) for name in part] or None
    id_column = names.get("id")
    if ids is None and roles.reading is None:
        found = _id_column(columns)
        if found is not None:
            ids, id_column = _names(found), found.name
    return Table(
        encode(columns),
        [name for group in encoded_names(columns) for name in group],
        ids,
        id_column,
        np.concatenate(special["weight"]) if "weight" in special else None,
        [str(name) for part in special["classes"] for name in part]
        if "classes" in special
        else None,
        source,
        fields=columns,
    )


def _judged(raws: Sequence[Raw], roles: Roles) -> tuple[list[Column], list[Problem]]:
    """What every column is; those of a fitted model that the table lacks are all missing."""
    known = roles.reading
    if known is None or len(known) == len(raws):
        return judge(raws, named=roles.keep is not None, known=known)
    there = {raw.name for raw in raws}
    found, problems = judge(raws, known=[how for how in known if how["name"] in there])
    rows = len(next(held for held in (raws[0].numbers, raws[0].codes) if held is not None))
    by_name = {column.name: column for column in found}
    return [by_name.get(how["name"]) or _absent(how, rows) for how in known], problems


def _absent(how: Mapping[str, Any], rows: int) -> Column:
    note = (
        "not in this table, taken as missing; for clusters that do without, fit again with --drop, "
        "or with --class-column for known classes"
    )
    numbers, codes = np.full(rows, np.nan), np.full(rows, -1, dtype=np.int32)
    coded = how["kind"] == "category"
    return Column(
        how["name"],
        how["kind"],
        True,
        note,
        None if coded else numbers,
        codes if coded else None,
        list(how["categories"]),
    )


def _refuse(
    columns: Sequence[Column], problems: Sequence[Problem], roles: Roles, source: str
) -> None:
    """One error for all that cannot be read."""
    said = [_said(problem) for problem in problems]
    if roles.reading is not None or roles.keep is not None:
        said += [
            f"column '{plain(column.name, 40)}': {column.note}"
            for column in columns
            if not column.used
        ]
    if said:
        fix = (
            "make them numbers, or leave the column out with --drop, --id-column or --class-column"
            if roles.reading is None
            else "write them as in the table of the fit, or leave the cells empty, as missing"
        )
        more = f"; and {len(said) - 6} more columns" if len(said) > 6 else ""
        raise InputError(f"{source}, {'; '.join(said[:6])}{more}: {fix}")
    if not any(column.used for column in columns):
        why = "; ".join(f"'{plain(column.name, 30)}': {column.note}" for column in columns[:6])
        raise InputError(f"{source}: no column is left to cluster ({why})")


def _said(problem: Problem) -> str:
    more = f" (and {problem.more:,} more cells)" if problem.more else ""
    where = f"line {problem.line}, column '{plain(problem.column, 40)}'"
    return f"{where}: '{plain(problem.cell, 40)}' is not a finite number{more}"


def _id_column(columns: Sequence[Column]) -> Column | None:
    """The column that names the objects: the first of those set aside that differs in every row,
    repeated rows of text apart.
    """
    for column in columns:
        names = _names(column) if column.kind == "identifier" else []
        if names and (column.codes is not None or len(set(names)) == len(names)):
            return column
    return None


def _names(column: Column) -> list[str]:
    if column.codes is not None:
        words = [from_cell(word) for word in column.categories]
        return ["" if code < 0 else words[code] for code in column.codes]
    values = np.asarray(column.numbers)
    return ["" if np.isnan(value) else f"{value:.15g}" for value in values]
