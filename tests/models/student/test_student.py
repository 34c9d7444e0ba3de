"""The estimator of Student mixtures: outliers, recovery, limits, families and refusals."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sfumato import EvidenceWarning, GaussianMixture, StudentMixture
from sfumato.components.gaussian import FAMILIES
from sfumato.metrics import adjusted_rand_index
from sfumato.selection import choose_n_clusters


def clusters(n=120, seed=0, nu=None, d=2):
    rng = np.random.default_rng(seed)
    g = rng.integers(3, size=n)
    centers = 9.0 * np.eye(3, d) - 3.0
    noise = rng.normal(size=(n, d)) if nu is None else rng.standard_t(nu, size=(n, d))
    return centers[g] + noise, g


@pytest.mark.filterwarnings("ignore::UserWarning")  # the normal mixture may doubt itself
@pytest.mark.parametrize("seed", range(4))
def test_outliers_do_not_make_clusters(seed):
    X, g = clusters(seed=seed)
    rng = np.random.default_rng(100 + seed)
    outliers = rng.uniform(-60, 60, size=(8, 2))
    everything = np.vstack([X, outliers])
    robust = StudentMixture(3, covariance_type="tied", random_state=seed).fit(everything)
    assert adjusted_rand_index(g, robust.labels_[: len(X)]) > 0.9
    alone = StudentMixture(3, covariance_type="tied", random_state=seed).fit(X)
    moved = np.abs(robust.means_[:, None] - alone.means_[None]).max(axis=2).min(axis=1)
    assert moved.max() < 0.8
    normal = GaussianMixture(3, covariance_type="tied", n_init=2, random_state=seed).fit(everything)
    assert adjusted_rand_index(g, normal.labels_[: len(X)]) < 0.9


def test_parameters_are_recovered():
    rng = np.random.default_rng(0)
    n = 3000
    spread = np.sqrt(4.0 / rng.chisquare(4.0, size=(2 * n, 1)))
    X = rng.normal(size=(2 * n, 2)) * [1.0, 2.0] * spread
    X[n:] += 12
    model = StudentMixture(2, n_init=2, random_state=0).fit(X)
    np.testing.assert_allclose(model.degrees_of_freedom_, 4.0, rtol=0.15)
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [0, 12], atol=0.15)
    for scale in model.scale_matrices_:
        np.testing.assert_allclose(scale, np.diag([1.0, 4.0]), atol=0.35)
    drawn, labels = model.sample(4000)
    assert np.bincount(labels).min() > 1700
    quantiles = [0.1, 0.25, 0.75, 0.9]
    np.testing.assert_allclose(
        np.quantile(drawn, quantiles, axis=0), np.quantile(X, quantiles, axis=0), atol=0.5
    )


@pytest.mark.parametrize("family", ["full", "tied", "diag", "spherical"])
def test_many_degrees_of_freedom_give_the_gaussian_mixture(family):
    X, _ = clusters(150, seed=3)
    ours = StudentMixture(
        3, covariance_type=family, degrees_of_freedom=1e9, tol=1e-11, n_init=3, random_state=0
    ).fit(X)
    peer = GaussianMixture(3, covariance_type=family, tol=1e-11, n_init=2, random_state=0).fit(X)
    assert ours.log_likelihood_ == pytest.approx(peer.score(X) * len(X), abs=1e-3)
    assert ours.bic(X) == pytest.approx(peer.bic(X), abs=2e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_fits_and_never_gets_worse(family):
    X, g = clusters(150, seed=1, nu=4)
    model = StudentMixture(3, covariance_type=family, n_init=2, random_state=0).fit(X)
    assert model.covariance_type_ == family
    assert adjusted_rand_index(g, model.labels_) > 0.8
    assert np.diff(model.history_).min() > -1e-7
    volumes = np.linalg.det(model.scale_matrices_)
    if family[0] == "E":
        np.testing.assert_allclose(volumes, volumes[0], rtol=1e-6)
    if family[1:] == "II":
        np.testing.assert_allclose(
            model.scale_matrices_, model.scale_matrices_[:, :1, :1] * np.eye(2), atol=1e-9
        )


def test_the_family_and_the_number_are_found():
    X, _ = clusters(120, seed=2, nu=5)
    model = StudentMixture(range(2, 4), covariance_type="auto", n_init=1, random_state=0)
    model.fit(X)
    assert model.n_clusters_ == 3
    assert len(model.search_) == 2 * 14
    best = model.search_.best(1)[0]
    assert best.setting == {"n_clusters": 3, "covariance_type": model.covariance_type_}
    assert model.bic(X) == pytest.approx(best.bic)


def test_missing_values_are_integrated_out():
    X, g = clusters(100, seed=4)
    X[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    model = StudentMixture(3, covariance_type="tied", n_init=2, random_state=0).fit(X)
    seen = ~np.isnan(X).any(axis=1)
    assert adjusted_rand_index(g[seen], model.labels_[seen]) > 0.9
    blank = np.isnan(X).all(axis=1)
    np.testing.assert_allclose(model.memberships_[blank], np.tile(model.weights_, (blank.sum(), 1)))
    assert model.score_samples(X)[blank] == pytest.approx(0.0)


def test_the_density_integrates_to_one():
    X, _ = clusters(100, seed=5, d=1)
    model = StudentMixture(2, degrees_of_freedom="each", n_init=2, random_state=0).fit(10 * X)
    grid = np.linspace(-3000, 3000, 600_001)[:, None]
    total = np.exp(model.score_samples(grid)).sum() * 0.01
    assert total == pytest.approx(1.0, abs=0.02)


def test_structureless_data_get_a_warning():
    X = np.random.default_rng(0).standard_t(4, size=(200, 2))
    with pytest.warns(EvidenceWarning, match="one cluster describes these data better"):
        StudentMixture(3, covariance_type="tied", n_init=2, random_state=0).fit(X)


def test_collapse_is_named():
    X = np.vstack([np.random.default_rng(0).normal(size=(12, 3)), [[40.0, 0, 0]]])
    with pytest.warns(EvidenceWarning, match="too few objects"):
        StudentMixture(6, covariance_type="full", n_init=2, random_state=0).fit(X)


def test_bad_parameters_are_named():
    X = clusters(30)[0]
    for name, value in (
        ("covariance_type", "VVX"),
        ("degrees_of_freedom", "some"),
        ("degrees_of_freedom", 0.0),
        ("regularization", 0.0),
        ("criterion", "best"),
        ("n_clusters", []),
    ):
        with pytest.raises(ValueError, match=name):
            StudentMixture(2).set_params(**{name: value}).fit(X)
    with pytest.raises(ValueError, match="no value at all in feature 1"):
        StudentMixture(1).fit(np.column_stack([X[:, 0], np.full(len(X), np.nan)]))


def test_a_collapsed_candidate_neither_wins_nor_has_a_probability():
    X = load_iris().data
    model = StudentMixture(covariance_type="full", random_state=0, n_init=2)
    choice = choose_n_clusters(model, X, [2, 3, 8])
    collapsed = choice.estimator.search_[-1]
    assert np.isnan([collapsed.bic, collapsed.icl, collapsed.aic]).all()
    assert "objects" in collapsed.reason or "outliers" in collapsed.reason
    assert choice.n_clusters == choice.preferred == 2
    assert choice.distribution[2] > 0.9
    assert choice.distribution[8] == 0.0
    assert choice.table[-1].failure == collapsed.reason
    assert [row.failure for row in choice.table[:-1]] == [None, None]


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_auto_leaves_outliers_to_the_tails(n_groups):
    rng = np.random.default_rng(n_groups)
    truth = np.repeat(np.arange(n_groups), 80)
    groups = np.array([[0, 0], [8, 0], [0, 8]])[truth] + rng.normal(size=(len(truth), 2))
    X = np.concatenate([groups, rng.uniform(-20, 25, (8, 2))])
    model = StudentMixture("auto", max_clusters=4, n_init=3, tol=1e-5, random_state=0).fit(X)
    assert model.n_clusters_ == n_groups
    assert any("left to the tails" in row.reason for row in model.search_)


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
def test_clusters_of_two_objects_do_not_break_a_fit():
    rng = np.random.default_rng(1)
    groups = [rng.normal(size=(80, 2)) + center for center in ([0, 0], [8, 0])]
    X = np.concatenate([*groups, rng.uniform(-20, 25, size=(10, 2))])
    model = StudentMixture(6, n_init=4, random_state=0).fit(X)
    assert np.isfinite(model.memberships_).all()


def test_too_small_degrees_of_freedom_are_named():
    with pytest.raises(ValueError, match="degrees_of_freedom must lie in"):
        StudentMixture(2, degrees_of_freedom=1e-300).fit(load_iris().data)
