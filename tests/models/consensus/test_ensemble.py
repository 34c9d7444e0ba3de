"""Ensembles: what they draw, what they record, and how they label new objects."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, BisectingKMeans, KMeans
from sklearn.datasets import make_blobs
from sklearn.mixture import GaussianMixture

from sfumato import ClusteringEnsemble, EvidenceWarning
from sfumato.engine.loop import progress
from sfumato.models.consensus import ensemble as partitions

X, Y = make_blobs(120, centers=3, cluster_std=0.4, random_state=0)


class Broken(ClusterMixin, BaseEstimator):
    def __init__(self, n_clusters=2):
        self.n_clusters = n_clusters

    def fit(self, X, y=None):
        if self.n_clusters % 2:
            raise RuntimeError("odd numbers are not for me")
        self.labels_ = np.arange(len(X)) % self.n_clusters
        return self


def n_seen(L):
    return (L >= 0).sum(axis=0)


def test_defaults_are_fine_partitions_of_subsamples():
    L = ClusteringEnsemble(20, random_state=0).fit_transform(X)
    assert L.shape == (120, 20)
    assert (n_seen(L) == 108).all()
    sizes = {len(np.unique(column[column >= 0])) for column in L.T}
    assert min(sizes) >= 10
    assert max(sizes) <= 30
    assert len(sizes) > 3


@pytest.mark.parametrize(
    ("name", "n_columns"),
    [("SL", 7), ("CL", 7), ("AL", 7), ("KM", 7), ("All", 28), (["ward", "k-means"], 14)],
)
def test_base_ensembles_by_name(name, n_columns):
    ensemble = ClusteringEnsemble(7, algorithms=name, n_clusters=(2, 6), random_state=1)
    L = ensemble.fit_transform(X)
    assert L.shape == (120, n_columns)
    for column, member in zip(L.T, ensemble.members_, strict=True):
        assert len(np.unique(column[column >= 0])) == member.n_clusters
        assert 2 <= member.n_clusters <= 6


def test_same_seed_same_labels():
    one = ClusteringEnsemble(6, algorithms="All", random_state=3).fit(X)
    two = ClusteringEnsemble(6, algorithms="All", random_state=3).fit(X)
    np.testing.assert_array_equal(one.labelings_, two.labelings_)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    assert not np.array_equal(
        one.labelings_, ClusteringEnsemble(6, algorithms="All", random_state=4).fit_transform(X)
    )


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_units_and_origin_do_not_matter(factor):
    L = ClusteringEnsemble(5, algorithms=["k-means", "average"], random_state=0).fit_transform(X)
    np.testing.assert_array_equal(
        L,
        ClusteringEnsemble(5, algorithms=["k-means", "average"], random_state=0).fit_transform(
            X * factor
        ),
    )
    np.testing.assert_array_equal(
        L,
        ClusteringEnsemble(5, algorithms=["k-means", "average"], random_state=0).fit_transform(
            X + 64.0
        ),
    )


def test_new_objects_get_the_labels_of_their_neighbours():
    ensemble = ClusteringEnsemble(5, algorithms="All", n_clusters=3, random_state=0).fit(X)
    new = ensemble.transform(X + 1e-9)
    seen = ensemble.labelings_ >= 0
    assert (new >= 0).all()
    assert (new == ensemble.labelings_)[seen].mean() > 0.99


def test_cut_gives_exactly_k_clusters_even_with_ties():
    grid = np.array([[i, j] for i in range(4) for j in range(4)], dtype=float)
    tree = linkage(grid, "single")
    assert [len(np.unique(partitions.seeding.cut(tree, k))) for k in (1, 2, 7, 16)] == [1, 2, 7, 16]
    tree = linkage(X, "average")
    ours, theirs = partitions.seeding.cut(tree, 5), fcluster(tree, 5, "maxclust")
    assert len(set(zip(ours.tolist(), theirs.tolist(), strict=True))) == 5


def test_connected_clusters_bridge_no_gap():
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 400)
    ring = np.arange(400) % 2
    points = (1.0 + ring[:, None]) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    share = {}
    for algorithm in ("k-means", "connected-k-means"):
        ensemble = ClusteringEnsemble(10, algorithms=algorithm, n_clusters=8, random_state=0)
        L = ensemble.fit_transform(points)
        share[algorithm] = np.mean(
            [
                len(set(ring[column == label])) == 2
                for column in L.T
                for label in np.unique(column[column >= 0])
            ]
        )
        assert (ensemble.transform(points) == L)[L >= 0].mean() > 0.9
    assert share["k-means"] > 0.2
    assert share["connected-k-means"] == 0


def test_clusters_are_split_where_near_objects_do_not_join_them():
    near = np.array([[1], [4], [3], [2], [0]])  # 4 joins 0 and 1, but is not in the sample
    sample = np.array([0, 1, 2, 3])
    assert partitions._split(np.array([0, 0, 0, 1]), sample, near).tolist() == [0, 0, 1, 2]
    assert partitions._split(np.array([0, 0, 0, 0]), sample, near[:, :0]).tolist() == [0, 1, 2, 3]


def test_one_tree_gives_many_partitions(monkeypatch):
    calls = []
    monkeypatch.setattr(partitions, "linkage", lambda *a: calls.append(1) or linkage(*a))
    ensemble = ClusteringEnsemble(
        9, algorithms="average", n_cuts=4, n_clusters=(2, 30), random_state=0
    ).fit(X)
    assert ensemble.labelings_.shape == (120, 9)
    assert len(calls) == 3
    calls.clear()
    ensemble = ClusteringEnsemble(
        9, algorithms="average", n_cuts=4, subsample=1.0, random_state=0
    ).fit(X)
    assert len(calls) == 1
    assert ensemble.labelings_.shape == (120, 9)


@pytest.mark.parametrize(
    "algorithm", ["connected-k-means", "single", AgglomerativeClustering(), BisectingKMeans()]
)
def test_large_data_are_learnt_from_a_sample_and_labelled_whole(algorithm):
    ensemble = ClusteringEnsemble(
        4, algorithms=algorithm, n_clusters=3, max_objects=60, random_state=0
    ).fit(X)
    assert (ensemble.labelings_ >= 0).all()
    for column in ensemble.labelings_.T:
        assert len(set(zip(column.tolist(), Y.tolist(), strict=True))) <= 4


def test_any_clusterer_takes_part_and_its_noise_is_unseen():
    far = np.vstack([X, [[100.0, 100.0]]])
    ensemble = ClusteringEnsemble(
        3, algorithms=HDBSCAN(min_cluster_size=10, copy=True), subsample=1.0, random_state=0
    ).fit(far)
    assert (ensemble.labelings_[-1] == -1).all()
    assert ensemble.transform(far[:4]).shape == (4, 3)


def test_a_failing_member_is_recorded_and_skipped():
    ensemble = ClusteringEnsemble(12, algorithms=Broken(), n_clusters=(2, 5), random_state=0)
    with pytest.warns(EvidenceWarning, match="odd numbers"):
        L = ensemble.fit_transform(X)
    assert L.shape[1] + len(ensemble.failures_) == 12
    assert ensemble.failures_[0].algorithm == "Broken"
    with pytest.raises(ValueError, match="none of the 3 runs"):
        ClusteringEnsemble(3, algorithms=Broken(), n_clusters=3).fit(X)


def test_sparse_equals_dense():
    sparse = sp.csr_array(np.where(np.abs(X) < 1, 0, X))
    for algorithm in ("k-means", "average"):
        a = ClusteringEnsemble(3, algorithms=algorithm, n_clusters=3, random_state=0).fit(sparse)
        b = ClusteringEnsemble(3, algorithms=algorithm, n_clusters=3, random_state=0).fit(
            sparse.toarray()
        )
        for left, right in zip(a.labelings_.T, b.labelings_.T, strict=True):
            assert len(set(zip(left.tolist(), right.tolist(), strict=True))) == 4
        assert a.transform(sparse).shape == (120, 3)


def test_feature_subsampling_keeps_what_it_used():
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(120, 4))])
    ensemble = ClusteringEnsemble(8, feature_fraction=0.5, random_state=0).fit(wide)
    assert {len(member.features) for member in ensemble.members_} == {3}
    assert ensemble.transform(wide).shape == (120, 8)


def test_progress_is_reported():
    seen = []
    with progress(lambda done, total, value: seen.append((done, total))):
        ClusteringEnsemble(5, random_state=0).fit(X)
    assert seen == [(i, 5) for i in range(1, 6)]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_data(n):
    L = ClusteringEnsemble(4, algorithms="All", random_state=0).fit_transform(X[:n])
    assert L.shape == (n, 16)


def test_duplicates_leak_no_warning():
    assert ClusteringEnsemble(4, random_state=0).fit_transform(np.ones((30, 2))).shape == (30, 4)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_members": 0}, ValueError, "n_members"),
        ({"subsample": 0}, ValueError, "subsample"),
        ({"subsample": 1.2}, ValueError, "subsample"),
        ({"n_clusters": (5, 2)}, ValueError, "upper end"),
        ({"n_clusters": "many"}, TypeError, "n_clusters"),
        ({"algorithms": "kmean"}, ValueError, "'k-means'"),
        ({"algorithms": [3]}, TypeError, "fit_predict"),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        ClusteringEnsemble(**parameters).fit(X)


def test_classes_are_refused_and_mixtures_get_their_number():
    with pytest.raises(TypeError, match=r"KMeans\(\)"):
        ClusteringEnsemble(3, algorithms=KMeans).fit_transform(X)
    L = ClusteringEnsemble(
        3, algorithms=GaussianMixture(), n_clusters=3, random_state=0
    ).fit_transform(X)
    assert all(len(np.unique(column[column >= 0])) == 3 for column in L.T)
