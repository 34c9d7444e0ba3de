"""Feature scales learnt from known partitions."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sfumato import SpectralClustering
from sfumato.metrics import matched_accuracy
from sfumato.similarity import gaussian, learn, learn_scales, spectral_cost_gradient


def rings(rng, n=80, n_noise=2):
    labels = np.arange(n) % 2
    radius, angle = labels + 1 + 0.1 * rng.normal(size=n), rng.uniform(0, 2 * np.pi, n)
    return np.column_stack(
        [radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=(n, n_noise))]
    ), labels


def accuracy(X, y, scales):
    return matched_accuracy(
        y,
        SpectralClustering(2, similarity="precomputed", random_state=0)
        .fit(gaussian(X * scales, bandwidth=1.0))
        .labels_,
    )


def test_rings_are_found_behind_noise(rng):
    sets = [rings(rng) for _ in range(2)]
    scales = learn_scales([X for X, _ in sets], [y for _, y in sets])
    assert scales[:2].min() > 5 * scales[2:].max()
    X, y = rings(rng, 300)
    assert accuracy(X, y, scales) > 0.95
    assert accuracy(X, y, np.full(4, 2.0)) < 0.8


def test_units_and_names_do_not_matter(rng):
    X, y = rings(rng, 50, 1)
    units = np.array([1e-3, 1.0, 1e3])
    expected = learn_scales(X, y, max_iter=20)
    np.testing.assert_allclose(
        learn_scales(X * units + 7, np.array(["in", "out"])[y], max_iter=20) * units,
        expected,
        rtol=1e-2,
    )


def test_a_constant_feature_is_harmless(rng):
    X, y = rings(rng, 40, 0)
    assert np.isfinite(learn_scales(np.column_stack([X, np.ones(40)]), y, max_iter=5)).all()


def test_errors_name_what_is_wrong(rng):
    X, y = rings(rng, 20)
    with pytest.raises(ValueError, match="2 to 19 clusters"):
        learn_scales(X, np.zeros(20))
    with pytest.raises(ValueError, match="same features"):
        learn_scales([X, X[:, :2]], [y, y])
    with pytest.raises(ValueError, match="inconsistent"):
        learn_scales(X, y[:5])
    with pytest.raises(ValueError, match="penalty"):
        learn_scales(X, y, penalty=-1)


def test_gradient_by_finite_differences(rng):
    n = 12
    W = rng.random((n, n)) + 0.05
    W += W.T
    labels = np.array([0, 0, 1, 1, 2, 2, 0, 1, 2, -1, -1, 0])
    value, G = spectral_cost_gradient(W, labels)
    assert 0 <= value <= 2
    np.testing.assert_array_equal(G, G.T)
    assert not G[9:11].any()
    for _ in range(10):
        change = rng.normal(size=(n, n))
        change += change.T
        up, down = (spectral_cost_gradient(W + h * change, labels)[0] for h in (1e-6, -1e-6))
        assert np.sum(G * change) == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_weights_of_two_views_are_learnt_from_some_labels(rng):
    y = np.repeat([0, 1], 40)
    good = gaussian(np.column_stack([3.0 * y, y]) + rng.normal(size=(80, 2)), bandwidth=1.0)
    bad = gaussian(rng.normal(size=(80, 2)), bandwidth=1.0)
    some = np.where(np.arange(80) % 4 == 0, y, -1)

    def cost(log_weights):
        weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        value, G = spectral_cost_gradient(weights[0] * good + weights[1] * bad, some)
        slope = np.array([np.sum(G * good), np.sum(G * bad)])
        return value, weights * (slope - weights @ slope)

    found = minimize(cost, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-5, 5)] * 2)
    assert found.fun < cost(np.zeros(2))[0]
    assert found.x[0] > found.x[1] + 1


def test_labels_that_say_nothing_are_named():
    W = np.ones((4, 4))
    with pytest.raises(ValueError, match="at least 2"):
        spectral_cost_gradient(W, [0, 0, -1, -1])
    with pytest.raises(ValueError, match="4 objects"):
        spectral_cost_gradient(W, [0, 1])
    with pytest.raises(ValueError, match="object 3"):
        spectral_cost_gradient(np.diag([1.0, 1.0, 1.0, 0.0]), [0, 1, 1, 0])


def test_the_penalised_cost_has_the_gradient_of_differences(rng):
    X, y, scales = rng.normal(size=(12, 2)), np.arange(12) % 2, np.array([0.3, -0.4])
    objective = learn._objective(spectral_cost_gradient, [(X, y)], 0.7)
    steps = 1e-5 * np.eye(2)
    expected = [(objective(scales + e)[0] - objective(scales - e)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(objective(scales)[1], expected, rtol=1e-5, atol=1e-8)
