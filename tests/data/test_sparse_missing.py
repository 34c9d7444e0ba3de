"""Sparse features hold no missing values, whoever reads them."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato import (
    DirectionalMixture,
    DirichletProcessMixture,
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    SpectralClustering,
)

MODELS = [
    DirectionalMixture,
    DirichletProcessMixture,
    EvidenceAccumulation,
    FuzzyCMeans,
    GaussianMixture,
    SpectralClustering,
]


@pytest.mark.parametrize("model", MODELS)
def test_missing_values_in_sparse_features_are_named(model):
    X = np.random.default_rng(0).normal(size=(30, 3)) + 9 * (np.arange(30) % 2)[:, None]
    missing = sp.csr_array(X)
    missing.data[0] = np.nan
    with pytest.raises(ValueError, match="X is sparse and contains NaN"):
        model(2, random_state=0).fit(missing)
    with pytest.raises(ValueError, match="X is sparse and contains NaN"):
        model(2, random_state=0).fit(X).predict_proba(missing)
