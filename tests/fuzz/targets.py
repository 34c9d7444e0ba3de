"""What is fuzzed: every estimator of the table of models, the public functions, and the command
line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import sfumato
from sfumato import memberships, metrics, similarity
from sfumato.models import MODELS

from . import evidence
from .judge import FindingError, attempt, valid_memberships

CHEAP = {"n_init": 1, "max_iter": 30, "n_partitions": 6, "n_members": 3, "n_samples": 20}
SETTINGS = {
    "covariance_type": ("full", "tied", "diag", "spherical", "EVE", "auto"),
    "noise": (None, 0.1),
    "fuzzifier": (2.0, 1.3, 4.0),
    "solver": ("coordinate", "baum-eagon", "gradient"),
    "method": ("normalized-cut", "ng-jordan-weiss", "bach-jordan"),
    "diagonal": ("include", "exclude"),
    "inference": ("variational", "gibbs"),
}


def estimator(rng: np.random.Generator) -> str:
    """Fit one estimator to one piece of evidence; predict; check the contract."""
    entry = MODELS[int(rng.integers(len(MODELS)))]
    kind = str(rng.choice(entry.evidence))
    X = getattr(evidence, kind)(rng)
    model = _made(entry.name, kind, rng)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    y = rng.integers(0, 2, n) if "iscriminative" in entry.name else None
    extra = {}
    if "sample_weight" in inspect.signature(model.fit).parameters:
        extra["sample_weight"] = evidence.weights(rng, n)
    told = f"{model} on {kind} of {n} objects, {type(X).__name__}"
    fitted = attempt(lambda: model.fit(X, y, **extra), X, y, *extra.values())
    if fitted is None:
        _unfitted(model)
        return told
    valid_memberships(getattr(model, "memberships_", None), "memberships_")
    if hasattr(model, "labels_"):
        U = model.memberships_
        U = U.toarray() if hasattr(U, "toarray") else np.asarray(U)
        if not np.array_equal(np.asarray(model.labels_), U.argmax(axis=1)):
            raise FindingError("labels_ are not the largest memberships")
    if hasattr(model, "predict_proba") and kind != "similarity":
        valid_memberships(attempt(lambda: model.predict_proba(X), X), "predict_proba")
    attempt(lambda: clone(model))
    return told


def _made(name: str, kind: str, rng: np.random.Generator) -> Any:
    """An estimator with cheap loops and some parameters drawn."""
    cls = getattr(sfumato, name)
    known = inspect.signature(cls).parameters
    chosen: dict[str, Any] = {key: value for key, value in CHEAP.items() if key in known}
    if "n_clusters" in known:
        chosen["n_clusters"] = [1, 2, 3, 8, "auto"][int(rng.integers(5))]
    for key, values in SETTINGS.items():
        if key in known and rng.random() < 0.3:
            chosen[key] = values[int(rng.integers(len(values)))]
    if kind == "similarity":
        chosen["similarity"] = "precomputed"
    if kind == "labelings":
        chosen["ensemble"] = "precomputed"
    if "random_state" in known:
        chosen["random_state"] = int(rng.integers(100))
    return cls(**chosen)


def _unfitted(model: Any) -> None:
    """A fit that failed must leave an unfitted estimator."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return
    raise FindingError("a failed fit left a fitted estimator")


def function(rng: np.random.Generator) -> str:
    """Call one public function of memberships, metrics or similarity."""
    calls = _calls(rng)
    name, call, *given = calls[int(rng.integers(len(calls)))]
    answer = attempt(lambda: call(*given), *given)
    if answer is not None and isinstance(answer, float) and np.isnan(answer):
        raise FindingError(f"{name} is NaN")
    return f"{name}{tuple(getattr(thing, 'shape', thing) for thing in given)}"


def _calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    U = evidence.memberships(rng)
    V = evidence.memberships(rng, len(U))
    labels = rng.integers(-1, 3, len(U))
    X, W = evidence.features(rng), evidence.similarity(rng)
    one = ("harden", "entropy", "margin", "sizes", "cooccurrence", "project_simplex")
    two: list[Callable[..., Any]] = [
        metrics.rand_index,
        metrics.adjusted_rand_index,
        metrics.pair_f1,
        metrics.normalized_mutual_information,
        metrics.matched_accuracy,
        metrics.brier_score,
    ]
    return [
        *((name, getattr(memberships, name), U) for name in one),
        ("align", memberships.align, U, V),
        *((call.__name__, call, U, V) for call in two),
        *((call.__name__, call, labels, U) for call in two[:5]),
        *(
            (name, getattr(similarity, name), X)
            for name in ("gaussian", "self_tuning", "knn", "cosine")
        ),
        ("doubly_stochastic", similarity.doubly_stochastic, W),
        ("cluster_kernel", similarity.cluster_kernel, W, 2),
        ("coassociation", similarity.coassociation, evidence.labelings(rng)),
    ]


def command(rng: np.random.Generator) -> str:
    """Run ``sfumato fit`` on a small table with odd cells.

    Only exit codes with a meaning are allowed.
    """
    from sfumato.cli import main

    names = ["a", "=b", "c\rd", "", "x,y"]
    n = int(rng.choice([1, 2, 6, 20]))
    cells = [[f"{value:.3g}" for value in row] for row in rng.normal(size=(n, 3))]
    if rng.random() < 0.5:
        odd = ["", "NA", "1e400", "12 %", "text", "'", '"', "1,5", "\x00", "-"]
        cells[int(rng.integers(n))][int(rng.integers(3))] = odd[int(rng.integers(len(odd)))]
    delimiter = str(rng.choice([",", ";", "\t"]))
    header = delimiter.join(str(rng.choice(names)) for _ in range(3))
    text = "\n".join([header, *(delimiter.join(row) for row in cells)]) + "\n"
    models = [model.command for model in MODELS if model.command]
    name = str(models[int(rng.integers(len(models)))])
    with TemporaryDirectory() as folder:
        file = Path(folder, "table.csv")
        file.write_bytes(text.encode())
        words = ["fit", str(file), "-m", name, "--clusters", "2", "--out", str(Path(folder, "out"))]
        code = attempt(lambda: main([*words, "--quiet"]))
    if code not in (0, 2, 3, 4):
        raise FindingError(f"exit code {code} of {words[2:6]} on {text!r}")
    return f"fit -m {name} {text[:40]!r}"
