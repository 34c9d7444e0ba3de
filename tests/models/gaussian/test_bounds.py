"""A family that is not fitted because of its bound really is behind when it is fitted."""

import numpy as np
import pytest

from sfumato import GaussianMixture
from sfumato.models.gaussian import bounds, direct, kernel, search


def grouped(seed, n, d, k, correlated=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if correlated:
        X = X @ (np.eye(d) + 0.5 * rng.normal(size=(d, d)) / np.sqrt(d))
    return X + rng.normal(size=(k, d))[rng.integers(k, size=n)]


def fitted(X, sizes, **options):
    return GaussianMixture(sizes, n_init=2, max_iter=50, random_state=0, **options).fit(X)


def criteria(model, covariance_type):
    return {row.n_clusters: row for row in model.search_ if row.covariance_type == covariance_type}


def test_the_family_that_is_passed_over_is_behind_when_it_is_fitted(monkeypatch):
    X = grouped(0, 80, 60, 3)
    fast = fitted(X, [1, 2, 3])
    monkeypatch.setattr(search, "possible_types", lambda *args: tuple(args[3]))
    slow = fitted(X, [1, 2, 3])
    best = min(row.bic for row in fast.search_ if np.isfinite(row.bic))
    for k, row in criteria(slow, "EEE").items():
        skipped = criteria(fast, "EEE")[k]
        assert skipped.reason.startswith("not fitted: its BIC would be")
        bound = float(skipped.reason.split("would be ")[1].split()[0])
        assert best < bound <= row.bic + 0.1
        assert skipped.n_parameters == row.n_parameters
    assert fast.covariance_type_ == slow.covariance_type_
    np.testing.assert_array_equal(fast.labels_, slow.labels_)
    assert fast.objective_ == pytest.approx(slow.objective_, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*no better than one")
@pytest.mark.parametrize("criterion", ["bic", "aic", "icl"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_no_fit_of_one_covariance_beats_the_bound(k, criterion):
    X = grouped(k, 70, 50, k, correlated=True)
    X[:, 0] = X[:, 1] + 1e-3 * X[:, 0]  # a thin direction
    data = search.MixtureData.measure(X, None, None, ("EEE",), None)
    sample = data.sample(np.random.default_rng(0))
    model = fitted(X, k, covariance_type="EEE", criterion=criterion)
    settings = model._settings((), [k], 50, False)
    likelihood, spread = bounds._spread(data, sample, settings)
    bound = bounds.least_criterion(likelihood, spread, k, settings.reg_covar, criterion)
    value = getattr(model.search_[0], criterion)
    assert bound <= value + 1e-6 * abs(value)
    if k == 1:  # one component has all of it
        assert bound == pytest.approx(value, rel=1e-6)


def test_a_common_covariance_that_may_win_is_fitted():
    X = grouped(4, 400, 50, 2, correlated=True)
    X[:, 1:] += 3.0 * X[:, :1]
    model = fitted(X, [1, 2])
    assert model.covariance_type_ == "EEE"
    assert all(np.isfinite(row.bic) for row in criteria(model, "EEE").values())


@pytest.mark.parametrize("noise", [False, True])
def test_one_product_for_a_common_covariance_gives_the_same_step(noise):
    rng = np.random.default_rng(0)
    n, d, k = 90, 50, 3
    X, A = rng.normal(size=(n, d)), rng.normal(size=(d, d))
    X[:4] *= 1e6  # so far that the product would round
    C = np.broadcast_to(A @ A.T / d + 0.1 * np.eye(d), (k, d, d))
    weights = np.full(k + noise, 1.0 / (k + noise))
    level = np.full(d, -1.5) if noise else None
    shared = kernel.State(weights, rng.normal(size=(k, d)), C, "EEE", 1e-9, level)
    own, w = shared._replace(family="VVV"), rng.uniform(1.0, 2.0, size=n)
    np.testing.assert_allclose(direct.logits(X, shared), direct.logits(X, own), rtol=1e-9)
    one, other = direct.summarize(X, w, shared), direct.summarize(X, w, own)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    after = kernel.update(one, shared), kernel.update(other, shared)
    for name in ("weights", "means", "covariances"):
        a, b = (getattr(state, name) for state in after)
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9 * np.abs(b).max())
