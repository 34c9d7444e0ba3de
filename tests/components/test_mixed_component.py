"""The kernel of mixed columns against loops, finite differences and SciPy's densities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as ss

from sfumato.components import mixed as kernel
from sfumato.numerics.distances import softmax_columns

LAYOUT = kernel.Layout(
    normal=np.array([0, 1]),
    shift=np.array([2.0, 0.5]),
    scale=np.array([0.5, 2.0]),
    logarithmic=np.array([0.0, 1.0]),
    counts=np.array([2]),
    categorical=np.array([3, 4]),
    n_levels=np.array([3, 2]),
)


def component(k):
    return kernel.Mixed(k, LAYOUT, np.ones(1), 1.0)


def codes(n=40, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(2, 2, n),
            rng.normal(0.5, 0.5, n),
            rng.poisson(4, n),
            rng.integers(3, size=n),
            rng.integers(2, size=n),
        ]
    ).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def state(k=3, seed=0):
    rng = np.random.default_rng(seed)
    P = np.hstack([rng.dirichlet(np.ones(3), k), rng.dirichlet(np.ones(2), k)])
    return kernel.State(
        rng.dirichlet(np.ones(k)),
        rng.normal(size=(k, 2)),
        rng.gamma(3, 0.3, (k, 2)),
        rng.gamma(2, 2, (k, 1)),
        P,
    )


def loop_density(x, s, j):
    """Logarithm of pi_j times the density of one object, column by column, by SciPy."""
    value = np.log(s.weights[j])
    for at, column in enumerate((0, 1)):
        if not np.isnan(x[column]):
            mean = s.means[j, at] / LAYOUT.scale[at] + LAYOUT.shift[at]
            deviation = np.sqrt(s.variances[j, at]) / LAYOUT.scale[at]
            if column == 0:
                value += ss.norm.logpdf(x[column], mean, deviation)
            else:
                value += ss.lognorm.logpdf(np.exp(x[column]), deviation, scale=np.exp(mean))
    if not np.isnan(x[2]):
        value += ss.poisson.logpmf(x[2], s.rates[j, 0])
    for column, first in ((3, 0), (4, 3)):
        if not np.isnan(x[column]):
            value += np.log(s.probabilities[j, first + int(x[column])])
    return value


def test_densities_are_those_of_scipy():
    X, s = codes(), state()
    slow = np.array([[loop_density(x, s, j) for j in range(3)] for x in X])
    Z = kernel.expand(X, LAYOUT)
    np.testing.assert_allclose(Z @ kernel.coefficients(s).T, slow, atol=1e-10)
    U, level = softmax_columns(kernel.coefficients(s) @ Z.T)
    np.testing.assert_allclose(level, np.logaddexp.reduce(slow, axis=1), atol=1e-10)
    np.testing.assert_allclose(U.sum(axis=0), 1, atol=1e-12)


def fitted(Z, k, amount=1.0):
    return kernel.Mixed(k, LAYOUT, Z.sum(axis=0), amount)


def objective(s, Z, mixed):
    return mixed.summarize(Z, None, kernel.coefficients(s)).objective + mixed.log_prior(s)


def settled(Z, mixed, seed=1):
    s = state(2, seed)
    for _ in range(3000):
        s = mixed.update(mixed.summarize(Z, None, kernel.coefficients(s)))
    return s


def test_a_fixed_point_is_stationary_by_finite_differences():
    Z = kernel.expand(codes(80), LAYOUT)
    mixed = fitted(Z, 2)
    s = settled(Z, mixed)
    x = kernel.Mixed.pack(s)
    for i in range(len(x)):
        step = np.zeros(len(x))
        step[i] = 1e-4
        ends = [objective(mixed.unpack(x + e, s), Z, mixed) for e in (step, -step)]
        assert abs(ends[0] - ends[1]) / 2e-4 < 1e-3


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), amount=st.floats(0.01, 5.0))
def test_a_step_never_lowers_the_objective(seed, k, amount):
    Z = kernel.expand(codes(seed=seed), LAYOUT)
    mixed = fitted(Z, k, amount)
    s = state(k, seed)
    values = []
    for _ in range(6):
        values.append(objective(s, Z, mixed))
        s = mixed.update(mixed.summarize(Z, None, kernel.coefficients(s)))
    assert np.diff(values).min() >= -1e-9 * abs(values[-1])


def test_packing_is_undone_by_unpacking():
    s = state()
    for one, other in zip(component(3).unpack(kernel.Mixed.pack(s), s), s, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_clusters_without_objects_stay_proper():
    Z = kernel.expand(codes(), LAYOUT)
    sums = np.zeros((4, Z.shape[1]))
    sums[0] = Z.sum(axis=0)
    s = fitted(Z, 4).update(kernel.Stats(sums, 0.0))
    assert min(s.weights.min(), s.variances.min(), s.rates.min(), s.probabilities.min()) > 0
    assert s.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_parameters_are_counted(k):
    assert component(k).n_parameters() == k - 1 + k * (2 * 2 + 1 + 2 + 1)
