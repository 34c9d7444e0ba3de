"""Warnings about evidence that does not support the clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array.warn import warn
from ...numerics import label_table as tables

__all__ = ["decided", "warn_if_noise"]

CRISP = 0.95  # mean largest membership that data without clusters do not reach
# Eigenvalues above this are compared with the next one: without a cluster, fine partitions make the
# two close
LOCAL = 0.5
# Relative gap after an eigenvalue below which there is no cluster
FAINT = 0.25


def decided(table: tables.Table) -> tables.Table:
    """The table without partitions beyond the largest set of objects that some saw together.

    Nothing says how clusters of one set relate to those of another. All arrangements are as good,
    so that memberships of the other sets, averaged over these, are equal in all clusters.
    """
    if not tables.has_gaps(table):
        return table
    seen = table.seen() & (table.weights > 0)
    together = tables.separate_groups(tables.encode(np.where(seen, 0, -1), table.weights))
    sizes = np.bincount(together, table.mass)
    sizes[together[table.coverage <= 0]] = 0.0
    if (sizes > 0).sum() < 2:
        return table
    warn(
        f"the objects fall into {int((sizes > 0).sum())} sets that no partition saw together: "
        "nothing says how clusters of one set relate to those of another, so that only those of "
        "the largest set are decided; fit each by itself, or add partitions that see some objects "
        "of several"
    )
    kept = seen[together == np.argmax(sizes)].any(axis=0)
    return tables.reweight(table, table.weights * kept)


def warn_if_noise(solution: Any, table: tables.Table) -> None:
    """Warn when the leading eigenvalues of the co-association are at chance level, or do not single
    out k clusters.
    """
    doubt = _of_spectrum(solution, table)
    if doubt is not None:
        warn(doubt)


def _of_spectrum(solution: Any, table: tables.Table) -> str | None:
    """The warning for eigenvalues of the co-association that no cluster explains.

    Nearly certain memberships need none.
    """
    values, level = getattr(solution, "eigenvalues", np.ones(1)), tables.chance_level(table)
    k = len(values)
    if k < 2:
        return None
    lower = np.maximum(np.append(values[2:], solution.following), -1.0)
    gaps = (values[1:] - lower) / np.maximum(1.0 - lower, np.finfo(float).tiny)
    vague = solution.memberships.max(axis=1).mean() < CRISP
    if vague and level < 0.9 and values[-1] <= level:
        return (
            f"the partitions agree on {int(np.sum(values > level))} of {k} clusters, on the "
            "others no more than random partitions would: "
            "these memberships may be noise; use fewer clusters or a better ensemble, or compare "
            "with what consensus='average' finds, "
            "which sees small clusters in few partitions better"
        )
    if values[-1] - solution.following <= tables.SMALLEST_REGULARIZATION and k < len(table.codes):
        return (
            f"the partitions do not say which {k} clusters to keep: eigenvalues {k} and {k + 1} "
            "of the co-association are equal "
            f"({values[-1]:.6g}). Where no partition joins the groups, the largest are the "
            "clusters and where the others belong is left "
            "open; use another n_clusters"
        )
    if vague and gaps.max() < FAINT:
        return (
            f"the partitions show no clusters: of the first {k} eigenvalues of the co-association "
            "none stands apart from the next "
            f"({', '.join(f'{value:.3f}' for value in [1.0, *values[1:3], *lower[-1:]])}); the "
            "memberships cut a continuum"
        )
    if vague and gaps[-1] < FAINT and solution.following > LOCAL:
        return (
            f"the partitions do not single out {k} clusters: eigenvalues {k} and {k + 1} of the "
            "co-association are close "
            f"({values[-1]:.3f}, {solution.following:.3f}), so that where the last cut goes is "
            "hardly more than chance; "
            f"{int(np.argmax(gaps)) + 2} clusters stand apart most"
        )
    return None
