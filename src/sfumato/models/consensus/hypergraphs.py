"""Consensus functions that treat an ensemble as a hypergraph with clusters as hyperedges.

H (n, c) says which object is in which cluster; w_e is the weight of the partition of cluster e.

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

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans

from ...array.warn import warn
from ...numerics import kmeans, simplex
from ...numerics.distances import unit_rows
from ...numerics.eigen import leading_eigenvectors
from ...numerics.label_table import Table
from ...numerics.operators import Factored, normalized_operator
from ..pairwise.estimator import Settings
from .solutions import run_at_once

HYPERGRAPHS = ("cspa", "hgpa", "mcla", "hbgf")


def incidence(table: Table) -> sp.csr_array:
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

    def __init__(self, name: str, table: Table, k: int, settings: Settings) -> None:
        H = incidence(table)
        sizes = np.asarray((H != 0).sum(axis=0)).ravel()
        self.scale = np.ones(H.shape[1]) if name == "cspa" else 1.0 / np.sqrt(np.maximum(sizes, 1))
        B = sp.csr_array(H * self.scale[None, :])
        found = leading_eigenvectors(normalized_operator(Factored(B)), min(k, H.shape[0]))
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
        distances = kmeans.squared_distances(Z, self.centers)
        self.width = kmeans.temperature(distances, np.ones(len(Z)), Z.shape[1])
        self.memberships, self.run = self._read(Z), run_at_once(float(model.inertia_))

    def _read(self, Z: np.ndarray) -> np.ndarray:
        """Memberships (n, k), largest for the nearest center."""
        distances = kmeans.squared_distances(Z, self.centers)
        return simplex.normalize(kmeans.memberships(distances, self.width, Z.shape[1]))

    def place(self, new: Table) -> np.ndarray:
        """Memberships of new objects, from the clusters that they are in."""
        return self._read(unit_rows((incidence(new) * self.scale[None, :]) @ self.projection))


class ByClusters:
    """MCLA: groups of similar clusters, with memberships by share of the clusters in a group."""

    def __init__(self, table: Table, k: int, settings: Settings) -> None:
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
        Z = unit_rows(leading_eigenvectors(normalized_operator(J), few).vectors)
        model = KMeans(few, n_init=settings.n_init, random_state=settings.random_state).fit(Z)
        groups = (model.labels_[:, None] == np.arange(k)).astype(np.float64)
        weights = table.column_weight[self.used][:, None] * groups
        self.share = weights / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
        self.memberships, self.run = self._read(D), run_at_once(float(model.inertia_))

    def _read(self, D: Any) -> np.ndarray:
        association = D @ self.share
        association[association.sum(axis=1) <= 0] = 1.0
        return simplex.normalize(association)

    def place(self, new: Table) -> np.ndarray:
        """Memberships of new objects, from the groups of the clusters that they are in."""
        return self._read((incidence(new)[:, self.used] != 0).astype(np.float64))


def jaccard(D: Any) -> np.ndarray:
    """Jaccard indices (c, c) of the columns of a 0/1 matrix (n, c)."""
    both = (D.T @ D).toarray()
    sizes = both.diagonal()
    return both / np.maximum(sizes[:, None] + sizes - both, 1.0)
