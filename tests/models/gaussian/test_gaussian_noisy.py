"""Mixtures of objects with known measurement errors: extreme deconvolution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from sfumato import GaussianMixture

CENTERS = np.array([[0.0, 0.0], [7.0, 1.0]])
SHAPES = np.array([[[1.0, 0.6], [0.6, 1.0]], [[0.5, 0.0], [0.0, 2.0]]])


def noisy(n=300, seed=0, size=3.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    true = np.array([rng.multivariate_normal(CENTERS[j], SHAPES[j]) for j in labels])
    A = rng.normal(size=(n, 2, 2))
    errors = size * rng.random((n, 1, 1)) * (A @ A.transpose(0, 2, 1)) / 2
    X = true + np.array([rng.multivariate_normal(np.zeros(2), S) for S in errors])
    return X, errors, labels


def slow_logits(X, errors, weights, means, covariances):
    return np.array(
        [
            [
                np.log(w) + multivariate_normal(m, C + S).logpdf(x)
                for w, m, C in zip(weights, means, covariances, strict=True)
            ]
            for x, S in zip(X, errors, strict=True)
        ]
    )


def test_the_objective_and_memberships_are_those_of_a_slow_loop():
    X, errors, _ = noisy(n=80)
    model = GaussianMixture(2, covariance_type="full", random_state=0)
    model.fit(X, measurement_error=errors)
    L = slow_logits(X, errors, model.weights_, model.means_, model.covariances_)
    assert model.objective_ == pytest.approx(logsumexp(L, axis=1).sum(), rel=1e-9)
    U = np.exp(L - logsumexp(L, axis=1, keepdims=True))
    np.testing.assert_allclose(model.memberships_, U, atol=1e-9)
    assert np.diff(model.history_).min() >= -1e-6


def test_the_likelihood_is_stationary_at_the_fit():
    X, errors, _ = noisy(n=80)
    model = GaussianMixture(2, covariance_type="full", tol=1e-12, max_iter=5000, random_state=0)
    model.fit(X, measurement_error=errors)

    def value(means, covariances):
        L = slow_logits(X, errors, model.weights_, means, covariances)
        return logsumexp(L, axis=1).sum()

    step = 1e-4
    for j in range(2):
        for a in range(2):
            shift = np.zeros((2, 2))
            shift[j, a] = step
            up, down = (value(model.means_ + sign * shift, model.covariances_) for sign in (1, -1))
            assert abs(up - down) / (2 * step) < 0.02
            more = np.zeros((2, 2, 2))
            more[j, a, a] = step
            up, down = (value(model.means_, model.covariances_ + sign * more) for sign in (1, -1))
            assert abs(up - down) / (2 * step) < 0.02


def test_the_errors_are_taken_out_of_the_covariances():
    X, errors, labels = noisy(n=1500, size=4.0)
    model = GaussianMixture(2, covariance_type="full", random_state=0)
    model.fit(X, measurement_error=errors)
    naive = GaussianMixture(2, covariance_type="full", random_state=0).fit(X)
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.means_[order], CENTERS, atol=0.25)
    np.testing.assert_allclose(model.covariances_[order], SHAPES, atol=0.45)
    assert np.trace(naive.covariances_.mean(axis=0)) > 1.5 * np.trace(SHAPES.mean(axis=0))
    assert (order[labels] == model.labels_).mean() > 0.9


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_without_errors_it_is_the_ordinary_mixture(covariance_type):
    X, errors, _ = noisy()
    plain = GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(X)
    model = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    model.fit(X, measurement_error=np.zeros(X.shape))
    np.testing.assert_allclose(model.memberships_, plain.memberships_, atol=1e-4)
    weights = np.random.default_rng(1).integers(1, 3, len(X))
    one = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    other = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    one.fit(X, sample_weight=weights, measurement_error=errors)
    copies = np.repeat(np.arange(len(X)), weights)
    other.fit(X[copies], measurement_error=errors[copies])
    np.testing.assert_allclose(one.means_, other.means_, atol=1e-3)


def test_variances_will_do_and_units_do_not_matter():
    X, errors, _ = noisy()
    variances = np.diagonal(errors, axis1=1, axis2=2)
    model = GaussianMixture(2, random_state=0).fit(X, measurement_error=variances)
    assert model.covariance_type_ in ("VVI", "VVV")
    scaled = GaussianMixture(2, random_state=0)
    scaled.fit(1e6 * X, measurement_error=1e12 * variances)
    np.testing.assert_allclose(scaled.memberships_, model.memberships_, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({"covariance_type": "EEE"}, {}, "covariance_type"),
        ({"noise_cluster": 0.1}, {}, "noise_cluster"),
        ({"covariance_type": "average"}, {}, "covariance_type"),
        ({}, {"measurement_error": np.zeros((3, 2))}, "shape"),
        ({}, {"measurement_error": np.full((300, 2), -1.0)}, "not negative"),
        ({}, {"measurement_error": np.full((300, 2), np.nan)}, "finite"),
        ({}, {"measurement_error": "large"}, "measurement_error must be an array"),
    ],
)
def test_bad_input_is_named(settings, arguments, message):
    X, errors, _ = noisy()
    arguments = {"measurement_error": errors, **arguments}
    with pytest.raises(ValueError, match=message):
        GaussianMixture(2, random_state=0, **settings).fit(X, **arguments)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "auto", "EII", "tied", "average"])
def test_new_objects_with_errors_are_those_of_a_slow_loop(covariance_type):
    X, errors, _ = noisy(n=120)
    model = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    model.fit(X[:80])
    full = _matrices(model)
    L = slow_logits(X[80:], errors[80:], model.weights_, model.means_, full)
    density = model.score_samples(X[80:], measurement_error=errors[80:])
    np.testing.assert_allclose(density, logsumexp(L, axis=1), rtol=1e-9)
    U = model.predict_proba(X[80:], measurement_error=errors[80:])
    np.testing.assert_allclose(U.sum(axis=1), 1.0, rtol=1e-12)
    if covariance_type != "average":
        np.testing.assert_allclose(U, np.exp(L - logsumexp(L, axis=1, keepdims=True)), atol=1e-9)


def _matrices(model):
    k, d = model.means_.shape
    if model.covariance_type_ == "diag":
        return np.array([np.diag(row) for row in model.covariances_])
    return np.broadcast_to(model.covariances_, (k, d, d))


def test_fitted_objects_have_their_memberships_again():
    X, errors, _ = noisy(n=100)
    model = GaussianMixture(2, random_state=0).fit(X, measurement_error=errors)
    again = model.predict_proba(X, measurement_error=errors)
    np.testing.assert_array_equal(again, model.memberships_)


def test_no_error_is_as_good_as_none_and_large_ones_leave_the_shares():
    X, _, _ = noisy(n=100)
    model = GaussianMixture(2, covariance_type="full", random_state=0).fit(X)
    none = model.predict_proba(X, measurement_error=np.zeros_like(X))
    np.testing.assert_allclose(none, model.predict_proba(X), atol=1e-9)
    blurred = model.predict_proba(X, measurement_error=np.full_like(X, 1e8))
    np.testing.assert_allclose(blurred, np.tile(model.weights_, (100, 1)), atol=1e-3)


@pytest.mark.parametrize("value", [np.ones(3), np.full((20, 2), -1.0), np.full((20, 2), np.nan)])
def test_errors_of_new_objects_are_checked(value):
    X, _, _ = noisy(n=100)
    model = GaussianMixture(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="measurement_error"):
        model.predict_proba(X[:20], measurement_error=value)


def test_errors_of_new_objects_need_features_and_a_model_without_noise():
    X, errors, _ = noisy(n=100)
    model = GaussianMixture(2, random_state=0).fit(X)
    with pytest.raises(ValueError, match="without missing values"):
        model.score_samples(np.where(X > 8.0, np.nan, X), measurement_error=errors)
    model = GaussianMixture(2, noise_cluster=0.1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="noise_cluster"):
        model.predict_proba(X, measurement_error=errors)


def test_criteria_of_the_search_take_the_errors():
    X = load_iris().data
    errors = np.full(X.shape, 0.05)
    model = GaussianMixture(2, covariance_type="full", random_state=0)
    model.fit(X, measurement_error=errors)
    L = model.score_samples(X, measurement_error=errors).sum()
    (row,) = model.search_
    assert row.bic == pytest.approx(-2 * L + row.n_parameters * np.log(150))
    assert row.aic == pytest.approx(-2 * L + 2 * row.n_parameters)
    sure = np.log(model.predict_proba(X, measurement_error=errors).max(axis=1)).sum()
    assert row.icl == pytest.approx(row.bic - 2 * sure)
    assert model.bic(X) > row.bic


def test_the_error_is_named_where_a_family_does_not_go_with_it():
    X = load_iris().data
    with pytest.raises(ValueError, match=r"covariance_type \(with measurement_error\)"):
        GaussianMixture(2, covariance_type="tied").fit(X, measurement_error=np.ones(X.shape))
