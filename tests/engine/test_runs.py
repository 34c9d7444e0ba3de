"""Ways out of a poor optimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from sfumato.engine import search as runs
from sfumato.models.directional import Directions, directions
from sfumato.numerics.seeding import Sample


def test_the_cluster_least_missed_is_that_of_a_slow_loop():
    rng = np.random.default_rng(0)
    L, weights = rng.normal(size=(5, 40)) * 30, rng.random(40)
    values = [logsumexp(np.delete(L, j, axis=0), axis=0) @ weights for j in range(5)]
    found = runs.least_missed(L, weights)
    np.testing.assert_array_equal(found, np.argsort(values)[::-1])


def test_a_cluster_that_covers_two_gets_one_of_two_that_share_a_third():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 40)
    X = directions(np.eye(3)[truth] * 4.0 + rng.normal(size=(120, 3)) * 0.3)
    component = Directions(3, 3, False)
    likelihood = runs.Objects.of(X, None).likelihood(component)
    problem = runs.Problem(likelihood, Sample(X, np.ones(120), [X]), X, False)

    def run(labels):
        R = (labels == np.arange(3)[:, None]).astype(float)
        return likelihood.run(problem.states(R[None])[0], 500, 1e-10)

    right, wrong = run(truth), run(np.where(truth == 0, np.arange(120) % 2, 2))
    assert right.objective > wrong.objective + 10.0
    moved = runs.moved_run(problem, wrong, runs.Limits(500, 1e-10))
    assert moved.objective == pytest.approx(right.objective, abs=1e-6)
