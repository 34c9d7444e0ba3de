"""The estimator for mixed columns.

Reading of data frames, recovery, missing values, and what it refuses.
"""

import numpy as np
import pytest
from scipy import stats as ss

from sfumato import EvidenceWarning, GaussianMixture, MixedMixture
from sfumato.metrics import adjusted_rand_index
from tolerances import settled, stopped

pd = pytest.importorskip("pandas")
pytest.importorskip("narwhals")
SETTINGS = {"columns": {"income": "log-normal"}, "random_state": 0, "n_init": 4}


def people(n=400, seed=0, holes=0.1):
    """A table of three groups with columns of every kind."""
    rng = np.random.default_rng(seed)
    g = rng.integers(3, size=n)
    table = pd.DataFrame(
        {
            "age": rng.normal(np.array([20.0, 50.0, 50.0])[g], 5),
            "income": np.exp(rng.normal(np.array([1.0, 2.0, 3.0])[g], 0.3)),
            "sex": pd.Categorical(np.where(rng.random(n) < np.array([0.2, 0.5, 0.8])[g], "F", "M")),
            "city": rng.choice(["a", "b", "c"], n),
            "visits": rng.poisson(np.array([1, 4, 9])[g]),
            "smoker": rng.random(n) < np.array([0.1, 0.5, 0.9])[g],
        }
    )
    table.loc[rng.random(n) < holes, "age"] = np.nan
    table.loc[rng.random(n) < holes, "city"] = None
    return table, g


@pytest.fixture(scope="module")
def fitted():
    table, groups = people()
    return MixedMixture(3, **SETTINGS).fit(table), table, groups


def test_types_are_read_as_they_are(fitted):
    assert fitted[0].columns_ == {
        "age": "normal",
        "income": "log-normal",
        "sex": "binary",
        "city": "categorical",
        "visits": "counts",
        "smoker": "binary",
    }


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 1, 0], "binary"),
        ([0, 3, 1, 2], "counts"),
        ([1, 5, 2, 3], "categorical"),
        ([-1, 5, 2, 3], "normal"),
        (list(range(18, 60)), "normal"),
        ([0.0, 1.0, 1.0, 0.0], "normal"),
        ([True, False, True, True], "binary"),
        (["x", "y", "z", "x"], "categorical"),
    ],
)
def test_the_rule_for_kinds(values, kind):
    table = pd.DataFrame({"a": values})
    assert MixedMixture(1, random_state=0).fit(table).columns_ == {"a": kind}


def test_groups_and_parameters_are_recovered(fitted):
    model, _, groups = fitted
    assert adjusted_rand_index(groups, model.labels_) > 0.85
    order = np.argsort(model.parameters_["visits"]["rate"])
    np.testing.assert_allclose(model.parameters_["visits"]["rate"][order], [1, 4, 9], atol=0.7)
    np.testing.assert_allclose(model.parameters_["income"]["mean"][order], [1, 2, 3], atol=0.1)
    np.testing.assert_allclose(model.parameters_["smoker"][True][order], [0.1, 0.5, 0.9], atol=0.12)


def test_the_density_is_that_of_the_published_parameters(fitted):
    model, table, _ = fitted
    few = table.iloc[:20]
    slow = []
    for _, row in few.iterrows():
        joint = np.log(model.weights_)
        theta = model.parameters_
        if row["age"] == row["age"]:
            joint = joint + ss.norm.logpdf(row["age"], *theta["age"].values())
        mean, deviation = theta["income"].values()
        joint = joint + ss.lognorm.logpdf(row["income"], deviation, scale=np.exp(mean))
        joint = joint + ss.poisson.logpmf(row["visits"], theta["visits"]["rate"])
        for name in ("sex", "city", "smoker"):
            if row[name] is not None and row[name] == row[name]:
                joint = joint + np.log(theta[name][row[name]])
        slow.append(np.logaddexp.reduce(joint))
    np.testing.assert_allclose(model.score_samples(few), slow, atol=1e-9)


def test_criteria_follow_from_the_likelihood(fitted):
    model, table, _ = fitted
    total, p = model.score_samples(table).sum(), 2 + 3 * (2 + 2 + 1 + 2 + 1 + 1)
    assert model.log_likelihood_ == pytest.approx(total)
    assert model.bic(table) == pytest.approx(-2 * total + p * np.log(len(table)))
    assert model.aic(table) == pytest.approx(-2 * total + 2 * p)
    sure = np.log(model.memberships_.max(axis=1)).sum()
    assert model.icl(table) == pytest.approx(model.bic(table) - 2 * sure)
    assert model.score(table) == pytest.approx(total / len(table))


def test_polars_gives_the_same(fitted):
    pl = pytest.importorskip("polars")
    model, table, _ = fitted
    other = MixedMixture(3, **SETTINGS).fit(pl.from_pandas(table))
    np.testing.assert_allclose(other.memberships_, model.memberships_, atol=1e-12)
    assert isinstance(other.sample(4)[0], pl.DataFrame)


def test_the_number_of_clusters_is_found():
    table, _ = people(300, seed=3)
    model = MixedMixture(range(1, 6), **SETTINGS).fit(table)
    assert model.n_clusters_ == 3
    assert [row.setting["n_clusters"] for row in model.search_] == [1, 2, 3, 4, 5]
    assert min(model.search_, key=lambda row: row.bic).setting["n_clusters"] == 3


def test_samples_look_like_the_data(fitted):
    model, table, _ = fitted
    drawn, labels = model.sample(4000)
    assert list(drawn.columns) == list(table.columns)
    assert (np.diff(labels) >= 0).all()
    assert drawn["visits"].mean() == pytest.approx(table["visits"].mean(), rel=0.1)
    assert drawn["smoker"].mean() == pytest.approx(table["smoker"].mean(), abs=0.05)
    assert drawn["age"].std() == pytest.approx(table["age"].std(), rel=0.1)
    again = MixedMixture(3, **SETTINGS).fit(drawn.iloc[::8])
    assert again.columns_ == model.columns_


def test_unseen_categories_are_named_and_count_as_missing(fitted):
    model, table, _ = fitted
    new, without = table.iloc[:3].copy(), table.iloc[:3].copy()
    new["city"] = ["Ulm", "Bonn", "Ulm"]
    without["city"] = [None] * 3
    with pytest.warns(EvidenceWarning, match=r"'city'.*'Bonn', 'Ulm'"):
        found = model.predict_proba(new)
    np.testing.assert_allclose(found, model.predict_proba(without))


def test_an_object_without_any_value_has_the_weights_as_memberships():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (30, 2)), rng.normal(6, 1, (60, 2))])
    model = MixedMixture(2, random_state=0).fit(X)
    np.testing.assert_allclose(model.predict_proba([[np.nan, np.nan]])[0], model.weights_)


def test_without_prior_and_correlation_it_is_the_diagonal_gaussian_mixture():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(0, 1, (150, 3)), rng.normal(4, 2, (150, 3))])
    ours = MixedMixture(2, smoothing=1e-9, tol=1e-12, random_state=0).fit(X)
    peer = GaussianMixture(2, covariance_type="diag", tol=1e-12, random_state=0).fit(X)
    assert ours.log_likelihood_ == pytest.approx(peer.objective_, abs=1e-4)
    assert ours.bic(X) == pytest.approx(peer.bic(X), abs=1e-3)


def test_columns_of_arrays_are_named_by_position():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=80), rng.poisson(3, 80), rng.integers(3, size=80)])
    model = MixedMixture(1, columns={"1": "counts", 2: "categorical"}).fit(X)
    assert model.columns_ == {0: "normal", 1: "counts", 2: "categorical"}
    assert model.parameters_[1]["rate"][0] == pytest.approx(X[:, 1].mean())
    np.testing.assert_allclose(
        [model.parameters_[2][float(level)][0] for level in range(3)],
        np.bincount(X[:, 2].astype(int)) / 80,
    )


def test_many_clusters_on_few_objects_do_not_collapse():
    table, _ = people(40)
    model = MixedMixture(12, n_init=2, random_state=0).fit(table)
    assert np.isfinite(model.memberships_).all()
    assert np.isfinite(model.score_samples(table)).all()


def test_structureless_tables_get_a_warning():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3))
    with pytest.warns(EvidenceWarning, match="one cluster describes these data better than 3"):
        MixedMixture(3, n_init=2, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ({"a": [1.0, -2.0]}, {"a": "log-normal"}, "'a' must be positive, got -2"),
        ({"a": [1.0, 2.5]}, {"a": "counts"}, "'a' must hold counts .* got 2.5"),
        ({"a": ["x", "y"]}, {"a": "normal"}, "'a' holds .* cannot be 'normal'"),
        ({"a": ["x", "y", "z"]}, {"a": "binary"}, "'a' has 3 levels"),
        ({"a": [1.0, np.inf]}, None, "'a' contains infinity"),
        ({"a": [np.nan, np.nan]}, None, r"no value at all in feature 0 \('a'\)"),
        ({"a": [1.0, 2.0]}, {"b": "normal"}, "'b', which X does not have; its columns are 'a'"),
        ({"a": [1.0, 2.0]}, {"a": "gamma"}, r"columns\['a'\] must be one of"),
        ({"a": [f"w{i}" for i in range(50)]}, None, "'a' has 50 different values in 50 objects"),
        ({"a": []}, None, "empty"),
    ],
)
def test_bad_columns_are_named(table, columns, message):
    with pytest.raises(ValueError, match=message):
        MixedMixture(1, columns=columns).fit(pd.DataFrame(table))


def test_dates_and_wrong_settings_are_refused():
    table = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(TypeError, match="'when' holds"):
        MixedMixture(1).fit(table)
    with pytest.raises(TypeError, match="columns must map"):
        MixedMixture(1, columns=["normal"]).fit(np.ones((3, 1)))
    with pytest.raises(ValueError, match="smoothing"):
        MixedMixture(1, smoothing=0).fit(np.ones((3, 1)))
    with pytest.raises(ValueError, match="n_clusters"):
        MixedMixture("many").fit(np.ones((3, 1)))


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_columns_of_lists_are_named(value):
    table = pd.DataFrame({"a": np.arange(20.0), "l": [value] * 20})
    with pytest.raises(TypeError, match="column 'l' holds values such as"):
        MixedMixture(2).fit(table)
    good = table.assign(l=list("uv") * 10)
    with pytest.raises(TypeError, match="column 'l' holds values such as"):
        MixedMixture(2, random_state=0).fit(good).predict_proba(table)


def test_objects_that_cannot_be_sorted_are_no_categories():
    with pytest.raises(TypeError, match="column 'o' holds values such as"):
        MixedMixture(2).fit(pd.DataFrame({"o": [object(), object()] * 9}))


@pytest.mark.filterwarnings("ignore::sfumato.EvidenceWarning")
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_values_far_beyond_the_fitted_ones():
    table = pd.DataFrame({"num": 1e-9 * np.arange(40.0), "cat": list("uv") * 20})
    model = MixedMixture(2, random_state=0).fit(table)
    for method in (model.predict_proba, model.score_samples):
        assert np.isfinite(method(table.assign(num=1e152))).all()
        with pytest.raises(ValueError, match=r"X\['num'\] has values as large as 1e\+160"):
            method(table.assign(num=1e160))


@pytest.mark.parametrize("dtype", [object, str])
def test_words_in_arrays_lead_to_data_frames(dtype):
    X = np.array([["a", "b"], ["a", "c"]] * 10, dtype=dtype)
    with pytest.raises(ValueError, match=r"words such as 'a'.*pd.DataFrame\(X\)"):
        MixedMixture(2, columns={0: "categorical", 1: "categorical"}).fit(X)


def test_weights_equal_copies_in_tables():
    table, _ = people(80)
    weights = np.random.default_rng(0).integers(1, 4, 80)
    one = MixedMixture(3, **SETTINGS).fit(table, sample_weight=weights)
    other = MixedMixture(3, **SETTINGS).fit(table.iloc[np.repeat(np.arange(80), weights)])
    first = np.cumsum(weights) - weights
    np.testing.assert_allclose(one.memberships_, other.memberships_[first], atol=1e-6)


@pytest.mark.parametrize(
    ("cells", "dtype", "kind"),
    [
        (["x", "y"], "string", "binary"),
        ([True, False], "boolean", "binary"),
        ([1, 2], "Int64", "binary"),
        ([0, 3, 7], "Int64", "counts"),
        ([0.5, 1.25, 2.0], "Float64", "normal"),
    ],
)
def test_na_of_nullable_columns_is_missing(cells, dtype, kind):
    rng = np.random.default_rng(0)
    values = [*cells, None] * 30
    a = rng.normal(size=len(values))
    table = pd.DataFrame({"a": a, "c": pd.array(values, dtype=dtype)})
    plain = pd.DataFrame({"a": a, "c": pd.Series(values, dtype=object)})
    found = MixedMixture(1, random_state=0).fit(table)
    assert found.columns_["c"] == kind
    expected = MixedMixture(1, columns={"c": kind}, random_state=0).fit(plain)
    np.testing.assert_allclose(found.log_likelihood_, expected.log_likelihood_)
    np.testing.assert_allclose(found.score_samples(table), expected.score_samples(plain))


@pytest.mark.filterwarnings("ignore:one cluster describes")
def test_the_structure_test_reads_numbers_unless_categories_tell_clusters_apart():
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(
        {"a": rng.random(150), "b": rng.random(150), "c": rng.choice(["x", "y"], 150)}
    )
    with pytest.warns(EvidenceWarning, match="one cluster describes"):
        model = MixedMixture(3, n_init=2, random_state=0).fit(noise)
    assert model.structure_.n_apart == 1
    group = np.arange(150) % 3
    apart = noise.assign(a=rng.normal(size=150) + 8 * group, b=rng.poisson(5 + 60 * group))
    model = MixedMixture(3, n_init=2, random_state=0).fit(apart[["a", "b"]])
    assert model.structure_.supported
    names = noise.assign(c=np.array(list("xyz"))[group], d=np.array(list("uvw"))[group])
    model = MixedMixture(3, n_init=5, random_state=0).fit(names)
    assert not hasattr(model, "structure_")


@pytest.mark.parametrize("kind", ["normal", "log-normal", "counts"])
def test_a_column_without_variance_changes_nothing(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + 5.0 * (np.arange(90) % 2)[:, None]
    wide = np.c_[X[:, :1], np.full(90, 3.0), X[:, 1:]]
    plain = settled(MixedMixture(3, random_state=0)).fit(X)
    model = settled(MixedMixture(3, columns={1: kind}, random_state=0)).fit(wide)
    np.testing.assert_allclose(model.memberships_, plain.memberships_, atol=stopped(plain))
    np.testing.assert_allclose(model.predict_proba(wide), model.memberships_, atol=1e-12)
    assert model.bic(wide) == pytest.approx(plain.bic(X))
    means = model.parameters_[1]["rate" if kind == "counts" else "mean"]
    np.testing.assert_allclose(means, np.log(3.0) if kind == "log-normal" else 3.0)
    drawn = model.sample(4)[0]
    assert drawn.shape == (4, 3)
