"""The summary of a fit: made, written and shown."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, metrics, plot, report
from ..array.labels import encode
from ..array.types import Estimator
from ..io import Result, Table
from ..io.columns import reading
from ..io.results import SCHEMA, has_noise
from ..memberships import sizes
from ..report._page import answer, curve_of_model
from ..selection import verdict
from ..similarity import Factored
from .app import Request, commands
from .evidence import agreement_of_resamples, explained_by_one, with_class
from .main import Terminal, finite

AGREEMENTS: dict[str, Any] = {
    name: getattr(metrics, name.lower().replace(" ", "_"))
    for name in (
        *("adjusted Rand index", "Rand index", "pair precision", "pair recall", "pair F1"),
        *("normalized mutual information", "matched accuracy"),
    )
}


def summarize(
    request: Request,
    estimator: Estimator,
    table: Table,
    said: list[str],
    curve: dict[str, Any] | None,
    seconds: float,
) -> Result:
    """The result of a fit, ready to be written."""
    U = np.asarray(estimator.memberships_)
    levels = estimator.levels_ if request.levels else ()
    agreed = agreement_of_resamples(estimator, table, request.seed)
    judged = verdict(estimator, stability=agreed, automatic=request.clusters == "auto")
    drawn = _pictures(request, estimator, table, U)
    drawn["selection"] = curve or curve_of_model(estimator)
    described = drawn.get("description") or {}
    tree, labels = described.get("tree"), np.asarray(estimator.labels_)
    if one_column := explained_by_one(tree, table.used, labels):
        kind = "note" if judged.kind == "good" else judged.kind
        judged = judged._replace(kind=kind, text=f"{judged.text} {one_column}.")
    parameters = {
        key: value if isinstance(value, str | int | float | None) else repr(value)
        for key, value in estimator.get_params(deep=False).items()
    }
    measured = measures(U, table.classes)
    if (errors := getattr(estimator, "uncertainty_", None)) is not None:
        measured["mean standard error of a membership"] = float(np.mean(errors))
    test = getattr(estimator, "structure_", None)
    libraries = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    summary = {
        "schema": SCHEMA,
        "model": request.model,
        "estimator": commands()[request.model],
        "n_objects": U.shape[0],
        "n_clusters": U.shape[1] - has_noise({"parameters": parameters}),
        "clusters_asked_for": request.clusters,
        "sizes": [float(size) for size in sizes(U)],
        "certainty": float(U.max(axis=1).mean()),
        "converged": bool(estimator.converged_),
        "n_iter": int(estimator.n_iter_),
        "objective": float(estimator.objective_),
        "metrics": measured,
        "structure": None
        if test is None
        else {
            "p_value": test.p_value,
            "groups_apart": test.n_apart,
            "supported": bool(test.supported),
        },
        "levels": [
            {
                "n_clusters": level.n_clusters,
                "score": finite(float(level.score)),
                "worth_a_look": bool(level.shown),
            }
            for level in levels
        ],
        "stability": agreed,
        "verdict": judged._asdict(),
        "warnings": said,
        "seed": request.seed,
        "parameters": parameters,
        "input": {  # what was read and how, so that new objects are read in the same way
            "name": table.source,
            "kind": table.kind,
            "sha256": table.digest,
            "columns": table.columns,
            "id_column": table.id_column,
            "weight_column": request.weight_column,
            "missing": list(request.roles.missing),
            "class_column": request.class_column,
            "labels": table.label_names,
            "fields": None if table.fields is None else reading(table.fields),
            "notes": list(table.notes),
        },
        "versions": {"sfumato": __version__, "python": platform.python_version(), **libraries},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
    }
    if described:
        summary |= {name: described[name] for name in ("tree", "missing")}
        summary["clusters"] = [  # in words and numbers
            {part: cluster[part] for part in ("sentence", "columns")}
            | {"typical": [str(table.names[row["object"]]) for row in cluster["typical"]]}
            for cluster in described["clusters"]
        ]
    at = [np.asarray(estimator.at(level.n_clusters)).argmax(axis=1) for level in levels]
    return Result(U, table.names, summary, drawn, np.column_stack(at) if at else None)


def measures(U: np.ndarray, classes: Sequence[str] | None) -> dict[str, float]:
    """Measures of the memberships, and of their agreement with known classes, if given."""
    found = {
        "partition coefficient": metrics.partition_coefficient(U),
        "partition entropy": metrics.partition_entropy(U),
    }
    seen = None if classes is None else with_class(classes)
    if seen is not None and seen.any():
        known, U = encode(np.asarray(classes)[seen]), U[seen]
        shown = ("adjusted Rand index", "normalized mutual information", "matched accuracy")
        found |= {name: AGREEMENTS[name](known, U.argmax(axis=1)) for name in shown} | {
            "Brier score": metrics.brier_score(known, U)
        }
    return {name: float(value) for name, value in found.items()}  # type: ignore[arg-type]


def agreement(reference: np.ndarray, clustering: np.ndarray) -> dict[str, float]:
    """Agreement of the labels, and ("soft") of memberships where a side has them."""
    sides = reference, clustering
    labels = [side if side.ndim == 1 else side.argmax(axis=1) for side in sides]
    found = {name: function(*labels) for name, function in AGREEMENTS.items()}
    if max(side.ndim for side in sides) > 1:
        found |= {f"soft {name}": function(*sides) for name, function in AGREEMENTS.items()}
    return found | {"Brier score": metrics.brier_score(*sides)}


def _pictures(
    request: Request, estimator: Estimator, table: Table, U: np.ndarray
) -> dict[str, Any]:
    """What the report needs besides memberships; small for any number of objects."""
    history = np.asarray(estimator.history_, dtype=float)
    noise = getattr(estimator, "noise_cluster", None) is not None
    model = estimator if request.levels else None  # finer levels take another fit
    finest, levels = report.levels_of(model, U, noise, estimator._coarser())
    held: dict[str, Any] = {
        "history": history.tolist() if history.ndim == 1 and np.isfinite(history).all() else None,
        "levels": [level._replace(score=finite(float(level.score))) for level in levels],
        "finest": None if finest is U else np.asarray(finest).round(6).tolist(),
    }
    if not request.is_matrix and not request.labels:
        shown, coordinates, axes = report.plane(table.values, columns=table.columns)
        values = table.values if table.original is None else table.original
        held |= {
            "shown": shown.tolist(),
            "coordinates": coordinates.round(6).tolist(),
            "axes": axes,
            "description": report.describe(  # in the original columns of the file
                values if table.fields is None else table.used,
                U,
                columns=table.columns,
                shown=shown,
                noise_cluster=noise,
                levels=(finest, levels),
            ),
        }
    evidence, some = _similarity(request, estimator, table)
    if evidence is not None:
        means = plot.block_means(evidence, U[some], blocks=100)
        held["similarity"] = np.nan_to_num(means).round(5).tolist()
        held["scale"] = float(getattr(estimator, "scale_", 1.0))
    if table.classes is not None:
        named = np.where(with_class(table.classes), np.asarray(table.classes), "no class")
        kinds, codes = np.unique(named, return_inverse=True)
        held |= {"class_names": kinds.tolist(), "class_codes": codes.tolist()}
        held["class_title"] = request.class_column
    return held


def _similarity(request: Request, estimator: Estimator, table: Table) -> tuple[Any, Any]:
    """The similarity that the model used, if any, and its objects."""
    if request.similarity == "distance":
        return None, None  # a picture of distances would show the opposite
    if request.similarity == "precomputed":
        return table.values, slice(None)
    if hasattr(estimator, "coassociation_"):
        return estimator.coassociation_, slice(None)
    if not hasattr(estimator, "ensemble_"):
        return None, None
    rng = np.random.default_rng(request.seed)
    some = np.sort(rng.permutation(table.values.shape[0])[:2000])
    H = estimator._shares(table.values[some])
    return Factored(H, H), some


def write_report(path: Path, result: Result, title: str | None = None) -> None:
    """The HTML report of a result."""
    summary, held = result.summary, result.pictures
    classes = [held["class_names"][code] for code in held.get("class_codes") or ()] or None
    made = {
        "model": f"{summary['model']} ({summary['estimator']})",
        "data": f"{summary['input']['name']}, {summary['n_objects']:,} objects, "
        f"{len(summary['input']['columns']):,} columns",
        "SHA-256 of the data": summary["input"]["sha256"],
        "clusters asked for": summary["clusters_asked_for"],
        "seed": summary["seed"],
        **{
            f"parameter {key}": value
            for key, value in summary["parameters"].items()
            if key != "random_state" and value is not None
        },
        "objective": f"{summary['objective']:.6g}",
        "time": f"{summary['seconds']:.1f} s, {summary['created']}",
        "versions": ", ".join(f"{name} {number}" for name, number in summary["versions"].items()),
    }
    drawn = {name: held[name] for name in report.Facts._fields if held.get(name) is not None}
    facts = report.Facts(
        noise_cluster=has_noise(summary),
        converged=summary["converged"],
        verdict=summary.get("verdict"),
        warnings=summary["warnings"],
        notes=summary["input"].get("notes") or (),
        metrics=summary["metrics"],
        made=made,
    )._replace(**drawn)
    title = title or f"Soft clustering of {summary['input']['name']}"
    report.write(
        path, result.memberships, title=title, names=result.ids, classes=classes, facts=facts
    )


def show(result: Result, terminal: Terminal) -> None:
    """Print the answer as a table."""
    U, summary = result.memberships, result.summary
    k, noise = U.shape[1], has_noise(summary)
    names = [*map(str, range(k - noise)), *["noise"] * noise]
    found = answer(U, result.ids, names, noise)
    rows = [
        [c["name"], c["count"], f"{c['size']:,.1f}", c["certainty"], ", ".join(typical)]
        for c in found["clusters"]
        for typical in [map(str, c["typical"])]
    ]
    what = f"{found['k']} cluster{'' if found['k'] == 1 else 's'}{' and noise' if noise else ''}"
    title = f"{summary['n_objects']:,} objects in {what} ({summary['model']})"
    terminal.table(title, ["cluster", "objects", "soft size", "certainty", "most typical"], rows)
    terminal.say(f"Verdict: {summary['verdict']['text']}")
    if k == 1:
        return
    for row, cluster in zip(rows, summary.get("clusters") or [], strict=False):
        terminal.say(f"{'' if row[0] == 'noise' else 'cluster '}{row[0]}: {cluster['sentence']}.")
    if tree := summary.get("tree"):
        right = f"{tree['accuracy']:.0%}"
        terminal.say(f"A few rules in the report determine the cluster of {right} of the objects.")
    _show_levels(summary, terminal)
    certainty = f"Mean certainty {summary['certainty']:.3f}"
    terminal.say(f"{certainty}; objects between two clusters: {found['shared']:,}.")
    known = {name: value for name, value in summary["metrics"].items() if name in AGREEMENTS}
    if known:
        measured = ", ".join(f"{name} {value:.3f}" for name, value in known.items())
        terminal.say(f"Against the known classes: {measured}.")
    if not summary["converged"]:
        terminal.say(f"The search did not converge in {summary['n_iter']} iterations.")


def _show_levels(summary: dict[str, Any], terminal: Terminal) -> None:
    levels = summary.get("levels")
    if not levels:
        return
    own = len(summary["sizes"])
    rows = [
        [level["n_clusters"], level["score"], "the answer" * (level["n_clusters"] == own)]
        for level in levels
        if level["worth_a_look"] or level["n_clusters"] == own
    ]
    terminal.table("Levels worth a look, coarse to fine", ["clusters", "score", ""], rows)
    terminal.say(
        f"levels.csv has the cluster of every object at 1 to {levels[-1]['n_clusters']} clusters; "
        "sfumato predict --clusters gives memberships."
    )
