"""Starts of the variational form: merging by evidence against a slow loop, and what fits gain."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sfumato import DirichletProcessMixture
from sfumato.array.rows import Rows
from sfumato.components import conjugate as priors
from sfumato.conjugate import DirichletMultinomial, NormalInverseGamma, NormalInverseWishart
from sfumato.data.constraints import Known
from sfumato.engine.linked import LinkedRows
from sfumato.models.dirichlet_process import kernel
from sfumato.models.dirichlet_process import kernel as variational


def component_of(X, kind=NormalInverseWishart):
    rows = Rows(X, None, n_jobs=1)
    return priors.build(priors.default_prior(kind, rows), rows)


def log_joint(component, Z, group, alpha):
    """Log joint probability of objects and partition, up to a constant."""
    parts = [Z[:, group == k] for k in np.unique(group)]
    return sum(
        component.log_marginal_likelihood(part.sum(axis=1)[None])[0]
        + gammaln(part.shape[1])
        + np.log(alpha)
        for part in parts
    )


def slow_path(component, Z, alpha):
    """Partitions from single objects to one cluster, each time the best union of all."""
    groups = [np.arange(Z.shape[1])]
    while len(names := np.unique(groups[-1])) > 1:
        unions = [np.where(groups[-1] == b, a, groups[-1]) for a in names for b in names if a < b]
        groups.append(max(unions, key=lambda union: log_joint(component, Z, union, alpha)))
    return groups


@pytest.mark.parametrize("kind", [NormalInverseWishart, NormalInverseGamma, DirichletMultinomial])
@pytest.mark.parametrize("most", [9, 2])
def test_merging_takes_the_best_union_every_time_and_keeps_the_most_probable_partition(kind, most):
    rng = np.random.default_rng(0)
    tables = [rng.poisson(3, (9, 2)) + 9.0 * (np.arange(9) % 3)[:, None] for _ in range(2)]
    component, alpha = component_of(np.concatenate(tables), kind), 0.7
    Z = [component.features(X) for X in tables]
    for z in Z:
        partitions = variational.fuse(component, z.T, np.ones(9), alpha, most)
        path = [group for group in slow_path(component, z, alpha) if len(set(group)) <= most]
        best = int(np.argmax([log_joint(component, z, group, alpha) for group in path]))
        expected = path[max(0, best - 2) : best + 1]
        assert len(partitions) == len(expected)
        for group, wanted in zip(partitions, expected, strict=True):
            np.testing.assert_array_equal(group[:, None] == group, wanted[:, None] == wanted)


def test_the_prior_is_the_one_that_makes_a_partition_on_the_way_most_probable():
    """Single objects as groups, and every partition of the path added up from its objects."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 2)) + 6.0 * (np.arange(12) % 3)[:, None]
    component, alpha = component_of(X), 0.7
    tried = priors.candidates(component)
    assert len(tried) == 24
    for field in ("df", "scale"):
        np.testing.assert_allclose(getattr(tried[0], field), getattr(component, field))
    Z = component.features(X)
    path = slow_path(component, Z, alpha)
    best = [max(log_joint(one, Z, group, alpha) for group in path) for one in tried]
    found = variational.most_probable(tried, Rows(X, None, n_jobs=1), alpha)
    assert found is tried[int(np.argmax(best))]


def test_clusters_are_found_in_many_features():
    """A vague prior alone has one cluster explain these data best, and warns."""
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=150)
    X = 10.0 * rng.uniform(-1, 1, (3, 16))[truth] + 3.0 * rng.normal(size=(150, 16))
    model = DirichletProcessMixture(random_state=0).fit(X)
    assert adjusted_rand_score(truth, model.labels_) == 1.0
    vague = priors.default_prior(NormalInverseWishart, Rows(X, None, n_jobs=1))
    with pytest.warns(UserWarning, match="one cluster"):
        one = DirichletProcessMixture(component=vague, random_state=0).fit(X)
    assert one.objective_ < model.objective_
    assert model.prior_.df > vague.df


def test_missing_values_keep_the_prior_that_needs_no_choice():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[0, 0] = np.nan
    component = component_of(X)
    tried = priors.candidates(component)
    assert variational.most_probable(tried, Rows(X, None, n_jobs=1), 1.0) is tried[0]


def test_groups_with_few_different_objects_are_merged_in_every_start():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]], [5, 4, 6], axis=0)
    component = component_of(X)
    prior = kernel.Concentration(1.0, 1.0)
    states = ascent(component, Rows(X, None, n_jobs=1), prior).starts(10, np.arange(3))
    for state in states:
        assert state.counts.sum() == pytest.approx(15)
        assert 1 <= np.sum(state.counts > 0) <= 3


@pytest.mark.parametrize("shape", [1e-30, 1.0, 50.0])
def test_alpha_and_sticks_agree_after_an_update(shape):
    X = np.random.default_rng(0).normal(size=(40, 2))
    component, prior = component_of(X), kernel.Concentration(shape, 0.3)
    Z = component.features(X)
    R = np.zeros((6, 40))
    R[np.arange(40) % 4, np.arange(40)] = 1.0  # two clusters stay empty
    state = kernel.update(component, R @ Z.T, R.sum(axis=1), kernel.Concentration(9, 2), prior)
    again = kernel.update(component, R @ Z.T, R.sum(axis=1), state.concentration, prior)
    assert again.concentration.mean == pytest.approx(state.concentration.mean, rel=1e-9)
    log_rest = digamma(state.sticks[1]) - digamma(state.sticks.sum(axis=0))
    assert (shape + 5) / (0.3 - log_rest.sum()) == pytest.approx(state.concentration.mean, rel=1e-9)
    later = R.sum() - np.cumsum(R.sum(axis=1))[:-1]
    np.testing.assert_allclose(state.sticks[1], later + state.concentration.mean, rtol=1e-9)
    # No other alpha has a larger bound with the sticks that it leads to.
    for factor in (0.9, 1.1):
        alpha = kernel.Concentration(state.concentration.mean * factor, np.inf)
        other = kernel.update(component, R @ Z.T, R.sum(axis=1), alpha, alpha)
        mixed = state._replace(sticks=other.sticks)
        assert mixed.sticks.shape == state.sticks.shape
        assert bound_of_sticks(mixed, prior) <= bound_of_sticks(state, prior) + 1e-9


def bound_of_sticks(state, prior):
    """The part of the bound that sticks and alpha have, alpha at its best for the sticks."""
    log_v, log_rest = digamma(state.sticks) - digamma(state.sticks.sum(axis=0))
    q = kernel.Concentration(prior.shape + len(log_rest), prior.rate - log_rest.sum())
    offset = np.append(log_v, 0.0) + np.append(0.0, np.cumsum(log_rest))
    divergence = kernel._stick_divergence(state.sticks, log_v, log_rest, q)
    return state.counts @ offset - divergence - kernel._gamma_divergence(q, prior)


def test_clear_clusters_take_few_steps_to_the_same_bound_from_every_seed():
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(4), 40)
    X = rng.normal(size=(160, 3)) + 7.0 * rng.normal(size=(4, 3))[y]
    model = DirichletProcessMixture(random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert model.n_iter_ <= 15
    assert np.diff(model.history_).min() >= -1e-9 * abs(model.history_[-1])
    for seed in range(1, 4):
        other = DirichletProcessMixture(random_state=seed).fit(X)
        assert other.objective_ == pytest.approx(model.objective_, abs=1e-2)


@pytest.mark.parametrize("n_init", [1, 4])
@pytest.mark.parametrize("max_iter", [1, 2, 3, 4])
def test_no_more_than_max_iter_steps_are_taken(n_init, max_iter):
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[::2, 1] += 4.5
    model = DirichletProcessMixture(n_init=n_init, max_iter=max_iter, tol=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X)
    assert model.n_iter_ == len(model.history_) == max_iter
    assert np.isfinite(model.objective_)


def ascent(component, rows, prior):
    return variational.Ascent(component, rows, prior, 100, 1e-5)


def test_only_clusters_of_units_that_a_link_keeps_apart_may_not_be_merged():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 9.0 * np.eye(3, 2)[y]
    rows, prior, component = (
        Rows(X, None, n_jobs=1),
        kernel.Concentration(1.0, 1.0),
        component_of(X),
    )
    links = LinkedRows.of(Known.of(None, [[0, 1], [1, 2]], None, X, 3), rows.X, rows.columns[0])
    search = ascent(component, rows, prior)._replace(links=links)
    Z, R = component.features(X), (y == np.arange(3)[:, None]) * 1.0
    state = kernel.update(component, R @ Z.T, R.sum(axis=1), prior, prior)
    assert search._apart(state) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    np.testing.assert_array_equal(
        np.isinf(search._losses(state, [(0, 1), (0, 2), (1, 2)])), [True, False, True]
    )


def test_a_narrow_cluster_inside_a_wide_one_is_found_though_no_hard_groups_show_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[:150] *= 0.1
    model = DirichletProcessMixture(random_state=0).fit(X)
    assert model.n_clusters_ == 2
    assert np.mean(model.labels_[:150] == np.bincount(model.labels_[:150]).argmax()) > 0.9
