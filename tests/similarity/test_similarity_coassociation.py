"""The co-association operator against its explicit matrix."""

import numpy as np
import pytest

from sfumato import MemoryBudgetError
from sfumato.similarity.coassociation import coassociation


def labelings(missing, n=40, m=7, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.integers(0, 5, (n, m))
    L[rng.random((n, m)) < missing] = -1
    return L


def explicit(L, weights):
    seen = L >= 0
    together = (seen[:, None] & seen[None, :] & (L[:, None] == L[None, :])) @ weights
    return together, (seen[:, None] & seen[None, :]) @ weights, seen @ weights


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_operator_equals_the_matrix(missing, weighted):
    L, rng = labelings(missing), np.random.default_rng(1)
    weights = rng.random(7) if weighted else np.ones(7)
    C = coassociation(L, weights if weighted else None)
    together, seen_together, coverage = explicit(L, weights)
    scaled = together / np.sqrt(np.outer(coverage, coverage))
    np.testing.assert_allclose(C @ np.eye(40), scaled, atol=1e-12)
    np.testing.assert_allclose(C @ np.arange(40.0), scaled @ np.arange(40.0), atol=1e-12)
    np.testing.assert_allclose(C.T @ np.eye(40), scaled, atol=1e-12)
    np.testing.assert_allclose((C.factor @ C.factor.T).toarray(), scaled, atol=1e-12)
    np.testing.assert_allclose(C.diagonal(), np.diag(scaled), atol=1e-12)
    np.testing.assert_allclose(C.toarray(), together / seen_together, atol=1e-12)
    if not missing:
        np.testing.assert_allclose(C.toarray(), scaled, atol=1e-12)


def test_pairs_never_seen_together_are_nan():
    C = coassociation([[0, -1], [0, -1], [-1, 0], [-1, -1]])
    matrix = C.toarray()
    assert np.isnan(matrix[0, 2])
    assert np.isnan(matrix[3]).all()
    assert matrix[0, 1] == 1
    assert C.diagonal().tolist() == [1, 1, 1, 0]
    assert (C @ np.eye(4))[0, 2] == 0


def test_labels_may_be_strings_with_gaps():
    names = np.array([["a", "x"], ["b", ""], ["a", "y"], ["b", "x"]], dtype=object)
    names[1, 1] = None
    numbers = np.array([[0, 7.0], [1, np.nan], [0, 9.0], [1, 7.0]])
    np.testing.assert_array_equal(coassociation(names).toarray(), coassociation(numbers).toarray())


@pytest.mark.parametrize("dtype", [int, str])
def test_rows_of_known_objects_are_the_rows_of_the_matrix(dtype):
    L = labelings(0.2).astype(dtype)
    C = coassociation(L)
    rows = C.rows(L[5:15])
    assert rows.shape == (10, 40)
    np.testing.assert_allclose(rows @ np.eye(40), (C @ np.eye(40))[5:15], atol=1e-12)
    np.testing.assert_allclose(rows.T @ np.eye(10), (C @ np.eye(40))[:, 5:15], atol=1e-12)


def test_a_label_that_is_new_counts_as_unseen():
    C = coassociation([[0, 0], [1, 1]])
    np.testing.assert_allclose(
        C.rows([[0, 99], [99, 99]]) @ np.eye(2), [[1 / np.sqrt(2), 0], [0, 0]]
    )


def test_single_precision_stays():
    C = coassociation(labelings(0.1))
    assert (C @ np.ones((40, 2), dtype=np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("L", "weights", "message"),
    [
        ([[0, 1]], [1.0], "a weight for each of 2 partitions"),
        ([[0, 1]], [1.0, -1.0], "nonnegative"),
        ([[0, 1]], [0.0, 0.0], "positive sum"),
        (np.zeros((0, 2)), None, "both at least 1"),
    ],
)
def test_bad_input_is_named(L, weights, message):
    with pytest.raises(ValueError, match=message):
        coassociation(L, weights)


def test_rows_need_the_same_partitions():
    with pytest.raises(ValueError, match="same 2 partitions"):
        coassociation([[0, 1], [1, 1]]).rows([[0, 1, 2]])


def test_the_matrix_is_refused_when_it_does_not_fit(monkeypatch):
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", "1e4")
    with pytest.raises(MemoryBudgetError, match="operator"):
        coassociation(labelings(0.0)).toarray()
