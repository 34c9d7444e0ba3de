"""Growth transforms: the inequality on random polynomials, agreement with the published pairwise
rule, bad input.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.growth import growth_step, maximize
from sfumato.models.pairwise import kernel


def random_polynomial(seed, n=5, k=3, n_terms=12):
    """A sum of monomials with nonnegative coefficients, of mixed degrees, and its gradient by
    hand.
    """
    rng = np.random.default_rng(seed)
    powers = rng.integers(0, 3, size=(n_terms, n, k))
    coefficients = rng.random(n_terms)

    def polynomial(U):
        terms = coefficients * np.prod(U**powers, axis=(1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            gradient = np.where(U > 0, np.einsum("t,tij->ij", terms, powers) / U, 0.0)
        return float(terms.sum()), gradient

    return polynomial


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60)
def test_no_step_lowers_a_polynomial_with_nonnegative_coefficients(seed):
    polynomial = random_polynomial(seed)
    U = np.random.default_rng(seed + 1).dirichlet(np.ones(3), size=5)
    for _ in range(20):
        value, gradient = polynomial(U)
        U = growth_step(U, gradient)
        np.testing.assert_allclose(U.sum(axis=1), 1.0, atol=1e-12)
        assert polynomial(U)[0] >= value * (1 - 1e-12)


@given(seed=st.integers(0, 10_000), rate=st.floats(1e-3, 1.0))
@settings(max_examples=60)
def test_every_part_of_the_way_climbs_too(seed, rate):
    """The homotopy of Baum and Sell (1968), and that P rises all along the line."""
    polynomial = random_polynomial(seed)
    U = np.random.default_rng(seed + 1).dirichlet(np.ones(3), size=5)
    for _ in range(5):
        value, gradient = polynomial(U)
        whole = growth_step(U, gradient)
        values = [polynomial(t * whole + (1 - t) * U)[0] for t in np.linspace(0.0, 1.0, 9)]
        assert min(values) >= value * (1 - 1e-12)
        moved = growth_step(U, gradient, rate=rate)
        np.testing.assert_allclose(moved, rate * whole + (1 - rate) * U, atol=1e-15)
        assert polynomial(moved)[0] >= value * (1 - 1e-12)
        U = moved


def test_slower_steps_reach_the_same_maximum():
    W = np.kron(np.eye(2), np.ones((4, 4)))
    U = np.random.default_rng(0).dirichlet([1, 1], size=8)

    def polynomial(U):
        return float((U * (W @ U)).sum()), 2 * W @ U

    fast, slow = (maximize(polynomial, U, rate=rate) for rate in (1.0, 0.3))
    assert slow.value == pytest.approx(fast.value, rel=1e-6)
    assert slow.n_iter > fast.n_iter
    assert (np.diff(slow.history) >= 0).all()
    with pytest.raises(ValueError, match="rate"):
        maximize(polynomial, U, rate=0.0)


def test_gradients_of_the_test_itself_are_right():
    polynomial = random_polynomial(3)
    U = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
    gradient = polynomial(U)[1]
    for place in np.ndindex(U.shape):
        step = np.zeros_like(U)
        step[place] = 1e-6
        slope = (polynomial(U + step)[0] - polynomial(U - step)[0]) / 2e-6
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_the_published_pairwise_rule_is_a_growth_transform():
    """f = |W - a UU'|^2 falls where  -f + offset  grows: the same step from the same start."""
    rng = np.random.default_rng(0)
    W = rng.random((12, 12))
    W, n = (W + W.T) / 2, 12
    U = rng.dirichlet(np.ones(3), size=n)
    problem = kernel.Problem(kernel.Explicit(W), False, 1.0)
    published, _ = kernel.baum_eagon_step(problem, kernel.start(problem, U[:, None, :]))
    ours = growth_step(U, (W @ U - U @ (U.T @ U)) + n)
    np.testing.assert_allclose(ours, published.U[:, 0], atol=1e-12)


def test_rows_without_gradient_and_entries_of_zero_stay():
    U = np.array([[0.2, 0.8], [0.0, 1.0]])
    assert growth_step(U, np.zeros((2, 2))).tolist() == U.tolist()
    assert growth_step(U, np.ones((2, 2))).tolist() == U.tolist()
    assert growth_step(U, np.array([[1e300, 1e-300], [5.0, 1.0]]))[:, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (np.ones((3, 2)), "gradient must have the shape"),
        (-np.ones((2, 2)), "add an offset"),
        (np.full((2, 2), np.nan), "finite"),
    ],
)
def test_bad_gradients_are_named(gradient, message):
    with pytest.raises(ValueError, match=message):
        growth_step(np.full((2, 2), 0.5), gradient)


def test_bad_starts_and_limits_are_named():
    with pytest.raises(ValueError, match="offset"):
        maximize(lambda U: (0.0, U), np.full((2, 2), 0.5), offset=-1.0)
    with pytest.raises(ValueError, match="sum"):
        maximize(lambda U: (0.0, U), np.full((2, 2), 0.7))
