"""Kullback-Leibler and Itakura-Saito consensus: derivatives, convex rows, monotone descent."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sfumato import EvidenceAccumulation
from sfumato.metrics import adjusted_rand_index
from sfumato.models.consensus.published import DIVERGENCES, sweep

NAMES = pytest.mark.parametrize("name", DIVERGENCES)


def pairs(rng, n=30, k=3):
    truth = np.arange(n) % k
    C = np.clip(np.where(truth[:, None] == truth, 0.8, 0.1) + rng.normal(0, 0.05, (n, n)), 0.01, 1)
    N = rng.integers(0, 20, (n, n)).astype(float)
    C, N = np.triu(C, 1), np.triu(N, 1)
    return C + C.T + np.eye(n), N + N.T


@NAMES
def test_derivatives_equal_finite_differences(name, rng):
    loss, h = DIVERGENCES[name], 1e-5
    c, p = rng.uniform(0.05, 1, 50), rng.uniform(0.05, 0.95, 50)
    slope = (loss.value(c, p + h) - loss.value(c, p - h)) / (2 * h)
    np.testing.assert_allclose(loss.slope(c, p), slope, atol=1e-6)
    curvature = (loss.slope(c, p + h) - loss.slope(c, p - h)) / (2 * h)
    np.testing.assert_allclose(loss.curvature(c, p), curvature, rtol=1e-5)
    assert (loss.curvature(c, p) > 0).all()  # rows are convex problems
    np.testing.assert_allclose(loss.value(c, c), 0.0, atol=1e-12)
    assert (loss.value(c, p) >= 0).all()


@NAMES
def test_no_sweep_raises_the_objective(name, rng):
    C, N = pairs(rng)
    U, values = rng.dirichlet(np.ones(3), 30), []
    for _ in range(40):
        U, value = sweep(DIVERGENCES[name], C, N, U)
        values.append(value)
        np.testing.assert_allclose(U.sum(axis=1), 1.0, atol=1e-12)
    assert np.diff(values).max() <= 1e-9 * values[0]


@NAMES
def test_sweeps_end_where_a_solver_of_scipy_finds_no_better_row(name, rng):
    C, N = pairs(rng)
    loss, U = DIVERGENCES[name], rng.dirichlet(np.ones(3), 30)
    for _ in range(300):
        U, _ = sweep(loss, C, N, U)
    for i in (0, 7, 29):

        def cost(u, i=i):
            return float(N[i] @ loss.value(C[i], np.maximum(U @ u, 1e-12)))

        simplex = {"type": "eq", "fun": lambda u: u.sum() - 1.0}
        found = minimize(cost, np.full(3, 1 / 3), bounds=[(0, 1)] * 3, constraints=[simplex])
        assert cost(U[i]) <= found.fun + 1e-5 * max(1.0, abs(found.fun))


@NAMES
def test_the_estimator_finds_the_groups(name, rng):
    truth = np.arange(60) % 3
    L = np.stack([rng.permutation(3)[truth] for _ in range(20)], axis=1)
    wrong = rng.random(L.shape) < 0.2
    L[wrong] = rng.integers(0, 3, wrong.sum())
    L[rng.random(L.shape) < 0.1] = -1
    model = EvidenceAccumulation(3, ensemble="precomputed", consensus=name, random_state=0).fit(L)
    assert adjusted_rand_index(truth, model.labels_) == 1.0
    assert np.diff(model.history_).max(initial=0.0) <= 1e-9 * model.history_[0]
    assert (model.predict(L) == model.labels_).mean() > 0.95
