"""Arguments and options that several commands share, and groups of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from .models import ALIASES, canonical, commands

if TYPE_CHECKING:
    from ..io import Roles


def option(names: str, help: str, shown: str | None = None, **more: Any) -> Any:
    """An option; ``shown`` stands for its value in the help."""
    return typer.Option(*names.split(), metavar=shown, help=help, **more)


DataFile = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or AnnData file; - for stdin.",
    ),
]
Model = Annotated[
    str | None,
    option(
        "--model -m",
        f"One of: {', '.join(commands())} (or {', '.join(ALIASES)}); if not given, mixed-mixture "
        "for a table with categories, else consensus. `sfumato models` says when to use which.",
        "MODEL",
        show_default=False,
        callback=canonical,
        autocompletion=lambda: list(commands()),
    ),
]
Scale = Annotated[
    str,
    option(
        "--scale",
        "Bring columns to one scale; auto standardises a table whose spreads differ more than "
        "tenfold, unless the model gives the same answer in any units.",
        "auto|standard|robust|none",
    ),
]
Clusters = Annotated[
    str | None,
    option("--clusters -k", "Number of clusters; found if not given.", "K|auto"),
]
Similarity = Annotated[
    str | None,
    option(
        "--similarity",
        "For pairwise models: precomputed (DATA is the matrix), cluster-kernel, self-tuning, "
        "gaussian, knn or cosine.",
        "KIND",
    ),
]
Seed = Annotated[int, option("--seed", "Random seed.", "N", min=0)]
IdColumn = Annotated[
    str | None,
    option("--id-column", "Names; if not given, a column that differs in every row.", "COLUMN"),
]
WeightColumn = Annotated[
    str | None, option("--weight-column", "Weights: w counts as w copies.", "COLUMN")
]
Out = Annotated[
    Path,
    option("--out -o", "Folder for the result; - prints the memberships.", "FOLDER"),
]
Force = Annotated[bool, option("--force", "Replace what an earlier run wrote.")]
Json = Annotated[bool, option("--json", "Print the summary as JSON.")]
Quiet = Annotated[bool, option("--quiet -q", "Print nothing but errors.")]
Set = Annotated[
    list[str] | None,
    option("--set", "Another parameter of the model; may be repeated.", "NAME=VALUE"),
]
Columns = Annotated[
    list[str] | None,
    option("--columns", "Cluster these alone; dates and identifiers too if named.", "A,B,C"),
]
ClassColumn = Annotated[
    str | None,
    option(
        "--class-column",
        "Known classes: the discriminative model learns from them, others are compared with them.",
        "COLUMN",
    ),
]
Drop = Annotated[list[str] | None, option("--drop", "Leave these columns out.", "A,B,C")]
Header = Annotated[
    bool | None,
    option(
        "--header/--no-header",
        "Whether the first line holds names; found if not given.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None, option("--delimiter", "Stands between cells; found if not given.", "CHARACTER")
]
Encoding = Annotated[str | None, option("--encoding", "Of text; UTF-8 if not given.", "NAME")]
Sheet = Annotated[
    str | None, option("--sheet", "Of an Excel workbook; else the first with a table.", "NAME|N")
]
TableFormat = Annotated[str, option("--table", "Form of the memberships.", "csv|parquet")]
Strict = Annotated[
    bool, option("--strict", "Exit with 3, and write nothing, if the search does not converge.")
]
Resume = Annotated[bool, option("--resume", "Go on where the same command was stopped.")]
Levels = Annotated[
    bool, option("--levels", "Add coarser and finer clusterings: levels.csv and a table.")
]


class Reading(NamedTuple):
    """How a table is read, and the model set: options of every command that clusters one."""

    settings: Set = None
    seed: Seed = 0
    scale: Scale = "auto"
    columns: Columns = None
    id_column: IdColumn = None
    class_column: ClassColumn = None
    drop: Drop = None
    header: Header = None
    delimiter: Delimiter = None
    encoding: Encoding = None
    sheet: Sheet = None

    def roles(self, **others: Any) -> Roles:
        """What the columns are."""
        from ..io import Roles

        return Roles(
            id=self.id_column,
            classes=self.class_column,
            drop=tuple(self.drop or ()),
            header=self.header,
            delimiter=self.delimiter,
            encoding=self.encoding,
            sheet=self.sheet,
            keep=tuple(self.columns) if self.columns else None,
            **others,
        )

    def model(self) -> dict[str, Any]:
        """What the model is told."""
        return {"settings": tuple(self.settings or ()), "seed": self.seed, "scale": self.scale}


class Writing(NamedTuple):
    """Where a result goes: options of every command that writes one."""

    levels: Levels = False
    out: Out = Path("sfumato-result")
    table: TableFormat = "csv"
    force: Force = False
    strict: Strict = False
    resume: Resume = False
    as_json: Json = False
    quiet: Quiet = False


def takes(**groups: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options of several groups, which it gets as one argument per group."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        shared = {name: _parameters(group) for name, group in groups.items()}

        @wraps(command)
        def run(**given: Any) -> None:
            parts = {
                name: groups[name](**{option: given.pop(option) for option in options})
                for name, options in shared.items()
            }
            command(**given, **parts)

        listed = [option for name, option in own.items() if name not in groups]
        for options in shared.values():
            listed += options.values()
        run.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(group: Any) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return {
        name: inspect.Parameter(name, kind, default=default, annotation=hints[name])
        for name, default in group._field_defaults.items()
    }
