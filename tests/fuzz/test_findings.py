"""What runs of the fuzz over options, functions and pictures found, shrunk; failed before."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import NotFittedError

from sfumato import (
    CompletelyPositiveFactorization,
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    MixtureClassifier,
    MixtureEnsemble,
    PairwiseProbabilisticClustering,
    SpectralClustering,
    StudentMixture,
)
from sfumato.components import factor
from sfumato.components.gaussian import Measured, State
from sfumato.components.student import Student, around
from sfumato.memberships import predict_strongest, sizes
from sfumato.metrics import fuzzy_silhouette, rand_index, xie_beni
from sfumato.numerics import simplex
from sfumato.numerics.distances import Coordinates
from sfumato.numerics.missing import Patterns
from sfumato.numerics.operators import normalized_operator
from sfumato.plot import block_means
from sfumato.plot import similarity as similarity_plot
from sfumato.report import describe, plane, profiles
from sfumato.selection import bootstrap_likelihood_ratio, parameter_intervals
from sfumato.similarity import cluster_kernel, gaussian, learn_scales, spectral_cost_gradient
from tolerances import settled, stopped

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + 6.0 * (np.arange(40) % 2)[:, None]
U = RNG.dirichlet(np.ones(2), 40)


@pytest.fixture(autouse=True)
def _only_our_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        yield


def valid(U):
    np.testing.assert_allclose(np.asarray(U).sum(axis=1), 1.0, atol=1e-5)
    assert np.asarray(U).min() >= 0


def test_a_consensus_of_three_objects_with_weights():
    weights = [0.474, 0.004, 0.685]
    given = np.array([[0.9, -3.0, 1.2], [-1.1, -3.0, 0.3], [6.3, -3.0, 7.9]]) * 1e-12
    model = EvidenceAccumulation(3, random_state=28).fit(given, sample_weight=weights)
    valid(model.memberships_)
    assert sorted(model.labels_) == [0, 1, 2]  # as many clusters as objects
    assert model.memberships_.max(axis=1).min() > 0.9


def test_a_factorization_in_single_precision_with_weights():
    W = (gaussian(X) + 0.1).astype(np.float32)
    weights = RNG.random(40)
    model = CompletelyPositiveFactorization(1, similarity="precomputed", random_state=12)
    single = model.fit(W, sample_weight=weights)
    np.testing.assert_array_equal(single.memberships_, 1.0)
    objective = single.objective_
    double = model.fit(W.astype(np.float64), sample_weight=weights).objective_
    assert objective == pytest.approx(double, rel=1e-4)


def test_tiny_similarities_of_an_operator_with_weights_of_zero():
    W = 1e-160 * (gaussian(X) + 0.1)
    model = PairwiseProbabilisticClustering(
        2, diagonal="include", similarity="precomputed", random_state=89
    )
    model.fit(aslinearoperator(W), sample_weight=np.arange(40) % 3)
    valid(model.memberships_)
    np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(40) % 2 == 0)


def test_two_objects_far_apart_have_no_norm_off_the_diagonal():
    U = EvidenceAccumulation(2, random_state=72).fit(1e150 * X[:2, :2]).memberships_
    assert (U[:, 0] > 0.9).sum() == (U[:, 1] > 0.9).sum() == 1  # each alone in its cluster


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_bandwidth_whose_square_is_no_number(dtype):
    small, large = (gaussian(X.astype(dtype), bandwidth=width) for width in (1e-200, 1e200))
    np.testing.assert_array_equal(small, np.eye(40))
    np.testing.assert_array_equal(large, 1.0)


def test_a_classifier_whose_fit_fails_is_not_fitted():
    model = MixtureClassifier(random_state=0).fit(X, np.arange(40) % 2)
    with pytest.raises(ValueError, match="sample_weight is too large"):
        model.fit(X, np.arange(40) % 2, sample_weight=np.full(40, 1e300))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_weights_whose_square_is_no_number_are_refused():
    with pytest.raises(ValueError, match="sample_weight is too large"):
        rand_index(U, U, sample_weight=np.full(40, 1e300))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "a weight for each of 40 objects"),
        (np.full(40, np.nan), "finite numbers"),
        (np.full(40, 1e300), "too large or too small to be summed"),
    ],
)
def test_sizes_by_odd_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        sizes(U.astype(np.float32), weights)


def test_a_picture_of_a_matrix_with_the_memberships_of_another():
    with pytest.raises(ValueError, match="memberships have 40 rows where W has 3"):
        block_means(np.eye(3), U)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_reports_of_huge_and_tiny_numbers(scale):
    usual, odd = profiles(X, U), profiles(scale * X, U)
    for own, other in zip(usual[0], odd[0], strict=True):
        assert other.value == pytest.approx(scale * own.value)
        assert other.separation == pytest.approx(own.separation, rel=1e-3)
    assert np.isfinite(plane(scale * X).coordinates).all()
    assert describe(scale * X, U)


def test_links_with_a_weight_beyond_numbers_are_refused():
    model = PairwiseProbabilisticClustering(2, similarity="precomputed")
    with pytest.raises(ValueError, match="weights of cannot_link .* at most 1e\\+100"):
        model.fit(gaussian(X), cannot_link=[(0, 1, 1e300)])


@pytest.mark.parametrize("steep", [1.0, 1e154])
def test_a_program_without_curvature_ends_in_its_best_corner(steep):
    """As where the scale of the similarities is zero, and links are all that is left to fit."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        b = steep * rng.normal(size=5)
        u = simplex.quadratic_program(np.zeros((5, 5)), b[None])[0]
        np.testing.assert_allclose(u, np.eye(5)[b.argmax()], atol=1e-6)


def test_links_between_rows_of_a_sparse_array():
    links = {"must_link": [(0, 3)], "cannot_link": [(1, 5)]}
    model = settled(GaussianMixture(2, covariance_type="full", random_state=0))
    dense = model.fit(X, **links).memberships_
    sparse = model.fit(sp.csr_array(X), **links).memberships_
    np.testing.assert_allclose(sparse, dense, atol=stopped(model))
    np.testing.assert_array_equal(sparse[0], sparse[3])


def test_new_rows_of_an_operator_where_an_object_was_left_out():
    W = gaussian(X)
    W[5], W[:, 5] = 0.0, 0.0
    model = CompletelyPositiveFactorization(2, similarity="precomputed", random_state=0).fit(W)
    expected = model.predict_proba(W)
    np.testing.assert_allclose(model.predict_proba(aslinearoperator(W)), expected, atol=1e-9)


def test_the_strongest_memberships_from_soft_partitions():
    members = [U, U[:, ::-1], np.eye(2)[np.arange(40) % 2]]
    model = EvidenceAccumulation(2, ensemble="precomputed", random_state=0).fit(members)
    few = predict_strongest(model, members, top=1)
    np.testing.assert_array_equal(few.toarray().argmax(axis=1), model.predict(members))


def test_weights_of_one_object_are_checked_too():
    with pytest.raises(ValueError, match="sample_weight must be positive"):
        gaussian([[1.0, 2.0]], sample_weight=[-0.1])


def test_scales_are_not_learnt_from_numbers_whose_squares_overflow():
    with pytest.raises(ValueError, match="X has values as large as .*change units"):
        learn_scales(1e300 * X, np.arange(40) % 2)


@pytest.mark.parametrize("labelled", [False, True])
def test_fuzzy_clusters_of_objects_in_one_place(labelled):
    y = np.where(np.arange(40) < 4, 0, -1) if labelled else None
    model = FuzzyCMeans(1, n_init=1, random_state=0)
    model.fit(np.full((40, 2), 1e6), y, cannot_link=None if labelled else [(0, 1)])
    np.testing.assert_array_equal(model.memberships_, 1.0)
    np.testing.assert_allclose(model.cluster_centers_, 1e6)


@pytest.mark.parametrize("scale", [1e-160, 1e140])
def test_fuzzy_clusters_in_odd_units(scale):
    usual = FuzzyCMeans(2, metric="gaussian", n_init=1, random_state=0).fit(X)
    odd = FuzzyCMeans(2, n_init=1, random_state=0)
    given = scale * X
    given[3, 0] = np.nan
    assert (odd.fit(given).labels_ == usual.labels_).all()
    assert np.isfinite(odd.score(given))


def test_infinite_similarities_are_refused_beside_missing_ones():
    W = gaussian(X)
    W[0, 1] = W[1, 0] = np.inf
    W[2, 3] = W[3, 2] = np.nan
    with pytest.raises(ValueError, match="infinity|infinite|finite"):
        PairwiseProbabilisticClustering(2, similarity="precomputed").fit(W)


def test_the_silhouette_of_numbers_whose_squares_overflow():
    with pytest.raises(ValueError, match="X has values as large as .*change units"):
        fuzzy_silhouette(1e200 * X, U)


def test_new_sparse_rows_beside_a_kernel():
    def product(A, B):
        return (A @ B.T).toarray() if sp.issparse(A) else A @ B.T

    model = FuzzyCMeans(2, metric=product, n_init=1, random_state=0).fit(sp.csr_array(X))
    np.testing.assert_allclose(model.predict_proba(sp.csr_array(X)), model.memberships_, atol=1e-6)


def test_the_strongest_memberships_beside_an_operator():
    W = gaussian(X)
    model = PairwiseProbabilisticClustering(2, similarity="precomputed", random_state=0).fit(W)
    few = predict_strongest(model, aslinearoperator(W), top=1)
    np.testing.assert_array_equal(few.toarray().argmax(axis=1), model.predict(W))


def test_a_picture_of_a_list_and_of_infinite_similarities():
    pytest.importorskip("matplotlib")
    np.testing.assert_array_equal(block_means([[1.0, 0.0], [0.0, 1.0]]), np.eye(2))
    similarity_plot([[np.nan]])  # nothing was measured
    with pytest.raises(ValueError, match="infinite numbers"):
        block_means([[np.inf, 0.0], [0.0, 1.0]])


def test_covariances_that_rounding_left_indefinite():
    """A direction without any variance, beside missing values."""
    patterns = Patterns.of(np.array([[1.0, 2.0], [1.0, np.nan]]))
    P, log_det = patterns.inverses(np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]]))
    assert np.isfinite(P).all()
    assert np.isfinite(log_det).all()


@pytest.mark.parametrize("kind", ["diag", "full", "auto"])
def test_a_constant_feature_beside_tiny_ones(kind):
    given = np.column_stack([1e-160 * X, np.ones(40)])
    model = GaussianMixture(2, covariance_type=kind, n_init=1, random_state=0).fit(given)
    np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(40) % 2 == 0)


@pytest.mark.parametrize("kind", ["spherical", "EVE", "full"])
def test_student_clusters_of_tiny_features_beside_a_constant_one(kind):
    given = np.column_stack([1e-160 * X, np.ones(40)])
    model = StudentMixture(2, covariance_type=kind, n_init=1, random_state=0).fit(given)
    valid(model.memberships_)
    np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(40) % 2 == 0)


@pytest.mark.parametrize("scale", [0.0, 1e151])
def test_fuzzy_clusters_by_a_product_that_is_nothing_or_no_number(scale):
    model = FuzzyCMeans(2, metric=lambda A, B: A @ B.T, n_init=1, random_state=0)
    if scale:
        with pytest.raises(ValueError, match=r"metric\(X, X\) must be .*change the units"):
            model.fit(scale * X)
    else:
        np.testing.assert_allclose(model.fit(scale * X).memberships_, 0.5)


def test_the_derivative_beside_an_object_without_similarity_to_speak_of():
    W = np.full((4, 4), 1e-310)
    W[0, 1] = W[1, 0] = 1.0
    with pytest.raises(ValueError, match="object 2 has no similarity to any labelled object"):
        spectral_cost_gradient(W, [0, 0, 1, 1])


def test_a_weight_that_an_extrapolation_loses_keeps_a_logarithm():
    """The vectors are steps between states, and a step may be long."""
    half, means, ones = np.full(2, 0.5), np.eye(2), np.ones((2, 2))
    plain = Coordinates(np.zeros(2), np.ones(2), None, np.ones(2))
    student = State(half, means, ones, "VVI", 1e-9, None, np.full(2, 5.0))
    factors = factor.State(half, means, means[..., None], ones)
    components = (
        (Student(2, "VVI", Measured(plain, 9.0, False), 1e-9), student),
        (factor.Factors(2, 1, plain, 1e-3, False, False), factors),
    )
    for component, state in components:
        vector = component.pack(state)
        vector[0] -= 1e4
        shares = component.unpack(vector, state).weights
        assert np.isfinite(component.logits(np.zeros((1, 2)), component.ready(state))).all()
        assert (shares >= 0).all()


def test_a_ratio_test_of_a_list():
    mixture = GaussianMixture(2, covariance_type="full", n_init=1, random_state=0)
    asked = {"n_resamples": 2, "max_clusters": 2, "random_state": 0}
    of_list = bootstrap_likelihood_ratio(mixture, X.tolist(), **asked)
    assert (
        of_list.tests[0].statistic
        == bootstrap_likelihood_ratio(mixture, X, **asked).tests[0].statistic
    )


def test_intervals_of_parameters_from_a_list():
    mixture = GaussianMixture(2, covariance_type="full", n_init=1, random_state=0)
    asked = {"n_resamples": 2, "random_state": 0}
    of_list, of_array = (parameter_intervals(mixture, form, **asked) for form in (X.tolist(), X))
    np.testing.assert_array_equal(of_list.draws["means"], of_array.draws["means"])


def test_errors_of_measurement_beyond_all_variance_leave_nothing_to_know():
    model = GaussianMixture(2, covariance_type="full", n_init=1, random_state=0).fit(X)
    found = model.predict_proba(X, measurement_error=np.full(X.shape, 1e300))
    np.testing.assert_allclose(found, np.tile(model.weights_, (len(X), 1)), atol=1e-6)


def test_links_between_rows_without_weight():
    weights = np.where(np.arange(40) < 4, 0.0, 1.0)
    model = FuzzyCMeans(2, metric=lambda A, B: A @ B.T, n_init=1, random_state=0)
    model.fit(1e6 + X, sample_weight=weights, cannot_link=[(0, 1), (1, 3)])
    valid(model.memberships_)
    first, second, _, fourth = model.labels_[:4]
    assert first != second != fourth


@pytest.mark.parametrize("method", ["normalized-cut", "ng-jordan-weiss", "bach-jordan"])
def test_a_graph_with_objects_that_are_similar_by_1e_310(method):
    W = np.full((10, 10), 1e-310)
    W[0, 1] = W[1, 0] = 1.0
    model = SpectralClustering(2, similarity="precomputed", method=method, random_state=0)
    with pytest.raises(ValueError, match="W has objects whose similarities sum to"):
        model.fit(W)


def test_weights_beside_objects_that_are_similar_by_1e_310():
    W = np.full((10, 10), 1e-310)
    W[0, 1] = W[1, 0] = 1.0
    scaled = normalized_operator(W, weights=np.ones(10)) @ np.eye(10)
    np.testing.assert_allclose(scaled, normalized_operator(W) @ np.eye(10))
    assert np.isfinite(scaled).all()


def test_an_interval_of_an_infinite_measure():
    """Two clusters with one center: infinitely bad, in every resample."""
    found = xie_beni(np.ones((4, 2)), np.full((4, 2), 0.5), interval=0.9)
    assert not np.isnan([found.value, found.low, found.high]).any()


def test_a_flat_cluster_is_inside_others_and_not_around_them():
    flat = np.stack([np.diag([1.0, 0.0]), np.eye(2)])
    state = State(np.full(2, 0.5), np.zeros((2, 2)), flat, "VVV", 1e-9, None, np.full(2, 5.0))
    assert around(state) == (1, 0)


def test_axes_of_sparse_features_wider_than_long():
    X = sp.random_array((6, 30), density=0.3, rng=0, format="csr")
    model = EvidenceAccumulation(2, random_state=0).fit(X)
    valid(model.memberships_)
    np.testing.assert_array_equal(np.unique(model.labels_), [0, 1])


def test_a_cluster_kernel_of_huge_similarities_and_weights():
    K = 1e140 * (np.kron(np.eye(2), np.ones((3, 3))) + 0.1)
    kernel = cluster_kernel(K, 2, sample_weight=np.full(6, 1e90))
    np.testing.assert_allclose(kernel.toarray(), np.kron(np.eye(2), np.ones((3, 3))), atol=1e-12)
    with pytest.raises(ValueError, match="sample_weight is too large.*divide it by"):
        cluster_kernel(K, 2, sample_weight=np.full(6, 1e250))


def test_new_rows_as_an_operator_beside_small_similarities():
    W = 1e-140 * (np.kron(np.eye(2), np.ones((5, 5))) + 0.1)
    model = SpectralClustering(2, similarity="precomputed", random_state=0).fit(W)
    found = model.predict_proba(aslinearoperator(W))
    np.testing.assert_allclose(found, model.predict_proba(W), atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-160])
def test_a_constant_feature_with_a_hole_beside_tiny_ones(scale):
    given = np.array([[3.8, 0, 4.9], [4.3, 0, 5.9], [0, 0, 0], [4.7, 0, 5.8], [0.9, np.nan, 1.4]])
    model = GaussianMixture(2, covariance_type="EVE", n_init=1, random_state=75)
    labels = model.fit(scale * given).labels_
    np.testing.assert_array_equal(labels == labels[2], [False, False, True, False, True])


@pytest.mark.parametrize("scale", [1e-300, 1e299])
@pytest.mark.parametrize("kind", [PairwiseProbabilisticClustering, SpectralClustering])
def test_weights_of_pairs_beyond_numbers_are_refused(kind, scale):
    model = kind(2, similarity="precomputed", random_state=0)
    with pytest.raises(ValueError, match="pair_weight is too large or too small .*: divide it"):
        model.fit(1e75 * gaussian(X), pair_weight=np.full((40, 40), scale))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_precisions_of_copies_of_tiny_numbers(kind):
    given = 1e-304 * np.repeat(X[:4], 5, axis=0)
    model = GaussianMixture(4, covariance_type=kind, n_init=1, random_state=0).fit(given)
    assert np.isfinite(model.precisions_cholesky_).all()


def test_few_objects_in_single_precision_far_from_zero():
    """Their mean is no number of their type, and what is left of it counts for every pair."""
    rows = 3 * [[6.0625, 7.3125, 5.875]] + 2 * [[1.375, -0.375, -1.0625]]
    given = (1e6 + np.array(rows)).astype(np.float32)
    asked = {"covariance_type": "full", "regularization": 1e-6}
    single = GaussianMixture(1, **asked).fit(given)
    double = GaussianMixture(1, **asked).fit(given.astype(np.float64))
    np.testing.assert_allclose(single.covariances_, double.covariances_, rtol=1e-4)


def test_classes_of_one_object_each_in_huge_units():
    given = 1e151 * np.array([[1.28, 1.21, 1.13], [1.25, 1.15, 1.18]])
    model = MixtureClassifier((1, 3), n_init=1, random_state=0).fit(given, [1, 0])
    np.testing.assert_allclose(model.predict_proba(given), [[0, 1], [1, 0]], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-160, 1e140])
def test_validity_does_not_depend_on_units(scale):
    given, sure = np.round(X, 3), np.eye(2)[np.arange(40) % 2]
    for known in (U, sure):
        values = [xie_beni(data, known) for data in (given, scale * given)]
        values += [fuzzy_silhouette(data, known) for data in (given, scale * given)]
        assert values[::2] == pytest.approx(values[1::2], rel=1e-3)
    fixed = xie_beni(scale * given, U, centers=scale * given[:2])
    assert fixed == pytest.approx(xie_beni(given, U, centers=given[:2]), rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (FuzzyCMeans, np.float64),
        (FuzzyCMeans, np.float32),
        (GaussianMixture, np.float64),
        (StudentMixture, np.float32),
        (MixtureEnsemble, np.float64),
    ],
)
def test_new_objects_too_far_from_the_fit_are_refused(kind, dtype):
    scale = 1e-15 if dtype == np.float32 else 1e-140
    model = kind(2, random_state=0).fit((scale * X).astype(dtype))
    place = model.transform if kind is MixtureEnsemble else model.predict_proba
    place((1e-6 / scale * X).astype(dtype) * dtype(scale))
    with pytest.raises(ValueError, match="fitted to values up to .*check the units"):
        place((X / scale).astype(dtype))


def test_memberships_of_objects_in_one_place_by_a_product():
    given = np.tile([[1.0, 12.4844969, 12.61522717]], (5, 1))
    model = FuzzyCMeans(3, metric=lambda A, B: A @ B.T, fuzzifier=1.3, n_init=1, random_state=89)
    U = model.fit(given, sample_weight=[0, 2, 2, 0, 2]).predict_proba(given)
    np.testing.assert_allclose(U, 1 / 3)  # one place: no cluster is nearer than another


@pytest.mark.parametrize("scale", [1e-160, 1e150])
def test_an_operator_in_odd_units(scale):
    W = gaussian(X)
    asked = {"similarity": "precomputed", "method": "bach-jordan", "random_state": 0}
    model = SpectralClustering(2, **asked).fit(aslinearoperator(scale * W))
    valid(model.memberships_)
    np.testing.assert_array_equal(model.labels_, SpectralClustering(2, **asked).fit(W).labels_)


def test_intervals_of_a_linkage_with_fewer_objects_than_clusters():
    model = EvidenceAccumulation(2, ensemble="precomputed", consensus="single", random_state=0)
    model.fit([["a", "b", "a"], ["b", "b", "c"]], sample_weight=[1, 3])
    low, high = np.asarray(model.cooccurrence_interval([[0, 1]])).T
    assert 0.0 <= low <= high <= 1.0
