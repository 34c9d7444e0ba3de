"""Every posterior, predictive and evidence against scipy and quadrature; statistics that add up.

Immutability.
"""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from sfumato.conjugate import (
    BetaBinomial,
    DirichletMultinomial,
    NormalInverseGamma,
    NormalInverseWishart,
    NormalKnownMean,
    NormalKnownVariance,
)

SCALE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.5]])
PRIORS = {
    "beta": BetaBinomial(1.5, 2.5, trials=4),
    "dirichlet": DirichletMultinomial([0.7, 1.2, 2.0]),
    "known variance": NormalKnownVariance(0.4, 2.0, 0.7),
    "known mean": NormalKnownMean(2.5, 1.3, center=0.2),
    "gamma": NormalInverseGamma(0.3, 0.8, 2.2, 1.7),
    "wishart": NormalInverseWishart(np.array([0.1, -0.2, 0.4]), 0.6, 5.5, SCALE),
}


def draw(name, rng, n=7):
    if name == "beta":
        return rng.integers(0, 5, size=n).astype(float)
    if name == "dirichlet":
        return rng.multinomial(5, [0.2, 0.3, 0.5], size=n).astype(float)
    return rng.normal(1.0, 1.5, size=(n, 3) if name == "wishart" else n)


def log_prior_and_likelihood(prior, data):
    """log density of the prior (as its parameter) and of the data at a parameter drawn from it, by
    scipy alone.
    """
    theta = prior.sample(random_state=3)
    if isinstance(prior, BetaBinomial):
        return lambda p: p.distribution.logpdf(theta), stats.binom.logpmf(data, 4, theta).sum()
    if isinstance(prior, DirichletMultinomial):
        return lambda p: p.distribution.logpdf(theta), stats.multinomial.logpmf(
            data, 5, theta
        ).sum()
    if isinstance(prior, NormalKnownVariance):
        return lambda p: p.distribution.logpdf(theta), stats.norm.logpdf(
            data, theta, np.sqrt(0.7)
        ).sum()
    if isinstance(prior, NormalKnownMean):
        return lambda p: p.distribution.logpdf(theta), stats.norm.logpdf(
            data, 0.2, np.sqrt(theta)
        ).sum()
    if isinstance(prior, NormalInverseGamma):
        return (
            lambda p: (
                stats.invgamma.logpdf(theta.variance, p.shape, scale=p.scale)
                + stats.norm.logpdf(theta.mean, p.mean, np.sqrt(theta.variance / p.kappa))
            ),
            stats.norm.logpdf(data, theta.mean, np.sqrt(theta.variance)).sum(),
        )
    return (
        lambda p: (
            stats.invwishart.logpdf(theta.variance, p.df, p.scale)
            + stats.multivariate_normal.logpdf(theta.mean, p.mean, theta.variance / p.kappa)
        ),
        stats.multivariate_normal.logpdf(data, theta.mean, theta.variance).sum(),
    )


@pytest.mark.parametrize("name", PRIORS)
def test_bayes_theorem_holds_at_any_parameter(name):
    """prior * likelihood = posterior * evidence, with densities from scipy."""
    prior, data = PRIORS[name], draw(name, np.random.default_rng(0))
    log_density, log_likelihood = log_prior_and_likelihood(prior, data)
    expected = log_density(prior) + log_likelihood - log_density(prior.posterior(data))
    assert prior.log_marginal_likelihood(data) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", PRIORS)
def test_chain_rule_of_evidence(name):
    prior, data = PRIORS[name], draw(name, np.random.default_rng(1), n=12)
    total, current = 0.0, prior
    for observation in data:
        if name == "dirichlet":
            total += current.predictive(5).logpmf(observation.astype(int))
        else:
            predictive = current.predictive()
            total += (predictive.logpmf if name == "beta" else predictive.logpdf)(observation)
        assert current.log_predictive(observation[None])[0] == pytest.approx(
            current.log_marginal_likelihood(observation[None]), abs=1e-11
        )
        current = current.posterior(observation[None])
    assert prior.log_marginal_likelihood(data) == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("name", ["beta", "known variance", "known mean"])
def test_evidence_posterior_and_predictive_by_quadrature(name):
    prior, data = PRIORS[name], draw(name, np.random.default_rng(2), n=5)

    def likelihood(theta):
        if name == "beta":
            return np.exp(stats.binom.logpmf(data, 4, theta).sum())
        parameters = (theta, np.sqrt(0.7)) if name == "known variance" else (0.2, np.sqrt(theta))
        return np.exp(stats.norm.logpdf(data, *parameters).sum())

    low, high = {"beta": (0, 1), "known variance": (-12, 12), "known mean": (1e-9, 400)}[name]
    options = {"limit": 500, "epsabs": 0, "epsrel": 1e-12, "points": [prior.posterior(data).mean]}
    evidence = integrate.quad(
        lambda t: prior.distribution.pdf(t) * likelihood(t), low, high, **options
    )[0]
    mean = (
        integrate.quad(
            lambda t: t * prior.distribution.pdf(t) * likelihood(t), low, high, **options
        )[0]
        / evidence
    )
    assert prior.log_marginal_likelihood(data) == pytest.approx(np.log(evidence), abs=1e-8)
    tolerance = 1e-6 if name == "known mean" else 1e-8  # its tail is heavy, and the range is cut
    assert prior.posterior(data).mean == pytest.approx(mean, rel=tolerance)


def test_gamma_evidence_by_quadrature_over_the_variance():
    prior, data = PRIORS["gamma"], draw("gamma", np.random.default_rng(3), n=6)

    def integrand(variance):
        given = NormalKnownVariance(prior.mean, variance / prior.kappa, variance)
        return prior.distribution.variance.pdf(variance) * np.exp(
            given.log_marginal_likelihood(data)
        )

    evidence = integrate.quad(
        integrand, 1e-9, 300, limit=500, epsabs=0, epsrel=1e-12, points=[2.0]
    )[0]
    assert prior.log_marginal_likelihood(data) == pytest.approx(np.log(evidence), abs=1e-8)


def test_one_dimensional_wishart_is_gamma():
    gamma, data = PRIORS["gamma"], draw("gamma", np.random.default_rng(4))
    wishart = NormalInverseWishart([gamma.mean], gamma.kappa, 2 * gamma.shape, [[2 * gamma.scale]])
    assert wishart.log_marginal_likelihood(data[:, None]) == pytest.approx(
        gamma.log_marginal_likelihood(data), abs=1e-12
    )
    a, b = wishart.posterior(data[:, None]), gamma.posterior(data)
    assert a.scale[0, 0] == pytest.approx(2 * b.scale, rel=1e-13)
    assert a.log_predictive([[0.7]])[0] == pytest.approx(b.predictive().logpdf(0.7), rel=1e-12)
    for left, right in zip(a.interval(0.9), b.interval(0.9), strict=True):
        np.testing.assert_allclose(np.ravel(left), np.ravel(right), rtol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_batches_weights_and_added_statistics_give_the_same_posterior(name):
    prior, rng = PRIORS[name], np.random.default_rng(5)
    data, weight = draw(name, rng, n=20), rng.integers(0, 4, size=20)
    at_once = prior.posterior(data)
    chained = prior.posterior(data[:3]).posterior(data[3:11]).posterior(data[11:])
    added = prior.update(
        prior.statistics(data[:3]) + prior.statistics(data[3:3]) + prior.statistics(data[3:])
    )
    for parameter, value in at_once._parameters().items():
        np.testing.assert_allclose(getattr(chained, parameter), value, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(getattr(added, parameter), value, rtol=1e-12, atol=1e-12)
    copies = np.repeat(data, weight, axis=0)
    assert prior.log_marginal_likelihood(data, weight) == pytest.approx(
        prior.log_marginal_likelihood(copies), abs=1e-10
    )


@pytest.mark.parametrize("name", PRIORS)
def test_many_data_sets_at_once(name):
    rng = np.random.default_rng(6)
    data = np.stack([draw(name, rng) for _ in range(4)])
    prior = PRIORS[name]
    together = prior.posterior(data)
    assert together.batch_shape == (4,)
    evidence, predictive = prior.log_marginal_likelihood(data), together.log_predictive(data)
    drawn = together.sample(3, random_state=0)
    assert np.shape(drawn.mean if isinstance(drawn, tuple) else drawn)[:2] == (3, 4)
    for index in range(4):
        alone = prior.posterior(data[index])
        for parameter, value in together[index]._parameters().items():
            np.testing.assert_allclose(value, getattr(alone, parameter), rtol=1e-13)
        assert evidence[index] == pytest.approx(
            prior.log_marginal_likelihood(data[index]), rel=1e-12
        )
        np.testing.assert_allclose(predictive[index], alone.log_predictive(data[index]), rtol=1e-12)


@pytest.mark.parametrize("name", PRIORS)
def test_nothing_seen_changes_nothing(name):
    prior = PRIORS[name]
    empty = draw(name, np.random.default_rng(0))[:0]
    assert prior.log_marginal_likelihood(empty) == pytest.approx(0.0, abs=1e-13)
    for parameter, value in prior.posterior(empty)._parameters().items():
        np.testing.assert_array_equal(value, getattr(prior, parameter))


@pytest.mark.parametrize("name", ["beta", "known variance", "known mean", "gamma"])
def test_missing_numbers_are_left_out(name):
    prior, data = PRIORS[name], draw(name, np.random.default_rng(7))
    holes = np.insert(data, [2, 5], np.nan)
    assert prior.log_marginal_likelihood(holes) == pytest.approx(
        prior.log_marginal_likelihood(data), abs=1e-12
    )
    assert prior.log_predictive([np.nan])[0] == 0.0


@pytest.mark.parametrize("name", ["dirichlet", "wishart"])
def test_missing_numbers_are_refused_where_features_hang_together(name):
    with pytest.raises(ValueError, match="no entry may be missing"):
        PRIORS[name].posterior([[np.nan, 1.0, 2.0]])


def test_posterior_survives_a_far_origin():
    data = np.round(np.random.default_rng(8).normal(size=50) * 2**12) / 2**12  # exact out there too
    near, far = (
        NormalInverseGamma().posterior(data),
        NormalInverseGamma(mean=2.0**40).posterior(data + 2.0**40),
    )
    assert far.scale == pytest.approx(
        near.scale, rel=1e-6
    )  # sums of squares about the origin would keep no digit


@pytest.mark.parametrize("name", PRIORS)
def test_means_modes_and_intervals_agree_with_samples(name):
    posterior = PRIORS[name].posterior(draw(name, np.random.default_rng(9), n=30))
    drawn = posterior.sample(40_000, random_state=1)
    parts = [drawn] if not isinstance(drawn, tuple) else list(drawn)
    means = [posterior.mean]
    if isinstance(drawn, tuple):
        means.append(posterior.covariance if name == "wishart" else posterior.variance)
    intervals = (
        [posterior.interval(0.8)] if not isinstance(drawn, tuple) else list(posterior.interval(0.8))
    )
    for part, mean in zip(parts, means, strict=True):
        np.testing.assert_allclose(part.mean(axis=0), mean, atol=5 * part.std(axis=0).max() / 200)
    for part, (low, high) in zip(parts, intervals, strict=True):
        part = np.diagonal(part, axis1=-2, axis2=-1) if part.ndim == 3 else part
        np.testing.assert_allclose(((part > low) & (part < high)).mean(axis=0), 0.8, atol=0.012)


def test_modes_maximise_the_density():
    beta = BetaBinomial(3.0, 2.0)
    assert beta.distribution.pdf(beta.mode) >= max(
        beta.distribution.pdf(np.linspace(0.01, 0.99, 99))
    )
    assert BetaBinomial(1, 2).mode == 0.0
    assert BetaBinomial(2, 1).mode == 1.0
    assert np.isnan(BetaBinomial(1, 1).mode)
    np.testing.assert_allclose(DirichletMultinomial([2.0, 3.0, 4.0]).mode, np.array([1, 2, 3]) / 6)
    assert DirichletMultinomial([1.0, 3.0]).mode.tolist() == [0.0, 1.0]
    assert DirichletMultinomial([0.5, 0.5, 1.0]).mode.tolist() == [0.0, 0.0, 1.0]
    assert BetaBinomial([1, 0.5, 0.3], [0.5, 1, 0.2]).mode.tolist() == [1.0, 0.0, 1.0]
    assert np.isnan(DirichletMultinomial([1.0, 1.0, 0.5]).mode).all()
    known = PRIORS["known mean"]
    assert (
        known.distribution.pdf(known.mode)
        >= known.distribution.pdf(np.linspace(0.05, 3, 200)).max() - 1e-12
    )
    joint = PRIORS["wishart"].mode
    p = PRIORS["wishart"]

    def density(mean, covariance):
        return stats.invwishart.logpdf(
            covariance, p.df, p.scale
        ) + stats.multivariate_normal.logpdf(mean, p.mean, covariance / p.kappa)

    top = density(*joint)
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = rng.normal(size=(3, 3)) * 1e-2
        assert density(joint.mean + rng.normal(size=3) * 1e-2, joint.variance + step + step.T) < top


def test_variance_without_a_mean_is_infinite():
    assert NormalKnownMean(1.0, 1.0).mean == np.inf
    assert NormalInverseGamma(shape=0.5).variance == np.inf
    assert np.isinf(NormalInverseWishart([0, 0], 1, 3, np.eye(2)).covariance).all()


@pytest.mark.parametrize("name", PRIORS)
def test_objects_are_immutable_and_data_are_not_written(name):
    prior = PRIORS[name]
    first = next(iter(prior._parameters()))
    with pytest.raises(FrozenInstanceError):
        setattr(prior, first, 1.0)
    data = draw(name, np.random.default_rng(0))
    data.flags.writeable = False
    posterior = prior.posterior(np.stack([data, data]))
    with pytest.raises(ValueError, match="read-only"):
        getattr(posterior, first)[0] = 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BetaBinomial(0, 1), "a must be greater than 0"),
        (lambda: BetaBinomial(1, 1, 1.5), "trials must be a whole number"),
        (lambda: DirichletMultinomial(1.0), "an entry per category"),
        (lambda: NormalKnownVariance(np.nan), "mean must be finite"),
        (lambda: NormalKnownVariance(0, -1.0), "variance must be greater"),
        (lambda: NormalInverseGamma(kappa=0), "kappa must be greater"),
        (lambda: NormalInverseWishart([0, 0], 1, 1.0, np.eye(2)), "df must be greater than 1"),
        (lambda: NormalInverseWishart([0, 0], 1, 3, np.eye(3)), "must agree"),
        (lambda: NormalInverseWishart([0, 0], 1, 3, -np.eye(2)), "positive definite"),
        (lambda: BetaBinomial().posterior([2]), "from 0 to trials"),
        (lambda: BetaBinomial().posterior(1), "wrap a single observation"),
        (lambda: NormalInverseGamma().posterior([np.inf]), "infinity"),
        (
            lambda: NormalInverseGamma().posterior([1.0], weight=[-1]),
            "weight must be finite and nonnegative",
        ),
        (lambda: NormalInverseGamma().interval(1.5), "confidence must lie"),
        (lambda: DirichletMultinomial([1, 1]).posterior([[1, 2, 3]]), "2 categories"),
        (lambda: PRIORS["wishart"].posterior([[1.0, 2.0]]), "vectors of 3"),
        (lambda: PRIORS["wishart"].posterior(np.zeros((2, 4, 3))).predictive(), "for one prior"),
        (lambda: BetaBinomial(np.inf, 1), "a must be greater than 0 and finite"),
        (lambda: BetaBinomial(1e308, 1e308), "a must be at most"),
        (lambda: BetaBinomial(1, 1, 1e30), "trials must be at most"),
        (
            lambda: BetaBinomial([1, 2], [1, 2, 3]),
            r"shapes of parameters must broadcast.*a \(2,\), b \(3,\)",
        ),
        (lambda: BetaBinomial([], 1), "a is empty"),
        (lambda: DirichletMultinomial([]), "concentration is empty"),
        (
            lambda: BetaBinomial([1, 2, 3], 1).posterior([[1, 0, 1], [1, 1, 1]]),
            r"observations come last, \(3, n\)",
        ),
        (
            lambda: BetaBinomial([1, 2, 3]).update(BetaBinomial([1, 2]).statistics([[1], [0]])),
            "statistics holds data sets",
        ),
        (lambda: BetaBinomial().posterior([[1], [1, 0]]), "data has rows of different lengths"),
        (
            lambda: BetaBinomial().posterior([1, 0], weight=[1, 2, 3]),
            "weight must have one number for each",
        ),
        (lambda: BetaBinomial().posterior([1, 0], weight=1e308), "change units"),
        (lambda: DirichletMultinomial([1, 1]).posterior([[1.5, 2]]), "whole counts, got 1.5"),
        (lambda: DirichletMultinomial([[1, 1], [2, 2]]).predictive(3), "for one prior"),
        (lambda: NormalKnownMean(1, 1).posterior([1e200]), "data and prior are too far apart"),
        (
            lambda: NormalInverseGamma().posterior([1e200, -1e200]),
            r"data has values as large as 1e\+200",
        ),
        (lambda: NormalInverseGamma().log_predictive([1e200]), "too far apart.*change units"),
        (
            lambda: NormalKnownVariance().log_marginal_likelihood([1e200]),
            "log_marginal_likelihood overflows",
        ),
        (lambda: NormalInverseWishart([0, 0], 1, 3, [[1, 0.5], [0, 1]]), "scale must be symmetric"),
        (lambda: BetaBinomial().sample(-1), "size must lie"),
    ],
)
def test_errors_name_the_parameter_and_the_fix(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NormalInverseGamma().posterior(["a"]), "data must hold numbers"),
        (lambda: BetaBinomial("a", 1), "a must hold numbers, got 'a'"),
        (lambda: BetaBinomial().posterior([1], weight="x"), "weight must hold numbers, got 'x'"),
        (lambda: BetaBinomial().sample(2.5), "size must be an integer, got 2.5"),
        (lambda: BetaBinomial().interval("x"), "confidence must be a number, got 'x'"),
        (lambda: DirichletMultinomial([1, 1]).predictive(2.5), "total must be an integer"),
    ],
)
def test_what_is_no_number_is_refused_by_name(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("name", PRIORS)
def test_statistics_of_another_pair_are_refused(name):
    prior = PRIORS[name]
    own = type(prior.statistics(draw(name, np.random.default_rng(0))))
    others = [
        BetaBinomial().statistics([1]),
        DirichletMultinomial([1, 1]).statistics([[1, 2]]),
        NormalInverseGamma().statistics([1.0]),
    ]
    wide = NormalInverseWishart([0, 0], 1, 3, np.eye(2)).statistics([[1.0, 2.0]])
    for statistics in [*(other for other in others if type(other) is not own), wide, None]:
        with pytest.raises(TypeError, match=f"statistics must be those of {type(prior).__name__}"):
            prior.update(statistics)


def test_masks_are_not_read_through():
    masked = np.ma.array([1.0, 0.0, 1.0], mask=[0, 1, 0])
    for make in (
        lambda: BetaBinomial().posterior(masked),
        lambda: BetaBinomial().posterior([1, 0, 1], weight=masked),
        lambda: BetaBinomial(masked + 1, 1),
    ):
        with pytest.raises(ValueError, match="is a masked array"):
            make()


def test_extreme_parameters_give_finite_answers():
    assert BetaBinomial(1e300, 1e300).mean == 0.5
    assert isinstance(BetaBinomial(1, 2).mean, float)
    assert isinstance(BetaBinomial(1, 2).mode, float)
    assert BetaBinomial(1e300, 1e300).interval() == (0.5, 0.5)
    corners = DirichletMultinomial([[1e-300, 1e-300], [1e-300, 3e-300]]).sample(
        4000, random_state=0
    )
    np.testing.assert_array_equal(
        np.sort(corners, axis=-1), np.broadcast_to([0.0, 1.0], corners.shape)
    )
    np.testing.assert_allclose(corners.mean(axis=0), [[0.5, 0.5], [0.25, 0.75]], atol=0.03)
    for sample in (
        NormalKnownMean(1e-300, 1).sample(3),
        *NormalInverseGamma(0, 1, 1e-300, 1).sample(3),
    ):
        assert np.isfinite(sample).all()
    for sample in NormalInverseWishart([0, 0], 1, 1.0000001, np.eye(2)).sample(50, random_state=0):
        assert np.isfinite(sample).all()


@settings(max_examples=40)
@given(
    data=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12),
    cut=st.integers(0, 12),
    kappa=st.floats(1e-3, 1e3),
    scale=st.floats(1e-3, 1e3),
)
def test_any_cut_gives_the_same_answer(data, cut, kappa, scale):
    prior = NormalInverseGamma(0.0, kappa, 1.0, scale)
    at_once, chained = prior.posterior(data), prior.posterior(data[:cut]).posterior(data[cut:])
    assert chained.mean == pytest.approx(at_once.mean, rel=1e-9, abs=1e-9)
    assert chained.scale == pytest.approx(at_once.scale, rel=1e-9)
    evidence = prior.log_marginal_likelihood(data[:cut]) + prior.posterior(
        data[:cut]
    ).log_marginal_likelihood(data[cut:])
    assert prior.log_marginal_likelihood(data) == pytest.approx(evidence, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("size", [1e8, 1e16, 1e100, 1e299])
def test_evidence_of_counts_does_not_cancel_under_a_firm_prior(size):
    data = [1, 0, 0]
    assert BetaBinomial(size, 3 * size).log_marginal_likelihood(data) == pytest.approx(
        np.log([0.25, 0.75, 0.75]).sum(), rel=1e-6
    )
    np.testing.assert_allclose(
        BetaBinomial(size, 3 * size).log_predictive(data), np.log([0.25, 0.75, 0.75]), rtol=1e-6
    )
    prior = DirichletMultinomial([size, 2 * size, size])
    np.testing.assert_allclose(
        prior.log_predictive([[1, 0, 0], [0, 2, 0]]), np.log([0.25, 0.25]), rtol=1e-6
    )
    assert prior.log_marginal_likelihood([[1, 0, 0], [0, 2, 0]]) == pytest.approx(
        np.log(0.25**2), rel=1e-6
    )
