"""Extrapolated fixed-point steps: they stay where the step is defined."""

from itertools import pairwise

import numpy as np
import pytest

from sfumato.engine.loop import Squarem


def halving(state):
    """Half of the state, and its square; not defined below zero."""
    if state[0] < 0:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")
    return state / 2, float(state[0] ** 2)


def unpack_below(vector, like):
    """Every extrapolation ends below zero."""
    return -np.abs(vector)


def test_an_extrapolation_at_which_the_step_is_not_defined_is_taken_back():
    step = Squarem.accelerate(halving, lambda state: state, unpack_below, larger=False)
    state, values = Squarem(np.array([8.0]), stretch=4.0), []
    for _ in range(8):
        state, value = step(state)
        values.append(value)
    assert all(later <= earlier for earlier, later in pairwise(values))
    assert values[-1] < 1e-3 * values[0]


def test_a_plain_step_that_is_not_defined_is_an_error():
    step = Squarem.accelerate(halving, lambda state: state, unpack_below, larger=False)
    with pytest.raises(np.linalg.LinAlgError):
        step(Squarem(np.array([-1.0])))
