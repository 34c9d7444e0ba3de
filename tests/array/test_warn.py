"""Warnings point at the user's own line, however deep the call that gives them."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sfumato
from sfumato import EvidenceWarning, FuzzyCMeans, GaussianMixture, SpectralClustering
from sfumato.array.warn import warn
from sfumato.models import MODELS


def caught(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert found
    return found


def test_a_direct_call_points_here():
    (found,) = caught(lambda: warn("odd"))
    assert found.filename == __file__
    assert found.category is EvidenceWarning


X = np.repeat(np.arange(3.0), 5)[:, None] + [0.0, 1.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: FuzzyCMeans(4, max_iter=1, tol=0, random_state=0).fit(X),
        lambda: FuzzyCMeans(4, max_iter=1, tol=0, random_state=0).fit_predict(X),
        lambda: make_pipeline(
            StandardScaler(), FuzzyCMeans(4, max_iter=1, tol=0, random_state=0)
        ).fit(X),
        lambda: SpectralClustering(2, similarity="precomputed", random_state=0).fit(np.eye(6)),
    ],
    ids=["fit", "fit_predict", "pipeline", "deep"],
)
def test_warnings_of_nested_fits_point_at_the_caller(call):
    assert {found.filename for found in caught(call)} == {__file__}


def test_a_grid_of_settings_shows_one_line_for_one_cause():
    """Also if the filters change in between, at which Python forgets what it has shown."""
    X = load_iris().data
    notes = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        shown = []
        warnings.showwarning = lambda *given, **_: shown.append(str(given[0]))
        for family in ("full", "tied", "diag", "spherical"):
            for k in (2, 3, 4, 5, 6):
                model = GaussianMixture(k, covariance_type=family, n_init=1, random_state=0).fit(X)
                notes.append(len(model.notes_))
                warnings.filterwarnings("ignore", "nothing")
        GaussianMixture(6, n_init=1, random_state=0).fit(X)
    kinds = [re.sub(r"[\d.]+", "", text) for text in shown]
    assert len(kinds) == len(set(kinds[:-1])) + 1  # the last fit stands in a line of its own
    assert sum(notes) > 10  # everything that was not shown


def test_whoever_asks_for_all_warnings_gets_all():
    found = caught(lambda: [warn(f"odd {number}") for number in range(3)])
    assert [str(each.message) for each in found] == ["odd 0", "odd 1", "odd 2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(EvidenceWarning):
                warn("odd")


CLUSTERERS = [model.name for model in MODELS if model.command and "features" in model.evidence]


@pytest.mark.parametrize("name", sorted({*CLUSTERERS} - {"DiscriminativeClustering"}))
def test_a_default_fit_of_iris_shows_at_most_one_line(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(sfumato, name)().fit(load_iris().data)
    assert len(caught) <= 1, [str(each.message) for each in caught]
