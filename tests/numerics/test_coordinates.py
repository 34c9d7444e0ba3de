"""Coordinates: units do not matter, and those that no factor can undo are named."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato import (
    DirichletProcessMixture,
    FactorMixture,
    GaussianMixture,
    MixedMixture,
    StudentMixture,
)
from sfumato.array.rows import Rows
from sfumato.numerics.distances import measure
from tolerances import settled, stopped

MODELS = {
    "gaussian": lambda: GaussianMixture(2, random_state=0),
    "student": lambda: StudentMixture(2, covariance_type="VII", random_state=0),
    "factor": lambda: FactorMixture(2, n_factors=1, random_state=0),
    "mixed": lambda: MixedMixture(2, random_state=0),
}
every = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def blobs():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 2)) + 6.0 * np.eye(2)[np.repeat([0, 1], 30)]


@pytest.mark.parametrize("per_feature", [True, False])
@pytest.mark.parametrize("scale", [1e-304, 1e-200, 1.0, 1e140])
def test_inner_coordinates_do_not_depend_on_units(scale, per_feature):
    X = blobs()
    plain, moved = (
        measure(Rows(data, None), per_feature=per_feature, mix=True).inner(data)
        for data in (X, X * scale)
    )
    np.testing.assert_allclose(moved, plain, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e140])
def test_a_constant_feature_has_the_units_of_the_others(scale):
    X = np.column_stack([blobs(), np.zeros(60)])
    plain = measure(Rows(X, None), per_feature=True, mix=False)
    moved = measure(Rows(scale * X, None), per_feature=True, mix=False)
    np.testing.assert_allclose(moved.isotropic().inner(scale * X), plain.isotropic().inner(X))


@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize("value", [0.3, 3.0, 1e6])
def test_the_unit_of_a_constant_feature_is_its_size_or_the_largest_of_the_others(value, mix):
    """Up to a power of two."""
    X = np.column_stack([blobs(), np.full(60, value)])
    found = measure(Rows(X, None), per_feature=True, mix=mix)
    np.testing.assert_allclose(found.scale[:2], 1.0 / X[:, :2].std(axis=0), rtol=1e-12)
    reach = max(value, np.abs(X[:, :2] - X[:, :2].mean(axis=0)).max())
    assert found.scale[2] == 2.0 ** -np.floor(np.log2(reach) + 1.0)


def test_a_constant_feature_beside_tiny_ones_stays_constant():
    """Its mean, summed, is not exactly its value, and others are smaller than the difference."""
    X = np.column_stack([1e-160 * blobs(), np.full(60, 0.1)])
    found = measure(Rows(X, None), per_feature=True, mix=False)
    assert found.variances[2] == 0.0
    np.testing.assert_array_equal(found.inner(X)[:, 2], 0.0)
    np.testing.assert_allclose(found.isotropic().inner(X).var(axis=0).mean(), 1.0)


@pytest.mark.parametrize("per_feature", [True, False])
def test_a_feature_that_is_tiny_beside_others_stays_finite(per_feature):
    X = blobs() * [1.0, 1e-310]
    found = measure(Rows(X, None), per_feature=per_feature, mix=False).inner(X)
    assert np.isfinite(found).all()
    assert found.std(axis=0)[0] > 0.5


@every
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e140])
def test_memberships_and_samples_follow_the_units(make, scale):
    X = blobs()
    plain, moved = settled(make()).fit(X), settled(make()).fit(X * scale)
    np.testing.assert_allclose(moved.memberships_, plain.memberships_, atol=stopped(plain))
    np.testing.assert_allclose(moved.predict_proba(X * scale), moved.memberships_, atol=1e-9)
    np.testing.assert_allclose(moved.sample(5)[0] / scale, plain.sample(5)[0], rtol=1e-4, atol=1e-4)


@every
@pytest.mark.parametrize("scale", [1e-320, 1e-310, 1e160, 1e300])
def test_units_that_nothing_can_undo_are_named(make, scale):
    with pytest.raises(ValueError, match="change units"):
        make().fit(blobs() * scale)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="change units"):
        make().fit(1e-310 + 1e-310 * rng.normal(size=(40, 2)))


@pytest.mark.parametrize("scale", [1e-310, 1e300])
def test_priors_in_the_units_of_the_data_need_their_squares(scale):
    with pytest.raises(ValueError, match="change units"):
        DirichletProcessMixture(random_state=0).fit(blobs() * scale)


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize("size", [0.0, 3.0])
def test_sparse_features_of_mean_zero_are_fitted_as_dense_ones(size):
    X = size * np.repeat([[1.0, 0.0, 2.0], [-1.0, 0.0, -2.0]], 25, axis=0)
    dense, sparse = (
        GaussianMixture(2, covariance_type="diag", random_state=0).fit(A).memberships_
        for A in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-6)
