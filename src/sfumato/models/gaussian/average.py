"""Memberships averaged over mixtures, each weighted by its approximate posterior probability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...core.arrays import namespace
from .kernel import State
from .likelihood import View

__all__ = ["Member", "averaged", "mapping"]


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
