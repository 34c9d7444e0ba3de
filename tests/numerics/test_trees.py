import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

from sfumato.numerics import trees


@pytest.mark.parametrize("method", ["single", "average", "complete", "ward"])
@pytest.mark.parametrize("n", [2, 3, 40, 200])
@pytest.mark.parametrize("ties", [False, True])
def test_trees_in_steps_are_those_of_scipy(method, n, ties, monkeypatch):
    monkeypatch.setattr(trees, "AT_ONCE", 0)
    monkeypatch.setattr(trees, "BLOCK", 1000)
    X = np.random.default_rng(n).normal(size=(n, 3))
    X = np.round(X) if ties else X
    expected = linkage(X, method)
    np.testing.assert_allclose(trees.tree(X, method), expected, atol=1e-12)
    distances = pdist(X)
    np.testing.assert_allclose(trees.tree(distances, method), expected, atol=1e-12)
    np.testing.assert_array_equal(distances, pdist(X))
