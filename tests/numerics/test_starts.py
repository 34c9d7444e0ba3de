"""The sample that mixtures start from."""

import numpy as np

from sfumato.array.rows import Rows
from sfumato.numerics.distances import measure
from sfumato.numerics.seeding import feature_sample


def trimmed(X):
    coordinates = measure(Rows(X, None), per_feature=True, mix=False)
    sample = feature_sample(X, None, coordinates, missing=False, trimmed=True)
    return sample.X / coordinates.scale + coordinates.shift, sample.bulk


def test_the_bulk_is_what_lies_within_five_median_deviations():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(101, 2))
    X[:6, 1] += np.array([-60.0, -40.0, -20.0, 20.0, 40.0, 60.0])
    seen, bulk = trimmed(X)
    middle = np.median(X, axis=0)
    spread = 1.4826 * np.median(np.abs(X - middle), axis=0)
    far = seen[~bulk]
    assert len(far) == 6
    assert (np.abs(far - middle) > 5 * spread).any(axis=1).all()


def test_a_feature_that_is_mostly_constant_makes_no_outliers():
    """Its median deviation is zero, and every object with another value would be far."""
    X = np.random.default_rng(0).normal(size=(101, 2))
    X[:, 1] = np.arange(101) < 15
    assert trimmed(X)[1] is None
