"""Rows that are one object: copies, rows without weight, linked rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse.linalg import aslinearoperator

from sfumato.engine.objects import ABSENT, chained, distinct_rows, joined, merged, present_rows


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 9), st.just(2)), elements=st.sampled_from([0, 1, 2])
    ),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_equal_rows_are_one_object_of_their_joint_weight(X, weighted, seed):
    weights = None
    if weighted:
        weights = np.random.default_rng(seed).integers(0, 3, len(X)).astype(float)
        weights[0] = 1.0
    own = np.ones(len(X)) if weights is None else weights
    for rows in (distinct_rows(X, weights), distinct_rows(sp.csr_array(X), weights)):
        if rows.group is None:
            assert len(np.unique(X, axis=0)) == len(X)
            assert weights is None
            continue
        np.testing.assert_array_equal(rows.group == ABSENT, own == 0)
        present = np.flatnonzero(own > 0)
        for i in present:
            for j in present:
                assert (rows.group[i] == rows.group[j]) == (X[i] == X[j]).all()
        np.testing.assert_array_equal(rows.group[rows.first()], np.arange(rows.size))
        expected = [own[rows.group == g].sum() for g in range(rows.size)]
        np.testing.assert_allclose(rows.weights, expected)


def test_averages_of_every_kind_of_similarity_agree(rng):
    W = rng.random((6, 6))
    W = W + W.T
    weights = np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0])
    rows = merged(weights[weights > 0], np.array([0, 1, 0, 2, 1]))
    kept = present_rows(6, weights)
    small = kept.average(W)
    np.testing.assert_allclose(small, W[np.ix_(weights > 0, weights > 0)])
    expected = rows.average(small)
    v = rows.row_weights
    block = np.ix_(rows.group == 0, rows.group == 1)
    mean = (np.outer(v, v) * small)[block].sum() / np.outer(v, v)[block].sum()
    assert expected[0, 1] == pytest.approx(mean)
    np.testing.assert_allclose(rows.average(sp.csr_array(small)).toarray(), expected)
    np.testing.assert_allclose(rows.average(aslinearoperator(small)) @ np.eye(3), expected)


def test_components_of_rows_join_objects():
    group = np.array([0, 1, 1, 2, ABSENT])
    component = np.array([5, 0, 1, 5, 0])
    found = joined(group, 3, component)
    assert found[0] == found[2] != found[1]
    np.testing.assert_array_equal(chained(group, np.array([0, 1, 0])), [0, 1, 1, 0, ABSENT])
