"""Must-links, cannot-links and labels in Gaussian mixtures."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits

from sfumato import GaussianMixture
from sfumato.metrics import adjusted_rand_index


def some_pairs(y, n, rng):
    pairs = rng.integers(0, len(y), (n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def overlapping(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n // 2)
    X = rng.normal(size=(n, 2)) * [1.0, 3.0] + np.where(y, 1.2, -1.2)[:, None] * [1.0, 0.0]
    return X, y


@pytest.mark.parametrize("family", ["VVV", "EEE", "VVI", "EEI"])
def test_constraints_raise_the_agreement_with_the_truth_and_are_honoured(family):
    X, y = overlapping()
    must, cannot = some_pairs(y, 60, np.random.default_rng(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blind = GaussianMixture(2, covariance_type=family, random_state=0).fit(X)
        told = GaussianMixture(2, covariance_type=family, random_state=0).fit(
            X, must_link=must, cannot_link=cannot
        )
    U, labels = told.memberships_, told.labels_
    np.testing.assert_allclose(U[must[:, 0]], U[must[:, 1]], atol=1e-12)
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    assert adjusted_rand_index(y, labels) > adjusted_rand_index(y, blind.labels_)
    steps = np.diff(told.history_)
    assert steps.min(initial=0) >= -1e-6 * abs(told.history_[-1])


def test_objective_is_the_log_sum_over_all_allowed_labellings():
    X, _ = overlapping(40)
    must, cannot = np.array([[0, 1], [1, 30]]), np.array([[2, 3]])
    model = GaussianMixture(2, covariance_type="full", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, must_link=must, cannot_link=cannot)
    U = model.predict_proba(X)
    L = np.log(U) + model.score_samples(X)[:, None]
    free = np.setdiff1d(np.arange(40), [0, 1, 30, 2, 3])
    expected = logsumexp(L[free], axis=1).sum() + logsumexp(L[[0, 1, 30]].sum(axis=0))
    expected += np.logaddexp(L[2, 0] + L[3, 1], L[2, 1] + L[3, 0])
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


def test_digits_with_a_few_dozen_pairs():
    digits = load_digits()
    chosen = np.flatnonzero(np.isin(digits.target, [3, 8, 9]))[:300]
    X, y = digits.data[chosen], digits.target[chosen]
    X = (X - X.mean(axis=0)) @ np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:5].T
    must, cannot = some_pairs(y, 80, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blind = GaussianMixture(3, covariance_type="tied", random_state=0).fit(X)
        told = GaussianMixture(3, covariance_type="tied", random_state=0).fit(
            X, must_link=must, cannot_link=cannot
        )
    before, after = (adjusted_rand_index(y, m.labels_) for m in (blind, told))
    assert after > before + 0.03


def test_weak_links_pull_a_little_and_strong_ones_win():
    X, _ = overlapping()
    left, right = np.argmin(X[:, 0]), np.argmax(X[:, 0])
    values = []
    for weight in (0.5, 50.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianMixture(2, covariance_type="full", random_state=0).fit(
                X, must_link=[[left, right, weight]]
            )
        U = model.memberships_
        values.append(float(U[left] @ U[right]))
    assert values[0] < 0.1
    assert values[1] > 0.5


def test_links_with_labels_and_missing_values():
    X, y = overlapping()
    X[::9, 1] = np.nan
    labels = np.full(len(y), -1)
    labels[[3, 150]] = [5, 2]
    model = GaussianMixture(2, covariance_type="diag", random_state=0)
    model.fit(X, labels, must_link=[[3, 9]], cannot_link=[[9, 12]])
    np.testing.assert_allclose(model.memberships_[[3, 9, 12]], [[0, 1], [0, 1], [1, 0]], atol=1e-12)
    with pytest.raises(ValueError, match="rows 9 and 3"):
        model.fit(X, labels, must_link=[[3, 9]], cannot_link=[[9, 3]])
    with pytest.raises(ValueError, match="average"):
        GaussianMixture(2, covariance_type="average").fit(X, must_link=[[0, 1]])
