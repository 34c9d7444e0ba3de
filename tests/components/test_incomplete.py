"""Expected sums of objects with holes or known errors against a slow loop."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from sfumato.components import incomplete
from sfumato.components.gaussian import State, incomplete_logits


def mixture(d=3):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, d, d))
    covariances = A @ np.swapaxes(A, 1, 2) + 0.5 * np.eye(d)
    return State(np.array([0.3, 0.7]), rng.normal(size=(2, d)), covariances, "VVV", 1e-9), rng


def packed(mass, first, second):
    return np.concatenate([[mass], first, second[np.triu_indices(len(first))]])


@pytest.mark.parametrize("weighted", [False, True])
def test_objects_with_errors_against_a_slow_loop(weighted):
    """The expectation step of Bovy, Hogg and Roweis (2011), object by object."""
    state, rng = mixture()
    X, E = 2.0 * rng.normal(size=(25, 3)), rng.normal(size=(25, 3, 3))
    errors = E @ np.swapaxes(E, 1, 2) * rng.uniform(0.0, 2.0, size=(25, 1, 1))
    weights = rng.uniform(0.5, 2.0, size=25) if weighted else np.ones(25)
    sums, level = np.zeros((2, 10)), 0.0
    for x, S, w in zip(X, errors, weights, strict=True):
        each = list(zip(state.weights, state.means, state.covariances, strict=True))
        L = [np.log(p) + multivariate_normal.logpdf(x, m, C + S) for p, m, C in each]
        level += w * logsumexp(L)
        for j, (_, m, C) in enumerate(each):
            r, gain = w * np.exp(L[j] - logsumexp(L)), C @ np.linalg.inv(C + S)
            v = m + gain @ (x - m)
            sums[j] += packed(r, r * v, r * (np.outer(v, v) + C - gain @ C))
    found = incomplete.deconvolved(X, errors, weights if weighted else None, *state[:3])
    np.testing.assert_allclose(found[0], sums, rtol=1e-10, atol=1e-10)
    assert found[1] == pytest.approx(level, rel=1e-10)


def test_objects_with_holes_against_a_slow_loop():
    state, rng = mixture()
    X = 2.0 * rng.normal(size=(25, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    R = rng.random((2, len(X)))
    L, parts = incomplete_logits(X, state)
    sums = np.zeros((2, 10))
    for i, x in enumerate(X):
        seen = ~np.isnan(x)
        for j, (m, C) in enumerate(zip(state.means, state.covariances, strict=True)):
            inner = C[np.ix_(seen, seen)]
            density = multivariate_normal.logpdf(x[seen], m[seen], inner)
            assert L[j, i] == pytest.approx(np.log(state.weights[j]) + density, rel=1e-10)
            gain = C[:, seen] @ np.linalg.inv(inner)
            v, rest = m + gain @ (x - m)[seen], C - gain @ C[seen]
            sums[j] += packed(R[j, i], R[j, i] * v, R[j, i] * (np.outer(v, v) + rest))
    found = incomplete.expected_sums(X, parts, R)
    np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-9)
