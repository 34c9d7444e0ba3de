"""Ways out of a poor optimum."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sfumato.models.gaussian import runs


def test_the_component_least_missed_is_that_of_a_slow_loop():
    rng = np.random.default_rng(0)
    L, weights = rng.normal(size=(5, 40)) * 30, rng.random(40)
    values = [logsumexp(np.delete(L, j, axis=0), axis=0) @ weights for j in range(4)]
    found = runs._least_missed(L, weights, 4)  # the last row is noise
    np.testing.assert_array_equal(found, np.argsort(values)[::-1])
