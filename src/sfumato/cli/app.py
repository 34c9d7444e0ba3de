"""The commands and their options. Each imports what it needs when it runs, so that help is quick.

A new command is a function here, in the order in which help lists them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

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

# ``main`` takes --debug out of the arguments of every command; here it is only told about.
command = partial(app.command, epilog="--debug, with any command, shows the traceback of an error.")


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


@command()
@o.asks()
def fit(*, asked: o.Request) -> None:
    """Cluster the rows of a table.

    Writes a folder with memberships, a summary, the model and a report. With --similarity
    precomputed the table is a similarity matrix.
    """
    from .fitting import run

    run(asked)


@command()
@o.asks("data", "model", "similarity", "weight_column")
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
    from .fitting import run

    run(replace(asked, data=data, model="consensus", labels=not features))


@command()
def predict(
    model: Annotated[Path, o.argument("RESULT", "Result folder of an earlier fit.")],
    data: o.DataFile,
    clusters: Annotated[
        int | None,
        o.option("--clusters -k", "At another level (fit --levels).", "K", min=1),
    ] = None,
    id_column: o.IdColumn = None,
    out: Annotated[Path, o.option("--out -o", "CSV file; - for standard output.", "FILE")] = Path(
        "-"
    ),
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Memberships of new objects.

    Uses a model that was fitted before. Columns are matched by name.
    """
    from .using import predict

    predict(model, data, id_column, out, force=force, quiet=quiet, n_clusters=clusters)


@command()
def score(
    first: Annotated[str, o.argument("A", "Labels or memberships: a file or a result folder.")],
    second: Annotated[str, o.argument("B", "The other clustering of the same objects.")],
    column: Annotated[
        str | None, o.option("--column", "Labels, where a file has several columns.", "COLUMN")
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Agreement of two clusterings, hard or soft.

    Objects are matched by id where both have ids, else by order. The first clustering is the
    reference.
    """
    from .using import score

    score(first, second, column, as_json)


@command()
@o.asks("clusters", "levels", "out", "table", "strict", "resume")
def choose(
    *,
    lowest: Annotated[int, o.option("--from", "Fewest clusters.", "K", min=1)] = 1,
    highest: Annotated[
        int | None, o.option("--to", "Most clusters; else as fit --clusters auto.", "K", min=1)
    ] = None,
    criterion: Annotated[
        str,
        o.option(
            "--criterion",
            "auto, structure, held-out, prediction-strength, eigengap, penalized-eigengap, "
            "silhouette, gap, bic, aic, icl, lifetime or pac.",
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
    from .choosing import choose

    numbers = None if highest is None and lowest == 1 else range(lowest, (highest or 20) + 1)
    choose(replace(asked, labels=labelings), numbers, criterion, plot)


@command()
def report(
    result: Annotated[Path, o.argument("RESULT", "Result folder.")],
    out: Annotated[
        Path | None,
        o.option("--out -o", "HTML file; else report.html in the folder.", "FILE"),
    ] = None,
    title: Annotated[str | None, o.option("--title", "Title of the page.", "TEXT")] = None,
    force: o.Force = False,
) -> None:
    """Write the report of a result again."""
    from .using import report

    report(result, out, title, force)


@command()
def models(as_json: o.Json = False) -> None:
    """List the models, and when to use which."""
    from .inspecting import list_models

    list_models(as_json)


@command()
def inspect(
    file: Annotated[str, o.argument("FILE", "Data file, result folder or model file.")],
    as_json: o.Json = False,
) -> None:
    """Say what a file holds.

    Nothing is fitted, and nothing in the file is run.
    """
    from .inspecting import inspect

    inspect(file, as_json)


@command()
def demo(
    out: o.Out = Path("sfumato-demo"),
    force: o.Force = False,
    seed: o.Seed = 0,
    as_json: o.Json = False,
) -> None:
    """Soft consensus of Fisher's irises.

    Prints a table and writes a report to the folder.
    """
    from .fitting import demonstrate

    demonstrate(out, force, seed, as_json)


@command()
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
        Path | None,
        o.option("--data", "Data sets; OpenML is asked for the others.", "FOLDER"),
    ] = None,
    offline: Annotated[
        bool, o.option("--offline", "Do not ask OpenML: leave out what is not in --data.")
    ] = False,
    seeds: Annotated[int, o.option("--seeds", "Runs to average over.", "N", min=1)] = 10,
    force: o.Force = False,
) -> None:
    """Run a table or figure of the papers again.

    Published figures stand beside measured ones.
    """
    from .reproducing import reproduce

    reproduce(name, out, data, offline, seeds, force)
