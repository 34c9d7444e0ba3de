"""The misprints of the sources.

Each printed formula fails a check that the corrected one, as we implement it, passes.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import integrate
from scipy.special import gammaln
from scipy.stats import multivariate_normal, norm

from sfumato import FuzzyCMeans, GaussianMixture, conjugate, metrics
from sfumato.engine import loop
from sfumato.models.discriminative import problem as discriminative
from sfumato.models.pairwise import kernel as pairwise
from sfumato.numerics import contingency, eigen, simplex


def test_baum_eagon_denominator():
    """Printed: divide by a n + sum_r u_ir R_ir.

    That equals the row sum only while rows sum to one, and errors then grow.
    """
    rng = np.random.default_rng(0)
    A = rng.random((40, 3))
    W = A @ A.T
    problem = pairwise.Problem(pairwise.Explicit(W), False, None)
    begin = pairwise.start(problem, simplex.draw(rng, (40, 1, 3)))
    corrected = loop.iterate(
        partial(pairwise.baum_eagon_step, problem), begin, max_iter=2000, tol=0
    )
    assert np.abs(corrected.state.U.sum(axis=2) - 1).max() < 1e-14
    assert np.diff(corrected.history[:, 0]).max() <= 1e-9
    U = begin.U[:, 0] * (1 + 1e-12)
    drift = []
    for _ in range(2000):
        S = U.T @ U
        a = (U * (W @ U)).sum() / np.square(S).sum()
        R = W @ U - a * U @ S
        U = U * (a * 40 + R) / (a * 40 + (U * R).sum(axis=1, keepdims=True))
        drift.append(np.abs(U.sum(axis=1) - 1).max())
    assert drift[-1] > 10 * drift[0]


def test_baum_eagon_constant():
    """Printed: |U 1 1' U'|^2 = 1. It is n^2."""
    U = np.random.default_rng(0).dirichlet(np.ones(3), 7)
    assert np.square(U @ np.ones((3, 3)) @ U.T).sum() == pytest.approx(49)


def test_the_gaussian_likelihood_of_similarities_has_a_half():
    """Printed: |W - a Y'Y|^2 / sigma^2 + n^2 log sigma.

    The first term is halved; memberships are the same, sigma is not.
    """
    rng = np.random.default_rng(0)
    E, sigmas = rng.normal(scale=0.3, size=(20, 20)), np.array([0.2, 0.3, 0.5])
    truth = np.array([-norm(0, sigma).logpdf(E).sum() for sigma in sigmas])
    corrected, printed = (
        np.square(E).sum() / (divisor * sigmas**2) + E.size * np.log(sigmas) for divisor in (2, 1)
    )
    np.testing.assert_allclose(np.diff(corrected), np.diff(truth))
    assert np.abs(np.diff(printed) - np.diff(truth)).min() > 100


def test_spectral_rounding_cost_is_squared():
    """Printed: J = |E E' - Pi| / 2. Only the square equals the weighted k-means distortion."""
    rng = np.random.default_rng(1)
    W = rng.random((12, 12)) + np.kron(np.eye(2), np.ones((6, 6)))
    W = W + W.T
    degree, labels = W.sum(axis=1), np.repeat([0, 1], 6)
    E = np.linalg.eigh(W / np.sqrt(np.outer(degree, degree)))[1][:, -2:]
    indicators = np.eye(2)[labels] * np.sqrt(degree)[:, None]
    Pi = indicators @ np.diag(1 / np.square(indicators).sum(axis=0)) @ indicators.T
    Z = E / np.sqrt(degree)[:, None]
    centers = np.stack(
        [np.average(Z[labels == r], axis=0, weights=degree[labels == r]) for r in range(2)]
    )
    distortion = (degree * np.square(Z - centers[labels]).sum(axis=1)).sum()
    norm_of_difference = np.linalg.norm(E @ E.T - Pi)
    assert eigen.spectral_cost(E, degree, labels, 2) == pytest.approx(distortion, abs=1e-10)
    assert norm_of_difference**2 / 2 == pytest.approx(distortion, abs=1e-10)
    assert norm_of_difference / 2 != pytest.approx(distortion, rel=0.01)


def test_normal_with_known_variance_counts_every_observation():
    """Printed: 1/tau1^2 = 1/tau0^2 + 1/sigma^2. The data add n/sigma^2."""
    y, noise, variance = np.array([0.3, 1.1, 2.0, 0.7]), 0.5, 2.0

    def unnormalized(mu, power):
        return mu**power * norm(0, variance**0.5).pdf(mu) * np.prod(norm(mu, noise**0.5).pdf(y))

    total, first, second = (
        integrate.quad(unnormalized, -10, 10, args=(power,))[0] for power in (0, 1, 2)
    )
    truth = second / total - (first / total) ** 2
    posterior = conjugate.NormalKnownVariance(
        mean=0, variance=variance, known_variance=noise
    ).posterior(y)
    assert posterior.variance == pytest.approx(truth, rel=1e-6)
    assert 1 / (1 / variance + 1 / noise) != pytest.approx(truth, rel=0.1)


def test_normal_with_known_mean_uses_the_mean_square():
    """Printed: nu = sum (y - mu)^2, then n nu / 2 in the exponent.

    It is the mean square, or the sum without the n.
    """
    y, shape, scale = np.array([0.3, -1.1, 2.0]), 3.0, 1.0

    def unnormalized(s2, power):
        return (
            s2**power * s2 ** -(shape + 1) * np.exp(-scale / s2) * np.prod(norm(0, s2**0.5).pdf(y))
        )

    truth = (
        integrate.quad(unnormalized, 0, np.inf, args=(1,))[0]
        / integrate.quad(unnormalized, 0, np.inf, args=(0,))[0]
    )
    posterior = conjugate.NormalKnownMean(shape=shape, scale=scale).posterior(y)
    printed = (scale + len(y) / 2 * np.square(y).sum()) / (shape + len(y) / 2 - 1)
    assert posterior.mean == pytest.approx(truth, rel=1e-6)
    assert printed != pytest.approx(truth, rel=0.1)


def test_discriminative_memberships_fall_with_the_squared_distance():
    """Printed: exp(|x - m| / s^2), which grows with the distance."""
    X, centers = np.array([[0.1, 0.0]]), np.array([[0.0, 0.0], [3.0, 0.0]])
    ours = discriminative.memberships(X, centers, 2.0)[0]
    printed = np.exp(np.linalg.norm(X - centers, axis=1) / 4)
    expected = np.exp(-np.square(X - centers).sum(axis=1) / 4)
    np.testing.assert_allclose(ours, expected / expected.sum())
    assert ours.argmax() == 0
    assert printed.argmax() == 1


def test_the_discriminative_objective_is_maximised():
    """Printed: "the function that is minimised".

    Clusters that separate the classes have the larger log posterior.
    """
    apart, mixed, prior = np.array([[9.0, 1.0], [1.0, 9.0]]), np.full((2, 2), 5.0), np.ones(2)
    assert contingency.log_posterior(apart, prior) > contingency.log_posterior(mixed, prior)


def test_the_online_rule_compares_with_the_class_of_the_sample():
    """Printed: delta_il, the index of the cluster.

    Only the class of the sample gives the gradient of the expected cost.

    The step of the prototypes is the one we take; the logits of psi are integrated out of our rule,
    so theirs is checked by itself.
    """
    rng = np.random.default_rng(2)
    X, centers, logits = rng.normal(size=(5, 2)), rng.normal(size=(2, 2)), rng.normal(size=(2, 3))
    classes = np.eye(3)[rng.integers(3, size=5)]

    def log_psi(gamma):
        return gamma - np.logaddexp.reduce(gamma, axis=1, keepdims=True)

    def cost(m, gamma):
        return -(discriminative.memberships(X, m, 1.0) * (classes @ log_psi(gamma).T)).sum()

    Y = discriminative.memberships(X, centers, 1.0)
    of_centers = numeric_gradient(lambda m: cost(m, logits), centers)
    of_logits = numeric_gradient(lambda gamma: cost(centers, gamma), logits)
    np.testing.assert_allclose(
        discriminative.pull(X, Y, classes, log_psi(logits), centers, 1.0), -of_centers, atol=1e-6
    )
    psi = np.exp(log_psi(logits))
    corrected = Y.sum(axis=0)[:, None] * psi - Y.T @ classes
    printed = Y.sum(axis=0)[:, None] * (psi - np.eye(2, 3))
    np.testing.assert_allclose(corrected, of_logits, atol=1e-6)
    assert np.abs(printed - of_logits).max() > 0.1


def numeric_gradient(function, at):
    gradient = np.zeros_like(at)
    for index in np.ndindex(*at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-6
        gradient[index] = (function(at + step) - function(at - step)) / 2e-6
    return gradient


def test_the_contingency_factor_divides_once_for_each_cluster():
    """Printed: Gamma(S + R_j) inside the product over classes.

    Then a table of one class would not have evidence for nothing.
    """
    table, prior = np.array([[3.0, 1.0], [2.0, 4.0]]), 1.0
    rows = table.sum(axis=1)
    own = (gammaln(prior + table) - gammaln(prior)).sum() - (
        gammaln(2 * prior + rows) - gammaln(2 * prior)
    ).sum()
    pooled = table.sum(axis=0)
    shared = (gammaln(prior + pooled) - gammaln(prior)).sum() - (
        gammaln(2 * prior + pooled.sum()) - gammaln(2 * prior)
    )
    assert metrics.contingency_bayes_factor(table, prior) == pytest.approx(own - shared)
    printed = (gammaln(prior + table) - gammaln(2 * prior + rows)[:, None]).sum()
    corrected = gammaln(prior + table).sum() - gammaln(2 * prior + rows).sum()
    assert printed != pytest.approx(corrected)


def test_the_distortion_is_mutual_information_of_class_given_cluster():
    """Printed: log p(c|x) / p(v|c).

    The prototype of a cluster is p(c|v); only then do distortion and information add up to a
    constant.
    """
    rng = np.random.default_rng(6)
    classes = rng.dirichlet(np.ones(3), size=50)
    sums, printed = [], []
    for _ in range(4):
        joint = rng.dirichlet(rng.uniform(0.2, 3, size=4), size=50).T @ classes / 50
        information = contingency.mutual_information(joint)
        sums.append(information - (joint * np.log(joint / joint.sum(axis=1, keepdims=True))).sum())
        printed.append(
            information - (joint * np.log(joint / joint.sum(axis=0, keepdims=True))).sum()
        )
    assert np.ptp(sums) < 1e-12
    assert np.ptp(printed) > 0.01


def test_the_limit_of_the_fuzzifier_is_hard():
    """Printed: m >= 1. The memberships have m - 1 in a denominator, so that m = 1 is a limit."""
    line = np.append(np.arange(3.0), 10.0 + np.arange(3.0))[:, None]
    hard = FuzzyCMeans(2, fuzzifier=1.0, random_state=0).fit(line)
    assert set(hard.memberships_.ravel()) == {0.0, 1.0}
    with pytest.raises(ValueError, match="fuzzifier"):
        FuzzyCMeans(2, fuzzifier=0.99).fit(line)


def test_the_fuzzy_exponent():
    """Printed: (1/d^2)^(2/(m-1)).

    The stationary memberships of J have 1/(m-1) on squared distances.
    """
    X = np.random.default_rng(3).normal(size=(30, 2))
    model = FuzzyCMeans(2, fuzzifier=2.5, random_state=0, tol=1e-12).fit(X)
    D = np.square(X[:, None] - model.cluster_centers_[None]).sum(axis=2)

    def objective(U):
        return (U**2.5 * D).sum()

    corrected, printed = (
        D ** (-power / 1.5) / (D ** (-power / 1.5)).sum(axis=1, keepdims=True) for power in (1, 2)
    )
    np.testing.assert_allclose(model.memberships_, corrected, atol=1e-9)
    assert objective(corrected) < objective(printed)
    assert model.objective_ == pytest.approx(objective(corrected))


def test_the_gaussian_density_has_the_dimension_in_it():
    """Printed: (2 pi |Sigma|)^(1/2). It is (2 pi)^(d/2) |Sigma|^(1/2)."""
    X = np.random.default_rng(5).normal(size=(40, 3)) * [1.0, 2.0, 0.5]
    model = GaussianMixture(1).fit(X)
    truth = multivariate_normal(model.means_[0], model.covariances_[0])
    determinant = np.linalg.det(model.covariances_[0])
    printed = (
        truth.logpdf(X)
        + 1.5 * np.log(2 * np.pi)
        + 0.5 * np.log(determinant)
        - 0.5 * np.log(2 * np.pi * determinant)
    )
    np.testing.assert_allclose(model.score_samples(X), truth.logpdf(X), atol=1e-6)
    assert np.abs(printed - truth.logpdf(X)).min() > 1


def test_the_gradient_in_a_mean_has_the_inverse_covariance():
    """Printed: Sigma_k (x - mu_k). It is Sigma_k^-1 (x - mu_k)."""
    x, mean, covariance = np.array([1.0, 2.0]), np.zeros(2), np.array([[2.0, 0.3], [0.3, 0.5]])
    numeric = np.array(
        [
            (
                multivariate_normal(mean + step, covariance).logpdf(x)
                - multivariate_normal(mean - step, covariance).logpdf(x)
            )
            / 2e-6
            for step in 1e-6 * np.eye(2)
        ]
    )
    np.testing.assert_allclose(np.linalg.solve(covariance, x - mean), numeric, rtol=1e-6)
    assert np.abs(covariance @ (x - mean) - numeric).max() > 1


def test_the_adjusted_rand_index_does_not_reach_minus_one():
    """Printed: from -1 to 1. Two partitions of four objects that disagree as much as they can give
    -1/2.
    """
    assert metrics.adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(-0.5)
    rng = np.random.default_rng(4)
    values = [
        metrics.adjusted_rand_index(rng.integers(0, 3, 6), rng.integers(0, 3, 6))
        for _ in range(300)
    ]
    assert min(values) >= -0.5 - 1e-12
