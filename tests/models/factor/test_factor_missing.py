"""Factor mixtures with missing values: marginal densities, a slow loop, finite differences."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from sfumato import FactorMixture
from sfumato.components import factor as kernel
from sfumato.metrics import adjusted_rand_index
from sfumato.numerics.distances import Coordinates

PLAIN = kernel.Factors(1, 1, None, 1e-3, False, False)


def summarize(X, w, at, given=None, *, missing=False):
    return replace(PLAIN, missing=missing).summarize(X, w, at, given)


def update(stats, s, floor, *, shared):
    return replace(PLAIN, floor=floor, shared=shared).update(stats, s)


def state(k=2, d=4, q=2, seed=0):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(k, d, q))
    noise = 0.3 + rng.random((k, d))
    return kernel.State(rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), loadings, noise)


def data(n=30, d=4, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2.0 * rng.integers(2, size=(n, 1))
    X[rng.random(X.shape) < share] = np.nan
    X[0] = np.nan  # nothing at all is known of an object
    return X


def slow_joint(X, s):
    """log( pi_j N ) by the marginal of every object's observed features, one after the other."""
    out = np.zeros((len(s.weights), len(X)))
    for j in range(len(s.weights)):
        sigma = s.loadings[j] @ s.loadings[j].T + np.diag(s.uniquenesses[j])
        for i, x in enumerate(X):
            o = np.flatnonzero(~np.isnan(x))
            out[j, i] = np.log(s.weights[j])
            if len(o):
                law = multivariate_normal(s.means[j, o], sigma[np.ix_(o, o)])
                out[j, i] += law.logpdf(x[o])
    return out


def test_densities_are_those_of_the_observed_marginals():
    X, s = data(), state()
    np.testing.assert_allclose(kernel.expect(X, kernel.ready(s)).joint, slow_joint(X, s), atol=1e-9)
    np.testing.assert_allclose(
        kernel.expect(X, kernel.ready(s)).joint[:, 0], np.log(s.weights), atol=1e-12
    )


@pytest.mark.parametrize("shared", [False, True])
def test_one_step_equals_a_slow_loop(shared):
    X, s = data(), state()
    w = np.random.default_rng(1).random(len(X))
    L = slow_joint(X, s)
    R = np.exp(L - np.logaddexp.reduce(L, axis=0)) * w
    found = update(summarize(X, w, kernel.ready(s), missing=True), s, 1e-9, shared=shared)
    residual, seen = np.zeros((2, 4)), np.zeros((2, 4))
    for j in range(2):
        for c in range(4):
            G, h, square = np.zeros((3, 3)), np.zeros(3), 0.0
            for i, x in enumerate(X):
                if np.isnan(x[c]):
                    continue
                o = np.flatnonzero(~np.isnan(x))
                lo = s.loadings[j, o]
                beta = lo.T @ np.linalg.inv(lo @ lo.T + np.diag(s.uniquenesses[j, o]))
                f = np.append(beta @ (x[o] - s.means[j, o]), 1.0)
                T = np.outer(f, f)
                T[:2, :2] += np.eye(2) - beta @ lo
                G, h, square = G + R[j, i] * T, h + R[j, i] * x[c] * f, square + R[j, i] * x[c] ** 2
            b = np.linalg.solve(G, h)
            np.testing.assert_allclose(found.loadings[j, c], b[:2], atol=1e-8)
            assert found.means[j, c] == pytest.approx(b[2], abs=1e-8)
            residual[j, c], seen[j, c] = square - b @ h, G[2, 2]
    noise = residual.sum(axis=0) / seen.sum(axis=0) if shared else residual / seen
    np.testing.assert_allclose(found.uniquenesses, np.broadcast_to(noise, (2, 4)), atol=1e-8)
    np.testing.assert_allclose(found.weights, R.sum(axis=1) / w.sum(), atol=1e-10)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 2), st.booleans())
@settings(max_examples=20)
def test_a_step_never_lowers_the_observed_likelihood(seed, k, q, shared):
    X, s = data(25, seed=seed), state(k, 4, q, seed)
    values = []
    for _ in range(8):
        stats = summarize(X, None, kernel.ready(s), missing=True)
        values.append(stats.objective)
        s = update(stats, s, 1e-3, shared=shared)
    # The first step makes the noise common where it must be.
    assert np.diff(values[int(shared) :]).min() >= -1e-8 * abs(values[-1])


def test_a_fixed_point_is_stationary_by_finite_differences():
    rng, s = np.random.default_rng(3), state(q=1, seed=3)
    g = rng.integers(2, size=200)
    X = 3.0 * s.means[g] + rng.normal(size=(200, 1)) * s.loadings[g, :, 0]
    X += rng.normal(size=X.shape)
    X[rng.random(X.shape) < 0.2] = np.nan
    for _ in range(1000):
        s = update(summarize(X, None, kernel.ready(s), missing=True), s, 0.01, shared=False)
    assert s.uniquenesses.min() > 0.011
    d = s.means.shape[1]
    plain = Coordinates(np.zeros(d), np.ones(d), None, np.ones(d))
    component = kernel.Factors(2, s.loadings.shape[2], plain, 0.01, False, True)
    x = kernel.Factors.pack(s)
    for step in np.eye(len(x)):
        ends = [
            np.logaddexp.reduce(slow_joint(X, component.unpack(x + e * step, s)), axis=0).sum()
            for e in (1e-5, -1e-5)
        ]
        assert abs(ends[0] - ends[1]) / 2e-5 < 5e-2


@pytest.mark.parametrize("shared", [False, True])
def test_without_holes_it_is_the_plain_step(shared):
    X, s = np.random.default_rng(0).normal(size=(30, 4)), state()
    plain, full = (
        summarize(X, None, kernel.ready(s)),
        summarize(X, None, kernel.ready(s), missing=True),
    )
    assert full.objective == pytest.approx(plain.objective)
    one = update(plain, s, 1e-3, shared=shared)
    for a, b in zip(one, update(full, s, 1e-3, shared=shared), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_a_feature_that_a_cluster_has_nowhere_keeps_its_parameters():
    X, s = data(20), state()
    given = np.tile([1.0, 0.0], (20, 1))
    found = update(summarize(X, None, kernel.ready(s), given, missing=True), s, 1e-3, shared=False)
    np.testing.assert_array_equal(found.means[1], s.means[1])
    np.testing.assert_array_equal(found.uniquenesses[1], s.uniquenesses[1])
    assert np.isfinite(found.means).all()


def groups(n, d=20, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.integers(3, size=n)
    factors = rng.normal(size=(n, 1)) * rng.normal(size=(3, d))[g]
    return 1.5 * rng.normal(size=(3, d))[g] + factors + rng.normal(size=(n, d)), g


@pytest.mark.filterwarnings("ignore:structure test")
def test_groups_are_found_with_a_third_of_the_values_missing():
    X, g = groups(300)
    full = FactorMixture(3, n_factors=1, random_state=0).fit(X)
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.33] = np.nan
    model = FactorMixture(3, n_factors=1, random_state=0).fit(holes)
    assert adjusted_rand_index(g, model.labels_) > 0.95
    np.testing.assert_allclose(
        np.sort(model.means_, axis=0), np.sort(full.means_, axis=0), atol=0.8
    )
    assert np.isclose(model.log_likelihood_, model.score(holes) * 300)
    assert model.log_likelihood_ == pytest.approx(model.history_[-1], rel=1e-9)
    # Half of the objects are complete: dropping the others loses what they say.
    holes[::2] = X[::2]
    some = FactorMixture(3, n_factors=1, random_state=0).fit(holes)
    few = FactorMixture(3, n_factors=1, random_state=0).fit(X[::2])
    errors = [
        min(np.abs(m.means_[list(p)] - truth_means(X, g)).mean() for p in permutations())
        for m in (some, few)
    ]
    assert errors[0] < errors[1]


def permutations():
    return [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


def truth_means(X, g):
    return np.array([X[g == j].mean(axis=0) for j in range(3)])


@pytest.mark.filterwarnings("ignore:structure test")
def test_an_object_without_any_value_has_no_say_and_a_column_without_is_named():
    X, _ = groups(90, d=6)
    more = np.vstack([X, np.full((1, 6), np.nan)])
    plain = FactorMixture(3, n_factors=1, tol=1e-10, random_state=0).fit(X)
    model = FactorMixture(3, n_factors=1, tol=1e-10, random_state=0).fit(more)
    np.testing.assert_allclose(model.memberships_[:90], plain.memberships_, atol=1e-3)
    np.testing.assert_allclose(model.memberships_[90], model.weights_, atol=1e-12)
    np.testing.assert_allclose(plain.predict_proba(more)[90], plain.weights_, atol=1e-12)
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="feature 2"):
        FactorMixture(3).fit(X)
