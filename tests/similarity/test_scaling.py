"""Nearest doubly stochastic matrices by their duals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.similarity.doubly_stochastic import (
    entropy_dual,
    fixed_point,
    frobenius_dual,
    newton,
)


@pytest.mark.parametrize("dual", [entropy_dual, frobenius_dual])
def test_derivatives_of_the_duals(dual, rng):
    K = rng.random((9, 9))
    K += K.T
    y, v = rng.normal(size=9) * 0.1, rng.normal(size=9)
    here, h = dual(K, y), 1e-6
    above, below = dual(K, y + h * v), dual(K, y - h * v)
    assert here.gradient @ v == pytest.approx((above.value - below.value) / (2 * h), rel=1e-6)
    np.testing.assert_allclose(
        here.curve(v), (above.gradient - below.gradient) / (2 * h), rtol=1e-5, atol=1e-6
    )


@given(st.integers(0, 2**32 - 1))
def test_newton_never_raises_the_dual(seed):
    rng = np.random.default_rng(seed)
    K = rng.random((7, 7)) ** 4
    K += K.T
    for dual in (entropy_dual, frobenius_dual):
        y = rng.normal(size=7) * 3
        for _ in range(30):
            before, y = dual(K, y).value, newton(lambda z, dual=dual: dual(K, z), y)
            assert dual(K, y).value <= before + 1e-9 * abs(before)
        assert np.abs(dual(K, y).gradient).max() < 1e-8


def test_fixed_point_halves_the_error_of_a_definite_similarity(rng):
    X = rng.normal(size=(30, 2))
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    x, errors = K.sum(axis=1) ** -0.5, []
    for _ in range(20):
        errors.append(np.abs(x * (K @ x) - 1).max())
        x = fixed_point(K, x)
    assert errors[-1] < errors[3] * 0.6**16
