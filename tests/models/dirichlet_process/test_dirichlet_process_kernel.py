"""Components against conjugate objects, the variational bound against exact evidence, the samplers
against enumeration.
"""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp, xlogy
from slow_seats import slow, slow_visit

from sfumato.components.conjugate import (
    CountComponent,
    DiagonalComponent,
    FullComponent,
)
from sfumato.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
)
from sfumato.models.dirichlet_process import kernel, sampling

D = 3
PRIORS = {
    "full": NormalInverseWishart(np.array([0.5, -0.3, 0.1]), 0.2, 5.5, np.eye(D) + 0.2),
    "diagonal": NormalInverseGamma(np.array([0.5, -0.3, 0.1]), 0.2, 2.0, 1.0),
    "binary": BetaBinomial(np.array([0.6, 1.0, 1.5]), np.full(D, 0.8)),
    "trials": BetaBinomial(np.array([0.6, 1.0, 1.5]), np.full(D, 0.8), trials=4),
    "counts": DirichletMultinomial(np.array([0.5, 1.0, 0.8])),
}


def make(name):
    prior, zero, one = PRIORS[name], np.zeros(D), np.ones(D)
    if name == "full":
        return FullComponent(
            prior.mean.copy(), float(prior.kappa), float(prior.df), prior.scale.copy(), zero, one
        )
    if name == "diagonal":
        return DiagonalComponent(
            *(np.array(part) for part in (prior.mean, prior.kappa, prior.shape, prior.scale)),
            zero,
            one,
        )
    if name == "counts":
        return CountComponent(np.array(prior.concentration)[:, None])
    return CountComponent(np.stack([prior.a, prior.b]), np.array(prior.trials))


def draw(name, labels, rng):
    """Objects of clusters drawn from the prior, some numbers missing where that is allowed."""
    prior, k = PRIORS[name], labels.max() + 1
    theta = prior.sample(k, rng)
    if name == "full":
        return np.stack([rng.multivariate_normal(theta.mean[z], theta.variance[z]) for z in labels])
    if name == "counts":
        return np.stack([rng.multinomial(5, theta[z]) for z in labels]).astype(float)
    if name == "diagonal":
        X = rng.normal(theta.mean[labels], np.sqrt(theta.variance[labels]))
    else:
        X = rng.binomial(prior.trials.astype(int), theta[labels]).astype(float)
    X[rng.random(X.shape) < 0.15] = np.nan
    return X


def log_marginal_likelihood(name, X):
    """Of one cluster, from the conjugate object alone."""
    if name in ("full", "counts"):
        return float(PRIORS[name].log_marginal_likelihood(X))
    return float(PRIORS[name].log_marginal_likelihood(X.T).sum())


def data(name, n=12, seed=0):
    rng = np.random.default_rng(seed)
    return draw(name, rng.integers(0, 2, size=n), rng)


@pytest.mark.parametrize("name", PRIORS)
def test_evidence_predictive_and_base_equal_the_conjugate_object(name):
    component, X = make(name), data(name)
    Z = component.features(X)
    S = np.stack([Z[:, :5].sum(axis=1), Z[:, 5:].sum(axis=1), np.zeros(len(Z))])
    base = component.log_base(Z)
    parts = [X[:5], X[5:], X[:0]]
    expected = [log_marginal_likelihood(name, part) for part in parts]
    np.testing.assert_allclose(
        component.log_marginal_likelihood(S) + [base[:5].sum(), base[5:].sum(), 0],
        expected,
        rtol=1e-11,
        atol=1e-12,
    )
    predictive = component.log_predictive(component.predictive(S), Z) + base
    for i in range(len(X)):
        chained = [
            log_marginal_likelihood(name, np.vstack([part, X[i : i + 1]])) - value
            for part, value in zip(parts, expected, strict=True)
        ]
        np.testing.assert_allclose(predictive[:, i], chained, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PRIORS)
def test_coefficients_are_expected_log_likelihoods(name):
    """C is the gradient of E along features, on average.

    E[log p(x)] < log predictive, and equal to a Monte Carlo average.
    """
    component, X = make(name), data(name, n=8)
    Z = component.features(X)
    S = Z.sum(axis=1)[None]
    expected = (component.coefficients(S) @ Z + component.log_base(Z))[0]
    rng = np.random.default_rng(1)
    posterior = PRIORS[name].posterior(X if name in ("full", "counts") else X.T)
    theta = posterior.sample(20_000, rng)
    for i, x in enumerate(X):
        if name == "full":
            gap = x - theta.mean
            square = np.einsum(
                "si,si->s", gap, np.linalg.solve(theta.variance, gap[:, :, None])[:, :, 0]
            )
            values = -0.5 * (square + np.linalg.slogdet(2 * np.pi * theta.variance)[1])
        elif name == "counts":
            values = np.log(theta) @ x + float(component.log_base(Z[:, i : i + 1])[0])
        elif name == "diagonal":
            values = np.nansum(stats.norm.logpdf(x, theta.mean, np.sqrt(theta.variance)), axis=1)
        else:
            values = np.nansum(stats.binom.logpmf(x, PRIORS[name].trials, theta), axis=1)
        assert expected[i] == pytest.approx(
            values.mean(), abs=5 * values.std() / np.sqrt(len(values)) + 1e-9
        )


def partitions(n):
    """All label vectors of n objects, in order of first appearance."""
    if n == 0:
        yield []
        return
    for rest in partitions(n - 1):
        for label in range(max(rest, default=-1) + 2):
            yield [*rest, label]


def exact(name, X, alpha):
    """All partitions and their log joint probabilities with the data."""
    n = len(X)
    every = np.array(list(partitions(n)))
    log_joint = []
    for labels in every:
        sizes = np.bincount(labels)
        prior = (
            len(sizes) * np.log(alpha) + gammaln(sizes).sum() + gammaln(alpha) - gammaln(alpha + n)
        )
        log_joint.append(
            prior + sum(log_marginal_likelihood(name, X[labels == k]) for k in range(len(sizes)))
        )
    return every, np.array(log_joint)


@pytest.mark.parametrize("name", ["full", "diagonal", "binary", "counts"])
def test_sampler_visits_partitions_as_often_as_their_exact_probability(name):
    X, alpha = data(name, n=5, seed=3), 0.8
    every, log_joint = exact(name, X, alpha)
    probability = np.exp(log_joint - logsumexp(log_joint))
    component = make(name)
    Z = component.features(X)
    chain = sampling.Chain.of(component, Z)
    prior, rng = kernel.Concentration(alpha, np.inf), np.random.default_rng(0)
    state = chain.start(alpha, rng)
    index = {tuple(labels): i for i, labels in enumerate(every)}
    assert chain.log_joint(state) + component.log_base(Z).sum() == pytest.approx(
        log_joint[index[tuple(state.labels)]], rel=1e-10
    )
    hits = np.zeros(len(every))
    n_sweeps = 800
    for _ in range(n_sweeps):
        state = chain.sweep(state, prior, rng, n_splits=1)
        hits[index[tuple(state.labels)]] += 1
    assert 0.5 * np.abs(hits / n_sweeps - probability).sum() < 0.12


LEARNT = kernel.Concentration(1.0, 1.0)


def climb(component, X, k, weights=None, prior=LEARNT, n_steps=30, seed=0):
    Z = component.features(X)
    R = np.random.default_rng(seed).dirichlet(np.full(k, 0.3), size=len(X)).T * (
        1.0 if weights is None else weights
    )
    state = kernel.update(component, R @ Z.T, R.sum(axis=1), prior, prior)
    bounds = []
    for _ in range(n_steps):
        stats = kernel.summarize(component, state, X, weights)
        bounds.append(stats.objective - state.penalty)
        previous, state = (
            state,
            kernel.update(component, stats.sums, stats.counts, state.concentration, prior),
        )
    return previous, np.array(bounds)


@pytest.mark.parametrize("name", PRIORS)
def test_bound_rises_and_stays_below_the_exact_evidence(name):
    X, alpha = data(name, n=6, seed=5), 0.8
    component = make(name)
    exact_evidence = (
        logsumexp(exact(name, X, alpha)[1]) - component.log_base(component.features(X)).sum()
    )
    _, bounds = climb(component, X, 6, prior=kernel.Concentration(alpha, np.inf))
    assert np.diff(bounds).min() > -1e-9
    assert (
        bounds[-1] < exact_evidence + 0.05
    )  # truncation at n clusters lets it exceed by a hair only
    assert bounds[-1] > exact_evidence - 6.0


@pytest.mark.parametrize("name", PRIORS)
def test_bound_never_falls_with_learnt_concentration_and_weights(name):
    rng = np.random.default_rng(2)
    X = draw(name, rng.integers(0, 4, size=80), rng)
    for weights in (None, rng.integers(0, 4, size=80).astype(float)):
        _, bounds = climb(make(name), X, 8, weights)
        assert np.diff(bounds).min() > -1e-9 * np.abs(bounds).max()


@pytest.mark.parametrize("name", PRIORS)
def test_summary_does_not_depend_on_the_cut(name):
    X = data(name, n=150)
    component = make(name)
    state, _ = climb(component, X, 4, n_steps=3)
    whole, cut = (
        kernel.summarize(component, state, X, None),
        kernel.summarize(component, state, X, None, columns=1),
    )
    for a, b in zip(whole, cut, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def explicit_bound(component, state, R, Z, weights, prior):
    """Bound at any responsibilities R (k, n).

    Likelihood and entropy terms written out, posteriors best for R.
    """
    best = kernel.update(component, (R * weights) @ Z.T, R @ weights, state.concentration, prior)
    order = np.argsort(-(R @ weights), kind="stable")
    R = R[order]
    logits = best.coefficients @ Z + best.offset[:, None]
    return float(np.sum(weights * (R * logits - xlogy(R, R)))) - best.penalty


def test_merge_gain_is_exact():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(0, 1, (60, D)), rng.normal(6, 1, (40, D))])
    component, prior, weights = (
        make("full"),
        kernel.Concentration(0.7, np.inf),
        rng.integers(1, 3, size=100).astype(float),
    )
    state, _ = climb(component, X, 6, weights, prior, n_steps=5)
    Z = component.features(X)
    R, _ = kernel.responsibilities(component, state, Z)
    stats = kernel.summarize(component, state, X, weights)
    state = kernel.update(component, stats.sums, stats.counts, state.concentration, prior)
    R = R[np.argsort(-stats.counts, kind="stable")]
    pair = kernel.best_merge(component, state, lambda pairs: kernel.pair_losses(R, weights, pairs))
    bounds = {None: explicit_bound(component, state, R, Z, weights, prior)}
    for a, b in itertools.combinations(range(len(R)), 2):
        joined = R.copy()
        joined[a] += joined[b]
        joined[b] = 0.0
        bounds[a, b] = explicit_bound(component, state, joined, Z, weights, prior)
        if (a, b) == pair:
            counts = kernel.merged(state, pair)[1]
            np.testing.assert_allclose(counts, joined @ weights, rtol=1e-12)
    assert pair == max(bounds, key=bounds.get)
    assert bounds[pair] > bounds[None]


def test_weights_of_sticks_sum_to_one_and_fall():
    state, _ = climb(make("full"), data("full", n=60), 7)
    weights = np.exp(kernel.log_weights(state))
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(state.counts) <= 0).all()


def test_number_of_occupied_clusters():
    vacancy = np.array([0.0, 0.3, 0.9])
    chances = kernel.occupied(np.log(np.maximum(vacancy, 1e-300)))
    np.testing.assert_allclose(chances, [0, 0.27, 0.7 * 0.9 + 0.3 * 0.1, 0.07], atol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_visits_make_the_choices_of_the_slow_loop(name, monkeypatch):
    rng = np.random.default_rng(6)
    X = draw(name, rng.integers(0, 4, size=70), rng)
    component = make(name)
    Z = component.features(X)
    results = []
    for visit in (sampling.visit, slow_visit):
        monkeypatch.setattr(sampling, "visit", visit)
        chain, twin = sampling.Chain.of(component, Z), np.random.default_rng(0)
        state = chain.start(1.0, twin)
        for _ in range(5):
            state = chain.sweep(state, kernel.Concentration(1.0, 1.0), twin)
        results.append(state)
    np.testing.assert_array_equal(results[0].labels, results[1].labels)
    assert results[0].concentration == pytest.approx(results[1].concentration, rel=1e-9)


@pytest.mark.parametrize("name", PRIORS)
def test_rank_one_updates_equal_fresh_caches(name):
    X = data(name, n=30)
    component = make(name)
    Z, labels = component.features(X), np.random.default_rng(0).integers(0, 3, size=30)
    points = component.points(Z)
    table = slow(component.seats(sampling.sums(Z, labels, 4), np.bincount(labels, minlength=4), 30))
    for i in (3, 7, 11):
        table.shift(labels[i], points[i], -1)
        table.counts[labels[i]] -= 1
        table.shift(3, points[i], 1)
        table.counts[3] += 1
        labels[i] = 3
    fresh = slow(component.seats(sampling.sums(Z, labels, 4), np.bincount(labels, minlength=4), 30))
    for x in points[:5]:
        np.testing.assert_allclose(table.scores(x), fresh.scores(x), rtol=1e-9)


def crowd(name, alpha, n, rng):
    """A partition from the Chinese restaurant process, and data given it."""
    labels = [0]
    while len(labels) < n:
        chances = np.append(np.bincount(labels), alpha)
        labels.append(int(rng.choice(len(chances), p=chances / chances.sum())))
    return np.array(labels), draw(name, np.array(labels), rng)


def summary(chain, state):
    labels = state.labels
    return (
        labels.max() + 1,
        state.concentration,
        chain.log_joint(state),
        np.sum(labels == labels[0]),
    )


def uniform_ranks(name, n_runs, *, n=8, n_draws=19, thinning=3):
    """Ranks of the truth among draws from its posterior (simulation-based calibration).

    p values of uniformity.
    """
    rng, prior = np.random.default_rng(11), kernel.Concentration(2.0, 2.0)
    component = make(name)
    ranks = np.zeros((n_runs, 4), dtype=int)
    for run in range(n_runs):
        alpha = rng.gamma(prior.shape) / prior.rate
        labels, X = crowd(name, alpha, n, rng)
        Z = component.features(X)
        chain = sampling.Chain.of(component, Z)
        truth = np.array(summary(chain, sampling.Draw(labels, alpha)))
        state = chain.start(prior.mean, rng)
        draws = []
        for sweep in range(10 + n_draws * thinning):
            state = chain.sweep(state, prior, rng, n_splits=1)
            if sweep >= 10 and (sweep - 10) % thinning == thinning - 1:
                draws.append(summary(chain, state))
        draws = np.array(draws)
        ties = (draws == truth).sum(axis=0)
        ranks[run] = (draws < truth).sum(axis=0) + rng.integers(0, ties + 1)
    bins = [np.bincount(ranks[:, j] * 5 // (n_draws + 1), minlength=5) for j in range(4)]
    return [stats.chisquare(counts).pvalue for counts in bins]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full", "diagonal", "binary", "counts"])
def test_simulation_based_calibration(name):
    assert min(uniform_ranks(name, 200)) > 0.01


def test_geweke_joint_distribution():
    """Truth drawn from the prior, then moved by sweeps given its data, still looks drawn from the
    prior.
    """
    rng, prior, component = np.random.default_rng(5), kernel.Concentration(2.0, 2.0), make("full")
    before, after = [], []
    for _ in range(100):
        alpha = rng.gamma(prior.shape) / prior.rate
        labels, X = crowd("full", alpha, 8, rng)
        Z = component.features(X)
        chain = sampling.Chain.of(component, Z)
        state = sampling.Draw(labels, alpha)
        before.append(summary(chain, state))
        for _ in range(2):
            state = chain.sweep(state, prior, rng)
        after.append(summary(chain, state))
    change = np.array(after, dtype=float) - np.array(before, dtype=float)
    z = change.mean(axis=0) / (change.std(axis=0) / np.sqrt(len(change)))
    assert np.abs(z).max() < 3.5


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("choice", [-1, 1])
def test_scores_that_tell_nothing_still_give_a_slot(value, choice):
    component = make("full")
    Z = component.features(data("full", n=6))
    table = component.seats(sampling.sums(Z, np.arange(6) % 2, 4), np.array([3, 3, 0, 0]), 6)
    X, labels = np.full((1, len(component.mean)), value), np.array([-1])
    with np.errstate(invalid="ignore"):
        found = sampling.visit(table, X, labels, np.array([choice]), np.array([0.5]), 0.0, 0)
    assert found == (1, 0.0)
    assert labels[0] == max(choice, 0)


def test_visits_refuse_what_does_not_fit():
    component = make("full")
    Z = component.features(data("full", n=6))
    table = component.seats(sampling.sums(Z, np.arange(6) % 2, 2), np.array([3, 3]), 6)
    points = component.points(Z)
    for X, labels in ((points[:, :-1].copy(), np.zeros(6, int)), (points, np.full(6, 5))):
        with pytest.raises(ValueError, match="must"):
            sampling.visit(table, X, labels, np.full(6, -1), np.zeros(6), 0.0, 0)
