"""Agglomeration by traces alone, where determinants cannot count, is that with determinants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.numerics import seeding as hierarchy


def draw(seed, n, d, outlier=0.0, skewed=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    X[rng.integers(3, size=n) == 0] += 2.0
    X[0] += outlier
    weights = rng.integers(1, 4, size=n).astype(float) if skewed else np.ones(n)
    return X, weights


def both(X, weights, sizes, monkeypatch):
    """Partitions as they are, and with the determinant of every union."""
    fast = {k: hierarchy.Hierarchy.of(X, weights).labels(k) for k in sizes}
    monkeypatch.setattr(hierarchy, "_only_traces", lambda *_: False)
    return fast, {k: hierarchy.Hierarchy.of(X, weights).labels(k) for k in sizes}


@pytest.mark.parametrize(
    "n, d, outlier, skewed",
    [(80, 30, 0.0, False), (80, 30, 1e3, False), (60, 40, 0.0, True), (30, 50, 0.0, False)],
)
def test_many_features_need_no_determinants(n, d, outlier, skewed, monkeypatch):
    X, weights = draw(n + d, n, d, outlier, skewed)
    Z = hierarchy._half_white(X, weights)
    center = weights @ Z / weights.sum()
    assert hierarchy._only_traces(Z, weights, np.sum((Z - center) ** 2, axis=1).max())
    fast, slow = both(X, weights, [2, 3, 5, 9], monkeypatch)
    for k, labels in slow.items():
        np.testing.assert_array_equal(fast[k], labels)


def test_many_objects_in_many_features_are_merged_alike_from_small_groups(monkeypatch):
    X, weights = draw(0, 400, 20)
    fast, slow = both(X, weights, [2, 4, 8], monkeypatch)
    for k, labels in slow.items():
        np.testing.assert_array_equal(fast[k], labels)


@given(st.integers(0, 10**6), st.integers(1, 25), st.sampled_from([0.0, 10.0, 1e4]), st.booleans())
@settings(max_examples=40)
def test_where_traces_decide_no_group_has_a_determinant_that_counts(seed, d, outlier, skewed):
    X, weights = draw(seed, 60, d, outlier, skewed)
    Z = hierarchy._half_white(X, weights)
    squares = np.sum((Z - weights @ Z / weights.sum()) ** 2, axis=1)
    if not hierarchy._only_traces(Z, weights, float(squares.max())):
        return
    rng, order = np.random.default_rng(seed), np.argsort(squares)
    # Any group will do: random ones, the outermost objects, and the lightest.
    groups = [rng.choice(60, size=s, replace=False) for s in (d + 1, d + 5, 50)]
    groups += [order[-d - 1 :], np.argsort(weights)[: d + 1], np.arange(60)]
    for rows in groups:
        N, w = weights[rows].sum(), weights[rows]
        Y = Z[rows] - w @ Z[rows] / N
        W = (Y.T * w) @ Y / N
        assert np.linalg.slogdet(W)[1] <= np.log(1e-9 * np.trace(W))


def test_few_features_keep_their_determinants():
    X, weights = draw(3, 100, 3)
    Z = hierarchy._half_white(X, weights)
    assert not hierarchy._only_traces(Z, weights, float(np.sum(Z**2, axis=1).max()))
