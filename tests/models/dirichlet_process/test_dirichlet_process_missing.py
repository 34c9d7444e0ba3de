"""Missing values in normal clusters with full covariance, against numerical integration."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from sfumato import DirichletProcessMixture
from sfumato.components.conjugate import FullComponent
from sfumato.conjugate import DirichletMultinomial
from sfumato.metrics import adjusted_rand_index
from sfumato.models.dirichlet_process import kernel
from tolerances import settled, stopped

UNIT = np.array([2.0, 1.0, 0.5])
CENTER = np.array([1.0, 0.0, -1.0])


def component():
    shape = np.eye(3) + 0.3
    return FullComponent(np.array([0.5, -0.3, 0.1]), 0.2, 5.5, shape, CENTER, UNIT)


def data(n=40, share=0.25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + 4.0 * rng.integers(2, size=(n, 1))
    X[rng.random(X.shape) < share] = np.nan
    X[0] = np.nan
    return X


def state_of(at, X, k=3, n_steps=4, seed=0):
    prior = kernel.Concentration(1.0, 1.0)
    R = np.random.default_rng(seed).dirichlet(np.ones(k), size=len(X)).T
    Z = np.nan_to_num(at.features(X))
    state, values = kernel.update(at, R @ Z.T, R.sum(axis=1), prior, prior), []
    for _ in range(n_steps):
        part = kernel.summarize(at, state, X, None)
        values.append(part.objective - state.penalty)
        state = kernel.update(at, part.sums, part.counts, state.concentration, prior)
    return state, np.array(values)


def with_value(x, value):
    out = x.copy()
    out[np.isnan(x)] = value
    return out[None]


def integral(function):
    return quad(function, -60, 60, points=(-5, 0, 5), limit=400)[0]


def test_expected_log_densities_are_integrated_over_what_is_missing():
    at, X = component(), data()
    C = state_of(at, X)[0].coefficients
    x = np.array([1.3, np.nan, -0.4])
    found = at.expected_logits(C, at.features(x[None]))[:, 0]
    for j, row in enumerate(C):
        value = integral(lambda t, row=row: np.exp(row @ at.features(with_value(x, t))[:, 0]))
        assert found[j] == pytest.approx(np.log(value), abs=1e-7)


def test_expected_sums_of_features_are_those_of_the_integral():
    at, X = component(), data()
    C = state_of(at, X)[0].coefficients
    x, w = np.array([1.3, np.nan, -0.4]), np.array([0.7, 0.2, 1.1])
    found = at.expected_sums(w[:, None], C, at.features(x[None]))
    for j, row in enumerate(C):
        total = integral(lambda t, row=row: np.exp(row @ at.features(with_value(x, t))[:, 0]))
        for c in range(len(row)):

            def part(t, row=row, c=c):
                z = at.features(with_value(x, t))[:, 0]
                return z[c] * np.exp(row @ z)

            assert found[j, c] == pytest.approx(w[j] * integral(part) / total, abs=1e-6)


def test_predictive_densities_are_those_of_marginal_t_distributions():
    at, X = component(), data()
    S = state_of(at, X)[0].sums
    mean, kappa, df, scale = at.posterior(S)
    Z = at.features(X)
    found = at.log_predictive(at.predictive(S), Z) + at.log_base(Z)
    for i, x in enumerate(X):
        o = np.flatnonzero(~np.isnan(x))
        for j in range(len(S)):
            nu = df[j] - 2.0
            shape = scale[j] * (kappa[j] + 1) / (kappa[j] * nu)
            law = stats.multivariate_t(mean[j, o], shape[np.ix_(o, o)], df=nu) if len(o) else None
            y = (x[o] - CENTER[o]) / UNIT[o]
            expected = law.logpdf(y) - np.log(UNIT[o]).sum() if len(o) else 0.0
            assert found[j, i] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_never_falls(seed):
    _, values = state_of(component(), data(seed=seed), n_steps=25, seed=seed)
    assert np.diff(values).min() >= -1e-9 * abs(values[-1])


def test_the_bound_lies_just_below_the_evidence_of_what_was_seen():
    at, X = component(), data(12, share=0.0, seed=2)[1:]
    X[4, 1] = np.nan

    def evidence(value):
        Z = at.features(np.where(np.isnan(X), value, X))
        return at.log_marginal_likelihood(Z.sum(axis=1)[None])[0]

    top = max(evidence(t) for t in np.linspace(-20, 20, 400))
    exact = np.log(integral(lambda t: np.exp(evidence(t) - top))) + top
    _, values = state_of(at, X, k=1, n_steps=60)
    assert values[-1] <= exact + 1e-9
    assert values[-1] > exact - 1.0


def blobs(n=150):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), n // 3)
    X = rng.normal(size=(n, 4)) @ (np.eye(4) + 0.4) + 6.0 * np.eye(3, 4)[y]
    return X, y


def test_clusters_are_found_with_missing_values_and_an_object_without_any_has_no_say():
    X, y = blobs()
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    holes[0] = np.nan
    model = DirichletProcessMixture(random_state=0).fit(holes)
    assert model.n_clusters_ == 3
    for seed in range(1, 4):  # gaps make many maxima, but starts end in the same
        assert DirichletProcessMixture(random_state=seed).fit(holes).n_clusters_ == 3
    assert adjusted_rand_index(y[1:], model.labels_[1:]) > 0.9
    assert model.memberships_[0].max() < 0.6
    assert model.score_samples(holes)[0] == pytest.approx(0.0, abs=1e-9)
    assert np.diff(model.history_).min() >= -1e-9 * abs(model.history_[-1])
    # What the incomplete objects say would be lost by dropping them.
    complete = ~np.isnan(holes).any(axis=1)
    few = DirichletProcessMixture(random_state=0).fit(X[complete])
    full = DirichletProcessMixture(random_state=0).fit(X).score(X)
    assert abs(model.score(X) - full) < abs(few.score(X) - full)


def test_weights_equal_copies_with_missing_values():
    X, _ = blobs(90)
    X[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    weights = np.random.default_rng(2).integers(1, 3, 90)
    one, two = (settled(DirichletProcessMixture(random_state=0)) for _ in range(2))
    one.fit(X, sample_weight=weights.astype(float))
    two.fit(np.repeat(X, weights, axis=0))
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)
    copies = np.repeat(one.memberships_, weights, axis=0)
    np.testing.assert_allclose(copies, two.memberships_, atol=stopped(one))


def test_what_cannot_be_done_names_the_way_out():
    X, _ = blobs(30)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="inference='variational'"):
        DirichletProcessMixture(inference="gibbs").fit(X)
    with pytest.raises(ValueError, match="no total"):
        DirichletProcessMixture(component=DirichletMultinomial).fit(np.rint(np.abs(X)))
    model = DirichletProcessMixture(random_state=0).fit(np.nan_to_num(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-12)
