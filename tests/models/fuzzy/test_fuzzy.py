"""FuzzyCMeans: fits, variants, and the places where others fail."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato import EvidenceWarning, FuzzyCMeans
from tolerances import settled, stopped

X, TRUTH = make_blobs(300, centers=[[0, 0, 0], [8, 0, 0], [0, 8, 8]], random_state=0)
VARIANTS = [
    {},
    {"fuzzifier": 1.05},
    {"fuzzifier": 1.5},
    {"fuzzifier": 4.0},
    {"entropy": 0.1},
    {"noise_cluster": 0.6},
    {"metric": "mahalanobis"},
    {"metric": "mahalanobis", "fuzzifier": 1.5, "noise_cluster": 1.0},
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_blobs_are_found_and_the_fit_is_a_fixed_point(variant):
    model = FuzzyCMeans(3, random_state=0, tol=1e-12, **variant).fit(X)
    assert adjusted_rand_score(TRUTH, model.labels_) == 1.0
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1, atol=1e-12)
    assert np.diff(model.history_).max() <= 1e-9 * model.history_[0]
    if "covariance_type" not in variant:
        m = 1.0 if "entropy" in variant else variant.get("fuzzifier", 2.0)
        A = model.memberships_[:, :3] ** m
        np.testing.assert_allclose(
            model.cluster_centers_, (A.T @ X) / A.sum(axis=0)[:, None], atol=1e-5
        )


def test_objective_is_the_printed_one_in_the_units_of_the_data():
    for m in (1.7, 2.0):
        model = FuzzyCMeans(3, fuzzifier=m, random_state=0).fit(100 * X)
        D = ((100 * X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
        assert model.objective_ == pytest.approx((model.memberships_**m * D).sum())
        assert model.score(100 * X) == pytest.approx(-model.objective_ / len(X))


def test_temperature_is_relative_to_the_variance():
    model = FuzzyCMeans(3, entropy=0.2, random_state=0).fit(X)
    D = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    logits = -D / (0.2 * X.var(axis=0).sum())
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        model.memberships_, expected / expected.sum(axis=1, keepdims=True), atol=1e-10
    )


def test_noise_takes_the_outliers_and_leaves_the_centers():
    rng = np.random.default_rng(0)
    dirty = np.vstack([X, rng.uniform(-60, 60, size=(30, 3))])
    model = FuzzyCMeans(3, noise_cluster=0.3, random_state=0).fit(dirty)
    assert model.memberships_.shape == (330, 4)
    assert (model.labels_[300:] == 3).mean() > 0.8
    assert (model.labels_[:300] == 3).mean() < 0.05


def test_ellipsoids_are_found_where_round_clusters_are_cut():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 200)
    S = np.column_stack([rng.normal(size=400) * 6, 4.0 * truth + 0.4 * rng.normal(size=400)])
    assert adjusted_rand_score(truth, FuzzyCMeans(2, random_state=0).fit(S).labels_) < 0.5
    assert (
        adjusted_rand_score(
            truth, FuzzyCMeans(2, metric="mahalanobis", random_state=0).fit(S).labels_
        )
        > 0.95
    )


def test_sparse_equals_dense_without_a_dense_copy():
    rng = np.random.default_rng(0)
    S = sp.random_array((200, 50), density=0.1, rng=rng).toarray()
    S[:100, :5] = 3.0
    S = sp.csr_array(S)
    model = settled(FuzzyCMeans(2, fuzzifier=1.5, random_state=0)).fit(S)
    dense = settled(FuzzyCMeans(2, fuzzifier=1.5, random_state=0)).fit(S.toarray())
    np.testing.assert_allclose(model.memberships_, dense.memberships_, atol=stopped(model))
    np.testing.assert_allclose(model.predict_proba(S[:7]), model.memberships_[:7], atol=1e-10)
    wide = sp.random_array((100, 50_000), density=4e-4, rng=rng, format="csr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        assert np.isfinite(
            FuzzyCMeans(2, n_init=1, max_iter=5, tol=1.0, random_state=0).fit(wide).memberships_
        ).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_weight_equals_copies(variant):
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    weighted, copied = (settled(FuzzyCMeans(3, random_state=0, **variant)) for _ in range(2))
    weighted.fit(X, sample_weight=weights)
    copied.fit(np.repeat(X, weights, axis=0))
    atol = stopped(copied)
    np.testing.assert_allclose(weighted.cluster_centers_, copied.cluster_centers_, atol=atol)
    np.testing.assert_allclose(
        np.repeat(weighted.memberships_, weights, axis=0), copied.memberships_, atol=atol
    )


@pytest.mark.parametrize("scale, shift", [(1e-12, 0.0), (1e12, 0.0), (1.0, 1e4), (1e3, 1e6)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_units_and_offsets_do_not_matter(scale, shift, dtype):
    reference = FuzzyCMeans(3, random_state=0).fit(X).memberships_
    moved = FuzzyCMeans(3, random_state=0).fit((X * scale + shift).astype(dtype)).memberships_
    assert moved.dtype == dtype
    np.testing.assert_allclose(moved, reference, atol=1e-8 if dtype == np.float64 else 2e-3)


@pytest.mark.parametrize("metric", ["euclidean", "mahalanobis", "gaussian"])
@pytest.mark.parametrize("noise", [None, 2.0])
def test_clusters_come_by_size_whatever_the_order_of_the_objects(metric, noise):
    rng = np.random.default_rng(0)
    sizes = np.repeat([0, 1, 2], [20, 50, 50])
    points = rng.normal(size=(120, 2)) + 9.0 * np.array([[0, 0], [1, 0], [0, 1]])[sizes]
    shuffle = rng.permutation(120)
    model, again = (
        FuzzyCMeans(3, metric=metric, noise_cluster=noise, random_state=0).fit(points[rows])
        for rows in (np.arange(120), shuffle)
    )
    assert (np.diff(model.memberships_.sum(axis=0)[:3]) <= 1e-6 * 120).all()
    np.testing.assert_allclose(again.memberships_, model.memberships_[shuffle], atol=1e-4)


def test_one_of_several_numbers_is_chosen():
    model = FuzzyCMeans((2, 4), random_state=0).fit(X)
    assert model.n_clusters_ in (2, 4)
    assert [row.n_clusters for row in model.selection_.table if row.n_clusters > 1] == [2, 4]


def test_a_mapped_file_is_read_where_it_is(tmp_path):
    mapped = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    mapped = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=X.shape)
    model = FuzzyCMeans(3, random_state=0)
    model._check_parameters()
    rows = model._prepare(mapped, None)
    assert np.shares_memory(rows.X, mapped)
    np.testing.assert_allclose(
        model.fit(mapped).memberships_,
        FuzzyCMeans(3, random_state=0).fit(X).memberships_,
        atol=1e-12,
    )


def test_many_objects_are_screened_on_a_sample():
    rng = np.random.default_rng(0)
    big = np.vstack([rng.normal(size=(10_000, 2)) + c for c in ([0, 0], [9, 0], [0, 9])])
    model = FuzzyCMeans(3, random_state=0).fit(big)
    assert adjusted_rand_score(np.repeat([0, 1, 2], 10_000), model.labels_) > 0.999


def test_partial_fit_comes_near_the_whole_fit():
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    model = FuzzyCMeans(3, random_state=0)
    for part in np.array_split(order, 6):
        model.partial_fit(X[part])
    whole = FuzzyCMeans(3, random_state=0).fit(X)
    by_size = (
        np.argsort(model.cluster_centers_.sum(axis=1)),
        np.argsort(whole.cluster_centers_.sum(axis=1)),
    )
    np.testing.assert_allclose(
        model.cluster_centers_[by_size[0]], whole.cluster_centers_[by_size[1]], atol=0.3
    )
    assert len(model.memberships_) == len(X) // 6
    model.fit(X)
    np.testing.assert_allclose(model.cluster_centers_, whole.cluster_centers_)


def test_entropy_is_named_where_it_is_used():
    with pytest.warns(EvidenceWarning, match="entropy=100 is too large"):
        FuzzyCMeans(3, entropy=100.0, random_state=0).fit(
            np.random.default_rng(0).normal(size=(60, 2))
        )


def test_structureless_evidence_is_named():
    with pytest.warns(EvidenceWarning, match="coincide"):
        same = FuzzyCMeans(3, random_state=0).fit(np.ones((20, 2)))
    np.testing.assert_allclose(same.memberships_, 1 / 3)
    with pytest.warns(EvidenceWarning, match="fuzzifier=30"):
        vague = FuzzyCMeans(3, fuzzifier=30.0, random_state=0, tol=1e-12, max_iter=2000).fit(
            np.random.default_rng(0).normal(size=(200, 10))
        )
    assert vague.memberships_.max() < 0.5


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize("fuzzifier", [30.0, 100.0])
@pytest.mark.parametrize("noise", [None, 0.5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_fuzzifiers_make_memberships_equal(fuzzifier, noise, dtype):
    model = FuzzyCMeans(3, fuzzifier=fuzzifier, noise_cluster=noise, random_state=0).fit(
        X.astype(dtype)
    )
    D = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    if noise is not None:
        D = np.hstack([D, np.full((len(X), 1), noise**2 * X.var(axis=0).sum())])
    U = D ** (-1.0 / (fuzzifier - 1.0))
    expected = U / U.sum(axis=1, keepdims=True)
    apart = D.min(axis=1) > 1e-4  # a center may sit on an object, where rounding decides
    atol = 1e-5 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(model.memberships_[apart], expected[apart], atol=atol)
    assert np.isfinite(model.history_).all()
    assert np.isfinite(model.objective_)
    assert np.isfinite(model.partial_fit(X.astype(dtype)).predict_proba(X)).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({"noise_cluster": 1e300}, "noise_cluster must lie in"),
        ({"entropy": 1e308}, "entropy must lie in"),
        ({"fuzzifier": 0.9}, "fuzzifier"),
        ({"fuzzifier": np.inf}, "fuzzifier"),
        ({"fuzzifier": 101.0}, "fuzzifier"),
        ({"noise_cluster": -1.0}, "noise_cluster"),
        ({"entropy": 0.0}, "entropy"),
        ({"n_clusters": 301}, "n_clusters"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        FuzzyCMeans(**params).fit(X)


def test_missing_values_are_refused_by_ellipsoids():
    with pytest.raises(ValueError, match="needs complete features"):
        FuzzyCMeans(2, metric="mahalanobis").fit(np.array([[0.0], [np.nan], [1.0]]))


EXPECTED = {
    "check_estimator_sparse_array": "asks whatever has predict_proba for classifier tags",
    "check_estimator_sparse_matrix": "asks whatever has predict_proba for classifier tags",
}


@pytest.mark.slow
def test_scikit_learn_accepts_the_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(
            FuzzyCMeans(2, random_state=0), mark="skip"
        ):
            if check.func.__name__ not in EXPECTED:
                check(estimator)


@pytest.mark.filterwarnings("ignore:.*coincide", "ignore:.*did not converge")
def test_ellipsoids_that_shrink_to_points_keep_memberships_on_the_simplex():
    two = np.array([[6.1, 5.9, 6.6], [6.1, 5.5, 6.4]])
    for seed in range(5):
        U = (
            FuzzyCMeans(3, metric="mahalanobis", random_state=seed)
            .fit(np.repeat(two, 20, axis=0))
            .memberships_
        )
        assert U.min() >= 0
        np.testing.assert_allclose(U.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("scale, shift", [(1.0, 1e4), (100.0, 1e6)])
def test_single_precision_far_from_zero_sees_what_double_precision_sees(scale, shift):
    single = (X * scale + shift).astype(np.float32)
    fits = [FuzzyCMeans(3, random_state=0).fit(data) for data in (single, single.astype(float))]
    assert fits[0].memberships_.dtype == np.float32
    np.testing.assert_allclose(fits[0].memberships_, fits[1].memberships_, atol=1e-4)


def test_many_ellipsoids_on_few_objects_end_without_an_error():
    for seed in (7, 15, 23):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 3))
        X[10:] += 6
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = FuzzyCMeans(12, metric="mahalanobis", random_state=seed).fit(X)
        assert np.isfinite(model.memberships_).all()


def test_ellipsoids_take_sparse_features():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[20:] += 8
    dense, sparse = (
        FuzzyCMeans(2, metric="mahalanobis", random_state=0).fit(form).memberships_
        for form in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        empty = FuzzyCMeans(2, metric="mahalanobis").fit(sp.csr_array((20, 8)))
    np.testing.assert_allclose(empty.memberships_.sum(axis=1), 1)


def lloyd(X, centers, weights):
    """Plain k-means from given centers until nothing changes."""
    while True:
        labels = np.square(X[:, None] - centers).sum(axis=2).argmin(axis=1)
        moved = np.stack(
            [np.average(X[labels == j], axis=0, weights=weights[labels == j]) for j in range(3)]
        )
        if (moved == centers).all():
            return centers, labels
        centers = moved


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])
def test_a_fuzzifier_of_one_is_k_means(form, rng):
    X = make_blobs(120, centers=[[0, 0], [3, 0], [1, 2]], random_state=3)[0]
    weights = rng.uniform(0.5, 2.0, len(X))
    start = X[[0, 1, 2]]
    centers, labels = lloyd(X, start, weights)
    model = FuzzyCMeans(3, fuzzifier=1, init=start).fit(form(X), sample_weight=weights)
    order = np.argsort(-np.bincount(labels, weights))  # the largest cluster first
    np.testing.assert_allclose(model.cluster_centers_, centers[order], rtol=1e-5)
    np.testing.assert_array_equal(model.memberships_, np.eye(3)[np.argsort(order)[labels]])
    peer = KMeans(3, init=start, n_init=1, tol=0.0).fit(X, sample_weight=weights)
    assert model.objective_ == pytest.approx(peer.inertia_, rel=1e-5)
    assert (np.diff(model.history_) <= 1e-9 * model.history_[0]).all()
    np.testing.assert_array_equal(model.predict(form(X)), model.labels_)


@pytest.mark.parametrize("metric", ["gaussian", "mahalanobis"])
def test_a_fuzzifier_of_one_is_hard_in_every_metric(metric):
    X = make_blobs(90, centers=[[0, 9], [9, 0], [9, 9]], random_state=0)[0]
    U = FuzzyCMeans(3, fuzzifier=1.0, metric=metric, random_state=0).fit(X).memberships_
    assert set(np.unique(U)) == {0.0, 1.0}


def test_a_chosen_number_keeps_names_and_refuses_masks():
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    model = FuzzyCMeans("auto", max_clusters=4, random_state=0).fit(table)
    assert list(model.feature_names_in_) == list(table.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(table[table.columns[::-1]])
    with pytest.raises(ValueError, match="mask"):
        FuzzyCMeans("auto", random_state=0).fit(np.ma.masked_array(X, X > 1))
