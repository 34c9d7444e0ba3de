"""The number of clusters by one spectrum: its oracle, weights, noise and blocks."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons

from sfumato import (
    CompletelyPositiveFactorization,
    PairwiseProbabilisticClustering,
    SpectralClustering,
)
from sfumato.array.warn import EvidenceWarning
from sfumato.datasets import make_gaussians
from sfumato.engine.numbers import noise_level, number_scores, reading
from sfumato.metrics import adjusted_rand_index
from sfumato.similarity import Factored, knn

MODELS = [
    SpectralClustering,
    PairwiseProbabilisticClustering,
    CompletelyPositiveFactorization,
]


def blocks(sizes, between=0.02, seed=0):
    """A noisy similarity with blocks of these sizes."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    W = np.where(labels[:, None] == labels, 0.9, between)
    noise = np.random.default_rng(seed).uniform(0.0, 0.02, W.shape)
    return W + noise + noise.T, labels


def slow_scores(W, largest):
    """The formulas one after another, on all eigenvectors."""
    degree = W.sum(axis=1)
    values, vectors = np.linalg.eigh(W / np.sqrt(np.outer(degree, degree)))
    values, vectors = values[::-1], vectors[:, ::-1]
    edges = W.sum() ** 2 / (W**2).sum() / 2
    scores = {}
    for k in range(2, largest + 1):
        Z = vectors[:, :k] / np.linalg.norm(vectors[:, :k], axis=1, keepdims=True)
        U = reading(Z, np.ones(len(Z)))
        misfit = np.square(Z @ Z.T - U @ U.T).sum() / np.square(Z @ Z.T).sum()
        most = min(1 - values[k] + k / edges, max(values[k - 1], 0.05))
        gap = (values[k - 1] - values[k]) / most
        scores[k] = gap * max(0.0, 1 - 10 * misfit)
    return scores


def test_scores_are_those_of_the_formulas():
    W, _ = blocks([30, 20, 25])
    expected = slow_scores(W, 6)
    for given in (W, sp.csr_array(W)):
        found = number_scores(given, None, 6)
        assert list(found) == list(expected)
        np.testing.assert_allclose(list(found.values()), list(expected.values()), atol=1e-6)
    assert max(expected, key=expected.get) == 3


def test_a_factored_similarity_has_the_scores_of_its_matrix():
    F = np.random.default_rng(0).random((40, 3)) + 4 * np.eye(3)[np.arange(40) % 3]
    found, expected = (number_scores(W, None, 3) for W in (Factored(F), F @ F.T))
    np.testing.assert_allclose(list(found.values()), list(expected.values()), atol=1e-6)


def test_a_weight_is_so_many_copies():
    W, _ = blocks([8, 6, 7])
    weights = np.random.default_rng(0).integers(1, 4, len(W)).astype(float)
    rows = np.repeat(np.arange(len(W)), weights.astype(int))
    found = number_scores(W, weights, 5)
    expected = number_scores(W[np.ix_(rows, rows)], None, 5)
    np.testing.assert_allclose(list(found.values()), list(expected.values()), atol=0.02)


def test_a_reading_of_blocks_is_one_hot():
    labels = np.repeat([0, 1, 2], 5)
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    U = reading(np.eye(3)[labels] @ turned, np.ones(15))
    np.testing.assert_allclose(U.max(axis=1), 1, atol=1e-12)
    assert len(set(zip(labels, U.argmax(axis=1), strict=True))) == 3


@pytest.mark.parametrize("model", MODELS)
def test_the_number_of_blocks_is_found_in_a_similarity(model):
    W, labels = blocks([20, 20, 15, 12])
    fitted = model(similarity="precomputed", random_state=0).fit(W)
    assert fitted.n_clusters_ == 4
    assert len(set(zip(labels, fitted.labels_, strict=True))) == 4
    given = model(4, similarity="precomputed", random_state=0).fit(W)
    np.testing.assert_array_equal(fitted.memberships_, given.memberships_)


@pytest.mark.parametrize("model", MODELS)
def test_noise_has_one_cluster_and_one_warning(model):
    X = np.random.default_rng(0).normal(size=(200, 3))
    with pytest.warns(EvidenceWarning, match="no number of clusters scores above noise") as all_:
        fitted = model(random_state=0).fit(X)
    assert fitted.n_clusters_ == 1
    assert len(all_) == 1
    assert fitted.selection_.distribution[1] == max(fitted.selection_.distribution.values())


def test_noise_level_falls_to_its_floor():
    assert noise_level(38) > noise_level(100) > noise_level(150) == noise_level(10_000) == 0.2


def test_groups_in_groups_show_as_levels():
    centers = 12.0 * np.array([[0, 0], [1, 0], [0, 1]])
    fine = np.concatenate([centers + shift for shift in ([-1.5, 0], [1.5, 0])])
    X = np.repeat(fine, 40, axis=0) + 0.6 * np.random.default_rng(0).normal(size=(240, 2))
    model = SpectralClustering(3, random_state=0).fit(X)
    shown = {level.n_clusters for level in model.levels_ if level.shown}
    assert 6 in shown
    six = model.at(6).argmax(axis=1)
    assert adjusted_rand_index(np.repeat(np.arange(6), 40), six) > 0.9
    np.testing.assert_array_equal(model.at(3), model.memberships_)


def test_two_moons_and_unconnected_groups():
    X, _ = make_moons(200, noise=0.05, random_state=0)
    assert SpectralClustering(random_state=0).fit(X).n_clusters_ == 2
    X = make_gaussians(160, 8, separation=7, random_state=0).evidence
    assert SpectralClustering(random_state=0).fit(X).n_clusters_ == 8


def test_a_measured_part_of_a_similarity_is_enough():
    W, _ = blocks([20, 20, 15])
    gaps = np.triu(np.random.default_rng(0).random(W.shape) < 0.2, 1)
    W[gaps | gaps.T] = np.nan
    assert SpectralClustering(similarity="precomputed", random_state=0).fit(W).n_clusters_ == 3


def test_scores_of_a_graph_of_neighbours_do_not_depend_on_the_order():
    X = make_gaussians(120, 4, separation=6, random_state=1).evidence
    order = np.random.default_rng(0).permutation(len(X))
    one, other = (number_scores(knn(Y), None, 8) for Y in (X, X[order]))
    np.testing.assert_allclose(list(one.values()), list(other.values()), atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_a_sequence_of_numbers_is_searched(model):
    X = make_gaussians(120, 4, separation=8, random_state=1).evidence
    fitted = model([2, 4, 7], random_state=0).fit(X)
    assert fitted.n_clusters_ == 4
    assert [row.n_clusters for row in fitted.selection_.table] == [2, 4, 7]
    given = model(4, random_state=0).fit(X)
    np.testing.assert_allclose(fitted.memberships_, given.memberships_, atol=1e-6)
    noise = np.random.default_rng(0).normal(size=(120, 2))
    with pytest.warns(EvidenceWarning, match="one cluster is the answer"):
        assert model([1, 2, 3], random_state=0).fit(noise).n_clusters_ == 1
    with pytest.raises(ValueError, match="empty sequence"):
        model([]).fit(X)
    with pytest.raises(TypeError, match="sample_weight|positional"):
        model(2).fit(X, None, np.ones(120))


@pytest.mark.parametrize("model", MODELS)
def test_clusters_come_by_size_whatever_the_order_of_the_objects(model):
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], (20, 60, 40))
    X = rng.normal(size=(120, 2)) + 20.0 * np.eye(3)[group][:, :2]
    fitted = model(3, random_state=0).fit(X)
    np.testing.assert_array_equal(np.bincount(fitted.labels_), [60, 40, 20])
    order = rng.permutation(120)
    again = model(3, random_state=0).fit(X[order])
    np.testing.assert_array_equal(again.labels_, fitted.labels_[order])
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    some = np.where(np.arange(120) % 10 == 0, group, -1)
    np.testing.assert_array_equal(model(3, random_state=0).fit(X, some).labels_, group)
