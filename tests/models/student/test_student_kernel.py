"""The kernel of Student mixtures against SciPy's density, slow loops and finite differences."""

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import multivariate_t

from sfumato.models.student import kernel
from sfumato.numerics import families
from sfumato.numerics.distances import softmax_columns


def data(n=60, d=3, seed=0, holes=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(n, d)) + 3.0 * rng.integers(2, size=(n, 1))
    X[rng.random(X.shape) < holes] = np.nan
    return X


def state(k=2, d=3, seed=0, diagonal=False):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(k, d, d))
    scales = A @ np.swapaxes(A, 1, 2) + np.eye(d)
    if diagonal:
        scales = np.diagonal(scales, axis1=1, axis2=2).copy()
    return kernel.State(
        rng.dirichlet(np.ones(k)), rng.normal(size=(k, d)), scales, 2.0 + 5.0 * rng.random(k)
    )


def rule(family="VVV", freedom="each", d=3):
    return kernel.Rule(family, freedom, 1e-9, np.ones(d))


def loop_joint(X, s):
    """log pi_j t(x_i), of the observed features, by SciPy."""
    full = s.scales if s.scales.ndim == 3 else s.scales[:, :, None] * np.eye(s.scales.shape[1])
    joint = np.empty((len(s.weights), len(X)))
    for j in range(len(s.weights)):
        for i, x in enumerate(X):
            o = ~np.isnan(x)
            value = 0.0
            if o.any():
                part = full[j][np.ix_(o, o)]
                value = multivariate_t.logpdf(x[o], s.means[j][o], part, df=s.freedom[j])
            joint[j, i] = np.log(s.weights[j]) + value
    return joint


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_densities_are_those_of_scipy(diagonal, holes):
    X, s = data(30, holes=holes), state(diagonal=diagonal)
    joint = loop_joint(X, s)
    U, level = softmax_columns(kernel.logits(X, kernel.ready(s)))
    np.testing.assert_allclose(level, np.logaddexp.reduce(joint, axis=0), atol=1e-9)
    np.testing.assert_allclose(U, np.exp(joint - np.logaddexp.reduce(joint, axis=0)), atol=1e-9)


def test_one_step_equals_a_slow_loop():
    X, s = data(), state()
    weights = np.random.default_rng(5).random(len(X))
    joint = loop_joint(X, s)
    R = np.exp(joint - np.logaddexp.reduce(joint, axis=0)) * weights
    found = kernel.update(kernel.summarize(X, weights, kernel.ready(s)), s, rule())
    for j in range(2):
        u = np.empty(len(X))
        for i, x in enumerate(X):
            y = x - s.means[j]
            u[i] = (s.freedom[j] + 3) / (s.freedom[j] + y @ np.linalg.solve(s.scales[j], y))
        mean = sum(R[j, i] * u[i] * X[i] for i in range(len(X))) / sum(R[j] * u)
        scatter = sum(R[j, i] * u[i] * np.outer(X[i] - mean, X[i] - mean) for i in range(len(X)))
        np.testing.assert_allclose(found.means[j], mean, atol=1e-10)
        np.testing.assert_allclose(found.scales[j], scatter / R[j].sum(), atol=1e-10)
        # The equation of Peel and McLachlan (2000), their (30).
        nu, old = found.freedom[j], s.freedom[j]
        left = -digamma(nu / 2) + np.log(nu / 2) + 1 + R[j] @ (np.log(u) - u) / R[j].sum()
        left += digamma((old + 3) / 2) - np.log((old + 3) / 2)
        assert nu == kernel.BOUNDS[1] or abs(left) < 1e-9
    np.testing.assert_allclose(found.weights, R.sum(axis=1) / R.sum())


@pytest.mark.parametrize("family", families.FAMILIES)
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_a_step_never_lowers_the_likelihood(family, holes):
    X = data(seed=1, holes=holes)
    X = X[~np.isnan(X).all(axis=1)]
    s = state(diagonal=families.kind_of(family) != "full", seed=2)
    values = []
    for _ in range(25):
        stats = kernel.summarize(X, None, kernel.ready(s))
        values.append(stats.objective)
        s = kernel.update(stats, s, rule(family))
    assert np.diff(values[1:]).min() >= -1e-8  # the first state need not belong to the family


@pytest.mark.parametrize(("freedom", "holes"), [("each", 0.0), ("common", 0.1)])
def test_a_fixed_point_is_stationary_by_finite_differences(freedom, holes):
    X, s, r = data(150, 2, holes=holes), state(d=2), rule(freedom=freedom, d=2)
    for _ in range(1500):
        s = kernel.update(kernel.summarize(X, None, kernel.ready(s)), s, r)
    assert s.freedom.max() < kernel.BOUNDS[1]
    x = kernel.pack(s)
    steps = list(np.eye(len(x)))
    if freedom == "common":
        steps = [*steps[:-2], steps[-2] + steps[-1]]
    for step in steps:
        ends = [
            kernel.summarize(X, None, kernel.ready(kernel.unpack(x + e * step, s))).objective
            for e in (1e-5, -1e-5)
        ]
        assert abs(ends[0] - ends[1]) / 2e-5 < 5e-3


@pytest.mark.parametrize("diagonal", [False, True])
def test_blocks_add_up(diagonal):
    X, at = data(20, holes=0.3), kernel.ready(state(diagonal=diagonal))
    whole = kernel.summarize(X, None, at)
    parts = [kernel.summarize(x[None], None, at) for x in X]
    for at_once, *single in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(at_once, sum(single), atol=1e-9)


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("size", [0.5, 2.0])
def test_sums_of_diagonal_scales_by_deviations_and_by_expanded_squares(holes, size):
    """Components just thinner and just thicker than the limit, against sums of deviations."""
    X, s = data(holes=holes), state(diagonal=True)
    s = s._replace(scales=s.scales * (size * kernel.THIN / s.scales.min()))
    found = kernel.summarize(X, None, kernel.ready(s))
    joint = loop_joint(X, s)
    assert found.objective == pytest.approx(np.logaddexp.reduce(joint, axis=0).sum(), rel=1e-10)
    R = np.exp(joint - np.logaddexp.reduce(joint, axis=0))
    np.testing.assert_allclose(found.mass, R.sum(axis=1), rtol=1e-7)
    missing = np.isnan(X)
    for j in range(2):
        D = np.where(missing, 0.0, X - s.means[j])
        nu = s.freedom[j]
        u = (nu + (~missing).sum(axis=1)) / (nu + np.sum(D**2 / s.scales[j], axis=1))
        np.testing.assert_allclose(found.first[j], (R[j] * u) @ D, rtol=1e-7, atol=1e-9)
        scatter = (R[j] * u) @ D**2 + (R[j] @ missing) * s.scales[j]
        np.testing.assert_allclose(found.scatter[j], scatter, rtol=1e-6)


def test_units_of_a_family():
    """A family that holds in other units is the same as one fitted in these units."""
    X, units = data(), np.array([1.0, 0.1, 3.0])
    s = state(diagonal=True)
    stretched = s._replace(means=s.means * units, scales=s.scales * units**2)
    one = kernel.update(
        kernel.summarize(X, None, kernel.ready(s)), s, rule("VII")._replace(units=units)
    )
    other = kernel.update(
        kernel.summarize(X * units, None, kernel.ready(stretched)), stretched, rule("VII")
    )
    np.testing.assert_allclose(one.means * units, other.means, atol=1e-10)
    np.testing.assert_allclose(one.scales * units**2, other.scales, atol=1e-10)


@pytest.mark.parametrize("diagonal", [False, True])
def test_packing_is_undone_by_unpacking(diagonal):
    s = state(diagonal=diagonal)._replace(freedom=np.array([0.3, 1e7]))
    for one, other in zip(kernel.unpack(kernel.pack(s), s), s, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_parameters_are_counted():
    gaussian = families.n_parameters("VVV", 3, 4)
    counts = [kernel.n_parameters(3, 4, rule(freedom=f, d=4)) for f in ("each", "common", 7.0)]
    assert counts == [gaussian + 3, gaussian + 1, gaussian]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_scales_come_back_into_their_family(family):
    s, full = state(diagonal=families.kind_of(family) != "full"), families.kind_of(family) == "full"
    rule = kernel.Rule(family, "common", 1e-12, np.array([1.0, 0.7, 0.4])[: s.means.shape[1]])
    for _ in range(200):
        s = kernel.projected(s, rule)
    again = kernel.projected(s, rule)
    np.testing.assert_allclose(again.scales, s.scales, rtol=1e-6)
    units = np.outer(rule.units, rule.units) if full else rule.units**2
    own = s.scales * units
    volumes = np.linalg.det(own) if full else own.prod(axis=1)
    if family[0] == "E":
        np.testing.assert_allclose(volumes, volumes[0], rtol=1e-5)
    if family[1:] == "II":
        np.testing.assert_allclose(own, own[:, :1].repeat(own.shape[1], axis=1), rtol=1e-9)
