"""Discriminative clustering as an estimator.

The membership contract, what it finds, and what it refuses.
"""

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
from sfumato.metrics import adjusted_rand_index, normalized_mutual_information
from sfumato.models.discriminative.classes import class_rows
from sfumato.models.discriminative.problem import TUNING, Frame, Problem, Rows
from sfumato.models.discriminative.starts import _k_means_in_classes
from sfumato.numerics.contingency import mutual_information
from tolerances import settled, stopped

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


@pytest.mark.slow  # tests/test_scikit_learn.py runs the checks with few starts
@pytest.mark.parametrize("algorithm", ["map", "online"])
def test_passes_the_checks_of_scikit_learn(algorithm):
    expected = (
        EXPECTED
        if algorithm == "map"
        else EXPECTED
        | dict.fromkeys(
            (
                "check_sample_weight_equivalence_on_dense_data",
                "check_sample_weight_equivalence_on_sparse_data",
            ),
            "draws depend on the rows",
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DiscriminativeClustering(
            3, n_init=1, random_state=0, max_iter=20, algorithm=algorithm
        )
        check_estimator(model, expected_failed_checks=expected, on_skip=None)


@pytest.mark.parametrize("algorithm", ["map", "online"])
def test_finds_the_relevant_direction_where_k_means_cannot(algorithm):
    X, c = bands()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DiscriminativeClustering(
            2, n_init=1, max_iter=60, random_state=0, algorithm=algorithm
        ).fit(X, c)
    labels = KMeans(2, n_init=4, random_state=0).fit_predict(X)
    table = np.array(
        [[np.sum((labels == j) & (c == i)) for i in range(2)] for j in range(2)], dtype=float
    )
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
    rows = Rows(sp.csr_array(X) if sparse else X, Q)
    problem = Problem(rows, Frame.of(rows), np.full(3, 0.7), spread**-2.0, penalty, 700.0)
    centers = np.random.default_rng(0).normal(size=(4, 3)) + problem.frame.middle

    def value(flat):
        M = flat.reshape(4, 3)
        return problem.objective(problem.table(M, 0.6), M)

    steps = 1e-5 * np.eye(12)
    numeric = np.array(
        [(value(centers.ravel() + h) - value(centers.ravel() - h)) / 2e-5 for h in steps]
    )
    exact = problem.gradient(problem.table(centers, 0.6), centers, 0.6).ravel()
    assert np.abs(exact - numeric).max() <= 1e-6 * np.abs(numeric).max()


def test_distributions_of_certain_classes_equal_classes():
    X, c = blobs()
    names = np.array(["a", "b", "c"])[c]
    model = settled(DiscriminativeClustering(3, random_state=0, n_init=1))
    by_label = model.fit(X, names).memberships_
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(
        model.fit(X, np.eye(3)[c]).memberships_, by_label, atol=stopped(model)
    )


def test_weights_are_copies_and_order_does_not_matter():
    X, c = blobs()
    rng = np.random.default_rng(1)
    w = rng.integers(0, 4, size=len(X))
    model = DiscriminativeClustering(3, random_state=0)
    by_weight = model.fit(X, c, sample_weight=w).predict_proba(X)
    np.testing.assert_allclose(
        model.fit(np.repeat(X, w, axis=0), np.repeat(c, w)).predict_proba(X), by_weight, atol=1e-6
    )
    order = rng.permutation(len(X))
    np.testing.assert_allclose(
        model.fit(X[order], c[order], sample_weight=w[order]).predict_proba(X), by_weight, atol=1e-6
    )


@pytest.mark.parametrize("factor, shift", [(1e12, 0.0), (1e-12, 0.0), (1.0, 1e6), (3.0, -50.0)])
def test_units_do_not_matter(factor, shift, fitted):
    X, c, model = fitted
    other = DiscriminativeClustering(4, random_state=0, n_init=2).fit(factor * X + shift, c)
    np.testing.assert_allclose(other.memberships_, model.memberships_, atol=1e-5)
    assert other.bandwidth_ == pytest.approx(factor * model.bandwidth_, rel=1e-5)


def test_sparse_float32_and_readonly(fitted):
    X, c, model = fitted
    make = DiscriminativeClustering(4, random_state=0, n_init=2)
    np.testing.assert_allclose(
        make.fit(sp.csr_array(X), c).memberships_, model.memberships_, atol=1e-6
    )
    single = make.fit(X.astype(np.float32), c)
    assert single.memberships_.dtype == np.float32
    assert single.predict_class_proba(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.memberships_, model.memberships_, atol=1e-3)
    locked = X.copy()
    locked.flags.writeable = False
    np.testing.assert_array_equal(make.fit(locked, c).memberships_, model.memberships_)


@pytest.mark.parametrize(
    ("sizes", "k", "shares"),
    [((50, 32), 4, (2, 2)), ((50, 28), 4, (3, 1)), ((9, 60, 9), 5, (1, 3, 1))],
)
def test_classes_share_the_first_centers_by_size(sizes, k, shares):
    """As seats are shared by Webster's method, where every class has one."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(len(labels), 2)) + 1000.0 * labels[:, None]
    centers = _k_means_in_classes(X, labels, np.ones(len(X)), k, np.random.default_rng(0))
    found = np.bincount(np.rint(centers[:, 0] / 1000).astype(int))
    np.testing.assert_array_equal(found, shares)


def test_starts_compete_on_a_sample_of_many_objects(monkeypatch):
    X, c = blobs(6, n=1200)
    whole = DiscriminativeClustering(3, random_state=0).fit(X, c)
    monkeypatch.setattr("sfumato.models.discriminative.problem.TUNING", TUNING._replace(sample=300))
    sampled = DiscriminativeClustering(3, random_state=0, bandwidth=whole.bandwidth_).fit(X, c)
    assert sampled.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    doubled = DiscriminativeClustering(3, random_state=0, bandwidth=whole.bandwidth_).fit(
        X, np.eye(3)[c], sample_weight=np.full(1200, 2.0)
    )
    assert doubled.table_.sum() == pytest.approx(2400)


def test_score_is_the_log_probability_of_new_classes(fitted):
    X, c, model = fitted
    new, d = blobs(7, n=40)
    one_by_one, table = 0.0, model.voronoi_table_.copy()
    for j, i in zip(model.predict(new), d, strict=True):
        one_by_one += np.log((1.0 + table[j, i]) / (3.0 + table[j].sum()))
        table[j, i] += 1
    assert model.score(new, d) == pytest.approx(one_by_one / 40)
    assert model.score(new, d) > model.score(new, (d + 1) % 3)


def test_evidence_peaks_at_the_number_of_cells():
    rng = np.random.default_rng(0)
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    z = rng.integers(4, size=400)
    X, c = 3.0 * corners[z] + rng.normal(size=(400, 2)), np.array([0, 1, 1, 0])[z]
    evidence = {
        k: DiscriminativeClustering(k, random_state=0).fit(X, c).log_marginal_likelihood_
        for k in (2, 3, 4, 5, 7)
    }
    assert max(evidence, key=evidence.get) == 4


def test_size_penalty_evens_out_the_clusters():
    X, c = blobs(3, n=200)
    spread = [
        np.ptp(
            DiscriminativeClustering(5, size_penalty=t, random_state=0).fit(X, c).table_.sum(axis=1)
        )
        for t in (0.0, 2.0)
    ]
    assert spread[1] < 0.5 * spread[0]


def test_more_starts_do_not_hurt():
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
        online = DiscriminativeClustering(
            3, random_state=0, n_init=1, algorithm="online", max_iter=20, bandwidth=batch.bandwidth_
        ).fit(X, c)
    assert online.objective_ >= batch.objective_ - 0.02 * abs(batch.objective_)
    assert (np.diff(online.history_) >= 0).all()


def smooth(rng, n):
    """Classes whose probabilities change smoothly with the features."""
    X = rng.normal(size=(n, 4))
    P = np.exp(2 * np.tanh(X) @ rng.normal(size=(4, 3)))
    return X, (P.cumsum(axis=1) > P.sum(axis=1, keepdims=True) * rng.random((n, 1))).argmax(axis=1)


def wide(rng, n):
    """One feature of thirty times the spread, on whose scale the online steps would be coarse."""
    c = rng.integers(3, size=n)
    return np.c_[30 * rng.normal(size=n), (c - 1) * 3 + rng.normal(size=n)], c


@pytest.mark.parametrize(("make", "k"), [(smooth, 4), (wide, 3)])
@pytest.mark.parametrize("seed", [0, 2])
def test_online_comes_within_a_hundredth_of_batch_from_one_start(make, k, seed):
    X, c = make(np.random.default_rng(seed), 2000)
    settings = {"n_init": 1, "random_state": 0}
    batch = DiscriminativeClustering(k, **settings).fit(X, c)
    online = DiscriminativeClustering(k, algorithm="online", max_iter=30, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        online.fit(X, c)
    assert online.objective_ >= batch.objective_ - 0.01 * abs(batch.objective_)


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
        DiscriminativeClustering(3, random_state=seed).fit(
            rng.normal(size=(200, 3)), rng.integers(3, size=200)
        )


def test_odd_data_are_survived():
    with pytest.warns(EvidenceWarning):
        constant = DiscriminativeClustering(3, random_state=0).fit(
            np.full((20, 2), 0.1), np.arange(20) % 2
        )
    np.testing.assert_allclose(constant.memberships_, 1 / 3)
    with pytest.warns(EvidenceWarning):
        one_class = DiscriminativeClustering(2, random_state=0).fit(blobs()[0], np.zeros(90))
    assert one_class.mutual_information_ == 0.0
    X, c = load_iris(return_X_y=True)
    many = DiscriminativeClustering(2, random_state=0, n_init=1).fit(
        X, c
    )  # fewer clusters than classes
    assert many.voronoi_mutual_information_ > 0.6


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"prior": 0.0}, "prior must hold positive numbers"),
        ({"prior": [1.0, 1.0]}, "prior must be an array of shape .* or \\(3,\\)"),
        ({"bandwidth": -1.0}, "bandwidth must lie"),
        ({"bandwidth": "wide"}, "bandwidth must be"),
        ({"spread": 0.0}, "spread must lie"),
        ({"size_penalty": -1.0}, "size_penalty must lie"),
        ({"algorithm": "sgd"}, "algorithm must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must lie"),
        ({"n_clusters": 91}, "n_clusters=91 exceeds"),
    ],
)
def test_errors_name_the_parameter(parameters, message):
    X, c = blobs()
    with pytest.raises((ValueError, TypeError), match=message):
        DiscriminativeClustering(**{"n_clusters": 3} | parameters).fit(X, c)


@pytest.mark.parametrize(
    "y, message",
    [
        (None, "requires y"),
        (np.ones(89), "90 classes"),
        (np.full((90, 2), 0.7), "sum to 1"),
        (np.linspace(0, 1, 90), "continuous"),
    ],
)
def test_errors_name_the_classes(y, message):
    with pytest.raises(ValueError, match=message):
        DiscriminativeClustering(3).fit(blobs()[0], y)


FLOWERS = load_iris().data[::3], load_iris().target[::3]
NAMES = np.array(["a", "b", "c"])[FLOWERS[1]]


def model_of(**parameters):
    return DiscriminativeClustering(4, random_state=0, **{"n_init": 1} | parameters)


@pytest.mark.parametrize(
    "form", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix, sp.coo_array]
)
def test_every_sparse_form_answers_like_the_dense_one(form):
    X, c = FLOWERS
    dense = model_of().fit(X, c)
    model = model_of().fit(form(X), c)
    np.testing.assert_allclose(model.memberships_, dense.memberships_, atol=1e-4)
    np.testing.assert_array_equal(model.predict_proba(form(X)), model.memberships_)
    assert model.score(form(X), c) == pytest.approx(dense.score(X, c))
    assert model_of().partial_fit(form(X), c).partial_fit(form(X), c).memberships_.shape == (50, 4)


def test_long_indices_are_shortened():
    X, c = FLOWERS
    short = sp.csr_array(X)
    long = sp.csr_array(
        (short.data, short.indices.astype(np.int64), short.indptr.astype(np.int64)), shape=X.shape
    )
    assert long.indices.dtype == np.int64
    np.testing.assert_array_equal(
        model_of().fit(long, c).memberships_, model_of().fit(short, c).memberships_
    )


def with_nat(dates):
    dates[3] = np.datetime64("NaT", "D")
    return dates


def with_gap(values, gap):
    values = np.asarray(values).astype(object)
    values[3] = gap
    return values


@pytest.mark.parametrize(
    "y",
    [
        with_gap(NAMES, None),
        with_gap(NAMES, np.nan),
        with_gap(FLOWERS[1], None),
        with_gap(NAMES, None).tolist(),
        with_gap(NAMES, np.nan).tolist(),
        np.where(FLOWERS[1] == 1, np.nan, FLOWERS[1]),
        with_nat(np.datetime64("2020-01-01") + FLOWERS[1]),
    ],
)
def test_missing_classes_are_unlabelled(y):
    X = FLOWERS[0]
    values = list(y)
    known = np.array([value is not None and value == value for value in values])
    assert 0 < known.sum() < 50
    model = model_of().fit(X, y)
    alone = model_of().fit(X[known], np.array(values, dtype=getattr(y, "dtype", object))[known])
    np.testing.assert_array_equal(model.classes_, alone.classes_)
    np.testing.assert_allclose(model.cluster_centers_, alone.cluster_centers_, atol=1e-6)
    assert model.table_.sum() == pytest.approx(known.sum())


@pytest.mark.parametrize("gap", [-1, "-1", "", None, np.nan])
def test_among_strings_every_mark_of_other_models_means_unlabelled(gap):
    y = with_gap(NAMES, gap).tolist()
    assert model_of().fit(FLOWERS[0], y).classes_.tolist() == sorted(set(NAMES))


@pytest.mark.parametrize("kind", ["string", "Int64", "boolean", "category"])
def test_classes_of_pandas(kind):
    pandas = pytest.importorskip("pandas")
    X, c = FLOWERS
    y = pandas.Series({"Int64": c, "boolean": c == 1}.get(kind, NAMES)).astype(kind)
    assert np.isfinite(model_of().fit(X, y).memberships_).all()
    y[3] = pandas.NA
    assert model_of().fit(X, y).table_.sum() == pytest.approx(y.notna().sum())


@pytest.mark.parametrize(
    "y, message",
    [
        (np.ma.masked_array(FLOWERS[1], FLOWERS[1] == 1), "y is a masked array"),
        ([1, *NAMES[1:]], "y mixes strings"),
        (with_gap(NAMES, 1), "y mixes strings"),
        (NAMES.astype("S"), "y must hold integers or strings, got dtype"),
        (FLOWERS[1] * 1j, "y must hold integers or strings, got dtype"),
        ([[1, 2]] * 49 + [[1]], "y must be an array of classes"),
        ({"a": 1}, "y must hold 50 classes"),
        (np.stack([NAMES, NAMES], axis=1), "y, class distributions, must hold numbers"),
        (np.full((50, 3), 1e308), "sum to 1"),
        (np.empty((50, 0)), "y must hold 50 classes"),
        (np.where(FLOWERS[1] == 1, np.inf, 0.0), "y contains infinity"),
        (with_gap(FLOWERS[1], np.inf), "y contains infinity"),
        (with_gap(FLOWERS[1], 10**30), "y holds integers of more than 64 bits"),
        (with_gap(FLOWERS[1], (1, 2)), "y must hold integers or strings, got a tuple"),
        (with_gap(FLOWERS[1], 0.5), "y is continuous"),
    ],
)
def test_odd_classes_are_named(y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model_of().fit(FLOWERS[0], y)
    fitted = model_of().fit(*FLOWERS)
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.score(FLOWERS[0], y)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix])
def test_sparse_classes_equal_dense_ones(form):
    X, c = FLOWERS
    expected = model_of().fit(X, np.eye(3)[c]).memberships_
    np.testing.assert_array_equal(model_of().fit(X, form(np.eye(3)[c])).memberships_, expected)
    np.testing.assert_array_equal(model_of().fit(X, form(c[:, None])).classes_, [0, 1, 2])


def test_a_class_for_each_object_is_weak_evidence():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model_of().fit(FLOWERS[0], np.arange(50))
    assert {warning.category for warning in caught} == {EvidenceWarning}


@pytest.mark.parametrize(
    "classes, message",
    [
        ([0, "a"], "classes mixes strings"),
        ([], "classes is empty"),
        (["a", "b"], "not fitted: \\[0, 1, 2\\]"),
    ],
)
def test_errors_name_the_classes_to_come(classes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model_of().partial_fit(*FLOWERS, classes=classes)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_units_that_nothing_can_square(form):
    X, c = FLOWERS
    with pytest.raises(
        ValueError, match="X has values as large as 8e.160, whose squares overflow: change units"
    ):
        model_of().fit(form(X * 1e160), c)
    expected = model_of().fit(form(X), c)
    for factor in (1e-170, 1e140):
        tiny = model_of().fit(form(X * factor), c)
        np.testing.assert_allclose(tiny.memberships_, expected.memberships_, atol=1e-4)
        assert np.isfinite(tiny.cluster_centers_).all()
    far = expected.predict_proba(form(X * 1e100))
    np.testing.assert_allclose(far.sum(axis=1), 1.0, atol=1e-12)


def test_clusters_come_by_size_whatever_the_order_of_the_objects():
    X, c = bands()
    shuffle = np.random.default_rng(1).permutation(len(X))
    model, again = (
        DiscriminativeClustering(4, n_init=2, random_state=0).fit(X[rows], c[rows])
        for rows in (np.arange(len(X)), shuffle)
    )
    assert (np.diff(model.memberships_.sum(axis=0)) <= 0).all()
    assert (np.diff(model.table_.sum(axis=1)) <= 0).all()
    np.testing.assert_allclose(again.memberships_, model.memberships_[shuffle], atol=1e-3)


def test_one_of_several_numbers_is_chosen():
    X, c = bands()
    model = DiscriminativeClustering((2, 3, 12), n_init=1, random_state=0).fit(X, c)
    assert set(model.held_out_information_) <= {1, 2, 3, 12}
    assert model.n_clusters_ in (2, 3, 12)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"bandwidth": 1e-300}, "bandwidth=1e-300 is out of all proportion .*'auto'"),
        ({"bandwidth": 1e300}, "bandwidth=1e.300 is out of all proportion"),
        ({"spread": 1e-300}, r"spread must lie in \[1e-10, inf\], got 1e-300"),
        ({"spread": 0}, r"spread must lie in \[1e-10, inf\], got 0"),
        ({"size_penalty": np.inf}, "size_penalty must lie in .* got inf"),
        (
            {"algorithm": "online", "learning_rate": 1e300},
            "learning_rate must lie in .* got 1e.300",
        ),
        ({"prior": "x"}, "prior must be an array of numbers .* got .x."),
        ({"prior": [1, [2]]}, "prior must be an array of numbers"),
        ({"prior": 1e308}, "prior must hold positive numbers"),
        ({"max_clusters": 1}, "max_clusters must"),
    ],
)
def test_extreme_parameters_are_named(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model_of(**parameters).fit(*FLOWERS)


@pytest.mark.parametrize(
    "parameters",
    [
        {"bandwidth": 1e-14},
        {"bandwidth": 1e14},
        {"spread": 1e-10},
        {"spread": 1e300},
        {"size_penalty": 1e12},
        {"tol": 1e300},
        {"prior": 1e9},
        {"prior": 1e-50},
        {"learning_rate": 9e5, "algorithm": "online"},
        {
            "learning_rate": 1e-300,
            "algorithm": "online",
            "size_penalty": 1e12,
            "spread": 1e-10,
            "bandwidth": 1e14,
        },
    ],
)
@pytest.mark.parametrize("weight", [1.0, 1e28, 1e-28])
def test_what_is_just_allowed_gives_finite_answers(parameters, weight):
    X, c = FLOWERS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = model_of(max_iter=20, **parameters).fit(X, c, sample_weight=np.full(50, weight))
        models = (
            model,
            model_of(**parameters)
            .partial_fit(X, c)
            .partial_fit(X * 1e70, c, sample_weight=np.full(50, weight)),
        )
    for model in models:
        for name in (
            "memberships_",
            "cluster_centers_",
            "class_distributions_",
            "history_",
            "log_marginal_likelihood_",
            "mutual_information_",
        ):
            assert np.isfinite(getattr(model, name)).all(), name
        np.testing.assert_allclose(model.memberships_.sum(axis=1), 1.0)


@pytest.mark.parametrize("weight", [1e300, 1e308, 1e-300, 1e-320])
def test_weights_that_count_nothing_are_named(weight):
    X, c = FLOWERS
    with pytest.raises(ValueError, match="sample_weight (sums to|is too)"):
        model_of().fit(X, c, sample_weight=np.full(50, weight))
    with pytest.raises(ValueError, match="sample_weight (sums to|is too)"):
        model_of().fit(X, c).score(X, c, sample_weight=np.full(50, weight))


def test_classes_to_come_may_be_a_set():
    assert model_of().partial_fit(*FLOWERS, classes={3, 0, 1, 2}).classes_.tolist() == [0, 1, 2, 3]


def test_a_chunk_after_fit_starts_anew():
    X, c = FLOWERS
    model = model_of().partial_fit(X, c).fit(X[::-1] * 3, c[::-1])
    np.testing.assert_array_equal(
        model.partial_fit(X, c).cluster_centers_, model_of().partial_fit(X, c).cluster_centers_
    )


def test_classes_are_the_same_in_every_dress():
    X, _ = FLOWERS
    model = model_of().fit(X, NAMES)
    for y in (NAMES.astype(object), NAMES.tolist(), NAMES[:, None], NAMES.astype("U9")):
        assert model.score(X, y) == model.score(X, NAMES)
    with pytest.raises(ValueError, match="not fitted: \\[0, 1, 2\\]; known: \\['a', 'b', 'c'\\]"):
        model.score(X, FLOWERS[1].astype(object))


@pytest.mark.parametrize("seed", range(2))
def test_a_feature_of_large_spread_that_says_nothing_is_ignored(seed):
    """Three classes along one feature, thirty times the spread along the other.

    k-means sees only the latter.
    """
    rng = np.random.default_rng(seed)
    c = rng.integers(0, 3, 600)
    X = np.c_[60 * rng.normal(size=600), 8 * c + rng.normal(size=600)]
    model = DiscriminativeClustering(3, n_init=1, max_iter=100, random_state=0).fit(X, c)
    assert normalized_mutual_information(c, model.labels_) > 0.95


def test_missing_values_cost_little(rng):
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 4)) + 4 * np.eye(3, 4)[y]
    gaps = X.copy()
    gaps[rng.random(X.shape) < 0.15] = np.nan
    model = DiscriminativeClustering(3, random_state=0).fit(gaps, y)
    assert adjusted_rand_index(y, model.labels_) > 0.8
    assert np.isfinite(model.cluster_centers_).all()
    np.testing.assert_allclose(model.predict_proba(gaps), model.memberships_, atol=1e-12)
    with pytest.raises(ValueError, match="feature 1"):
        DiscriminativeClustering(3).fit(np.where([False, True, False, False], np.nan, X), y)


def test_minus_one_is_unlabelled():
    X, c = blobs()
    unknown = np.random.default_rng(0).random(len(c)) < 0.4
    y = np.where(unknown, -1, c)
    model = DiscriminativeClustering(3, random_state=0).fit(X, y)
    alone = DiscriminativeClustering(3, random_state=0).fit(X[~unknown], c[~unknown])
    np.testing.assert_array_equal(model.classes_, np.unique(c))
    np.testing.assert_allclose(model.cluster_centers_, alone.cluster_centers_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), model.memberships_, atol=1e-12)
    assert model.score(X, y) == pytest.approx(model.score(X[~unknown], c[~unknown]))
    weighted = DiscriminativeClustering(3, random_state=0).fit(
        X, y, sample_weight=np.full(len(y), 2.0)
    )
    assert weighted.table_.sum() == pytest.approx(2.0 * np.sum(~unknown))


def test_unlabelled_objects_only_are_refused():
    X, c = blobs()
    with pytest.raises(ValueError, match="-1 or missing everywhere"):
        DiscriminativeClustering(2).fit(X, np.full(len(c), -1))
    y = np.where(np.arange(len(c)) < 20, c, -1)
    with pytest.raises(ValueError, match="wherever sample_weight is positive"):
        DiscriminativeClustering(2).fit(X, y, sample_weight=np.where(y < 0, 1.0, 0.0))
    with pytest.warns(EvidenceWarning, match="-1 means unlabelled"):
        class_rows(np.array([1, -1, 1]), 3)


def test_the_distortion_is_minimised_where_it_is_asked_for():
    X, c = blobs(1, n=300)
    settings = {"bandwidth": 1.0, "spread": np.inf, "random_state": 0}
    integrated = DiscriminativeClustering(3, **settings).fit(X, c)
    explicit = DiscriminativeClustering(3, algorithm="distortion", **settings).fit(X, c)
    assert (np.diff(explicit.history_) >= -1e-9 * abs(explicit.objective_)).all()
    r = explicit.table_
    E = -np.sum(r * np.log(r / r.sum(axis=1, keepdims=True)))
    assert explicit.objective_ == pytest.approx(-E, rel=1e-9)
    s = integrated.table_
    assert -np.sum(s * np.log(s / s.sum(axis=1, keepdims=True))) >= E * (1 - 1e-6)


def test_auto_finds_the_number_that_predicts_held_out_classes():
    rng = np.random.default_rng(0)
    cell = rng.integers(4, size=1200)  # a checkerboard: two classes in four cells
    X = rng.uniform(0.1, 0.9, (1200, 2)) + np.column_stack([cell % 2, cell // 2])
    model = DiscriminativeClustering("auto", random_state=0).fit(X, (cell % 2) ^ (cell // 2))
    assert model.n_clusters_ == 4
    information = model.held_out_information_
    assert information[4] > 0.9 * np.log(2)
    assert information[4] > information[3] + 0.02
    assert information[1] == 0.0


def test_auto_finds_one_cluster_where_features_say_nothing():
    rng = np.random.default_rng(0)
    X, c = rng.normal(size=(300, 3)), rng.integers(2, size=300)
    with pytest.warns(EvidenceWarning, match="no better"):
        assert DiscriminativeClustering("auto", random_state=0).fit(X, c).n_clusters_ == 1
    with pytest.raises(ValueError, match="n_clusters"):
        DiscriminativeClustering("many").fit(X, c)
