"""Ways out of a poor optimum."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sfumato.engine import search as runs


def test_the_cluster_least_missed_is_that_of_a_slow_loop():
    rng = np.random.default_rng(0)
    L, weights = rng.normal(size=(5, 40)) * 30, rng.random(40)
    values = [logsumexp(np.delete(L, j, axis=0), axis=0) @ weights for j in range(5)]
    found = runs.least_missed(L, weights)
    np.testing.assert_array_equal(found, np.argsort(values)[::-1])
