"""Bounds without the diagonal, and intervals by parametric bootstrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato import PairwiseProbabilisticClustering
from sfumato.models.pairwise.estimator import split_bound


def block_model(n=60, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    U = rng.dirichlet(np.full(3, 0.3), n)
    U[:9] = np.repeat(np.eye(3), 3, axis=0)
    E = np.triu(rng.normal(scale=noise, size=(n, n)), 1)
    return U, U @ U.T + E + E.T


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_no_memberships_go_below_the_bound(seed, k):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    W = rng.random((n, n))
    W = W + W.T
    bound = split_bound(W, k)
    for _ in range(5):
        U, a = rng.dirichlet(np.full(k, 0.3), n), rng.random() * 3
        error = np.square(W - a * (U @ U.T))
        assert bound <= error.sum() - np.trace(error) + 1e-9


def test_the_default_has_a_bound_that_is_not_trivial():
    _, W = block_model()
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0).fit(W)
    assert 0.3 * model.objective_ < model.lower_bound_ <= model.objective_
    assert model.gap_ == pytest.approx(
        (model.objective_ - model.lower_bound_) / np.square(W).sum(), rel=1e-6
    )


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    U, W = block_model()
    model = PairwiseProbabilisticClustering(
        3, similarity="precomputed", scale=1.0, random_state=0
    ).fit(W)
    pairs = np.random.default_rng(1).integers(0, 60, (150, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    interval = model.cooccurrence_interval(pairs, n_draws=40, confidence=0.9)
    assert (interval[:, 0] <= interval[:, 1]).all()
    truth = np.einsum("ir,ir->i", U[pairs[:, 0]], U[pairs[:, 1]])
    inside = (interval[:, 0] - 1e-9 <= truth) & (truth <= interval[:, 1] + 1e-9)
    assert 0.7 < inside.mean() <= 1.0
    assert np.ptp(interval, axis=1).mean() < 0.3
    with pytest.raises(ValueError, match="n_draws"):
        model.cooccurrence_interval(pairs, n_draws=1)
