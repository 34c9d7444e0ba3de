"""Arguments and options of the commands: each stands in one place, with its help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import typer

from .models import ALIASES, canonical, commands

if TYPE_CHECKING:
    from ..io import Roles


def option(names: str, help: str, shown: str | None = None, **more: Any) -> Any:
    """An option; ``shown`` stands for its value in the help."""
    return typer.Option(*names.split(), metavar=shown, help=help, **more)


def argument(shown: str, help: str) -> Any:
    """An argument by its place."""
    return typer.Argument(metavar=shown, help=help)


DataFile = Annotated[
    str,
    argument(
        "DATA",
        "CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or AnnData file; - for stdin.",
    ),
]
IdColumn = Annotated[
    str | None,
    option("--id-column", "Names; if not given, a column that differs in every row.", "COLUMN"),
]
Seed = Annotated[int, option("--seed", "Random seed.", "N", min=0)]
Out = Annotated[
    Path, option("--out -o", "Folder for the result; - prints the memberships.", "FOLDER")
]
Force = Annotated[bool, option("--force", "Replace what an earlier run wrote.")]
Json = Annotated[bool, option("--json", "Print the summary as JSON.")]
Quiet = Annotated[bool, option("--quiet -q", "Print nothing but errors.")]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for: the data and how to read them, the model, and where the result goes."""

    data: DataFile = ""
    model: Annotated[
        Any,
        option(
            "--model -m",
            f"One of: {', '.join(commands())} (or {', '.join(ALIASES)}); if not given, "
            "mixed-mixture for a table with categories, else consensus. `sfumato models` says when "
            "to use which.",
            "MODEL",
            show_default=False,
            callback=canonical,
            parser=str,
            autocompletion=lambda: list(commands()),
        ),
    ] = None
    clusters: Annotated[
        str | None, option("--clusters -k", "Number of clusters; found if not given.", "K|auto")
    ] = None
    similarity: Annotated[
        str | None,
        option(
            "--similarity",
            "For pairwise models: precomputed (DATA is the matrix), cluster-kernel, self-tuning, "
            "gaussian, knn or cosine.",
            "KIND",
        ),
    ] = None
    weight_column: Annotated[
        str | None, option("--weight-column", "Weights: w counts as w copies.", "COLUMN")
    ] = None
    settings: Annotated[
        list[str] | None,
        option("--set", "Another parameter of the model; may be repeated.", "NAME=VALUE"),
    ] = None
    seed: Seed = 0
    scale: Annotated[
        str,
        option(
            "--scale",
            "Bring columns to one scale; auto standardises a table whose spreads differ more than "
            "tenfold, unless the model gives the same answer in any units.",
            "auto|standard|robust|none",
        ),
    ] = "auto"
    columns: Annotated[
        list[str] | None,
        option("--columns", "Cluster these alone; dates and identifiers too if named.", "A,B,C"),
    ] = None
    id_column: IdColumn = None
    class_column: Annotated[
        str | None,
        option(
            "--class-column",
            "Known classes: the discriminative model learns from them, others are compared with "
            "them.",
            "COLUMN",
        ),
    ] = None
    drop: Annotated[list[str] | None, option("--drop", "Leave these columns out.", "A,B,C")] = None
    header: Annotated[
        bool | None,
        option(
            "--header/--no-header",
            "Whether the first line holds names; found if not given.",
            show_default=False,
        ),
    ] = None
    delimiter: Annotated[
        str | None, option("--delimiter", "Stands between cells; found if not given.", "CHARACTER")
    ] = None
    encoding: Annotated[
        str | None, option("--encoding", "Of text; UTF-8 if not given.", "NAME")
    ] = None
    sheet: Annotated[
        str | None,
        option("--sheet", "Of an Excel workbook; else the first with a table.", "NAME|N"),
    ] = None
    levels: Annotated[
        bool, option("--levels", "Add coarser and finer clusterings: levels.csv and a table.")
    ] = False
    out: Out = Path("sfumato-result")
    table: Annotated[str, option("--table", "Form of the memberships.", "csv|parquet")] = "csv"
    force: Force = False
    strict: Annotated[
        bool, option("--strict", "Exit with 3, and write nothing, if the search does not converge.")
    ] = False
    resume: Annotated[bool, option("--resume", "Go on where the same command was stopped.")] = False
    as_json: Json = False
    quiet: Quiet = False
    labels: bool = False  # the columns are labelings
    checkpoints: bool = True  # whether the fit may be long enough to be resumed

    @property
    def told(self) -> dict[str, Any]:
        """What the model is told."""
        return {"seed": self.seed, "similarity": self.similarity, "settings": self.settings}

    @property
    def roles(self) -> Roles:
        """What the columns are."""
        from ..io import Roles

        return Roles(
            id=self.id_column,
            weight=self.weight_column,
            classes=self.class_column,
            drop=tuple(self.drop or ()),
            labels=self.labels,
            header=self.header,
            delimiter=self.delimiter,
            encoding=self.encoding,
            keep=tuple(self.columns) if self.columns else None,
            mixed=not self.labels and self.similarity != "precomputed",
            sheet=self.sheet,
        )


def asks(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with the options of ``Request``, but those left out, as its argument ``asked``."""
    hints = get_type_hints(Request, include_extras=True)
    shared = {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.name == "data" else field.default,
            annotation=hints[field.name],
        )
        for field in fields(Request)
        if get_origin(hints[field.name]) is Annotated and field.name not in left_out
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        own.pop("asked")

        @wraps(command)
        def run(**given: Any) -> None:
            asked = Request(**{name: given.pop(name) for name in shared})
            command(asked=asked, **given)

        run.__signature__ = inspect.Signature([*own.values(), *shared.values()])  # type: ignore[attr-defined]
        return run

    return decorate
