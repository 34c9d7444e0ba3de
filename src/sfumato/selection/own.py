"""Estimators that choose the number of clusters by a criterion of their own.

They are known by their parameters: mixtures have an information criterion (BIC, ICL or AIC, lower
is better) and leave ``search_``, the table of candidates; the consensus has another ``criterion``
and leaves ``candidates_`` with ``scores_``; models of a similarity have ``own_criterion``. Their
own search is used as it is, so that every way of asking gives one answer. A Dirichlet process
infers the number (``chooses_n_clusters`` is "always"): one fit has it with its posterior.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..array.types import Estimator
from ._evidence import Evidence

__all__ = [
    "INFORMATION",
    "Search",
    "criteria_of",
    "inferred",
    "infers",
    "of_consensus",
    "of_mixture",
    "search",
]

INFORMATION = ("bic", "icl", "aic")  # criteria that compare with one cluster themselves


class Search(NamedTuple):
    """A finished search: candidates, scores (higher is better), reasons of failures, the fit."""

    criterion: str
    sizes: list[int]
    scores: np.ndarray
    reasons: list[str]
    n_clusters: int
    estimator: Any


def criteria_of(estimator: Estimator) -> tuple[str, ...]:
    """Names of the criteria by which the estimator chooses itself; empty if it does not."""
    parameters = estimator.get_params(deep=False)
    if "n_clusters" not in parameters:
        return ()
    if hasattr(estimator, "own_criterion"):
        return (estimator.own_criterion,)
    if parameters.get("criterion") in INFORMATION:
        return INFORMATION
    if "consensus" not in parameters:
        return ()
    consensus = parameters["consensus"]
    linkage = isinstance(consensus, str) and consensus in ("single", "average", "complete")
    return ("eigengap", "held-out", *(["lifetime"] if linkage else []))


def infers(estimator: Estimator) -> bool:
    """Whether every fit finds the number of clusters, and ``n_clusters`` is no more than a cap."""
    return getattr(estimator, "chooses_n_clusters", None) == "always"


def inferred(
    estimator: Estimator, data: Evidence, sizes: list[int] | None, criterion: Any
) -> Search:
    """One fit, with the posterior over the number of clusters as scores."""
    name = type(estimator).__name__
    if criterion not in ("auto", "posterior"):
        raise ValueError(
            f"criterion must be 'auto' or 'posterior' for {name}, which infers the number of "
            f"clusters; got {criterion!r}"
        )
    if sizes is not None:
        raise ValueError(
            f"candidates must be None for {name}, which infers the number of clusters; got {sizes}"
        )
    model = data.fit(clone(estimator))
    scores = np.asarray(model.n_clusters_posterior_, dtype=np.float64)[1:]
    numbers = list(range(1, len(scores) + 1))
    return Search("posterior", numbers, scores, [""] * len(numbers), int(model.n_clusters_), model)


def search(
    estimator: Estimator, data: Evidence, sizes: list[int] | None, largest: int | None, name: str
) -> Search:
    """Let the estimator choose among ``sizes``, or among its own candidates."""
    own, mixture = hasattr(estimator, "own_criterion"), not hasattr(estimator, "consensus")
    model = clone(estimator).set_params(n_clusters="auto" if sizes is None else sizes)
    if name != "auto" and not own:
        model.set_params(criterion=name)
    if sizes is None and largest is not None:
        model.set_params(max_clusters=largest)
    model = data.fit(model)
    if own:
        rows = model.selection_.table
        scores = np.array([row.score for row in rows])
        numbers = [row.n_clusters for row in rows]
        return Search(model.own_criterion, numbers, scores, [""] * len(rows), _found(model), model)
    return of_mixture(model) if mixture else of_consensus(model)


def of_mixture(model: Estimator) -> Search:
    """The search over numbers of clusters that a fitted mixture has made."""
    best, name = model.search_.best_of_each(), model.search_.criterion
    # Information criteria are minimised, scores are maximised.
    scores = np.array([-float(getattr(row, name)) for row in best.values()])
    reasons = [row.reason for row in best.values()]
    return Search(name, list(best), scores, reasons, _found(model), model)


def _found(model: Estimator) -> int:
    # A noise column is no cluster.
    return int(model.n_clusters_) - (getattr(model, "noise", None) is not None)


def of_consensus(model: Estimator) -> Search:
    """The search that a consensus fitted with ``n_clusters="auto"`` has made."""
    numbers = [int(k) for k in model.candidates_]
    scores = np.asarray(model.scores_, dtype=np.float64)
    name = model.selection_criterion_
    return Search(name, numbers, scores, [""] * len(numbers), _found(model), model)
