"""Placing objects by array operations gives the memberships of the host."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from sfumato import EvidenceAccumulation, MixtureEnsemble
from sfumato.models.consensus import device

strict = pytest.importorskip("array_api_strict")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("evidence", ["components", "mixtures", "cells"])
def test_array_operations_place_objects_as_the_host_does(evidence, monkeypatch):
    monkeypatch.setattr(device, "ROWS", 64)
    X = make_moons(200, noise=0.05, random_state=0)[0]
    if evidence == "components":
        X = make_blobs(200, 3, centers=2, cluster_std=2.0, random_state=1)[0]
    ensemble = MixtureEnsemble(8, random_state=0) if evidence == "mixtures" else None
    model = EvidenceAccumulation(2, ensemble=ensemble, random_state=0).fit(X)
    assert model.evidence_ == evidence
    there = model._soft(strict.asarray(X.astype(np.float64)))
    np.testing.assert_allclose(np.asarray(there), model.memberships_, atol=1e-9)
