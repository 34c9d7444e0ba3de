"""choose, and --clusters auto: how many clusters."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..array.types import Estimator
from ..io import InputError, Table, read
from ..io.output import Output, check_file
from ..report._facts import curve_of_choice
from ..selection import verdict
from .evidence import agreement_of_resamples, on_one_scale, prepare
from .models import check_model, first_choice, make
from .options import Request
from .terminal import Terminal, finite


def automatic(
    model: str, estimator: Estimator, table: Table, terminal: Terminal
) -> tuple[list[str], dict[str, Any] | None]:
    """Set the estimator to the number of clusters the data support; warnings and the curve."""
    if estimator.chooses_n_clusters == "auto":  # the fit itself searches
        estimator.set_params(n_clusters="auto")
    if estimator.chooses_n_clusters in ("auto", "always"):
        return [], None
    choice, said = _search(estimator, table, model, None, "auto", terminal)
    estimator.set_params(n_clusters=choice.n_clusters)
    return said, curve_of_choice(choice)


def _search(
    estimator: Estimator,
    table: Table,
    model: str,
    candidates: range | None,
    criterion: str,
    terminal: Terminal,
) -> tuple[Any, list[str]]:
    from ..selection import choose_n_clusters

    if estimator.needs_classes:
        raise InputError(
            f"give the number of clusters of the {model} model with --clusters: "
            "it follows from the use of the clusters, not from the data"
        )
    with terminal.heard() as said, terminal.progress("trying numbers of clusters") as advance:
        choice = choose_n_clusters(
            estimator,
            table.loaded,
            candidates,
            criterion=criterion,
            sample_weight=table.weights,
            random_state=0,  # as "auto" has it: the seed is that of the fits
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
    """A table of scores, one for each number of clusters, and the curve as a picture."""
    asked = replace(asked, labels=labelings)
    candidates = None if highest is None and lowest == 1 else range(lowest, (highest or 20) + 1)
    if asked.model is not None:
        check_model(asked.model)
    if candidates is not None and not candidates:
        raise InputError("--from must not be more than --to")
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot writes PNG, SVG or PDF files, got '{plot.name}'")
    terminal = Terminal(as_json=asked.as_json, quiet=asked.quiet)
    check = check_file("--plot")
    claim = (
        nullcontext() if plot is None else Output(plot, check, force=asked.force, option="--plot")
    )
    with claim as output:
        choice, agreed = _chosen(asked, candidates, criterion, terminal)
        _show(choice, agreed, terminal)
        if plot is not None and output is not None:
            with output.file() as partial:
                _draw(partial, plot.suffix[1:].lower(), choice)


def _chosen(
    asked: Request, candidates: range | None, criterion: str, terminal: Terminal
) -> tuple[Any, float | None]:
    with terminal.progress("reading") as advance:
        table = read(asked.data, asked.roles, advance)
    asked = replace(asked, model=asked.model or first_choice(table))
    estimator = make(asked.model, None, **asked.told)
    table = on_one_scale(table, asked, estimator, terminal)
    prepare(estimator, table, asked.model, asked.labels)
    choice, _ = _search(estimator, table, asked.model, candidates, criterion, terminal)
    with terminal.progress("comparing with resamples"):
        return choice, agreement_of_resamples(choice.estimator, table, asked.seed)


def _show(choice: Any, agreed: float | None, terminal: Terminal) -> None:
    rows = []
    for row in choice.table:
        mark = "chosen" if row.n_clusters == choice.n_clusters else ""
        rows.append(
            [row.n_clusters, finite(row.score), *_sureness(row, choice), row.failure or mark]
        )
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


def _sureness(row: Any, choice: Any) -> list[float | None]:
    """Standard error and probability, where the scores vary and decide."""
    error = row.standard_error if row.standard_error > 0 else None
    known = choice.n_clusters == choice.preferred and (
        choice.criterion == "posterior" or any(each.standard_error > 0 for each in choice.table)
    )
    return [error, row.probability if known else None]


def _draw(path: Path, form: str, choice: Any) -> None:
    from matplotlib.figure import Figure

    from .. import plot

    figure = Figure(layout="constrained")
    plot.selection(choice, ax=figure.subplots())
    figure.savefig(path, format=form)
