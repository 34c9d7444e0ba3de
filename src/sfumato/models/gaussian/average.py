"""Memberships averaged over the candidates of a search, each weighted by its approximate posterior
probability.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...array.arrays import namespace, to_numpy
from ...components.gaussian import Gaussian
from ...components.kernel import State
from ...engine.component import Fit
from ...engine.search import Objects, Plan, on_all

__all__ = ["Member", "average_over", "averaged", "mapping"]

# Smallest weight of a candidate in an average: a smaller one would change no membership by more.
LEAST_WEIGHT = 1e-3


class Member(NamedTuple):
    """A mixture of an average: its weight, component and state, and how its columns map to the
    clusters.
    """

    weight: float
    component: Gaussian
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
    data: Objects, fits: list[Fit], best: Fit, plan: Plan
) -> tuple[tuple[Member, ...], Any]:
    """Mixtures of the average with weights ``exp(-BIC / 2)``, and averaged memberships (n, k).

    Thin components of few objects lower a weight as they do in a choice.
    """
    counted = [fit for fit in fits if np.isfinite(fit.candidate.bic)] or [best]
    doubts = [f.likelihood.component.doubt(f.run.state, f.likelihood.count) for f in counted]
    values = np.array([fit.candidate.bic for fit in counted]) + doubts
    weights = np.nan_to_num(np.exp(0.5 * (np.nanmin([*values, np.inf]) - values)), nan=1.0)
    reference = to_numpy(best.likelihood.memberships(best.run.state))
    parts = []
    for i in np.flatnonzero(weights >= LEAST_WEIGHT * weights.sum()):
        fit = on_all(data, counted[i], plan)
        U = fit.likelihood.memberships(fit.run.state)
        columns, component = mapping(to_numpy(U), reference), fit.likelihood.component
        assert isinstance(component, Gaussian)
        parts.append((Member(float(weights[i]), component, fit.run.state, columns), U))
    return tuple(member for member, _ in parts), averaged(parts)
