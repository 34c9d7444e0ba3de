"""Rounding an embedding: k-means from orthogonal rows, memberships, the spectral cost and its
gradient.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from sfumato.native import kmeans as native
from sfumato.numerics import eigen
from sfumato.similarity.learn import gaussian, neighbor_cost, scale_gradient, spectral_cost


def slow_cost(E, degree, labels):
    k = E.shape[1]
    Pi = np.zeros((len(labels), len(labels)))
    for r in range(k):
        q = np.where(labels == r, np.sqrt(degree), 0)
        if q.any():
            Pi += np.outer(q, q) / (q @ q)
    return 0.5 * np.linalg.norm(E @ E.T - Pi) ** 2


@pytest.mark.parametrize("labels", [np.arange(30) % 3, np.zeros(30, int)])
def test_spectral_cost_is_half_the_squared_distance_of_projections(rng, labels):
    E = np.linalg.qr(rng.normal(size=(30, 3)))[0]
    degree = rng.random(30) + 0.1
    assert eigen.spectral_cost(E, degree, labels, 3) == pytest.approx(
        slow_cost(E, degree, labels), abs=1e-12
    )


def test_spectral_cost_is_the_weighted_distortion(rng):
    E = np.linalg.qr(rng.normal(size=(40, 4)))[0]
    degree = rng.random(40) + 0.1
    Z, centers = E / np.sqrt(degree)[:, None], rng.normal(size=(4, 4))
    centers, _, history, _ = native.lloyd(Z, degree, centers, 100, 0.0)
    labels = eigen.squared_distances(Z, centers).argmin(axis=1)
    assert history[-1] == pytest.approx(eigen.spectral_cost(E, degree, labels, 4), abs=1e-10)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 6))
def test_distortion_never_rises(seed, k):
    rng = np.random.default_rng(seed)
    Z, weights = rng.normal(size=(20, 3)), rng.random(20)
    weights[:3] = 0
    centers = np.repeat(rng.normal(size=(1, 3)), k, axis=0)
    centers, _, history, _ = native.lloyd(Z, weights, centers, 15, 0.0)
    assert np.diff(history).max(initial=0.0) <= 1e-12
    assert np.isfinite(centers).all()


def test_orthogonal_rows_find_orthogonal_groups(rng):
    Z = np.eye(4)[np.arange(40) % 4] * rng.uniform(0.5, 2, (40, 1))
    Z[3] = 0
    for first in (0, 1, 2, 7):
        chosen = native.orthogonal_rows(Z, 4, [first])[0]
        assert sorted(i % 4 for i in chosen) == [0, 1, 2, 3]
        assert 3 not in chosen


def test_temperature_has_the_largest_likelihood(rng):
    distances, weights, q = rng.chisquare(3, (200, 3)), rng.random(200), 2

    def loss(log_t):
        t = np.exp(log_t)
        density = (1 + distances / t) ** (-(1 + q) / 2)
        return -(weights * (np.log(density.mean(axis=1)) - q / 2 * log_t)).sum()

    best = minimize_scalar(loss, bounds=(-6, 6), method="bounded", options={"xatol": 1e-10})
    assert np.log(eigen.temperature(distances, weights, q)) == pytest.approx(best.x, abs=1e-4)


@pytest.mark.parametrize(
    "distances",
    [np.zeros((5, 3)), np.eye(3)[[0, 1, 2, 0]] * 1e-300, 1 - np.eye(3), (1 - np.eye(3)) * 1e200],
)
def test_memberships_of_odd_distances(distances):
    t = eigen.temperature(distances, np.ones(len(distances)), 2)
    U = eigen.cauchy_memberships(distances, t, 2)
    np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)
    assert np.isfinite(U).all()
    np.testing.assert_array_equal(U.argmax(axis=1), distances.argmin(axis=1))


@pytest.mark.parametrize("cost", [spectral_cost, neighbor_cost])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_by_scales_agrees_with_differences(cost, seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(45) % 3
    X = rng.normal(size=(45, 4))
    X[:, 0] += labels
    log_scales, step = rng.normal(size=4) * 0.3, 1e-5
    _, gradient = scale_gradient(cost, X, labels, log_scales)
    for f, e in enumerate(np.eye(4) * step):
        difference = (
            scale_gradient(cost, X, labels, log_scales + e)[0]
            - scale_gradient(cost, X, labels, log_scales - e)[0]
        )
        assert gradient[f] == pytest.approx(difference / (2 * step), abs=1e-6)


def test_gradient_by_the_similarity_agrees_with_differences(rng):
    labels = np.arange(12) % 2
    W = gaussian(rng.normal(size=(12, 2)) + labels[:, None], bandwidth=1.0)
    value, slope = spectral_cost(W, labels)
    E = np.linalg.eigh(W / np.sqrt(np.outer(W.sum(axis=1), W.sum(axis=1))))[1][:, -2:]
    assert value == pytest.approx(slow_cost(E, W.sum(axis=1), labels), abs=1e-10)
    change = rng.normal(size=(12, 12))
    change += change.T
    difference = (
        spectral_cost(W + 1e-6 * change, labels)[0] - spectral_cost(W - 1e-6 * change, labels)[0]
    )
    assert (slope * change).sum() == pytest.approx(difference / 2e-6, abs=1e-6)


def test_gaussian_similarity(rng):
    X, scales = rng.normal(size=(6, 2)) + 100, np.array([0.5, 2.0])
    expected = np.exp(-0.5 * (((X[:, None] - X[None]) * scales) ** 2).sum(axis=2))
    np.testing.assert_allclose(gaussian(X * scales, bandwidth=1.0), expected, atol=1e-10)
