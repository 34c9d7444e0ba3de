"""Clusters among axes of noise: which axes mixtures are fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from sfumato import EvidenceAccumulation
from sfumato.models.consensus.components import gain, one_gaussian
from sfumato.models.consensus.informative import informative
from sfumato.models.consensus.mixtures import MixtureEnsemble, Stock
from sfumato.numerics.axes import fit_axes, leading, turned


def corners(n=400, n_noise=12, seed=0):
    """Four groups six deviations apart in two features, and features of noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    X = 6.0 * np.column_stack([y & 1, y >> 1]) + rng.normal(size=(n, 2))
    return np.hstack([X, rng.normal(size=(n, n_noise))]), y


def chosen(X):
    axes, seeds, mixtures = fit_axes(X, 20), np.arange(4), MixtureEnsemble()
    stock = Stock.of(X, axes, None)
    known = axes, stock, mixtures._members(stock, seeds)
    return axes, informative(mixtures, X, known, seeds, None)


def test_clusters_among_many_features_of_noise_are_found():
    X, y = corners()
    fitted = EvidenceAccumulation(4, random_state=0).fit(X)
    assert adjusted_rand_score(y, fitted.labels_) > 0.95


@pytest.mark.slow
def test_the_number_of_clusters_among_features_of_noise_is_found():
    X, y = corners(800, n_noise=18)
    fitted = EvidenceAccumulation("auto", random_state=0).fit(X)
    assert adjusted_rand_score(y, fitted.labels_) > 0.95


def test_mixtures_are_fitted_on_the_axes_with_clusters():
    X, y = corners()
    _, (found, stock, members) = chosen(X)
    assert found.projection.shape == (14, 2)
    assert stock.Y.shape == (400, 2)
    assert gain(members, 2) > 0 > gain(chosen(X[:, 2:])[1][2], 12)
    # nearly all of the variance, which is one, lies between the groups
    means = np.stack([found(X)[y == group].mean(axis=0) for group in range(4)])
    assert np.square(means).mean(axis=0).min() > 0.8


def test_noise_keeps_all_its_axes():
    X = np.random.default_rng(1).normal(size=(300, 10))
    axes, (found, _, _) = chosen(X)
    assert found is axes


def test_turned_axes_are_the_same_space_and_the_same_for_mixed_features():
    X, _ = corners()
    axes = fit_axes(X, 20)
    ordered = turned(axes, axes(X))
    assert np.allclose(np.cov(ordered(X).T, bias=True), np.eye(14), atol=1e-8)
    mixing = np.random.default_rng(2).normal(size=(14, 14))
    other = fit_axes(X @ mixing, 20)
    first = leading(ordered, ordered(X), 2)(X)
    second = turned(other, other(X @ mixing))(X @ mixing)[:, :2]
    correlations = np.linalg.svd(first.T @ second / len(X), compute_uv=False)
    assert correlations.min() > 0.999


def test_the_gain_of_one_gaussian_is_none():
    X = np.random.default_rng(0).normal(size=(5000, 3))
    axes = fit_axes(X, 20)
    members = MixtureEnsemble(n_components=1)._members(Stock.of(X, axes, None), np.arange(3))
    assert abs(gain(members, 3)) < 0.1
    assert one_gaussian(3) == pytest.approx(-1.5 * (1 + np.log(2 * np.pi)))
