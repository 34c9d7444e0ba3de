"""The estimator of factor mixtures.

Recovery, one cluster against scikit-learn, choice, refusals.
"""

import numpy as np
import pytest
from sklearn.decomposition import FactorAnalysis

from sfumato import EvidenceWarning, FactorMixture
from sfumato.metrics import adjusted_rand_index

quiet = pytest.mark.filterwarnings("ignore:structure test")


def clusters(n=240, d=40, k=3, q=2, seed=0):
    """Groups that differ in their factors as well as in their means."""
    rng = np.random.default_rng(seed)
    g = rng.integers(k, size=n)
    loadings, means = rng.normal(size=(k, d, q)), 1.2 * rng.normal(size=(k, d))
    factors = np.einsum("ndq,nq->nd", loadings[g], rng.normal(size=(n, q)))
    return means[g] + factors + rng.normal(size=(n, d)), g, loadings


@quiet
def test_groups_and_covariances_are_recovered():
    X, g, loadings = clusters(900)
    model = FactorMixture(3, n_factors=2, random_state=0).fit(X)
    assert adjusted_rand_index(g, model.labels_) > 0.99
    for j in range(3):
        true = loadings[np.bincount(g[model.labels_ == j]).argmax()]
        found = model.loadings_[j] @ model.loadings_[j].T
        assert np.linalg.norm(found - true @ true.T) < 0.35 * np.linalg.norm(true @ true.T)
    assert model.uniquenesses_.mean() == pytest.approx(1.0, abs=0.1)
    assert np.diff(model.history_).min() > -1e-6


def test_one_cluster_is_factor_analysis():
    X, _, _ = clusters(k=1, d=10)
    ours = FactorMixture(1, n_factors=2, tol=1e-11, max_iter=5000).fit(X)
    peer = FactorAnalysis(2, tol=1e-11, max_iter=5000, svd_method="lapack").fit(X)
    assert ours.log_likelihood_ == pytest.approx(peer.score(X) * len(X), abs=1e-3)
    np.testing.assert_allclose(ours.uniquenesses_[0], peer.noise_variance_, atol=1e-3)
    np.testing.assert_allclose(
        ours.loadings_[0] @ ours.loadings_[0].T, peer.components_.T @ peer.components_, atol=1e-2
    )


@quiet
def test_clusters_and_factors_are_found_by_bic():
    X, _, _ = clusters(300, d=12, seed=1)
    model = FactorMixture([2, 3, 4], n_factors=range(1, 4), n_init=2, random_state=0).fit(X)
    assert (model.n_clusters_, model.n_factors_) == (3, 2)
    assert len(model.search_) == 9
    best = min(model.search_, key=lambda row: row.bic)
    assert best.setting == {"n_clusters": 3, "n_factors": 2}
    assert model.bic(X) == pytest.approx(best.bic)
    assert (
        FactorMixture(2, n_factors="auto", n_init=1, random_state=0).fit(X[:, :4]).n_factors_ <= 2
    )


@quiet
def test_samples_have_the_moments_of_the_data():
    X, _, _ = clusters(400, d=6)
    model = FactorMixture(3, random_state=0).fit(X)
    drawn, labels = model.sample(20_000)
    np.testing.assert_allclose(np.bincount(labels) / 20_000, model.weights_, atol=0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(X.T), atol=0.6)


@quiet
def test_more_features_than_objects():
    X, g, _ = clusters(60, d=300, k=2, q=1)
    model = FactorMixture(2, n_factors=1, random_state=0).fit(X)
    assert adjusted_rand_index(g, model.labels_) > 0.9
    assert np.isfinite(model.score_samples(X)).all()


@quiet
def test_constant_features_and_shared_uniquenesses():
    X, g, _ = clusters(150, d=10)
    X[:, 3] = 7.0
    model = FactorMixture(3, shared_uniquenesses=True, random_state=0).fit(X)
    assert adjusted_rand_index(g, model.labels_) > 0.8
    np.testing.assert_allclose(
        model.uniquenesses_, np.tile(model.uniquenesses_[0], (3, 1)), rtol=1e-9
    )
    np.testing.assert_allclose(model.means_[:, 3], 7.0)


@pytest.mark.filterwarnings("ignore:one cluster")
def test_warnings_and_refusals():
    rng = np.random.default_rng(0)
    with pytest.warns(EvidenceWarning, match="too few objects for 3 factors"):
        FactorMixture(6, n_factors=3, n_init=1, random_state=0).fit(rng.normal(size=(14, 6)))
    with pytest.warns(EvidenceWarning, match="Ledermann bound of 1 for 4 features"):
        FactorMixture(1, n_factors=3, n_init=1, random_state=0).fit(rng.normal(size=(60, 4)))
    for name, value, kind in (
        ("n_factors", 0, ValueError),
        ("n_factors", 1.5, TypeError),
        ("n_factors", "many", ValueError),
        ("n_factors", [], ValueError),
        ("regularization", 1.0, ValueError),
        ("shared_uniquenesses", "yes", TypeError),
    ):
        with pytest.raises(kind, match=name):
            FactorMixture(2).set_params(**{name: value}).fit(rng.normal(size=(20, 4)))
    with pytest.raises(ValueError, match="no value at all in feature 0"):
        FactorMixture(2).fit(np.full((5, 2), np.nan))
