"""Feature scales learnt from known partitions."""

import numpy as np
import pytest

from sfumato import SpectralClustering
from sfumato.metrics import matched_accuracy
from sfumato.similarity import gaussian, learn_scales


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
    with pytest.raises(ValueError, match="at least 2 clusters"):
        learn_scales(X, np.zeros(20))
    with pytest.raises(ValueError, match="same features"):
        learn_scales([X, X[:, :2]], [y, y])
    with pytest.raises(ValueError, match="inconsistent"):
        learn_scales(X, y[:5])
    with pytest.raises(ValueError, match="penalty"):
        learn_scales(X, y, penalty=-1)
