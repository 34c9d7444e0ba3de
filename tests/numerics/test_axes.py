"""Axes that do not depend on units: whitened, and round among near neighbours."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from sfumato.numerics.axes import by_radius, fit_axes


@pytest.mark.parametrize("mean", [0.25, 1.0, 9.0])
@pytest.mark.parametrize("n_axes", [3, 8])
def test_weighted_objects_are_white_whatever_the_size_of_the_weights(mean, n_axes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5)) @ rng.normal(size=(5, 5)) + 3.0
    weights = rng.random(100) + 0.1
    weights *= mean / weights.mean()
    Y = fit_axes(X, n_axes, weights)(X)
    q, share = min(n_axes, 5), weights / weights.sum()
    np.testing.assert_allclose(share @ Y, np.zeros(q), atol=1e-10)
    np.testing.assert_allclose((Y.T * share) @ Y, np.eye(q), atol=1e-10)


def test_differences_between_near_neighbours_are_round():
    """Whitening makes long clusters beside each other flat; the second step undoes that."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * [1.0, 5.0]
    X[::2, 0] += 30.0
    axes = fit_axes(X, 2)
    R = axes(X) @ axes.near
    scatter = []
    for Z in (axes(X), R):
        D = (Z[:, None, :] - Z[cKDTree(R).query(R, 6)[1]]).reshape(-1, 2)
        scatter.append(np.linalg.eigvalsh(D.T @ D))
    white, near = (values[1] / values[0] for values in scatter)
    assert white > 20.0
    assert near < 1.5


@pytest.mark.parametrize("holes", [False, True])
def test_a_column_with_more_than_ten_times_the_spread_is_in_another_unit(holes):
    """Beyond that its unit does not matter; below it counts for as much as it varies."""
    X = np.random.default_rng(0).normal(size=(60, 8))
    X /= X.std(axis=0)
    X[:, 1:] *= np.linspace(0.8, 1.2, 7)  # median one

    def products(spread):
        scaled = X * np.where(np.arange(8) == 0, spread, 1.0)
        if holes:
            scaled[0, 7] = np.nan
        Y = fit_axes(scaled, 3)(scaled)
        return Y @ Y.T

    apart = products(1000.0)
    np.testing.assert_allclose(products(12.0), apart, atol=1e-4)
    assert np.abs(products(8.0) - apart).max() > 0.1


@pytest.mark.parametrize(("n", "q"), [(10, 2), (100, 5), (400, 10), (10_000, 12)])
def test_few_objects_have_fewer_axes(n, q):
    X = np.random.default_rng(0).normal(size=(n, 12))
    assert fit_axes(X, 20).projection.shape == (12, q)


@pytest.mark.parametrize(("noise", "q"), [(5e-4, 1), (5e-3, 15)])
def test_with_holes_directions_of_a_ten_millionth_of_the_variance_are_left_out(noise, q):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 1)) + noise * rng.normal(size=(900, 15))
    X[0, 0] = np.nan
    relative = np.linalg.eigvalsh(np.corrcoef(X[1:].T))[:-1] / 15.0
    assert (relative < 1e-7).all() if q == 1 else (relative > 1e-7).all()
    assert fit_axes(X, 20).projection.shape == (15, q)


def test_the_order_of_whitened_objects_is_that_of_their_norms():
    rng = np.random.default_rng(3)
    Y = rng.normal(size=(40, 3))
    order = by_radius(Y)
    assert (np.diff(np.linalg.norm(Y[order], axis=1)) > 0).all()
    turned, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    np.testing.assert_array_equal(by_radius(Y @ turned), order)
