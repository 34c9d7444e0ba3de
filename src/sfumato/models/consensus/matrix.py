"""Consensus by clustering the co-association with a linkage, or with any other estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone

from ...array.memory import memory_budget
from ...array.types import Estimator
from ...engine import loop
from ...memberships import one_hot
from ...numerics import label_table as tables
from ...numerics import seeding
from ...selection.criteria import longest_lifetime
from ...similarity.coassociation import Coassociation, Rows, Shares
from .reading import Settings

__all__ = ["ByEstimator", "ByLinkage"]

DENSE = 1000  # objects up to which a plain matrix is quicker than the operator


class ByLinkage:
    """A linkage tree on 1 - co-association, cut into k clusters (Fred and Jain)."""

    def __init__(self, method: str, table: tables.Table, k: int | None) -> None:
        self.method, self.seen = method, np.flatnonzero(table.coverage > 0)
        self.table = table.objects(self.seen)
        distances = 1.0 - _filled(Coassociation(self.table).toarray())
        np.fill_diagonal(distances, 0.0)
        self.tree = (
            linkage(squareform(distances, checks=False), method)
            if len(distances) > 1
            else np.empty((0, 4))
        )
        k = longest_lifetime(self.tree[:, 2]) if k is None else k
        self.groups = one_hot(seeding.cut(self.tree, k), k)
        self.memberships = np.full((len(table.codes), k), 1.0 / k)
        self.memberships[self.seen] = self.groups
        merges = len(self.tree) - k  # the last one that is made; none of fewer than k objects
        height = 1.0 if k == 1 else float(self.tree[merges, 2]) if merges >= 0 else 0.0
        self.run = loop.Run(None, height, np.array([height]), 1, True)

    def place(self, new: tables.Table) -> np.ndarray:
        """Each new object to the cluster it is most similar to, in the sense of the linkage.

        An object with the same labels as a fitted one joins its cluster, although the finished
        cluster may be less similar to it than another.
        """
        S = _filled(tables.pair_shares(new, self.table)[0])
        members = [np.flatnonzero(column) for column in self.groups.T]
        reduce: Any = {"single": np.max, "average": np.mean, "complete": np.min}[self.method]
        nearest = np.argmax(
            np.stack([reduce(S[:, chosen], axis=1) for chosen in members], axis=1), axis=1
        )
        fitted = dict(zip(_row_keys(self.table), self.groups.argmax(axis=1), strict=True))
        for row, key in enumerate(_row_keys(new)):
            nearest[row] = fitted.get(key, nearest[row])
        return one_hot(nearest, len(members))


def _row_keys(table: tables.Table) -> list[bytes]:
    """The labels of every object as a key."""
    return [row.tobytes() for row in table.codes.astype(np.int32)]


class ByEstimator:
    """Any estimator that takes a similarity.

    Sfumato's multiply with the operator, others get the matrix, or 1 - matrix as distances.
    """

    def __init__(
        self, estimator: Estimator, table: tables.Table, k: int, settings: Settings
    ) -> None:
        self.table, self.model = table, clone(estimator)
        self.gaps = tables.has_gaps(table)
        known = self.model.get_params()
        wanted = {
            "n_clusters": k,
            "similarity": "precomputed",
            "affinity": "precomputed",
            "metric": "precomputed",
        }
        if known.get("random_state", 0) is None:
            wanted["random_state"] = settings.random_state
        self.model.set_params(**{name: value for name, value in wanted.items() if name in known})
        self.model.fit(self._evidence(Coassociation(table)))
        self.memberships: Any = getattr(self.model, "memberships_", None)
        if self.memberships is None:
            labels = np.asarray(self.model.labels_)
            self.memberships = one_hot(labels, max(1, int(labels.max()) + 1))
        objective = float(getattr(self.model, "objective_", np.nan))
        history = np.asarray(getattr(self.model, "history_", [objective]))
        self.run = loop.Run(
            None,
            objective,
            history,
            int(getattr(self.model, "n_iter_", 1) or 1),
            bool(getattr(self.model, "converged_", True)),
        )

    def _evidence(self, C: Coassociation) -> Any:
        known = self.model.get_params()
        if "similarity" in known:
            n = C.shape[0]
            if self.gaps:
                # The operator multiplies by less than the shares, by .9 at subsamples of .9.
                shares = Shares(self.table, self.table)
                return shares.toarray() if 24 * n * n <= memory_budget() // 2 else shares
            return C if n > DENSE else C @ np.eye(n)
        matrix = _filled(C.toarray())
        return 1.0 - matrix if "metric" in known and "affinity" not in known else matrix

    def place(self, new: tables.Table) -> np.ndarray:
        """By the estimator itself where it can, else by mean similarity to the clusters."""
        rows: Any = Rows(new, self.table)
        if self.gaps:
            rows = Shares(new, self.table)
        if "similarity" in self.model.get_params() and hasattr(self.model, "predict_proba"):
            few = self.gaps and len(self.table.codes) <= DENSE
            return self.model.predict_proba(rows.toarray() if few else rows)
        share = self.memberships / np.maximum(self.memberships.sum(axis=0), np.finfo(float).tiny)
        return one_hot(np.argmax(rows @ share, axis=1), share.shape[1])


def _filled(ratios: np.ndarray) -> np.ndarray:
    """Shares with the mean of all known ones where a pair was never seen together."""
    known = np.isfinite(ratios)
    return (
        ratios
        if known.all()
        else np.where(known, ratios, ratios[known].mean() if known.any() else 0.0)
    )
