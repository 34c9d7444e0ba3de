"""The commands fit, consensus, demo and choose: read, fit, write, show.

Checkpoints are kept until the result is on the disk, even if the fit fails.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import __version__
from ..array.text import plain
from ..array.types import Estimator
from ..engine.loop import checkpoints, progress
from ..io import InputError, Table, read
from ..io.columns import number
from ..io.output import Output, check_file
from ..io.reading import version
from ..io.results import (
    Checkpoint,
    check_checkpoint,
    check_target,
    has_noise,
    write_memberships,
    write_result,
)
from .app import Request, check_model, first_choice, make, parse_clusters
from .evidence import agreement_of_resamples, on_one_scale, prepare
from .main import NotConvergedError, StoppedError, Terminal, damaged, finite, rescued

# Models of categories or counts, which are no codes among measurements.
_OF_CODES = ("mixed-mixture", "dirichlet-process", "information-bottleneck")


def consensus(asked: Request, data: str, features: bool) -> None:
    """Combine the labelings in a file, or labelings made from its features."""
    fit(replace(asked, data=data, model="consensus", labels=not features))


def fit(asked: Request) -> None:
    """Fit a model to a file, and write the result."""
    request = asked
    if request.model is not None:
        check_model(request.model)
    clusters = None
    if request.clusters is not None:
        clusters = parse_clusters(request.clusters, request.model or "consensus")
    if request.table not in ("csv", "parquet"):
        raise InputError(f"--table must be csv or parquet, got '{request.table}'")
    to_errors = str(request.out) == "-"
    terminal = Terminal(as_json=request.as_json, quiet=request.quiet, to_errors=to_errors)
    with _claimed(request) as output:
        request, table = _read(request, terminal)
        _check(table, clusters)
        if table.id_column is not None and request.id_column is None:
            terminal.remark(f"ids are taken from column '{table.id_column}'")
        if request.clusters is None:  # needs the model class, imported only now
            clusters = parse_clusters(None, request.model)
        request = replace(request, clusters="auto" if clusters is None else str(clusters))
        estimator = make(request.model, clusters, **request.model_settings)
        table = on_one_scale(table, request, estimator, terminal)
        fit_and_write(request, estimator, table, terminal, output)


def _read(request: Request, terminal: Terminal) -> tuple[Request, Table]:
    """The request with a model, and its table. Models that take no notice of units cannot give a
    category little weight: a single one makes groups that lie further apart than any measurements
    do. So categories among numbers are left out.
    """
    with terminal.progress("reading") as advance:
        table = read(request.data, request.roles, advance)
        model, drop = request.model or first_choice(table), []
        unweighted = make(model, None, **request.model_settings).unit_free
        if unweighted and model not in _OF_CODES and request.columns is None:
            drop = [column.name for column in table.used if column.coded]
        drop = drop if len(drop) < len(table.used) else []
        if drop:
            request = replace(request, drop=[*(request.drop or []), *drop])
            table = read(request.data, request.roles, advance)
    if drop:
        named = ", ".join(f"'{plain(name, 30)}'" for name in drop[:6])
        more = f" and {len(drop) - 6} more" if len(drop) > 6 else ""
        text = (
            f"left out, as codes among measurements: {named}{more}; --class-column compares the "
            "clusters with one, --columns uses them as numbers, and --model mixed-mixture as codes"
        )
        table = table._replace(notes=(*table.notes, text))
    for note in table.notes:
        terminal.remark(note)
    return replace(request, model=model), table


def _claimed(request: Request) -> Any:
    """The claimed output folder; an empty context for standard output."""
    if str(request.out) == "-":
        return nullcontext()
    if not request.out.name:
        raise InputError(f"--out: '{plain(request.out, 200)}' already exists: name a new folder")
    check_checkpoint(_checkpoint_of(request.out), wanted=request.resume or request.force)
    return Output(request.out, check_target, force=request.force)


def _check(table: Table, clusters: int | None) -> None:
    """Refuse more clusters than rows, and labels that are not whole numbers."""
    n = table.values.shape[0]
    if clusters is not None and clusters > n:
        raise InputError(f"--clusters {clusters} is more than the {n:,} rows of {table.source}")
    for title, names in zip(table.columns, table.label_names or [], strict=False):
        numbers = {name: number(name) for name in names}
        odd = [name for name, value in numbers.items() if value is not None and value % 1 > 0]
        if odd and None not in numbers.values():
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

    evidence, extra = prepare(estimator, table, request.model, request.labels)
    said: list[str] = []
    curve = checkpoint = None
    if request.clusters == "auto":
        said, curve = automatic(estimator, table, terminal)
    if output is not None:
        asked = 1 if request.clusters == "auto" else int(request.clusters or 1)
        output.need(8 * table.values.shape[0] * (asked + 2))  # at least eight bytes per number
        if request.checkpoints:
            checkpoint = _checkpoint(request, estimator, table, terminal, output)
    resumed = checkpoint is not None and checkpoint.resumed > 0
    began, before = time.monotonic(), _mapped(table)
    with (
        damaged("the checkpoint cannot be used") if resumed else nullcontext(),
        terminal.heard() as heard,
        _watched(estimator, request.model, terminal),
        _kept(checkpoint, output, terminal),
        nullcontext() if checkpoint is None else checkpoints(checkpoint),
    ):
        estimator.fit(evidence, **extra)
    said += heard
    if _mapped(table) not in (before, None):
        raise InputError(f"{table.source} changed while the fit was reading it: fit again")
    if request.strict and not estimator.converged_:
        if checkpoint is not None:
            checkpoint.remove()
        raise NotConvergedError(
            f"{request.model} did not converge in {estimator.n_iter_} iterations: raise it with "
            "--set max_iter=..."
        )
    with _kept(checkpoint, output, terminal, writing=True):
        with terminal.progress("comparing with resamples"):
            result = summarize(request, estimator, table, said, curve, time.monotonic() - began)
        if output is None:
            noise = has_noise(result.summary)
            write_memberships(sys.stdout, result.memberships, result.ids, noise)
        else:
            with output.folder() as folder, terminal.progress("writing") as advance:
                write_result(folder, result, model=estimator, table=request.table, report=advance)
                write_report(folder / "report.html", result)
    show(result, terminal)
    if output is not None:
        terminal.say(f"Report: {request.out / 'report.html'}")
    terminal.record(result.summary)


def _checkpoint(
    request: Request, estimator: Estimator, table: Table, terminal: Terminal, output: Output
) -> Checkpoint:
    """Where the fit is kept, and where it goes on from."""
    parameters = {key: repr(value) for key, value in sorted(estimator.get_params().items())}
    asked = [request.model, parameters, list(request.roles), request.scale]
    checkpoint = Checkpoint(
        _checkpoint_of(request.out),
        json.dumps([__version__, *asked, table.digest]),
        token=output.token,
        warn=lambda text: terminal.remark(f"warning: {text}"),
    )
    if request.resume:
        checkpoint.resume()
        done = f"continuing after {checkpoint.resumed} iterations"
        terminal.remark(done if checkpoint.resumed else "nothing to resume: starting afresh")
    return checkpoint


def _checkpoint_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.checkpoint")


def _mapped(table: Table) -> tuple[int, int, int] | None:
    """Version of a memory-mapped file, to detect changes during the fit; None for other data."""
    with suppress(AttributeError, TypeError, OSError):
        return version(Path(table.values.filename))
    return None


@contextmanager
def _watched(estimator: Estimator, name: str, terminal: Terminal) -> Iterator[None]:
    starts, most = 0, getattr(estimator, "n_init", 1) or 1
    with terminal.progress(f"fitting {name}") as advance:

        def listen(iteration: int, max_iter: int, objective: float) -> None:
            nonlocal starts
            if math.isnan(objective):  # ensembles report their members and have no objective
                advance(iteration / max_iter, f"member {iteration} of {max_iter}")
                return
            starts += iteration == 1
            start = max(starts, 1)
            share = (min(start, most) - 1 + iteration / max_iter) / most
            advance(share, f"start {start}, iteration {iteration}, objective {objective:.6g}")

        with progress(listen):
            yield


@contextmanager
def _kept(
    checkpoint: Checkpoint | None, output: Any, terminal: Terminal, *, writing: bool = False
) -> Iterator[None]:
    """Keep the checkpoint of a fit that is stopped, or runs out of memory or disk space.

    While the result is written, every failure keeps it, so that the fit can be resumed at its end.
    """
    if checkpoint is None:
        yield
        return

    def rescue() -> str:
        said = str(_stopped(checkpoint))
        output.release()
        return said

    try:
        with rescued(rescue):
            yield
    except KeyboardInterrupt as stop:
        raise _stopped(checkpoint) from stop
    except Exception as error:
        if writing and isinstance(error, InputError):  # the result was written under another name
            checkpoint.remove()
        elif (writing or isinstance(error, (MemoryError, OSError))) and (
            checkpoint.reached and (checkpoint.write() or checkpoint.mine)
        ):
            terminal.remark("the fit is kept: the same command with --resume goes on from there")
        raise
    if writing:
        checkpoint.remove()


def _stopped(checkpoint: Checkpoint) -> StoppedError:
    """Message after Ctrl-C, which says whether the fit can be resumed."""
    if not checkpoint.reached:
        return StoppedError("stopped")
    where = "here" if checkpoint.write() else "the last good checkpoint"
    if not checkpoint.mine:
        return StoppedError("stopped; there is no checkpoint")
    return StoppedError(f"stopped: the same command with --resume goes on from {where}")


def demo(out: Path, force: bool, seed: int, as_json: bool) -> None:
    """Soft consensus of Fisher's irises, with the species kept aside for comparison."""
    from sklearn.datasets import load_iris

    flowers = load_iris()
    species = [str(flowers.target_names[label]) for label in flowers.target]
    ids = [f"{name} {place + 1}" for place, name in enumerate(species)]
    named = list(flowers.feature_names), ids, "flower", None, species
    table = Table(flowers.data, *named, "iris", "built in", "built in")
    terminal = Terminal(as_json=as_json)
    asked = Request(data="iris", class_column="species", model="consensus", clusters="3", seed=seed)
    request = replace(asked, out=out, force=force, as_json=as_json, checkpoints=False)
    with _claimed(request) as output:
        terminal.say(
            "Soft consensus of Fisher's irises: 150 flowers, 4 measurements; the species are kept "
            "aside for comparison."
        )
        fit_and_write(request, make("consensus", 3, seed=seed), table, terminal, output)


def automatic(
    estimator: Estimator, table: Table, terminal: Terminal
) -> tuple[list[str], dict[str, Any] | None]:
    """Set the number of clusters of the estimator; returns warnings and the curve of scores."""
    if estimator.chooses_n_clusters == "auto":  # the fit itself searches
        estimator.set_params(n_clusters="auto")
    if estimator.chooses_n_clusters in ("auto", "always"):
        return [], None
    from ..report._page import curve_of_choice

    choice, said = _search(estimator, table, None, "auto", terminal)
    estimator.set_params(n_clusters=choice.n_clusters)
    return said, curve_of_choice(choice)


def _search(
    estimator: Estimator, table: Table, candidates: range | None, criterion: str, terminal: Terminal
) -> tuple[Any, list[str]]:
    if estimator.needs_classes:
        raise InputError(
            "give the number of clusters of this model with --clusters: it depends on how the "
            "clusters will be used, not on the data"
        )
    # late: scikit-learn is imported only once the file is known to be good
    from ..selection import choose_n_clusters

    with terminal.heard() as said, terminal.progress("trying numbers of clusters") as advance:
        choice = choose_n_clusters(
            estimator,
            table.loaded,
            candidates,
            criterion=criterion,
            sample_weight=table.weights,
            random_state=0,  # the same as in "auto"; the seed belongs to the fits
            progress=lambda done, total: advance(done / total, f"{done} of {total}"),
        )
    return choice, said


def choose(
    asked: Request,
    lowest: int,
    highest: int | None,
    criterion: str,
    labelings: bool,
    plot: Path | None,
) -> None:
    """Print a table of scores, one per number of clusters, and draw the curve if asked."""
    asked = replace(asked, labels=labelings)
    candidates = None if highest is None and lowest == 1 else range(lowest, (highest or 20) + 1)
    if asked.model is not None:
        check_model(asked.model)
    if candidates is not None and not candidates:
        raise InputError("--from must not be more than --to")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot writes PNG, SVG or PDF files, got '{plot.name}'")
    terminal = Terminal(as_json=asked.as_json, quiet=asked.quiet)
    to: Any = {"check": check_file("--plot"), "force": asked.force, "option": "--plot"}
    with nullcontext() if plot is None else Output(plot, **to) as output:
        asked, table = _read(asked, terminal)
        estimator = make(asked.model, None, **asked.model_settings)
        table = on_one_scale(table, asked, estimator, terminal)
        prepare(estimator, table, asked.model, asked.labels)
        choice, _ = _search(estimator, table, candidates, criterion, terminal)
        with terminal.progress("comparing with resamples"):
            agreed = agreement_of_resamples(choice.estimator, table, asked.seed)
        _show(choice, agreed, terminal)
        if plot is not None and output is not None:
            with output.file() as partial:
                _draw(partial, plot.suffix[1:].lower(), choice)


def _show(choice: Any, agreed: float | None, terminal: Terminal) -> None:
    """Print the scores, with standard errors and probabilities if they vary and matter."""
    from ..selection import verdict

    varied = any(row.standard_error > 0 for row in choice.table)
    decided = choice.n_clusters == choice.preferred and (varied or choice.criterion == "posterior")
    rows = [
        [
            row.n_clusters,
            finite(row.score),
            row.standard_error if row.standard_error > 0 else None,
            row.probability if decided else None,
            row.failure or "chosen" * (row.n_clusters == choice.n_clusters),
        ]
        for row in choice.table
    ]
    headings = ["clusters", "score", "standard error", "probability", ""]
    terminal.table(f"Score: {choice.score_name} (higher is better)", headings, rows)
    found = verdict(choice.estimator, structure=choice.structure, stability=agreed, automatic=True)
    if choice.n_clusters != choice.preferred:
        terminal.say(f"The score alone would take {choice.preferred}.")
    terminal.say(f"Chosen: {choice.n_clusters}. {found.text}")
    parts = ("n_clusters", "score", "standard_error", "probability")
    scores = [{part: finite(getattr(row, part)) for part in parts} for row in choice.table]
    parts = ("n_clusters", "preferred", "criterion", "supported")
    answer = {part: getattr(choice, part) for part in parts} | {"verdict": found._asdict()}
    p_value = None if choice.structure is None else choice.structure.p_value
    terminal.record({**answer, "p_value": p_value, "table": scores})


def _draw(path: Path, form: str, choice: Any) -> None:
    from matplotlib.figure import Figure

    from .. import plot

    figure = Figure(layout="constrained")
    plot.selection(choice, ax=figure.subplots())
    figure.savefig(path, format=form)
