"""From features to similarities."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import cosine_similarity

from sfumato import EvidenceWarning
from sfumato.similarity import Factored, cosine, gaussian, knn, self_tuning


def test_gaussian_against_the_formula(rng):
    X, Y = rng.normal(size=(20, 3)) + 100, rng.normal(size=(7, 3)) + 100
    np.testing.assert_allclose(
        gaussian(X, bandwidth=0.7), np.exp(-cdist(X, X, "sqeuclidean") / (2 * 0.49)), atol=1e-10
    )
    np.testing.assert_allclose(
        gaussian(Y, X, bandwidth=0.7), np.exp(-cdist(Y, X, "sqeuclidean") / (2 * 0.49)), atol=1e-10
    )


def test_the_bandwidth_is_learnt_from_the_known_objects(rng):
    X = rng.normal(size=(40, 3))
    sigma = np.median(np.sort(cdist(X, X), axis=1)[:, 10])
    np.testing.assert_allclose(gaussian(X), gaussian(X, bandwidth=sigma), atol=1e-12)
    np.testing.assert_allclose(gaussian(X[:5], X), gaussian(X)[:5], atol=1e-12)


def test_self_tuning_against_the_formula(rng):
    X = rng.normal(size=(30, 2))
    D = cdist(X, X)
    s = np.sort(D, axis=1)[:, 7]
    np.testing.assert_allclose(self_tuning(X), np.exp(-(D**2) / np.outer(s, s)), atol=1e-10)


def test_knn_against_a_loop(rng):
    X = rng.normal(size=(25, 2))
    D = cdist(X, X)
    A = np.zeros_like(D)
    for i, row in enumerate(D):
        A[i, np.argsort(row)[:4]] = 1
    np.testing.assert_allclose(knn(X, n_neighbors=4).toarray(), (A + A.T) / 2)


def test_a_neighbour_of_some_weight_is_so_many_copies_against_a_loop(rng):
    X, weights = rng.normal(size=(25, 2)), rng.random(25) + 0.2
    D = cdist(X, X)
    A = np.zeros_like(D)
    for i, row in enumerate(D):
        left = 4.0
        for j in np.argsort(row):
            A[i, j] = min(1.0, left / weights[j])
            left = max(0.0, left - weights[j])
    found = knn(X, n_neighbors=4, sample_weight=weights).toarray()
    np.testing.assert_allclose(found, (A + A.T) / 2, atol=1e-12)


@pytest.mark.parametrize("p", [1, 3, 12, 13])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_search_finds_the_same_neighbours(rng, p, dtype):
    X = rng.normal(size=(90, p)).astype(dtype)
    W = knn(X)
    assert W.dtype == dtype
    assert W.has_canonical_format
    np.testing.assert_array_equal(W.toarray(), knn(sp.csr_array(X)).toarray())
    np.testing.assert_array_equal(W.toarray(), knn(X, sample_weight=np.ones(90)).toarray())
    new = rng.normal(size=(7, p)).astype(dtype)
    np.testing.assert_array_equal(
        knn(new, X).toarray(), knn(sp.csr_array(new), sp.csr_array(X)).toarray()
    )


def test_new_neighbours_of_a_known_object_are_its_own(rng):
    X = rng.normal(size=(60, 2))
    np.testing.assert_allclose(knn(X, X, n_neighbors=5).toarray(), knn(X, n_neighbors=5).toarray())


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_cosine_is_an_operator_with_the_right_entries(rng, kind):
    X = rng.normal(size=(12, 4))
    X[3] = 0
    W = cosine(kind(X))
    V = rng.normal(size=(12, 2))
    np.testing.assert_allclose(W @ V, cosine_similarity(X) @ V, atol=1e-12)
    np.testing.assert_allclose(W.toarray(), cosine_similarity(X), atol=1e-12)
    np.testing.assert_allclose(W.diagonal(), np.diag(cosine_similarity(X)), atol=1e-12)
    np.testing.assert_allclose(W.T @ V, W @ V)
    np.testing.assert_allclose(
        cosine(kind(X[:3]), kind(X)).toarray(), cosine_similarity(X[:3], X), atol=1e-12
    )


def test_rectangular_operators(rng):
    A, B = rng.normal(size=(5, 2)), rng.normal(size=(7, 2))
    W = Factored(A, B)
    assert W.shape == (5, 7)
    np.testing.assert_allclose(W @ np.eye(7), A @ B.T)
    np.testing.assert_allclose(W.T @ np.eye(5), B @ A.T)


@pytest.mark.parametrize("function", [gaussian, self_tuning, knn, cosine])
def test_float32_stays_and_sparse_features_work(rng, function):
    X = rng.random((20, 5)).astype(np.float32)
    W, V = function(X), np.eye(20, dtype=np.float32)
    assert (W @ V).dtype == np.float32
    np.testing.assert_allclose(function(sp.csr_array(X)) @ V, W @ V, atol=2e-3)


@pytest.mark.parametrize("function", [gaussian, self_tuning])
def test_coinciding_objects_are_named(function):
    with pytest.warns(EvidenceWarning, match="coincide"):
        W = function(np.ones((15, 2)))
    np.testing.assert_allclose(W, 1)


def test_the_bandwidth_where_most_objects_coincide_is_the_one_that_is_named():
    X = np.vstack([np.zeros((20, 2)), [[0.5, 1.0]]])
    with pytest.warns(EvidenceWarning, match="a bandwidth of 1 is used"):
        W = gaussian(X)
    np.testing.assert_allclose(W, gaussian(X, bandwidth=1.0))


def test_bad_parameters_are_named(rng):
    X = rng.normal(size=(5, 2))
    with pytest.raises(ValueError, match="bandwidth"):
        gaussian(X, bandwidth=0)
    with pytest.raises(ValueError, match="n_neighbors"):
        knn(X, n_neighbors=0)
    with pytest.raises(ValueError, match="features"):
        gaussian(X, X[:, :1])
    with pytest.raises(ValueError, match="no measured value in 2 rows"):
        knn([[np.nan, np.nan], [0.0, 1.0], [np.nan, np.nan]])
    with pytest.raises(ValueError, match="no value at all in feature 0"):
        knn(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="NaN"):
        gaussian(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="metric"):
        knn(X, metric="nonsense")
    with pytest.raises(ValueError, match="sample_weight"):
        knn(X, sample_weight=[1.0, 2.0])
