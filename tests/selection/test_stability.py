"""Resamples of the evidence, fitted with the same settings."""

import numpy as np
import pytest

from sfumato import EvidenceAccumulation, GaussianMixture, SpectralClustering
from sfumato.datasets import make_gaussians, make_labelings, make_uniform
from sfumato.selection import stability

APART = make_gaussians(120, 3, separation=8, random_state=0)


def test_groups_that_stand_apart_are_found_again():
    model = GaussianMixture(3, covariance_type="tied", n_init=2, random_state=0).fit(APART.evidence)
    found = stability(model, APART.evidence, n_resamples=2, random_state=0)
    assert found.agreement == pytest.approx(1.0)
    assert found.values.shape == (2,)
    again = stability(model, APART.evidence, n_resamples=2, random_state=0)
    np.testing.assert_array_equal(found.values, again.values)


def test_cuts_through_one_cloud_are_not():
    X = make_uniform(200, n_features=4, random_state=0).evidence
    model = GaussianMixture(5, covariance_type="diag", n_init=1, random_state=0)
    assert stability(model, X, n_resamples=2, random_state=0).agreement < 0.6


def test_similarities_and_labelings():
    X = APART.evidence
    W = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 4)
    model = SpectralClustering(similarity="precomputed", random_state=0)
    found = stability(model, W, 3, n_resamples=1, max_objects=90, random_state=0)
    assert found.agreement > 0.9
    L = make_labelings(90, 3, n_members=12, random_state=0).evidence
    model = EvidenceAccumulation(3, ensemble="precomputed", random_state=0)
    assert stability(model, L, n_resamples=1, max_objects=60, random_state=0).values.shape == (1,)


def test_a_search_is_part_of_the_settings():
    model = GaussianMixture(n_init=1, random_state=0).fit(APART.evidence)
    found = stability(model, APART.evidence, n_resamples=2, random_state=0)
    assert found.agreement == pytest.approx(1.0)
    with pytest.raises(ValueError, match="n_clusters"):
        stability(model, APART.evidence, 1000)
