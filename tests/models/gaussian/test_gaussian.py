"""GaussianMixture: mclust's numbers, units, weights, missing values, labels, noise, search."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato import EvidenceWarning, GaussianMixture, Start
from tolerances import settled, stopped

TYPES = ("full", "tied", "diag", "spherical")
IRIS = load_iris().data
MCLUST = {
    ("full", 1): -829.9782,
    ("full", 2): -574.0178,
    ("full", 3): -580.8396,
    ("tied", 2): -688.0972,
    ("tied", 3): -632.9647,
    ("diag", 2): -857.5515,
    ("diag", 3): -744.6382,
    ("spherical", 2): -1012.2352,
    ("spherical", 3): -853.8144,
}


def ellipses(seed=0, n=600, k=3, d=3):
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    A, M = 0.4 * rng.normal(size=(k, d, d)) + 0.5 * np.eye(d), 4 * rng.normal(size=(k, d))
    return M[truth] + np.einsum("nij,nj->ni", A[truth], rng.normal(size=(n, d))), truth


X, TRUTH = ellipses()


@pytest.mark.parametrize("covariance_type, k", MCLUST)
@pytest.mark.parametrize("seed", [0, 1])
def test_iris_has_the_criterion_that_mclust_publishes(covariance_type, k, seed):
    model = GaussianMixture(k, covariance_type=covariance_type, random_state=seed).fit(IRIS)
    # Diagonal covariances of three components have a better optimum than the one mclust reports.
    better = 0.7 if (covariance_type, k) == ("diag", 3) else 0.05
    assert -0.001 <= -model.bic(IRIS) - MCLUST[covariance_type, k] <= better
    assert np.diff(model.history_).min(initial=0) >= -1e-8


def test_iris_has_the_completed_likelihood_that_mclust_reports():
    assert -GaussianMixture(2, covariance_type="full", random_state=0).fit(IRIS).icl(
        IRIS
    ) == pytest.approx(-574.0191, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k, d", [(2, 2), (3, 2), (5, 4)])
def test_likelihood_reaches_the_best_of_ten_starts_of_scikit_learn(seed, k, d):
    data, _ = ellipses(seed + 10, 500, k, d)
    ours = GaussianMixture(k, random_state=seed).fit(data)
    peer = Peer(k, n_init=10, tol=1e-5, max_iter=500, random_state=seed).fit(data)
    assert ours.objective_ >= peer.score(data) * len(data) - 0.02


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("seed, k", [(0, 2), (1, 3), (0, 5)])
def test_eruptions_reach_the_best_of_ten_starts_of_scikit_learn(covariance_type, seed, k):
    rng = np.random.default_rng(seed)
    short = rng.multivariate_normal([2.04, 54.5], [[0.07, 0.44], [0.44, 33.7]], 272)
    long = rng.multivariate_normal([4.29, 80.0], [[0.17, 0.94], [0.94, 36.0]], 272)
    data = np.where(rng.random((272, 1)) < 0.36, short, long)
    ours = GaussianMixture(k, covariance_type=covariance_type, random_state=seed).fit(data)
    peers = [
        Peer(
            k, covariance_type=covariance_type, tol=1e-6, max_iter=1000, random_state=10 * seed + i
        ).fit(data)
        for i in range(10)
    ]
    assert ours.objective_ >= max(peer.score(data) for peer in peers) * len(data) - 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_anisotropic_clusters_in_mixed_units(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=600)
    data = np.column_stack(
        [
            1e3 * rng.normal(size=600),
            truth + 0.1 * rng.normal(size=600),
            1e-3 * rng.normal(size=600),
        ]
    )
    for covariance_type in ("full", "tied", "diag"):
        model = GaussianMixture(3, covariance_type=covariance_type, random_state=seed).fit(data)
        assert adjusted_rand_score(truth, model.labels_) >= 0.9


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize(
    "scale, shift, dtype",
    [
        (1e-12, 0, "f8"),
        (1e12, 0, "f8"),
        (1e-12, 0, "f4"),
        (1e12, 0, "f4"),
        (1e2, 1e4, "f4"),
        (1e4, 1e6, "f4"),
        (1e-300, 0, "f8"),
    ],
)
def test_units_and_offsets_do_not_matter(covariance_type, scale, shift, dtype):
    reference = (
        GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X).memberships_
    )
    moved = (
        GaussianMixture(3, covariance_type=covariance_type, random_state=0)
        .fit((X * scale + shift).astype(dtype))
        .memberships_
    )
    assert moved.dtype == dtype
    np.testing.assert_allclose(moved, reference, atol=1e-8 if dtype == "f8" else 3e-3)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_parameters_and_scores_agree_with_scikit_learn(covariance_type):
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    peer = Peer(3, covariance_type=covariance_type)
    peer.weights_, peer.means_, peer.covariances_ = model.weights_, model.means_, model.covariances_
    peer.precisions_cholesky_ = model.precisions_cholesky_
    np.testing.assert_allclose(model.score_samples(X), peer.score_samples(X), rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-10)
    assert model.bic(X) == pytest.approx(peer.bic(X))
    assert model.aic(X) == pytest.approx(peer.aic(X))
    assert model.score(X) == pytest.approx(model.objective_ / len(X))
    open_questions = -2 * np.log(model.memberships_.max(axis=1)).sum()
    assert model.icl(X) == pytest.approx(model.bic(X) + open_questions)


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("holes", [False, True])
def test_a_weight_equals_copies(covariance_type, holes):
    rng = np.random.default_rng(0)
    data = X[:150].copy()
    if holes:
        data[rng.random(data.shape) < 0.1] = np.nan
    weights = rng.integers(0, 4, len(data))
    settings = {"covariance_type": covariance_type, "random_state": 0, "n_init": 2}
    weighted, copied = (settled(GaussianMixture(2, **settings)) for _ in range(2))
    weighted.fit(data, sample_weight=weights)
    copied.fit(np.repeat(data, weights, axis=0))
    atol = stopped(copied)
    np.testing.assert_allclose(weighted.means_, copied.means_, atol=atol)
    np.testing.assert_allclose(
        np.repeat(weighted.memberships_, weights, axis=0), copied.memberships_, atol=atol
    )
    assert weighted.bic(data, sample_weight=weights) == pytest.approx(
        copied.bic(np.repeat(data, weights, axis=0))
    )


def test_missing_values_cost_little_and_beat_imputation():
    data, truth = ellipses(3, 800, 3, 4)
    complete = GaussianMixture(3, random_state=0, n_init=3).fit(data)
    holes = data.copy()
    holes[np.random.default_rng(1).random(data.shape) < 0.2] = np.nan
    model = GaussianMixture(3, random_state=0, n_init=3).fit(holes)
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    imputed = GaussianMixture(3, random_state=0, n_init=3).fit(filled)
    error = np.sqrt(
        np.diagonal(complete.covariances_, axis1=1, axis2=2) / (800 * complete.weights_[:, None])
    )
    assert np.abs((model.means_ - complete.means_) / error).max() < 4.0
    np.testing.assert_allclose(model.weights_, complete.weights_, atol=0.05)
    assert (
        adjusted_rand_score(truth, model.labels_)
        > adjusted_rand_score(truth, imputed.labels_) + 0.05
    )
    np.testing.assert_allclose(model.predict_proba(holes), model.memberships_, atol=1e-12)
    assert model.score_samples(holes).sum() == pytest.approx(model.objective_)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_holes_in_new_objects_are_integrated_out(covariance_type):
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(X)
    assert np.allclose(model.predict_proba(np.full((1, 3), np.nan)), model.weights_)
    point = np.array([[X[0, 0], np.nan, X[0, 2]]])
    width = 20 * X[:, 1].std()
    grid = np.linspace(X[:, 1].min() - width, X[:, 1].max() + width, 20001)
    line = np.column_stack([np.full(20001, X[0, 0]), grid, np.full(20001, X[0, 2])])
    density = np.exp(model.score_samples(line))
    assert np.exp(model.score_samples(point))[0] == pytest.approx(
        density.sum() * (grid[1] - grid[0]), rel=1e-6
    )


def test_a_feature_without_values_is_named():
    with pytest.raises(ValueError, match="feature 1"):
        GaussianMixture(2).fit(np.column_stack([np.arange(9.0), np.full(9, np.nan)]))


def test_partial_labels_hold_and_help():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(X)) < 0.1, TRUTH + 5, -1)
    model = GaussianMixture(3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.labels_[y >= 0], y[y >= 0] - 5)
    assert (model.labels_ == TRUTH).mean() > 0.95
    assert np.diff(model.history_).min() >= -1e-8
    ignored = GaussianMixture(3, random_state=0).fit(X, TRUTH)
    np.testing.assert_array_equal(
        ignored.memberships_, GaussianMixture(3, random_state=0).fit(X).memberships_
    )
    with pytest.raises(ValueError, match="n_clusters=2"):
        GaussianMixture(2).fit(X, y)


def test_partial_labels_in_other_clothes():
    y = np.where(np.random.default_rng(0).random(len(X)) < 0.1, TRUTH, -1)
    plain = GaussianMixture(3, random_state=0, n_init=1).fit(X, y).memberships_
    holes = np.where(y < 0, np.nan, y)
    for other in (y[:, None], y.astype(object), y.astype(float), y.tolist(), holes):
        np.testing.assert_array_equal(
            GaussianMixture(3, random_state=0, n_init=1).fit(X, other).memberships_, plain
        )
    for short in (y[:-1], TRUTH[:-1], TRUTH[:-1].astype(float)):
        with pytest.raises(ValueError, match="y has 599 labels for 600 objects"):
            GaussianMixture(3).fit(X, short)
    names = np.array(["a", "b", "c"])[TRUTH]
    free = GaussianMixture(3, random_state=0, n_init=1).fit(X).memberships_
    for ignored in (names, names.astype(object), TRUTH + 0.5):
        np.testing.assert_array_equal(
            GaussianMixture(3, random_state=0, n_init=1).fit(X, ignored).memberships_, free
        )


def test_labels_of_later_batches_hold():
    y = np.where(np.random.default_rng(0).random(len(X)) < 0.2, TRUTH + 5, -1)
    model = (
        GaussianMixture(3, random_state=0)
        .partial_fit(X[:300], y[:300])
        .partial_fit(X[300:], y[300:])
    )
    np.testing.assert_array_equal(model.labels_[y[300:] >= 0], y[300:][y[300:] >= 0] - 5)
    with pytest.raises(ValueError, match="label 99"):
        model.partial_fit(X[:300], np.where(y[:300] < 0, -1, 99))
    with pytest.raises(ValueError, match="first batch had none"):
        GaussianMixture(3, random_state=0).partial_fit(X[:300]).partial_fit(X[300:], y[300:])


@pytest.mark.parametrize("covariance_type", TYPES)
def test_objects_without_weight_do_not_stretch_the_noise(covariance_type):
    far = np.vstack([X, [[1e3, -1e3, 1e3]]])
    weights = np.append(np.ones(len(X)), 0.0)
    settings = {
        "covariance_type": covariance_type,
        "noise_cluster": 0.05,
        "n_init": 1,
        "random_state": 0,
    }
    weighted, without = (
        settled(GaussianMixture(3, **settings)).fit(far, sample_weight=weights),
        settled(GaussianMixture(3, **settings)).fit(X),
    )
    atol = stopped(without)
    np.testing.assert_allclose(weighted.memberships_[:-1], without.memberships_, atol=atol)
    assert weighted.objective_ == pytest.approx(without.objective_)


def test_noise_takes_the_outliers():
    rng = np.random.default_rng(0)
    dirty = np.vstack([X, rng.uniform(-25, 25, size=(60, 3))])
    model = GaussianMixture(3, noise_cluster=0.05, random_state=0).fit(dirty)
    assert model.memberships_.shape == (660, 4)
    assert (model.labels_[600:] == 3).mean() > 0.8
    assert adjusted_rand_score(TRUTH, model.labels_[:600]) > 0.9
    assert model.weights_[3] == pytest.approx(60 / 660, abs=0.03)
    assert np.isfinite(model.predict_proba([[np.nan, 0.0, 1.0]])).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_frozen_parameters_stay(covariance_type):
    first = GaussianMixture(3, covariance_type=covariance_type, random_state=0, max_iter=500).fit(
        X[:300]
    )
    given = Start(first.weights_, first.means_, first.covariances_)
    for name in ("means", "covariances", "weights"):
        start = given._replace(frozen=(name,))
        model = GaussianMixture(3, covariance_type=covariance_type, init=start).fit(X[300:])
        np.testing.assert_allclose(
            getattr(model, f"{name}_"), getattr(first, f"{name}_"), rtol=1e-12
        )
    with pytest.raises(ValueError, match=r"init\.means"):
        GaussianMixture(3, init=Start(frozen=("means",))).fit(X)


def test_frozen_covariances_stay_where_features_are_nearly_the_same():
    C = np.array([[1.0, 1.0 - 1e-9], [1.0 - 1e-9, 1.0]])
    data = np.random.default_rng(0).normal(size=(200, 2)) @ np.array([[1.0, 1.0], [0.0, 1e-3]])
    frozen = ("weights", "means", "covariances")
    start = Start([0.5, 0.5], [[-1.0, -1.0], [1.0, 1.0]], [C, C], frozen)
    model = GaussianMixture(2, init=start).fit(data)
    np.testing.assert_allclose(model.covariances_, [C, C], rtol=1e-12)


@pytest.mark.parametrize("covariance_type, wrong, why", [
    ("full", np.stack([np.diag([1.0, 1.0, -1.0])] * 3), "positive definite"),
    ("full", np.stack([np.eye(3) + np.eye(3, k=1)] * 3), "symmetric"),
    ("tied", np.zeros((3, 3)), "positive definite"),
    ("diag", np.zeros((3, 3)), "positive"),
    ("spherical", [-1.0, 1.0, 1.0], "positive"),
    ("spherical", [np.nan, 1.0, 1.0], "NaN"),
])  # fmt: skip
def test_given_covariances_are_covariances(covariance_type, wrong, why):
    start = Start(covariances=wrong)
    with pytest.raises(ValueError, match=f"init.covariances must be .*{why}"):
        GaussianMixture(3, covariance_type=covariance_type, init=start).fit(X)


@pytest.mark.parametrize("setting, message", [
    ({"frozen": None}, "frozen must be a tuple"),
    ({"frozen": 5}, "frozen must be a tuple"),
    ({"frozen": ([],)}, "frozen must be a tuple"),
    ({"weights": "a"}, "init.weights must be an array of numbers"),
    ({"weights": [0.5, np.nan, 0.5]}, "init.weights must be finite, but holds NaN"),
    ({"means": np.full((3, 3), np.nan)}, "init.means must be finite, but holds NaN"),
    ({"means": np.zeros((2, 3))}, r"init.means must be an array of shape \(3, 3\)"),
])  # fmt: skip
def test_wrong_parameters_are_named(setting, message):
    for init in (Start(**setting), setting):
        with pytest.raises(ValueError, match=message):
            GaussianMixture(3, init=init).fit(X)
    with pytest.raises(TypeError, match="init must be Start"):
        GaussianMixture(3, init="kmeans").fit(X)


def test_partial_fit_comes_near_the_whole_fit():
    data, _ = ellipses(0, 3000)
    model = GaussianMixture(3, random_state=0)
    for part in np.array_split(data, 6):
        model.partial_fit(part)
    whole = GaussianMixture(3, random_state=0).fit(data)
    assert model.score(data) > whole.score(data) - 0.05


def test_search_finds_number_and_shape_and_keeps_the_table():
    rng = np.random.default_rng(0)
    data = np.vstack(
        [rng.normal(size=(100, 2)) * [1, 3], rng.normal(size=(100, 2)) * [1, 3] + [8, 0]]
    )
    model = GaussianMixture((1, 2, 3), covariance_type="auto", n_init=2, random_state=0).fit(data)
    assert model.n_clusters_ == 2
    assert model.covariance_type_ == "EEI"
    assert len(model.search_) == 42
    best = min(row.bic for row in model.search_ if np.isfinite(row.bic))
    assert model.bic(data) == pytest.approx(best)
    assert model.predict_proba(data).shape == (200, 2)
    one = GaussianMixture("auto", covariance_type="full", n_init=1, random_state=0).fit(data[:60])
    assert [row.n_clusters for row in one.search_] == list(range(1, 10))
    for row in one.search_:
        assert np.isfinite(row.bic) or "collapsed" in row.reason


def test_collapse_is_named_and_finite():
    rng = np.random.default_rng(0)
    with pytest.warns(EvidenceWarning, match="collapsed"):
        model = GaussianMixture(10, covariance_type="full", random_state=0).fit(
            rng.normal(size=(12, 3))
        )
    assert np.isfinite(model.memberships_).all()
    for data in (
        np.ones((10, 2)),
        np.column_stack([np.arange(30.0), np.arange(30.0), np.ones(30)]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvidenceWarning)
            flat = GaussianMixture(2, random_state=0).fit(data)
        np.testing.assert_allclose(flat.memberships_.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("load, k, covariance_type, least", [
    (load_wine, 3, "full", 0.9), (load_wine, 3, "tied", 0.9),
    (load_breast_cancer, 2, "full", 0.7), (load_breast_cancer, 2, "tied", 0.6),
])  # fmt: skip
@pytest.mark.filterwarnings(
    "ignore:one cluster describes"
)  # three matrices are too many for 178 wines, and BIC says so
@pytest.mark.parametrize("seed", range(3))
def test_poor_data_are_clustered_alike_whatever_the_seed_and_the_units(
    load, k, covariance_type, least, seed
):
    data, truth = load(return_X_y=True)
    model = GaussianMixture(k, covariance_type=covariance_type, random_state=seed).fit(data)
    assert adjusted_rand_score(truth, model.labels_) >= least
    other = GaussianMixture(k, covariance_type=covariance_type, random_state=seed).fit(
        data * np.logspace(-3, 3, data.shape[1])
    )
    np.testing.assert_array_equal(other.labels_, model.labels_)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_handful_of_objects_in_many_dimensions_is_no_component(covariance_type):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, 12))
    data[:150, 0] += 5
    data[-2:] += 8 * rng.normal(size=12)
    model = GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(data)
    assert 300 * model.weights_.min() >= (3 if covariance_type == "spherical" else 13) - 1e-3


def test_values_whose_squares_overflow_are_named():
    with pytest.raises(ValueError, match="overflow"):
        GaussianMixture(2).fit(np.array([[0.0], [1.0], [1e300]]))


def test_blobs_in_tiny_units_are_not_merged():
    rng = np.random.default_rng(0)
    data = np.vstack([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + 1e4]) * 1e-12
    model = GaussianMixture(2, random_state=0).fit(data)
    assert adjusted_rand_score(np.repeat([0, 1], 50), model.labels_) == 1.0
    np.testing.assert_allclose(model.covariances_[0] * 1e24, np.eye(2), atol=0.5)


def test_sparse_equals_dense_and_threads_do_not_matter(monkeypatch):
    big, _ = ellipses(0, 9000)
    one = GaussianMixture(3, random_state=0, n_init=1).fit(big)
    monkeypatch.setattr("sfumato.array.rows.cpu_count", lambda: 2)
    two = GaussianMixture(3, random_state=0, n_init=1).fit(big)
    np.testing.assert_array_equal(one.memberships_, two.memberships_)
    model = settled(GaussianMixture(3, covariance_type="full", random_state=0))
    sparse, dense = model.fit(sp.csr_array(X)).memberships_, model.fit(X).memberships_
    np.testing.assert_allclose(sparse, dense, atol=stopped(model))


def test_samples_come_from_the_mixture():
    model = GaussianMixture(3, random_state=0).fit(X)
    drawn, labels = model.sample(20_000)
    for j in range(3):
        np.testing.assert_allclose(drawn[labels == j].mean(axis=0), model.means_[j], atol=0.1)
        np.testing.assert_allclose(np.cov(drawn[labels == j].T), model.covariances_[j], atol=0.15)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_components_that_say_no_more_than_one_are_named(covariance_type):
    data = np.random.default_rng(1).normal(size=(200, 4))
    with pytest.warns(
        EvidenceWarning, match="one cluster describes these data better than 3"
    ) as said:
        model = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(data)
    assert model.structure_.n_apart == 1
    assert len(said) == 1  # the structure test has the same to say
    one = GaussianMixture(1, covariance_type=covariance_type).fit(data)
    assert model.bic(data) > one.bic(data)
    with pytest.warns(EvidenceWarning, match="one cluster describes"):
        GaussianMixture([2, 3], covariance_type=covariance_type, random_state=0, n_init=1).fit(data)
    assert (
        GaussianMixture([1, 2, 3], covariance_type=covariance_type, random_state=0, n_init=1)
        .fit(data)
        .n_clusters_
        == 1
    )


@pytest.mark.parametrize("covariance_type", TYPES)
def test_shares_for_weights_raise_no_doubt_about_clusters(covariance_type):
    shares = np.full(len(IRIS), 0.01 / len(IRIS))
    GaussianMixture(2, covariance_type=covariance_type, random_state=0, n_init=1).fit(
        IRIS, sample_weight=shares
    )


@pytest.mark.parametrize("k, covariance_type", [(3, "diag"), (3, "tied"), (2, "diag")])
def test_ordinary_clusters_raise_no_doubt(k, covariance_type):
    GaussianMixture(k, covariance_type=covariance_type, random_state=0).fit(load_wine().data)


EXPECTED = {
    "check_estimator_sparse_array": "asks whatever has predict_proba for classifier tags",
    "check_estimator_sparse_matrix": "asks whatever has predict_proba for classifier tags",
}


@pytest.mark.slow
def test_scikit_learn_accepts_the_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(
            GaussianMixture(2, random_state=0), mark="skip"
        ):
            if check.func.__name__ not in EXPECTED:
                check(estimator)


def test_holes_in_a_later_batch_are_refused_by_name():
    model = GaussianMixture(2, random_state=0, n_init=1).partial_fit(X)
    holes = X.copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="begin with a batch that has some"):
        model.partial_fit(holes)
    assert np.isfinite(
        GaussianMixture(2, random_state=0, n_init=1).partial_fit(holes).partial_fit(X).memberships_
    ).all()


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("scale, shift", [(1.0, 1e4), (100.0, 1e6)])
def test_single_precision_far_from_zero_sees_what_double_precision_sees(
    covariance_type, scale, shift
):
    single = (X * scale + shift).astype(np.float32)
    fits = [
        GaussianMixture(3, covariance_type=covariance_type, random_state=0, n_init=2).fit(data)
        for data in (single, single.astype(float))
    ]
    assert fits[0].memberships_.dtype == np.float32
    np.testing.assert_allclose(fits[0].memberships_, fits[1].memberships_, atol=2e-3)


@pytest.mark.parametrize("kind", [int, np.uint8, np.float32, bool])
@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_structure_test_does_not_depend_on_the_type_of_the_numbers(kind, covariance_type):
    whole = np.median(IRIS, axis=0) < IRIS if kind is bool else (IRIS * 10).round()
    model = GaussianMixture(2, covariance_type=covariance_type, random_state=0, n_init=2)
    expected = model.fit(whole.astype(float)).structure_
    assert expected.supported or kind is bool
    for data in (whole.astype(kind), sp.csr_array(whole.astype(kind))):
        found = model.fit(data).structure_
        assert found.supported == expected.supported
        assert found.n_apart == expected.n_apart
        np.testing.assert_allclose(found.p_value, expected.p_value, rtol=1e-2, atol=1e-12)


def test_every_family_fits_a_single_feature():
    column = np.concatenate([np.linspace(0, 1, 30), np.linspace(5, 7, 30)])[:, None]
    model = GaussianMixture(2, random_state=0, n_init=1).fit(column)
    values = {row.covariance_type: row.log_likelihood for row in model.search_}
    for name, same in (("EVE", "EII"), ("EEE", "EII"), ("VVE", "VII"), ("VVV", "VII")):
        assert values[name] == pytest.approx(values[same], rel=1e-6)


@pytest.mark.parametrize("covariance_type", ["spherical", "EII", "diag", "full", "auto"])
@pytest.mark.parametrize("size", [1e-140, 1e-100])
def test_tiny_features_beside_a_constant_one_keep_their_clusters(covariance_type, size):
    groups = np.arange(90) % 3
    X = np.random.default_rng(0).normal(size=(90, 2)) + 9.0 * np.eye(3, 2)[groups]
    tiny = np.column_stack([size * X, np.full(90, 7.0)])
    model = GaussianMixture(3, covariance_type=covariance_type, random_state=0, n_init=2)
    assert adjusted_rand_score(groups, model.fit(tiny).labels_) == 1.0
