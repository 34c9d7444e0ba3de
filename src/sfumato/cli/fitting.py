"""fit, consensus and demo: read, fit, write, show."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from .._loop import checkpoints, progress
from .._names import plain
from ..io import InputError, Roles, Table, read
from ..io.checkpoint import Checkpoint
from ..io.results import check_target, has_noise, new_folder, write_memberships, write_result
from ..io.sniffing import number
from .evidence import prepare
from .main import NotConvergedError, StoppedError
from .models import check_model, make, parse_clusters
from .terminal import Terminal

__all__ = ["Request", "demonstrate", "run"]


class Request(NamedTuple):
    """What was asked for."""

    data: str
    roles: Roles
    model: str
    clusters: str | None
    seed: int
    similarity: str | None
    settings: tuple[str, ...]
    out: Path
    table: str
    force: bool
    strict: bool
    resume: bool
    as_json: bool
    quiet: bool


def run(request: Request) -> None:
    """The whole of ``sfumato fit`` and ``sfumato consensus``."""
    check_model(request.model)
    clusters = parse_clusters(request.clusters, request.model)
    request = request._replace(clusters="auto" if clusters is None else str(clusters))
    if request.table not in ("csv", "parquet"):
        raise InputError(f"--table must be csv or parquet, got '{request.table}'")
    if str(request.out) != "-":
        check_target(request.out, request.force)
    terminal = Terminal(as_json=request.as_json, quiet=request.quiet, to_errors=str(request.out) == "-")
    with terminal.progress("reading") as advance:
        table = read(request.data, request.roles, advance)
    if request.roles.labels:
        _refuse_features(table)
    if table.id_column is not None and request.roles.id is None:
        terminal.remark(f"ids are taken from column '{table.id_column}'")
    estimator = make(request.model, clusters, seed=request.seed, similarity=request.similarity, settings=request.settings)
    fit_and_write(request, estimator, table, terminal)


def _refuse_features(table: Table) -> None:
    """Labels may be called anything; a column of numbers that are not whole is none."""
    for title, names in zip(table.columns, table.label_names or []):
        numbers = [number(name) for name in names]
        odd = [name for name, value in zip(names, numbers) if value is not None and value != round(value, 0) and value == value]
        if odd and None not in numbers:
            raise InputError(
                f"column '{plain(title, 40)}' of {table.source} holds numbers such as {plain(odd[0], 20)}, not labels: "
                "add --features to make clusterings of the features first"
            )


def fit_and_write(request: Request, estimator: Any, table: Table, terminal: Terminal) -> None:
    """Fit the estimator to the table and write the result folder."""
    from .summary import show, summarize, write_report

    evidence, extra = prepare(estimator, table, request.model, request.roles)
    said: list[str] = []
    curve = None
    if request.clusters == "auto":
        from .choosing import automatic

        said, curve = automatic(request.model, estimator, table, request.seed, terminal)
    checkpoint = None if str(request.out) == "-" else Checkpoint(_beside(request.out), _task(request, estimator, table))
    began = time.monotonic()
    said += _fit(estimator, evidence, extra, request, checkpoint, terminal)
    if request.strict and not estimator.converged_:
        raise NotConvergedError(f"{request.model} did not converge in {estimator.n_iter_} iterations: raise it with --set max_iter=...")
    result = summarize(request, estimator, table, said, curve, time.monotonic() - began)
    if checkpoint is None:
        write_memberships(sys.stdout, result.memberships, result.ids, noise=has_noise(result.summary))
    else:
        with new_folder(request.out) as folder, terminal.progress("writing") as advance:
            write_result(folder, result, model=estimator, table=request.table, report=advance)
            write_report(folder / "report.html", result)
        checkpoint.remove()
    show(result, terminal)
    if checkpoint is not None:
        terminal.say(f"Report: {request.out / 'report.html'}")
    terminal.record(result.summary)


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.checkpoint")


def _task(request: Request, estimator: Any, table: Table) -> str:
    parameters = {key: repr(value) for key, value in sorted(estimator.get_params().items())}
    return json.dumps([__version__, request.model, parameters, list(request.roles), table.digest])


def _fit(
    estimator: Any, evidence: Any, extra: dict[str, Any], request: Request, checkpoint: Checkpoint | None, terminal: Terminal
) -> list[str]:
    """Fit, with a progress bar, checkpoints and Ctrl-C; gives what the model had to say."""
    if checkpoint is not None and request.resume:
        checkpoint.resume()
        terminal.remark(f"going on after {checkpoint.resumed} iterations" if checkpoint.resumed else "nothing to resume: starting afresh")
    with terminal.heard() as said, _watched(estimator, request.model, terminal), _kept(checkpoint):
        estimator.fit(evidence, **extra)
    return said


@contextmanager
def _watched(estimator: Any, name: str, terminal: Terminal) -> Iterator[None]:
    starts, most = 0, getattr(estimator, "n_init", 1) or 1
    with terminal.progress(f"fitting {name}") as advance:

        def listen(iteration: int, max_iter: int, objective: float) -> None:
            nonlocal starts
            starts += iteration == 1
            share = (min(max(starts, 1), most) - 1 + iteration / max_iter) / most
            advance(share, f"start {max(starts, 1)}, iteration {iteration}, objective {objective:.6g}")

        with progress(listen):
            yield


@contextmanager
def _kept(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Checkpoints while fitting. A stopped fit keeps its file; a failed one does not."""
    if checkpoint is None:
        yield
        return
    try:
        with checkpoints(checkpoint):
            yield
    except KeyboardInterrupt as stop:
        checkpoint.write()
        raise StoppedError("stopped: the same command with --resume goes on from here") from stop
    except Exception:
        checkpoint.remove()
        raise


def demonstrate(out: Path, force: bool, seed: int, as_json: bool) -> None:
    """Soft consensus of Fisher's irises, with the species kept aside for comparison."""
    from sklearn.datasets import load_iris

    flowers = load_iris()
    species = [str(flowers.target_names[label]) for label in flowers.target]
    ids = [f"{name} {place + 1}" for place, name in enumerate(species)]
    table = Table(flowers.data, list(flowers.feature_names), ids, "flower", None, species, "iris", "built in", "built in")
    check_target(out, force)
    terminal = Terminal(as_json=as_json)
    terminal.say("Soft consensus of Fisher's irises: 150 flowers, 4 measurements; the species are kept aside for comparison.")
    request = Request("iris", Roles(classes="species"), "consensus", "3", seed, None, (), out, "csv", force, False, False, as_json, False)
    fit_and_write(request, make("consensus", 3, seed=seed), table, terminal)
