"""The kernel of factor mixtures against explicit covariances, slow loops and finite differences."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from sfumato.components import factor as kernel
from sfumato.components.factor import Factors
from sfumato.numerics.distances import Coordinates, softmax_columns

PLAIN = kernel.Factors(1, 1, None, 1e-3, False, False)


def summarize(X, w, at, given=None, *, missing=False):
    return replace(PLAIN, missing=missing).summarize(X, w, at, given)


def update(stats, s, floor, *, shared):
    return replace(PLAIN, floor=floor, shared=shared).update(stats, s)


def data(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + rng.normal(size=(n, d))


def state(k=2, d=5, q=2, seed=0):
    rng = np.random.default_rng(seed)
    return kernel.State(
        rng.dirichlet(np.ones(k)),
        rng.normal(size=(k, d)),
        rng.normal(size=(k, d, q)),
        0.2 + rng.random((k, d)),
    )


def component(k, d, q, floor=1e-3, shared=False):
    plain = Coordinates(np.zeros(d), np.ones(d), None, np.ones(d))
    return Factors(k, q, plain, floor, shared, False)


def covariances(s):
    return s.loadings @ np.swapaxes(s.loadings, 1, 2) + s.uniquenesses[:, :, None] * np.eye(
        s.uniquenesses.shape[1]
    )


def joint(X, s):
    pairs = zip(s.weights, s.means, covariances(s), strict=True)
    return np.array([np.log(w) + multivariate_normal.logpdf(X, m, c) for w, m, c in pairs])


def test_densities_are_those_of_the_explicit_covariances():
    X, s = data(), state()
    expected = joint(X, s)
    U, level = softmax_columns(kernel.expect(X, kernel.ready(s)).joint)
    np.testing.assert_allclose(level, np.logaddexp.reduce(expected, axis=0), atol=1e-9)
    np.testing.assert_allclose(U, np.exp(expected - level), atol=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_one_step_equals_a_slow_loop(shared):
    """The regression of Ghahramani and Hinton (1996), equations (7) to (10), object by object."""
    X, s = data(), state()
    w = np.random.default_rng(1).random(len(X))
    L = joint(X, s)
    R = np.exp(L - np.logaddexp.reduce(L, axis=0)) * w
    found = update(summarize(X, w, kernel.ready(s)), s, 1e-9, shared=shared)
    noise = np.zeros((2, 5))
    for j, sigma in enumerate(covariances(s)):
        beta = s.loadings[j].T @ np.linalg.inv(sigma)
        left, right = np.zeros((5, 3)), np.zeros((3, 3))
        for i, x in enumerate(X):
            f = beta @ (x - s.means[j])
            second = np.eye(2) - beta @ s.loadings[j] + np.outer(f, f)
            left += R[j, i] * np.outer(x, [*f, 1.0])
            right += R[j, i] * np.block([[second, f[:, None]], [f[None], np.ones((1, 1))]])
        both = left @ np.linalg.inv(right)
        for i, x in enumerate(X):
            f = beta @ (x - s.means[j])
            noise[j] += R[j, i] * (x - both @ [*f, 1.0]) * x
        np.testing.assert_allclose(found.loadings[j], both[:, :2], atol=1e-9)
        np.testing.assert_allclose(found.means[j], both[:, 2], atol=1e-9)
    mass = R.sum(axis=1)
    expected = np.tile(noise.sum(axis=0) / mass.sum(), (2, 1)) if shared else noise / mass[:, None]
    np.testing.assert_allclose(found.uniquenesses, expected, atol=1e-9)
    np.testing.assert_allclose(found.weights, mass / mass.sum())


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 4), q=st.integers(1, 3), shared=st.booleans())
def test_a_step_never_lowers_the_likelihood(seed, k, q, shared):
    X, s, values = data(seed=seed), state(k, 5, q, seed), []
    for _ in range(8):
        stats = summarize(X, None, kernel.ready(s))
        values.append(stats.objective)
        s = update(stats, s, 0.05, shared=shared)
    # The first state need not share its noise.
    assert np.diff(values[int(shared) :]).min() >= -1e-8 * abs(values[-1])


def test_a_fixed_point_is_stationary_by_finite_differences():
    X, s = data(150, 4, seed=3), state(d=4, q=1, seed=3)
    for _ in range(3000):
        s = update(summarize(X, None, kernel.ready(s)), s, 0.01, shared=False)
    assert s.uniquenesses.min() > 0.011
    x = Factors.pack(s)
    for step in np.eye(len(x)):
        ends = [
            summarize(
                X, None, kernel.ready(component(2, 4, 1, 0.01).unpack(x + e * step, s))
            ).objective
            for e in (1e-5, -1e-5)
        ]
        assert abs(ends[0] - ends[1]) / 2e-5 < 5e-2


def test_packing_is_undone_by_unpacking():
    s = state()
    for one, other in zip(component(2, 5, 2).unpack(Factors.pack(s), s), s, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_parameters_are_counted():
    assert component(1, 6, 1, shared=False).n_parameters() == 6 + 6 + 6
    assert component(3, 6, 2, shared=True).n_parameters() == 2 + 18 + 3 * 11 + 6
    assert component(3, 6, 2, shared=False).n_parameters() == 2 + 18 + 3 * 11 + 18


@pytest.mark.parametrize("d", range(1, 12))
def test_parameters_are_those_that_are_identified(d):
    """At most the rank of the derivative of all covariances by loadings and noise."""
    rng = np.random.default_rng(d)
    lower = np.tril_indices(d)
    for q in range(1, d + 1):
        L = rng.normal(size=(d, q))
        by_loading = [
            (np.outer(e, L[:, r]) + np.outer(L[:, r], e))[lower]
            for e in np.eye(d)
            for r in range(q)
        ]
        by_noise = [np.diag(e)[lower] for e in np.eye(d)]
        rank = np.linalg.matrix_rank(np.array(by_loading + by_noise))
        assert component(2, d, q, shared=False).n_parameters() == 1 + 2 * d + 2 * rank
        assert (q <= kernel.most_factors(d)) == (
            rank - d * (d + 1) // 2 < 0 or q == 1 or _exact(d, q)
        )


def _exact(d, q):
    """Whether the model has as many parameters as a full covariance: the bound itself."""
    return (d - q) ** 2 == d + q


def test_blocks_add_up():
    X, at = data(), kernel.ready(state())
    whole = summarize(X, None, at)
    parts = [summarize(part, None, at) for part in (X[:25], X[25:])]
    for one, first, second in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(one, first + second, atol=1e-9)


@pytest.mark.parametrize("shape", [(30, 5), (5, 30)])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_principal_axes_are_singular_vectors_in_any_unit(shape, size):
    rng = np.random.default_rng(0)
    X = size * rng.normal(size=(shape[0], 3)) @ rng.normal(size=(3, shape[1]))
    roots, axes = kernel._principal(X, 4)
    _, values, vectors = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(roots[:3] / size, values[:3] / size, rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(axes[:3] * vectors[:3], axis=1)), 1.0, rtol=1e-10)
