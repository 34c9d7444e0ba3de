"""What a candidate of a search is worth beside its likelihood, and which need not be fitted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sfumato import GaussianMixture, datasets
from sfumato.array.rows import Rows
from sfumato.components import gaussian as families
from sfumato.components import gaussian as kernel
from sfumato.components.gaussian import Gaussian, Measured
from sfumato.engine import mixture, search
from sfumato.numerics.distances import Coordinates, measure


def recorded(monkeypatch, model, X):
    """The fits of a model."""
    found = []
    choose = search.choose

    def note(fits, criterion):
        found[:] = list(fits)
        return choose(fits, criterion)

    monkeypatch.setattr(mixture, "choose", note)
    model.fit(X)
    return found


def doubt(fit):
    return fit.likelihood.component.doubt(fit.run.state, fit.likelihood.count)


def component(state, thinnest=1.0):
    """The component of a state, in the coordinates of the data."""
    d = state.means.shape[1]
    plain = Coordinates(np.zeros(d), np.ones(d), None, np.full(d, thinnest), thinnest)
    measured = Measured(plain, 60.0, False)
    return Gaussian(len(state.means), state.family, measured, state.floor)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("family", families.FAMILIES)
def test_the_covariance_of_the_data_is_that_of_their_coordinates(family, missing, rng):
    X = 3 + rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3)) * [1.0, 10.0, 0.1]
    mixed = families.kind_of(family) == "full"
    coordinates = measure(Rows(X, None), per_feature=True, mix=mixed)
    measured = Measured(coordinates, 50.0, missing)
    inner = measured.coordinates_of(family).inner(X)
    expected = np.cov(inner.T) if mixed else np.diag(inner.var(axis=0, ddof=1))
    np.testing.assert_allclose(measured.covariance(family), expected, atol=1e-6)


@pytest.mark.parametrize("covariance_type", ["VVV", "VVI", "VII"])
def test_doubt_is_the_likelihood_that_blurred_covariances_lose(covariance_type, monkeypatch):
    X, _, _ = datasets.make_gaussians(90, 2, n_features=3, separation=40, random_state=0)
    model = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    (fit,) = recorded(monkeypatch, model, X)
    scale = np.cov(X.T) / 2 ** (2 / 3)
    if covariance_type == "VVI":
        scale = np.diag(np.diag(scale))
    if covariance_type == "VII":
        scale = np.trace(scale) / 3 * np.eye(3)
    lost = 0.0
    for j in range(2):
        group, mean, S = X[model.labels_ == j], model.means_[j], model.covariances_[j]
        blurred = S + scale / len(group)
        lost += np.sum(multivariate_normal(mean, S).logpdf(group))
        lost -= np.sum(multivariate_normal(mean, blurred).logpdf(group))
    assert doubt(fit) == pytest.approx(2.0 * lost, rel=1e-3)


def test_ordinary_components_raise_no_doubt(monkeypatch):
    X, _, _ = datasets.make_gaussians(600, 3, separation=4, random_state=0)
    fits = recorded(monkeypatch, GaussianMixture(3, random_state=0), X)
    chosen = search.choose(fits, "bic")
    assert chosen.candidate.bic == min(fit.candidate.bic for fit in fits)
    assert doubt(chosen) < 0.1


@pytest.mark.filterwarnings("ignore:one cluster describes")
def test_components_that_hold_a_few_objects_near_a_line_are_not_chosen():
    """Two components of about ten objects on lines have the best BIC of all, and mean nothing."""
    X, posterior, labels = datasets.make_gaussians(300, 3, separation=2.0, random_state=1009)
    model = GaussianMixture(3, random_state=0).fit(X)
    assert model.search_.best(1)[0].covariance_type == "VVE"
    assert model.covariance_type_ == "EII"
    assert model.weights_.min() > 0.25
    averaged = GaussianMixture(3, covariance_type="average", random_state=0).fit(X)
    assert np.abs(averaged.memberships_ - model.memberships_).max() < 0.2


def test_spikes_are_told_from_components():
    state = kernel.State(
        np.array([0.98, 0.02]),
        np.zeros((2, 2)),
        np.stack([np.eye(2), 1e-9 * np.eye(2)]),
        "VVV",
        1e-9,
    )
    np.testing.assert_array_equal(component(state)._collapsed(state, 1000.0), [False, True])
    np.testing.assert_array_equal(component(state, 0.0)._collapsed(state, 100.0), [False, True])
    np.testing.assert_array_equal(component(state, 0.0)._collapsed(state, 1000.0), [False, False])


@pytest.mark.parametrize("family", families.FAMILIES)
def test_components_want_as_many_objects_as_fix_a_shape(family):
    d, wanted = 5, 3 if family[1] == "I" else 6
    whole = np.stack([np.eye(d)] * 2)
    unit = kernel.State(
        np.full(2, 0.5), np.zeros((2, d)), families.reduced(whole, family), family, 1e-9
    )
    for held, expected in ((wanted - 1, True), (wanted, False)):
        state = unit._replace(weights=np.array([500 - held, held]) / 500)
        assert component(state).has_small(state, 500.0) == expected
    assert component(unit)._collapsed(unit, 8.0).all() == (family in ("VVV", "EVV"))


def clusters(shape, seed, n=240, d=3, k=3):
    """Clear clusters whose covariances are round, common or free."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    turns = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(k)])
    widths = np.exp(rng.normal(size=(k, d)))
    if shape == "round":
        turns, widths = np.stack([np.eye(d)] * k), np.ones((k, d))
    elif shape == "common":
        turns, widths = np.stack([turns[0]] * k), np.stack([widths[0]] * k)
    noise = np.einsum("nij,nj->ni", (turns * widths[:, None, :])[labels], rng.normal(size=(n, d)))
    return 15.0 * np.eye(k, d)[labels] + noise


@pytest.mark.parametrize("criterion", ["bic", "icl", "aic"])
@pytest.mark.parametrize("shape", ["round", "common", "free"])
def test_what_is_ruled_out_could_not_have_been_chosen(shape, criterion, monkeypatch):
    X = clusters(shape, seed=len(shape), n=600)
    settings = {"criterion": criterion, "random_state": 0}
    few = GaussianMixture(3, **settings).fit(X)
    monkeypatch.setattr(search, "EFFORT", search.EFFORT._replace(behind=np.inf))
    every = GaussianMixture(3, **settings).fit(X)
    assert all(np.isfinite(row.bic) for row in every.search_)
    assert [row.covariance_type for row in few.search_] == list(families.FAMILIES)
    assert few.covariance_type_ == every.covariance_type_
    np.testing.assert_allclose(few.memberships_, every.memberships_, atol=1e-3)
    passed = 0
    for row, full in zip(few.search_, every.search_, strict=True):
        assert row.n_parameters == full.n_parameters
        if row.reason:
            bound = float(row.reason.split(" at least")[0].split()[-1])
            assert getattr(full, criterion) >= bound - 0.5
            passed += 1
    assert passed >= 4 or criterion == "aic"  # whose cost for a parameter rules out little


def test_order_and_type_do_not_matter_where_a_sample_is_drawn():
    rng = np.random.default_rng(0)
    centers = 6.0 * rng.normal(size=(5, 4))
    X = centers[rng.integers(5, size=9000)] + rng.normal(size=(9000, 4))
    model = GaussianMixture(covariance_type="diag", random_state=0).fit(X)
    order = rng.permutation(len(X))
    shuffled = GaussianMixture(covariance_type="diag", random_state=0).fit(X[order])
    single = GaussianMixture(covariance_type="diag", random_state=0).fit(X.astype(np.float32))
    assert model.n_clusters_ == shuffled.n_clusters_ == single.n_clusters_ == 5
    assert model.search_.n_objects == search.SCREEN
    np.testing.assert_allclose(shuffled.memberships_, model.memberships_[order], atol=1e-4)
    values = [row.bic for row in model.search_]
    np.testing.assert_allclose([row.bic for row in shuffled.search_], values, rtol=1e-6)
    assert np.all(np.diff(values[:5]) < 0)  # one sample for all numbers: no row stands out
