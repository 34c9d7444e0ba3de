"""Choosing the number and the shape of components by a criterion, as mclust does: every candidate in a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...core.structure import PREFIX
from ...core.validation import check_number
from ...core.warn import EvidenceWarning
from .engine import TYPES

__all__ = ["Candidate", "search", "undecided"]

MOST = 9


class Candidate(NamedTuple):
    """One model that was tried: criteria (lower is better), or NaN and the reason why it failed."""

    n_clusters: int
    covariance_type: str
    bic: float = np.nan
    icl: float = np.nan
    aic: float = np.nan
    log_likelihood: float = np.nan
    reason: str = ""


def undecided(model: Any) -> bool:
    """Whether the model leaves its number of components or their shape open."""
    return model.covariance_type == "auto" or isinstance(model.n_clusters, (str, Iterable))


def _sizes(n_clusters: Any, n_objects: int) -> list[int]:
    if isinstance(n_clusters, str):
        if n_clusters != "auto":
            raise ValueError(
                f"n_clusters must be an integer, a sequence of integers or 'auto', got {n_clusters!r}"
            )
        return list(range(1, min(MOST, n_objects) + 1))
    sizes = list(n_clusters) if isinstance(n_clusters, Iterable) else [n_clusters]
    if not sizes:
        raise ValueError(
            "n_clusters is an empty sequence: give at least one number of components to try"
        )
    return [check_number(k, "n_clusters", low=1, integer=True) for k in sizes]


def search(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit every candidate and give ``model`` what the best one learnt, and the table ``candidates_``."""
    types = TYPES if model.covariance_type == "auto" else (model.covariance_type,)
    table, best = [], None
    for covariance_type in types:
        for k in _sizes(model.n_clusters, len(X) if hasattr(X, "__len__") else X.shape[0]):
            trial = clone(model).set_params(n_clusters=k, covariance_type=covariance_type)
            row = _try(trial, X, y, sample_weight)
            table.append(row)
            value = getattr(row, model.criterion)
            if np.isfinite(value) and (best is None or value < best[0]):
                best = (value, trial)
    if best is None:
        reasons = "; ".join(
            f"{row.n_clusters} {row.covariance_type}: {row.reason}" for row in table[:3]
        )
        raise ValueError(
            f"none of the {len(table)} candidates could be fitted ({reasons} ...): give more objects or fewer components"
        )
    chosen = vars(best[1])
    vars(model).update(
        {name: value for name, value in chosen.items() if name not in model.get_params(deep=False)}
    )
    model.candidates_ = table
    if any(
        row.n_clusters == 1 for row in table
    ):  # one component had its chance, by the criterion that was asked for
        model._beside_one = None
    return model


def _try(trial: Any, X: Any, y: Any, sample_weight: Any) -> Candidate:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            trial._check_parameters()
            trial._learn(X, y, sample_weight)
        except ValueError as error:
            return Candidate(trial.n_clusters, trial.covariance_type, reason=str(error))
    collapse = [
        str(w.message)
        for w in caught
        if issubclass(w.category, EvidenceWarning) and not str(w.message).startswith(PREFIX)
    ]
    if collapse:
        return Candidate(trial.n_clusters, trial.covariance_type, reason=collapse[0])
    slow = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    criteria = (
        trial.bic(X, sample_weight),
        trial.icl(X, sample_weight),
        trial.aic(X, sample_weight),
    )
    return Candidate(
        trial.n_clusters,
        trial.covariance_type,
        *criteria,
        trial.objective_,
        slow[0] if slow else "",
    )
