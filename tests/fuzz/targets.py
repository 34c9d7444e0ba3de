"""Every estimator, fitted to one piece of evidence and then used in every way it offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sfumato.memberships import predict_strongest
from sfumato.models import MODELS

from . import evidence
from .hard import sparing
from .judge import FindingError, attempt, no_nan, valid_memberships
from .settings import arguments, kinds, made

NAMES = (*(entry.name for entry in MODELS), "MixtureClassifier")


def estimator(rng: np.random.Generator) -> str:
    """Fit one estimator to one piece of evidence; predict; check the contract."""
    name = NAMES[int(rng.integers(len(NAMES)))]
    kind = str(rng.choice(kinds(name)))
    X = getattr(evidence, kind)(rng)
    model = made(name, kind, rng)
    n = X.shape[0] if hasattr(X, "shape") else len(X[0]) if kind == "members" else len(X)
    asked = getattr(model, "n_clusters", None)
    if isinstance(asked, int) and asked > n and sparing(rng):
        model.set_params(n_clusters=n)
    extra = arguments(model, X, n, rng)
    told = f"{model} on {kind} of {n} objects, {type(X).__name__}, with {_shapes(extra)}"
    fitted = attempt(lambda: model.fit(X, **extra), X, *extra.values())
    if fitted is None:
        _unfitted(model)
        return told
    valid_memberships(getattr(model, "memberships_", None), "memberships_")
    if hasattr(model, "labels_"):
        U = model.memberships_
        U = U.toarray() if hasattr(U, "toarray") else np.asarray(U)
        if not np.array_equal(np.asarray(model.labels_), U.argmax(axis=1)):
            raise FindingError("labels_ are not the largest memberships")
    if hasattr(model, "predict_proba") and kind not in ("similarity", "holes"):
        valid_memberships(attempt(lambda: model.predict_proba(X), X), "predict_proba")
    _used(model, X, extra.get("y"), rng)
    attempt(lambda: clone(model))
    return told


def _used(model: Any, X: Any, y: Any, rng: np.random.Generator) -> None:
    """Two other methods of a fitted estimator."""
    calls: dict[str, Callable[[], Any]] = {
        **{name: lambda name=name: getattr(model, name)(X) for name in _OF_DATA},
        "score": lambda: model.score(X, y),
        "bic": lambda: model.bic(X, y) if is_classifier(model) else model.bic(X),
        "sample": lambda: model.sample(int(rng.choice([0, 1, 5]))),
        "cooccurrence_interval": lambda: model.cooccurrence_interval([(0, 0)]),
        "partial_fit": lambda: clone(model).partial_fit(X),
    }
    own = [name for name in calls if hasattr(model, name)]
    for name in rng.choice(own, size=min(2, len(own)), replace=False):
        no_nan(attempt(calls[name], X), str(name))
    if hasattr(model, "predict_proba") and rng.random() < 0.1:
        few = attempt(lambda: predict_strongest(model, X, int(rng.choice([1, 2, 8]))), X)
        valid_memberships(few, "predict_strongest")


_OF_DATA = ("predict", "transform", "score_samples", "aic", "icl")


def _shapes(extra: dict[str, Any]) -> dict[str, Any]:
    return {key: getattr(value, "shape", value) for key, value in extra.items()}


def _unfitted(model: Any) -> None:
    """A fit that failed must leave an unfitted estimator."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return
    raise FindingError("a failed fit left a fitted estimator")
