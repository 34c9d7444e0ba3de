"""Solvers, by name, that turn a table of labels into one soft clustering.

Each solution has memberships and a run, and places new objects. This file has the linkage of the
co-association, clustering by any other estimator, the choice of the solver, and consensus functions
that treat an ensemble as a hypergraph with clusters as hyperedges. There H (n, c) says which object
is in which cluster, and w_e is the weight of the partition of cluster e.

    CSPA   graph of objects, S = H diag(w) H', cut into k
    HGPA   hypergraph cut into k, by the normalised Laplacian of a hypergraph: H diag(w / |e|) H'
    HBGF   graph of objects and clusters, an edge for every membership, cut into k
    MCLA   graph of clusters by Jaccard's index, cut into k; an object belongs to a group of
           clusters by the share of them that it stands in

Strehl and Ghosh (2002), Fern and Brodley (2004) for HBGF; the hypergraph Laplacian is that of Zhou,
Huang and Schoelkopf (2006). The sources cut graphs into parts of equal size (METIS, hMETIS); here
all cuts are normalised cuts, by k-means on eigenvectors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from sklearn.base import clone
from sklearn.cluster import KMeans

from ...array.types import Estimator
from ...array.validation import memory_budget
from ...array.warn import warn
from ...memberships import one_hot
from ...numerics import eigen, seeding, simplex
from ...numerics import label_table as tables
from ...numerics.distances import unit_rows
from ...numerics.operators import Factored, normalized_operator
from ...similarity.coassociation import Coassociation, Rows, Shares
from .solutions import (
    DIVERGENCES,
    SCREEN,
    ByCompletion,
    ByDivergence,
    ByKernel,
    ByObservations,
    Settings,
    filled,
    run_at_once,
    run_of,
)

HYPERGRAPHS = ("cspa", "hgpa", "mcla", "hbgf")


def incidence(table: tables.Table) -> sp.csr_array:
    """H (n, c) times root weights of the partitions; zero rows for unseen objects."""
    columns = table.columns()
    n, m = columns.shape
    root = np.sqrt(table.column_weight)[columns]
    ends = np.arange(0, n * m + 1, m)
    H = sp.csr_array((root.ravel(), columns.ravel(), ends), shape=(n, int(table.offsets[-1])))
    H.eliminate_zeros()
    return H


class ByCut:
    """CSPA, HGPA and HBGF: a normalised cut of a graph with similarity B B'."""

    def __init__(self, name: str, table: tables.Table, k: int, settings: Settings) -> None:
        H = incidence(table)
        sizes = np.asarray((H != 0).sum(axis=0)).ravel()
        self.scale = np.ones(H.shape[1]) if name == "cspa" else 1.0 / np.sqrt(np.maximum(sizes, 1))
        B = sp.csr_array(H * self.scale[None, :])
        found = eigen.leading_eigenvectors(normalized_operator(Factored(B)), min(k, H.shape[0]))
        degree = np.maximum(B @ (B.T @ np.ones(len(table.codes))), np.finfo(float).tiny)
        values = np.where(found.values > 1e-12, found.values, np.inf)
        whole = np.asarray(B.T @ (found.vectors / np.sqrt(degree)[:, None]))
        self.projection = whole / values
        self.eigenvalues, self.following = found.values, found.following
        vertices = Z = unit_rows(found.vectors)
        if name == "hbgf":
            vertices = np.vstack([Z, unit_rows(whole[sizes > 0])])
        model = KMeans(k, n_init=settings.n_init, random_state=settings.random_state).fit(vertices)
        self.centers = model.cluster_centers_
        distances = eigen.squared_distances(Z, self.centers)
        self.width = eigen.temperature(distances, np.ones(len(Z)), Z.shape[1])
        self.memberships, self.run = self._read(Z), run_at_once(float(model.inertia_))

    def _read(self, Z: np.ndarray) -> np.ndarray:
        """Memberships (n, k), largest for the nearest center."""
        distances = eigen.squared_distances(Z, self.centers)
        return simplex.normalize(eigen.cauchy_memberships(distances, self.width, Z.shape[1]))

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, from the clusters that they are in."""
        return self._read(unit_rows((incidence(new) * self.scale[None, :]) @ self.projection))


class ByClusters:
    """MCLA: groups of similar clusters, with memberships by share of the clusters in a group."""

    def __init__(self, table: tables.Table, k: int, settings: Settings) -> None:
        H = incidence(table)
        self.used = np.flatnonzero(np.asarray((H != 0).sum(axis=0)).ravel())
        D = sp.csr_array((H[:, self.used] != 0).astype(np.float64))
        J = jaccard(D)
        few = min(k, len(J))
        if few < k:  # as in a resample of few partitions
            warn(
                f"the partitions have {len(J)} cluster{'s' * (len(J) > 1)}, fewer than "
                f"n_clusters={k}: groups beyond them are empty"
            )
        Z = unit_rows(eigen.leading_eigenvectors(normalized_operator(J), few).vectors)
        model = KMeans(few, n_init=settings.n_init, random_state=settings.random_state).fit(Z)
        groups = (model.labels_[:, None] == np.arange(k)).astype(np.float64)
        weights = table.column_weight[self.used][:, None] * groups
        self.share = weights / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
        self.memberships, self.run = self._read(D), run_at_once(float(model.inertia_))

    def _read(self, D: Any) -> np.ndarray:
        association = D @ self.share
        association[association.sum(axis=1) <= 0] = 1.0
        return simplex.normalize(association)

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects, from the groups of the clusters that they are in."""
        return self._read((incidence(new)[:, self.used] != 0).astype(np.float64))


def jaccard(D: Any) -> np.ndarray:
    """Jaccard indices (c, c) of the columns of a 0/1 matrix (n, c)."""
    both = (D.T @ D).toarray()
    sizes = both.diagonal()
    return both / np.maximum(sizes[:, None] + sizes - both, 1.0)


LINKAGES = ("single", "average", "complete")
NAMES = ("cluster-kernel", "coassociation", *DIVERGENCES, *LINKAGES, *HYPERGRAPHS)
# Consensus functions without weights; single and complete linkage do not depend on weights
BY_COPIES = (*DIVERGENCES, "average", *HYPERGRAPHS)
# Number of matrices (n, n) that a consensus function holds at a time, if it needs the matrix.
MATRICES = dict.fromkeys(DIVERGENCES, 5) | dict.fromkeys(LINKAGES, 2)
# Arrays of the size of all starts that the pairwise model on the cluster kernel keeps at one time
COPIES = 6
DENSE = 1000  # objects up to which a dense matrix is faster than the operator


def memory_needed(consensus: Any, n: int, k: int, n_init: int) -> dict[str, float]:
    """Bytes that a consensus of n objects needs at a time, in addition to the labels."""
    if isinstance(consensus, str):
        matrices = MATRICES.get(consensus, 0)
    else:
        matrices = 0 if "similarity" in consensus.get_params() else 2
    rows = n if matrices else COPIES * max(n, n_init * min(n, SCREEN))
    return {"matrices of all pairs": 8.0 * n**2 * matrices, "memberships": 8.0 * k * rows}


def solve(
    consensus: Any, table: tables.Table, k: int, settings: Settings, start: np.ndarray | None = None
) -> Any:
    """The solution of a consensus, by name or by estimator, for k clusters."""
    if table.mass is not None and (not isinstance(consensus, str) or consensus in BY_COPIES):
        return ByCopies(consensus, table, k, settings, start)
    if not isinstance(consensus, str):
        return ByEstimator(consensus, table, k, settings)
    if consensus in HYPERGRAPHS:
        cut = ByClusters if consensus == "mcla" else partial(ByCut, consensus)
        return cut(table, k, settings)
    if consensus in LINKAGES:
        return ByLinkage(consensus, table, k)
    if consensus in DIVERGENCES:
        return ByDivergence(consensus, table, k, settings, start)
    kernel = consensus == "cluster-kernel"
    if kernel and not tables.has_unseen_pairs(table):
        return ByKernel(table, k, settings, start)
    published = ByObservations(table, k, settings, start)
    if not kernel or len(table.codes) > tables.FEW_PAIRS:
        return published
    return ByCompletion(table, k, settings, published)


class ByCopies:
    """A consensus without weights, applied to as many copies of every object as its weight."""

    def __init__(
        self,
        consensus: Any,
        table: tables.Table,
        k: int,
        settings: Settings,
        start: np.ndarray | None = None,
    ) -> None:
        counts = np.rint(np.asarray(table.mass)).astype(np.int64)
        if not np.array_equal(np.asarray(table.mass), counts):
            raise ValueError(
                f"consensus={consensus!r} counts copies: sample_weight must hold whole numbers, "
                "or use consensus='cluster-kernel' or 'coassociation'"
            )
        rows = np.repeat(np.arange(len(counts)), counts)
        copies = table._replace(mass=None).objects(rows)
        begin = None if start is None else start[rows]
        self.solution = solve(consensus, copies, k, settings, begin)
        self.memberships = self.solution.memberships[np.cumsum(counts) - counts]
        self.run = self.solution.run

    def place(self, new: tables.Table) -> np.ndarray:
        """Memberships of new objects."""
        return self.solution.place(new)


class ByLinkage:
    """A linkage tree on 1 - co-association, cut into k clusters (Fred and Jain)."""

    def __init__(self, method: str, table: tables.Table, k: int) -> None:
        self.method, self.seen = method, np.flatnonzero(table.coverage > 0)
        self.table = table.objects(self.seen)
        distances = 1.0 - filled(Coassociation(self.table).toarray())
        np.fill_diagonal(distances, 0.0)
        self.tree = np.empty((0, 4))
        if len(distances) > 1:
            self.tree = linkage(squareform(distances, checks=False), method)
        self.groups = one_hot(seeding.cut(self.tree, k), k)
        self.memberships = np.full((len(table.codes), k), 1.0 / k)
        self.memberships[self.seen] = self.groups
        merges = len(self.tree) - k  # last merge to make; negative for fewer than k objects
        height = 1.0 if k == 1 else float(self.tree[merges, 2]) if merges >= 0 else 0.0
        self.run = run_at_once(height)

    def place(self, new: tables.Table) -> np.ndarray:
        """Each new object joins the cluster to which it is most similar under the linkage. An
        object with the same labels as a fitted one joins its cluster in any case."""
        S = filled(tables.pair_shares(new, self.table)[0])
        reduce: Any = {"single": np.max, "average": np.mean, "complete": np.min}[self.method]
        similar = [reduce(S[:, column > 0], axis=1) for column in self.groups.T]
        nearest = np.argmax(np.stack(similar, axis=1), axis=1)
        fitted = dict(zip(_row_keys(self.table), self.groups.argmax(axis=1), strict=True))
        for row, key in enumerate(_row_keys(new)):
            nearest[row] = fitted.get(key, nearest[row])
        return one_hot(nearest, len(similar))


def _row_keys(table: tables.Table) -> list[bytes]:
    """The labels of every object as a hashable key."""
    return [row.tobytes() for row in table.codes.astype(np.int32)]


class ByEstimator:
    """Any estimator that takes a similarity. Models of this library multiply with the operator;
    others get the matrix, or 1 - matrix as distances."""

    def __init__(
        self, estimator: Estimator, table: tables.Table, k: int, settings: Settings
    ) -> None:
        self.table, self.model = table, clone(estimator)
        self.incomplete = tables.has_missing(table)
        known = self.model.get_params()
        given = dict.fromkeys(("similarity", "affinity", "metric"), "precomputed")
        wanted: dict[str, Any] = {"n_clusters": k, **given}
        if known.get("random_state", 0) is None:
            wanted["random_state"] = settings.random_state
        self.model.set_params(**{name: value for name, value in wanted.items() if name in known})
        self.model.fit(self._evidence(Coassociation(table)))
        self.memberships: Any = getattr(self.model, "memberships_", None)
        if self.memberships is None:
            labels = np.asarray(self.model.labels_)
            self.memberships = one_hot(labels, max(1, int(labels.max()) + 1))
        self.run = run_of(self.model)

    def _evidence(self, C: Coassociation) -> Any:
        known = self.model.get_params()
        if "similarity" in known:
            n = C.shape[0]
            if self.incomplete:
                # The operator gives less than the shares, by a factor of .9 for subsamples of .9.
                shares = Shares(self.table, self.table)
                return shares.toarray() if 24 * n * n <= memory_budget() // 2 else shares
            return C if n > DENSE else C @ np.eye(n)
        matrix = filled(C.toarray())
        return 1.0 - matrix if "metric" in known and "affinity" not in known else matrix

    def place(self, new: tables.Table) -> np.ndarray:
        """By the estimator itself if it can, otherwise by mean similarity to the clusters."""
        rows: Any = (Shares if self.incomplete else Rows)(new, self.table)
        if "similarity" in self.model.get_params() and hasattr(self.model, "predict_proba"):
            few = self.incomplete and len(self.table.codes) <= DENSE
            return self.model.predict_proba(rows.toarray() if few else rows)
        share = self.memberships / np.maximum(self.memberships.sum(axis=0), np.finfo(float).tiny)
        return one_hot(np.argmax(rows @ share, axis=1), share.shape[1])
