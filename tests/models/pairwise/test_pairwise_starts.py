"""Starts of the pairwise model on a sample."""

from functools import partial

import numpy as np
from sklearn.metrics import adjusted_rand_score

from sfumato import PairwiseProbabilisticClustering
from sfumato.models.pairwise import estimator as solve
from sfumato.models.pairwise import kernel

DESCEND = partial(solve.descend, solve.Settings(4, 500, 1e-8, None), "coordinate")


def test_random_starts_settle_on_a_sample_of_many_objects(monkeypatch):
    """The others compete on a sample, and what they find there is extended to all objects."""
    monkeypatch.setattr(solve, "SAMPLE", 100)
    monkeypatch.setattr(solve, "PER_CLUSTER", 20)
    rng = np.random.default_rng(0)
    blocks = rng.integers(4, size=700)
    W = 0.6 * (blocks[:, None] == blocks) + 0.2 * rng.random((700, 700))
    problem = kernel.Problem(kernel.Explicit((W + W.T) / 2), True, None)
    U = solve.on_a_sample(problem, 4, 3, rng, DESCEND)
    assert U.shape == (700, 1, 4)
    np.testing.assert_allclose(U.sum(axis=2), 1.0)
    assert adjusted_rand_score(blocks, U[:, 0].argmax(axis=1)) == 1.0
    noise = rng.random((700, 700))
    empty = kernel.Problem(kernel.Explicit((noise + noise.T) / 2), True, None)
    assert solve.on_a_sample(empty, 4, 3, rng, DESCEND) is None
    few = kernel.Problem(kernel.Explicit(W[:200, :200]), True, None)
    assert solve.on_a_sample(few, 4, 3, rng, DESCEND) is None


def test_starts_of_a_matrix_compete_on_a_sample_only(monkeypatch):
    """No start is made for all objects but the one that the sample found."""
    monkeypatch.setattr(solve, "SAMPLE", 100)
    monkeypatch.setattr(solve, "PER_CLUSTER", 20)
    sizes, spectral = [], solve.spectral
    monkeypatch.setattr(
        solve, "spectral", lambda W, *rest: sizes.append(W.shape[0]) or spectral(W, *rest)
    )
    rng = np.random.default_rng(2)
    blocks = rng.integers(3, size=500)
    W = 0.6 * (blocks[:, None] == blocks) + 0.4 * rng.random((500, 500))
    W = (W + W.T) / 2
    model = PairwiseProbabilisticClustering(3, similarity="precomputed", random_state=0)
    assert adjusted_rand_score(blocks, model.fit(W).labels_) == 1.0
    assert sizes == [160]
    several = model.objective_
    assert adjusted_rand_score(blocks, model.set_params(n_init=1).fit(W).labels_) == 1.0
    assert sizes == [160, 500]
    np.testing.assert_allclose(several, model.objective_, rtol=1e-4)


def test_a_sample_of_a_factor_keeps_weights(monkeypatch):
    monkeypatch.setattr(solve, "SAMPLE", 60)
    monkeypatch.setattr(solve, "PER_CLUSTER", 20)
    rng = np.random.default_rng(1)
    blocks = rng.integers(3, size=400)
    factor = np.eye(3)[blocks] + 0.1 * rng.random((400, 3))
    problem = kernel.Problem(kernel.Low(factor), True, None, weights=rng.uniform(0.5, 2, 400))
    U = solve.on_a_sample(problem, 3, 3, rng, DESCEND)
    assert adjusted_rand_score(blocks, U[:, 0].argmax(axis=1)) == 1.0
