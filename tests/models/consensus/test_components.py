"""One Gaussian for each cluster, where small mixtures know no more."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import adjusted_rand_score

from sfumato import EvidenceAccumulation
from sfumato.datasets import make_gaussians
from sfumato.memberships import align
from sfumato.models.consensus import components, em
from sfumato.models.consensus.mixtures import MixtureEnsemble, Stock
from sfumato.numerics import distances
from sfumato.numerics.axes import fit_axes


def overlapping(seed=0, separation=3.5, n=300):
    return make_gaussians(n, 3, separation=separation, random_state=seed)


def distance(U, simulated):
    U = align(U, simulated.memberships)
    return np.sqrt(np.mean(np.sum((U - simulated.memberships) ** 2, axis=1)))


def test_overlapping_gaussians_get_their_true_posterior():
    for seed, separation, limit in ((3, 2.5, 0.16), (1, 3.5, 0.1), (2, 5.0, 0.06)):
        simulated = overlapping(seed, separation)
        fitted = EvidenceAccumulation(3, random_state=seed).fit(simulated.evidence)
        assert fitted.evidence_ == "components"
        assert distance(fitted.memberships_, simulated) < limit


@pytest.mark.parametrize("seed", range(3))
def test_iris_does_not_depend_on_the_seed(seed):
    iris = load_iris()
    labels = EvidenceAccumulation(3, random_state=seed).fit_predict(iris.data)
    assert adjusted_rand_score(iris.target, labels) >= 0.88


def test_shapes_that_are_no_gaussians_are_left_to_the_other_evidence():
    X, y = make_moons(300, noise=0.06, random_state=0)
    fitted = EvidenceAccumulation(2, random_state=0).fit(X)
    assert fitted.evidence_ != "components"
    assert adjusted_rand_score(y, fitted.labels_) > 0.95


def test_memberships_are_the_matched_average_of_the_posteriors():
    simulated = overlapping()
    fitted = EvidenceAccumulation(3, random_state=0).fit(simulated.evidence)
    parts = fitted.ensemble_.partitions(simulated.evidence)
    assert len(parts) == components.N_MEMBERS
    matched = [align(part, fitted.memberships_) for part in parts]
    np.testing.assert_allclose(np.mean(matched, axis=0), fitted.memberships_, atol=1e-12)
    new = simulated.evidence[:20] + 0.01
    expected = np.mean(
        [
            part[:, np.argmax(align(whole, fitted.memberships_).T @ whole, axis=1)]
            for part, whole in zip(fitted.ensemble_.partitions(new), parts, strict=True)
        ],
        axis=0,
    )
    np.testing.assert_allclose(fitted.predict_proba(new), expected, atol=1e-12)


def test_the_number_of_clusters_may_be_open():
    simulated = overlapping(1, 5.0)
    fitted = EvidenceAccumulation("auto", random_state=0).fit(simulated.evidence)
    assert fitted.n_clusters_ == 3
    assert distance(fitted.memberships_, simulated) < 0.1


def test_standard_errors_come_from_members_drawn_anew():
    simulated = overlapping(1)
    fitted = EvidenceAccumulation(3, n_bootstrap=20, random_state=0).fit(simulated.evidence)
    errors = fitted.uncertainty_
    assert errors.shape == (300, 3)
    assert errors.min() >= 0
    assert errors.max() > 0
    sure = fitted.memberships_.max(axis=1) > 0.99
    assert errors[sure].mean() < errors[~sure].mean()


def test_batches_leave_the_members_alone():
    simulated = overlapping(1, 5.0)
    fitted = EvidenceAccumulation(3, random_state=0).fit(simulated.evidence[:200])
    before = fitted.predict_proba(simulated.evidence)
    fitted.partial_fit(simulated.evidence[200:])
    np.testing.assert_allclose(fitted.predict_proba(simulated.evidence), before, atol=1e-12)


def test_left_out_density_is_that_of_the_mixture():
    rng = np.random.default_rng(0)
    Y, share = rng.normal(size=(50, 2)), rng.dirichlet([1.0, 1.0, 1.0], size=50).T
    Z = distances.features(np.ascontiguousarray(Y.T), "full")
    rows = em.maximize(share @ Z.T, 2)
    prior = em.PRIOR / 3.0
    total = np.zeros(50)
    for weight in share:
        mean = weight @ Y / weight.sum()
        covariance = ((Y - mean).T * weight) @ (Y - mean) / weight.sum()
        covariance = covariance + prior / (weight.sum() + 1e-3) * np.eye(2)
        total += weight.sum() / 50 * multivariate_normal(mean, covariance).pdf(Y)
    assert em.log_density(rows, Y, None) == pytest.approx(np.log(total).mean(), abs=1e-9)
    assert np.isnan(em.log_density(rows, Y[:0], None))


def test_a_wide_component_around_another_is_no_cluster():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 5)), 4.0 * rng.normal(size=(100, 5))])
    Z = distances.features(np.ascontiguousarray(X.T), "full")
    nested = (np.arange(400) >= 300) == np.array([[False], [True]])
    halves = (X[:, 0] > 0) == np.array([[False], [True]])
    runs = [em.climb(em.Seen(Z, None), labels @ Z.T, max_steps=1) for labels in (nested, halves)]
    assert [components._own_centers(run) for run in runs] == [False, True]


def test_components_of_a_fine_mixture_are_merged_to_the_clusters():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    X = np.concatenate([center + rng.normal(size=(80, 2)) for center in centers])
    Z = distances.features(np.ascontiguousarray(X.T), "full")
    fine = np.arange(240) % 80 < 40
    groups = 2 * (np.arange(240) // 80) + fine
    sums = (groups == np.arange(6)[:, None]) @ Z.T
    merged = components._merged(sums, 3, 2)
    np.testing.assert_allclose(np.sort(merged[:, 0]), [80, 80, 80])
    expected = np.stack([X[80 * j : 80 * j + 80].sum(axis=0) for j in range(3)])
    order = np.argsort(merged[:, 1] + 10 * merged[:, 2])
    expected = expected[np.argsort(expected[:, 0] + 10 * expected[:, 1])]
    np.testing.assert_allclose(merged[order, 1:3], expected, rtol=1e-9)


def test_nothing_is_claimed_where_no_object_is_left_out():
    X = np.random.default_rng(0).normal(size=(6, 2))
    axes = fit_axes(X, 2)
    stock = Stock.of(X, axes, None)
    ensemble = MixtureEnsemble(3)
    seeds = np.arange(3)
    fine = ensemble._members(stock, seeds)
    assert components.fit_components(stock, 6, fine, seeds, 2) == []
