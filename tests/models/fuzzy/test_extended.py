"""Fuzzy c-means with kernels, missing values and links."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons

from sfumato import FuzzyCMeans
from sfumato import memberships as ms
from sfumato.metrics import adjusted_rand_index
from sfumato.models.fuzzy import kernel


def linear_kernel(A, B):
    return A @ B.T


def some_pairs(y, n, seed):
    pairs = np.random.default_rng(seed).integers(0, len(y), (n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def test_na_of_nullable_columns_is_missing(rng):
    pd = pytest.importorskip("pandas")
    X = rng.normal(size=(40, 3)) + 5.0 * (np.arange(40) % 2)[:, None]
    X[::7, 1] = np.nan
    table = pd.DataFrame(X).convert_dtypes()
    model = FuzzyCMeans(2, random_state=0).fit(table)
    expected = FuzzyCMeans(2, random_state=0).fit(X).memberships_
    np.testing.assert_allclose(model.memberships_, expected)
    np.testing.assert_allclose(model.predict_proba(table), expected)


def test_partial_distances_and_their_centers(rng):
    X, C = rng.normal(size=(9, 4)), rng.normal(size=(3, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    Z, rule = kernel.features(X.T, "partial"), kernel.Rule(2.0)

    def distances(centers):
        return kernel.ready(kernel.State(centers), rule, "partial").rows @ Z

    for i, x in enumerate(X):
        there = ~np.isnan(x)
        expected = 4 / max(there.sum(), 1) * ((x - C)[:, there] ** 2).sum(axis=1)
        np.testing.assert_allclose(distances(C)[:, i], expected, atol=1e-12)
    A = rng.random((3, 9))
    centers = kernel.update(kernel.Stats(A @ Z.T, 0.0), kernel.State(C), "partial").centers
    for step in (1e-4, -1e-4):  # the centers are a minimum of the weighted distances
        for at in np.ndindex(3, 4):
            moved = centers.copy()
            moved[at] += step
            assert (A * distances(centers)).sum() <= (A * distances(moved)).sum() + 1e-12


def test_a_linear_kernel_is_the_plain_model(blobs):
    X, _ = blobs
    X = X - X.mean(axis=0)
    plain = FuzzyCMeans(3, tol=1e-12, random_state=0).fit(X)
    kernel = FuzzyCMeans(3, metric=linear_kernel, tol=1e-12, random_state=0).fit(X)
    U = ms.align(kernel.memberships_, plain.memberships_)
    np.testing.assert_allclose(U, plain.memberships_, atol=1e-4)
    assert kernel.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    new = ms.align(kernel.predict_proba(X), plain.memberships_)
    np.testing.assert_allclose(new, plain.memberships_, atol=1e-4)


def test_kernels_weigh_copies_and_place_new_objects(blobs):
    def kernel(A, B):
        return np.exp(-np.square(A[:, None] - B[None]).sum(axis=2) / 50)

    X, y = blobs
    counts = np.random.default_rng(0).integers(1, 3, len(X))
    rows = np.repeat(np.arange(len(X)), counts)
    settings = {"metric": kernel, "tol": 1e-13, "max_iter": 2000, "init": X[[0, 40, 80]]}
    model = FuzzyCMeans(3, **settings).fit(X, sample_weight=counts)
    copied = FuzzyCMeans(3, **settings).fit(X[rows])
    first = np.cumsum(counts) - counts
    np.testing.assert_allclose(
        ms.align(model.memberships_, copied.memberships_[first]),
        copied.memberships_[first],
        atol=1e-6,
    )
    np.testing.assert_allclose(model.predict_proba(X), model.memberships_, atol=1e-6)
    assert np.diff(model.history_).max(initial=0) <= 1e-9 * model.history_[0]
    assert adjusted_rand_index(y, model.labels_) > 0.9


def test_missing_values_cost_little(blobs):
    X, y = blobs
    X = np.hstack([X, X @ [[0.6, -0.8], [0.8, 0.6]]])
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    gaps[3] = X[3]
    model = FuzzyCMeans(3, random_state=0).fit(gaps)
    assert adjusted_rand_index(y, model.labels_) > 0.9
    assert np.isfinite(model.cluster_centers_).all()
    assert np.diff(model.history_).max(initial=0) <= 1e-9 * model.history_[0]
    np.testing.assert_allclose(model.predict_proba(gaps), model.memberships_, atol=1e-3)
    whole = FuzzyCMeans(3, random_state=0).fit(X)
    assert (
        np.abs(ms.align(model.memberships_, whole.memberships_) - whole.memberships_).mean() < 0.1
    )


def test_missing_values_may_come_in_files_and_batches(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4500, 3)) + 8 * np.eye(3)[rng.integers(3, size=4500)]
    X[rng.random(X.shape) < 0.1] = np.nan
    np.save(tmp_path / "X.npy", X)
    model = FuzzyCMeans(3, random_state=0).fit(X)
    mapped = FuzzyCMeans(3, random_state=0).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    np.testing.assert_allclose(mapped.memberships_, model.memberships_, atol=1e-3)
    batches = FuzzyCMeans(3, random_state=0)
    for start in range(0, 4500, 1500):
        batches.partial_fit(X[start : start + 1500])
    assert adjusted_rand_index(batches.predict(X), model.labels_) > 0.95
    single = FuzzyCMeans(3, random_state=0).fit(X.astype(np.float32))
    assert single.memberships_.dtype == np.float32
    with pytest.raises(ValueError, match="NaN"):
        FuzzyCMeans(3, random_state=0).partial_fit(np.nan_to_num(X)).partial_fit(X)


def test_rows_without_gaps_are_fitted_as_if_alone():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 8])
    empty = np.vstack([X, [[np.nan, np.nan]]])
    model = FuzzyCMeans(2, init=X[[0, 59]], tol=1e-12).fit(empty)
    alone = FuzzyCMeans(2, init=X[[0, 59]], tol=1e-12).fit(X)
    np.testing.assert_allclose(model.memberships_[:-1], alone.memberships_, atol=1e-5)
    np.testing.assert_allclose(model.memberships_[-1], 0.5)


def test_given_centers_are_where_the_fit_begins(blobs):
    X, _ = blobs
    reached = FuzzyCMeans(3, tol=1e-12, random_state=0).fit(X)
    again = FuzzyCMeans(3, init=reached.cluster_centers_, tol=1e-9).fit(X)
    assert again.n_iter_ <= 4
    np.testing.assert_allclose(again.memberships_, reached.memberships_, atol=1e-5)
    with pytest.raises(ValueError, match="init"):
        FuzzyCMeans(3, init=X[:2]).fit(X)


def test_constraints_are_honoured_and_help():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 2)) * [1.0, 3.0] + np.where(y, 1.3, -1.3)[:, None] * [1.0, 0.0]
    must, cannot = some_pairs(y, 80, 1)
    blind = FuzzyCMeans(2, random_state=0).fit(X)
    told = FuzzyCMeans(2, random_state=0).fit(X, must_link=must, cannot_link=cannot)
    U, labels = told.memberships_, told.labels_
    np.testing.assert_allclose(U[must[:, 0]], U[must[:, 1]], atol=1e-12)
    assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
    assert adjusted_rand_index(y, labels) > adjusted_rand_index(y, blind.labels_) + 0.1


def test_constraints_help_on_moons_and_digits():
    digits = load_digits()
    chosen = np.flatnonzero(np.isin(digits.target, [3, 8]))[:200]
    moons = make_moons(200, noise=0.1, random_state=0)
    for X, y in (moons, (digits.data[chosen], digits.target[chosen])):
        must, cannot = some_pairs(y, 100, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            blind = FuzzyCMeans(2, fuzzifier=1.3, random_state=0).fit(X)
            told = FuzzyCMeans(2, fuzzifier=1.3, random_state=0).fit(
                X, must_link=must, cannot_link=cannot
            )
        labels = told.labels_
        assert (labels[cannot[:, 0]] != labels[cannot[:, 1]]).all()
        assert adjusted_rand_index(y, labels) > adjusted_rand_index(y, blind.labels_)


def test_labelled_objects_keep_their_cluster(blobs):
    X, truth = blobs
    y = np.full(90, -1)
    y[[5, 40, 41, 80]] = [2, 0, 0, 1]
    model = FuzzyCMeans(3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.labels_[[5, 40, 41, 80]], [2, 0, 0, 1])
    np.testing.assert_allclose(model.memberships_[[5, 40]].max(axis=1), 1)
    np.testing.assert_array_equal(model.labels_, np.array([2, 0, 1])[truth])


@pytest.mark.parametrize(
    "settings", [{}, {"fuzzifier": 1.5}, {"noise_cluster": 1.0}, {"entropy": 0.2}]
)
def test_linked_rows_pull_the_centers_as_much_as_free_ones(settings, blobs):
    X, y = blobs
    together, apart = some_pairs(y, 30, 0)
    weights = np.random.default_rng(1).random(len(X)) + 0.5
    model = FuzzyCMeans(3, tol=1e-13, max_iter=2000, random_state=0, **settings)
    model.fit(X, sample_weight=weights, must_link=together, cannot_link=apart)
    U = model.memberships_[:, :3] ** (model.fuzzifier_ or 1.0) * weights[:, None]
    np.testing.assert_allclose(
        model.cluster_centers_, (U.T @ X) / U.sum(axis=0)[:, None], rtol=1e-4, atol=1e-4
    )
    assert np.diff(model.history_).max(initial=0) <= 1e-9 * model.history_[0]


def test_what_does_not_go_together_is_named(blobs):
    X, _ = blobs
    with pytest.raises(ValueError, match="rows 0 and 1"):
        FuzzyCMeans(3).fit(X, must_link=[[0, 1]], cannot_link=[[0, 1]])
    with pytest.raises(ValueError, match="takes no links"):
        FuzzyCMeans(3, metric="mahalanobis").fit(X, must_link=[[0, 1]])
    with pytest.raises(ValueError, match="partial_fit"):
        FuzzyCMeans(3, metric="gaussian").partial_fit(X)
    with pytest.raises(ValueError, match="metric"):
        FuzzyCMeans(3, metric="chebyshev").fit(X)


def test_new_objects_may_have_gaps_where_the_fitted_had_none(blobs):
    X, _ = blobs
    model = FuzzyCMeans(3, random_state=0).fit(X)
    near = model.predict_proba([[X[0, 0], np.nan], X[1]])
    np.testing.assert_allclose(near[1], model.predict_proba(X[1:2])[0], atol=1e-9)
    d = (X[0, 0] - model.cluster_centers_[:, 0]) ** 2
    np.testing.assert_allclose(near[0], (1 / d) / (1 / d).sum(), atol=1e-9)
    assert model.score(np.vstack([X, [[np.nan, 0.0]]])) < 0


def test_the_gaussian_metric_is_a_kernel_as_wide_as_the_data(rng):
    X = rng.normal(size=(60, 3)) + np.repeat([[0, 0, 0], [4, 0, 0], [0, 4, 0]], 20, axis=0)
    bandwidth = (X.var(axis=0).sum() / 2) ** 0.5

    def kernel(A, B):
        squares = ((np.asarray(A)[:, None] - np.asarray(B)) ** 2).sum(axis=2)
        return np.exp(-squares / (2 * bandwidth**2))

    named, given = (
        FuzzyCMeans(3, metric=metric, random_state=0).fit(X) for metric in ("gaussian", kernel)
    )
    np.testing.assert_allclose(named.memberships_, given.memberships_, atol=1e-6)
    np.testing.assert_allclose(
        named.predict_proba(X[:5] + 0.1), given.predict_proba(X[:5] + 0.1), atol=1e-6
    )
    assert named.score(X) == pytest.approx(given.score(X), rel=1e-6)
    assert adjusted_rand_index(np.repeat([0, 1, 2], 20), named.labels_) > 0.9


def test_the_noise_cluster_stays_as_far_away_with_missing_values(blobs):
    X, _ = blobs
    X = np.vstack([X, np.full(X.shape[1], 60.0)])
    whole = FuzzyCMeans(3, noise=0.5, random_state=0).fit(X)
    X[7, 1] = np.nan
    some = FuzzyCMeans(3, noise=0.5, random_state=0).fit(X)
    assert some.memberships_[-1, -1] > 0.9
    np.testing.assert_allclose(some.memberships_[8:, -1], whole.memberships_[8:, -1], atol=0.05)
