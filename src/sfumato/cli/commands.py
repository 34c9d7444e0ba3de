"""Commands that use what is there already: results, models, files and published experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options as o

__all__ = ["demo", "inspect", "models", "predict", "report", "reproduce", "score"]


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


def models(as_json: o.Json = False) -> None:
    """List the models, and when to use which."""
    from .inspecting import list_models

    list_models(as_json)


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
