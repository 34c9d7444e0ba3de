"""Soft evidence that was given: membership matrices, and the weights of members."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array.types import ArrayLike
from ...memberships import check_memberships
from ...similarity.coassociation import check_partition_weight
from .mixtures import MixtureEnsemble

__all__ = ["check_given", "check_weights", "is_list_of_memberships"]


def is_list_of_memberships(X: Any) -> bool:
    """Whether the evidence is a list or tuple of matrices, not one table of labels."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(np.ndim(each) == 2 for each in X)


def check_given(
    matrices: Any, partition_weight: ArrayLike | None, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Membership matrices side by side, where each begins, and their weights.

    ``offsets`` are those of the fit.
    """
    checked = [np.asarray(check_memberships(each), dtype=np.float64) for each in matrices]
    if len({len(each) for each in checked}) != 1:
        raise ValueError(
            "all membership matrices must describe the same objects, got "
            f"{[len(e) for e in checked]} rows"
        )
    begins = np.cumsum([0, *(each.shape[1] for each in checked)])
    if offsets is not None and not np.array_equal(begins, offsets):
        raise ValueError(
            f"give the same {len(offsets) - 1} membership matrices as in fit, with "
            f"{np.diff(offsets).tolist()} "
            f"columns; got {np.diff(begins).tolist()}"
        )
    weights = check_partition_weight(partition_weight, len(checked))
    return np.hstack(checked), begins, weights


def check_weights(
    partition_weight: ArrayLike, ensemble: MixtureEnsemble | None
) -> np.ndarray | None:
    """Weights of the members of one ensemble."""
    if ensemble is None:
        raise ValueError(
            "partition_weight goes with one ensemble: give ensemble=MixtureEnsemble(...), "
            "ClusteringEnsemble(...) or 'precomputed'"
        )
    n = ensemble.n_members if ensemble.members is None else len(ensemble.members)
    return check_partition_weight(partition_weight, n)
