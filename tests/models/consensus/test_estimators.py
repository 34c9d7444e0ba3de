"""Any estimators as members of an ensemble."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, AgglomerativeClustering, FeatureAgglomeration, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from sfumato import EvidenceAccumulation, FuzzyCMeans, MixtureEnsemble
from sfumato.array.warn import EvidenceWarning
from sfumato.memberships import one_hot

MEMBERS = [
    KMeans(3, n_init=1),
    KMeans(6, n_init=1),
    AgglomerativeClustering(5),
    GaussianMixture(4),
    FuzzyCMeans(3),
    DBSCAN(eps=1.0),
]


class Broken(BaseEstimator):
    def fit(self, X, y=None):
        raise RuntimeError("no licence")


class Odd(BaseEstimator):
    """Memberships that are none."""

    def fit(self, X, y=None):
        return self

    def predict_proba(self, X):
        return np.full((X.shape[0], 2), 3.0)


def blobs(n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 7.0 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def consensus(members, k=3, **parameters):
    ensemble = MixtureEnsemble(members=members, **parameters)
    return EvidenceAccumulation(k, ensemble=ensemble, random_state=0)


@pytest.mark.parametrize("k", [3, "auto"])
def test_soft_and_hard_members_make_one_consensus(k):
    X, y = blobs()
    model = consensus(MEMBERS, k).fit(X)
    assert model.evidence_ == "members"
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(y, model.labels_) > 0.98
    assert np.abs(model.predict_proba(X) - model.memberships_).max() < 1e-10
    assert model.ensemble_.failures_ == []


def test_columns_are_those_of_the_members():
    X, _ = blobs()
    X = X[np.lexsort(X.T[::-1])]  # the order in which members see objects
    members = [KMeans(4, n_init=1, random_state=3), FuzzyCMeans(3, random_state=1)]
    hard, soft = MixtureEnsemble(members=members).fit(X).partitions(X)
    assert np.array_equal(hard, one_hot(KMeans(4, n_init=1, random_state=3).fit(X).labels_, 4))
    assert np.allclose(soft, FuzzyCMeans(3, random_state=1).fit(X).predict_proba(X))


def test_noise_is_not_seen_and_new_objects_follow_their_neighbour():
    X, _ = blobs()
    X[0] = 100.0
    ensemble = MixtureEnsemble(members=[DBSCAN(eps=1.5)]).fit(X)
    (H,) = ensemble.partitions(X)
    labels = DBSCAN(eps=1.5).fit(X).labels_
    assert not H[0].any()
    assert np.array_equal(H.any(axis=1), labels >= 0)
    assert adjusted_rand_score(H.argmax(axis=1)[labels >= 0], labels[labels >= 0]) == 1.0
    assert np.array_equal(ensemble.transform(X[1:9] + 1e-4), H[1:9])


def test_the_same_as_their_memberships_given_by_hand():
    X, _ = blobs()
    members = [AgglomerativeClustering(k) for k in (3, 4, 5, 6)]
    ours = consensus(members).fit(X)
    tables = [one_hot(each.fit(X).labels_) for each in members]
    given = EvidenceAccumulation(3, ensemble="precomputed", random_state=0).fit(tables)
    assert adjusted_rand_score(ours.labels_, given.labels_) == 1.0
    assert np.abs(np.sort(ours.memberships_) - np.sort(given.memberships_)).max() < 1e-5


def test_members_that_fail_are_named():
    X, y = blobs()
    with pytest.warns(EvidenceWarning, match="2 of 3 members could not be fitted.*no licence"):
        model = consensus([Broken(), KMeans(3, n_init=1), Odd()]).fit(
            X, partition_weight=[1.0, 2.0, 3.0]
        )
    assert [each.algorithm for each in model.ensemble_.failures_] == ["Broken", "Odd"]
    assert "memberships" in model.ensemble_.failures_[1].message
    assert adjusted_rand_score(y, model.labels_) > 0.98
    with pytest.raises(ValueError, match="none of the 1 members could be fitted.*no licence"):
        consensus([Broken()]).fit(X)


def test_weights_are_copies():
    X, _ = blobs(60)
    w = np.random.default_rng(1).integers(0, 3, size=60)
    members = [KMeans(4, n_init=1, random_state=0), AgglomerativeClustering(4)]
    weighted = consensus(members).fit(X, sample_weight=w)
    copied = consensus(members).fit(np.repeat(X, w, axis=0))
    assert np.abs(np.repeat(weighted.memberships_, w, axis=0) - copied.memberships_).max() < 1e-10


def test_sparse_features_samples_and_batches():
    X, y = blobs(300)
    members = [KMeans(k, n_init=1) for k in (3, 5, 8)]
    sparse = consensus(members).fit(sp.csr_array(X))
    assert adjusted_rand_score(y, sparse.labels_) > 0.98
    few = consensus(members, max_objects=120).fit(X)
    assert adjusted_rand_score(y, few.labels_) > 0.98
    batches = consensus(members).partial_fit(X[:150]).partial_fit(X[150:])
    assert adjusted_rand_score(y[150:], batches.labels_) > 0.98


@pytest.mark.parametrize(
    ("members", "error", "said"),
    [
        ([], ValueError, "at least one estimator"),
        (KMeans(3), ValueError, "must be a list"),
        ([KMeans], TypeError, r"give KMeans\(\)"),
        (["k-means"], TypeError, "with fit"),
    ],
)
def test_what_cannot_be_a_member_is_refused(members, error, said):
    X, _ = blobs(30)
    with pytest.raises(error, match=said):
        MixtureEnsemble(members=members).fit(X)
    with pytest.raises(error, match=said):
        consensus(members).fit(X)


def test_clusters_of_features_are_a_failure():
    X = np.random.default_rng(0).normal(size=(40, 3)) + 6.0 * (np.arange(40) % 2)[:, None]
    ensemble = MixtureEnsemble(members=[FeatureAgglomeration(2), KMeans(2)], random_state=0)
    with pytest.warns(EvidenceWarning, match=r"labels of shape \(3,\) for 40 objects"):
        ensemble.fit(X)
    assert [each.algorithm for each in ensemble.failures_] == ["FeatureAgglomeration"]


def test_what_members_warn_of_is_not_passed_on():
    class Loud(KMeans):
        def fit(self, X, y=None, sample_weight=None):
            warnings.warn("of a member", FutureWarning, stacklevel=2)
            return super().fit(X, y, sample_weight)

    X = np.random.default_rng(0).normal(size=(60, 2)) + 9.0 * (np.arange(60) % 2)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MixtureEnsemble(members=[Loud(2), Loud(3)], random_state=0).fit(X)


def test_a_member_of_more_clusters_than_objects_is_named():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(UserWarning, match="KMeans: more clusters than the 40 different objects"):
        MixtureEnsemble(members=[KMeans(50, n_init=1), KMeans(2)], random_state=0).fit(X)
