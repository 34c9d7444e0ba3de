"""The published online rule of discriminative clustering, against a slow loop."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato import DiscriminativeClustering
from sfumato.array.rows import Rows
from sfumato.models.discriminative.problem import Frame, Problem
from sfumato.papers.discriminative import Draws, draws_pass


def problem_of(seed=0, n=40, spread=np.inf, form=np.asarray, soft=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Q = rng.dirichlet(np.ones(3), n) if soft else np.eye(3)[rng.integers(3, size=n)]
    Q = Q * rng.uniform(0.5, 2.0, size=(n, 1))
    rows = Rows(form(X), Q)
    return Problem(rows, Frame.of(rows), np.ones(3), spread**-2.0, 0.0, float(Q.sum()))


def published_pass(problem, state, s, rate, order, rng):
    """One object after the other, every sum written out."""
    (Q,) = problem.rows.columns
    X = problem.frame(problem.rows.X)
    m, gamma, t = state.average.copy(), state.logits.copy(), state.seen
    n, k = len(X), len(m)
    for x, q in zip(X[order], Q[order] * n / problem.total, strict=True):
        a = rate / (1 + t / len(order))
        y = np.array([np.exp(-np.sum((x - m[h]) ** 2) / s**2) for h in range(k)])
        y /= y.sum()
        draws = []
        for u in rng.random(2):
            h = 0
            while h < k - 1 and y[: h + 1].sum() < u:
                h += 1
            draws.append(h)
        j, l = draws
        psi = [np.exp(gamma[h]) / np.exp(gamma[h]).sum() for h in range(k)]
        ratio = sum(q[i] * np.log(psi[j][i] / psi[l][i]) for i in range(3))
        old = m.copy()
        m[l] = old[l] - a * (x - old[l]) * ratio
        # the Gaussian prior, in the units of the expected step: none for a flat one
        m -= a * s**2 / 2 * problem.precision / problem.total * (old - problem.frame.middle)
        for i in range(3):
            gamma[l, i] -= a * (q.sum() * psi[l][i] - q[i])
        t += 1
    return m, gamma


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("spread", [np.inf, 1.0])
def test_a_pass_equals_the_published_rule_by_loops(soft, spread):
    problem = problem_of(spread=spread, soft=soft)
    start = np.array([[-0.5, 0.1], [0.6, 0.3], [0.0, -0.8], [0.2, 0.9]])
    first = Draws.start(problem, start, 0.7)
    order = np.random.default_rng(1).permutation(40)
    found = draws_pass(problem, first, 0.7, 0.05, order, np.random.default_rng(2))
    m, gamma = published_pass(problem, first, 0.7, 0.05, order, np.random.default_rng(2))
    assert np.abs(found.average - start).max() > 1e-3
    np.testing.assert_allclose(found.average, m, atol=1e-12)
    np.testing.assert_allclose(found.logits, gamma, atol=1e-12)
    assert found.seen == 40
    np.testing.assert_array_equal(first.average, start)  # the start is not written to


def test_sparse_features_take_the_same_steps():
    dense, sparse = problem_of(), problem_of(form=sp.csr_array)
    # sparse features are scaled but not centred: the same problem from the same frame
    sparse = sparse._replace(frame=dense.frame._replace(coordinates=sparse.frame.coordinates))
    dense = dense._replace(frame=sparse.frame)
    start, order = np.array([[-0.5, 0.1], [0.6, 0.3]]), np.arange(40)
    found = [
        draws_pass(p, Draws.start(p, start, 0.7), 0.7, 0.05, order, np.random.default_rng(2))
        for p in (dense, sparse)
    ]
    np.testing.assert_allclose(found[0].average, found[1].average, atol=1e-12)


def stripes(n, rng):
    """Three classes along the second feature; the first says nothing."""
    c = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) * [3, 0.4] + np.outer(c - 1.0, [0, 1.5]), c


def test_two_draws_find_the_classes_from_a_poor_start(rng):
    X, c = stripes(1500, rng)
    rows = Rows(X, np.eye(3)[c])
    problem = Problem(rows, Frame.of(rows), np.ones(3), 1.0, 0.0, 1500.0)
    state = Draws.start(problem, np.array([[-0.5, 0.05], [0.5, -0.05], [0.0, 0.0]]), 0.3)
    begun = problem.objective(problem.table(state.average, 0.3), state.average)
    for _ in range(3):
        state = draws_pass(problem, state, 0.3, 0.05, rng.permutation(1500), rng)
    reached = problem.objective(problem.table(state.average, 0.3), state.average)
    assert reached > 0.8 * begun  # objectives are negative


def slow_distortion(U, P, weights, psi):
    total = 0.0
    for u, p, w in zip(U, P, weights, strict=True):
        for j in range(len(psi)):
            total += w * u[j] * sum(p[i] * np.log(p[i] / psi[j][i]) for i in range(3) if p[i] > 0)
    return total / weights.sum()


@pytest.mark.parametrize("soft", [False, True])
def test_the_distortion_is_the_expected_divergence(soft, rng):
    X, c = stripes(120, rng)
    P = np.eye(3)[c]
    if soft:
        P = 0.7 * P + 0.3 * rng.dirichlet(np.ones(3), 120)
    weights = rng.uniform(0.5, 2.0, 120)
    model = DiscriminativeClustering(3, n_init=1, random_state=0).fit(
        X, P if soft else c, sample_weight=weights
    )
    expected = slow_distortion(model.memberships_, P, weights, model.class_distributions_)
    assert model.distortion_ == pytest.approx(expected, rel=1e-9)
    cells = model.voronoi_table_ + 1.0
    expected = slow_distortion(
        np.eye(3)[model.labels_], P, weights, cells / cells.sum(axis=1, keepdims=True)
    )
    assert model.voronoi_distortion_ == pytest.approx(expected, rel=1e-9)
