"""What a candidate of a search is worth beside its likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sfumato import GaussianMixture, datasets
from sfumato.models.gaussian import search


def recorded(monkeypatch, model, X):
    """The fits of a model, with the data they were made on."""
    found = []
    choose = search.choose

    def note(data, fits, criterion):
        found[:] = [data, list(fits)]
        return choose(data, fits, criterion)

    monkeypatch.setattr(search, "choose", note)
    model.fit(X)
    return found


@pytest.mark.parametrize("covariance_type", ["VVV", "VVI", "VII"])
def test_doubt_is_the_likelihood_that_blurred_covariances_lose(covariance_type, monkeypatch):
    X, _, _ = datasets.make_gaussians(90, 2, n_features=3, separation=40, random_state=0)
    model = GaussianMixture(2, covariance_type=covariance_type, random_state=0)
    data, (fit,) = recorded(monkeypatch, model, X)
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
    assert search.doubt(data, fit) == pytest.approx(2.0 * lost, rel=1e-3)


def test_ordinary_components_raise_no_doubt(monkeypatch):
    X, _, _ = datasets.make_gaussians(600, 3, separation=4, random_state=0)
    data, fits = recorded(monkeypatch, GaussianMixture(3, random_state=0), X)
    chosen = search.choose(data, fits, "bic")
    assert chosen.candidate.bic == min(fit.candidate.bic for fit in fits)
    assert search.doubt(data, chosen) < 0.1


@pytest.mark.filterwarnings("ignore:3 components describe")
def test_components_that_hold_a_few_objects_near_a_line_are_not_chosen():
    """Two components of about ten objects on lines have the best BIC of all, and mean nothing."""
    X, posterior, labels = datasets.make_gaussians(300, 3, separation=2.0, random_state=1009)
    model = GaussianMixture(3, random_state=0).fit(X)
    assert model.search_.best(1)[0].covariance_type == "VVE"
    assert model.covariance_type_ == "EII"
    assert model.weights_.min() > 0.25
    averaged = GaussianMixture(3, average=True, random_state=0).fit(X)
    assert np.abs(averaged.memberships_ - model.memberships_).max() < 0.2
