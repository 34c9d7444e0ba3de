"""Doubly stochastic similarities: nearest in three senses, on every form of similarity."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.linalg import aslinearoperator

from sfumato import EvidenceWarning, MemoryBudgetError
from sfumato.similarity import coassociation, doubly_stochastic, knn
from sfumato.similarity.doubly_stochastic import least_squares_shifts, shifted_rows


def gaussian(rng, n=40):
    X = rng.normal(size=(n, 2))
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))


def dykstra(K, n_iter=4000):
    """Alternating projections with Dykstra's correction: slow, and right."""
    n = len(K)
    J = np.full((n, n), 1 / n)
    X, correction = K.copy(), np.zeros_like(K)
    for _ in range(n_iter):
        Y = (np.eye(n) - J) @ X @ (np.eye(n) - J) + J + correction
        X = np.maximum(Y, 0)
        correction = Y - X
    return X


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, aslinearoperator])
def test_scaling_reaches_row_sums_of_one(rng, form):
    K = gaussian(rng)
    F = doubly_stochastic(form(K))
    np.testing.assert_allclose(F @ np.ones(40), 1, atol=1e-10)
    np.testing.assert_allclose(F.toarray(), F.scaling[:, None] * K * F.scaling, atol=1e-14)
    np.testing.assert_allclose(F.diagonal(), F.toarray().diagonal())


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1))
def test_any_pattern_with_a_diagonal_can_be_scaled(seed, density):
    rng = np.random.default_rng(seed)
    K = np.exp(6 * rng.normal(size=(12, 12))) * (rng.random((12, 12)) < density)
    K = K + K.T + np.diag(rng.random(12) + 0.1)
    np.testing.assert_allclose(doubly_stochastic(K) @ np.ones(12), 1, atol=1e-10)


def test_a_bipartite_similarity_stalls_the_fixed_point_but_not_newton(rng):
    K = np.zeros((40, 40))
    K[:20, 20:] = rng.random((20, 20)) ** 3
    K += K.T
    np.testing.assert_allclose(doubly_stochastic(K, max_iter=40) @ np.ones(40), 1, atol=1e-10)


def test_scaling_an_implicit_coassociation(rng):
    F = doubly_stochastic(coassociation(rng.integers(0, 5, (300, 20))))
    np.testing.assert_allclose(F @ np.ones(300), 1, atol=1e-10)


def test_scaling_is_the_nearest_in_relative_entropy(rng):
    K = gaussian(rng, 12)
    F = doubly_stochastic(K).toarray()

    def divergence(A):
        return (A * np.log(A / K) - A + K).sum()

    for _ in range(20):
        direction = rng.normal(size=(12, 12))
        direction += direction.T
        J = np.full((12, 12), 1 / 12)
        direction = (np.eye(12) - J) @ direction @ (np.eye(12) - J)
        other = F + 0.5 * F.min() / np.abs(direction).max() * direction
        assert divergence(other) > divergence(F)


@pytest.mark.parametrize("scale", [0.02, 1.0, 5.0])
def test_frobenius_equals_dykstra(rng, scale):
    K = scale * gaussian(rng, 25)
    F = doubly_stochastic(K, divergence="frobenius")
    np.testing.assert_allclose(F, dykstra(K), atol=1e-7)
    np.testing.assert_allclose(F.sum(axis=1), 1, atol=1e-10)
    assert F.min() >= 0
    np.testing.assert_allclose(
        doubly_stochastic(aslinearoperator(K), divergence="frobenius"), F, atol=1e-9
    )
    np.testing.assert_allclose(
        doubly_stochastic(sp.csr_array(K), divergence="frobenius"), F, atol=1e-9
    )


def test_l1_moves_the_diagonal_only(rng):
    K = 0.01 * gaussian(rng)
    expected = K - np.diag(K.sum(axis=1)) + np.eye(40)
    for form in (np.asarray, sp.csr_array, aslinearoperator):
        F = doubly_stochastic(form(K), divergence="l1")
        np.testing.assert_allclose(F @ np.eye(40), expected, atol=1e-14)
    with pytest.warns(EvidenceWarning, match="negative"):
        doubly_stochastic(100 * K, divergence="l1")


def test_new_rows_sum_to_one(rng):
    K = gaussian(rng)
    F = doubly_stochastic(K)
    np.testing.assert_allclose(F.extend(K[:3]), F.toarray()[:3], atol=1e-10)
    np.testing.assert_allclose(F.extend(sp.csr_array(K[:3])).toarray(), F.toarray()[:3], atol=1e-10)
    np.testing.assert_array_equal(F.extend(np.zeros((1, 40))), np.zeros((1, 40)))


@pytest.mark.parametrize(
    ("K", "match"),
    [
        (np.zeros((4, 4)), "no similarity"),
        (np.diag([1.0, 0.0, 1.0]), r"1 objects \(1\)"),
        (np.array([[0.0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]), "row sum of one"),
        (-np.ones((3, 3)), "negative"),
    ],
)
def test_what_cannot_be_scaled_is_named(K, match):
    with pytest.raises(ValueError, match=match):
        doubly_stochastic(K)


def test_entries_that_no_doubly_stochastic_matrix_can_share_go_to_zero():
    F = doubly_stochastic(np.array([[1.0, 1, 0], [1, 0, 1], [0, 1, 0]])).toarray()
    np.testing.assert_allclose(F, [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-9)


def test_an_operator_that_cannot_be_scaled_is_named():
    K = np.array([[0.0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    with pytest.raises(ValueError, match="do not reach a row sum of one"):
        doubly_stochastic(aslinearoperator(K), max_iter=50)


def test_precision_stays_and_scale_does_not_matter(rng):
    K = gaussian(rng)
    assert (doubly_stochastic(K.astype(np.float32)) @ np.ones(40, np.float32)).dtype == np.float32
    for scale in (1e-12, 1e12):
        np.testing.assert_allclose(
            doubly_stochastic(scale * K).toarray(), doubly_stochastic(K).toarray(), atol=1e-10
        )


def test_memory_is_asked_for_before_it_is_taken(rng, monkeypatch):
    K = gaussian(rng)
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1000")
    with pytest.raises(MemoryBudgetError, match="relative-entropy"):
        doubly_stochastic(K, divergence="frobenius")
    doubly_stochastic(K)


def test_torch(rng):
    torch = pytest.importorskip("torch")
    K = gaussian(rng)
    F = doubly_stochastic(torch.asarray(K))
    assert isinstance(F.scaling, torch.Tensor)
    np.testing.assert_allclose(F.scaling.numpy(), doubly_stochastic(K).scaling, rtol=1e-9)


@pytest.mark.slow
def test_a_graph_of_a_hundred_thousand_objects(rng):
    W = knn(rng.normal(size=(100_000, 3)))
    np.testing.assert_allclose(doubly_stochastic(W) @ np.ones(100_000), 1, atol=1e-10)


def test_weights_are_copies(rng):
    W = rng.random((7, 7)) + 0.1
    W += W.T
    counts = rng.integers(1, 4, 7)
    rows = np.repeat(np.arange(7), counts)
    F = doubly_stochastic(W, sample_weight=counts)
    np.testing.assert_allclose(F @ counts.astype(float), 1, atol=1e-10)
    copied = doubly_stochastic(W[np.ix_(rows, rows)]).toarray()
    np.testing.assert_allclose(F.toarray()[np.ix_(rows, rows)], copied, atol=1e-10)
    with pytest.raises(ValueError, match="does not go with"):
        doubly_stochastic(W, sample_weight=counts, divergence="l1")


def test_frobenius_weights_are_copies(rng):
    K = rng.random((12, 12))
    K, counts = (K + K.T) / 2, rng.integers(1, 4, 12)
    index = np.repeat(np.arange(12), counts)
    F = doubly_stochastic(K, divergence="frobenius", sample_weight=counts)
    copies = doubly_stochastic(K[np.ix_(index, index)], divergence="frobenius")
    np.testing.assert_allclose(F[np.ix_(index, index)], copies, atol=1e-9)
    np.testing.assert_allclose(F @ counts, 1.0, atol=1e-9)


def test_new_rows_are_shifted_onto_the_simplex(rng):
    K = rng.random((15, 15))
    K, v = (K + K.T) / 2, rng.uniform(0.5, 3, 15)
    y = least_squares_shifts(K, v)
    F = shifted_rows(K, y, v)
    np.testing.assert_allclose(F @ v, 1.0, atol=1e-12)
    np.testing.assert_allclose(
        F, doubly_stochastic(K, divergence="frobenius", sample_weight=v), atol=1e-9
    )
    assert (shifted_rows(np.zeros((1, 15)), y, v) == 0).all()


def test_new_rows_sum_to_one_unless_they_hold_nothing():
    rows = np.array([[0.2, 0.0, 0.9], [0.0, 0.0, 0.0], [0.5, 0.0, 0.1]])
    found = shifted_rows(rows, np.array([0.1, 0.6, -0.2]))
    np.testing.assert_allclose(found, [[0.1, 0.4, 0.5], [0, 0, 0], [0.5, 0.5, 0]], atol=1e-12)
