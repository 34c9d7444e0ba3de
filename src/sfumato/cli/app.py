"""The commands and their options. Each imports what it needs when it runs, so that help is quick.

A new command is a function here, or in a module of its own that is added with ``app.add_typer`` or
``app.command``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

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
def fit(
    data: o.DataFile,
    model: o.Model = None,
    clusters: o.Clusters = None,
    similarity: o.Similarity = None,
    settings: o.Settings = None,
    seed: o.Seed = 0,
    scale: o.Scale = "auto",
    columns: o.Columns = None,
    id_column: o.IdColumn = None,
    weight_column: o.WeightColumn = None,
    class_column: o.ClassColumn = None,
    drop: o.Drop = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    out: o.Out = Path("sfumato-result"),
    table: o.TableFormat = "csv",
    force: o.Force = False,
    strict: o.Strict = False,
    resume: o.Resume = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Cluster the rows of a table.

    Writes a folder with memberships, a summary, the model and a report. With --similarity
    precomputed the table is a similarity matrix.
    """
    from ..io import Roles
    from .fitting import Request, run

    roles = Roles(
        id=id_column,
        weight=weight_column,
        classes=class_column,
        drop=tuple(drop or ()),
        header=header,
        delimiter=delimiter,
        encoding=encoding,
        keep=tuple(columns) if columns else None,
        mixed=similarity != "precomputed",
    )
    run(
        Request(
            data=data,
            roles=roles,
            scale=scale,
            model=model,
            clusters=clusters,
            similarity=similarity,
            settings=tuple(settings or ()),
            seed=seed,
            out=out,
            table=table,
            force=force,
            strict=strict,
            resume=resume,
            as_json=as_json,
            quiet=quiet,
        )
    )


@command()
def consensus(
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
    settings: o.Settings = None,
    seed: o.Seed = 0,
    scale: o.Scale = "auto",
    columns: o.Columns = None,
    id_column: o.IdColumn = None,
    class_column: o.ClassColumn = None,
    drop: o.Drop = None,
    header: o.Header = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    out: o.Out = Path("sfumato-result"),
    table: o.TableFormat = "csv",
    force: o.Force = False,
    strict: o.Strict = False,
    resume: o.Resume = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Combine many clusterings into a soft one."""
    from ..io import Roles
    from .fitting import Request, run

    roles = Roles(
        id=id_column,
        classes=class_column,
        drop=tuple(drop or ()),
        labels=not features,
        header=header,
        delimiter=delimiter,
        encoding=encoding,
        keep=tuple(columns) if columns else None,
        mixed=features,
    )
    run(
        Request(
            data=data,
            roles=roles,
            scale=scale,
            model="consensus",
            clusters=clusters,
            settings=tuple(settings or ()),
            seed=seed,
            out=out,
            table=table,
            force=force,
            strict=strict,
            resume=resume,
            as_json=as_json,
            quiet=quiet,
        )
    )


@command()
def predict(
    model: Annotated[
        Path, typer.Argument(help="Result folder of an earlier fit.", metavar="RESULT")
    ],
    data: o.DataFile,
    id_column: o.IdColumn = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="CSV file for the memberships; - for standard output.",
        ),
    ] = Path("-"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Memberships of new objects.

    Uses a model that was fitted before. Columns are matched by name.
    """
    from .using import predict

    predict(model, data, id_column, out, force, quiet)


@command()
def score(
    first: Annotated[
        str, typer.Argument(help="Labels or memberships: a file or a result folder.", metavar="A")
    ],
    second: Annotated[
        str, typer.Argument(help="The other clustering of the same objects.", metavar="B")
    ],
    column: Annotated[
        str | None,
        typer.Option(
            "--column", metavar="COLUMN", help="Column of labels, where a file has several."
        ),
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
def choose(
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
            help="auto, structure, held-out, prediction-strength, misfit, eigengap, "
            "penalized-eigengap, silhouette, gap, bic, aic, icl, lifetime or pac.",
        ),
    ] = "auto",
    labelings: Annotated[
        bool, typer.Option("--labelings", help="DATA holds labelings (with --model consensus).")
    ] = False,
    similarity: o.Similarity = None,
    settings: o.Settings = None,
    seed: o.Seed = 0,
    scale: o.Scale = "auto",
    columns: o.Columns = None,
    id_column: o.IdColumn = None,
    weight_column: o.WeightColumn = None,
    class_column: o.ClassColumn = None,
    drop: o.Drop = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Write the curve to this PNG, SVG or PDF file."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a picture that exists.")] = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """How many clusters? A score for each number.

    The answer is the same as that of fit --clusters auto. It is then put to the structure test:
    sparse regions must separate the clusters.
    """
    from ..io import Roles
    from .choosing import Asked, choose

    roles = Roles(
        id=id_column,
        weight=weight_column,
        classes=class_column,
        drop=tuple(drop or ()),
        labels=labelings,
        keep=tuple(columns) if columns else None,
        mixed=not labelings and similarity != "precomputed",
    )
    numbers = None if highest is None and lowest == 1 else range(lowest, (highest or 20) + 1)
    choose(
        Asked(
            data=data,
            roles=roles,
            scale=scale,
            model=model,
            candidates=numbers,
            criterion=criterion,
            similarity=similarity,
            settings=tuple(settings or ()),
            seed=seed,
            plot=plot,
            force=force,
            as_json=as_json,
            quiet=quiet,
        )
    )


@command()
def report(
    result: Annotated[Path, typer.Argument(help="Result folder.", metavar="RESULT")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="HTML file; report.html in the folder if not given."
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Title of the page.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file named with --out.")
    ] = False,
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
    file: Annotated[
        str, typer.Argument(help="Data file, result folder or model file.", metavar="FILE")
    ],
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
        typer.Argument(
            help=(
                "similarity-table, similarity-figures, consensus-table, discriminative-table, "
                "rounding-table, cluster-kernel-table, learning-table, mixture-steps or all."
            ),
            metavar="EXPERIMENT",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Folder for the table (markdown and CSV) and the pictures.",
        ),
    ] = Path("sfumato-papers"),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FOLDER",
            help=(
                "Folder with data sets that do not come with scikit-learn; OpenML is asked for the "
                "others."
            ),
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask OpenML: leave out what is not in --data.")
    ] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Runs to average over.")
    ] = 10,
    force: o.Force = False,
) -> None:
    """Run a table or figure of the papers again.

    Published figures stand beside measured ones.
    """
    from .reproducing import reproduce

    reproduce(name, out, data, offline, seeds, force)
