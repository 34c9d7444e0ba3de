"""Clusters with heavy tails against SciPy's density, slow loops and finite differences."""

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import multivariate_t

from sfumato.components import gaussian as families
from sfumato.components.gaussian import Measured, State, matrices
from sfumato.components.student import BOUNDS, Student, around
from sfumato.numerics.distances import Coordinates, moments


def data(n=60, d=3, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, d)) + 3.0 * rng.integers(2, size=(n, 1))
    X[rng.random(X.shape) < missing] = np.nan
    return X


def state(k=2, d=3, seed=0, family="VVV"):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(k, d, d))
    S = A @ np.swapaxes(A, 1, 2) + np.eye(d)
    covariances = families.fitted_covariances(family, 10.0 * S, np.full(k, 10.0))
    freedom = 2.0 + 5.0 * rng.random(k)
    shares, means = rng.dirichlet(np.ones(k)), rng.normal(size=(k, d))
    return State(shares, means, covariances, family, 1e-9, None, freedom)


def component(s, tails="each"):
    k, d = s.means.shape
    plain = Coordinates(np.zeros(d), np.ones(d), None, np.ones(d))
    return Student(k, s.family, Measured(plain, 60.0, True), s.floor, tails=tails)


def slow_logits(X, s):
    """log pi_j t(x_i), of the observed features, by SciPy."""
    full, joint = matrices(s), np.empty((len(s.weights), len(X)))
    for j in range(len(s.weights)):
        for i, x in enumerate(X):
            o, value = ~np.isnan(x), 0.0
            if o.any():
                part = full[j][np.ix_(o, o)]
                value = multivariate_t.logpdf(x[o], s.means[j][o], part, df=s.freedom[j])
            joint[j, i] = np.log(s.weights[j]) + value
    return joint


@pytest.mark.parametrize("family", ["VVV", "VVI", "VII"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_densities_are_those_of_scipy(family, missing):
    X, s = data(30, missing=missing), state(family=family)
    joint = slow_logits(X, s)
    U, level = component(s).posterior(X, s)
    total = np.logaddexp.reduce(joint, axis=0)
    np.testing.assert_allclose(level, total, atol=1e-9)
    np.testing.assert_allclose(U.T, np.exp(joint - total), atol=1e-9)


def test_one_step_equals_a_slow_loop():
    X, s = data(), state()
    weights = np.random.default_rng(5).random(len(X))
    joint = slow_logits(X, s)
    R = np.exp(joint - np.logaddexp.reduce(joint, axis=0)) * weights
    own = component(s)
    found = own.update(own.summarize(X, weights, s), s)
    for j in range(2):
        u = np.empty(len(X))
        for i, x in enumerate(X):
            y = x - s.means[j]
            u[i] = (s.freedom[j] + 3) / (s.freedom[j] + y @ np.linalg.solve(s.covariances[j], y))
        mean = sum(R[j, i] * u[i] * X[i] for i in range(len(X))) / sum(R[j] * u)
        scatter = sum(R[j, i] * u[i] * np.outer(X[i] - mean, X[i] - mean) for i in range(len(X)))
        np.testing.assert_allclose(found.means[j], mean, atol=1e-10)
        np.testing.assert_allclose(found.covariances[j], scatter / R[j].sum(), atol=1e-10)
        # The equation of Peel and McLachlan (2000), their (30).
        nu, old = found.freedom[j], s.freedom[j]
        left = -digamma(nu / 2) + np.log(nu / 2) + 1 + R[j] @ (np.log(u) - u) / R[j].sum()
        left += digamma((old + 3) / 2) - np.log((old + 3) / 2)
        assert nu == BOUNDS[1] or abs(left) < 1e-9
    np.testing.assert_allclose(found.weights, R.sum(axis=1) / R.sum())


@pytest.mark.parametrize("family", families.FAMILIES)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_step_never_lowers_the_likelihood(family, missing):
    X = data(seed=1, missing=missing)
    X = X[~np.isnan(X).all(axis=1)]
    s, values = state(seed=2, family=family), []
    own = component(s)
    for _ in range(25):
        stats = own.summarize(X, None, s)
        values.append(stats.objective)
        s = own.update(stats, s)
    assert np.diff(values).min() >= -1e-8


@pytest.mark.parametrize(("tails", "seed", "missing"), [("each", 0, 0.0), ("common", 3, 0.1)])
def test_a_fixed_point_is_stationary_by_finite_differences(tails, seed, missing):
    X, s = data(150, 2, seed=seed, missing=missing), state(d=2)
    own = component(s, tails)
    for _ in range(1500):
        s = own.update(own.summarize(X, None, s), s)
    assert s.freedom.max() < BOUNDS[1]
    x = own.pack(s)
    steps = list(np.eye(len(x)))
    if tails == "common":
        steps = [*steps[:-2], steps[-2] + steps[-1]]
    for step in steps:
        ends = [
            own.summarize(X, None, own.unpack(x + e * step, s)).objective for e in (1e-5, -1e-5)
        ]
        assert abs(ends[0] - ends[1]) / 2e-5 < 5e-3


@pytest.mark.parametrize("family", ["VVV", "VVI"])
def test_blocks_add_up_and_missing_values_have_expectations(family):
    X, s = data(20, missing=0.3), state(family=family)
    own = component(s)
    whole = own.summarize(X, None, s)
    parts = [own.summarize(x[None], None, s) for x in X]
    for at_once, *single in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(at_once, sum(single), atol=1e-9)
    kind = "full" if family == "VVV" else "diag"
    full = component(f := s._replace(covariances=matrices(s), family="VVV"))
    pull, first, second = moments(full.summarize(X, None, f).sums, 3, "full")
    other = moments(whole.sums, 3, kind)
    np.testing.assert_allclose(other[0], pull, rtol=1e-9)
    np.testing.assert_allclose(other[1], first, rtol=1e-8, atol=1e-9)
    second = second if kind == "full" else np.diagonal(second, axis1=1, axis2=2)
    np.testing.assert_allclose(other[2], second, rtol=1e-8, atol=1e-9)


def test_packing_is_undone_by_unpacking_and_parameters_are_counted():
    s = state(d=4)
    own = component(s)
    back = own.unpack(own.pack(s), s)
    for name in ("weights", "means", "covariances", "freedom"):
        np.testing.assert_allclose(getattr(back, name), getattr(s, name), rtol=1e-10)
    fixed = component(s, 1e7)
    far = s._replace(freedom=np.full(2, 1e7))
    np.testing.assert_array_equal(fixed.unpack(fixed.pack(far), far).freedom, far.freedom)
    gaussian = families.n_parameters("VVV", 2, 4)
    counts = [component(s, tails).n_parameters() for tails in ("each", "common", 7.0)]
    assert counts == [gaussian + 2, gaussian + 1, gaussian]


def test_clusters_of_outliers_are_failures():
    s = state(k=3, d=2)._replace(freedom=np.full(3, 5.0))
    own, far = component(s), np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    apart = s._replace(means=far, covariances=np.stack([np.eye(2)] * 3))
    for weights, expected in (((0.6, 0.02, 0.38), "cluster 1 holds few"), ((0.6, 0.1, 0.3), "")):
        assert own.failure(apart._replace(weights=np.array(weights)), 200.0).startswith(expected)
    wide = np.stack([np.eye(2), 400.0 * np.eye(2), np.eye(2)])
    assert around(apart._replace(covariances=wide)) == (1, 0)
