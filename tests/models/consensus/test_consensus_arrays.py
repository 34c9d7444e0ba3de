"""Arrays of another library get the memberships of NumPy, by the same formulas, where they are."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from sfumato import EvidenceAccumulation, MixtureEnsemble
from sfumato.models.consensus import soft as soft_evidence

strict = pytest.importorskip("array_api_strict")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("evidence", ["families", "mixtures", "cells"])
def test_memberships_and_scores_are_those_of_numpy(evidence, dtype, monkeypatch):
    monkeypatch.setattr(soft_evidence, "ROWS", 64)
    X = make_moons(200, noise=0.03, random_state=0)[0]
    if evidence == "families":
        X = make_blobs(200, 3, centers=2, cluster_std=2.0, random_state=1)[0]
    X = X.astype(dtype)
    ensemble = MixtureEnsemble(8, random_state=0) if evidence == "mixtures" else None
    model = EvidenceAccumulation(2, ensemble=ensemble, random_state=0).fit(X)
    assert model.evidence_ == evidence
    there = strict.asarray(X)
    memberships = model.predict_proba(there)
    assert isinstance(memberships, type(there))
    assert memberships.dtype == there.dtype
    close = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(np.asarray(memberships), model.memberships_, atol=close)
    assert model.score(there) == pytest.approx(model.score(X), abs=close)
    weights = np.linspace(0.5, 2.0, len(X))
    weighted = model.score(there, sample_weight=weights)
    assert weighted == pytest.approx(model.score(X, sample_weight=weights), abs=close)


def test_the_posteriors_of_an_ensemble_are_those_of_numpy():
    X = make_moons(100, noise=0.05, random_state=0)[0]
    ensemble = MixtureEnsemble(4, random_state=0).fit(X)
    there = ensemble.transform(strict.asarray(X))
    np.testing.assert_allclose(np.asarray(there), ensemble.transform(X), atol=1e-12)
