"""fit, consensus and demo: read, fit, write, show."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..array.text import plain
from ..array.types import ArrayLike, Estimator
from ..engine.loop import progress
from ..io import InputError, Roles, Table, read
from ..io.checkpoint import Checkpoint, check_checkpoint
from ..io.output import Output
from ..io.results import check_target, has_noise, least_size, write_memberships, write_result
from ..io.sniffing import number
from .advice import explained_by_one
from .errors import NotConvergedError, damaged
from .evidence import on_one_scale, prepare
from .keeping import kept, kept_until_written
from .models import check_model, first_choice, make, parse_clusters
from .terminal import Terminal

__all__ = ["Request", "demonstrate", "run"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for: the data and how to read them, the model, and where the result goes."""

    data: str
    roles: Roles
    scale: str = "auto"
    model: Any = None  # a name; None for the first choice
    clusters: str | None = None
    similarity: str | None = None
    settings: tuple[str, ...] = ()
    seed: int = 0
    out: Path
    table: str = "csv"
    force: bool = False
    strict: bool = False
    resume: bool | None = None  # None: a short fit that keeps no checkpoints
    as_json: bool = False
    quiet: bool = False


def run(request: Request) -> None:
    """The whole of ``sfumato fit`` and ``sfumato consensus``."""
    unnamed = request.model is None
    if request.model is None:
        request = replace(request, model=first_choice())
    check_model(request.model)
    clusters = None if request.clusters is None else parse_clusters(request.clusters, request.model)
    if request.table not in ("csv", "parquet"):
        raise InputError(f"--table must be csv or parquet, got '{request.table}'")
    terminal = Terminal(
        as_json=request.as_json, quiet=request.quiet, to_errors=str(request.out) == "-"
    )
    with _claimed(request) as output:
        with terminal.progress("reading") as advance:
            table = read(request.data, request.roles, advance)
        _check_number(clusters, table)
        if request.roles.labels:
            _refuse_features(table)
        if table.id_column is not None and request.roles.id is None:
            terminal.remark(f"ids are taken from column '{table.id_column}'")
        if unnamed and any(column.categories and column.used for column in table.fields or ()):
            request = replace(request, model=first_choice(categories=True))
        if request.clusters is None:  # asks the model, which is loaded only when there are data
            clusters = parse_clusters(None, request.model)
        request = replace(request, clusters="auto" if clusters is None else str(clusters))
        estimator = make(
            request.model,
            clusters,
            seed=request.seed,
            similarity=request.similarity,
            settings=request.settings,
        )
        table = on_one_scale(
            table, request.scale, request.model, estimator, request.similarity, terminal
        )
        fit_and_write(request, estimator, table, terminal, output)


def _claimed(request: Request) -> Any:
    """The folder to write, claimed; nothing for standard output."""
    if str(request.out) == "-":
        return nullcontext()
    if not request.out.name:
        raise InputError(
            f"--out: '{plain(request.out, 200)}' is a folder that is there already: give the name "
            "of a new one"
        )
    check_checkpoint(_beside(request.out), wanted=bool(request.resume or request.force))
    return Output(request.out, check_target, force=request.force)


def _check_number(clusters: int | None, table: Table) -> None:
    n = table.values.shape[0]
    if isinstance(clusters, int) and clusters > n:
        raise InputError(
            f"--clusters {clusters} is more than the {n:,} rows of {table.source}: ask for at most "
            f"{n:,}"
        )


def _refuse_features(table: Table) -> None:
    """Refuse columns of numbers that are not whole: they are features, not labels."""
    for title, names in zip(table.columns, table.label_names or [], strict=False):
        numbers = [number(name) for name in names]
        odd = [
            name
            for name, value in zip(names, numbers, strict=False)
            if value is not None and value != round(value, 0) and value == value
        ]
        if odd and None not in numbers:
            raise InputError(
                f"column '{plain(title, 40)}' of {table.source} holds numbers such as "
                f"{plain(odd[0], 20)}, not labels: "
                "add --features to make clusterings of the features first"
            )


def fit_and_write(
    request: Request, estimator: Estimator, table: Table, terminal: Terminal, output: Output | None
) -> None:
    """Fit the estimator to the table and write the result folder."""
    from .summary import show, summarize, write_report

    evidence, extra = prepare(estimator, table, request.model, request.roles)
    said: list[str] = []
    curve = None
    if request.clusters == "auto":
        from .choosing import automatic

        said, curve = automatic(request.model, estimator, table, terminal)
    if output is not None:
        output.need(
            least_size(
                table.values.shape[0],
                1 if request.clusters == "auto" else int(request.clusters or 1),
            )
        )
    checkpoint = _checkpoint(request, estimator, table, terminal, output)
    began, before = time.monotonic(), _mapped(table)
    said += _fit(estimator, evidence, extra, request, checkpoint, terminal, output)
    if _mapped(table) not in (before, None):
        raise InputError(
            f"{table.source} changed during the fit, which reads it as it goes on: fit again"
        )
    if request.strict and not estimator.converged_:
        if checkpoint is not None:
            checkpoint.remove()
        raise NotConvergedError(
            f"{request.model} did not converge in {estimator.n_iter_} iterations: raise it with "
            "--set max_iter=..."
        )
    with kept_until_written(checkpoint, terminal):
        told = explained_by_one(table, np.asarray(estimator.labels_))
        for text in told:
            terminal.remark(text)
        table = table._replace(notes=(*table.notes, *told))
        result = summarize(request, estimator, table, said, curve, time.monotonic() - began)
        if output is None:
            write_memberships(
                sys.stdout, result.memberships, result.ids, noise=has_noise(result.summary)
            )
        else:
            with output.folder() as folder, terminal.progress("writing") as advance:
                write_result(folder, result, model=estimator, table=request.table, report=advance)
                write_report(folder / "report.html", result)
    show(result, terminal)
    if output is not None:
        terminal.say(f"Report: {request.out / 'report.html'}")
    terminal.record(result.summary)


def _checkpoint(
    request: Request, estimator: Estimator, table: Table, terminal: Terminal, output: Output | None
) -> Checkpoint | None:
    if output is None or request.resume is None:
        return None
    task = _task(request, estimator, table)
    return Checkpoint(
        _beside(request.out),
        task,
        token=output.claim.token,
        warn=lambda text: terminal.remark(f"warning: {text}"),
    )


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.checkpoint")


def _task(request: Request, estimator: Estimator, table: Table) -> str:
    parameters = {key: repr(value) for key, value in sorted(estimator.get_params().items())}
    asked = [request.model, parameters, list(request.roles), request.scale]
    return json.dumps([__version__, *asked, table.digest])


def _fit(
    estimator: Estimator,
    evidence: ArrayLike,
    extra: dict[str, Any],
    request: Request,
    checkpoint: Checkpoint | None,
    terminal: Terminal,
    output: Output | None,
) -> list[str]:
    """Fit with a progress bar, checkpoints and Ctrl-C; the warnings of the model."""
    if checkpoint is not None and request.resume:
        checkpoint.resume()
        terminal.remark(
            f"going on after {checkpoint.resumed} iterations"
            if checkpoint.resumed
            else "nothing to resume: starting afresh"
        )
    resumed = checkpoint is not None and checkpoint.resumed > 0
    with (
        damaged("the checkpoint cannot be gone on from") if resumed else nullcontext(),
        terminal.heard() as said,
        _watched(estimator, request.model, terminal),
        kept(checkpoint, output, terminal),
    ):
        estimator.fit(evidence, **extra)
    return said


def _mapped(table: Table) -> tuple[int, int, int] | None:
    """Size and time of a memory-mapped file, which change if it is written to during the fit; None
    where the file was read at once, or no longer exists.
    """
    if not isinstance(table.values, np.memmap) or table.values.filename is None:
        return None
    try:
        facts = Path(table.values.filename).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextmanager
def _watched(estimator: Estimator, name: str, terminal: Terminal) -> Iterator[None]:
    starts, most = 0, getattr(estimator, "n_init", 1) or 1
    with terminal.progress(f"fitting {name}") as advance:

        def listen(iteration: int, max_iter: int, objective: float) -> None:
            nonlocal starts
            if math.isnan(objective):  # an ensemble counts its members and has no objective
                advance(iteration / max_iter, f"member {iteration} of {max_iter}")
                return
            starts += iteration == 1
            share = (min(max(starts, 1), most) - 1 + iteration / max_iter) / most
            advance(
                share, f"start {max(starts, 1)}, iteration {iteration}, objective {objective:.6g}"
            )

        with progress(listen):
            yield


def demonstrate(out: Path, force: bool, seed: int, as_json: bool) -> None:
    """Soft consensus of Fisher's irises, with the species kept aside for comparison."""
    from sklearn.datasets import load_iris

    flowers = load_iris()
    species = [str(flowers.target_names[label]) for label in flowers.target]
    ids = [f"{name} {place + 1}" for place, name in enumerate(species)]
    table = Table(
        flowers.data,
        list(flowers.feature_names),
        ids,
        "flower",
        None,
        species,
        "iris",
        "built in",
        "built in",
    )
    terminal = Terminal(as_json=as_json)
    request = Request(
        data="iris",
        roles=Roles(classes="species"),
        model="consensus",
        clusters="3",
        seed=seed,
        out=out,
        force=force,
        as_json=as_json,
    )
    with _claimed(request) as output:
        terminal.say(
            "Soft consensus of Fisher's irises: 150 flowers, 4 measurements; the species are kept "
            "aside for comparison."
        )
        fit_and_write(request, make("consensus", 3, seed=seed), table, terminal, output)
