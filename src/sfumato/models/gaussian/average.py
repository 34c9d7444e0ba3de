"""Memberships averaged over mixtures, each weighted by its approximate posterior probability.

The mixtures are the candidates of a search, or draws of the bootstrap of the best one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...array.arrays import namespace, to_numpy
from . import bootstrap as resampling
from . import search
from .data import MixtureData
from .kernel import State
from .likelihood import Likelihood, View
from .parameters import Settings

__all__ = ["Member", "average_over", "averaged", "mapping"]

# Smallest weight of a candidate in an average: a smaller one would change no membership by more.
LEAST_WEIGHT = 1e-3


class Member(NamedTuple):
    """A mixture of an average: its weight, view and state, and how its columns map to the
    clusters.
    """

    weight: float
    view: View
    state: State
    mapping: np.ndarray


def averaged(parts: list[tuple[Member, Any]]) -> Any:
    """Memberships (n, k) averaged over mixtures, each mapped to the clusters of the best one."""
    xp = namespace(parts[0][1])
    total: Any = 0.0
    for member, U in parts:
        mapping = xp.asarray(member.weight * member.mapping, dtype=U.dtype, device=U.device)
        total = total + U @ mapping
    return total / xp.sum(total, axis=1, keepdims=True)


def mapping(U: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Matrix (k, k') that carries memberships ``U`` (n, k) to clusters of ``reference`` (n, k').

    Clusters are matched one to one where there are as many; otherwise by the share of their mass
    that they have in common with every cluster.
    """
    together = U.T.astype(np.float64) @ reference
    if U.shape[1] == reference.shape[1]:
        order = linear_sum_assignment(-together)[1]
        return np.eye(len(order))[order]
    return together / np.maximum(together.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def average_over(
    data: MixtureData,
    fits: list[search.Fit],
    best: search.Fit,
    settings: Settings,
    *,
    bootstrap: bool,
) -> tuple[tuple[Member, ...], Any]:
    """Mixtures of the average with their weights, and the averaged memberships (n, k)."""
    candidates = _candidates(data, fits, settings)
    if bootstrap:
        mixtures = _drawn(data, candidates, best, settings)
    else:
        mixtures = [(weight, fit.likelihood, fit.run.state) for weight, fit in candidates]
    reference = to_numpy(best.likelihood.memberships(best.run.state))
    parts = []
    for weight, likelihood, state in mixtures:
        U = likelihood.memberships(state)
        columns = mapping(to_numpy(U), reference)
        parts.append((Member(weight, likelihood.view, state, columns), U))
    return tuple(member for member, _ in parts), averaged(parts)


def _candidates(
    data: MixtureData, fits: list[search.Fit], settings: Settings
) -> list[tuple[float, search.Fit]]:
    """Weights ``exp(-BIC / 2)`` of the candidates that count, and their fits on all objects.

    Thin components of few objects lower a weight as they do in a choice.
    """
    values = np.array([fit.candidate.bic + search.doubt(data, fit) for fit in fits])
    if not np.isfinite(values).any():
        values = np.zeros(len(fits))
    weights = np.exp(0.5 * (np.nanmin(values) - values))
    chosen = np.flatnonzero(np.nan_to_num(weights) >= LEAST_WEIGHT * np.nansum(weights))
    return [(float(weights[i]), search.on_all(data, fits[i], settings)) for i in chosen]


def _drawn(
    data: MixtureData,
    candidates: list[tuple[float, search.Fit]],
    best: search.Fit,
    settings: Settings,
) -> list[tuple[float, Likelihood, State]]:
    """Draws of the families of the best number of components, each as often as its weight says."""
    k = best.candidate.n_clusters
    same = [(weight, fit) for weight, fit in candidates if fit.candidate.n_clusters == k]
    total, mixtures = sum(weight for weight, _ in same), []
    for weight, fit in same:
        n_draws = round(resampling.DRAWS * weight / total)
        if n_draws:
            states = resampling.draws(data, fit, settings, n_draws)
            mixtures += [(1.0, fit.likelihood, state) for state in states]
    return mixtures
