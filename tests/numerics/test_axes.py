"""Axes that do not depend on units: whitened, and round among near neighbours."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from sfumato.numerics.axes import fit_axes


@pytest.mark.parametrize("mean", [0.25, 1.0, 9.0])
@pytest.mark.parametrize("n_axes", [3, 8])
def test_weighted_objects_are_white_whatever_the_size_of_the_weights(mean, n_axes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) @ rng.normal(size=(5, 5)) + 3.0
    weights = rng.random(80) + 0.1
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
