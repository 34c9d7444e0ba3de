"""Links without weights are kept by every model, wherever labels can keep them all."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

import sfumato
from sfumato import EvidenceWarning
from sfumato.data.constraints import Known
from sfumato.engine.linked import colouring, keep_links

MODELS = {
    "pairwise": lambda: sfumato.PairwiseProbabilisticClustering(3, random_state=0),
    "spectral": lambda: sfumato.SpectralClustering(3, random_state=0),
    "factorization": lambda: sfumato.CompletelyPositiveFactorization(3, random_state=0),
    "consensus": lambda: sfumato.EvidenceAccumulation(3, random_state=0),
    "fuzzy": lambda: sfumato.FuzzyCMeans(3, random_state=0),
    "gaussian": lambda: sfumato.GaussianMixture(3, covariance_type="VVI", random_state=0),
    "student": lambda: sfumato.StudentMixture(3, covariance_type="VVI", random_state=0),
    "factor": lambda: sfumato.FactorMixture(3, n_factors=1, random_state=0),
    "mixed": lambda: sfumato.MixedMixture(3, random_state=0),
    "directional": lambda: sfumato.DirectionalMixture(3, random_state=0),
    "dirichlet": lambda: sfumato.DirichletProcessMixture(random_state=0),
}


def drawn(seed, against_the_data):
    """Features, and feasible links: of the true groups, or of labels that know nothing of them."""
    rng = np.random.default_rng(seed)
    X, y = make_blobs(80, centers=3, cluster_std=3.0, random_state=seed)
    z = rng.integers(3, size=80) if against_the_data else y
    pairs = rng.integers(0, 80, (20, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = z[pairs[:, 0]] == z[pairs[:, 1]]
    return X, pairs[same], pairs[~same]


def check_kept(make, seed, against_the_data):
    X, together, apart = drawn(seed, against_the_data)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = make().fit(X, must_link=together, cannot_link=apart)
    U, labels = model.memberships_, model.labels_
    np.testing.assert_array_equal(U[together[:, 0]], U[together[:, 1]])
    assert (labels[apart[:, 0]] != labels[apart[:, 1]]).all()
    np.testing.assert_array_equal(U.argmax(axis=1), labels)
    np.testing.assert_allclose(U.sum(axis=1), 1.0, atol=1e-12)
    assert not any("cannot_link" in str(each.message) for each in said)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("against_the_data", [False, True])
def test_feasible_links_are_kept(name, against_the_data):
    check_kept(MODELS[name], 1, against_the_data)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_drawn_sets_of_feasible_links_are_kept(name):
    for seed in range(100):
        check_kept(MODELS[name], seed, against_the_data=seed % 2 == 1)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_labels_are_found_wherever_there_are_any(seed, k):
    rng = np.random.default_rng(seed)
    s = 6
    preference = rng.normal(size=(s, k))
    pairs = [(a, b) for a in range(s) for b in range(a) if rng.random() < 0.5]
    labels = np.where(rng.random(s) < 0.2, rng.integers(k, size=s), -1)
    beside = [np.array([b for p in pairs if a in p for b in p if b != a], int) for a in range(s)]
    allowed = [
        sum(preference[np.arange(s), list(z)])
        for z in itertools.product(range(k), repeat=s)
        if all(z[a] != z[b] for a, b in pairs)
        and all(label in (-1, own) for label, own in zip(labels, z, strict=True))
    ]
    found = colouring(preference, beside, labels)
    assert (found is None) == (not allowed)
    if found is not None:
        assert all(found[a] != found[b] for a, b in pairs)
        assert (found == labels)[labels >= 0].all()
        assert preference[np.arange(s), found].sum() <= max(allowed) + 1e-12


def test_the_best_labels_of_a_pair_are_taken():
    known = Known.of(None, [[0, 1]], None, np.zeros((3, 1)), 2)
    U = keep_links(known, np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]]))
    np.testing.assert_allclose(U, [[1.0, 0.0], [0.0, 1.0], [0.6, 0.4]])


def test_memberships_that_keep_the_links_stay_as_they_are():
    known = Known.of([[0, 2]], [[0, 1]], None, np.zeros((3, 1)), 2)
    U = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    assert keep_links(known, U) is U


def test_labels_of_a_planted_colouring_of_many_units_are_found(rng):
    s = 200
    z = rng.integers(3, size=s)
    pairs = rng.integers(0, s, (700, 2))
    pairs = pairs[z[pairs[:, 0]] != z[pairs[:, 1]]]
    U = keep_links(Known.of(None, pairs, None, np.zeros((s, 1)), 3), rng.dirichlet(np.ones(3), s))
    labels = U.argmax(axis=1)
    assert (labels[pairs[:, 0]] != labels[pairs[:, 1]]).all()


def test_equal_rows_can_be_apart():
    X = np.repeat(make_blobs(30, centers=3, random_state=0)[0], 2, axis=0)
    model = sfumato.PairwiseProbabilisticClustering(3, random_state=0)
    labels = model.fit(X, cannot_link=[[0, 1]]).labels_
    assert labels[0] != labels[1]


@pytest.mark.parametrize("name", MODELS)
def test_links_and_labels_go_with_auto(name):
    centers = [[9, 0], [0, 9], [-9, -9]]  # in directions of their own, too
    X, y = make_blobs(90, centers=centers, cluster_std=0.5, random_state=0)
    rows = np.flatnonzero(y == 0)
    labels = np.full(90, -1)
    labels[rows[4:6]] = 1
    model = MODELS[name]().set_params(n_clusters="auto", max_clusters=5)
    model.fit(X, labels, must_link=[rows[:2]], cannot_link=[rows[2:4]])
    assert np.unique(model.labels_).size >= 3
    np.testing.assert_array_equal(model.memberships_[rows[0]], model.memberships_[rows[1]])
    assert model.labels_[rows[2]] != model.labels_[rows[3]]
    assert model.labels_[rows[4]] == model.labels_[rows[5]]
    assert model.get_params()["n_clusters"] == "auto"
    if name != "dirichlet":  # has a posterior of the number in place of a choice
        assert model.n_clusters_ == model.selection_.n_clusters


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_one_link_apart_is_kept_where_auto_finds_one_cluster(name, rng):
    X = rng.normal(size=(80, 2))
    model = MODELS[name]().set_params(n_clusters="auto", max_clusters=3)
    model.fit(X, cannot_link=[[0, 1]])
    assert model.labels_[0] != model.labels_[1]
    new = model.predict_proba(X[:5])
    assert new.shape == (5, model.n_clusters_)


def test_links_that_no_labels_can_keep_are_named():
    X = make_blobs(30, centers=3, random_state=0)[0]
    apart = [(a, b) for a in range(4) for b in range(a)]
    with pytest.warns(EvidenceWarning, match="cannot_link"):
        sfumato.SpectralClustering(3, random_state=0).fit(X, cannot_link=apart)
