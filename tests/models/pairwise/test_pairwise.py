"""PairwiseProbabilisticClustering: published values, odd similarities, new objects."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato import EvidenceWarning, MemoryBudgetError, PairwiseProbabilisticClustering
from sfumato.metrics import matched_accuracy
from sfumato.similarity import knn
from tolerances import settled, stopped


def precomputed(k, **parameters):
    return PairwiseProbabilisticClustering(
        k, similarity="precomputed", **{"random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def iris():
    X = load_iris().data
    return np.exp(-cdist(X, X, "sqeuclidean") / (2 * 0.5**2))


@pytest.mark.parametrize("seed", range(10))
def test_iris_objective(iris, seed):
    model = precomputed(3, diagonal="include", random_state=seed).fit(iris)
    assert model.objective_ == pytest.approx(557.764, abs=1e-3)
    assert model.lower_bound_ <= model.objective_
    assert 0 <= model.gap_ < 1
    assert model.kkt_residual_ < 1e-3


def test_the_published_rule_finds_the_same_minimum(iris):
    model = precomputed(3, diagonal="include", solver="baum-eagon", max_iter=20_000, tol=1e-10).fit(
        iris
    )
    assert model.objective_ == pytest.approx(557.764, abs=1e-3)


@pytest.mark.slow
def test_digits_objective_and_accuracy():
    X, y = load_digits(return_X_y=True)
    X, y = X[:1000], y[:1000]
    D = cdist(X, X, "sqeuclidean")
    model = precomputed(10, diagonal="include", n_init=10).fit(np.exp(-D / np.quantile(D, 0.01)))
    assert model.objective_ <= 2161.43
    assert matched_accuracy(y, model.labels_) == pytest.approx(0.80, abs=0.02)


@pytest.mark.slow
def test_ten_thousand_published_iterations_stay_on_the_simplex(iris):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = precomputed(
            3, diagonal="include", solver="baum-eagon", max_iter=10_000, tol=0, n_init=1
        ).fit(iris)
    assert np.abs(model.memberships_.sum(axis=1) - 1).max() < 1e-12
    assert np.diff(model.history_).max() <= 1e-9


def test_the_lower_bound_is_the_tail_of_the_spectrum(iris):
    values = np.linalg.eigvalsh(iris)
    expected = np.square(values).sum() - np.square(values[-3:]).sum()
    assert precomputed(3, diagonal="include").fit(iris).lower_bound_ == pytest.approx(
        expected, rel=1e-6
    )


def test_features_through_the_cluster_kernel():
    X, y = make_moons(500, noise=0.05, random_state=0)
    model = PairwiseProbabilisticClustering(2, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    new, truth = make_moons(100, noise=0.05, random_state=1)
    assert adjusted_rand_score(truth, model.predict(new)) > 0.9


@pytest.mark.parametrize("function", [partial(knn, n_neighbors=15), partial(rbf_kernel, gamma=1.0)])
def test_any_function_is_a_similarity(blobs, function):
    X, y = blobs
    model = PairwiseProbabilisticClustering(3, similarity=function, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_new_objects_by_brute_force(iris):
    model = precomputed(3).fit(iris)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    grid = grid[grid.sum(axis=1) <= 1]
    simplex_points = np.column_stack([grid, 1 - grid.sum(axis=1)])
    for row, u in zip(iris[:5], model.predict_proba(iris[:5]), strict=True):
        errors = np.square(row[None, :] - model.scale_ * simplex_points @ model.memberships_.T).sum(
            axis=1
        )
        assert np.square(row - model.scale_ * model.memberships_ @ u).sum() <= errors.min() + 1e-9


def test_a_given_start_is_used(iris):
    truth = np.eye(3)[load_iris().target]
    model = precomputed(3, init=truth * 0.9 + 0.1 / 3, max_iter=1000).fit(iris)
    assert matched_accuracy(truth.argmax(axis=1), model.labels_) > 0.85
    with pytest.raises(ValueError, match="init"):
        precomputed(3, init=truth[:, :2]).fit(iris)
    with pytest.raises(ValueError, match="init"):
        precomputed(3, init=-truth).fit(iris)


def test_a_fixed_scale_is_kept(iris):
    assert precomputed(3, scale=1.0).fit(iris).scale_ == 1.0
    with pytest.raises(ValueError, match="scale"):
        precomputed(3, scale=0.0).fit(iris)


def test_asymmetric_similarities_are_averaged(iris, rng):
    lopsided = iris * (1 + 0.1 * rng.random(iris.shape))
    with pytest.warns(EvidenceWarning, match="not symmetric"):
        model = precomputed(3).fit(lopsided)
    np.testing.assert_allclose(
        model.memberships_, precomputed(3).fit((lopsided + lopsided.T) / 2).memberships_, atol=1e-3
    )
    with pytest.warns(EvidenceWarning, match="not symmetric"):
        precomputed(3).fit(sp.csr_array(lopsided))


def test_distances_are_questioned():
    D = cdist(load_iris().data[::3], load_iris().data[::3]) + 0.01
    np.fill_diagonal(D, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        precomputed(3).fit(D)
    assert any("looks like distances" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_impossible_similarities_are_refused(iris, kind):
    for change, message in ((-1.0, "negative"), (np.inf, "NaN or infinity")):
        W = iris.copy()
        W[0, 1] = W[1, 0] = change
        with pytest.raises(ValueError, match=message):
            precomputed(3, solver="baum-eagon").fit(kind(W))
    with pytest.raises(ValueError, match="negative"):
        precomputed(3).fit(kind(-iris))
    with pytest.raises(ValueError, match="square"):
        precomputed(3).fit(kind(iris[:, :9]))
    with pytest.raises(ValueError, match="zero everywhere"):
        precomputed(3).fit(kind(np.zeros((9, 9))))


def test_masked_and_complex_and_text(iris):
    with pytest.raises(ValueError, match="mask"):
        precomputed(3).fit(np.ma.masked_greater(iris, 0.9))
    with pytest.raises(ValueError, match="complex"):
        precomputed(3).fit(iris.astype(complex))
    with pytest.raises(TypeError, match="numbers"):
        precomputed(3).fit(np.array([["a", "b"], ["b", "a"]]))


@pytest.mark.parametrize("diagonal", ["exclude", "include"])
@pytest.mark.parametrize("W", [np.eye(60), np.ones((60, 60))], ids=["identity", "constant"])
def test_structureless_similarities_are_named(W, diagonal):
    with pytest.warns(EvidenceWarning):
        model = precomputed(3, diagonal=diagonal).fit(W)
    assert np.isfinite(model.memberships_).all()


def test_noise_gives_vague_memberships(rng):
    W = rng.random((150, 150))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        model = precomputed(3).fit((W + W.T) / 2)
    assert model.memberships_.max(axis=1).mean() < 0.6


def test_an_object_like_nothing_else_is_not_placed(iris):
    W = iris.copy()
    W[7] = W[:, 7] = 0
    with pytest.warns(EvidenceWarning, match="similar to no other"):
        model = precomputed(3).fit(W)
    np.testing.assert_allclose(model.memberships_[7], 1 / 3)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 150))), 1 / 3)


def test_disconnected_blocks_are_found():
    W = sp.csr_array(np.kron(np.eye(4), np.ones((10, 10))))
    model = precomputed(4).fit(W)
    np.testing.assert_allclose(model.memberships_.max(axis=1), 1, atol=1e-3)
    assert len(set(model.labels_.tolist())) == 4


def test_as_many_clusters_as_objects_and_one(iris):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = precomputed(9).fit(iris[:9, :9])
    np.testing.assert_allclose(model.memberships_.sum(axis=1), 1)
    np.testing.assert_allclose(precomputed(1).fit(iris).memberships_, 1)


def test_an_operator_equals_its_matrix(iris):
    explicit, operator = (
        precomputed(3, tol=1e-10, max_iter=3000).fit(W) for W in (iris, aslinearoperator(iris))
    )
    assert operator.objective_ == pytest.approx(explicit.objective_, rel=1e-6)
    np.testing.assert_allclose(operator.memberships_, explicit.memberships_, atol=1e-2)


def test_a_dense_similarity_that_would_not_fit_is_refused_before_it_is_made(monkeypatch, rng):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1e6")
    with pytest.raises(MemoryBudgetError, match="cluster-kernel"):
        PairwiseProbabilisticClustering(2, similarity="gaussian").fit(rng.normal(size=(1000, 2)))


def test_unknown_similarities_are_named(blobs):
    with pytest.raises(ValueError, match="similarity must be a function or one of"):
        PairwiseProbabilisticClustering(2, similarity="cosinus").fit(blobs[0])
    with pytest.raises(TypeError, match=r"similarity must accept new and known"):
        PairwiseProbabilisticClustering(3, similarity=lambda X: rbf_kernel(X), random_state=0).fit(
            blobs[0]
        ).predict(blobs[0])


def test_inside_a_pipeline_and_on_data_frames(blobs):
    pandas = pytest.importorskip("pandas")
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), PairwiseProbabilisticClustering(3, random_state=0))
    assert adjusted_rand_score(y, pipeline.fit_predict(X)) == 1
    model = PairwiseProbabilisticClustering(3, random_state=0).fit(
        pandas.DataFrame(X, columns=["a", "b"])
    )
    assert list(model.feature_names_in_) == ["a", "b"]
    assert list(model.get_feature_names_out()) == [
        f"pairwiseprobabilisticclustering{i}" for i in range(3)
    ]


def test_numbers_whose_squares_are_not_numbers_are_refused(iris, blobs):
    for scale, message in ((1e160, "overflow"), (1e-170, "underflow")):
        with pytest.raises(ValueError, match=f"X .*{message}"):
            PairwiseProbabilisticClustering(3).fit(blobs[0] * scale)
        for form in (np.asarray, sp.csr_array):
            with pytest.raises(ValueError, match=f"W .*{message}"):
                precomputed(3).fit(form(iris * scale))


def test_scaling_w_changes_not_a_bit_more_than_rounding(iris):
    model = settled(precomputed(3))
    reference = model.fit(iris).memberships_
    for scale in (1e-12, 3.0, 1e12):
        found = model.fit(iris * scale).memberships_
        np.testing.assert_allclose(found, reference, atol=stopped(model))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_rows_of_every_kind_place_new_objects(iris):
    model = precomputed(3).fit(iris)
    expected = model.predict_proba(iris[:4])
    for kind in (
        sp.csr_matrix,
        sp.lil_array,
        sp.dok_array,
        sp.coo_array,
        np.matrix,
        np.ma.array,
        lambda rows: rows.tolist(),
    ):
        np.testing.assert_allclose(model.predict_proba(kind(iris[:4])), expected, atol=1e-9)
    np.testing.assert_allclose(
        precomputed(3).fit(np.matrix(iris)).memberships_, model.memberships_, atol=1e-6
    )


def test_similarity_frames_with_columns_in_another_order_are_refused(iris):
    pandas = pytest.importorskip("pandas")
    names = [f"flower {i}" for i in range(len(iris))]
    model = precomputed(3).fit(pandas.DataFrame(iris, columns=names))
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(pandas.DataFrame(iris[:, ::-1], columns=names[::-1]))


def test_sparse_objects_beside_dense_ones_and_the_other_way_round(blobs):
    X = blobs[0]
    dense = PairwiseProbabilisticClustering(3, random_state=0).fit(X)
    np.testing.assert_allclose(
        dense.predict_proba(sp.csr_matrix(X[:4])), dense.predict_proba(X[:4]), atol=1e-9
    )
    sparse = PairwiseProbabilisticClustering(3, random_state=0).fit(sp.csr_array(X))
    np.testing.assert_allclose(
        sparse.predict_proba(X[:4]), sparse.predict_proba(sp.csr_array(X[:4])), atol=1e-9
    )


def test_a_start_that_leads_nowhere_is_refused(iris):
    with pytest.raises(ValueError, match="same memberships"):
        precomputed(3, init=np.ones((150, 3))).fit(iris)
    with pytest.raises(TypeError, match="init"):
        precomputed(3, init="random").fit(iris)


def test_the_score_is_the_share_of_new_similarities_explained(iris):
    model = precomputed(3).fit(iris)
    U = model.predict_proba(iris[:9])
    error = np.square(iris[:9] - model.scale_ * U @ model.memberships_.T).sum()
    assert model.score(iris[:9]) == pytest.approx(1 - error / np.square(iris[:9]).sum())
    assert model.score(sp.csr_array(iris[:9])) == pytest.approx(model.score(iris[:9]))
