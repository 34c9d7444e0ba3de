"""What the report says the clusters are is what a slow loop over objects finds."""

import warnings

import numpy as np
import pandas as pd
import pytest

from sfumato import report
from sfumato.report._description import _condition, as_columns, contrasts, rules, sentence


def soft(n, k, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(k, 0.3), size=n)


def test_numbers_against_a_slow_loop():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(30, 4)) * [1, 10, 100, 0.1] + 50, soft(30, 3)
    X[3, 1] = X[7, 1] = np.nan
    for cluster, group in enumerate(report.profiles(X, U)):
        assert [p.separation for p in group] == sorted((p.separation for p in group), reverse=True)
        for profile in group:
            j = int(profile.column.split()[1])
            seen = ~np.isnan(X[:, j])
            x, u = X[seen, j], U[seen, cluster]
            inner, outer = np.average(x, weights=u), np.average(x, weights=1 - u)
            spreads = [np.average((x - m) ** 2, weights=w) for m, w in ((inner, u), (outer, 1 - u))]
            assert profile.value == pytest.approx(inner)
            assert profile.overall == pytest.approx(x.mean())
            assert profile.difference == pytest.approx((inner - x.mean()) / x.std())
            expected = abs(inner - outer) / np.sqrt(np.mean(spreads))
            assert profile.separation == pytest.approx(expected)


def test_categories_are_shares():
    frame = pd.DataFrame({"kind": ["a", "a", "b", "b", None, "c"], "x": [1.0] * 6})
    U = np.eye(2)[[0, 0, 1, 1, 1, 1]]
    first, second = report.profiles(frame, U)
    assert (first[0].column, first[0].level, first[0].value) == ("kind", "a", 1.0)
    assert first[0].overall == pytest.approx(0.4)
    assert second[0].value == 0.0
    assert sentence(first).startswith("Always kind a (100% against 40%)")
    assert "Never kind a" in sentence(second)
    assert first[1].separation == 0.0


def test_one_cluster_has_nothing_to_tell():
    group = report.profiles([[1.0], [2.0], [4.0]], np.ones((3, 1)))[0]
    assert group[0].separation == 0.0
    assert sentence(group) == "Close to the average in every column"


@pytest.mark.parametrize("shift, scale", [(0.0, 1.0), (1e8, 1.0), (5.0, 1e-6)])
def test_units_change_nothing(shift, scale):
    X, U = np.random.default_rng(1).normal(size=(40, 2)), soft(40, 2)
    plain, moved = (report.profiles(Z, U)[0] for Z in (X, X * scale + shift))
    assert [p.column for p in plain] == [p.column for p in moved]
    np.testing.assert_allclose(
        [p.separation for p in plain], [p.separation for p in moved], rtol=1e-4
    )


def test_rows_must_match():
    with pytest.raises(ValueError, match="3 rows where memberships have 4"):
        report.profiles(np.ones((3, 1)), soft(4, 2))
    with pytest.raises(ValueError, match="columns must name 1 columns, got 2"):
        report.profiles(np.ones((4, 1)), soft(4, 2), columns=["a", "b"])


def test_the_tree_says_what_made_the_labels():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"size": rng.uniform(0, 10, 300), "kind": rng.choice(["a", "b", "c"], 300)}
    )
    labels = np.where(frame["kind"] == "a", 2, (frame["size"] > 4).astype(int))
    found = rules(as_columns(frame), labels)
    assert found["accuracy"] == 1.0
    said = {tuple(sorted(rule["conditions"])): rule["cluster"] for rule in found["rules"]}
    assert said[("kind is a",)] == 2
    assert all(c[0] == "kind is not a" and "size" in c[1] for c in said if len(c) == 2)
    assert sum(rule["objects"] for rule in found["rules"]) == 300
    assert rules(as_columns(frame), np.zeros(300, dtype=int)) is None


def test_the_page_tells_what_the_clusters_are():
    from sfumato import FuzzyCMeans

    rng = np.random.default_rng(3)
    group = np.arange(60) % 2
    frame = pd.DataFrame({"<b>size": rng.normal(6 * group), "age": rng.normal(size=60)})
    model = FuzzyCMeans(2, random_state=0).fit(frame)
    facts = report.Facts(notes=["columns are standardised"])
    page = report.render(model, frame, facts=facts)
    assert page.index("The answer") < page.index("What the answer rests on")
    assert "Columns are standardised." in page
    assert "ery high &lt;b&gt;size" in page
    assert "<b>size" not in page
    assert "A small decision tree gives" in page
    assert "Across: &lt;b&gt;size. Up: age." in page
    wide = report.render(model, np.column_stack([frame, frame[["age"]] ** 2]))
    assert "Across: first principal axis (" in wide


def test_sparse_and_wide_arrays():
    import scipy.sparse as sp

    X = sp.random_array((50, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    found = report.describe(X, soft(50, 2))
    assert len(found["columns"]) == 8
    assert len(found["rows"]) == 50


def test_a_single_row_is_described_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = report.describe(np.array([[1.0, 2.0]]), np.ones((1, 1)))
    assert found["rows"] == [["1", "2"]]
    assert found["plane"] is None  # no columns tell one cluster from others


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [(["x", "y"], "string"), ([True, False], "boolean"), ([1, 2], "Int64"), ([0.5, 2], "Float64")],
)
def test_na_of_nullable_columns_is_missing(cells, dtype):
    table = pd.DataFrame({"a": np.arange(30.0), "c": pd.array([*cells, None] * 10, dtype=dtype)})
    assert report.describe(table, soft(30, 2))["missing"] == {"c": 10}


def test_columns_called_by_a_number_are_called_columns():
    X, U = np.array([[1.0, 5e4], [1.2, 5e4], [9.0, 7e4], [9.4, 7e4]]), np.eye(2)[[0, 0, 1, 1]]
    words = sentence(report.profiles(X, U, columns=["303", "income"])[1])
    assert "very high column 303 (9.20 against 5.15 overall)" in words.lower()
    assert "income (70,000 against 60,000 overall)" in words
    assert _condition("303", False, -np.inf, 5e4) == "column 303 at most 50,000"
    assert _condition("kind=a", True, 0.5, np.inf) == "kind is a"
    assert _condition("7=a", True, -np.inf, 0.5) == "column 7 is not a"


def test_contrasts_are_means_and_shares_of_every_cluster(rng):
    group = np.arange(90) % 3
    frame = pd.DataFrame({"x": rng.normal(4 * group), "kind": np.array(["a", "b", "b"])[group]})
    found = {c.name: c for c in contrasts(as_columns(frame), np.eye(3)[group], 9)}
    np.testing.assert_allclose(found["x"].values, frame.groupby(group)["x"].mean())
    np.testing.assert_allclose(found["x"].spreads, frame.groupby(group)["x"].std(ddof=0))
    np.testing.assert_allclose(found["kind = a"].values, [1, 0, 0], atol=1e-12)
    assert found["x"].overall == pytest.approx(frame["x"].mean())


def test_sentences_say_something():
    part = report.ColumnProfile("x", "number", None, 140.2, 139.8, 0.6, 0.9)
    assert sentence([part]) == "High x (140.2 against 139.8 overall)"
    assert sentence([part._replace(overall=-1e-6)]) == "High x (140 against 0 overall)"
    assert sentence([part._replace(value=139.8)]) == "Close to the average in every column"
    day = part._replace(kind="date", value=18_262.0, overall=18_000.0)
    assert sentence([day]) == "Late x (2020-01-01 against 2019-04-14)"


def test_zeros_and_ones_are_told_as_shares(rng):
    sex = np.repeat([0.0, 1.0], 40)
    X = np.column_stack([sex, sex + rng.normal(0, 0.1, 80)])
    U = np.column_stack([1 - sex, sex])
    U[0], U[1, :] = U[1], [0.5, 0.5]
    told = sentence(report.profiles(X, U, columns=["sex", "size"])[1])
    assert "mostly sex 1 (99% against 50%)" in told.lower()
    described = report.describe(X, U, columns=["sex", "size"])
    assert described["plane"] is None  # one column of amounts is left


def test_a_ratio_tells_what_no_column_tells_alone(rng):
    size, group = np.exp(rng.normal(2, 0.5, 200)), np.arange(200) % 2
    width = size * np.where(group, 0.5, 0.4) * np.exp(rng.normal(0, 0.02, 200))
    columns, U = ["length", "width"], np.eye(2)[group]
    told = report.describe(np.column_stack([size, width]), U, columns=columns)["clusters"]
    assert [each["columns"][0]["column"] for each in told] == ["length / width"] * 2
    assert told[0]["sentence"].startswith("Very high length / width (2.50 against 2.2")
    told = report.describe(np.column_stack([size, width - 9]), U, columns=columns)["clusters"]
    assert told[0]["columns"][0]["column"] in columns  # no ratios with negative numbers
