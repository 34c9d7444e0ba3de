"""Discriminative clustering.

The objective, its gradient and the online step against slow loops and finite differences.
"""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln
from sklearn.metrics import mutual_info_score

from sfumato.models.discriminative import problem as kernel
from sfumato.numerics import contingency


def problem(seed, n=25, p=3, k=4, classes=3, soft=False):
    rng = np.random.default_rng(seed)
    X, centers = rng.normal(size=(n, p)), rng.normal(size=(k, p))
    Q = (
        rng.dirichlet(np.ones(classes), n)
        if soft
        else np.eye(classes)[rng.integers(classes, size=n)]
    )
    return X, Q * rng.uniform(0.2, 3.0, size=(n, 1)), centers, rng.uniform(0.3, 2.0, size=classes)


def slow_objective(X, Q, centers, s, prior, penalty):
    n, k, classes = len(X), len(centers), Q.shape[1]
    r = np.zeros((k, classes))
    for x in range(n):
        y = np.array([np.exp(-np.sum((X[x] - m) ** 2) / s**2) for m in centers])
        for j, i in itertools.product(range(k), range(classes)):
            r[j, i] += y[j] / y.sum() * Q[x, i]
    total = 0.0
    for j in range(k):
        total += sum(gammaln(prior[i] + r[j, i]) - gammaln(prior[i]) for i in range(classes))
        total -= gammaln(prior.sum() + r[j].sum()) - gammaln(prior.sum())
        total -= penalty * r[j].sum() * np.log(k * r[j].sum() / r.sum())
    return total


def objective(X, Q, centers, s, prior, penalty):
    r = kernel.counts(kernel.memberships(X, centers, s), Q)
    return contingency.log_posterior(r, prior) - penalty * kernel.size_cost(r)


def gradient(X, Q, centers, s, prior, penalty):
    Y = kernel.memberships(X, centers, s)
    return kernel.pull(X, Y, Q, kernel.slopes(kernel.counts(Y, Q), prior, penalty), centers, s)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_objective_equals_the_slow_loop(soft, penalty):
    X, Q, centers, prior = problem(1, soft=soft)
    assert objective(X, Q, centers, 0.9, prior, penalty) == pytest.approx(
        slow_objective(X, Q, centers, 0.9, prior, penalty), rel=1e-12
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.7])
@pytest.mark.parametrize("s", [0.5, 2.0])
def test_gradient_equals_finite_differences(soft, penalty, s):
    X, Q, centers, prior = problem(2, soft=soft)
    shape = centers.shape
    numeric = approx_fprime_central(
        lambda flat: objective(X, Q, flat.reshape(shape), s, prior, penalty), centers.ravel()
    )
    exact = gradient(X, Q, centers, s, prior, penalty).ravel()
    assert np.abs(exact - numeric).max() <= 1e-6 * np.abs(numeric).max()


@pytest.mark.parametrize("soft", [False, True])
def test_gradient_of_the_distortion_equals_finite_differences(soft):
    X, Q, centers, _ = problem(2, soft=soft)

    def distortion(flat):
        return kernel.distortion(kernel.counts(kernel.memberships(X, flat, 0.8), Q))

    numeric = approx_fprime_central(
        lambda flat: -distortion(flat.reshape(centers.shape)), centers.ravel()
    )
    exact = gradient(X, Q, centers, 0.8, None, 0.0).ravel()
    assert np.abs(exact - numeric).max() <= 1e-6 * np.abs(numeric).max()


def approx_fprime_central(function, at, h=1e-5):
    return np.array(
        [(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))]
    )


@given(st.integers(0, 10_000))
def test_sparse_features_and_classes_give_the_same(seed):
    X, Q, centers, prior = problem(seed)
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = (
        gradient(X, Q, centers, 1.0, prior, 0.3),
        gradient(sp.csr_array(X), sp.csr_array(Q), centers, 1.0, prior, 0.3),
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-12)
    np.testing.assert_array_equal(kernel.cells(sp.csr_array(X), centers), kernel.cells(X, centers))


def test_blocks_add_up():
    X, Q, centers, prior = problem(3)
    Y = kernel.memberships(X, centers, 1.0)
    A = kernel.slopes(kernel.counts(Y, Q), prior)
    parts = [
        kernel.pull(X[rows], Y[rows], Q[rows], A, centers, 1.0)
        for rows in (slice(0, 10), slice(10, None))
    ]
    np.testing.assert_allclose(sum(parts), kernel.pull(X, Y, Q, A, centers, 1.0), atol=1e-13)


def test_cells_are_nearest_prototypes():
    X, _, centers, _ = problem(4)
    np.testing.assert_array_equal(
        kernel.cells(X, centers), ((X[:, None] - centers) ** 2).sum(-1).argmin(1)
    )


def distortion(X, Q, centers, log_psi, s):
    return -float(np.sum(kernel.memberships(X, centers, s) * (Q @ log_psi.T)))


@pytest.mark.parametrize("soft", [False, True])
def test_expected_online_step_is_the_gradient_of_the_expected_cost(soft):
    X, Q, centers, _ = problem(5, n=6, soft=soft)
    s, k = 0.8, len(centers)
    log_psi = np.log(np.random.default_rng(0).dirichlet(np.ones(Q.shape[1]), size=k))
    Y = kernel.memberships(X, centers, s)
    expected = np.zeros_like(centers)
    for x, j, l in itertools.product(range(len(X)), range(k), range(k)):
        by_hand = -np.sum(Q[x] * (log_psi[j] - log_psi[l])) * (X[x] - centers[l])
        expected[l] += Y[x, j] * Y[x, l] * by_hand
    found = s**2 / 2 * kernel.pull(X, Y, Q, log_psi, centers, s)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    numeric = approx_fprime_central(
        lambda v: distortion(X, Q, v.reshape(centers.shape), log_psi, s), centers.ravel()
    )
    np.testing.assert_allclose(expected.ravel(), -(s**2) / 2 * numeric, atol=1e-8)


def test_mutual_information_against_scikit_learn():
    rng = np.random.default_rng(6)
    a, b = rng.integers(3, size=50), rng.integers(4, size=50)
    table = np.zeros((4, 4))
    np.add.at(table, (a, b), 1)
    assert contingency.mutual_information(table) == pytest.approx(
        mutual_info_score(a, b), abs=1e-12
    )


def test_a_table_without_counts_has_log_posterior_zero():
    assert contingency.log_posterior(np.zeros((3, 2)), np.array([0.5, 2.0])) == 0.0


def test_missing_values_leave_the_gradient_right(rng):
    X, centers = rng.normal(size=(12, 3)), rng.normal(size=(4, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    Q, prior = rng.random((12, 2)), np.ones(2)

    def value(C):
        r = kernel.counts(kernel.memberships(X, C, 1.3), Q)
        return gammaln(prior + r).sum() - gammaln(prior.sum() + r.sum(axis=1)).sum()

    Y = kernel.memberships(X, centers, 1.3)
    there = ~np.isnan(X)
    D = (
        np.nansum((X[:, None] - centers) ** 2, axis=2)
        * 3
        / np.maximum(there.sum(axis=1), 1)[:, None]
    )
    expected = np.exp(-D / 1.3**2)
    np.testing.assert_allclose(Y, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
    A = kernel.slopes(kernel.counts(Y, Q), prior)
    found = kernel.pull(X, Y, Q, A, centers, 1.3)
    for at in np.ndindex(4, 3):
        step = np.zeros((4, 3))
        step[at] = 1e-6
        slope = (value(centers + step) - value(centers - step)) / 2e-6
        assert found[at] == pytest.approx(slope, abs=1e-6)
