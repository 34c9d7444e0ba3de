"""Columns of dates, lists and the like are refused by name, those of numbers and words are not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sfumato import EvidenceAccumulation, FuzzyCMeans, GaussianMixture, SpectralClustering
from sfumato.data.features import held_by, refuse_non_numbers

pd = pytest.importorskip("pandas")
N = 30
STRANGE = {
    "datetime64[": pd.date_range("2020", periods=N),
    "datetime64": pd.date_range("2020", periods=N, tz="UTC"),
    "period[D]": pd.period_range("2020", periods=N),
    "date,": [None, *pd.date_range("2020", periods=N - 1).date],
    "timedelta64[": pd.to_timedelta(np.arange(N), unit="D"),
    "list,": [[1]] * N,
    "dict,": [{"a": 1}] * N,
}


def frame(column):
    return pd.DataFrame({"a": np.arange(float(N)), "strange": column})


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize(
    "model", [FuzzyCMeans(2), GaussianMixture(2), EvidenceAccumulation(2), SpectralClustering(2)]
)
def test_strange_columns_are_named(kind, model):
    words = re.escape(f"X, column 'strange' holds values of type {kind}")
    with pytest.raises(TypeError, match=words) as caught:
        model.fit(frame(STRANGE[kind]))
    assert type(model).__name__ in str(caught.value)
    assert not hasattr(model, "memberships_")


def test_arrays_of_dates_are_refused():
    with pytest.raises(TypeError, match="X holds values of type datetime64"):
        FuzzyCMeans(2).fit(np.arange("2020-01", "2020-03", dtype="M8[D]")[:, None])


def test_polars_columns_are_named():
    pl = pytest.importorskip("polars")
    for column, kind in ((STRANGE["datetime64["], "Datetime"), ([[1]] * N, "List")):
        with pytest.raises(TypeError, match=f"column 'strange' holds values of type {kind}"):
            refuse_non_numbers(pl.DataFrame({"a": np.ones(N), "strange": column}), "X", "a model")


@pytest.mark.parametrize(
    "column",
    [np.arange(N), ["u"] * N, [True] * N, [None] * N, pd.Categorical(["u"] * N), [1 + 2j] * N],
)
def test_numbers_and_words_pass(column):
    refuse_non_numbers(frame(column), "X", "a model")


def test_types_of_other_libraries():
    assert held_by("timestamp[ns][pyarrow]")
    assert held_by("Duration(time_unit='us')")
    assert held_by("Float64") is None
