"""The published online rule of discriminative clustering, and the distortion it lowers.

The rule (Sinkkonen and Kaski 2002) draws, for an object x of class distribution q, clusters j and l
from its memberships y(x):

    m_l     <- m_l - a (x - m_l) sum_i q_i log(psi_j(i) / psi_l(i))
    gamma_l <- gamma_l + a (q - psi_l),            psi_l = softmax(gamma_l)

The rate a falls with the objects t as  rate / (1 + t / n).  The estimator takes the expectation of
this step; the Gaussian prior of the prototypes adds its own.
"""

import numpy as np
import pytest

from sfumato import DiscriminativeClustering
from sfumato.array.rows import Rows
from sfumato.models.discriminative.problem import Frame, Problem


def published_pass(problem, m, gamma, t, s, rate, order, rng):
    """Prototypes (k, p) and logits after one object after the other, every sum written out."""
    (Q,) = problem.rows.columns
    X = problem.frame(problem.rows.X)
    m, gamma = m.copy(), gamma.copy()
    n, k = len(X), len(m)
    for x, q in zip(X[order], Q[order] * n / problem.total, strict=True):
        a = rate / (1 + t / n)
        y = np.array([np.exp(-np.sum((x - m[h]) ** 2) / s**2) for h in range(k)])
        j, l = np.minimum(np.searchsorted(np.cumsum(y / y.sum()), rng.random(2)), k - 1)
        psi = [np.exp(gamma[h]) / np.exp(gamma[h]).sum() for h in range(k)]
        ratio = sum(q[i] * np.log(psi[j][i] / psi[l][i]) for i in range(3))
        old = m.copy()
        # no step carries a prototype past the object, or away by more than their distance
        m[l] = old[l] - np.clip(a * ratio, -1.0, 1.0) * (x - old[l])
        m -= a * s**2 / 2 * problem.precision / problem.total * (old - problem.frame.middle)
        gamma[l] -= a * (q.sum() * psi[l] - q)
        t += 1
    return m, gamma, t


def stripes(n, rng):
    """Three classes along the second feature; the first says nothing."""
    c = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) * [3, 0.4] + np.outer(c - 1.0, [0, 1.5]), c


def test_two_draws_find_the_classes_from_a_poor_start(rng):
    X, c = stripes(1500, rng)
    rows = Rows(X, np.eye(3)[c])
    problem = Problem(rows, Frame.of(rows), np.ones(3), 1.0, 0.0, 1500.0)
    m = np.array([[-0.5, 0.05], [0.5, -0.05], [0.0, 0.0]])
    cells = problem.prior + problem.table(m, 0.3)
    gamma, seen = np.log(cells / cells.sum(axis=1, keepdims=True)), 0
    begun = problem.objective(problem.table(m, 0.3), m)
    for _ in range(3):
        order = rng.permutation(1500)
        m, gamma, seen = published_pass(problem, m, gamma, seen, 0.3, 0.05, order, rng)
    reached = problem.objective(problem.table(m, 0.3), m)
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
