"""Normal distributions beside rows with holes, against conditioning row by row."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sfumato.numerics.missing import PIECE, Marginal, Patterns


def given(n=30, d=4, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.35] = np.nan
    X[0], X[1] = np.nan, 0.5
    return X, rng.normal(size=d), A @ A.T + np.eye(d)


def conditional(x, mean, covariance):
    """Expected row and covariance given what was seen of it, and the log density of that."""
    o, m = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
    row, left, level = x.copy(), np.zeros_like(covariance), 0.0
    slope = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
    row[m] = mean[m] + slope @ (x[o] - mean[o])
    left[np.ix_(m, m)] = covariance[np.ix_(m, m)] - slope @ covariance[np.ix_(o, m)]
    if len(o):
        level = multivariate_normal(mean[o], covariance[np.ix_(o, o)]).logpdf(x[o])
    return row, left, level


@pytest.mark.parametrize("n", [30, PIECE + 7])
def test_densities_and_moments_are_those_of_every_row_by_itself(n):
    X, mean, covariance = given(n)
    w = np.random.default_rng(1).random(n)
    found = Marginal.of(X, Patterns.of(X), mean, covariance)
    rows, left, levels = zip(*(conditional(x, mean, covariance) for x in X), strict=True)
    np.testing.assert_allclose(found.log_density(), levels, atol=1e-9)
    np.testing.assert_allclose(np.where(np.isnan(X), found.expected(), X), rows, atol=1e-9)
    first, second = found.moments(X, w)
    expected = sum(v * (np.outer(r, r) + c) for v, r, c in zip(w, rows, left, strict=True))
    np.testing.assert_allclose(first, w @ np.array(rows), atol=1e-8)
    np.testing.assert_allclose(second, expected, atol=1e-8)


def test_rows_with_equal_holes_share_a_pattern():
    X = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, 1.0], [3.0, np.nan]])
    patterns = Patterns.of(X)
    assert len(patterns.seen) == 2
    assert len(set(patterns.of_row[[0, 1, 3]])) == 1
    np.testing.assert_array_equal(patterns.n_seen, 1)
