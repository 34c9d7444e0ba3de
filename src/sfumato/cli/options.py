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

DataFile = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or AnnData file; "
        "- for standard input.",
        metavar="DATA",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help=f"One of: {', '.join(commands())} (or {', '.join(ALIASES)}); "
        "if not given, mixed-mixture for a table with categories, else consensus, the best first "
        "try on features. The consensus, all mixtures and dirichlet-process take missing values; "
        "fuzzy-c-means is the quickest; spectral or pairwise for a similarity matrix. "
        "`sfumato models` says when to use which.",
        show_default=False,
        callback=canonical,
        autocompletion=lambda: list(commands()),
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="auto|standard|robust|none",
        help="Bring columns to one scale. auto standardises the columns of a table whose spreads "
        "differ more than tenfold, unless the model gives the same answer in any units.",
        autocompletion=lambda: ["auto", "standard", "robust", "none"],
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="A,B,C",
        help="The columns to cluster, all others left out; dates and identifiers too if named.",
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        "-k",
        metavar="K|auto",
        help="Number of clusters, or auto (if not given). "
        "A Dirichlet process infers it, up to this.",
    ),
]
Similarity = Annotated[
    str | None,
    typer.Option(
        "--similarity",
        metavar="KIND",
        help="For pairwise models: precomputed (DATA is the matrix), cluster-kernel, "
        "self-tuning, gaussian, knn or cosine.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other parameter of the model; may be repeated."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.", min=0)]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        metavar="COLUMN",
        help="Column of names. Found by itself when a column is different in every row.",
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        "--weight-column", metavar="COLUMN", help="Column of weights: w counts as w copies."
    ),
]
ClassColumn = Annotated[
    str | None,
    typer.Option(
        "--class-column",
        metavar="COLUMN",
        help="Column of known classes: used by the discriminative model, "
        "compared with by the others.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="A,B,C", help="Columns to leave out; may be repeated."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line holds names. Found by itself.",
        show_default=False,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", metavar="CHARACTER", help="Character between cells. Found by itself."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of a text file, UTF-8 if not given."),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        "--sheet",
        metavar="NAME|N",
        help="Sheet of an Excel workbook; the first that holds a table if not given.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="Folder for the result; - writes memberships to standard output.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a result folder that exists.")]
TableFormat = Annotated[
    str, typer.Option("--table", metavar="csv|parquet", help="Memberships as csv or parquet.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with 3, and write nothing, if the search does not converge."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the same command was stopped.")]


class Reading(NamedTuple):
    """How a table is read, and the model set: options of every command that clusters one."""

    settings: Settings = None
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
