"""The number of clusters of a few objects: noise is one cluster, clear groups are found."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sfumato import (
    EvidenceAccumulation,
    FactorMixture,
    FuzzyCMeans,
    GaussianMixture,
    MixedMixture,
    SpectralClustering,
)
from sfumato.engine.numbers import few_scores
from sfumato.engine.structure import count_distinct, has_few


def number(X, weights=None):
    return int(np.argmax(few_scores(X, weights))) + 1


@pytest.mark.parametrize("draw", ["normal", "uniform"])
@pytest.mark.parametrize("n", [14, 24, 45])
def test_noise_is_rarely_cut(draw, n):
    found = []
    for seed in range(20):
        rng = np.random.default_rng([n, seed])
        found.append(number(getattr(rng, draw)(size=(n, 1 + seed % 4))))
    assert np.sum(np.array(found) > 1) <= 3  # more than 3 of 20 at a rate of 5 %: 1.6 %


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_long_tail_is_rarely_cut(sign):
    draws = [np.random.default_rng([49, seed]).exponential(size=(49, 2)) for seed in range(25)]
    found = [number(sign * X) for X in draws]
    assert np.sum(np.array(found) > 1) <= 5  # a quarter was cut where clouds were uniform alone


def test_unequal_groups_are_told_from_a_long_tail():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(36, 2)) + 8.0 * (np.arange(36) < 9)[:, None]
        assert number(X) == number(-X) == 2


@pytest.mark.parametrize(("n", "k"), [(14, 2), (24, 3), (45, 4)])
def test_clear_groups_are_found(n, k):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2)) + 9.0 * np.eye(4)[np.arange(n) % k][:, :2] * [1, 2]
    X[:, 0] += 9.0 * (np.arange(n) % k)
    assert number(X) == k
    assert number(1e3 * X + 5.0) == k
    X[0, 0] = np.nan
    assert number(X) == k


def test_a_third_of_iris_is_two_groups():
    X = load_iris().data
    assert [number(X[first::3][:45]) for first in range(3)] == [2, 2, 2]


def test_weights_are_copies():
    X = np.random.default_rng(0).normal(size=(16, 2))
    weights = np.arange(16) % 3
    np.testing.assert_allclose(few_scores(X, weights), few_scores(np.repeat(X, weights, axis=0)))


def test_different_rows_are_counted_up_to_a_bound():
    X = np.repeat(np.arange(4.0)[:, None], 700, axis=0)
    assert count_distinct(X, 3) == 3
    assert count_distinct(X, 9) == 4
    assert has_few(X)
    assert not has_few(np.arange(60.0)[:, None])


@pytest.mark.parametrize("model", [FuzzyCMeans, SpectralClustering, EvidenceAccumulation])
def test_auto_of_a_few_objects(model):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 2))
    with pytest.warns(UserWarning, match="one cluster is the answer"):
        assert model(random_state=0).fit(noise).n_clusters_ == 1
    groups = noise + 12.0 * (np.arange(40) % 2)[:, None]
    assert model(random_state=0).fit(groups).n_clusters_ == 2


@pytest.mark.parametrize(
    "model",
    [
        FuzzyCMeans,
        SpectralClustering,
        EvidenceAccumulation,
        GaussianMixture,
        MixedMixture,
        FactorMixture,
    ],
)
def test_equal_rows_are_one_cluster_and_a_warning_says_so(model):
    with pytest.warns(UserWarning, match="one cluster is the answer"):
        assert model(random_state=0).fit(np.ones((12, 2))).n_clusters_ == 1


@pytest.mark.parametrize(
    "model", [FuzzyCMeans, EvidenceAccumulation, GaussianMixture, MixedMixture]
)
def test_copies_of_two_points_are_two_clusters(model):
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 60, axis=0)
    found = model(random_state=0).fit(X)
    assert found.n_clusters_ == 2
    np.testing.assert_array_equal(found.labels_ == found.labels_[0], X[:, 0] == 0)
