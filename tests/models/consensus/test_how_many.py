"""How many clusters: what kinds of evidence, or the labelings that were given, agree on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from sfumato import EvidenceAccumulation
from sfumato.memberships import entropy, one_hot
from sfumato.models.consensus import mixtures as em
from sfumato.models.consensus import soft
from sfumato.selection.criteria import mean_agreement
from tolerances import stopped


def test_few_groups_in_many_features_are_found():
    rng = np.random.default_rng(0)
    truth = np.repeat(range(3), 100)
    X = rng.normal(size=(300, 50)) + rng.normal(size=(3, 50))[truth]
    model = EvidenceAccumulation(random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(truth, model.labels_) > 0.9


def test_a_few_coarse_labelings_are_agreed_with():
    X, _ = make_blobs(600, 2, centers=8, random_state=3)
    runs = [KMeans(k, n_init=1, random_state=k).fit(X).labels_ for k in (5, 8, 12)]
    model = EvidenceAccumulation(ensemble="precomputed", random_state=0).fit(np.stack(runs, axis=1))
    assert 5 <= model.n_clusters_ <= 12
    assert min(adjusted_rand_score(run, model.labels_) for run in runs) > 0.4


def test_mean_agreement_is_the_mean_over_what_each_partition_saw():
    rng = np.random.default_rng(0)
    partitions, labels = rng.integers(-1, 3, size=(60, 4)), rng.integers(3, size=60)
    partitions[:, :2] = np.where(partitions[:, :2] < 0, -1, labels[:, None])
    weights = np.array([3.0, 1.0, 2.0, 1.0])
    each = [
        adjusted_rand_score(partitions[seen, b], labels[seen])
        for b, seen in enumerate((partitions >= 0).T)
    ]
    expected = np.average(each, weights=weights)
    # Pairs of an object with itself count too: a share of 1 / n of them all.
    found = mean_agreement(partitions, labels, weights, np.ones(60))
    assert found == pytest.approx(expected, abs=2 / 60)
    mass = rng.integers(1, 4, size=60)
    copies = np.repeat(np.arange(60), mass)
    again = mean_agreement(partitions[copies], labels[copies], weights, np.ones(len(copies)))
    assert mean_agreement(partitions, labels, weights, mass) == pytest.approx(again)
    many = np.repeat(np.arange(60), 500)
    each = [
        adjusted_rand_score(partitions[many[seen[many]], b], labels[many[seen[many]]])
        for b, seen in enumerate((partitions >= 0).T)
    ]
    assert found == pytest.approx(np.average(each, weights=weights), abs=1e-3)


@pytest.mark.parametrize("k", [2, 5])
def test_information_is_one_for_even_crisp_clusters_and_zero_for_vague_ones(k):
    crisp = one_hot(np.arange(20) % k, k)
    assert soft._information(crisp, None) == pytest.approx(1.0)
    assert soft._information(np.full((20, k), 1 / k), None) == pytest.approx(0.0, abs=1e-12)
    mass = np.random.default_rng(0).uniform(size=20)
    U = np.random.default_rng(1).dirichlet(np.ones(k), size=20)
    mean = np.average(U, axis=0, weights=mass)
    expected = entropy(mean[None])[0] - np.average(entropy(U), weights=mass)
    assert soft._information(U, mass) == pytest.approx(expected / np.log(k))


def test_noise_of_more_objects_reaches_less():
    levels = [soft.noise_score(n) for n in (10, 100, 400, 1500, 100_000)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] == 0.5
    assert levels[-2] == levels[-1]
    assert levels[1] == pytest.approx(2 * levels[2])


def test_a_number_that_cuts_off_strays_scores_less_than_one_of_even_clusters():
    even, strays = np.repeat([0, 1], 50), np.repeat([0, 1], [97, 3])
    clusters = [one_hot(labels, 2) for labels in (even, strays)]
    scores = [soft.reader_of(U, U, np.ones(100)).worth(0.9) for U in clusters]
    assert scores[0] == pytest.approx(0.9)
    assert scores[1] < 0.3 * scores[0]


def test_levels_of_labelings_join_what_some_of_these_join():
    """Hard clusters that never overlap: three labelings tell nine apart, two only three."""
    coarse = np.repeat(np.arange(9) % 3, 10)
    L = np.column_stack([np.repeat(np.arange(9), 10)] * 3 + [coarse] * 2)
    model = EvidenceAccumulation(9, ensemble="precomputed", random_state=0).fit(L)
    assert adjusted_rand_score(coarse, model.at(3).argmax(axis=1)) == 1.0


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize("n_clusters", ["auto", 3])
def test_levels_go_on_to_the_finest_number_that_a_kind_of_evidence_supports(n_clusters, rng):
    """Three clusters, each of which has three parts."""
    coarse = 14 * np.array([[0, 0], [1, 0], [0.4, 1]])
    fine = np.concatenate([coarse + shift for shift in ([-2.2, 0], [2.2, 0], [0, 2.6])])
    X = np.repeat(fine, 40, axis=0) + rng.normal(size=(360, 2))
    model = EvidenceAccumulation(n_clusters, random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert {3, 9} <= {level.n_clusters for level in model.levels_ if level.shown}
    np.testing.assert_allclose(model.at(9).sum(axis=1), 1.0)
    assert adjusted_rand_score(np.repeat(np.arange(9), 40), model.at(9).argmax(axis=1)) > 0.9
    parents = np.array(next(level.parents for level in model.levels_ if level.n_clusters == 3))
    finest = model.at(len(model.levels_))
    sums = np.stack([finest[:, parents == r].sum(axis=1) for r in range(3)], axis=1)
    np.testing.assert_allclose(sums, model.memberships_, atol=1e-12)
    new = model.predict_proba(X[:5], n_clusters=9)
    np.testing.assert_allclose(new, model.at(9)[:5], atol=1e-9)


def test_what_a_family_of_mixtures_fails_with_reaches_the_user(monkeypatch):
    def full(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(em, "fit_all", full)
    with pytest.raises(MemoryError, match="no room"):
        EvidenceAccumulation(2, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 2)))


@pytest.mark.parametrize("made", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_the_number_of_sparse_features_is_that_of_dense_ones(made):
    rng = np.random.default_rng(0)
    X = np.repeat(8 * rng.normal(size=(3, 3)), 20, axis=0) + rng.normal(size=(60, 3))
    dense = EvidenceAccumulation(random_state=0).fit(X)
    sparse = EvidenceAccumulation(np.array([2, 3, 4]), random_state=0).fit(made(X))
    assert dense.n_clusters_ == sparse.n_clusters_ == 3
    np.testing.assert_allclose(sparse.memberships_, dense.memberships_, atol=stopped(dense))


def test_a_list_of_numbers_has_no_larger_ones_to_advise():
    X = np.random.default_rng(0).normal(size=(40, 2)) + 9 * (np.arange(40) % 2)[:, None]
    assert not EvidenceAccumulation([2], random_state=0).fit(X).notes_
