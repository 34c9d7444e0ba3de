"""Gaussian mixtures against scipy's densities and scikit-learn's steps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture as Peer

from sfumato.components import gaussian as families
from sfumato.components import gaussian as kernel
from sfumato.components.gaussian import Gaussian, Measured
from sfumato.numerics import distances
from sfumato.numerics.distances import Coordinates
from sfumato.numerics.seeding import complete

TYPES = families.FAMILIES
EXACT_FLOOR = ("EII", "VII", "EEI", "VVI", "EEE", "VVV")


def problem(covariance_type, seed=0, k=3, d=3, n=60, noise=None):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(k, d, d))
    S = A @ A.transpose(0, 2, 1) / d + 0.3 * np.eye(d)
    covariances = families.fitted_covariances(covariance_type, S * 10.0, np.full(k, 10.0))
    weights = rng.dirichlet(np.ones(k + (noise is not None)))
    state = kernel.State(
        weights, rng.normal(size=(k, d)), covariances, covariance_type, 1e-9, noise
    )
    return state, rng.normal(size=(n, d)) * 1.5, rng.random(n) + 0.5


def component(state, missing=True):
    """The component of a state, in the coordinates of the data."""
    d = state.means.shape[1]
    plain = Coordinates(np.zeros(d), np.ones(d), None, np.ones(d))
    measured = Measured(plain, 60.0, missing)
    return Gaussian(len(state.means), state.family, measured, state.floor)


def slow_logits(X, state):
    S = kernel.matrices(state)
    rows = [
        np.log(w) + multivariate_normal(m, s).logpdf(X)
        for w, m, s in zip(state.weights, state.means, S, strict=False)
    ]
    return np.array(rows)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_logits_are_log_densities(covariance_type):
    state, X, _ = problem(covariance_type)
    Z = distances.features(X.T, families.kind_of(covariance_type))
    ready = kernel.ready(state)
    L = kernel.logits(Z, ready)[0] + ready.peak
    np.testing.assert_allclose(L, slow_logits(X, state), rtol=1e-10)
    np.testing.assert_allclose(component(state).logits(X, state), L, rtol=1e-10)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("layout", ["features", "missing"])
def test_one_step_equals_the_m_step_on_exact_posteriors(covariance_type, layout):
    state, X, weights = problem(covariance_type)
    L = slow_logits(X, state)
    R = np.exp(L - logsumexp(L, axis=0)) * weights
    if layout == "features":
        stats, kind = (
            kernel.summarize(
                distances.features(X.T, families.kind_of(covariance_type)),
                weights,
                kernel.ready(state),
            ),
            None,
        )
    else:
        stats = component(state).summarize(X, weights, state)
        kind = "full" if families.kind_of(covariance_type) == "full" else "diag"
    after = kernel.update(stats, state, kind=kind)
    assert stats.objective == pytest.approx(weights @ logsumexp(L, axis=0), rel=1e-12)
    N = R.sum(axis=1)
    means = R @ X / N[:, None]
    S = np.array([((X - m).T * r) @ (X - m) / r.sum() for m, r in zip(means, R, strict=True)])
    expected = families.fitted_covariances(
        covariance_type, S * N[:, None, None], N, state.covariances, state.floor, kernel.INNER_STEPS
    )
    np.testing.assert_allclose(after.weights, N / N.sum(), rtol=1e-10)
    np.testing.assert_allclose(after.means, means, rtol=1e-9)
    np.testing.assert_allclose(after.covariances, expected, rtol=1e-9)


@pytest.mark.parametrize("name, family", families.ALIASES.items())
def test_a_step_equals_scikit_learn(name, family):
    state, X, _ = problem(family, n=200)
    first = state.covariances[0] if name == "tied" else state.covariances
    precision = np.linalg.inv if name in ("full", "tied") else np.reciprocal
    peer = Peer(
        3,
        covariance_type=name,
        weights_init=state.weights,
        means_init=state.means,
        precisions_init=precision(first),
        max_iter=1,
        reg_covar=0.0,
        tol=1e9,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *a, **k: None)
        peer.fit(X)
    Z = distances.features(X.T, families.kind_of(family))
    after = kernel.update(kernel.summarize(Z, None, kernel.ready(state)), state)
    np.testing.assert_allclose(after.means, peer.means_, rtol=1e-8)
    ours = after.covariances[0] if name == "tied" else after.covariances
    np.testing.assert_allclose(ours, peer.covariances_, rtol=1e-8)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_missing_values_count_with_their_marginal_density(covariance_type):
    state, X, weights = problem(covariance_type)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    X[0] = np.nan
    S = kernel.matrices(state)
    L = np.empty((3, len(X)))
    for i, x in enumerate(X):
        o = ~np.isnan(x)
        for j in range(3):
            density = (
                multivariate_normal(state.means[j][o], S[j][np.ix_(o, o)]).logpdf(x[o])
                if o.any()
                else 0.0
            )
            L[j, i] = np.log(state.weights[j]) + density
    own = component(state)
    U, level = own.posterior(X, state)
    np.testing.assert_allclose(level, logsumexp(L, axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(U.T, np.exp(L - logsumexp(L, axis=0)), atol=1e-12)
    values = []
    for _ in range(15):
        stats = own.summarize(X, weights, state)
        values.append(stats.objective)
        state = own.update(stats, state)
    assert np.diff(values).min() >= -1e-9


@pytest.mark.parametrize("covariance_type", ["EII", "VII", "EEI", "VEI", "EVI", "VVI"])
def test_holes_in_independent_features_need_no_matrices_for_the_same_sums(covariance_type):
    state, X, weights = problem(covariance_type)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    apart = component(state).summarize(X, weights, state)
    full = state._replace(covariances=kernel.matrices(state), family="VVV")
    whole = component(full).summarize(X, weights, full)
    assert apart.objective == pytest.approx(whole.objective, rel=1e-12)
    np.testing.assert_allclose(apart.sums[:, :4], whole.sums[:, :4], rtol=1e-10, atol=1e-10)
    second = np.diagonal(distances.moments(whole.sums, 3, "full")[2], axis1=1, axis2=2)
    np.testing.assert_allclose(apart.sums[:, 4:], second, rtol=1e-10)


def test_expected_values_fill_holes():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([1.0, 2.0], [[1.0, 0.8], [0.8, 1.0]], size=4000)
    X[0] = [2.0, np.nan]
    filled = complete(X, np.ones(len(X)))
    np.testing.assert_allclose(filled[1:], X[1:])
    assert filled[0, 1] == pytest.approx(2.8, abs=0.05)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("floor", [1e-9, 0.05])
def test_steps_never_lower_the_likelihood_even_at_the_floor(covariance_type, floor):
    if floor > 0.01 and covariance_type not in EXACT_FLOOR:
        pytest.skip("the floor is an exact constraint in the simpler families only")
    state, X, _ = problem(covariance_type, k=6, n=60 if floor > 0.01 else 200)
    state = state._replace(floor=floor)
    state = kernel.unpack(kernel.pack(state), state)
    Z = distances.features(X.T, families.kind_of(covariance_type))
    values = []
    for _ in range(60):
        stats = kernel.summarize(Z, None, kernel.ready(state))
        values.append(stats.objective)
        state = kernel.update(stats, state)
    assert np.diff(values).min() >= -1e-9
    assert np.linalg.eigvalsh(kernel.matrices(state)).min() >= floor * (1 - 1e-9)


def test_raising_eigenvalues_is_the_constrained_maximum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1.0, 0.5, 0.01]
    S = X.T @ X / 30

    def value(covariance):
        return multivariate_normal(np.zeros(3), covariance).logpdf(X).sum()

    best = families.raised(S[None], 0.1)[0]
    for _ in range(100):
        A = rng.normal(size=(3, 3)) * 0.05
        other = families.raised((best + A + A.T)[None], 0.1)[0]
        assert value(other) <= value(best) + 1e-9


@pytest.mark.parametrize("covariance_type", TYPES)
def test_pack_and_unpack_are_inverse(covariance_type):
    state, _, _ = problem(covariance_type, noise=np.full(3, -1.0))
    back = kernel.unpack(kernel.pack(state), state)
    for name in ("weights", "means", "covariances"):
        np.testing.assert_allclose(getattr(back, name), getattr(state, name), rtol=1e-10)


@pytest.mark.parametrize("layout", ["features", "missing"])
def test_noise_is_one_more_component_of_constant_density(layout):
    state, X, _ = problem("VVV", noise=np.array([-1.0, -2.0, -0.5]))
    L = np.vstack([slow_logits(X, state), np.full(len(X), np.log(state.weights[3]) - 3.5)])
    if layout == "features":
        U, level = kernel.memberships(distances.features(X.T, "full"), kernel.ready(state))
    else:
        U, level = component(state).posterior(X, state)
    np.testing.assert_allclose(level, logsumexp(L, axis=0), rtol=1e-10)
    np.testing.assert_allclose(U.T, np.exp(L - logsumexp(L, axis=0)), atol=1e-12)


def test_frozen_parameters_stay_and_the_rest_is_optimal():
    state, X, _ = problem("VVV")
    stats = kernel.summarize(distances.features(X.T, "full"), None, kernel.ready(state))
    after = kernel.update(stats, state, ("means",))
    np.testing.assert_array_equal(after.means, state.means)
    R = np.exp(slow_logits(X, state) - logsumexp(slow_logits(X, state), axis=0))
    S = np.array(
        [((X - m).T * r) @ (X - m) / r.sum() for m, r in zip(state.means, R, strict=False)]
    )
    np.testing.assert_allclose(after.covariances, S, rtol=1e-9)


def test_numbers_of_parameters_are_those_of_scikit_learn():
    X = np.random.default_rng(0).normal(size=(50, 3))
    for name, family in families.ALIASES.items():
        peer = Peer(2, covariance_type=name).fit(X)
        assert families.n_parameters(family, 2, 3) == peer._n_parameters()


def test_float32_goes_over_to_float64_where_components_are_thin():
    state = kernel.State(
        np.ones(2) / 2, np.array([[1.0], [1.01]]), np.full((2, 1), 1e-6), "VVI", 1e-9
    )
    x = np.array([[1.004]], dtype=np.float32)
    U, _ = kernel.memberships(distances.features(x, "diag"), kernel.ready(state))
    L = slow_logits(x[:, 0].astype(float), state).ravel()
    np.testing.assert_allclose(U[0], np.exp(L - logsumexp(L)), atol=1e-5)


def test_objects_far_from_every_component_keep_finite_densities():
    state, X, _ = problem("VVV")
    X[0] = 1e4
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-4)):
        U, level = kernel.memberships(
            distances.features(X.T.astype(dtype), "full"), kernel.ready(state)
        )
        L = slow_logits(X.astype(dtype).astype(float), state)
        np.testing.assert_allclose(level, logsumexp(L, axis=0), rtol=tolerance)
        np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(U[1:].T, np.exp(L - logsumexp(L, axis=0))[:, 1:], atol=tolerance)
