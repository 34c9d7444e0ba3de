"""The commands and their options: one function per command, in the order of the help."""

from __future__ import annotations

import inspect as reflection
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from . import options as o

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


def command(module: str, names: str = "") -> Callable[[Callable[..., None]], None]:
    """Register a function as a command; the function of the same name in ``module`` does the work.

    The module is imported when the command runs, so that help is fast. The command also gets the
    ``Request`` options listed in ``names``; or, if it takes an argument ``asked``, all others.
    """

    def register(function: Callable[..., None]) -> None:
        own, known = dict(reflection.signature(function, eval_str=True).parameters), o.parameters()
        whole = own.pop("asked", None) is not None
        shared = [name for name in known if (name in names.split()) != whole]

        @wraps(function)
        def run(**given: Any) -> None:
            if whole:
                given["asked"] = o.Request(**{name: given.pop(name) for name in shared})
            getattr(import_module(f".{module}", __package__), function.__name__)(**given)

        listed = [*own.values(), *(known[name] for name in shared)]
        run.__signature__ = reflection.Signature(  # type: ignore[attr-defined]
            [each.replace(kind=reflection.Parameter.KEYWORD_ONLY) for each in listed]
        )
        # ``main`` removes --debug from the arguments of every command; this only documents it.
        app.command(epilog="--debug, with any command, shows the traceback of an error.")(run)

    return register


def _version(asked: bool) -> None:
    if asked:
        from .. import __version__

        print(f"sfumato {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, o.option("--version", "Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, o.option("--debug", "Show the traceback of an error, with any command.")
    ] = False,
) -> None:
    pass


@command("fitting")
def fit(*, asked: o.Request) -> None:
    """Cluster the rows of a table.

    Writes a folder with memberships, a summary, the model and a report. With --similarity
    precomputed the table is a similarity matrix.
    """


@command("fitting", "data model similarity weight_column")
def consensus(
    *,
    data: Annotated[
        str,
        o.argument(
            "DATA",
            "Labelings, one clustering per column; or features, with --features. - for standard "
            "input.",
        ),
    ],
    features: Annotated[
        bool, o.option("--features", "DATA holds features: make the clusterings first.")
    ] = False,
    asked: o.Request,
) -> None:
    """Combine many clusterings into a soft one."""


@command("using", "data id_column header delimiter encoding sheet force quiet")
def predict(
    model: Annotated[Path, o.argument("RESULT", "Result folder of an earlier fit.")],
    clusters: Annotated[
        int | None, o.option("--clusters -k", "Use another level (see fit --levels).", "K", min=1)
    ] = None,
    out: Annotated[Path, o.option("--out -o", "CSV file; - for standard output.", "FILE")] = Path(
        "-"
    ),
) -> None:
    """Memberships of new objects.

    Uses a model that was fitted before. Columns are matched by name.
    """


@command("using", "as_json")
def score(
    first: Annotated[str, o.argument("A", "Labels or memberships: a file or a result folder.")],
    second: Annotated[str, o.argument("B", "The other clustering of the same objects.")],
    column: Annotated[
        str | None, o.option("--column", "Column of labels, if there are several.", "COLUMN")
    ] = None,
) -> None:
    """Agreement of two clusterings, hard or soft.

    Objects are matched by id where both have ids, else by order. The first clustering is the
    reference.
    """


@command("fitting", "clusters levels out table strict resume")
def choose(
    *,
    lowest: Annotated[int, o.option("--from", "Smallest number to try.", "K", min=1)] = 1,
    highest: Annotated[
        int | None, o.option("--to", "Largest number; by default as in fit.", "K", min=1)
    ] = None,
    criterion: Annotated[
        str,
        o.option(
            "--criterion",
            "auto, structure, held-out, penalized-eigengap, silhouette, lifetime, bic, aic or icl.",
            "NAME",
        ),
    ] = "auto",
    labelings: Annotated[
        bool, o.option("--labelings", "DATA holds labelings (with --model consensus).")
    ] = False,
    plot: Annotated[
        Path | None, o.option("--plot", "Draw the curve: PNG, SVG or PDF.", "FILE")
    ] = None,
    asked: o.Request,
) -> None:
    """How many clusters? A score for each number.

    The answer is the same as that of fit --clusters auto.
    """


@command("using", "force")
def report(
    result: Annotated[Path, o.argument("RESULT", "Result folder.")],
    out: Annotated[
        Path | None, o.option("--out -o", "HTML file; by default report.html there.", "FILE")
    ] = None,
    title: Annotated[str | None, o.option("--title", "Title of the page.", "TEXT")] = None,
) -> None:
    """Write the report of a result again."""


@command("using", "as_json")
def models() -> None:
    """List the models, and when to use which."""


@command("using", "header delimiter encoding sheet as_json")
def inspect(
    file: Annotated[str, o.argument("FILE", "Data file, result folder or model file.")],
) -> None:
    """Show what a file holds.

    Nothing is fitted, and nothing in the file is run.
    """


@command("fitting", "force seed as_json")
def demo(
    out: Annotated[Path, o.option("--out -o", "Folder for the result.", "FOLDER")] = Path(
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
        o.argument(
            "EXPERIMENT",
            "similarity-table, similarity-figures, consensus-table, discriminative-table, "
            "rounding-table, cluster-kernel-table, learning-table, mixture-steps or all.",
        ),
    ],
    out: Annotated[Path, o.option("--out -o", "Folder for tables and pictures.", "FOLDER")] = Path(
        "sfumato-papers"
    ),
    data: Annotated[
        Path | None, o.option("--data", "Data sets; others are fetched from OpenML.", "FOLDER")
    ] = None,
    offline: Annotated[
        bool, o.option("--offline", "Do not fetch from OpenML; leave out what is not in --data.")
    ] = False,
    seeds: Annotated[int, o.option("--seeds", "Runs to average over.", "N", min=1)] = 10,
) -> None:
    """Run a table or figure of the papers again.

    Published values are shown next to measured ones.
    """
