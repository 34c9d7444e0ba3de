"""What an ensemble cannot tell, said in a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._validation import EvidenceWarning
from ..kernels import coassociation as tables

__all__ = ["question"]

CRISP = 0.95  # mean largest membership that clouds and noise do not reach, however they are cut
FAINT = 0.25  # gap after an eigenvalue, relative to what it could be, below which nobody would speak of a cluster


def question(solution: Any, table: tables.Table) -> None:
    """Partitions that know nothing of each other still give a spectrum, and equal eigenvalues any vectors: say so."""
    if tables.has_gaps(table):
        together = tables.separate_groups(tables.encode(np.where(table.seen(), 0, -1), table.weights))[table.coverage > 0]
        if len(np.unique(together)) > 1:
            warnings.warn(
                f"the objects fall into {len(np.unique(together))} sets that no partition saw together: nothing says how clusters of "
                "one set relate to those of another; fit each by itself, or add partitions that see some objects of several",
                EvidenceWarning,
                stacklevel=3,
            )
    values, level = getattr(solution, "eigenvalues", np.ones(1)), tables.chance_level(table)
    if len(values) < 2:
        return
    lower = np.append(values[2:], solution.following)
    vague = solution.memberships.max(axis=1).mean() < CRISP
    if vague and level < 0.9 and values[-1] <= level:
        warnings.warn(
            f"the partitions agree on {int(np.sum(values > level))} of {len(values)} clusters, on the others no more than "
            "random partitions would: these memberships may be noise; use fewer clusters or a better ensemble, or compare with what "
            "consensus='average' finds, which sees small clusters in few partitions better",
            EvidenceWarning,
            stacklevel=3,
        )
    elif values[-1] - solution.following <= tables.TOGETHER and len(values) < len(table.codes):
        warnings.warn(
            f"the partitions do not say which {len(values)} clusters to keep: eigenvalues {len(values)} and {len(values) + 1} of the "
            f"co-association are equal ({values[-1]:.6g}). Where no partition joins the groups, the largest are the clusters and where "
            "the others belong is left open; use another n_clusters",
            EvidenceWarning,
            stacklevel=3,
        )
    elif vague and np.all(values[1:] - lower < FAINT * (1.0 - lower)):
        warnings.warn(
            f"the partitions show no clusters: of the first {len(values)} eigenvalues of the co-association none stands apart from "
            f"the next ({', '.join(f'{value:.3f}' for value in [1.0, *values[1:3], *lower[-1:]])}); the memberships cut a continuum",
            EvidenceWarning,
            stacklevel=3,
        )
