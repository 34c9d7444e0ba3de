import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from sfumato.memberships import one_hot
from sfumato.selection import criteria


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_misfit_is_the_share_of_the_kernel_that_is_not_reproduced(rng):
    Z = rng.normal(size=(30, 3))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    U = rng.dirichlet(np.ones(3), size=30)
    explicit = np.sum((Z @ Z.T - U @ U.T) ** 2) / np.sum((Z @ Z.T) ** 2)
    assert criteria.misfit(Z, U) == pytest.approx(explicit)
    labels = one_hot(np.repeat([0, 1, 2], 10))
    assert criteria.misfit(labels @ np.linalg.qr(rng.normal(size=(3, 3)))[0], labels) < 1e-12


def test_eigengap_is_relative_and_needs_two_values():
    gaps = criteria.eigengap([1.0, 1.0, 0.5, 0.25])
    assert np.isnan(gaps[0])
    np.testing.assert_allclose(gaps[1:], [1.0, 1 / 3])
    np.testing.assert_allclose(criteria.penalized_eigengap(gaps[1:], [0.05, 0.3]), [0.5, 0.0])
    with pytest.raises(ValueError, match="two numbers or more"):
        criteria.eigengap([1.0])


def test_weights_of_information_criteria():
    weights = criteria.criterion_weights([1e6, 1e6 + 2, np.nan])
    np.testing.assert_allclose(weights, [1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0])


@pytest.mark.parametrize("method", ["single", "average"])
def test_lifetime_is_the_interval_of_thresholds(rng, method):
    tree = linkage(rng.normal(size=(12, 2)), method)
    lifetimes = criteria.lifetime(tree[:, 2], np.arange(1, 14))
    assert np.isnan(lifetimes[[0, 12]]).all()
    for k, length in enumerate(lifetimes[1:12], start=2):
        middle = np.concatenate([[0.0], tree[:, 2]])[12 - k] + length / 2
        assert len(np.unique(fcluster(tree, middle, "distance"))) == k


def test_the_largest_supported_number_comes_first():
    assert criteria.supported_numbers({2: 5.0, 3: 6.0, 4: 1.4, 5: 0.0}) == [3, 2]
