"""Products with tables of labels against products with one-hot matrices."""

import numpy as np
import pytest

from sfumato.numerics import label_table as products
from sfumato.numerics.label_table import encode
from sfumato.similarity import coassociation


def table_of(n=30, m=6, missing=0.0, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, (n, m)).astype(np.int32)
    labels[rng.random((n, m)) < missing] = -1
    return encode(labels, rng.random(m) + 0.1, np.full(m, n_labels))


@pytest.mark.parametrize("k", [1, 3, 4, 7, 10, 16, 17, 37])
@pytest.mark.parametrize(("missing", "n"), [(0.0, 30), (0.3, 1100)])
def test_products_are_those_with_one_hot_labels(k, missing, n):
    rng, table = np.random.default_rng(k), table_of(n, missing=missing)
    H = (table.columns()[:, :, None] == np.arange(table.offsets[-1])).any(axis=1).astype(float)
    U, V, scale = rng.random((n, k)), rng.random((int(table.offsets[-1]), k)), rng.random(n)
    V[table.unseen] = 0.0
    heavy = table.column_weight[:, None] * V
    np.testing.assert_allclose(products.scatter(table, U), H.T @ U, atol=1e-12)
    scaled = products.scatter(table, U, scale)
    np.testing.assert_allclose(scaled, H.T @ (scale[:, None] * U), atol=1e-12)
    np.testing.assert_allclose(products.gather(table, V), H @ heavy, atol=1e-12)
    scaled = products.gather(table, V, scale)
    np.testing.assert_allclose(scaled, scale[:, None] * (H @ heavy), atol=1e-12)


@pytest.mark.parametrize(
    ("n_labels", "codes", "dtype"),
    [(3, "u1", "float32"), (300, "u2", "float64"), (70_000, "i4", "float64")],
)
def test_every_kind_of_codes_and_numbers(n_labels, codes, dtype):
    table = table_of(50, 2, 0.1, n_labels)
    assert table.codes.dtype == codes
    U = np.random.default_rng(0).random((50, 5)).astype(dtype)
    U.flags.writeable = False
    H = products.one_hot(table, slice(None), dtype)
    found = products.scatter(table, U)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, H.T @ U, rtol=1e-5)
    np.testing.assert_allclose(products.scatter(table, U[:, ::-1]), H.T @ U[:, ::-1], rtol=1e-5)
    weighted = found * table.column_weight[:, None].astype(dtype)
    np.testing.assert_allclose(products.gather(table, found), H @ weighted, rtol=1e-5)


def test_a_product_is_that_with_the_matrix():
    """The explicit co-association is the oracle of the whole product."""
    rng = np.random.default_rng(1)
    C = coassociation(rng.integers(5, size=(700, 13)))
    U = rng.random((700, 6))
    np.testing.assert_allclose(C @ U, C.toarray() @ U, rtol=1e-12)


def test_many_blocks_give_the_same_as_one(monkeypatch):
    table = table_of(200_000, 12)
    U = np.random.default_rng(3).random((200_000, 2))
    assert len(list(products.each_block(table, lambda rows: None))) > 1
    sums = products.scatter(table, U)
    for label in range(4):
        expected = U[table.codes[:, 5] == label].sum(axis=0)
        np.testing.assert_allclose(sums[table.offsets[5] + label], expected)
    monkeypatch.setattr("sfumato.array.rows.cpu_count", lambda: 1)
    assert np.array_equal(products.scatter(table, U), sums)
