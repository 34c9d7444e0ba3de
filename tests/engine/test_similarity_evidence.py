"""Which pairs of a similarity count, and by how much."""

import numpy as np
import pytest

from sfumato.engine.similarity_evidence import measured


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
