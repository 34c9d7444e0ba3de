"""What every estimator says: about memory, empty clusters, and in its notes."""

import warnings

import numpy as np
import pytest

from sfumato import (
    EvidenceAccumulation,
    EvidenceWarning,
    FuzzyCMeans,
    GaussianMixture,
    MemoryBudgetError,
    SpectralClustering,
)
from sfumato.array.validation import SHARE


@pytest.mark.parametrize(("share", "offered"), [(1.0, True), (0.95, False)])
def test_float32_is_offered_only_where_it_fits_with_the_array_it_makes(share, offered, monkeypatch):
    """Memberships of half the bytes, labels, and the array itself in four bytes a number."""
    n, p, k = 2000, 10, 50
    needed = 4 * n * p + 4 * n * k + 8 * n
    budget = int(share * needed / SHARE) + 1
    monkeypatch.setenv("SFUMATO_MEMORY_BUDGET", str(budget))
    with pytest.raises(MemoryBudgetError, match="FuzzyCMeans.fit would take") as error:
        FuzzyCMeans(k).fit(np.zeros((n, p)))
    assert ("astype('float32')" in str(error.value)) is offered


TWO_POINTS = np.repeat([[0.0, 0.0], [5.0, 5.0]], 20, axis=0)


@pytest.mark.parametrize("kind", [EvidenceAccumulation, GaussianMixture, SpectralClustering])
def test_a_fit_with_empty_clusters_says_something(kind):
    with pytest.warns(EvidenceWarning) as said:
        model = kind(3, random_state=0).fit(TWO_POINTS)
    assert set(np.bincount(model.labels_, minlength=3)) == {20, 0}
    assert model.notes_ == tuple(dict.fromkeys(str(each.message) for each in said))
    if kind is GaussianMixture:
        assert model.notes_[0].startswith("only 2 of the 3 clusters are the main cluster")


def test_notes_are_those_of_the_last_fit_shown_or_not():
    X = np.repeat(np.arange(3.0), 30)[:, None] + np.random.default_rng(0).normal(0, 0.1, (90, 2))
    model = GaussianMixture(6, covariance_type="spherical", random_state=0)
    with warnings.catch_warnings(action="ignore", category=EvidenceWarning):
        assert any("try fewer clusters" in note for note in model.fit(X).notes_)
    assert model.set_params(n_clusters=3).fit(X).notes_ == ()
