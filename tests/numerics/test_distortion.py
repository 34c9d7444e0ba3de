"""Formulas on tables of soft counts, against their sums over objects."""

import numpy as np
import pytest
from scipy.stats import entropy

from sfumato.numerics.contingency import distortion


def test_the_distortion_is_the_mean_divergence_from_the_clusters():
    rng = np.random.default_rng(0)
    weights, U = rng.random(20), rng.dirichlet(np.ones(3), 20)
    Q, clusters = rng.dirichlet(np.ones(4), 20), rng.dirichlet(np.ones(4), 3)
    r = (weights[:, None] * U).T @ Q
    divergences = np.array([[entropy(q, psi) for psi in clusters] for q in Q])
    expected = np.average((U * divergences).sum(axis=1), weights=weights)
    found = distortion(r, clusters, float(weights @ entropy(Q, axis=1)))
    assert found == pytest.approx(expected, rel=1e-10)
