"""GaussianMixture in all fourteen families: mclust's values, search, averages and priors."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from sfumato import GaussianMixture
from sfumato.components.gaussian import FAMILIES
from sfumato.conjugate import NormalInverseWishart
from sfumato.engine import mixture

IRIS = load_iris().data
DATA = Path(__file__).parent / "data"


def golden(name):
    with (DATA / "mclust_bic.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["data"] == name and row["bic"] != "NA"]
    return {(row["model"], int(row["k"])): float(row["bic"]) for row in rows}


def loaded(name):
    if name == "iris":
        return IRIS
    columns = range(2) if name == "faithful" else range(1, 6)
    return np.loadtxt(DATA / f"{name}.csv", delimiter=",", skiprows=1, usecols=columns)


@pytest.mark.parametrize("name", ["iris", "faithful", "thyroid"])
def test_a_search_reaches_the_criteria_of_mclust(name, monkeypatch):
    X, expected, fits = loaded(name), golden(name), []
    fit_all = mixture.fit_all
    monkeypatch.setattr(mixture, "fit_all", lambda *args: fits.extend(fit_all(*args)) or fits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = GaussianMixture(range(1, 10), random_state=0).fit(X)
    found = {(row.covariance_type, row.n_clusters): -row.bic for row in model.search_}
    assert set(found) >= set(expected)
    for key, value in expected.items():
        assert found[key] >= value - 1e-3, key
    best = max(expected.values())
    assert -model.search_.best(1)[0].bic >= best - 1e-3
    assert "best three" in repr(model.search_)
    larger = {key for key, value in expected.items() if found[key] > value + 0.5}
    assert larger  # what is far above mclust must be so by SciPy's densities too
    for fit in fits:
        key = (fit.candidate.covariance_type, fit.candidate.n_clusters)
        if key in larger:
            assert independent_bic(fit, X) == pytest.approx(found[key], abs=1e-5), key


def independent_bic(fit, X):
    """BIC with mclust's sign, by SciPy's densities and mclust's count, at a state of a search."""
    state, component = fit.run.state, fit.likelihood.component
    family, (k, d) = state.family, state.means.shape
    means = component.coordinates.outer(state.means)
    shapes = component.outer_covariances(state)
    belong_to(family, shapes)
    L = [
        np.log(weight) + multivariate_normal(mean, S).logpdf(X)
        for weight, mean, S in zip(state.weights, means, shapes, strict=True)
    ]
    free = {"E": 1, "V": k}
    volume, shape, turned = family
    p = free[volume] + (0 if shape == "I" else free[shape] * (d - 1))
    p += 0 if turned == "I" else free[turned] * d * (d - 1) // 2
    p += k * d + k - 1
    return 2.0 * logsumexp(L, axis=0).sum() - p * np.log(len(X))


def belong_to(family, shapes):
    """Check that covariances (k, d, d) keep to the letters of their family."""
    d = shapes.shape[1]
    values = np.linalg.eigvalsh(shapes)
    volumes = np.exp(np.log(values).mean(axis=1))
    ratios = values / volumes[:, None]
    if family[0] == "E":
        np.testing.assert_allclose(volumes, volumes[0], rtol=1e-5)
    if family[1] == "I":
        np.testing.assert_allclose(shapes, volumes[:, None, None] * np.eye(d), atol=1e-8)
    elif family[1] == "E":
        np.testing.assert_allclose(ratios, np.broadcast_to(ratios[0], ratios.shape), rtol=1e-5)
    if family[2] == "I":
        assert np.abs(shapes * (1 - np.eye(d))).max() <= 1e-8 * np.abs(shapes).max()
    elif family[2] == "E":  # matrices with common axes commute
        products = shapes[:, None] @ shapes[None]
        np.testing.assert_allclose(
            products, np.swapaxes(products, 2, 3), atol=1e-6 * np.abs(products).max()
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_likelihood_is_that_of_the_published_parameters(family):
    model = GaussianMixture(3, covariance_type=family, n_init=2, random_state=0).fit(IRIS)
    L = [
        np.log(w) + multivariate_normal(m, S).logpdf(IRIS)
        for w, m, S in zip(model.weights_, model.means_, model.covariances_, strict=True)
    ]
    assert logsumexp(L, axis=0).sum() == pytest.approx(model.objective_, rel=1e-9)
    np.testing.assert_allclose(model.predict_proba(IRIS), model.memberships_, atol=1e-12)
    assert np.diff(model.history_).min(initial=0) >= -1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_holes_noise_and_batches_work_in_every_family(family):
    rng = np.random.default_rng(0)
    holes = IRIS.copy()
    holes[rng.random(IRIS.shape) < 0.05] = np.nan
    weights = rng.integers(1, 3, len(IRIS))
    settings = {"covariance_type": family, "n_init": 1, "random_state": 0, "max_iter": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for X in (IRIS, holes):
            model = GaussianMixture(2, noise_cluster=0.05, **settings).fit(X, sample_weight=weights)
            assert model.memberships_.shape == (150, 3)
            np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0, atol=1e-12)
        model = GaussianMixture(2, **settings).partial_fit(IRIS[::2]).partial_fit(IRIS[1::2])
    assert np.isfinite(model.memberships_).all()


def test_the_default_takes_the_family_with_the_best_criterion():
    model = GaussianMixture(3, random_state=0).fit(IRIS)
    assert model.covariance_type_ == "VEV"
    assert model.covariances_.shape == (3, 4, 4)
    assert model.bic(IRIS) == pytest.approx(min(row.bic for row in model.search_))


def test_an_average_lies_between_its_members_and_holds_for_new_objects():
    model = GaussianMixture([2, 3], covariance_type="average", n_init=2, random_state=0).fit(IRIS)
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(IRIS), model.memberships_, atol=1e-12)
    assert len(model._members) > 1
    best = GaussianMixture([2, 3], n_init=2, random_state=0).fit(IRIS)
    assert model.memberships_.shape == best.memberships_.shape
    assert (model.labels_ == best.labels_).mean() > 0.9


def test_the_default_prior_is_that_of_mclust():
    settings = {"covariance_type": "VVV", "prior": "default", "random_state": 0}
    model = GaussianMixture(3, n_init=1, **settings).fit(IRIS)
    # mclust, which has this one start, stops a little before the maximum of the posterior.
    assert model.score(IRIS) * 150 == pytest.approx(-192.7008, abs=0.01)
    assert -model.bic(IRIS) == pytest.approx(-605.8695, abs=0.02)
    assert np.diff(model.history_).min() >= -1e-8
    # Maxima are compared by their likelihood: the density of the prior would choose a spike.
    more = GaussianMixture(3, **settings).fit(IRIS)
    assert -more.bic(IRIS) == pytest.approx(-605.8695, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_prior_the_search_over_families_does_not_depend_on_the_seed(seed):
    model = GaussianMixture(3, prior="default", random_state=seed).fit(IRIS)
    direct = GaussianMixture(3, covariance_type="VEV", prior="default", random_state=0).fit(IRIS)
    assert model.covariance_type_ == "VEV"
    assert model.score(IRIS) == pytest.approx(direct.score(IRIS), abs=1e-3)


@pytest.mark.parametrize("family", ["VVV", "VEV", "EEE", "VVI", "VII"])
def test_with_a_prior_nothing_collapses(family):
    X = np.random.default_rng(0).normal(size=(60, 10))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GaussianMixture(12, covariance_type=family, prior="default", random_state=0).fit(X)
    assert not any("collapsed" in str(w.message) for w in caught)
    assert np.isfinite(model.memberships_).all()
    matrices = model.covariances_
    assert np.linalg.eigvalsh(matrices).min() > 1e-4


def test_a_strong_prior_gives_its_mean_and_scale():
    prior = NormalInverseWishart(mean=np.full(4, 3.0), kappa=1e9, df=1e9, scale=1e9 * np.eye(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = GaussianMixture(2, covariance_type="VVV", prior=prior, random_state=0).fit(IRIS)
    np.testing.assert_allclose(model.means_, 3.0, atol=1e-3)
    np.testing.assert_allclose(model.covariances_, np.stack([np.eye(4)] * 2), atol=1e-3)
    with pytest.raises(ValueError, match="prior must have a mean of shape"):
        GaussianMixture(2, prior=NormalInverseWishart(np.zeros(2), 1, 4, np.eye(2))).fit(IRIS)
