"""Sentences and figures of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..memberships import margin, sizes
from ..plot import palette
from ._facts import Facts

SURE, SHARED = 0.9, 0.2  # largest membership of a sure object, margin of a shared one


class Finding(NamedTuple):
    """One statement on trust: whether it is good, worth knowing or a caution."""

    kind: str
    text: str


def answer(
    U: np.ndarray, names: Sequence[Any], labels: Sequence[str], noise: bool = False
) -> dict[str, Any]:
    """Headline figures, and a row for every cluster, ``noise`` in the last."""
    n, k = U.shape
    largest, own = U.max(axis=1), U.argmax(axis=1)
    counts, soft = np.bincount(own, minlength=k), sizes(U)
    rows = [
        {
            "name": labels[cluster],
            "colour": _colour(cluster, k),
            "count": int(counts[cluster]),
            "size": float(soft[cluster]),
            "share": float(soft[cluster] / n),
            "certainty": float(largest[own == cluster].mean()) if counts[cluster] else None,
            "typical": [names[i] for i in _first(-U[:, cluster], 3) if own[i] == cluster],
        }
        for cluster in range(k)
    ]
    return {
        "n": n,
        "k": k - noise,
        "noise": noise,
        "certainty": float(largest.mean()),
        "sure": float((largest >= SURE).mean()),
        "shared": int((margin(U) < SHARED).sum()) if k > 1 else 0,
        "clusters": rows,
    }


def _colour(cluster: int, k: int) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in palette(k)[cluster])


def _first(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of the smallest values, in order, the earlier of equals first."""
    return np.argsort(values, kind="stable")[:count]


def doubtful(
    U: np.ndarray, names: Sequence[Any], labels: Sequence[str], count: int = 12
) -> list[dict[str, Any]]:
    """The objects whose best two clusters are nearest to a tie, the nearest first."""
    k = U.shape[1]
    if k == 1:
        return []
    rows = []
    for i in _first(margin(U), count):
        if margin(U[i : i + 1])[0] >= 0.95:
            break
        best = [int(c) for c in np.argsort(-U[i], kind="stable")[:3] if U[i, c] >= 0.005]
        parts = [
            {"name": labels[c], "colour": _colour(c, k), "value": float(U[i, c])} for c in best
        ]
        rows.append({"name": names[i], "parts": parts})
    return rows


def trust(U: np.ndarray, facts: Facts) -> list[Finding]:
    """What the answer rests on, after the verdict."""
    found = [Finding("caution", text) for text in facts.warnings]
    found += _number(facts.selection, U.shape[1])
    found += _against_classes(U, facts.metrics or {})
    if facts.converged is False:
        text = "The search stopped before it converged: the memberships may still move. Allow more "
        found.append(Finding("caution", f"{text}iterations."))
    said = [Finding("note", f"{text[:1].upper()}{text[1:]}.") for text in facts.notes]
    return found + _sureness(U) + _sizes(U) + said


def _number(selection: Mapping[str, Any] | None, k: int) -> list[Finding]:
    """The number of clusters, and how near the next best came."""
    if selection is None or len(selection["scores"]) < 2:
        return []
    scores = dict(zip(selection["n_clusters"], selection["scores"], strict=True))
    chosen = selection.get("chosen") or k
    order = sorted(scores, key=lambda number: -scores[number])
    others = ", ".join(f"{number} ({scores[number]:.4g})" for number in order if number != chosen)
    others = ", ".join(others.split(", ")[:2])
    best = f"{chosen} cluster{'' if chosen == 1 else 's'}" + (
        f" ({scores[chosen]:.4g})" if chosen in scores else ""
    )
    name = selection.get("name") or "score"
    return [
        Finding(
            "note",
            f"The number of clusters was chosen by {name}, higher being better: "
            f"{best}; the runners-up are {others}.",
        )
    ]


def _against_classes(U: np.ndarray, metrics: Mapping[str, Any]) -> list[Finding]:
    """Calibration of the memberships, where classes are known."""
    accuracy = metrics.get("matched accuracy")
    if accuracy is None or U.shape[1] < 2:
        return []
    stated = float(U.max(axis=1).mean())
    gap = stated - float(accuracy)
    text = (
        f"Against the known classes {float(accuracy):.0%} of the objects are right, where the mean "
        f"certainty is {stated:.0%}: "
    )
    if abs(gap) <= 0.05:
        return [Finding("good", text + "memberships are nearly calibrated.")]
    more = "overconfident" if gap > 0 else "less confident than it could be"
    return [Finding("caution" if gap > 0 else "note", text + f"the model is {more}.")]


def _sureness(U: np.ndarray) -> list[Finding]:
    n, k = U.shape
    if k == 1:
        return []
    largest = U.max(axis=1)
    sure, shared = float((largest >= SURE).mean()), float((margin(U) < SHARED).mean())
    found = [
        Finding(
            "note",
            f"{sure:.0%} of the objects have a membership of {SURE:g} or more in one cluster; "
            f"{shared:.0%} are shared, with their best two clusters less than {SHARED:g} apart.",
        )
    ]
    # 0 for equal memberships, 1 for certain ones, whatever the number of clusters.
    if (largest.mean() * k - 1) / (k - 1) < 0.25:
        found.append(
            Finding(
                "caution",
                f"Memberships are uncertain: the evidence hardly separates {k} clusters. Try "
                "fewer, or another model.",
            )
        )
    if n > 1 and (largest > 0.999).mean() > 0.98:
        text = (
            "Almost every membership is 0 or 1. Far-apart clusters look like this, and so does an "
            "overconfident model."
        )
        found.append(Finding("note", text + " A second model, or a consensus, is a cheap check."))
    return found


def _sizes(U: np.ndarray) -> list[Finding]:
    n, k = U.shape
    counts = np.bincount(U.argmax(axis=1), minlength=k)
    empty = int((counts == 0).sum())
    small = int(((counts > 0) & (counts < max(3, 0.005 * n))).sum())
    found = []
    if empty:
        text = f"{empty} of the {k} clusters are the label of no object: fewer clusters may be "
        found.append(Finding("caution", f"{text}enough."))
    if small and k > 1:
        text = f"{small} of the {k} clusters are very small: they may hold outliers rather than a "
        found.append(Finding("caution", f"{text}group."))
    return found
