"""Checks at the door."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sfumato
from sfumato import ClusteringEnsemble, EvidenceAccumulation, FuzzyCMeans, GaussianMixture
from sfumato.conjugate import NormalInverseWishart
from sfumato.core.labels import check_labelings, encode
from sfumato.core.validation import as_generator, check_choice, check_number, check_weights


@pytest.mark.parametrize(
    "model", [FuzzyCMeans(2, random_state=0), GaussianMixture(2, random_state=0)]
)
@pytest.mark.parametrize(
    "weights",
    [
        np.zeros(90),
        -np.ones(90),
        np.full(90, np.nan),
        np.ones(3),
        "x",
        np.full(90, 1e308),
        np.full(90, 1e-300),
        np.ones((90, 1)),
    ],
)
def test_impossible_weights_are_named(model, weights, blobs):
    with pytest.raises((ValueError, TypeError), match=r"(?i)sample.weight"):
        model.fit(blobs[0], sample_weight=weights)


def test_impossible_ensembles_are_named(blobs):
    for parameter, value in (
        ("algorithms", []),
        ("n_jobs", 0),
        ("subsample", 0.0),
        ("n_partitions", 0),
    ):
        with pytest.raises((ValueError, TypeError), match=parameter):
            ClusteringEnsemble(**{parameter: value}).fit(blobs[0])


def test_numbers_and_choices():
    assert check_number(np.int64(3), "k", integer=True) == 3
    for value, error in ((True, TypeError), ("3", TypeError), (2.5, TypeError), (0, ValueError)):
        with pytest.raises(error, match="k must"):
            check_number(value, "k", low=1, integer=True)
    with pytest.raises(ValueError, match=r"solver must be one of 'a', 'b', got 'c'"):
        check_choice("c", "solver", ("a", "b"))


def test_generators():
    assert as_generator(3).integers(100) == as_generator(3).integers(100)
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator
    assert isinstance(as_generator(np.random.RandomState(0)), np.random.Generator)
    for bad in ("x", -1, 1.5):
        with pytest.raises(ValueError, match="random_state"):
            as_generator(bad)


def test_labelings_are_coded_column_by_column():
    L = check_labelings([["a", "x"], ["b", ""], [None, "x"]])
    np.testing.assert_array_equal(L, [[0, 0], [1, -1], [-1, 0]])
    np.testing.assert_array_equal(
        check_labelings(np.array([[7.0, -1], [np.nan, 5], [3, 5]])), [[1, -1], [-1, 0], [0, 0]]
    )
    nan = float("nan")
    np.testing.assert_array_equal(
        check_labelings([["a", nan], ["a", "x"], ["b", None]]), [[0, -1], [0, 0], [1, -1]]
    )
    np.testing.assert_array_equal(
        check_labelings(np.array([[1], [1.0], ["1"], [True], ["a"]], dtype=object))[:, 0],
        [0, 0, 0, 0, 1],
    )
    with pytest.raises(ValueError, match=r"got 0\.37"):
        check_labelings([[0.37], [1.0]])
    with pytest.raises(ValueError, match="every row as long"):
        check_labelings([[1, 2], [1]])
    masked = np.ma.array([[1, 2], [1, 3]], mask=[[0, 0], [0, 1]])
    np.testing.assert_array_equal(check_labelings(masked), [[0, 0], [0, -1]])
    with pytest.raises(ValueError, match="got inf"):
        check_labelings(np.array([[np.inf, 1.0]]))
    with pytest.raises(ValueError, match="one clustering per column"):
        check_labelings(np.zeros((3, 0)))


@pytest.mark.parametrize(
    "labels",
    [
        [3, 1, 3, -7, 1],
        [10**12, -5, 10**12],
        ["b", "a", "b"],
        [2.5, -1.0, 2.5],
        np.array(["b", "a", "b"], dtype=object),
        np.array([], dtype=int),
    ],
)
def test_codes_are_ranks_of_the_sorted_labels(labels):
    assert_array_equal(encode(labels), np.unique(labels, return_inverse=True)[1])


def test_labels_that_cannot_be_compared_are_coded_as_they_come():
    assert_array_equal(encode(np.array(["b", 1, None, "b"], dtype=object)), [0, 1, 2, 0])


@pytest.mark.parametrize(
    "use",
    [
        lambda table: sfumato.GaussianMixture(2, random_state=0).fit(table),
        lambda table: sfumato.FuzzyCMeans(2, random_state=0).fit(table),
        lambda table: sfumato.MixedMixture(2, random_state=0).fit(table),
        lambda table: sfumato.EvidenceAccumulation(2, random_state=0).fit(table),
        lambda table: sfumato.report.describe(table, np.full((30, 2), 0.5)),
    ],
)
def test_columns_of_one_name_are_named(use):
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(30, 5))
    with pytest.raises(ValueError, match="X has several columns called 'a', 'b': rename") as error:
        use(pd.DataFrame(X, columns=["a", "b", "a", "b", "a"]))
    assert type(error.value) is ValueError


@pytest.mark.parametrize("kind", ["<U1", object])
def test_words_name_the_model_that_takes_them(kind):
    words = np.array([["a", "b"], ["a", "c"], ["d", "c"]] * 4, dtype=kind)
    with pytest.raises(ValueError, match="words such as 'a'.*MixedMixture") as caught:
        GaussianMixture(2).fit(words)
    assert "precomputed" not in str(caught.value)
    with pytest.raises(ValueError, match=r"labels of several clusterings.*'precomputed'"):
        EvidenceAccumulation(2).fit(words)
    model = EvidenceAccumulation(2, ensemble="precomputed", random_state=0).fit(words)
    assert model.memberships_.shape == (12, 2)


@pytest.mark.parametrize(
    "model",
    [
        sfumato.StudentMixture(2),
        sfumato.FactorMixture(2, n_factors=1),
        sfumato.MixedMixture(2),
        sfumato.InformationBottleneck(2),
        sfumato.ClusteringEnsemble(3),
        sfumato.EvidenceAccumulation(2, ensemble=sfumato.ClusteringEnsemble(3)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_arrays_of_other_libraries_are_refused_with_a_way_out(model):
    xs = pytest.importorskip("array_api_strict")
    X = xs.asarray(np.random.default_rng(0).random((30, 3)))
    with pytest.raises(TypeError, match=r"not those of array_api_strict: pass np\.asarray\(X\)"):
        model.fit(X)


@pytest.mark.parametrize(
    "model",
    [
        sfumato.FuzzyCMeans(2),
        sfumato.GaussianMixture(2),
        sfumato.DirichletProcessMixture(2),
        sfumato.DiscriminativeClustering(2),
        sfumato.MixtureClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")  # the numbers have no clusters
def test_models_of_tensors_refuse_arrays_of_any_other_library(model):
    xs = pytest.importorskip("array_api_strict")
    X = np.random.default_rng(0).random((30, 3))
    with pytest.raises(TypeError, match=r"not those of array_api_strict: pass np\.asarray\(X\)"):
        model.fit(xs.asarray(X), y=np.arange(30) % 2)
    fitted = model.fit(X, y=np.arange(30) % 2)
    with pytest.raises(TypeError, match=r"not those of array_api_strict: pass np\.asarray\(X\)"):
        fitted.predict_proba(xs.asarray(X))


MODELS_WITH_HOLES = [
    sfumato.GaussianMixture(2, covariance_type="full", random_state=0),
    sfumato.GaussianMixture(2, noise=0.1, random_state=0),
    sfumato.StudentMixture(2, random_state=0),
    sfumato.FactorMixture(2, n_factors=1, random_state=0),
    sfumato.MixedMixture(2, random_state=0),
    sfumato.DirichletProcessMixture(random_state=0),
    sfumato.FuzzyCMeans(2, random_state=0),
]


@pytest.mark.parametrize("model", MODELS_WITH_HOLES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_object_without_any_value_leaves_the_fit_as_it_was(model, kind):
    """Complete objects beside it take the way of complete objects."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, 3)) + 4.0 * (np.arange(60) % 2)[:, None]).astype(kind)
    weights = rng.integers(1, 3, size=60).astype(float)
    alone = clone(model).fit(X, sample_weight=weights)
    at = np.array([0, 17, 60])
    more = np.insert(X, at, np.nan, axis=0)
    empty = np.isnan(more).all(axis=1)
    found = clone(model).fit(more, sample_weight=np.insert(weights, at, 5.0))
    np.testing.assert_array_equal(found.memberships_[~empty], alone.memberships_)
    np.testing.assert_array_equal(found.labels_[~empty], alone.labels_)
    assert found.memberships_.dtype == alone.memberships_.dtype
    expected = found.predict_proba(more[empty])
    np.testing.assert_array_equal(found.memberships_[empty], expected)
    if isinstance(model, sfumato.GaussianMixture):
        np.testing.assert_allclose(expected, np.tile(found.weights_, (3, 1)), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_of_complete_objects_still_refuses_one_without_any_value():
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[3] = np.nan
    model = sfumato.DirichletProcessMixture(
        component=NormalInverseWishart, inference="gibbs", max_iter=3, random_state=0
    )
    with pytest.raises(ValueError, match="missing"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.predict_proba(X[:2])


def test_weights_of_another_length_are_still_named_beside_an_object_without_any_value():
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[3] = np.nan
    with pytest.raises(ValueError, match="sample_weight"):
        sfumato.GaussianMixture(2).fit(X, sample_weight=np.ones(29))
    with pytest.raises(ValueError, match="X"):
        sfumato.GaussianMixture(2).fit(np.full((30, 2), np.nan))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, np.nan, 1.0], "finite numbers, got nan for row 1: give such objects weight 0"),
        ([1.0, 1.0, np.inf], "finite numbers, got inf for row 2"),
        (np.zeros(3), "positive sum, got all zeros: give"),
        (np.ones(2), r"one weight for each of the 3 objects, got shape \(2,\)"),
        (np.ones((3, 2)), r"one weight for each of the 3 objects, got shape \(3, 2\)"),
        (list("abc"), "must hold a number for every object"),
    ],
)
def test_bad_weights_are_named_with_a_fix(weights, message):
    with pytest.raises(ValueError, match=f"sample_weight.*{message}"):
        check_weights(weights, np.ones((3, 2)))
