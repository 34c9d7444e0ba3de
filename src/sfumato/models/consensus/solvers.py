"""Ways to draw one soft clustering from a table of labels, by name.

Each solution keeps memberships, its run, and places new objects.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine import loop
from ...numerics import label_table as tables
from .cluster_kernel import SCREEN, ByKernel
from .completion import ByCompletion
from .divergences import DIVERGENCES, ByDivergence
from .hypergraphs import HYPERGRAPHS, by_hypergraph
from .matrix import ByEstimator, ByLinkage
from .published import ByMatrix, ByObservations
from .reading import Settings

__all__ = ["LINKAGES", "NAMES", "Settings", "memory_needed", "solve"]

LINKAGES = ("single", "average", "complete")
NAMES = (
    "cluster-kernel",
    "coassociation",
    "coassociation-unweighted",
    "coassociation-likelihood",
    *DIVERGENCES,
    *LINKAGES,
    *HYPERGRAPHS,
)
# Consensus functions without weights; single and complete linkage do not depend on weights
BY_COPIES = (
    "coassociation-unweighted",
    "coassociation-likelihood",
    *DIVERGENCES,
    "average",
    *HYPERGRAPHS,
)
# Arrays of the size of all starts that the pairwise model on the cluster kernel keeps at one time
COPIES = 6


def memory_needed(consensus: Any, n: int, k: int, n_init: int) -> dict[str, float]:
    """Bytes that a consensus of n objects keeps at one time, beside its labels."""
    pairs = 8.0 * n**2 * _explicit_matrices(consensus)
    rows = n if pairs else COPIES * max(n, n_init * min(n, SCREEN))
    return {"matrices of all pairs": pairs, "memberships": 8.0 * k * rows}


def _explicit_matrices(consensus: Any) -> int:
    """Matrices (n, n) that a consensus keeps at one time: none of those that only multiply."""
    if not isinstance(consensus, str):
        return 0 if "similarity" in consensus.get_params() else 2
    named = {"coassociation-unweighted": 3, "coassociation-likelihood": 5}
    named |= dict.fromkeys(DIVERGENCES, 5)
    return 2 if consensus in LINKAGES else named.get(consensus, 0)


def solve(
    consensus: Any, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
) -> Any:
    """The solution of a consensus, by name or by estimator, for k clusters.

    ``start`` are memberships to begin with.
    """
    if table.mass is not None and (not isinstance(consensus, str) or consensus in BY_COPIES):
        return ByCopies(consensus, table, k, settings, start)
    if not isinstance(consensus, str):
        return ByEstimator(consensus, table, k, settings)
    if consensus == "cluster-kernel":
        return _by_kernel(table, k, settings, start)
    if consensus == "coassociation":
        return ByObservations(table, k, settings, start)
    if consensus in HYPERGRAPHS:
        return by_hypergraph(consensus, table, k, settings)
    if consensus in LINKAGES:
        return ByLinkage(consensus, table, k)
    if consensus in DIVERGENCES:
        return ByDivergence(consensus, table, k, settings, start)
    return ByMatrix(consensus, table, k, settings, start)


def _by_kernel(
    table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
) -> Any:
    """By the cluster kernel of all pairs, where each was seen; else with unseen pairs filled in."""
    if not tables.has_unseen_pairs(table):
        return ByKernel(table, k, settings, start)
    published = ByObservations(table, k, settings, start)
    if len(table.codes) > tables.FEW_PAIRS:
        return published
    return ByCompletion(table, k, settings, published)


class ByCopies:
    """A consensus that knows no weights, on as many copies of every object as it weighs."""

    def __init__(
        self,
        consensus: Any,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        mass = np.asarray(table.mass)
        if not (mass == np.rint(mass)).all():
            raise ValueError(
                f"consensus={consensus!r} counts copies: sample_weight must hold whole numbers, "
                "or use consensus='cluster-kernel' or 'coassociation'"
            )
        rows = np.repeat(np.arange(len(mass)), mass.astype(np.int64))
        copies = table._replace(mass=None).objects(rows)
        self.solution = solve(
            consensus, copies, k, settings, None if start is None else start[rows]
        )
        first = np.cumsum(mass.astype(np.int64)) - mass.astype(np.int64)
        self.memberships: np.ndarray = self.solution.memberships[first]
        self.run: loop.Run = self.solution.run

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects."""
        return self.solution.place(new)
