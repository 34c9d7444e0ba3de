"""Mixtures of directions: SciPy's density as oracle, recovery, choice, refusals."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive
from scipy.stats import vonmises_fisher

from sfumato import DirectionalMixture, EvidenceWarning
from sfumato.metrics import adjusted_rand_index
from sfumato.models.directional import concentration_of, log_bessel, mean_length

quiet = pytest.mark.filterwarnings("ignore:structure test")


def draws(d=5, k=3, n=300, kappa=40.0, seed=0):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(k, d))
    means /= np.linalg.norm(means, axis=1)[:, None]
    g = np.repeat(np.arange(k), n // k)
    X = np.concatenate([vonmises_fisher(m, kappa).rvs(n // k, random_state=rng) for m in means])
    return X, g, means


@pytest.mark.parametrize("order", [0.0, 0.5, 4.0, 49.0, 51.0, 191.0])
def test_bessel_functions_agree_with_scipy(order):
    x = np.array([1e-4, 0.1, 1.0, 30.0, 1e3, 1e5]) * max(1.0, order / 10)
    with np.errstate(divide="ignore"):  # SciPy's underflow where the order is large and x is small
        expected = np.log(ive(order, x)) + x - order * np.log(x)
    there = np.isfinite(expected)
    assert there.sum() >= 3
    np.testing.assert_allclose(log_bessel(order, x)[there], expected[there], rtol=1e-9, atol=1e-9)
    assert np.isfinite(log_bessel(order, x)).all()


@pytest.mark.parametrize("d", [2, 3, 20, 384])
def test_concentrations_solve_their_equation(d):
    for r in (0.05, 0.5, 0.95):
        root = brentq(lambda x, r=r: float(mean_length(d, np.array(x))) - r, 1e-3, 1e6)
        assert concentration_of(d, np.array([r]))[0] == pytest.approx(root, rel=1e-6)


@quiet
def test_the_density_is_that_of_scipy():
    X, _, _ = draws()
    model = DirectionalMixture(3, random_state=0).fit(X)
    parts = [
        w * vonmises_fisher(m, kappa).pdf(X)
        for w, m, kappa in zip(model.weights_, model.means_, model.concentrations_, strict=True)
    ]
    np.testing.assert_allclose(model.score_samples(X), np.log(sum(parts)), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X).T, parts / sum(parts), atol=1e-9)
    assert model.log_likelihood_ == pytest.approx(np.log(sum(parts)).sum())


@quiet
def test_directions_and_concentrations_are_recovered():
    X, g, means = draws(n=1500)
    model = DirectionalMixture(3, random_state=0).fit(X * np.linspace(0.1, 9.0, len(X))[:, None])
    assert adjusted_rand_index(g, model.labels_) > 0.95
    assert (means @ model.means_.T).max(axis=1).min() > 0.999
    np.testing.assert_allclose(model.concentrations_, 40.0, rtol=0.15)
    assert np.diff(model.history_).min() > -1e-9 * abs(model.history_[-1])


@quiet
def test_one_cluster_is_the_maximum_likelihood_fit_of_scipy():
    X, _, _ = draws(k=1)
    mean, kappa = vonmises_fisher.fit(X)
    model = DirectionalMixture(1).fit(X)
    np.testing.assert_allclose(model.means_[0], mean, atol=1e-8)
    assert model.concentrations_[0] == pytest.approx(kappa, rel=1e-5)


def test_the_number_is_found_in_many_features():
    X, g, _ = draws(d=100, k=6, n=600, kappa=200.0)
    model = DirectionalMixture(random_state=0).fit(X)
    assert model.n_clusters_ == 6
    assert adjusted_rand_index(g, model.labels_) > 0.99


@quiet
def test_a_common_concentration():
    X, _, _ = draws()
    model = DirectionalMixture(3, shared_concentration=True, random_state=0).fit(X)
    assert np.ptp(model.concentrations_) == 0
    free = DirectionalMixture(3, random_state=0).fit(X)
    assert model.search_[0].n_parameters == free.search_[0].n_parameters - 2
    assert model.log_likelihood_ <= free.log_likelihood_ + 1e-6


@quiet
def test_draws_follow_the_mixture():
    X, _, _ = draws(n=900)
    model = DirectionalMixture(3, random_state=0).fit(X)
    Y, labels = model.sample(3000)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 1.0)
    assert model.score(Y) == pytest.approx(model.score(X), abs=0.15)
    assert (model.predict(Y) == labels).mean() > 0.9


@quiet
def test_equal_directions_and_objects_without_one_give_finite_answers():
    X = np.repeat(np.eye(3), 5, axis=0) * np.linspace(1, 2, 15)[:, None]
    model = DirectionalMixture(3, random_state=0).fit(X)
    np.testing.assert_array_equal(np.sort(np.bincount(model.labels_)), [5, 5, 5])
    with pytest.warns(EvidenceWarning, match="no direction"):
        model = DirectionalMixture(2, random_state=0).fit(np.vstack([X, np.zeros((1, 3))]))
    assert np.isfinite(model.memberships_).all()


def test_refusals():
    with pytest.raises(ValueError, match="n_features=1"):
        DirectionalMixture(2).fit(np.arange(1.0, 9.0)[:, None])
    X = np.eye(4)
    X[0, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in some features"):
        DirectionalMixture(2).fit(X)
    with pytest.raises(TypeError, match="shared_concentration must be True or False"):
        DirectionalMixture(2, shared_concentration="yes").fit(np.eye(4))
