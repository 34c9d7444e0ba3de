"""Discriminative clustering as an estimator: the membership contract, what it finds, and what it refuses."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import check_estimator

from sfumato import DiscriminativeClustering, EvidenceWarning
from sfumato.kernels.discriminative import mutual_information
from sfumato.models._discriminative import Frame, Problem, Rows, class_rows

EXPECTED = {
    "check_clustering": "fits without classes, and there is nothing to cluster for without them",
    "check_estimator_sparse_array": "takes whatever has predict_proba for a classifier",
    "check_estimator_sparse_matrix": "takes whatever has predict_proba for a classifier",
}


def blobs(seed=0, n=90, p=3):
    rng = np.random.default_rng(seed)
    c = rng.integers(3, size=n)
    return rng.normal(size=(n, p)) + 2.0 * np.eye(3, p)[c], c


def bands(n=600, seed=0):
    """The class changes along a direction with a hundredth of the variance of the other one."""
    rng = np.random.default_rng(seed)
    c = rng.integers(2, size=n)
    return rng.normal(size=(n, 2)) * [10.0, 0.3] + np.outer(2 * c - 1, [0.0, 1.0]), c


@pytest.fixture(scope="module")
def fitted():
    X, c = blobs()
    return X, c, DiscriminativeClustering(4, random_state=0, n_init=2).fit(X, c)


@pytest.mark.parametrize("algorithm", ["map", pytest.param("online", marks=pytest.mark.slow)])
def test_passes_the_checks_of_scikit_learn(algorithm):
    expected = (
        EXPECTED
        if algorithm == "map"
        else EXPECTED
        | dict.fromkeys(
            ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"), "draws depend on the rows"
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DiscriminativeClustering(3, n_init=1, random_state=0, max_iter=20, algorithm=algorithm)
        check_estimator(model, expected_failed_checks=expected, on_skip=None)


@pytest.mark.parametrize("algorithm", ["map", "online"])
def test_finds_the_relevant_direction_where_k_means_cannot(algorithm):
    X, c = bands()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DiscriminativeClustering(2, n_init=1, max_iter=60, random_state=0, algorithm=algorithm).fit(X, c)
    labels = KMeans(2, n_init=4, random_state=0).fit_predict(X)
    table = np.array([[np.sum((labels == j) & (c == i)) for i in range(2)] for j in range(2)], dtype=float)
    assert model.voronoi_mutual_information_ >= 0.95 * np.log(2)
    assert mutual_information(table) < 0.2 * np.log(2)


def test_memberships_keep_their_word(fitted):
    X, _, model = fitted
    U = model.memberships_
    assert np.isfinite(U).all()
    assert U.min() >= 0
    np.testing.assert_allclose(U.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(model.labels_, U.argmax(axis=1))
    np.testing.assert_array_equal(model.predict_proba(X), U)
    np.testing.assert_array_equal(model.transform(X), U)
    assert (np.diff(model.history_) >= -1e-12 * np.abs(model.objective_)).all()
    np.testing.assert_allclose(model.class_distributions_.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_class_proba(X).sum(axis=1), 1.0)


def test_labels_are_voronoi_cells_of_the_centers(fitted):
    X, c, model = fitted
    nearest = ((X[:, None] - model.cluster_centers_) ** 2).sum(-1).argmin(1)
    np.testing.assert_array_equal(model.labels_, nearest)
    table = np.zeros((4, 3))
    np.add.at(table, (nearest, c), 1)
    np.testing.assert_allclose(model.voronoi_table_, table)
    assert model.voronoi_mutual_information_ == pytest.approx(mutual_information(table))


@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize("spread", [1.0, np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_gradient_over_blocks_equals_finite_differences(penalty, spread, sparse):
    X, c = blobs(1, n=700)
    Q = class_rows(c, len(X))[0]
    rows = Rows(sp.csr_array(X) if sparse else X, Q, n_jobs=2)
    problem = Problem(rows, Frame.of(rows), np.full(3, 0.7), spread**-2.0, penalty, 700.0)
    centers = np.random.default_rng(0).normal(size=(4, 3)) + problem.frame.middle

    def value(flat):
        M = flat.reshape(4, 3)
        return problem.objective(problem.table(M, 0.6), M)

    steps = 1e-5 * np.eye(12)
    numeric = np.array([(value(centers.ravel() + h) - value(centers.ravel() - h)) / 2e-5 for h in steps])
    exact = problem.gradient(problem.table(centers, 0.6), centers, 0.6).ravel()
    assert np.abs(exact - numeric).max() <= 1e-6 * np.abs(numeric).max()


def test_distributions_of_certain_classes_equal_classes():
    X, c = blobs()
    names = np.array(["a", "b", "c"])[c]
    model = DiscriminativeClustering(3, random_state=0, n_init=1)
    by_label = model.fit(X, names).memberships_
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.fit(X, np.eye(3)[c]).memberships_, by_label, atol=1e-7)


def test_weights_are_copies_and_order_does_not_matter():
    X, c = blobs()
    rng = np.random.default_rng(1)
    w = rng.integers(0, 4, size=len(X))
    model = DiscriminativeClustering(3, random_state=0)
    by_weight = model.fit(X, c, sample_weight=w).predict_proba(X)
    np.testing.assert_allclose(model.fit(np.repeat(X, w, axis=0), np.repeat(c, w)).predict_proba(X), by_weight, atol=1e-6)
    order = rng.permutation(len(X))
    np.testing.assert_allclose(model.fit(X[order], c[order], sample_weight=w[order]).predict_proba(X), by_weight, atol=1e-6)


@pytest.mark.parametrize("factor, shift", [(1e12, 0.0), (1e-12, 0.0), (1.0, 1e6), (3.0, -50.0)])
def test_units_do_not_matter(factor, shift, fitted):
    X, c, model = fitted
    other = DiscriminativeClustering(4, random_state=0, n_init=2).fit(factor * X + shift, c)
    np.testing.assert_allclose(other.memberships_, model.memberships_, atol=1e-5)
    assert other.bandwidth_ == pytest.approx(factor * model.bandwidth_, rel=1e-5)


def test_sparse_float32_threads_and_readonly(fitted):
    X, c, model = fitted
    make = DiscriminativeClustering(4, random_state=0, n_init=2)
    np.testing.assert_allclose(make.fit(sp.csr_array(X), c).memberships_, model.memberships_, atol=1e-6)
    single = make.fit(X.astype(np.float32), c)
    assert single.memberships_.dtype == np.float32
    assert single.predict_class_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.memberships_, model.memberships_, atol=1e-3)
    locked = X.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(make.set_params(n_jobs=2).fit(locked, c).memberships_, model.memberships_)


def test_blocks_and_threads_do_not_matter():
    X, c = blobs(2, n=20_000)
    answers = [DiscriminativeClustering(3, n_init=1, max_iter=8, tol=1.0, random_state=0, n_jobs=j).fit(X, c).memberships_ for j in (1, 2)]
    np.testing.assert_array_equal(*answers)


def test_starts_compete_on_a_sample_of_many_objects(monkeypatch):
    X, c = blobs(6, n=1200)
    whole = DiscriminativeClustering(3, random_state=0).fit(X, c)
    monkeypatch.setattr("sfumato.models._discriminative.SAMPLE", 300)
    sampled = DiscriminativeClustering(3, random_state=0, bandwidth=whole.bandwidth_).fit(X, c)
    assert sampled.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    doubled = DiscriminativeClustering(3, random_state=0, bandwidth=whole.bandwidth_).fit(X, np.eye(3)[c], sample_weight=np.full(1200, 2.0))
    assert doubled.table_.sum() == pytest.approx(2400)


def test_score_is_the_log_probability_of_new_classes(fitted):
    X, c, model = fitted
    new, d = blobs(7, n=40)
    one_by_one, table = 0.0, model.voronoi_table_.copy()
    for j, i in zip(model.predict(new), d):
        one_by_one += np.log((1.0 + table[j, i]) / (3.0 + table[j].sum()))
        table[j, i] += 1
    assert model.score(new, d) == pytest.approx(one_by_one / 40)
    assert model.score(new, d) > model.score(new, (d + 1) % 3)


def test_evidence_peaks_at_the_number_of_cells():
    rng = np.random.default_rng(0)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    z = rng.integers(4, size=400)
    X, c = 3.0 * corners[z] + rng.normal(size=(400, 2)), np.array([0, 1, 1, 0])[z]
    evidence = {k: DiscriminativeClustering(k, random_state=0).fit(X, c).log_evidence_ for k in (2, 3, 4, 5, 7)}
    assert max(evidence, key=evidence.get) == 4


def test_size_penalty_evens_out_the_clusters():
    X, c = blobs(3, n=200)
    spread = [np.ptp(DiscriminativeClustering(5, size_penalty=t, random_state=0).fit(X, c).table_.sum(axis=1)) for t in (0.0, 2.0)]
    assert spread[1] < 0.5 * spread[0]


def test_annealing_and_more_starts_do_not_hurt():
    X, c = load_wine(return_X_y=True)
    X = scale(X)
    few = DiscriminativeClustering(5, n_init=1, random_state=0).fit(X, c)
    many = DiscriminativeClustering(5, n_init=6, random_state=0).fit(X, c)
    assert many.objective_ >= few.objective_ - 1e-3


def test_online_comes_close_to_batch():
    X, c = blobs(4, n=3000)
    batch = DiscriminativeClustering(3, random_state=0, n_init=1).fit(X, c)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        online = DiscriminativeClustering(3, random_state=0, n_init=1, algorithm="online", max_iter=20, bandwidth=batch.bandwidth_).fit(
            X, c
        )
    assert online.objective_ >= batch.objective_ - 0.02 * abs(batch.objective_)
    assert (np.diff(online.history_) >= 0).all()


def test_partial_fit_learns_from_chunks():
    X, c = blobs(5, n=4000)
    model = DiscriminativeClustering(3, random_state=0)
    for rows in np.array_split(np.arange(4000), 20):
        model.partial_fit(X[rows], c[rows], classes=[0, 1, 2])
    assert model.memberships_.shape == (200, 3)
    batch = DiscriminativeClustering(3, random_state=0).fit(X, c)
    assert model.score(X, c) >= batch.score(X, c) - 0.02
    with pytest.raises(ValueError, match="not fitted: \\[9\\]"):
        model.partial_fit(X[:5], [0, 1, 9, 0, 1])


@pytest.mark.parametrize("seed", range(4))
def test_classes_that_features_know_nothing_of_are_named(seed):
    rng = np.random.default_rng(seed)
    with pytest.warns(EvidenceWarning, match="shuffled classes"):
        DiscriminativeClustering(3, random_state=seed).fit(rng.normal(size=(200, 3)), rng.integers(3, size=200))


def test_odd_data_are_survived():
    with pytest.warns(EvidenceWarning):
        constant = DiscriminativeClustering(3, random_state=0).fit(np.full((20, 2), 0.1), np.arange(20) % 2)
    np.testing.assert_allclose(constant.memberships_, 1 / 3)
    with pytest.warns(EvidenceWarning):
        one_class = DiscriminativeClustering(2, random_state=0).fit(blobs()[0], np.zeros(90))
    assert one_class.mutual_information_ == 0.0
    X, c = load_iris(return_X_y=True)
    many = DiscriminativeClustering(2, random_state=0, n_init=1).fit(X, c)  # fewer clusters than classes
    assert many.voronoi_mutual_information_ > 0.6


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"prior": 0.0}, "prior must be a positive number"),
        ({"prior": [1.0, 1.0]}, "prior must be a positive number or 3"),
        ({"bandwidth": -1.0}, "bandwidth must lie"),
        ({"bandwidth": "wide"}, "bandwidth must be"),
        ({"spread": 0.0}, "spread must lie"),
        ({"size_penalty": -1.0}, "size_penalty must lie"),
        ({"algorithm": "sgd"}, "algorithm must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must lie"),
        ({"n_clusters": 91}, "n_clusters=91 is more"),
    ],
)
def test_errors_name_the_parameter(parameters, message):
    X, c = blobs()
    with pytest.raises((ValueError, TypeError), match=message):
        DiscriminativeClustering(**{"n_clusters": 3} | parameters).fit(X, c)


@pytest.mark.parametrize(
    "y, message",
    [(None, "requires y"), (np.ones(89), "90 classes"), (np.full((90, 2), 0.7), "sum to 1"), (np.linspace(0, 1, 90), "continuous")],
)
def test_errors_name_the_classes(y, message):
    with pytest.raises(ValueError, match=message):
        DiscriminativeClustering(3).fit(blobs()[0], y)
