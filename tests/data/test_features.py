"""Features of every kind: frames, words, other libraries, rows and columns without a value."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sfumato
from cases import CASES
from sfumato import EvidenceAccumulation, GaussianMixture
from sfumato.conjugate import NormalInverseWishart
from sfumato.similarity import knn

TAKE_NAN = [
    case
    for case in CASES
    if case.kind == "features" and case.make(0).__sklearn_tags__().input_tags.allow_nan
]


@pytest.mark.parametrize("case", TAKE_NAN, ids=lambda case: case.name)
@pytest.mark.parametrize("rows", [75, 1])
def test_a_feature_without_any_value_is_named_by_every_model(case, rows):
    X = case.evidence[:rows].copy()
    X[:, 1] = np.nan
    model = case.make(0)
    with pytest.raises(ValueError, match="no value at all in feature 1, only NaN: drop that"):
        model.fit(X, None if case.y is None else case.y[:rows])
    with pytest.raises(NotFittedError):
        model.predict_proba(X)


def test_a_feature_without_any_value_is_named_by_its_name():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    table["b"] = np.nan
    for model in (sfumato.GaussianMixture(2), sfumato.MixedMixture(2), sfumato.FuzzyCMeans(2)):
        with pytest.raises(ValueError, match=r"in feature 1 \('b'\), only NaN"):
            model.fit(table)
    with pytest.raises(ValueError, match="in feature 1, only NaN"):
        knn(table.to_numpy())
    table.loc[299, "b"] = 1.0  # one value is some, even after many rows without
    assert knn(table.to_numpy()).shape == (300, 300)


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
    sfumato.GaussianMixture(2, noise_cluster=0.1, random_state=0),
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
