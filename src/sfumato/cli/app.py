"""The commands and their options. Each imports what it needs when it runs, so that help is quick.

A new command is a function here or in ``commands``, and is added with ``command``; help lists the
commands in the order in which they are added.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from . import commands
from . import options as o

__all__ = ["app"]

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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error; goes with every command."),
    ] = False,
) -> None:
    pass


@command()
@o.takes(reading=o.Reading, writing=o.Writing)
def fit(
    *,
    data: o.DataFile,
    model: o.Model = None,
    clusters: o.Clusters = None,
    similarity: o.Similarity = None,
    weight_column: o.WeightColumn = None,
    reading: o.Reading,
    writing: o.Writing,
) -> None:
    """Cluster the rows of a table.

    Writes a folder with memberships, a summary, the model and a report. With --similarity
    precomputed the table is a similarity matrix.
    """
    from .fitting import Request, run

    roles = reading.roles(weight=weight_column, mixed=similarity != "precomputed")
    asked = {"model": model, "clusters": clusters, "similarity": similarity, **reading.model()}
    run(Request(data=data, roles=roles, **asked, **writing._asdict()))


@command()
@o.takes(reading=o.Reading, writing=o.Writing)
def consensus(
    *,
    data: Annotated[
        str,
        typer.Argument(
            help=(
                "Labelings, one clustering per column; or features, with --features. - for "
                "standard input."
            ),
            metavar="DATA",
        ),
    ],
    features: Annotated[
        bool,
        typer.Option(
            "--features", help="DATA holds features: build the ensemble of clusterings first."
        ),
    ] = False,
    clusters: o.Clusters = None,
    reading: o.Reading,
    writing: o.Writing,
) -> None:
    """Combine many clusterings into a soft one."""
    from .fitting import Request, run

    roles = reading.roles(labels=not features, mixed=features)
    asked = {"model": "consensus", "clusters": clusters, **reading.model()}
    run(Request(data=data, roles=roles, **asked, **writing._asdict()))


command()(commands.predict)
command()(commands.score)


@command()
@o.takes(reading=o.Reading)
def choose(
    *,
    data: o.DataFile,
    model: o.Model = None,
    lowest: Annotated[
        int, typer.Option("--from", metavar="K", min=1, help="Fewest clusters to try.")
    ] = 1,
    highest: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="K",
            min=1,
            help="Most clusters to try; by default as many as --clusters auto would.",
        ),
    ] = None,
    criterion: Annotated[
        str,
        typer.Option(
            "--criterion",
            metavar="NAME",
            help="auto, structure, held-out, prediction-strength, eigengap, "
            "penalized-eigengap, silhouette, gap, bic, aic, icl, lifetime or pac.",
        ),
    ] = "auto",
    labelings: Annotated[
        bool, typer.Option("--labelings", help="DATA holds labelings (with --model consensus).")
    ] = False,
    similarity: o.Similarity = None,
    weight_column: o.WeightColumn = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Write the curve to this PNG, SVG or PDF file."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a picture that exists.")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    reading: o.Reading,
) -> None:
    """How many clusters? A score for each number.

    The answer is the same as that of fit --clusters auto. It is then put to the structure test:
    sparse regions must separate the clusters.
    """
    from .choosing import Asked, choose

    mixed = not labelings and similarity != "precomputed"
    roles = reading.roles(weight=weight_column, labels=labelings, mixed=mixed)
    numbers = None if highest is None and lowest == 1 else range(lowest, (highest or 20) + 1)
    choose(
        Asked(
            data=data,
            roles=roles,
            model=model,
            candidates=numbers,
            criterion=criterion,
            similarity=similarity,
            plot=plot,
            force=force,
            as_json=as_json,
            quiet=quiet,
            **reading.model(),
        )
    )


command()(commands.report)
command()(commands.models)
command()(commands.inspect)
command()(commands.demo)
command()(commands.reproduce)
