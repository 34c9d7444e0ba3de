"""Warnings point at the user's own line, however deep the call that gives them."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato import EvidenceWarning, FuzzyCMeans, SpectralClustering
from sfumato.array.warn import warn


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
