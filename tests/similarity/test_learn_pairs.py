"""The cost of known pairs against slow loops and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from sfumato import EvidenceWarning, SpectralClustering
from sfumato.similarity import gaussian, pair_cost_gradient

MUST = [(0, 1), (3, 4), (5, 9)]
CANNOT = [(0, 5, 2.0), (2, 7, 0.5)]


def similarity(rng, n=12):
    W = rng.random((n, n))
    return W + W.T


def slow_cost(W, k):
    d = W.sum(axis=1)
    E = np.linalg.eigh(W / np.sqrt(np.outer(d, d)))[1][:, -k:]
    total = 0.0
    for i, j in MUST:
        total += (1 - E[i] @ E[j] / np.sqrt((E[i] @ E[i]) * (E[j] @ E[j]))) ** 2
    for i, j, w in CANNOT:
        total += w * (E[i] @ E[j]) ** 2 / ((E[i] @ E[i]) * (E[j] @ E[j]))
    return total / (len(MUST) + 2.5)


@pytest.mark.parametrize("k", [2, 3, 11])
def test_cost_is_that_of_a_slow_loop_and_the_gradient_that_of_differences(k):
    rng = np.random.default_rng(k)
    W = similarity(rng)
    cost, G = pair_cost_gradient(W, k, must_link=MUST, cannot_link=CANNOT)
    assert cost == pytest.approx(slow_cost(W, k), rel=1e-10)
    np.testing.assert_allclose(G, G.T)
    for _ in range(5):
        change = similarity(rng) - 1.0
        up, down = (slow_cost(W + h * change, k) for h in (1e-6, -1e-6))
        assert (up - down) / 2e-6 == pytest.approx(float(np.sum(G * change)), rel=1e-5, abs=1e-9)


def test_weights_of_two_similarities_are_learnt_from_pairs():
    """Two views of the same objects, one of which says nothing of the clusters."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    good, bad = (
        gaussian(5.0 * np.eye(3)[labels] + rng.normal(size=(60, 3)), bandwidth=2.0)
        for labels in (y, rng.permutation(y))
    )
    pairs = rng.integers(60, size=(40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]

    def objective(t):
        w = np.exp(t)
        cost, G = pair_cost_gradient(
            w[0] * good + w[1] * bad, 3, must_link=pairs[same], cannot_link=pairs[~same]
        )
        return cost, w * [np.sum(G * good), np.sum(G * bad)]

    start = np.log([0.3, 1.0])
    end = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-5, 5)] * 2)
    scores = []
    for t in (start, end.x):
        W = np.exp(t[0]) * good + np.exp(t[1]) * bad
        model = SpectralClustering(3, similarity="precomputed", random_state=0).fit(W)
        scores.append(adjusted_rand_score(y, model.labels_))
    assert scores[0] < 0.5 < 0.9 < scores[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "must_link or cannot_link must hold a pair"),
        ({"must_link": [(0, 0)]}, "pairs row 0 with itself"),
        ({"must_link": [(0, 99)]}, "has row number 99"),
        ({"must_link": [(0, 1)], "n_clusters": 12}, "n_clusters"),
    ],
)
def test_what_cannot_be_learnt_from_is_named(arguments, words):
    W = similarity(np.random.default_rng(0))
    with pytest.raises(ValueError, match=words):
        pair_cost_gradient(W, **{"n_clusters": 2, **arguments})


def test_an_object_without_similarities_is_named():
    W = similarity(np.random.default_rng(0))
    W[3] = W[:, 3] = 0.0
    with pytest.raises(ValueError, match="object 3 has no similarity"):
        pair_cost_gradient(W, 2, must_link=MUST)


@pytest.mark.parametrize("kind", ["narrow", "identity", "graph"])
def test_more_pieces_than_clusters_give_finite_numbers_and_a_warning(kind):
    X = load_iris().data
    W = {
        "narrow": gaussian(X, bandwidth=0.05),
        "identity": np.eye(150),
        "graph": (gaussian(X, bandwidth=0.5) > 0.5).astype(float),
    }[kind]
    pairs = {"must_link": [[0, 1]], "cannot_link": [[0, 100]]}
    with pytest.warns(EvidenceWarning, match="more connected components than n_clusters"):
        cost, G = pair_cost_gradient(W, 3, **pairs)
    assert 0.0 <= cost <= 1.0
    assert np.isfinite(G).all()


def test_pairs_of_absent_objects_count_as_orthogonal():
    with pytest.warns(EvidenceWarning, match="objects 0, 1 of the pairs"):
        cost, G = pair_cost_gradient(np.eye(6), 3, must_link=[[0, 1]])
    assert cost == 1.0
    assert not G.any()


def test_too_few_objects_and_features_are_named():
    with pytest.raises(ValueError, match="of 3 objects or more, got 1"):
        pair_cost_gradient(np.eye(1), 2, must_link=[[0, 1]])
    with pytest.raises(ValueError, match=r"shape \(3, 4\); for features make one of them"):
        pair_cost_gradient(np.ones((3, 4)), 2, must_link=[[0, 1]])
