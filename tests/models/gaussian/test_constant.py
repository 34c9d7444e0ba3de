"""Features without variance change nothing but the shapes of what is published."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris

from sfumato import GaussianMixture, MixtureClassifier
from tolerances import settled, stopped

X = load_iris().data
FIRST_AND_INSIDE = np.insert(np.c_[np.full(150, -3.0), X], 3, 0.0, axis=1)


def fit(data, **settings):
    return GaussianMixture(random_state=0, **settings).fit(data)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical", "VEV", "EII"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_constant_feature_changes_no_membership(kind):
    plain, wide = (
        settled(GaussianMixture(3, covariance_type=kind, random_state=0)) for _ in range(2)
    )
    plain.fit(X)
    wide.fit(FIRST_AND_INSIDE)
    atol = stopped(plain)
    np.testing.assert_allclose(wide.memberships_, plain.memberships_, atol=atol)
    np.testing.assert_allclose(wide.predict_proba(FIRST_AND_INSIDE), plain.memberships_, atol=atol)
    assert wide.bic(FIRST_AND_INSIDE) == pytest.approx(plain.bic(X))
    assert wide.icl(FIRST_AND_INSIDE) == pytest.approx(plain.icl(X))
    assert wide.sample(5)[0].shape == (5, 6)
    np.testing.assert_array_equal(wide.sample(5)[0][:, [0, 3]], [[-3.0, 0.0]] * 5)


def test_the_choice_of_a_family_does_not_see_it_either():
    plain, wide = fit(X, n_clusters=[2, 3]), fit(FIRST_AND_INSIDE, n_clusters=[2, 3])
    assert (wide.covariance_type_, wide.n_clusters_) == (plain.covariance_type_, plain.n_clusters_)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "VEV"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_published_parameters_have_all_features(kind):
    plain = fit(X, n_clusters=3, covariance_type=kind)
    wide = fit(FIRST_AND_INSIDE, n_clusters=3, covariance_type=kind)
    varying = [1, 2, 4, 5]
    np.testing.assert_allclose(wide.means_[:, varying], plain.means_)
    np.testing.assert_array_equal(wide.means_[:, [0, 3]], [[-3.0, 0.0]] * 3)
    if kind == "diag":
        np.testing.assert_allclose(wide.covariances_[:, varying], plain.covariances_)
        np.testing.assert_allclose(wide.precisions_cholesky_, 1 / np.sqrt(wide.covariances_))
        return
    inner = wide.covariances_[..., varying, :][..., varying]
    np.testing.assert_allclose(inner, plain.covariances_)
    factor = wide.precisions_cholesky_
    product = factor @ np.swapaxes(factor, -1, -2) @ wide.covariances_
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(6), product.shape), atol=1e-8)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_objects_of_no_weight_do_not_make_a_feature_vary():
    data, weights = np.r_[FIRST_AND_INSIDE, [[9.0] * 6]], np.r_[np.ones(150), 0.0]
    found = GaussianMixture(3, covariance_type="full", random_state=0).fit(
        data, sample_weight=weights
    )
    plain = fit(X, n_clusters=3, covariance_type="full")
    np.testing.assert_allclose(found.memberships_[:150], plain.memberships_, atol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_later_batch_may_vary_where_the_first_did_not():
    rng = np.random.default_rng(0)
    first = np.c_[rng.normal(size=(60, 1)) + 8 * (np.arange(60) % 2)[:, None], np.ones(60)]
    model = GaussianMixture(2, covariance_type="diag", random_state=0).partial_fit(first)
    model.partial_fit(first + rng.normal(size=(60, 2)))
    assert model.covariances_[:, 1].min() > 1e-3


def test_a_constant_of_one_class_tells_it_from_others():
    labels = np.arange(150) % 2
    data = np.c_[np.random.default_rng(0).normal(size=150), labels]
    model = MixtureClassifier([1], covariance_type="diag", random_state=0).fit(data, labels)
    assert model.score(data, labels) == 1.0


def test_a_class_with_a_constant_is_the_density_of_the_others_times_that_of_the_constant():
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    data = rng.normal(size=(80, 3)) + 3.0 * labels[:, None]
    data[labels == 1, 1] = 5.0
    settings = {"covariance_type": "full", "random_state": 0}
    model = MixtureClassifier([1, 2], **settings).fit(data, labels)
    own = data[labels == 1]
    alone = (
        MixtureClassifier([1, 2], **settings).fit(np.delete(data, 1, axis=1), labels).mixtures_[1]
    )
    new = np.array([[3.0, 5.0, 3.0], [3.0, 5.001, 2.0], [1.0, np.nan, 3.0], [3.0, 1e130, 3.0]])
    narrow = stats.norm(5.0, 5.0 * np.sqrt(model.mixtures_[1].regularization)).logpdf(new[:3, 1])
    found = model.mixtures_[1].score_samples(new)
    expected = alone.score_samples(np.delete(new, 1, axis=1)[:3]) + np.nan_to_num(narrow)
    np.testing.assert_allclose(found[:3], expected, rtol=1e-9)
    assert np.isfinite(found).all()
    assert model.mixtures_[1].covariance_type_ == alone.covariance_type_
    assert model.predict_proba(own)[:, 1].min() > 0.999
    np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1.0)


def test_classes_of_one_huge_object_are_told_apart():
    """A feature at zero in one object has the unit of its other features: squares stay numbers."""
    X = 1e150 * np.array([[-2.0, 2.0, 1.0, 0.0, 0.0], [2.0, -1.0, 0.0, -1.0, 1.0]])
    model = MixtureClassifier(n_components="auto", random_state=0).fit(X, [2, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        np.testing.assert_array_equal(model.predict_proba(X), [[0.0, 1.0], [1.0, 0.0]])


def test_a_class_at_zero_refuses_what_its_squares_cannot_hold():
    X = np.array([[0.0, 0.0], [1e150, -1e150]])
    model = MixtureClassifier(n_components="auto", random_state=0).fit(X, [0, 1])
    with pytest.raises(ValueError, match="squares of such distances overflow"):
        model.predict_proba(X)
