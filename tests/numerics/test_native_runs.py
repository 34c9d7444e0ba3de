"""Whole runs in one native call against the loop of steps."""

import numpy as np
import pytest

from sfumato import FuzzyCMeans
from sfumato.datasets import make_gaussians
from sfumato.models.fuzzy import kernel


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise_cluster": 0.5},
        {"fuzzifier": 1.7, "tol": 1e-10},
        {"fuzzifier": 1.2, "noise_cluster": 2.0},
        {"max_iter": 3},
        {"max_iter": 1},
        {"tol": 0.0, "max_iter": 12},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_runs_are_those_of_the_loop(monkeypatch, rng, settings, weighted):
    X = make_gaussians(150, 4, n_features=3, separation=1.5, random_state=0).evidence
    weights = rng.gamma(1.0, size=150) if weighted else None
    fits = []
    for run in (kernel.whole_run, lambda *_: None):
        monkeypatch.setattr(kernel, "whole_run", run)
        fits.append(FuzzyCMeans(4, random_state=0, **settings).fit(X, sample_weight=weights))
    once, steps = fits
    assert once.n_iter_ == steps.n_iter_
    assert once.converged_ == steps.converged_
    np.testing.assert_allclose(once.history_, steps.history_, rtol=1e-10)
    np.testing.assert_allclose(once.memberships_, steps.memberships_, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_one_object_on_every_center_and_more_centers_than_objects_of_weight():
    X = np.arange(8.0).reshape(4, 2)
    model = FuzzyCMeans(4, random_state=0).fit(X)
    np.testing.assert_allclose(model.memberships_.max(axis=1), 1.0)
    few = FuzzyCMeans(3, random_state=0).fit(X, sample_weight=[1.0, 1.0, 0.0, 0.0])
    assert np.isfinite(few.cluster_centers_).all()
