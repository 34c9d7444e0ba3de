"""Which pairs of a similarity count, and by how much."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from sfumato.engine.objects import Objects
from sfumato.engine.similarity_evidence import (
    Evidence,
    isolated,
    measured,
    shared,
    similarity_of_distances,
    take_rows,
)


@pytest.mark.parametrize("size", [1e-21, 1e21])
def test_weights_of_pairs_that_cannot_be_summed_are_named(size):
    with pytest.raises(ValueError, match="too large or too small to be summed"):
        measured(np.ones((3, 3)), np.full((3, 3), size))


def test_no_pair_that_counts_is_named():
    with pytest.raises(ValueError, match="no pair is measured"):
        measured(np.ones((3, 3)), np.zeros((3, 3)))


@pytest.mark.parametrize("size", [1e-19, 1.0, 1e19])
def test_weights_of_pairs_are_made_symmetric(size):
    W, Q = np.arange(9.0).reshape(3, 3), np.array([[1.0, 2, 0], [4, 1, 1], [0, 3, 1]])
    W[0, 1] = np.nan
    dense, pairs = measured(W, size * Q)
    np.testing.assert_allclose(pairs / size, [[1, 4, 0], [4, 1, 2], [0, 2, 1]], rtol=1e-12)
    np.testing.assert_array_equal(dense, np.where(np.isnan(W), W.T, W))


def test_distances_are_scaled_by_the_neighbours_of_both_objects():
    X = np.random.default_rng(0).normal(size=(9, 2)) * np.arange(1, 10)[:, None]
    D = np.linalg.norm(X[:, None] - X, axis=2)
    W, scales = similarity_of_distances(D, n_neighbors=3)
    np.testing.assert_allclose(scales, [np.sort(row)[3] for row in D])  # itself comes first
    expected = [
        [np.exp(-(D[i, j] ** 2) / (scales[i] * scales[j])) for j in range(9)] for i in range(9)
    ]
    np.testing.assert_allclose(W, expected, rtol=1e-12)
    new = np.linalg.norm(np.ones((2, 1, 2)) - X, axis=2) * np.array([[1.0], [2.0]])
    found, own = similarity_of_distances(new, scales, n_neighbors=3)
    np.testing.assert_allclose(own, np.sort(new, axis=1)[:, 2])
    np.testing.assert_allclose(found, np.exp(-(new**2) / np.outer(own, scales)), rtol=1e-12)
    with pytest.raises(ValueError, match=r"must be \(n_new, 9\), got \(2, 8\)"):
        similarity_of_distances(new[:, :8], scales)


def test_the_distance_of_one_object_says_nothing():
    W, scales = similarity_of_distances(np.zeros((1, 1)))
    np.testing.assert_array_equal(W, [[1.0]])
    np.testing.assert_array_equal(scales, [1.0])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_an_object_is_isolated_by_its_own_row(form):
    W = np.eye(4)
    W[0, 1] = W[2, 1] = -1.0
    np.testing.assert_array_equal(isolated(form(W)), [False, True, False, True])


def test_a_similarity_of_zero_links_nothing_however_much_its_pair_weighs():
    W, pairs = np.zeros((3, 3)), np.ones((3, 3))
    W[0, 1] = W[1, 0] = 1.0
    np.testing.assert_array_equal(isolated(W, pairs), [False, False, True])
    pairs[0, 1] = pairs[1, 0] = 0.0
    assert isolated(W, pairs).all()


@pytest.mark.parametrize(
    "form", [np.array, sp.csr_array, sp.lil_array, aslinearoperator, pd.DataFrame]
)
def test_rows_of_a_similarity_in_every_form(form):
    W = np.add.outer(np.arange(4.0), np.arange(4.0)) ** 2  # symmetric, as operators are taken to be
    found = take_rows(form(W), np.array([3, 1]))
    found = found.toarray() if sp.issparse(found) else np.asarray(found)
    np.testing.assert_array_equal(found, W[[3, 1]])


def test_copies_share_the_mean_of_their_memberships_and_others_keep_theirs():
    U = np.array([[0.2, 0.8], [1.0, 0.0], [0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    found = shared(U, np.array([-1, 1, 0, 1, -1]))
    expected = [[0.2, 0.8], [0.65, 0.35], [0.6, 0.4], [0.65, 0.35], [0.5, 0.5]]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_merged_objects_keep_the_share_and_the_mean_of_what_they_say_of_themselves():
    W = np.array([[4.0, 1.0, 2.0], [1.0, 8.0, 3.0], [2.0, 3.0, 6.0]])
    own = np.array([2.0, 0.5, 1.0])  # copies of the first row are pairs, half a row is not one
    joints = Objects(3, np.array([0, 0, 1]), np.array([2.5, 1.0]), own)
    left, similarity = Evidence(W).merge(joints).self_pairs
    np.testing.assert_allclose(left, [(2.0 + 0.25) / 2.5, 1.0])
    np.testing.assert_allclose(similarity, [(2.0 * 4.0 + 0.25 * 8.0) / 2.5, 6.0])
