"""The commands with their options, in the order of the help, and what they ask of models.

The functions that do the work are imported when a command runs, so that help is fast.
"""

# ruff: noqa: RUF009 (the calls in the defaults make fields)

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from .. import __version__, models

if TYPE_CHECKING:
    from ..io import Roles


# Alternative names of the models.
ALIASES = {"gmm": "gaussian-mixture", "fcm": "fuzzy-c-means"}
ALIASES |= {"dpgmm": "dirichlet-process", "eac": "consensus"}


def commands() -> dict[str, str]:
    """Public class names of the models, by their command-line names."""
    return {model.command: model.name for model in models.MODELS if model.command}


def class_of(name: str) -> Any:
    """The estimator class of a model."""
    check_model(name)
    model = next(model for model in models.MODELS if model.command == name)
    return getattr(import_module(f"sfumato.models.{model.module}"), model.name)


def canonical(name: str | None) -> str | None:
    """The command-line name of a model, given that or an alias."""
    return name if name is None else ALIASES.get(name.lower(), name)


def option(names: str, help: str, shown: str | None = None, **more: Any) -> Any:
    """A typer option; ``shown`` is the placeholder of its value in the help."""
    return typer.Option(*names.split(), metavar=shown, help=help, **more)


def argument(shown: str, help: str) -> Any:
    """A positional typer argument."""
    return typer.Argument(metavar=shown, help=help)


def _set_by(names: str, help: str, shown: str | None = None, value: Any = None, **more: Any) -> Any:
    """A field of ``Request`` with its option and its default."""
    return field(default=value, metadata={"option": option(names, help, shown, **more)})


_DATA = "CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or AnnData file; - for stdin."
_MODEL = (
    f"One of: {', '.join(commands())} (or {', '.join(ALIASES)}); by default mixed-mixture if over "
    "a fifth of the columns are codes, else consensus. `sfumato models` says when to use which."
)
_SIMILARITY = (
    "For pairwise models: precomputed (DATA is the matrix), distance (DATA holds distances), "
    "cluster-kernel, self-tuning, gaussian, knn or cosine."
)
_SCALE = (
    "Bring columns to one scale; auto standardises a table if standard deviations differ more than "
    "tenfold, unless the model needs no scaling."
)
_CLASSES = "Column of known classes to compare with; the discriminative model learns from them."


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request: the data and how to read them, the model, and where the result goes."""

    data: str = field(default="", metadata={"option": argument("DATA", _DATA)})
    model: Any = _set_by(
        "--model -m",
        _MODEL,
        "MODEL",
        show_default=False,
        callback=canonical,
        parser=str,
        autocompletion=lambda: list(commands()),
    )
    clusters: str | None = _set_by(
        "--clusters -k", "Number of clusters; by default chosen from the data.", "K|auto"
    )
    similarity: str | None = _set_by("--similarity", _SIMILARITY, "KIND")
    weight_column: str | None = _set_by(
        "--weight-column", "Column of weights; a weight of w counts as w copies.", "COLUMN"
    )
    settings: list[str] | None = _set_by(
        "--set", "Set another parameter of the model; may be repeated.", "NAME=VALUE"
    )
    seed: int = _set_by("--seed", "Random seed.", "N", 0, min=0)
    scale: str = _set_by("--scale", _SCALE, "auto|standard|robust|none", "auto")
    columns: list[str] | None = _set_by(
        "--columns", "Cluster only these columns; may include dates and ids.", "A,B,C"
    )
    id_column: str | None = _set_by(
        "--id-column", "Column of object names; by default one that differs in every row.", "COLUMN"
    )
    class_column: str | None = _set_by("--class-column", _CLASSES, "COLUMN")
    drop: list[str] | None = _set_by("--drop", "Leave these columns out.", "A,B,C")
    header: bool | None = _set_by(
        "--header/--no-header",
        "Whether the first line holds column names; by default detected.",
        show_default=False,
    )
    delimiter: str | None = _set_by(
        "--delimiter", "Character between cells; by default detected.", "CHARACTER"
    )
    encoding: str | None = _set_by("--encoding", "Text encoding; by default detected.", "NAME")
    sheet: str | None = _set_by(
        "--sheet", "Sheet of an Excel workbook; by default the largest.", "NAME|N"
    )
    missing: list[str] | None = _set_by(
        "--missing", "Cells that mean a missing value, besides empty ones, NA, ? and such.", "A,B"
    )
    levels: bool = _set_by(
        "--levels", "Also show coarser and finer clusterings, and write levels.csv.", value=False
    )
    out: Path = _set_by(
        "--out -o",
        "Folder for the result; - prints the memberships.",
        "FOLDER",
        Path("sfumato-result"),
    )
    table: str = _set_by("--table", "Format of the memberships.", "csv|parquet", "csv")
    force: bool = _set_by("--force", "Replace what an earlier run wrote.", value=False)
    strict: bool = _set_by(
        "--strict", "Exit with 3, and write nothing, if the search does not converge.", value=False
    )
    resume: bool = _set_by("--resume", "Continue where the same command was stopped.", value=False)
    as_json: bool = _set_by("--json", "Print the summary as JSON.", value=False)
    quiet: bool = _set_by("--quiet -q", "Print nothing but errors.", value=False)
    labels: bool = False  # the columns are labelings
    checkpoints: bool = True  # whether the fit may take long enough to be worth resuming

    @property
    def model_settings(self) -> dict[str, Any]:
        """Settings passed to the model."""
        return {"seed": self.seed, "similarity": self.similarity, "settings": self.settings}

    @property
    def is_matrix(self) -> bool:
        """Whether the data are similarities or distances of all pairs, not features."""
        return self.similarity in ("precomputed", "distance")

    @property
    def roles(self) -> Roles:
        """Roles of the columns."""
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
            mixed=not self.labels and not self.is_matrix,
            sheet=self.sheet,
            missing=separate(self.missing),
        )


def separate(values: Sequence[str] | None) -> tuple[str, ...]:
    """The values of an option that may be repeated or hold several, separated by commas."""
    return tuple(part.strip() for value in values or () for part in value.split(","))


def parameters() -> dict[str, inspect.Parameter]:
    """Options of ``Request`` by name, as parameters of command functions."""
    hints, kind = get_type_hints(Request), inspect.Parameter.KEYWORD_ONLY
    return {
        part.name: inspect.Parameter(
            part.name,
            kind,
            default=inspect.Parameter.empty if part.name == "data" else part.default,
            annotation=Annotated[hints[part.name], part.metadata["option"]],
        )
        for part in fields(Request)
        if "option" in part.metadata
    }


def first_choice(table: Any) -> str:
    """Default model: the consensus, or the mixed mixture if codes are a fifth of a table.

    The mixture takes columns as independent within clusters, which many measurements are not.
    """
    used = [column for column in table.fields or () if column.used]
    coded = sum(column.coded for column in used)
    return "mixed-mixture" if 5 * coded > len(used) else "consensus"


def parse_clusters(text: str | None, model: str) -> int | None:
    """Number of clusters, ``None`` for "auto"; without text, the default of the estimator."""
    if text is None:
        default = inspect.signature(class_of(model)).parameters["n_clusters"].default
        return default if isinstance(default, int) else None
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"--clusters must be a whole number of at least 1, or auto; got '{text}'")
    return int(text)


def check_model(name: str) -> None:
    """Raise ValueError unless a model has this name."""
    if name not in commands():
        raise ValueError(f"--model must be one of {', '.join(commands())}; got '{name}'")


def make(
    name: str,
    n_clusters: int | None,
    *,
    seed: int,
    similarity: str | None = None,
    settings: Sequence[str] | None = None,
) -> Any:
    """An estimator; ``settings`` are "parameter=value", with values in JSON or plain text."""
    kind = class_of(name)
    known = list(inspect.signature(kind).parameters)
    parameters: dict[str, Any] = {"random_state": seed}
    if n_clusters is not None:
        parameters["n_clusters"] = n_clusters
    if similarity is not None:
        if "similarity" not in known:
            raise ValueError(f"--similarity does not apply to {name}, which takes features")
        parameters["similarity"] = similarity
    choices = [name for name in known if name not in ("n_clusters", "random_state")]
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or key not in choices:
            raise ValueError(f"--set takes name=value of {', '.join(choices)}; got '{setting}'")
        parameters[key] = _value(value)
    return kind(**{key: value for key, value in parameters.items() if key in known})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None if text == "None" else {"True": True, "False": False}.get(text, text)


app = typer.Typer(
    name="sfumato",
    help="Soft clustering: for every object, how much it belongs to each cluster.",
    epilog=(
        "Exit codes: 0 done, 1 failed, 2 bad input, 3 not converged (--strict), 4 out of memory, "
        "130 stopped."
    ),
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(
    module: str, names: str = "", name: str | None = None
) -> Callable[[Callable[..., None]], None]:
    """Register a function as a command; the function of the same name in ``module`` does the work.

    The module is imported when the command runs, so that help is fast. The command also gets the
    ``Request`` options listed in ``names``; or, if it takes an argument ``asked``, all others.
    """

    def register(function: Callable[..., None]) -> None:
        own, known = dict(inspect.signature(function, eval_str=True).parameters), parameters()
        whole = own.pop("asked", None) is not None
        shared = [name for name in known if (name in names.split()) != whole]

        @wraps(function)
        def run(**given: Any) -> None:
            if whole:
                given["asked"] = Request(**{name: given.pop(name) for name in shared})
            getattr(import_module(f".{module}", __package__), function.__name__)(**given)

        listed = [*own.values(), *(known[name] for name in shared)]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in listed]
        )
        # ``main`` removes --debug from the arguments of every command; this only documents it.
        app.command(name, epilog="--debug, with any command, shows the traceback of an error.")(run)

    return register


def _version(asked: bool) -> None:
    if asked:
        print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, option("--version", "Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, option("--debug", "Show the traceback of an error, with any command.")
    ] = False,
) -> None:
    pass


@command("fitting")
def fit(*, asked: Request) -> None:
    """Cluster the rows of a table.

    Writes a folder with memberships, a summary, the model and a report. With --similarity
    precomputed the table is a similarity matrix.
    """


@command("fitting", "data model similarity weight_column")
def consensus(
    *,
    data: Annotated[
        str,
        argument(
            "DATA",
            "Labelings, one clustering per column; or features, with --features. - for standard "
            "input.",
        ),
    ],
    features: Annotated[
        bool, option("--features", "DATA holds features: make the clusterings first.")
    ] = False,
    asked: Request,
) -> None:
    """Combine many clusterings into a soft one."""


@command("using", "data id_column header delimiter encoding sheet force quiet")
def predict(
    model: Annotated[Path, argument("RESULT", "Result folder of an earlier fit.")],
    clusters: Annotated[
        int | None, option("--clusters -k", "Use another level (see fit --levels).", "K", min=1)
    ] = None,
    out: Annotated[Path, option("--out -o", "CSV file; - for standard output.", "FILE")] = Path(
        "-"
    ),
) -> None:
    """Memberships of new objects.

    Uses a model that was fitted before. Columns are matched by name.
    """


@command("using", "as_json")
def score(
    first: Annotated[str, argument("A", "Labels or memberships: a file or a result folder.")],
    second: Annotated[str, argument("B", "The other clustering of the same objects.")],
    column: Annotated[
        str | None, option("--column", "Column of labels, if there are several.", "COLUMN")
    ] = None,
) -> None:
    """Agreement of two clusterings, hard or soft.

    Objects are matched by id where both have ids, else by order. The first clustering is the
    reference.
    """


@command("fitting", "clusters levels out table strict resume")
def choose(
    *,
    lowest: Annotated[int, option("--from", "Smallest number to try.", "K", min=1)] = 1,
    highest: Annotated[
        int | None, option("--to", "Largest number; by default as in fit.", "K", min=1)
    ] = None,
    criterion: Annotated[
        str,
        option(
            "--criterion",
            "auto, structure, held-out, penalized-eigengap, silhouette, lifetime, bic, aic or icl.",
            "NAME",
        ),
    ] = "auto",
    labelings: Annotated[
        bool, option("--labelings", "DATA holds labelings (with --model consensus).")
    ] = False,
    plot: Annotated[
        Path | None, option("--plot", "Draw the curve: PNG, SVG or PDF.", "FILE")
    ] = None,
    asked: Request,
) -> None:
    """How many clusters? A score for each number.

    The answer is the same as that of fit --clusters auto.
    """


@command("using", "force")
def report(
    result: Annotated[Path, argument("RESULT", "Result folder.")],
    out: Annotated[
        Path | None, option("--out -o", "HTML file; by default report.html there.", "FILE")
    ] = None,
    title: Annotated[str | None, option("--title", "Title of the page.", "TEXT")] = None,
) -> None:
    """Write the report of a result again."""


@command("using", "as_json", name="models")
def list_models() -> None:
    """List the models, and when to use which."""


@command("using", "header delimiter encoding sheet missing as_json", name="inspect")
def inspect_file(
    file: Annotated[str, argument("FILE", "Data file, result folder or model file.")],
) -> None:
    """Show what a file holds.

    Nothing is fitted, and nothing in the file is run.
    """


@command("fitting", "force seed as_json")
def demo(
    out: Annotated[Path, option("--out -o", "Folder for the result.", "FOLDER")] = Path(
        "sfumato-demo"
    ),
) -> None:
    """Soft consensus of Fisher's irises.

    Prints a table and writes a report to the folder.
    """


@command("using", "force")
def reproduce(
    name: Annotated[
        str,
        argument(
            "EXPERIMENT",
            "similarity-table, similarity-figures, consensus-table, discriminative-table, "
            "rounding-table, cluster-kernel-table, learning-table, mixture-steps or all.",
        ),
    ],
    out: Annotated[Path, option("--out -o", "Folder for tables and pictures.", "FOLDER")] = Path(
        "sfumato-papers"
    ),
    data: Annotated[
        Path | None, option("--data", "Data sets; others are fetched from OpenML.", "FOLDER")
    ] = None,
    offline: Annotated[
        bool, option("--offline", "Do not fetch from OpenML; leave out what is not in --data.")
    ] = False,
    seeds: Annotated[int, option("--seeds", "Runs to average over.", "N", min=1)] = 10,
) -> None:
    """Run a table or figure of the papers again.

    Published values are shown next to measured ones.
    """
