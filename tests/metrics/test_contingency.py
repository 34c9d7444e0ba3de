"""The Bayes factor of a contingency table against scipy's distributions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import betabinom, dirichlet_multinomial

from sfumato.metrics import contingency_bayes_factor


def log_sequence_probability(row, prior):
    """Dirichlet-multinomial of one row, without the number of orders."""
    orders = gammaln(row.sum() + 1) - gammaln(row + 1).sum()
    return dirichlet_multinomial.logpmf(row, prior, row.sum()) - orders


@given(st.integers(0, 10_000))
def test_equals_dirichlet_multinomials(seed):
    rng = np.random.default_rng(seed)
    table, prior = rng.integers(0, 20, size=(3, 4)), rng.uniform(0.2, 3.0, size=4)
    expected = sum(
        log_sequence_probability(row, prior) for row in table
    ) - log_sequence_probability(table.sum(axis=0), prior)
    assert contingency_bayes_factor(table, prior) == pytest.approx(expected, abs=1e-9)


def test_two_columns_are_beta_binomials():
    table = np.array([[7, 3], [2, 9]])
    log_comb = gammaln(table.sum(1) + 1) - gammaln(table + 1).sum(1)
    within = sum(betabinom.logpmf(a, a + b, 1, 1) for a, b in table) - log_comb.sum()
    shared = np.log(quad(lambda t: t**9 * (1 - t) ** 12, 0, 1)[0])
    assert contingency_bayes_factor(table) == pytest.approx(within - shared, abs=1e-9)


def test_one_row_says_nothing():
    assert contingency_bayes_factor([[3, 4, 5]], 0.7) == 0.0


def test_dependence_is_above_zero_and_independence_below():
    assert contingency_bayes_factor(np.diag([30, 30, 30])) > 50
    assert contingency_bayes_factor(np.full((3, 3), 10)) < 0


def test_does_not_depend_on_the_order_of_rows_or_columns():
    table = np.random.default_rng(0).integers(0, 9, size=(4, 3))
    assert contingency_bayes_factor(table[::-1, [2, 0, 1]]) == pytest.approx(
        contingency_bayes_factor(table)
    )


@pytest.mark.parametrize(
    "table, prior, name",
    [
        ([1, 2], 1.0, "table"),
        ([[1, -1]], 1.0, "table"),
        ([[1, 2]], 0.0, "prior"),
        ([[1, 2]], [1, 1, 1], "prior"),
    ],
)
def test_errors_name_the_argument(table, prior, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        contingency_bayes_factor(table, prior)
