"""The order in which starts see the objects."""

import numpy as np
import pytest

from sfumato.numerics import seeding


@pytest.mark.parametrize("d", [1, 2, 20])
@pytest.mark.parametrize("values", [2, 5, 1000])
def test_objects_are_sorted_by_all_features(d, values):
    """Ties of the first feature are broken by the others, as if all were sorted by them."""
    rng = np.random.default_rng(d)
    X = rng.integers(values, size=(300, d)).astype(float)
    X = np.vstack([X, X[::7]])
    np.testing.assert_array_equal(seeding.sort(X, None), np.lexsort(X.T[15::-1]))
    weights = rng.integers(2, size=len(X))
    kept = [i for i in np.lexsort(X.T[15::-1]) if weights[i] > 0]
    np.testing.assert_array_equal(seeding.sort(X, weights), kept)


def test_missing_values_come_last():
    X = np.array([[np.nan, 2.0], [1.0, 3.0], [np.nan, 1.0]])
    assert seeding.sort(X, None).tolist() == [1, 2, 0]


def test_nothing_to_sort():
    assert seeding.sort(np.empty((3, 0)), None).tolist() == [0, 1, 2]
    assert seeding.sort(np.empty((0, 2)), None).tolist() == []
